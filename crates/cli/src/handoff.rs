// SPDX-License-Identifier: BSD-2-Clause
//! What the manager tells a worker at its birth, in one message on the CLI socket before the first command.
//!
//! Descriptors are inherited; the message names them by number. The form is text: a head with version and length, then
//! `key=value` lines; values are quoted as CLI words are. A worker refuses another version.

use std::path::PathBuf;
use std::time::Duration;

use tables::stores::{Checks, DirectIo, DiskOptions, StoreMedium};

use crate::client::quote;
use crate::words::split;

/// Version of the form; any change counts it up.
const VERSION: u32 = 12;
const MAGIC: &str = "LACQUER-HANDOFF";
const LONGEST: usize = 16 << 20;

/// The layers before HTTP on a listener's connections: nothing, a PROXY header, TLS, or one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct ListenerLayers {
    /// A PROXY header (version 1 or 2), in clear.
    pub has_proxy_header: bool,
    pub is_tls: bool,
    /// QUIC, which has TLS in it: the sockets are UDP's.
    pub is_quic: bool,
}

impl ListenerLayers {
    pub const HTTP: ListenerLayers = ListenerLayers { has_proxy_header: false, is_tls: false, is_quic: false };
    pub const PROXY: ListenerLayers = ListenerLayers { has_proxy_header: true, ..Self::HTTP };
    pub const HTTPS: ListenerLayers = ListenerLayers { is_tls: true, ..Self::HTTP };
    pub const PROXY_HTTPS: ListenerLayers = ListenerLayers { has_proxy_header: true, ..Self::HTTPS };
    pub const QUIC: ListenerLayers = ListenerLayers { is_quic: true, ..Self::HTTPS };

    pub const ALL: [ListenerLayers; 5] = [Self::HTTP, Self::PROXY, Self::HTTPS, Self::PROXY_HTTPS, Self::QUIC];
}

/// A listening socket. Several members of one address (SO_REUSEPORT) follow each other with the same name and address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenerStart {
    /// Name (`a0`, or as `-a name=` gives it).
    pub name: String,
    /// The descriptor, listening already.
    pub fd: i32,
    pub transport: ListenerLayers,
    /// Address and port as bound, separated by a space (`127.0.0.1 8080`), or the path of a socket.
    pub address: String,
    pub is_uds: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreStart {
    /// Name (`s0`, `Transient`, ...).
    pub name: String,
    pub kind: StoreMedium,
    /// Size in bytes; `None` is unlimited.
    pub size: Option<u64>,
    pub path: Option<PathBuf>,
    /// The file's descriptor, open for reading and writing.
    pub fd: Option<i32>,
    /// Descriptor of the memory that outlives workers, for a store that has some.
    pub arena_fd: Option<i32>,
    /// The arguments as written, kind included, for messages.
    pub spec: String,
    pub disk: Option<DiskStart>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DiskStart {
    /// The options of `-s`, with no default left out.
    pub options: DiskOptions,
    /// Drawn whenever a store that isn't kept is to begin empty; 0 for one that is kept.
    pub life: u64,
}

#[derive(Clone, PartialEq, Eq, Default)]
pub struct FleetStart {
    /// The text of `--fleet`.
    pub spec: String,
    /// The files that it names, by the names of their settings, as the manager has read them.
    pub files: Vec<(String, Vec<u8>)>,
}

impl std::fmt::Debug for FleetStart {
    /// There are secrets in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FleetStart")
    }
}

/// The data that goes from the manager to a worker as a sealed file in memory: `sys::secret`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandoffSecret {
    Certificates,
    TicketKeys,
    /// The answers that the ACME client has for challenges.
    Challenges,
    /// No file: the way to the process that has the keys.
    Signer,
    /// Certificates and keys that a VCL's backends are to be shown.
    OriginKeys,
}

impl HandoffSecret {
    /// The byte that comes with the descriptor.
    pub fn letter(self) -> u8 {
        match self {
            Self::Certificates => b'b',
            Self::TicketKeys => b't',
            Self::Challenges => b'c',
            Self::Signer => b's',
            Self::OriginKeys => b'o',
        }
    }

    pub fn of_letter(letter: u8) -> Option<HandoffSecret> {
        let all = [Self::Certificates, Self::TicketKeys, Self::Challenges, Self::Signer, Self::OriginKeys];
        all.into_iter().find(|kind| kind.letter() == letter)
    }
}

