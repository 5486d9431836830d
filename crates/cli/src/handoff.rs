// SPDX-License-Identifier: BSD-2-Clause
//! What the manager tells a worker at its birth, in one message on the CLI socket before the first command.
//!
//! Descriptors are inherited; the message names them by number. The form is a head with version and length, then a
//! [record](crate::record). A worker refuses another version.

use std::path::PathBuf;

use tables::stores::{Checks, DirectIo, DiskOptions, StoreMedium};

use crate::record::{Line, Record, Words};
use crate::{one_word, record, words};

/// Version of the form; any change counts it up.
const VERSION: u32 = 13;
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

    fn number(self) -> u8 {
        u8::from(self.has_proxy_header) + 2 * u8::from(self.is_tls) + 4 * u8::from(self.is_quic)
    }
}

one_word! {
    ListenerLayers: |layers| vec![b'0' + layers.number()], |word| {
        ListenerLayers::ALL.into_iter().find(|layers| [b'0' + layers.number()] == word)
    };
    StoreMedium: |kind| kind.as_str().into(), |word| StoreMedium::named(std::str::from_utf8(word).ok()?);
    DirectIo: |use_it| use_it.as_str().into(), |word| DirectIo::named(std::str::from_utf8(word).ok()?);
    Checks: |checks| checks.as_str().into(), |word| Checks::named(std::str::from_utf8(word).ok()?);
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

words!(ListenerStart { name, fd, transport, address, is_uds });

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
    pub disk: Option<DiskStart>,
}

words!(StoreStart { name, kind, size, path, fd, arena_fd, disk });

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DiskStart {
    /// The options of `-s`, with no default left out.
    pub options: DiskOptions,
    /// Drawn whenever a store that isn't kept is to begin empty; 0 for one that is kept.
    pub life: u64,
}

words!(DiskStart { life, options });
words!(DiskOptions { front_bytes, index_bytes, direct, checks, keep, journal });

#[derive(Clone, PartialEq, Eq, Default)]
pub struct FleetStart {
    /// The text of `--fleet`.
    pub spec: String,
    /// The files that it names, by the names of their settings, as the manager has read them.
    pub files: Vec<(String, Vec<u8>)>,
}

words!(FleetStart { spec, files });

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
}

impl Line for QuicStart {
    fn put(&self, out: &mut Vec<Vec<u8>>) {
        self.secret.put(out);
        (self.life, u16::from(self.set)).put(out);
        self.former.put(out);
    }

    fn take(words: &mut Words<'_>) -> Option<Self> {
        let secret = Line::take(words)?;
        let (life, set) = <(u16, u16)>::take(words)?;
        let set = u8::try_from(set).ok().filter(|set| *set < 2)?;
        Some(QuicStart { secret, life, set, former: Line::take(words)? })
    }
}

record! {
    /// Everything a worker needs to know before it accepts.
    #[derive(Clone, PartialEq, Debug, Default)]
    pub struct WorkerStart {
        each "listener" pub listeners: Vec<ListenerStart>,
        /// Stores, in the order of `-s`; Transient is among them.
        each "store" pub stores: Vec<StoreStart>,
        /// Workdir (`-n`), absolute, for messages: it is the current directory, and its path may lead through closed ones.
        one "workdir" pub workdir: PathBuf,
        one "identity" pub identity: String,
        /// All parameters, as `Params::encode` writes them.
        one "params" pub params: String,
        part pub manager: ManagerStart,
        part pub journal: JournalStart,
        part pub succession: SuccessionStart,
        part pub secrets: SecretsStart,
        maybe "quic" pub quic: Option<QuicStart>,
        /// The key that signs tokens of waiting rooms.
        one "class_key" pub class_key: [u8; 32],
        maybe "fleet" pub fleet: Option<FleetStart>,
        /// The second tier that it is a member of, if there is one: what `--peers` says, and the secret.
        maybe "peers" pub peers: Option<FleetStart>,
    }
}

record! {
    /// The ways by which worker and manager see each other's end.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct ManagerStart {
        /// Process id of the manager; a worker whose parent is another drains and exits.
        one "manager_pid" pub pid: u32,
        /// Descriptor of the Panic segment's file, if there is one.
        maybe "panic_fd" pub panic_fd: Option<i32>,
        /// Descriptors of pipes, each for a thread that holds it alone: the manager sees by them that the worker ends.
        one "sentinel_fds" pub sentinel_fds: Vec<i32>,
    }
}

