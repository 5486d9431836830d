// SPDX-License-Identifier: BSD-2-Clause
//! The server's own listeners, with which the checker compares backends.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sys::sock;
use vcl::program::BackendAddress;

/// The listeners, each as `name=address` or `name=/path`.
#[derive(Debug)]
pub struct OwnListeners<'a> {
    pub list: &'a [String],
    pub prefer_ipv6: bool,
}

impl OwnListeners<'_> {
    /// Name and address of the listener that gets the connections to a backend.
    pub fn find(&self, backend: &BackendAddress) -> Option<String> {
        let listeners = || self.list.iter().filter_map(|listener| listener.split_once('='));
        let found = match backend {
            BackendAddress::Inet { v4, v6, .. } => {
                let [first, second] = if self.prefer_ipv6 { [v6, v4] } else { [v4, v6] };
                let target = on_this_host(first.or(*second)?)?;
                let takes = |address: &str| address.parse().is_ok_and(|listener| sock::takes(listener, target));
                listeners().find(|(_, address)| takes(address))
            }
            BackendAddress::Unix(path) => listeners().find(|(_, address)| is_same_socket(path, Path::new(address))),
            BackendAddress::None => None,
        };
        found.map(|(name, address)| format!("{name} ({address})"))
    }
}

/// The address that a connection is made to, if it is one of this host's.
fn on_this_host(target: SocketAddr) -> Option<SocketAddr> {
    // A connection to no address in particular goes to the loopback interface.
    let ip = match target.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    sock::is_own_address(ip).then(|| SocketAddr::new(ip, target.port()))
}

/// True if two paths lead to the same socket, through links or not.
fn is_same_socket(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    other.is_absolute() && (one == other || identity(one).is_some_and(|file| Some(file) == identity(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(addresses: &[&str]) -> BackendAddress {
        let parsed = || addresses.iter().map(|address| address.parse::<SocketAddr>().unwrap());
        let (v4, v6) = (parsed().find(SocketAddr::is_ipv4), parsed().find(SocketAddr::is_ipv6));
        BackendAddress::Inet { host: String::new(), port: None, v4, v6, name: None }
    }

    #[track_caller]
    fn check(listener: &str, backend: &[&str], is_own: bool) {
        let list = ["other=127.0.0.1:1".to_owned(), format!("a0={listener}")];
        let found = OwnListeners { list: &list, prefer_ipv6: false }.find(&inet(backend));
        assert_eq!(found, is_own.then(|| format!("a0 ({listener})")), "{listener} {backend:?}");
    }

    #[test]
    fn a_listener_of_one_address() {
        check("127.0.0.1:80", &["127.0.0.1:80"], true);
        check("127.0.0.1:80", &["127.0.0.1:81"], false);
        check("127.0.0.1:80", &["127.0.0.2:80"], false);
        check("127.0.0.1:80", &["192.0.2.1:80"], false);
        check("127.0.0.1:80", &["0.0.0.0:80"], true);
        check("127.0.0.1:80", &["[::ffff:127.0.0.1]:80"], true);
        check("[::1]:80", &["[::1]:80"], true);
        check("[::1]:80", &["127.0.0.1:80"], false);
    }

    #[test]
    fn a_listener_of_all_addresses() {
        check("0.0.0.0:80", &["127.0.0.1:80"], true);
        check("0.0.0.0:80", &["127.0.0.77:80"], true);
        check("0.0.0.0:80", &["127.0.0.1:8080"], false);
        check("0.0.0.0:80", &["[::1]:80"], false);
        // RFC 5737: no host has these addresses.
        check("0.0.0.0:80", &["192.0.2.1:80"], false);
        check("[::]:80", &["[::1]:80"], true);
        check("[::]:80", &["[2001:db8::1]:80"], false);
    }

    #[test]
    fn a_host_of_two_addresses_is_what_is_tried_first() {
        let both = ["127.0.0.1:80", "[::1]:80"];
        check("127.0.0.1:80", &both, true);
        check("[::1]:80", &both, false);
        let list = ["a0=[::1]:80".to_owned()];
        assert!(OwnListeners { list: &list, prefer_ipv6: true }.find(&inet(&both)).is_some());
    }

    #[test]
    fn a_unix_socket_by_any_name() {
        let dir = std::env::temp_dir().join(format!("lacquer-own.{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let (socket, link) = (dir.join("socket"), dir.join("link"));
        let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        let list = [format!("a0={}", socket.display()), "a1=127.0.0.1:80".to_owned()];
        let found =
            |path: &Path| OwnListeners { list: &list, prefer_ipv6: false }.find(&BackendAddress::Unix(path.into()));
        let all = [found(&socket), found(&link), found(&dir.join("other"))].map(|found| found.is_some());
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(all, [true, true, false]);
    }
}