/// The identity of a worker to clients of QUIC. Of each address there are two sets of sockets, for two workers of which
/// one takes the other's place (`sys::udp::Steering`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuicStart {
    /// The manager's, from which keys are made: the same for all workers.
    pub secret: [u8; 32],
    /// The number in its connections' ids.
    pub life: u16,
    /// The number of its set of sockets: 0 or 1.
    pub set: u8,
    /// The life of a worker that still has connections, on the other set.
    pub former: Option<u16>,
}

impl QuicStart {
    pub fn new(secret: [u8; 32]) -> Self {
        QuicStart { secret, life: 0, set: 0, former: None }
    }

    /// For the next worker, beside the present one or after it. One that died may have left another that `is_leaving` still, with
    /// connections on the other set: they stay its own.
    pub fn begin_worker(&mut self, is_beside: bool, is_leaving: bool) {
        let former = if is_beside { Some(self.life) } else { self.former };
        self.former = former.filter(|_| is_beside || is_leaving);
        self.set ^= u8::from(is_beside);
        self.life = self.life.wrapping_add(1);
    }

    pub fn words(&self) -> [Vec<u8>; 4] {
        let former = self.former.map_or_else(String::new, |life| life.to_string());
        let rest = [self.life.to_string(), self.set.to_string(), former];
        let [life, set, former] = rest.map(String::into_bytes);
        [self.secret.to_vec(), life, set, former]
    }

    pub fn read(words: &[Vec<u8>]) -> Option<Self> {
        let [secret, life, set, former] = words else { return None };
        let set = number(set).filter(|set| *set < 2)?;
        Some(QuicStart {
            secret: secret.as_slice().try_into().ok()?,
            life: number(life)?,
            set,
            former: optional(former)?,
        })
    }
}

/// Everything a worker needs to know before it accepts.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkerStart {
    pub listeners: Vec<ListenerStart>,
    /// Stores, in the order of `-s`; Transient is among them.
    pub stores: Vec<StoreStart>,
    /// Workdir (`-n`), absolute, for messages: it is the current directory, and its path may lead through closed ones.
    pub workdir: PathBuf,
    pub identity: String,
    pub cli_fd: i32,
    /// Descriptor of the Panic segment's file, if there is one.
    pub panic_fd: Option<i32>,
    /// Descriptor of what holds the journal of invalidations, if there is one.
    pub journal_fd: Option<i32>,
    /// The lock that the one worker holds that writes to disks; its own opening of it.
    pub write_lock_fd: Option<i32>,
    /// The journal is a file, which outlives the machine's power, not memory.
    pub journal_lasts: bool,
    /// Descriptors of pipes, each for a thread that holds it alone: the manager sees by them that the worker ends.
    pub sentinel_fds: Vec<i32>,
    /// Socket to the worker whose place this one takes, which hands over the memory of its stores and its journal.
    pub former_fd: Option<i32>,
    /// Socket to the worker that will take this one's place.
    pub successor_fd: Option<i32>,
    /// Sealed memory with a bundle of certificates, if there is a listener for TLS.
    pub certificates_fd: Option<i32>,
    /// The same with keys for session tickets.
    pub ticket_keys_fd: Option<i32>,
    /// Socket over which later ones come.
    pub secrets_fd: Option<i32>,
    pub quic: Option<QuicStart>,
    /// The key that signs tokens of waiting rooms.
    pub class_key: [u8; 32],
    pub fleet: Option<FleetStart>,
    /// The second tier that it is a member of, if there is one: what `--peers` says, and the secret.
    pub peers: Option<FleetStart>,
    /// Process id of the manager; a worker whose parent is another drains and exits.
    pub manager_pid: u32,
    /// When the manager started, since 1970.
    pub manager_start: Duration,
    /// User the worker runs as, if jailed.
    pub user: Option<String>,
    pub group: Option<String>,
    /// Run under varnishtest (`debug=+vtc_mode`).
    pub vtc_mode: bool,
    /// True if commands are to be authenticated no more on this socket; always so today.
    pub trusted: bool,
    /// All parameters, as `Params::encode` writes them.
    pub params: String,
}