record! {
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct JournalStart {
        /// Descriptor of what holds the journal of invalidations, if there is one.
        maybe "journal_fd" pub fd: Option<i32>,
        /// The journal is a file, which outlives the machine's power, not memory.
        one "journal_lasts" pub lasts: bool,
    }
}

record! {
    /// Descriptors for a worker that takes another one's place.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct SuccessionStart {
        /// Socket to the worker whose place this one takes, which hands over the memory of its stores and its journal.
        maybe "former_fd" pub former_fd: Option<i32>,
        /// Socket to the worker that will take this one's place.
        maybe "successor_fd" pub successor_fd: Option<i32>,
        /// The lock that the one worker holds that writes to disks; its own opening of it.
        maybe "write_lock_fd" pub write_lock_fd: Option<i32>,
    }
}

record! {
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct SecretsStart {
        /// Sealed memory with a bundle of certificates, if there is a listener for TLS.
        maybe "certificates_fd" pub certificates_fd: Option<i32>,
        /// The same with keys for session tickets.
        maybe "ticket_keys_fd" pub ticket_keys_fd: Option<i32>,
        /// Socket over which later ones come.
        maybe "secrets_fd" pub socket_fd: Option<i32>,
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
    /// The message: head and record.
    pub fn message(&self) -> Vec<u8> {
        let body = self.encode();
        let mut out = format!("{MAGIC} {VERSION} {}\n", body.len()).into_bytes();
        out.extend(body);
        out
    }

    /// Reads a message from the beginning of `bytes`: the message and its length, or `None` until more bytes come.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, HandoffError> {
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
            Some(body) => Ok(Some((Self::decode(body).map_err(HandoffError::Line)?, start + len))),
            None => Ok(None),
        }
    }
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
                    disk: None,
                },
                StoreStart {
                    name: "f".into(),
                    kind: StoreMedium::File,
                    size: None,
                    path: Some("/var/f".into()),
                    fd: Some(9),
                    arena_fd: None,
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
            manager: ManagerStart { pid: 77, panic_fd: Some(4), sentinel_fds: vec![12, 13] },
            journal: JournalStart { fd: Some(8), lasts: true },
            succession: SuccessionStart { former_fd: Some(14), successor_fd: Some(15), write_lock_fd: Some(16) },
            secrets: SecretsStart { certificates_fd: Some(17), ticket_keys_fd: Some(18), socket_fd: Some(19) },
            quic: Some(QuicStart { secret: [0x20; 32], life: 7, set: 1, former: Some(6) }),
            class_key: [b'\n'; 32],
            fleet: Some(FleetStart { spec: "nats://a,b=c d".into(), files: vec![("ca".into(), b"\0\n\xff".to_vec())] }),
            peers: Some(FleetStart { spec: "a@b".into(), files: vec![("secret-file".into(), b"s t".to_vec())] }),
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
        let mut bytes = start.message();
        let len = bytes.len();
        for cut in 0..len {
            assert_eq!(WorkerStart::read(&bytes[..cut]), Ok(None), "{cut}");
        }
        bytes.extend_from_slice(b"ping\n");
        assert_eq!(WorkerStart::read(&bytes), Ok(Some((start, len))));
    }

    #[test]
    fn refusals() {
        assert_eq!(WorkerStart::read(b"ping\n"), Err(HandoffError::Magic));
        assert_eq!(WorkerStart::read(b"x"), Err(HandoffError::Magic));
        assert_eq!(WorkerStart::read(b"LACQUER-HANDOFF 7 0\n"), Err(HandoffError::Version("7".into())));
        assert_eq!(WorkerStart::read(b"LACQUER-HANDOFF 13 99999999999\n"), Err(HandoffError::TooLong));
        let unknown = WorkerStart::read(b"LACQUER-HANDOFF 13 8\nnew \"1\"\n");
        assert_eq!(unknown, Err(HandoffError::Line("new \\\"1\\\"".into())));
    }

    proptest! {
        #[test]
        fn any_change_is_read_or_refused(at in 0usize..400, byte: u8) {
            let mut bytes = example().message();
            bytes[at] = byte;
            let _ = WorkerStart::read(&bytes);
        }

        #[test]
        fn any_names_come_back(identity in "\\PC{0,20}", name in "\\PC{0,20}", fd: i32, size: Option<u64>) {
            let mut start = example();
            start.identity = identity;
            start.listeners[0].name = name;
            start.listeners[0].fd = fd;
            start.stores[0].size = size;
            let (back, _) = WorkerStart::read(&start.message()).unwrap().unwrap();
            prop_assert_eq!(back, start);
        }
    }
}
