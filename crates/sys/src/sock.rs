// SPDX-License-Identifier: BSD-2-Clause
//! Listening sockets and their names.
//!
//! A TCP address gets a group of sockets, one per runtime. The first is bound without SO_REUSEPORT, so that a second
//! instance is refused with EADDRINUSE; then the option is set on it and the other members are bound.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};

/// Errno of an address family that this machine doesn't have (EAFNOSUPPORT).
pub const NO_SUCH_FAMILY: i32 = libc::EAFNOSUPPORT;

/// The longest path of a Unix-domain socket, in bytes.
pub const LONGEST_UNIX_PATH: usize = 107;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketName {
    Inet(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for SocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// True if a socket that listens on `listener` gets connections to `address`, one of this host's.
pub fn takes(listener: SocketAddr, address: SocketAddr) -> bool {
    let is_any = listener.ip().is_unspecified() && listener.is_ipv4() == address.is_ipv4();
    listener.port() == address.port() && (is_any || listener.ip() == address.ip())
}

/// True if an address is one of this host's. No packet is sent.
pub fn is_own_address(ip: IpAddr) -> bool {
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // The kernel reaches an address of its own from that address. To bind it would prove nothing: ip_nonlocal_bind allows any.
    let source = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((ip, DISCARD_PORT))?;
        socket.local_addr()
    };
    ip.is_loopback() || source().is_ok_and(|source| source.ip() == ip)
}

/// A port for sockets that send nothing.
const DISCARD_PORT: u16 = 9;

/// Binds `members` (at least 1) TCP sockets to one address. Port 0 picks a free port, the same for all. They don't listen
/// yet. The flag IPV6_V6ONLY is set on IPv6 sockets, as separate sockets serve IPv4.
pub fn bind_tcp_group(addr: SocketAddr, members: usize) -> io::Result<Vec<OwnedFd>> {
    let first = tcp_socket(addr)?;
    first.bind(&addr.into())?;
    let bound = first.local_addr()?;
    let mut group = Vec::with_capacity(members.max(1));
    if members > 1 {
        // Only from here on may others of our user share the address.
        first.set_reuse_port(true)?;
    }
    group.push(OwnedFd::from(first));
    for _ in 1..members {
        let member = tcp_socket(addr)?;
        member.set_reuse_port(true)?;
        member.bind(&bound)?;
        group.push(member.into());
    }
    Ok(group)
}

fn tcp_socket(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    Ok(socket)
}

/// Sets TCP_DEFER_ACCEPT on a listening socket: connections on which nothing has come for so many seconds are shown to
/// nobody before that; 0 shows them at once.
pub fn set_defer_accept(listener: impl AsFd, seconds: u16) -> io::Result<()> {
    let seconds = libc::c_int::from(seconds);
    // SAFETY: the kernel reads one int from a living variable of that size.
    let done = unsafe {
        libc::setsockopt(
            listener.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The path as the kernel takes it. `@name` is a socket in the abstract namespace, which has no file.
pub fn unix_path(path: &Path) -> PathBuf {
    match path.as_os_str().as_bytes() {
        [b'@', name @ ..] => OsStr::from_bytes(&[b"\0", name].concat()).into(),
        _ => path.to_owned(),
    }
}

/// Binds a Unix-domain socket, replacing a socket file that is there already, and sets its owner and mode when asked.
pub fn bind_unix(path: &Path, uid: Option<u32>, gid: Option<u32>, mode: Option<u32>) -> io::Result<OwnedFd> {
    let addr = SockAddr::unix(unix_path(path))?;
    if path.as_os_str().as_bytes().starts_with(b"@") {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&addr)?;
        return Ok(socket.into());
    }
    match std::fs::symlink_metadata(path) {
        Ok(meta) if std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()) => std::fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::from_raw_os_error(libc::EADDRINUSE)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&addr)?;
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    if uid.is_some() || gid.is_some() {
        crate::user::chown(path, uid, gid)?;
    }
    Ok(socket.into())
}

/// Starts listening (again, to change the depth).
pub fn listen(fd: impl AsFd, depth: i32) -> io::Result<()> {
    SockRef::from(&fd).listen(depth)
}

/// Takes a waiting connection, close-on-exec; None when there is none and the listener is nonblocking.
pub fn accept(fd: impl AsFd) -> io::Result<Option<(OwnedFd, SocketName)>> {
    match SockRef::from(&fd).accept() {
        Ok((socket, addr)) => Ok(Some((socket.into(), name_of(&addr)?))),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

pub fn connect_tcp(addr: SocketAddr, timeout: std::time::Duration) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.connect_timeout(&addr.into(), timeout)?;
    Ok(socket.into())
}

/// Starts a nonblocking TCP connection; it is made (or has failed, see `take_error`) when the socket is writable.
pub fn start_connect_tcp(addr: SocketAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&addr.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(e) => return Err(e),
    }
    Ok(socket.into())
}

pub fn take_error(fd: impl AsFd) -> io::Result<Option<io::Error>> {
    SockRef::from(&fd).take_error()
}

pub fn local_name(fd: impl AsFd) -> io::Result<SocketName> {
    name_of(&SockRef::from(&fd).local_addr()?)
}

pub fn peer_name(fd: impl AsFd) -> io::Result<SocketName> {
    name_of(&SockRef::from(&fd).peer_addr()?)
}

fn name_of(addr: &SockAddr) -> io::Result<SocketName> {
    if let Some(inet) = addr.as_socket() {
        return Ok(SocketName::Inet(inet));
    }
    if addr.is_unix() {
        let path = match addr.as_abstract_namespace() {
            Some(name) => OsStr::from_bytes(&[b"@", name].concat()).into(),
            None => addr.as_pathname().map(Path::to_path_buf).unwrap_or_default(),
        };
        return Ok(SocketName::Unix(path));
    }
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abstract_socket_has_a_name_and_no_file() {
        let name = PathBuf::from(format!("@lacquer-sock-test-{}", std::process::id()));
        let socket = bind_unix(&name, None, None, None).unwrap();
        assert_eq!(local_name(&socket).unwrap(), SocketName::Unix(name.clone()));
        assert_eq!(bind_unix(&name, None, None, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(unix_path(Path::new("/a/@b")), Path::new("/a/@b"));
    }

    #[test]
    fn a_unix_socket_has_the_mode_asked_for_and_replaces_only_sockets() {
        let path = std::env::temp_dir().join(format!("lacquer-sock-{}", std::process::id()));
        for _ in 0..2 {
            let socket = bind_unix(&path, None, None, Some(0o640)).unwrap();
            assert_eq!(local_name(&socket).unwrap(), SocketName::Unix(path.clone()));
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        assert!(bind_unix(&path, None, None, None).is_err());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_second_group_on_the_same_address_is_refused() {
        let group = bind_tcp_group("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        for fd in &group {
            listen(fd, 16).unwrap();
        }
        let SocketName::Inet(addr) = local_name(&group[2]).unwrap() else { panic!("TCP has an inet name") };
        let error = bind_tcp_group(addr, 3).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
    }
}
