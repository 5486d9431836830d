// SPDX-License-Identifier: BSD-2-Clause
//! `--watch`: a process of this program shows the server on a page (`lacquer watch`). The manager starts it, starts it again when it dies, and
//! ends it with itself; it reads shared memory as any tool does. It reads what clients send and is spoken to by browsers, so it gets no more
//! than it needs: the CLI answers its questions over a channel of its own, and only one that may change the server (`control`) has the secret.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use base::clock::Mono;
use base::text::bad_address;
use cli::record::Fd;
use sys::process::Spawn;
use zeroize::Zeroizing;

use crate::companion::{Companion, CompanionProcess};
use crate::jail::JailRole;
use crate::manager::Manager;
use crate::session::CliSessionKind;
use crate::upgrade::carried::{Carried, Successor, copy};

/// The program name under which this executable watches.
pub const PROGRAM: &str = "lacquer-watch";

const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The longest file that is handed to it.
const FILE_BYTES: u64 = 1 << 20;
/// The exit status of wrong words: the next one would say the same.
const USAGE: i32 = 2;

/// Words of `lacquer watch` that the option's value stands for.
///
/// # Errors
/// It makes no sense, or would show everything to everybody.
pub(crate) fn words(value: &str) -> Result<Vec<String>, String> {
    let mut parts = value.split(',');
    let address = parts.next().unwrap_or_default();
    let mut out = vec!["-a".to_owned(), address.to_owned()];
    let mut is_guarded = false;
    for part in parts {
        match part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value))) {
            ("token-file", Some(file)) if file.starts_with('/') => {
                is_guarded = true;
                out.push(format!("--token-file={file}"));
            }
            (key @ ("tls-cert" | "tls-key"), Some(file)) if file.starts_with('/') => {
                out.push(format!("--{key}={file}"))
            }
            ("client-ca", Some(file)) if file.starts_with('/') => {
                is_guarded = true;
                out.push(format!("--client-ca={file}"));
            }
            (key @ ("token-file" | "tls-cert" | "tls-key" | "client-ca"), _) => {
                return Err(format!("{key} wants the absolute name of a file"));
            }
            ("show-header", Some(name)) => out.push(format!("--show-header={name}")),
            ("metrics", Some(names @ ("own" | "exporter"))) => out.push(format!("--metrics={names}")),
            ("ready", Some(what)) => out.push(format!("--ready={what}")),
            (flag @ ("any-port" | "control" | "no-cli" | "show-vcl"), None) => out.push(format!("--{flag}")),
            _ => {
                return Err(format!(
                    "no setting {part} (there are token-file=, tls-cert=, tls-key=, client-ca=, show-header=, metrics=, ready=, any-port, control, no-cli, show-vcl)"
                ));
            }
        }
    }
    let local = match address.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => address.to_owned(),
    };
    let addresses =
        base::lookup::addresses_of_text(&local).map_err(|_| format!("{address}: {}", bad_address(address)))?;
    if !is_guarded && !addresses.iter().all(|address| address.ip().is_loopback()) {
        return Err(format!("{address}: other machines could see everything; set token-file=FILE or client-ca=FILE"));
    }
    if !is_guarded && out.iter().any(|word| word == "--control") {
        return Err(
            "control needs token-file=FILE or client-ca=FILE: else everybody on this machine could change the server"
                .to_owned(),
        );
    }
    Ok(out)
}

#[derive(Debug)]
pub(crate) struct Watcher {
    words: Vec<String>,
    companion: Companion,
    /// A file in memory in which each process leaves history and events to the next one. Kept over an upgrade.
    history: Option<OwnedFd>,
}

impl Watcher {
    /// A watcher with these words; without any there is none. `history`: the file of the processes before it.
    pub fn new(words: Vec<String>, history: Option<OwnedFd>) -> Watcher {
        Watcher { words, companion: Companion::new("watch", LONGEST_PAUSE), history }
    }

    pub fn history(&self) -> Option<BorrowedFd<'_>> {
        self.history.as_ref().map(AsFd::as_fd)
    }

    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.companion.descriptor()
    }

    pub fn due(&self) -> Option<Mono> {
        self.companion.due()
    }
}

impl Carried for Watcher {
    type Record = Option<Fd>;

    fn save(&self, _: Mono) -> Option<Fd> {
        self.history.as_ref().map(Fd::of)
    }

    fn restore(history: &Option<Fd>, by: &Successor<'_>) -> Result<Watcher, String> {
        let words = by.options.watch.as_deref().map(words).transpose()?.unwrap_or_default();
        Ok(Watcher::new(words, history.map(copy).transpose()?))
    }
}

impl Manager {
    pub(crate) fn begin_watch(&mut self) {
        if !self.watcher.companion.takes_turn() || self.watcher.words.is_empty() {
            return;
        }
        let process = self.try_begin_watch();
        let now = self.now();
        self.watcher.companion.begin_with(process, now);
    }

