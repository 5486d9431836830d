// SPDX-License-Identifier: BSD-2-Clause
//! -a: what to listen on. The sockets are bound here, at the start, and kept for the manager's life; connections wait in
//! their backlog while a worker is replaced.

use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cli::handoff::ListenerLayers;
use cli::words;
use sys::holder::{self, SocketProtocol as Ports};
use sys::sock::{self, SocketName};
use sys::user;

use base::text::{bad_port, port_alone};

use crate::fatal::{Fatal, argument, errno_text};
use crate::jail::Jail;
use crate::named;

pub const DEFAULT: &str = ":80";
/// The listeners that it becomes, as the checker reads them.
pub const DEFAULT_LISTENERS: [&str; 2] = ["a0=0.0.0.0:80", "a0=[::]:80"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    user: Option<u32>,
    group: Option<u32>,
    mode: Option<u32>,
}

words!(Permissions { user, group, mode });

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenArg {
    /// `name=`, or a0, a1, ...
    pub name: String,
    pub endpoint: String,
    pub transport: ListenerLayers,
    permissions: Permissions,
}

#[derive(Debug)]
pub struct BoundListener {
    pub name: String,
    pub transport: ListenerLayers,
    pub address: SocketName,
    /// Name in messages: the argument, or the address with the port that was found for port 0.
    pub endpoint: String,
    /// The sockets (more than one for TCP). They listen from the start of the first worker on.
    pub sockets: Vec<OwnedFd>,
    pub(crate) permissions: Permissions,
}

impl BoundListener {
    pub fn is_uds(&self) -> bool {
        matches!(self.address, SocketName::Unix(_))
    }

    /// Binds the same address anew, so that nobody can connect while no worker is wanted: what waits is refused.
    /// On failure there are no sockets, and the next start tries again.
    pub fn reopen(&mut self, jail: &Jail) -> io::Result<()> {
        let bound = std::mem::take(&mut self.sockets).len();
        // QUIC's are two sets, of a worker and its successor.
        let members = if self.transport.is_quic { bound / 2 } else { bound }.max(1);
        self.sockets = jail.privileged(|| match &self.address {
            SocketName::Inet(address) => bind_group(*address, members, self.transport),
            SocketName::Unix(path) => bind_path(path, self.permissions).map(|socket| vec![socket]),
        })?;
        Ok(())
    }

    /// Has them listen with this backlog; binds them first if that failed before.
    pub fn listen(&mut self, depth: i32, jail: &Jail) -> io::Result<()> {
        if self.sockets.is_empty() {
            self.reopen(jail)?;
        }
        if self.transport.is_quic {
            return Ok(());
        }
        self.sockets.iter().try_for_each(|socket| sock::listen(socket, depth))
    }
}

/// Sockets for TCP, or for QUIC's datagrams.
fn bind_group(address: SocketAddr, members: usize, transport: ListenerLayers) -> io::Result<Vec<OwnedFd>> {
    match transport.is_quic {
        true => sys::udp::bind_steered(address, members.min(MAX_QUIC_MEMBERS)),
        false => sock::bind_tcp_group(address, members),
    }
}

/// Sockets among which the first byte of a connection's id can choose, and leave something to chance.
const MAX_QUIC_MEMBERS: usize = 128;

fn bind_path(path: &Path, permissions: Permissions) -> io::Result<OwnedFd> {
    let Permissions { user, group, mode } = permissions;
    sock::bind_unix(path, user, group, mode)
}

