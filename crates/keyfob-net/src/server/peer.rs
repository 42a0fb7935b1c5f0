//! Who counts as one client.

use std::{fmt, net::IpAddr};

/// The clients that share one part of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// An IPv4 address, or the /64 network of an IPv6 address: whoever has one address of it usually has them all.
    Address(IpAddr),
    /// A user of this machine, at a socket of the file system.
    User(u32),
    /// The system does not say who it is.
    Unknown,
}

impl Peer {
    /// An IPv4 address that is mapped into IPv6, as a dual-stack listener reports it, counts as the IPv4 address.
    pub(super) fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                Self::Address(IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()))
            }
            v4 @ IpAddr::V4(_) => Self::Address(v4),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(v4 @ IpAddr::V4(_)) => write!(f, "{v4}"),
            Self::Address(v6 @ IpAddr::V6(_)) => write!(f, "{v6}/64"),
            Self::User(uid) => write!(f, "uid {uid}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_peer_and_mapped_ipv4_addresses_are_many() {
        let peer = |address: &str| Peer::of_address(address.parse().unwrap()).to_string();
        assert_eq!(peer("2001:db8:1:2:3::4"), "2001:db8:1:2::/64");
        assert_eq!(peer("2001:db8:1:2:ffff::5"), "2001:db8:1:2::/64");
        assert_ne!(peer("2001:db8:1:3::4"), peer("2001:db8:1:2::4"));
        assert_eq!(peer("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(peer("192.0.2.2"), "192.0.2.2");
    }
}
