//! Where the agent serves metrics and its status.

use std::net::SocketAddr;

use keyfob_api::document::Position;

use super::{Fields, Reader, number, text};
use crate::config::{HttpListenerConfig, SocketConfig};

/// The permissions of the socket for metrics, unless the file says otherwise.
const HTTP_MODE: u32 = 0o600;

impl Reader {
    /// An address or a socket, and not both.
    pub(super) fn http(&mut self, mut fields: Fields, at: Position) -> Option<HttpListenerConfig> {
        let address_at = fields.get("address").map(|checked| checked.at);
        let mode_at = fields.get("mode").map(|checked| checked.at);
        let mode = number(&mut fields, "mode").and_then(|mode| u32::try_from(mode).ok());
        match (text(&mut fields, "address"), text(&mut fields, "path")) {
            (Some(address), None) => {
                if mode_at.is_some() {
                    let message = "only a socket has permissions: this field has no effect";
                    let help = Some("remove it, or write path instead of address".to_owned());
                    self.report(mode_at, "listeners.http.mode", message, help);
                }
                self.loopback(&address, address_at).map(HttpListenerConfig::Address)
            }
            (None, Some(path)) => {
                let mode = mode.unwrap_or(HTTP_MODE);
                Some(HttpListenerConfig::Socket(SocketConfig { path: path.into(), mode }))
            }
            (Some(_), Some(_)) => {
                let message = "the listener has both an address and a path";
                let help = Some("remove one of them".to_owned());
                self.report(address_at.or(Some(at)), "listeners.http", message, help);
                None
            }
            (None, None) => {
                let message = "the listener has neither an address nor a path";
                let help = Some("add `address: 127.0.0.1:9977`".to_owned());
                self.report(Some(at), "listeners.http", message, help);
                None
            }
        }
    }

    fn loopback(&mut self, text: &str, at: Option<Position>) -> Option<SocketAddr> {
        let help = || Some("write `address: 127.0.0.1:9977`, or a path".to_owned());
        let Ok(address) = text.parse::<SocketAddr>() else {
            let message = format!("{text:?} is not an IP address with a port");
            self.report(at, "listeners.http.address", message, help());
            return None;
        };
        if !address.ip().is_loopback() {
            let message = format!("{} is not a loopback address", address.ip());
            self.report(at, "listeners.http.address", message, help());
            return None;
        }
        Some(address)
    }
}
