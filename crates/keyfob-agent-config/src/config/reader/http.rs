//! Where the agent serves metrics and its status.

use std::net::SocketAddr;

use keyfob_api::document::Position;

use super::{Fields, Reader, number, text};
use crate::config::SocketConfig;

/// The permissions of the socket for metrics, unless the file says otherwise.
const HTTP_MODE: u32 = 0o600;

impl Reader {
    /// An address, a socket, or both.
    pub(super) fn http(
        &mut self,
        mut fields: Fields,
        at: Position,
    ) -> (Option<SocketAddr>, Option<SocketConfig>) {
        let address_at = fields.get("address").map(|checked| checked.at);
        let mode_at = fields.get("mode").map(|checked| checked.at);
        let mode = number(&mut fields, "mode").and_then(|mode| u32::try_from(mode).ok());
        let (address, path) = (text(&mut fields, "address"), text(&mut fields, "path"));
        if address.is_none() && path.is_none() {
            let message = "the listener has neither an address nor a path";
            let help = Some("add `address: 127.0.0.1:9977`".to_owned());
            self.report(Some(at), "listeners.http", message, help);
        } else if path.is_none() && mode_at.is_some() {
            let message = "only a socket has permissions: this field has no effect";
            let help = Some("remove it, or add the path of a socket".to_owned());
            self.report(mode_at, "listeners.http.mode", message, help);
        }
        let address = address.and_then(|address| self.loopback(&address, address_at));
        let mode = mode.unwrap_or(HTTP_MODE);
        (address, path.map(|path| SocketConfig { path: path.into(), mode }))
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
