// SPDX-License-Identifier: BSD-2-Clause
//! What a manager tells the program that takes its place: text in a memfd, with a version; descriptors by their numbers.
//!
//! A head with magic and version, then lines of a key and quoted words, as the CLI quotes them. A program refuses another
//! version, a line that it doesn't know, and a word that it can't read: better no upgrade than half of one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use cli::client::quote;
use cli::handoff::{ListenerLayers, QuicStart};
use cli::words::split;

/// First line of the text; any change of the lines counts the number up.
const HEAD: &str = "LACQUER-UPGRADE 6";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listening {
    pub name: String,
    pub transport: ListenerLayers,
    /// The path of a Unix-domain socket, or an address and port.
    pub address: PathBuf,
    pub is_uds: bool,
    pub endpoint: String,
    /// User, group, mode: what -a says of the file.
    pub permissions: [Option<u32>; 3],
    pub sockets: Vec<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenStore {
    pub store: String,
    pub file: i32,
    pub bytes: u64,
    pub life: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpgradeVcl {
    pub name: String,
    pub state: String,
    pub is_warm: bool,
    pub file: Option<PathBuf>,
    /// Certificates and keys for its backends, in sealed memory.
    pub keys: Option<i32>,
    pub uses: Vec<String>,
    /// Seconds for which it could have gone cold.
    pub idle: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunningWorker {
    pub pid: i32,
    pub cli: i32,
    pub output: i32,
    pub panic: i32,
    pub memory: PathBuf,
    pub lived: f64,
    /// One of an earlier upgrade: how many seconds its connections have left.
    pub leaves_in: Option<f64>,
    /// True if it has handed over what outlives workers, and may still read it.
    pub hands_over: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenSession {
    /// `telnet`, `master` or `debug`.
    pub kind: String,
    pub identity: String,
    pub input: i32,
    pub output: Option<i32>,
    pub challenge: Option<Vec<u8>>,
    pub unread: Vec<u8>,
    pub unsent: Vec<u8>,
    pub is_closing: bool,
    /// True if it asked for the upgrade and waits for the reply.
    pub asks: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedDeath {
    pub at: f64,
    pub lived: f64,
    pub pid: i32,
    pub how: String,
    pub was_asked: bool,
    pub emptied: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpgradeState {
    pub writer: String,
    pub args: Vec<OsString>,
    pub program: PathBuf,
    /// The program that wrote this, open: it goes on when the new one fails.
    pub writer_file: i32,
    pub workdir: PathBuf,
    pub identity: String,
    pub vident: String,
    /// Seconds since the manager began.
    pub uptime: f64,
    pub params: String,
    pub protected: Vec<String>,
    pub notes: Vec<String>,
    pub listeners: Vec<Listening>,
    pub stores: Vec<OpenStore>,
    /// The memory of each store that outlives workers.
    pub arenas: Vec<(String, i32)>,
    pub journal: Option<i32>,
    pub journal_file: Option<i32>,
    /// File that a worker locks as long as it writes to disks.
    pub write_lock: Option<i32>,
    /// Socket from the present worker to its successor: the successor's end.
    pub relay: Option<i32>,
    /// The bundle of certificates, the keys for tickets, and the manager's end of the socket on which the present
    /// worker gets new ones.
    pub certificates: Option<i32>,
    pub ticket_keys: Option<i32>,
    pub secrets: Option<i32>,
    /// The present worker's signer, and the way to it; and those of workers of before.
    pub signer: Option<(i32, i32)>,
    pub leaving_signers: Vec<i32>,
    pub ticket_file: Option<String>,
    /// When another key is made, by the monotonic clock.
    pub ticket_due: Option<f64>,
    /// The file in which processes of `--watch` leave their history.
    pub watch_history: Option<i32>,
    pub after_death: bool,
    pub vcls: Vec<UpgradeVcl>,
    pub active: Option<String>,
    pub booted: u32,
    /// The state of the present worker, as `status` says it.
    pub worker_state: String,
    pub workers: Vec<RunningWorker>,
    pub counters: Vec<(String, u64)>,
    pub panic: Option<String>,
    pub deaths: Vec<RecordedDeath>,
    pub total_deaths: u64,
    pub recent_deaths: Vec<f64>,
    pub restarts: u32,
    /// Keys for QUIC that workers share, if there is a listener for it.
    pub quic: Option<QuicStart>,
    pub class_key: [u8; 32],
    pub exit_status: i32,
    pub secret: Option<PathBuf>,
    pub secret_is_ours: bool,
    pub pid_files: Vec<(PathBuf, i32)>,
    pub cli_sockets: Vec<i32>,
    pub masters: Vec<String>,
    pub sessions: Vec<OpenSession>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateError {
    /// Not a state, or of another version.
    Head(String),
    Line(String),
}

impl std::fmt::Display for StateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Head(head) => write!(f, "the running program's state begins with {head:?}, not {HEAD:?}"),
            Self::Line(line) => write!(f, "the running program's state has a line that can't be read: {line}"),
        }
    }
}

impl UpgradeState {
    pub fn descriptors(&self) -> BTreeSet<i32> {
        let mut all = BTreeSet::from([self.writer_file]);
        all.extend(self.listeners.iter().flat_map(|l| &l.sockets));
        all.extend(self.stores.iter().map(|s| s.file));
        all.extend(
            self.arenas
                .iter()
                .map(|(_, fd)| fd)
                .chain(&self.journal)
                .chain(&self.journal_file)
                .chain(&self.write_lock)
                .chain(&self.relay)
                .chain(
                    [&self.certificates, &self.ticket_keys, &self.secrets, &self.watch_history].into_iter().flatten(),
                )
                .chain(self.signer.iter().map(|(_, fd)| fd)),
        );
        all.extend(self.vcls.iter().filter_map(|vcl| vcl.keys));
        all.extend(self.workers.iter().flat_map(|w| [w.cli, w.output, w.panic]));
        all.extend(self.pid_files.iter().map(|(_, fd)| fd));
        all.extend(&self.cli_sockets);
        all.extend(self.sessions.iter().flat_map(|s| [Some(s.input), s.output]).flatten());
        all
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(format!("{HEAD}\n").into_bytes());
        out.line("writer", [self.writer.as_bytes()]);
        out.line("args", self.args.iter().map(|arg| arg.as_bytes()));
        out.line("program", [path_bytes(&self.program)]);
        out.line("writer_file", [number(self.writer_file)]);
        out.line("workdir", [path_bytes(&self.workdir)]);
        out.line("identity", [self.identity.as_bytes()]);
        out.line("vident", [self.vident.as_bytes()]);
        out.line("uptime", [number(self.uptime)]);
        out.line("params", [self.params.as_bytes()]);
        out.line("protected", self.protected.iter().map(String::as_bytes));
        out.line("notes", self.notes.iter().map(String::as_bytes));
        self.listeners.iter().for_each(|listener| out.listener(listener));
        for store in &self.stores {
            out.line("store", [store.store.clone(), number(store.file), number(store.bytes), number(store.life)]);
        }
        for (store, fd) in &self.arenas {
            out.line("arena", [store.clone(), number(*fd)]);
        }
        self.journal.iter().for_each(|fd| out.line("journal", [number(*fd)]));
        self.journal_file.iter().for_each(|fd| out.line("journal_file", [number(*fd)]));
        self.write_lock.iter().for_each(|fd| out.line("write_lock", [number(*fd)]));
        self.relay.iter().for_each(|fd| out.line("relay", [number(*fd)]));
        self.certificates.iter().for_each(|fd| out.line("certificates", [number(*fd)]));
        self.ticket_keys.iter().for_each(|fd| out.line("ticket_keys", [number(*fd)]));
        self.secrets.iter().for_each(|fd| out.line("secrets", [number(*fd)]));
        self.signer.iter().for_each(|(pid, fd)| out.line("signer", [number(*pid), number(*fd)]));
        self.leaving_signers.iter().for_each(|pid| out.line("leaving_signer", [number(*pid)]));
        self.ticket_file.iter().for_each(|path| out.line("ticket_file", [path]));
        self.ticket_due.iter().for_each(|due| out.line("ticket_due", [number(*due)]));
        self.watch_history.iter().for_each(|fd| out.line("watch_history", [number(*fd)]));
        out.line("after_death", [flag(self.after_death)]);
        self.vcls.iter().for_each(|vcl| out.vcl(vcl));
        self.active.iter().for_each(|name| out.line("active", [name]));
        out.line("booted", [number(self.booted)]);
        out.line("worker_state", [self.worker_state.as_bytes()]);
        self.workers.iter().for_each(|worker| out.worker(worker));
        for (name, value) in &self.counters {
            out.line("counter", [name.clone(), number(*value)]);
        }
        self.panic.iter().for_each(|text| out.line("panic", [text]));
        for d in &self.deaths {
            let numbers = [number(d.at), number(d.lived), number(d.pid)];
            out.line("death", numbers.into_iter().chain([d.how.clone(), flag(d.was_asked), flag(d.emptied)]));
        }
        out.line("total_deaths", [number(self.total_deaths)]);
        out.line("recent_deaths", self.recent_deaths.iter().map(|at| number(*at)));
        out.line("restarts", [number(self.restarts)]);
        if let Some(quic) = &self.quic {
            out.line("quic", quic.words());
        }
        out.line("class_key", [&self.class_key]);
        out.line("exit_status", [number(self.exit_status)]);
        self.secret.iter().for_each(|path| out.line("secret", [path_bytes(path)]));
        out.line("secret_is_ours", [flag(self.secret_is_ours)]);
        for (path, fd) in &self.pid_files {
            out.line("pid_file", [path_bytes(path), number(*fd).as_bytes()]);
        }
        out.line("cli_sockets", self.cli_sockets.iter().map(|fd| number(*fd)));
        out.line("masters", self.masters.iter().map(String::as_bytes));
        self.sessions.iter().for_each(|session| out.session(session));
        out.0
    }

    pub fn decode(bytes: &[u8]) -> Result<UpgradeState, StateError> {
        let mut lines = bytes.split(|b| *b == b'\n');
        let head = lines.next().unwrap_or_default();
        if head != HEAD.as_bytes() {
            return Err(StateError::Head(String::from_utf8_lossy(&head[..head.len().min(40)]).into_owned()));
        }
        let mut state = UpgradeState::default();
        for line in lines.filter(|line| !line.is_empty()) {
            let shown = || StateError::Line(line[..line.len().min(200)].escape_ascii().to_string());
            let words = split(line).map_err(|_| shown())?;
            let [key, values @ ..] = &words[..] else { return Err(shown()) };
            state.take_line(key, values).ok_or_else(shown)?;
        }
        Ok(state)
    }

    fn take_line(&mut self, key: &[u8], values: &[Vec<u8>]) -> Option<()> {
        let mut words = Words(values.iter());
        let take = &mut words;
        match key {
            b"writer" => self.writer = take.text()?,
            b"args" => self.args = take.rest(|w| Some(OsString::from_vec(w.to_vec())))?,
            b"program" => self.program = take.path()?,
            b"writer_file" => self.writer_file = take.number()?,
            b"workdir" => self.workdir = take.path()?,
            b"identity" => self.identity = take.text()?,
            b"vident" => self.vident = take.text()?,
            b"uptime" => self.uptime = take.seconds()?,
            b"params" => self.params = take.text()?,
            b"protected" => self.protected = take.rest(text_of)?,
            b"notes" => self.notes = take.rest(text_of)?,
            b"listener" => self.listeners.push(take.listener()?),
            b"store" => {
                let (store, file) = (take.text()?, take.number()?);
                self.stores.push(OpenStore { store, file, bytes: take.number()?, life: take.number()? });
            }
            b"arena" => self.arenas.push((take.text()?, take.number()?)),
            b"journal" => self.journal = Some(take.number()?),
            b"journal_file" => self.journal_file = Some(take.number()?),
            b"write_lock" => self.write_lock = Some(take.number()?),
            b"relay" => self.relay = Some(take.number()?),
            b"certificates" => self.certificates = Some(take.number()?),
            b"ticket_keys" => self.ticket_keys = Some(take.number()?),
            b"secrets" => self.secrets = Some(take.number()?),
            b"signer" => self.signer = Some((take.number()?, take.number()?)),
            b"leaving_signer" => self.leaving_signers.push(take.number()?),
            b"ticket_file" => self.ticket_file = Some(take.text()?),
            b"ticket_due" => self.ticket_due = Some(take.seconds()?),
            b"watch_history" => self.watch_history = Some(take.number()?),
            b"after_death" => self.after_death = take.flag()?,
            b"vcl" => self.vcls.push(take.vcl()?),
            b"active" => self.active = Some(take.text()?),
            b"booted" => self.booted = take.number()?,
            b"worker_state" => self.worker_state = take.text()?,
            b"worker" => self.workers.push(take.worker()?),
            b"counter" => self.counters.push((take.text()?, take.number()?)),
            b"panic" => self.panic = Some(take.text()?),
            b"death" => self.deaths.push(take.death()?),
            b"total_deaths" => self.total_deaths = take.number()?,
            b"recent_deaths" => self.recent_deaths = take.rest(seconds_of)?,
            b"restarts" => self.restarts = take.number()?,
            b"class_key" => {
                self.class_key = take.rest(|word| Some(word.to_vec()))?.first()?.as_slice().try_into().ok()?
            }
            b"quic" => self.quic = Some(QuicStart::read(&take.rest(|word| Some(word.to_vec()))?)?),
            b"exit_status" => self.exit_status = take.number()?,
            b"secret" => self.secret = Some(take.path()?),
            b"secret_is_ours" => self.secret_is_ours = take.flag()?,
            b"pid_file" => self.pid_files.push((take.path()?, take.number()?)),
            b"cli_sockets" => self.cli_sockets = take.rest(number_of)?,
            b"masters" => self.masters = take.rest(text_of)?,
            b"session" => self.sessions.push(take.session()?),
            _ => return None,
        }
        words.0.next().is_none().then_some(())
    }
}

/// Lines, as they are written.
struct Writer(Vec<u8>);

impl Writer {
    fn line<W: AsRef<[u8]>>(&mut self, key: &str, words: impl IntoIterator<Item = W>) {
        self.0.extend_from_slice(key.as_bytes());
        for word in words {
            self.0.push(b' ');
            self.0.extend_from_slice(&quote(word.as_ref()));
        }
        self.0.push(b'\n');
    }

    fn listener(&mut self, l: &Listening) {
        let mut words = vec![
            l.name.clone().into_bytes(),
            transport_number(l.transport).into_bytes(),
            path_bytes(&l.address).to_vec(),
            flag(l.is_uds).into_bytes(),
            l.endpoint.clone().into_bytes(),
        ];
        words.extend(l.permissions.map(|p| optional(p).into_bytes()));
        words.extend(l.sockets.iter().map(|fd| number(*fd).into_bytes()));
        self.line("listener", words);
    }

    fn vcl(&mut self, vcl: &UpgradeVcl) {
        let mut words = vec![
            vcl.name.clone().into_bytes(),
            vcl.state.clone().into_bytes(),
            flag(vcl.is_warm).into_bytes(),
            vcl.file.as_deref().map(path_bytes).unwrap_or_default().to_vec(),
            optional(vcl.idle).into_bytes(),
            optional(vcl.keys).into_bytes(),
        ];
        words.extend(vcl.uses.iter().map(|name| name.clone().into_bytes()));
        self.line("vcl", words);
    }

    fn worker(&mut self, w: &RunningWorker) {
        let numbers = [w.pid, w.cli, w.output, w.panic].map(|n| number(n).into_bytes());
        let rest = [number(w.lived), optional(w.leaves_in), flag(w.hands_over)].map(String::into_bytes);
        self.line("worker", numbers.into_iter().chain([path_bytes(&w.memory).to_vec()]).chain(rest));
    }

    fn session(&mut self, s: &OpenSession) {
        let words = [
            s.kind.as_bytes(),
            s.identity.as_bytes(),
            number(s.input).as_bytes(),
            optional(s.output).as_bytes(),
            s.challenge.as_deref().unwrap_or_default(),
            &s.unread,
            &s.unsent,
            flag(s.is_closing).as_bytes(),
            flag(s.asks).as_bytes(),
        ]
        .map(<[u8]>::to_vec);
        self.line("session", words);
    }
}

struct Words<'a>(std::slice::Iter<'a, Vec<u8>>);

impl Words<'_> {
    fn text(&mut self) -> Option<String> {
        text_of(self.0.next()?)
    }

    fn path(&mut self) -> Option<PathBuf> {
        Some(PathBuf::from(OsString::from_vec(self.0.next()?.clone())))
    }

    fn number<N: std::str::FromStr>(&mut self) -> Option<N> {
        number_of(self.0.next()?)
    }

    fn seconds(&mut self) -> Option<f64> {
        seconds_of(self.0.next()?)
    }

    /// `Some(None)` is an empty word.
    fn optional<N>(&mut self, read: impl FnOnce(&[u8]) -> Option<N>) -> Option<Option<N>> {
        match self.0.next()? {
            word if word.is_empty() => Some(None),
            word => read(word).map(Some),
        }
    }

    fn flag(&mut self) -> Option<bool> {
        match self.0.next()?.as_slice() {
            b"0" => Some(false),
            b"1" => Some(true),
            _ => None,
        }
    }

    fn rest<T>(&mut self, mut read: impl FnMut(&[u8]) -> Option<T>) -> Option<Vec<T>> {
        self.0.by_ref().map(|word| read(word)).collect()
    }

    fn transport(&mut self) -> Option<ListenerLayers> {
        let word = self.text()?;
        ListenerLayers::ALL.into_iter().find(|transport| transport_number(*transport) == word)
    }

    fn listener(&mut self) -> Option<Listening> {
        Some(Listening {
            name: self.text()?,
            transport: self.transport()?,
            address: self.path()?,
            is_uds: self.flag()?,
            endpoint: self.text()?,
            permissions: [self.optional(number_of)?, self.optional(number_of)?, self.optional(number_of)?],
            sockets: self.rest(number_of)?,
        })
    }

    fn vcl(&mut self) -> Option<UpgradeVcl> {
        Some(UpgradeVcl {
            name: self.text()?,
            state: self.text()?,
            is_warm: self.flag()?,
            file: Some(self.path()?).filter(|path| !path.as_os_str().is_empty()),
            idle: self.optional(seconds_of)?,
            keys: self.optional(number_of)?,
            uses: self.rest(text_of)?,
        })
    }

    fn worker(&mut self) -> Option<RunningWorker> {
        Some(RunningWorker {
            pid: self.number()?,
            cli: self.number()?,
            output: self.number()?,
            panic: self.number()?,
            memory: self.path()?,
            lived: self.seconds()?,
            leaves_in: self.optional(seconds_of)?,
            hands_over: self.flag()?,
        })
    }

    fn session(&mut self) -> Option<OpenSession> {
        Some(OpenSession {
            kind: self.text()?,
            identity: self.text()?,
            input: self.number()?,
            output: self.optional(number_of)?,
            challenge: self.optional(|word| Some(word.to_vec()))?,
            unread: self.0.next()?.clone(),
            unsent: self.0.next()?.clone(),
            is_closing: self.flag()?,
            asks: self.flag()?,
        })
    }

    fn death(&mut self) -> Option<RecordedDeath> {
        Some(RecordedDeath {
            at: self.seconds()?,
            lived: self.seconds()?,
            pid: self.number()?,
            how: self.text()?,
            was_asked: self.flag()?,
            emptied: self.flag()?,
        })
    }
}

fn text_of(word: &[u8]) -> Option<String> {
    String::from_utf8(word.to_vec()).ok()
}

fn number_of<N: std::str::FromStr>(word: &[u8]) -> Option<N> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn seconds_of(word: &[u8]) -> Option<f64> {
    number_of::<f64>(word).filter(|seconds| seconds.is_finite())
}

fn number(n: impl ToString) -> String {
    n.to_string()
}

fn optional<N: ToString>(n: Option<N>) -> String {
    n.map(number).unwrap_or_default()
}

fn flag(on: bool) -> String {
    if on { "1" } else { "0" }.to_owned()
}

/// 0 and 1 are what there was before TLS.
fn transport_number(transport: ListenerLayers) -> String {
    let ListenerLayers { has_proxy_header, is_tls, is_quic } = transport;
    (u8::from(has_proxy_header) + 2 * u8::from(is_tls) + 4 * u8::from(is_quic)).to_string()
}

fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> UpgradeState {
        UpgradeState {
            writer: "Lacquer 1".into(),
            args: vec!["varnishd".into(), "-a".into(), OsString::from_vec(vec![b'"', 0xff, b'\n'])],
            program: "/usr/sbin/varnishd".into(),
            writer_file: 9,
            workdir: "/run/w x".into(),
            uptime: 12.5,
            params: "a=1\nb=2\n".into(),
            protected: vec!["cc_command".into()],
            listeners: vec![Listening {
                name: "a0".into(),
                address: "127.0.0.1:80".into(),
                permissions: [None, Some(7), None],
                sockets: vec![4, 5],
                ..Listening::default()
            }],
            stores: vec![OpenStore { store: "s0".into(), file: 12, bytes: 1 << 40, life: 5 }],
            arenas: vec![("s1".into(), 13)],
            journal: Some(14),
            journal_file: Some(15),
            write_lock: Some(27),
            relay: Some(16),
            certificates: Some(17),
            ticket_keys: Some(18),
            secrets: Some(19),
            signer: Some((78, 28)),
            leaving_signers: vec![79],
            ticket_file: Some("/etc/a b".into()),
            ticket_due: Some(123.5),
            watch_history: Some(32),
            vcls: vec![
                UpgradeVcl {
                    name: "boot".into(),
                    state: "auto".into(),
                    file: Some("v/b".into()),
                    keys: Some(31),
                    ..UpgradeVcl::default()
                },
                UpgradeVcl { name: "l".into(), uses: vec!["boot".into()], idle: Some(1.5), ..UpgradeVcl::default() },
            ],
            active: Some("boot".into()),
            worker_state: "running".into(),
            workers: vec![RunningWorker { pid: 77, cli: 20, output: 21, panic: 22, ..RunningWorker::default() }],
            counters: vec![("child_start".into(), 3)],
            panic: Some("Panic at: now\n".into()),
            deaths: vec![RecordedDeath { how: "died signal=9".into(), ..RecordedDeath::default() }],
            recent_deaths: vec![1e9],
            secret: Some("/etc/s".into()),
            pid_files: vec![("_.pid".into(), 8)],
            cli_sockets: vec![6],
            masters: vec!["127.0.0.1:1".into()],
            quic: Some(QuicStart { secret: [b'"'; 32], life: 7, set: 1, former: None }),
            class_key: [b' '; 32],
            sessions: vec![OpenSession { kind: "telnet".into(), input: 30, asks: true, ..OpenSession::default() }],
            ..UpgradeState::default()
        }
    }

    #[test]
    fn it_comes_back() {
        let state = example();
        assert_eq!(UpgradeState::decode(&state.encode()), Ok(state.clone()));
        let all = [4, 5, 6, 8, 9, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 32];
        assert_eq!(state.descriptors().into_iter().collect::<Vec<_>>(), all);
    }

    #[test]
    fn another_version_and_unknown_lines_are_refused() {
        let text = |bytes: &[u8]| UpgradeState::decode(bytes).unwrap_err().to_string();
        let next = text(b"LACQUER-UPGRADE 7\n");
        assert_eq!(next, "the running program's state begins with \"LACQUER-UPGRADE 7\", not \"LACQUER-UPGRADE 6\"");
        assert!(text(b"LACQUER-UPGRADE 6\nnew \"1\"\n").ends_with("can't be read: new \\\"1\\\""));
        assert!(text(b"LACQUER-UPGRADE 6\nbooted 1 2\n").ends_with("booted 1 2"));
    }

    proptest! {
        #[test]
        fn any_change_is_read_or_refused(at in 0usize..900, byte: u8) {
            let mut bytes = example().encode();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = UpgradeState::decode(&bytes);
        }
    }
}