impl Default for WorkerStart {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            stores: Vec::new(),
            workdir: PathBuf::new(),
            identity: String::new(),
            cli_fd: -1,
            panic_fd: None,
            journal_fd: None,
            write_lock_fd: None,
            journal_lasts: false,
            sentinel_fds: Vec::new(),
            former_fd: None,
            successor_fd: None,
            certificates_fd: None,
            ticket_keys_fd: None,
            secrets_fd: None,
            quic: None,
            class_key: [0; 32],
            fleet: None,
            peers: None,
            manager_pid: 0,
            manager_start: Duration::ZERO,
            user: None,
            group: None,
            vtc_mode: false,
            trusted: true,
            params: String::new(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandoffError {
    Magic,
    Version(String),
    TooLong,
    Line(String),
}

impl std::fmt::Display for HandoffError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Magic => f.write_str("not a hand-over from the manager"),
            Self::Version(version) => write!(f, "the manager's hand-over has version {version}, not {VERSION}"),
            Self::TooLong => f.write_str("the manager's hand-over is too long"),
            Self::Line(line) => write!(f, "the manager's hand-over has a line that can't be read: {line}"),
        }
    }
}

impl std::error::Error for HandoffError {}

impl WorkerStart {
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for l in &self.listeners {
            let transport = transport_word(l.transport);
            let (fd, uds) = (l.fd.to_string(), flag(l.is_uds));
            put(&mut body, "listener", &[l.name.as_bytes(), fd.as_bytes(), transport, l.address.as_bytes(), uds]);
        }
        for s in &self.stores {
            let size = s.size.map_or_else(String::new, |n| n.to_string());
            let path = s.path.as_deref().map_or(&b""[..], path_bytes);
            let [fd, arena_fd] = [s.fd, s.arena_fd].map(|fd| fd.map_or_else(String::new, |fd| fd.to_string()));
            let words = [
                s.name.as_bytes(),
                s.kind.as_str().as_bytes(),
                size.as_bytes(),
                path,
                fd.as_bytes(),
                arena_fd.as_bytes(),
                s.spec.as_bytes(),
            ];
            put(&mut body, "store", &words);
            if let Some(disk) = &s.disk {
                put(&mut body, "disk", &disk_words(disk).each_ref().map(Vec::as_slice));
            }
        }
        put(&mut body, "workdir", &[path_bytes(&self.workdir)]);
        put(&mut body, "identity", &[self.identity.as_bytes()]);
        put(&mut body, "cli_fd", &[self.cli_fd.to_string().as_bytes()]);
        put(&mut body, "manager_pid", &[self.manager_pid.to_string().as_bytes()]);
        put(&mut body, "manager_start", &[self.manager_start.as_nanos().to_string().as_bytes()]);
        put(&mut body, "vtc_mode", &[flag(self.vtc_mode)]);
        put(&mut body, "trusted", &[flag(self.trusted)]);
        put(&mut body, "journal_lasts", &[flag(self.journal_lasts)]);
        let descriptors = [
            ("panic_fd", self.panic_fd),
            ("journal_fd", self.journal_fd),
            ("write_lock_fd", self.write_lock_fd),
            ("former_fd", self.former_fd),
            ("successor_fd", self.successor_fd),
            ("certificates_fd", self.certificates_fd),
            ("ticket_keys_fd", self.ticket_keys_fd),
            ("secrets_fd", self.secrets_fd),
        ];
        for (key, fd) in descriptors {
            if let Some(fd) = fd {
                put(&mut body, key, &[fd.to_string().as_bytes()]);
            }
        }
        if let Some(quic) = &self.quic {
            put(&mut body, "quic", &quic.words().each_ref().map(Vec::as_slice));
        }
        put(&mut body, "class_key", &[&self.class_key]);
        if let Some(fleet) = &self.fleet {
            put(&mut body, "fleet", &[fleet.spec.as_bytes()]);
            fleet.files.iter().for_each(|(name, held)| put(&mut body, "fleet_file", &[name.as_bytes(), held]));
        }
        if let Some(peers) = &self.peers {
            put(&mut body, "peers", &[peers.spec.as_bytes()]);
            peers.files.iter().for_each(|(name, held)| put(&mut body, "peers_file", &[name.as_bytes(), held]));
        }
        for fd in &self.sentinel_fds {
            put(&mut body, "sentinel_fd", &[fd.to_string().as_bytes()]);
        }
        for (key, name) in [("user", &self.user), ("group", &self.group)] {
            if let Some(name) = name {
                put(&mut body, key, &[name.as_bytes()]);
            }
        }
        put(&mut body, "params", &[self.params.as_bytes()]);
        let mut out = format!("{MAGIC} {VERSION} {}\n", body.len()).into_bytes();
        out.append(&mut body);
        out
    }

    /// Reads a message from the beginning of `bytes`: the message and its length, or `None` until more bytes come.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, HandoffError> {
        let head_most = MAGIC.len() + 32;
        let Some(newline) = bytes.iter().take(head_most).position(|b| *b == b'\n') else {
            let known = bytes.len().min(MAGIC.len());
            let is_ours = bytes.len() < head_most && bytes[..known] == MAGIC.as_bytes()[..known];
            return if is_ours { Ok(None) } else { Err(HandoffError::Magic) };
        };
        let head = std::str::from_utf8(&bytes[..newline]).map_err(|_| HandoffError::Magic)?;
        let words: Vec<&str> = head.split(' ').collect();
        let [MAGIC, version, len] = words[..] else { return Err(HandoffError::Magic) };
        if version != VERSION.to_string() {
            return Err(HandoffError::Version(version.to_owned()));
        }
        let len: usize = len.parse().map_err(|_| HandoffError::Magic)?;
        if len > LONGEST {
            return Err(HandoffError::TooLong);
        }
        let start = newline + 1;
        match bytes.get(start..start + len) {
            Some(body) => Ok(Some((Self::decode_body(body)?, start + len))),
            None => Ok(None),
        }
    }

    fn decode_body(body: &[u8]) -> Result<Self, HandoffError> {
        let mut out = Self::default();
        for line in body.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            let unreadable = || HandoffError::Line(line.escape_ascii().to_string());
            let words = split(line).map_err(|_| unreadable())?;
            let [key, values @ ..] = &words[..] else { return Err(unreadable()) };
            out.take_line(key, values).ok_or_else(unreadable)?;
        }
        Ok(out)
    }

    /// Takes over the value of one line; `None` when it can't be read.
    fn take_line(&mut self, key: &[u8], values: &[Vec<u8>]) -> Option<()> {
        let one = match values {
            [one] => Some(one.as_slice()),
            _ => None,
        };
        match key {
            b"listener" => listener(values).map(|l| self.listeners.push(l)),
            b"store" => store(values).map(|s| self.stores.push(s)),
            b"disk" => self.stores.last_mut().and_then(|store| {
                store.disk = Some(disk(values)?);
                Some(())
            }),
            b"workdir" => one.map(|w| self.workdir = to_path(w)),
            b"identity" => one.and_then(text).map(|t| self.identity = t),
            b"cli_fd" => one.and_then(number).map(|n| self.cli_fd = n),
            b"panic_fd" => one.and_then(number).map(|n| self.panic_fd = Some(n)),
            b"journal_fd" => one.and_then(number).map(|n| self.journal_fd = Some(n)),
            b"write_lock_fd" => one.and_then(number).map(|n| self.write_lock_fd = Some(n)),
            b"journal_lasts" => one.and_then(to_flag).map(|b| self.journal_lasts = b),
            b"sentinel_fd" => one.and_then(number).map(|n| self.sentinel_fds.push(n)),
            b"former_fd" => one.and_then(number).map(|n| self.former_fd = Some(n)),
            b"successor_fd" => one.and_then(number).map(|n| self.successor_fd = Some(n)),
            b"certificates_fd" => one.and_then(number).map(|n| self.certificates_fd = Some(n)),
            b"ticket_keys_fd" => one.and_then(number).map(|n| self.ticket_keys_fd = Some(n)),
            b"secrets_fd" => one.and_then(number).map(|n| self.secrets_fd = Some(n)),
            b"quic" => QuicStart::read(values).map(|quic| self.quic = Some(quic)),
            b"class_key" => one.and_then(|key| key.try_into().ok()).map(|key| self.class_key = key),
            b"fleet" => one.and_then(text).map(|spec| self.fleet = Some(FleetStart { spec, files: Vec::new() })),
            b"fleet_file" => fleet_file(values).zip(self.fleet.as_mut()).map(|(file, fleet)| fleet.files.push(file)),
            b"peers" => one.and_then(text).map(|spec| self.peers = Some(FleetStart { spec, files: Vec::new() })),
            b"peers_file" => fleet_file(values).zip(self.peers.as_mut()).map(|(file, peers)| peers.files.push(file)),
            b"manager_pid" => one.and_then(number).map(|n| self.manager_pid = n),
            b"manager_start" => one.and_then(number).map(|n| self.manager_start = Duration::from_nanos(n)),
            b"user" => one.and_then(text).map(|t| self.user = Some(t)),
            b"group" => one.and_then(text).map(|t| self.group = Some(t)),
            b"vtc_mode" => one.and_then(to_flag).map(|b| self.vtc_mode = b),
            b"trusted" => one.and_then(to_flag).map(|b| self.trusted = b),
            b"params" => one.and_then(text).map(|lines| self.params = lines),
            _ => None,
        }
    }
}

