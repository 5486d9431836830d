// SPDX-License-Identifier: BSD-2-Clause
//! The process that holds a port of this machine, by /proc: for the message that an address is taken.

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketProtocol {
    /// The sockets that listen.
    Tcp,
    /// All that are bound.
    Udp,
}

/// A process. As messages have it: `nginx (process 1234)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Name of its first thread, at most 15 bytes.
    pub name: String,
    pub pid: u32,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// The process that keeps others from binding `address`. `None`: nobody does, or /proc doesn't show it: descriptors of other users' processes
/// are for root alone, and other network namespaces have tables of their own.
pub fn of(address: SocketAddr, protocol: SocketProtocol) -> Option<Holder> {
    let (names, state) = match protocol {
        SocketProtocol::Tcp => (["tcp", "tcp6"], "0A"),
        SocketProtocol::Udp => (["udp", "udp6"], "07"),
    };
    let inode = names.iter().find_map(|name| {
        let table = fs::read_to_string(format!("/proc/net/{name}")).ok()?;
        table.lines().skip(1).find_map(|line| inode_of(line, address, state).map(str::to_owned))
    })?;
    let wanted = format!("socket:[{inode}]");
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let mut fds = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        fds.find(|fd| fs::read_link(fd.path()).is_ok_and(|link| link.as_os_str() == wanted.as_str()))?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        Some(Holder { name: name.trim_end().to_owned(), pid })
    })
}

/// The inode of a line of /proc/net/tcp and its like, if its socket is in this state and takes the address (proc_pid_net(5)).
fn inode_of<'l>(line: &'l str, address: SocketAddr, state: &str) -> Option<&'l str> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (ip, port) = words.get(1)?.split_once(':')?;
    let is_any = address.ip().is_unspecified() || ip.bytes().all(|c| c == b'0');
    let is_same = u16::from_str_radix(port, 16) == Ok(address.port()) && (is_any || ip == hex(address.ip()));
    (is_same && words.get(3) == Some(&state)).then(|| words.get(9).copied())?
}

/// An address in these tables: words of 32 bits as the machine has them in memory.
fn hex(ip: IpAddr) -> String {
    let octets = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = octets.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word));
    words.map(|word| format!("{word:08X}")).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn this_process_holds_what_it_has_bound() {
        let me = Some(std::process::id());
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let tcp = TcpListener::bind(any).unwrap();
            let udp = UdpSocket::bind(any).unwrap();
            assert_eq!(of(tcp.local_addr().unwrap(), SocketProtocol::Tcp).map(|holder| holder.pid), me, "{any}");
            assert_eq!(of(udp.local_addr().unwrap(), SocketProtocol::Udp).map(|holder| holder.pid), me, "{any}");
        }
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        assert_eq!(of(SocketAddr::from(([127, 0, 0, 1], port)), SocketProtocol::Tcp).map(|holder| holder.pid), me);
        drop(tcp);
        assert_eq!(of(SocketAddr::from(([127, 0, 0, 1], port)), SocketProtocol::Tcp), None);
    }

    #[test]
    fn lines_of_the_table() {
        let line =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000";
        let inode = |address: &str| inode_of(line, address.parse().unwrap(), "0A");
        assert_eq!((inode("127.0.0.1:8080"), inode("0.0.0.0:8080")), (Some("4711"), Some("4711")));
        assert_eq!((inode("127.0.0.2:8080"), inode("127.0.0.1:8081")), (None, None));
        assert_eq!(inode_of(line, "127.0.0.1:8080".parse().unwrap(), "01"), None);
    }
}