/// Parses one argument; `unnamed` counts those without a name.
pub fn parse(spec: &str, unnamed: &mut u32) -> Result<ListenArg, Fatal> {
    let parts = named::parse(spec, "-a")?;
    let name = parts.name.unwrap_or_else(|| {
        *unnamed += 1;
        format!("a{}", *unnamed - 1)
    });
    let endpoint = parts.words[0].clone();
    let is_unix = endpoint.starts_with(['/', '@']);
    if !is_unix && endpoint.contains('/') {
        return argument(format!("Unix domain socket addresses must be absolute paths in -a ({endpoint})"));
    }
    let (mut protocols, mut permissions) = (Vec::new(), Permissions::default());
    for word in &parts.words[1..] {
        match word.split_once('=') {
            None => add_protocol(&mut protocols, word)?,
            Some(_) if !is_unix => {
                return argument(format!("Invalid sub-arg {word} for IP addresses in -a"));
            }
            Some(_) if endpoint.starts_with('@') => {
                return argument(format!("Invalid sub-arg {word} for abstract sockets in -a"));
            }
            Some((key, value)) => permissions.set(word, key, value)?,
        }
    }
    let says = |said: Protocol| protocols.contains(&said);
    if says(Protocol::Quic) && is_unix {
        return argument(format!("QUIC needs UDP, not a Unix domain socket in -a ({endpoint})"));
    }
    let transport = ListenerLayers {
        has_proxy_header: says(Protocol::Proxy),
        is_tls: says(Protocol::Https) || says(Protocol::Quic),
        is_quic: says(Protocol::Quic),
    };
    Ok(ListenArg { name, endpoint, transport, permissions })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http,
    Proxy,
    Https,
    Quic,
}

/// One, or PROXY and HTTPS in any order: the header comes first.
fn add_protocol(protocols: &mut Vec<Protocol>, word: &str) -> Result<(), Fatal> {
    let protocol = match word.to_ascii_lowercase().as_str() {
        "http" => Protocol::Http,
        "proxy" => Protocol::Proxy,
        "https" | "tls" => Protocol::Https,
        "quic" => Protocol::Quic,
        _ if protocols.is_empty() => return argument(format!("Unknown protocol '{word}'")),
        _ => return argument(format!("Too many protocol sub-args in -a ({word})")),
    };
    match (protocols.as_slice(), protocol) {
        ([], _) | ([Protocol::Proxy], Protocol::Https) | ([Protocol::Https], Protocol::Proxy) => {}
        _ => return argument(format!("Too many protocol sub-args in -a ({word})")),
    }
    protocols.push(protocol);
    Ok(())
}

impl Permissions {
    #[cfg(test)]
    pub fn of_group(group: u32) -> Permissions {
        Permissions { group: Some(group), ..Permissions::default() }
    }

    fn set(&mut self, word: &str, key: &str, value: &str) -> Result<(), Fatal> {
        let once = |taken: bool| match taken {
            true => argument(format!("Too many {key} sub-args in -a ({word})")),
            false => Ok(()),
        };
        match key {
            "user" => {
                once(self.user.is_some())?;
                let account = user::user(value).ok_or(Fatal::Argument(format!("Unknown user {value} in -a")))?;
                self.user = Some(account.uid);
            }
            "group" => {
                once(self.group.is_some())?;
                let gid = user::group(value).ok_or(Fatal::Argument(format!("Unknown group {value} in -a")))?;
                self.group = Some(gid);
            }
            "mode" => {
                once(self.mode.is_some())?;
                self.mode = Some(parse_mode(value)?);
            }
            _ => return argument(format!("Invalid sub-arg {word} in -a")),
        }
        Ok(())
    }
}

/// Octal, 1 to 0777.
fn parse_mode(text: &str) -> Result<u32, Fatal> {
    if text.is_empty() {
        return argument("Empty mode sub-arg in -a");
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
        return argument(format!("Invalid mode sub-arg {text} in -a"));
    }
    match i64::from_str_radix(text, 8) {
        Err(_) => argument(format!("Cannot parse mode sub-arg {text} in -a: Numerical result out of range")),
        Ok(mode) if !(1..=0o777).contains(&mode) => argument(format!("Mode sub-arg {text} out of range in -a")),
        Ok(mode) => Ok(mode as u32),
    }
}