fn put(out: &mut Vec<u8>, key: &str, words: &[&[u8]]) {
    out.extend_from_slice(key.as_bytes());
    for word in words {
        out.push(b' ');
        out.extend_from_slice(&quote(word));
    }
    out.push(b'\n');
}

fn listener(words: &[Vec<u8>]) -> Option<ListenerStart> {
    let [name, fd, transport, address, is_uds] = words else { return None };
    let transport = ListenerLayers::ALL.into_iter().find(|t| transport_word(*t) == *transport)?;
    Some(ListenerStart {
        name: text(name)?,
        fd: number(fd)?,
        transport,
        address: text(address)?,
        is_uds: to_flag(is_uds)?,
    })
}

fn fleet_file(words: &[Vec<u8>]) -> Option<(String, Vec<u8>)> {
    let [name, contents] = words else { return None };
    Some((text(name)?, contents.clone()))
}

fn store(words: &[Vec<u8>]) -> Option<StoreStart> {
    let [name, kind, size, path, fd, arena_fd, spec] = words else { return None };
    let (fd, arena_fd) = (optional(fd)?, optional(arena_fd)?);
    let size = optional(size)?;
    let path = (!path.is_empty()).then(|| to_path(path));
    Some(StoreStart {
        name: text(name)?,
        kind: StoreMedium::named(&text(kind)?)?,
        size,
        path,
        fd,
        arena_fd,
        spec: text(spec)?,
        disk: None,
    })
}