    fn try_begin_watch(&mut self) -> io::Result<CompanionProcess> {
        let (its_life, life) = sys::fd::pipe()?;
        let (said, its_output) = sys::fd::pipe()?;
        let secret = self.secret_for_watch()?;
        let has = |word: &str| self.watcher.words.iter().any(|known| known == word);
        let words = self.watcher.words.iter().map(|word| self.word_for_watch(word)).collect::<io::Result<Vec<_>>>()?;
        if self.watcher.history.is_none() {
            self.watcher.history = Some(sys::fd::memfd("lacquer watch history")?.into());
        }
        let channel = (!has("--no-cli")).then(sys::fd::socket_pair).transpose()?;
        // It may not be allowed to walk to the workdir, which is where it begins.
        let mut spawn = Spawn::new(&self.server.exe, PROGRAM)?
            .arg("-n")?
            .arg("/proc/self/cwd")?
            .arg(format!("--child={}", self.server.workdir.display()))?
            .standard(0, its_life.as_fd())
            .standard(1, its_output.as_fd())
            .standard(2, its_output.as_fd())
            .credentials(self.jail.credentials(JailRole::Checker))
            .no_core()
            .new_group();
        if let Some(history) = self.watcher.history() {
            spawn = spawn.arg(format!("--history={}", history.as_raw_fd()))?.keep(history);
        }
        for (word, file) in &words {
            spawn = spawn.arg(word)?;
            if let Some(file) = file {
                spawn = spawn.keep(file.as_fd());
            }
        }
        if let Some(secret) = &secret {
            spawn = spawn.arg("-S")?.arg(format!("/proc/self/fd/{}", secret.as_raw_fd()))?.keep(secret.as_fd());
        }
        if let Some((_, its_end)) = &channel {
            spawn = spawn.arg(format!("--cli-channel={}", its_end.as_raw_fd()))?.keep(its_end.as_fd());
        }
        let child = self.jail.privileged(|| spawn.start())?;
        if let Some((end, _)) = channel {
            self.open_session(CliSessionKind::Watch, "watch".into(), end, None);
        }
        Ok(CompanionProcess::new(child, said, Some(life), self.now()))
    }

    /// The CLI's secret, which it may not read itself, as a file in memory: for one that may change the server.
    fn secret_for_watch(&self) -> io::Result<Option<File>> {
        let Some(path) = self.cli.secret.as_ref().filter(|_| self.watcher.words.iter().any(|word| word == "--control"))
        else {
            return Ok(None);
        };
        self.in_memory(path)
    }

    /// A word as it gets it. Files that it may not read itself, as it is another user, are handed to it in memory.
    fn word_for_watch(&self, word: &str) -> io::Result<(String, Option<File>)> {
        const FILES: [&str; 4] = ["--token-file", "--tls-cert", "--tls-key", "--client-ca"];
        let named = word.split_once('=').filter(|(key, _)| FILES.contains(key));
        let Some((key, path)) = named.filter(|_| self.jail.credentials(JailRole::Checker).is_some()) else {
            return Ok((word.to_owned(), None));
        };
        let file = self.in_memory(path)?;
        let word = file.as_ref().map_or(word.to_owned(), |file| format!("{key}=/proc/self/fd/{}", file.as_raw_fd()));
        Ok((word, file))
    }

    /// A copy of a file in memory. `None`: it can't be read, which its reader reports where it matters.
    fn in_memory(&self, path: impl AsRef<Path>) -> io::Result<Option<File>> {
        let mut text = Zeroizing::new(Vec::new());
        let read = self.jail.privileged(|| File::open(path.as_ref())?.take(FILE_BYTES).read_to_end(&mut text));
        if read.is_err() {
            return Ok(None);
        }
        let mut file = sys::fd::memfd("lacquer watch")?;
        file.write_all(&text)?;
        Ok(Some(file))
    }

    pub(crate) fn end_watch(&mut self) {
        self.watcher.companion.end(&self.jail);
    }

    pub(crate) fn tend_watch(&mut self) {
        let now = self.now();
        self.watcher.companion.tend(&self.jail, now, Some(USAGE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expected: &str) {
        assert_eq!(words(value).map_or_else(|e| e, |words| words.join(" ")), expected, "{value}");
    }

    #[test]
    fn an_address_and_settings() {
        check("127.0.0.1:6085", "-a 127.0.0.1:6085");
        check(
            "127.0.0.1:6085,any-port,show-vcl,show-header=Cookie",
            "-a 127.0.0.1:6085 --any-port --show-vcl --show-header=Cookie",
        );
        check(
            "0.0.0.0:80,token-file=/t,control,metrics=exporter",
            "-a 0.0.0.0:80 --token-file=/t --control --metrics=exporter",
        );
        check(":6085,ready=backend=a", "-a :6085 --ready=backend=a");
        check(
            "0.0.0.0:443,tls-cert=/c,tls-key=/k,client-ca=/a,control",
            "-a 0.0.0.0:443 --tls-cert=/c --tls-key=/k --client-ca=/a --control",
        );
    }

    #[test]
    fn what_would_show_everything_to_everybody_is_refused() {
        check(
            "0.0.0.0:6085",
            "0.0.0.0:6085: other machines could see everything; set token-file=FILE or client-ca=FILE",
        );
        check(
            "127.0.0.1:1,control",
            "control needs token-file=FILE or client-ca=FILE: else everybody on this machine could change the server",
        );
        check("nonsense", "nonsense: no address:port");
        check("127.0.0.1:1,token-file=t", "token-file wants the absolute name of a file");
        check("127.0.0.1:1,tls-cert=c", "tls-cert wants the absolute name of a file");
        assert!(words("127.0.0.1:1,x").unwrap_err().starts_with("no setting x (there are token-file="));
    }
}