/// Binds what the argument names, `members` sockets for each TCP address, and adds it to `open`.
pub fn bind(arg: &ListenArg, members: usize, jail: &Jail, open: &mut Vec<BoundListener>) -> Result<(), Fatal> {
    if arg.endpoint.starts_with(['/', '@']) {
        return bind_unix(arg, jail, open);
    }
    let range = port_range(&arg.endpoint)
        .map_err(|reason| Fatal::Argument(format!("Got no socket(s) for {}\n\t{reason}", arg.endpoint)))?;
    if let Some((host, ports)) = range {
        for port in ports {
            let one = ListenArg { endpoint: format!("{host}{port}"), ..arg.clone() };
            bind(&one, members, jail, open)?;
        }
        return Ok(());
    }
    let addresses = resolve(&arg.endpoint, if arg.transport.is_tls { 443 } else { 80 })
        .map_err(|reason| Fatal::Argument(format!("Got no socket(s) for {}\n\t{reason}", arg.endpoint)))?;
    let before = open.len();
    for address in addresses {
        bind_inet(arg, address, members, jail, open)?;
    }
    if open.len() == before {
        return argument(format!("Got no socket(s) for {}", arg.endpoint));
    }
    Ok(())
}

/// Splits `HOST:FIRST-LAST` into the part before the ports and the ports.
fn port_range(endpoint: &str) -> Result<Option<(&str, RangeInclusive<u16>)>, &'static str> {
    let Some(at) = endpoint.rfind([':', ' ', ']']) else { return Ok(None) };
    let (host, ports) = endpoint.split_at(at + 1);
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some((first, last)) = ports.split_once('-').and_then(|(a, b)| Some((number(a)?, number(b)?))) else {
        return Ok(None);
    };
    match (u16::try_from(first), u16::try_from(last)) {
        (Ok(0), _) => Err("A range of ports begins with 1 or more"),
        (Ok(first), Ok(last)) if first <= last => Ok(Some((host, first..=last))),
        (Ok(_), Ok(_)) => Err("The first port of a range must not be greater than the last"),
        _ => Err("A range of ports ends with 65535 at most"),
    }
}

fn bind_inet(
    arg: &ListenArg,
    want: SocketAddr,
    members: usize,
    jail: &Jail,
    open: &mut Vec<BoundListener>,
) -> Result<(), Fatal> {
    let is_quic = arg.transport.is_quic;
    if let Some(other) = open.iter().find(|l| l.address == SocketName::Inet(want) && l.transport.is_quic == is_quic) {
        return argument(format!("-a arguments {} and {} have same address", other.endpoint, arg.endpoint));
    }
    let sockets = match jail.privileged(|| bind_group(want, members, arg.transport)) {
        Ok(sockets) => sockets,
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
            let protocol = if is_quic { Ports::Udp } else { Ports::Tcp };
            let by = jail.privileged(|| holder::of(want, protocol)).map(|holder| format!(" by {holder}"));
            return argument(format!(
                "Could not get socket {}: {}{}",
                arg.endpoint,
                errno_text(&e),
                by.unwrap_or_default()
            ));
        }
        // A name may resolve to IPv6 on a machine without it.
        Err(e) if e.raw_os_error() == Some(sock::NO_SUCH_FAMILY) => return Ok(()),
        Err(e) => return no_socket(&arg.endpoint, &e),
    };
    let address = sock::local_name(&sockets[0]).or_else(|e| no_socket(&arg.endpoint, &e))?;
    let endpoint = match (&address, want.port()) {
        (SocketName::Inet(bound), 0) => bound.to_string(),
        _ => arg.endpoint.clone(),
    };
    open.push(BoundListener {
        name: arg.name.clone(),
        transport: arg.transport,
        address,
        endpoint,
        sockets,
        permissions: arg.permissions,
    });
    Ok(())
}

fn bind_unix(arg: &ListenArg, jail: &Jail, open: &mut Vec<BoundListener>) -> Result<(), Fatal> {
    let path = PathBuf::from(&arg.endpoint);
    if let Some(other) = open.iter().find(|l| l.address == SocketName::Unix(path.clone())) {
        return argument(format!("-a arguments {} and {} have same address", other.endpoint, arg.endpoint));
    }
    if arg.endpoint == "@" || path.as_os_str().len() > sock::LONGEST_UNIX_PATH {
        return argument(format!("Got no socket(s) for {}", arg.endpoint));
    }
    let socket = jail.privileged(|| bind_path(&path, arg.permissions)).or_else(|e| no_socket(&arg.endpoint, &e))?;
    open.push(BoundListener {
        name: arg.name.clone(),
        transport: arg.transport,
        address: SocketName::Unix(path),
        endpoint: arg.endpoint.clone(),
        sockets: vec![socket],
        permissions: arg.permissions,
    });
    Ok(())
}