/// The words of a line on a store on a disk, which stands above it.
fn disk_words(disk: &DiskStart) -> [Vec<u8>; 7] {
    let DiskOptions { front_bytes, index_bytes, direct, checks, keep, journal } = &disk.options;
    let bytes = |bytes: &Option<u64>| bytes.map_or_else(String::new, |bytes| bytes.to_string()).into_bytes();
    [
        bytes(front_bytes),
        bytes(index_bytes),
        direct.as_str().into(),
        checks.as_str().into(),
        flag(*keep).into(),
        journal.as_deref().map_or(&b""[..], path_bytes).into(),
        disk.life.to_string().into_bytes(),
    ]
}

fn disk(words: &[Vec<u8>]) -> Option<DiskStart> {
    let [front, index, direct, checks, keep, journal, life] = words else { return None };
    let options = DiskOptions {
        front_bytes: optional(front)?,
        index_bytes: optional(index)?,
        direct: DirectIo::named(&text(direct)?)?,
        checks: Checks::named(&text(checks)?)?,
        keep: to_flag(keep)?,
        journal: (!journal.is_empty()).then(|| to_path(journal)),
    };
    Some(DiskStart { options, life: number(life)? })
}

fn transport_word(transport: ListenerLayers) -> &'static [u8] {
    match (transport.has_proxy_header, transport.is_tls) {
        _ if transport.is_quic => b"QUIC",
        (false, false) => b"HTTP/1",
        (true, false) => b"PROXY",
        (false, true) => b"TLS",
        (true, true) => b"PROXY+TLS",
    }
}

fn flag(on: bool) -> &'static [u8] {
    if on { b"1" } else { b"0" }
}