fn no_socket<T>(endpoint: &str, error: &io::Error) -> Result<T, Fatal> {
    let why = match error.kind() {
        io::ErrorKind::AddrNotAvailable => ": this machine doesn't have that address",
        _ => "",
    };
    argument(format!("Could not get socket {endpoint}: {}{why}", errno_text(error)))
}

/// Addresses for `host:port`, `host port`, `[v6]:port`, `:port`, `host`, `*:port`. Without a host: all addresses of the
/// machine, IPv4 first. Blocks while names are looked up.
pub fn resolve(text: &str, default_port: u16) -> Result<Vec<SocketAddr>, String> {
    if let Some(why) = port_alone(text) {
        return Err(why);
    }
    let (host, port) = split_host_port(text)?;
    let port = match port {
        None => default_port,
        Some(port) => port_number(port)?,
    };
    if host.is_empty() || host == "*" {
        return Ok(vec![
            SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, port)),
            SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port)),
        ]);
    }
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in base::lookup::addresses(host, port).map_err(|e| lookup_text(&e))? {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

fn lookup_text(error: &io::Error) -> String {
    let text = errno_text(error);
    text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_string()
}

fn port_number(text: &str) -> Result<u16, String> {
    match text {
        "http" => Ok(80),
        "https" => Ok(443),
        _ if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() => text.parse().map_err(|_| bad_port(text)),
        _ => Err(bad_port(text)),
    }
}

/// Splits an address; IPv6 addresses with a port stand in brackets, a bare one may stand alone.
fn split_host_port(text: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((host, after)) = rest.split_once(']') else {
            return Err("IPv6 address lacks ']'".into());
        };
        return match after.as_bytes().first() {
            None => Ok((host, None)),
            Some(b':' | b' ') => Ok((host, Some(&after[1..]))),
            Some(_) => Err("IPv6 address has wrong port separator".into()),
        };
    }
    if let Some((host, port)) = text.split_once(' ') {
        return Ok((host, Some(port.trim())));
    }
    match text.find(':') {
        Some(at) if text[at + 1..].contains(':') => Ok((text, None)),
        Some(at) => Ok((&text[..at], Some(&text[at + 1..]))),
        None => Ok((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(spec: &str, text: &str) {
        assert_eq!(parse(spec, &mut 0), Err(Fatal::Argument(text.into())), "{spec}");
    }

    #[test]
    fn sub_arguments_are_checked() {
        refused("h:80,PROXY,FOO", "Too many protocol sub-args in -a (FOO)");
        refused("h:80,foobar", "Unknown protocol 'foobar'");
        refused("foo/bar.sock", "Unix domain socket addresses must be absolute paths in -a (foo/bar.sock)");
        refused("h:80,user=u", "Invalid sub-arg user=u for IP addresses in -a");
        refused("/s,mode=660,mode=600", "Too many mode sub-args in -a (mode=600)");
        refused("/s,mode=", "Empty mode sub-arg in -a");
        refused("/s,mode=666devilish", "Invalid mode sub-arg 666devilish in -a");
        refused("/s,mode=999", "Invalid mode sub-arg 999 in -a");
        refused("/s,mode=1666", "Mode sub-arg 1666 out of range in -a");
        refused("/s,mode=-1", "Mode sub-arg -1 out of range in -a");
        refused("/s,mode=0", "Mode sub-arg 0 out of range in -a");
        refused("/s,modefoo=666", "Invalid sub-arg modefoo=666 in -a");
        refused("/s,=foo", "Invalid sub-arg =foo in -a");
        let huge = "7".repeat(32);
        refused(
            &format!("/s,mode={huge}"),
            &format!("Cannot parse mode sub-arg {huge} in -a: Numerical result out of range"),
        );
    }

    #[test]
    fn a_port_that_cant_be_is_called_that() {
        let refused = |text: &str| resolve(text, 80).unwrap_err();
        assert_eq!(refused("127.0.0.1:99999"), "there is no port 99999: the highest is 65535");
        assert_eq!(refused("[::1]:65536"), "there is no port 65536: the highest is 65535");
        assert_eq!(
            refused("127.0.0.1:nosuch"),
            "there is no port \"nosuch\": a port is a number up to 65535, or a service's name"
        );
    }

    #[test]
    fn a_range_of_ports_is_split_off() {
        let check = |endpoint: &str, want| assert_eq!(port_range(endpoint), want, "{endpoint}");
        check(":80-82", Ok(Some((":", 80..=82))));
        check("127.0.0.1:80-80", Ok(Some(("127.0.0.1:", 80..=80))));
        check("[::1]:8000-8001", Ok(Some(("[::1]:", 8000..=8001))));
        check("host-1.example:80", Ok(None));
        check("host-1", Ok(None));
        check(":80-", Ok(None));
        check(":80-81-82", Ok(None));
        check(":+80-81", Ok(None));
        check(":0-5", Err("A range of ports begins with 1 or more"));
        check(":82-80", Err("The first port of a range must not be greater than the last"));
        check(":1-65536", Err("A range of ports ends with 65535 at most"));
    }

    #[test]
    fn an_abstract_socket_has_no_owner() {
        assert_eq!(parse("@name,PROXY", &mut 0).unwrap().endpoint, "@name");
        refused("@name,mode=600", "Invalid sub-arg mode=600 for abstract sockets in -a");
        refused("@name,quic", "QUIC needs UDP, not a Unix domain socket in -a (@name)");
    }

    #[test]
    fn names_and_protocols() {
        let mut unnamed = 0;
        let http = parse("http=:80,HTTP", &mut unnamed).unwrap();
        assert_eq!((http.name.as_str(), http.endpoint.as_str(), http.transport), ("http", ":80", ListenerLayers::HTTP));
        assert_eq!(parse(":8443,PROXY", &mut unnamed).unwrap().transport, ListenerLayers::PROXY);
        assert_eq!(parse(":81", &mut unnamed).unwrap().name, "a1");
    }

    #[test]
    fn tls_may_follow_a_proxy_header() {
        let transport = |spec: &str| parse(spec, &mut 0).unwrap().transport;
        assert_eq!(transport(":443,https"), ListenerLayers::HTTPS);
        assert_eq!(transport("/run/l.sock,TLS,mode=600"), ListenerLayers::HTTPS);
        assert_eq!(transport(":443,quic"), ListenerLayers::QUIC);
        refused("h:443,quic,https", "Too many protocol sub-args in -a (https)");
        refused("h:443,proxy,quic", "Too many protocol sub-args in -a (quic)");
        refused("/s,quic", "QUIC needs UDP, not a Unix domain socket in -a (/s)");
        assert_eq!(transport(":443,proxy,https"), ListenerLayers::PROXY_HTTPS);
        assert_eq!(transport(":443,HTTPS,PROXY"), ListenerLayers::PROXY_HTTPS);
        refused("h:443,https,http", "Too many protocol sub-args in -a (http)");
        refused("h:443,https,tls", "Too many protocol sub-args in -a (tls)");
        refused("h:443,proxy,https,proxy", "Too many protocol sub-args in -a (proxy)");
    }

    #[test]
    fn addresses_split_as_varnish_splits_them() {
        assert_eq!(split_host_port("[::1]:80"), Ok(("::1", Some("80"))));
        assert_eq!(split_host_port("::1"), Ok(("::1", None)));
        assert_eq!(split_host_port("127.0.0.1 8080"), Ok(("127.0.0.1", Some("8080"))));
        assert_eq!(split_host_port(":6081"), Ok(("", Some("6081"))));
        assert!(split_host_port("[::1").is_err());
        assert_eq!(resolve(":0", 80).unwrap().len(), 2);
    }

    proptest::proptest! {
        #[test]
        fn any_argument_is_answered(spec in ".{0,40}") {
            let _ = parse(&spec, &mut 0);
            let _ = split_host_port(&spec);
        }
    }
}