fn to_flag(word: &[u8]) -> Option<bool> {
    match word {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

fn text(word: &[u8]) -> Option<String> {
    std::str::from_utf8(word).ok().map(str::to_owned)
}

fn number<N: std::str::FromStr>(word: &[u8]) -> Option<N> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// A number, or nothing for none.
fn optional<N: std::str::FromStr>(word: &[u8]) -> Option<Option<N>> {
    if word.is_empty() { Some(None) } else { number(word).map(Some) }
}

fn path_bytes(path: &std::path::Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

fn to_path(word: &[u8]) -> PathBuf {
    let os: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(word);
    PathBuf::from(os)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> WorkerStart {
        let params = "default_ttl=7\nvcl_path=/a b:\"c\"\n".to_owned();
        let address = "127.0.0.1 8080".to_owned();
        WorkerStart {
            listeners: vec![
                ListenerStart { name: "a0".into(), fd: 5, transport: ListenerLayers::HTTPS, address, is_uds: false },
                ListenerStart {
                    name: "u".into(),
                    fd: 6,
                    transport: ListenerLayers::PROXY,
                    address: "/run/x y".into(),
                    is_uds: true,
                },
            ],
            stores: vec![
                StoreStart {
                    name: "s0".into(),
                    kind: StoreMedium::Malloc,
                    size: Some(100 << 20),
                    path: None,
                    fd: None,
                    arena_fd: Some(11),
                    spec: "malloc,100m".into(),
                    disk: None,
                },
                StoreStart {
                    name: "f".into(),
                    kind: StoreMedium::File,
                    size: None,
                    path: Some("/var/f".into()),
                    fd: Some(9),
                    arena_fd: None,
                    spec: "".into(),
                    disk: Some(DiskStart {
                        options: DiskOptions {
                            front_bytes: Some(1 << 20),
                            index_bytes: None,
                            direct: DirectIo::On,
                            checks: Checks::Heads,
                            keep: true,
                            journal: Some("/var/j".into()),
                        },
                        life: 7,
                    }),
                },
            ],
            workdir: "/tmp/w".into(),
            identity: "host".into(),
            cli_fd: 3,
            panic_fd: Some(4),
            journal_fd: Some(8),
            write_lock_fd: Some(16),
            journal_lasts: true,
            sentinel_fds: vec![12, 13],
            former_fd: Some(14),
            successor_fd: Some(15),
            certificates_fd: Some(17),
            ticket_keys_fd: Some(18),
            quic: Some(QuicStart { secret: [0x20; 32], life: 7, set: 1, former: Some(6) }),
            class_key: [b'\n'; 32],
            fleet: Some(FleetStart { spec: "nats://a,b=c d".into(), files: vec![("ca".into(), b"\0\n\xff".to_vec())] }),
            peers: Some(FleetStart { spec: "a@b".into(), files: vec![("secret-file".into(), b"s t".to_vec())] }),
            secrets_fd: Some(19),
            manager_pid: 77,
            manager_start: Duration::new(1, 5),
            user: Some("vcache".into()),
            group: None,
            vtc_mode: true,
            trusted: true,
            params,
        }
    }

    #[test]
    fn who_leaves_keeps_its_connections_whatever_becomes_of_its_successor() {
        let mut quic = QuicStart::new([0; 32]);
        let mut check = |is_beside, is_leaving, want: (u16, u8, Option<u16>)| {
            quic.begin_worker(is_beside, is_leaving);
            assert_eq!((quic.life, quic.set, quic.former), want);
        };
        check(false, false, (1, 0, None));
        check(true, true, (2, 1, Some(1)));
        // It died beside the one that leaves, and again when that was gone.
        check(false, true, (3, 1, Some(1)));
        check(false, false, (4, 1, None));
        check(true, true, (5, 0, Some(4)));
    }

    #[test]
    fn comes_back_and_leaves_what_follows() {
        let start = example();
        let mut bytes = start.encode();
        let len = bytes.len();
        for cut in 0..len {
            assert_eq!(WorkerStart::decode(&bytes[..cut]), Ok(None), "{cut}");
        }
        bytes.extend_from_slice(b"ping\n");
        assert_eq!(WorkerStart::decode(&bytes), Ok(Some((start, len))));
    }

    #[test]
    fn refusals() {
        assert_eq!(WorkerStart::decode(b"ping\n"), Err(HandoffError::Magic));
        assert_eq!(WorkerStart::decode(b"x"), Err(HandoffError::Magic));
        assert_eq!(WorkerStart::decode(b"LACQUER-HANDOFF 7 0\n"), Err(HandoffError::Version("7".into())));
        assert_eq!(WorkerStart::decode(b"LACQUER-HANDOFF 12 99999999999\n"), Err(HandoffError::TooLong));
        let unknown = WorkerStart::decode(b"LACQUER-HANDOFF 12 8\nnew \"1\"\n");
        assert_eq!(unknown, Err(HandoffError::Line("new \\\"1\\\"".into())));
    }

    proptest! {
        #[test]
        fn any_change_is_read_or_refused(at in 0usize..400, byte: u8) {
            let mut bytes = example().encode();
            bytes[at] = byte;
            let _ = WorkerStart::decode(&bytes);
        }

        #[test]
        fn any_names_come_back(identity in "\\PC{0,20}", name in "\\PC{0,20}", fd: i32, size: Option<u64>) {
            let mut start = example();
            start.identity = identity;
            start.listeners[0].name = name;
            start.listeners[0].fd = fd;
            start.stores[0].size = size;
            let (back, _) = WorkerStart::decode(&start.encode()).unwrap().unwrap();
            prop_assert_eq!(back, start);
        }
    }
}
