// SPDX-License-Identifier: BSD-2-Clause
//! Keys for session tickets: made here and changed twice a day, so that a worker's death ends no session; or those of a file,
//! so that servers of a fleet take each other's sessions.

use std::fs::File;
use std::time::Duration;

use base::clock::{Mono, Real};
use cli::CliRequest;
use cli::handoff::HandoffSecret;
use cli::record;
use cli::record::Fd;
use tables::json::quote;
use tls::tickets::{self, LIFETIME_SECONDS, TicketKey};

use crate::certs::files::{Signature, bytes_of, signature};
use crate::fatal::errno_text;
use crate::jail::Jail;
use crate::manager::Manager;
use crate::reply::CliReply;
use crate::report::{ReportSeverity, print};
use crate::upgrade::carried::{Carried, Successor, copy_file};

/// Between changes: a ticket lives as long, so the key of before opens all that are still good.
pub const ROTATION: Duration = Duration::from_secs(LIFETIME_SECONDS as u64);
/// A key of a file that has sealed for so many days is reminded of, once a day: who gets it can read what clients sent by TLS 1.2 with sessions
/// that it sealed.
const OLD_DAYS: i64 = 7;
const DAY_SECONDS: i64 = 86_400;
const LONGEST_FILE: usize = 64 << 10;

/// See the module. Without a listener for TLS there are none.
#[derive(Debug, Default)]
pub struct TicketKeys {
    keys: Vec<TicketKey>,
    /// The keys in sealed memory, for workers.
    file: Option<File>,
    path: Option<String>,
    /// Signature of the file when it was read, or at the last look if that differs.
    seen: Option<Signature>,
    changing: Option<Option<Signature>>,
    due: Option<Mono>,
    /// When the key of the file that seals was new, by the file's time, and when that was said to be long ago: seconds since 1970.
    sealing_since: Option<i64>,
    reminded: Option<i64>,
}

impl TicketKeys {
    /// Makes the first key, or reads the file.
    ///
    /// # Errors
    /// In words.
    pub fn begin(path: Option<&str>, now: Mono, jail: &Jail) -> Result<TicketKeys, String> {
        let mut out = TicketKeys { path: path.map(str::to_owned), ..TicketKeys::default() };
        out.keys = match path {
            Some(path) => {
                out.saw(jail.privileged(|| signature(path)));
                read(path, jail)?
            }
            None => vec![new_key()?],
        };
        out.due = path.is_none().then(|| now + ROTATION);
        out.file = Some(sealed(&out.keys)?);
        Ok(out)
    }

    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    pub fn due(&self) -> Option<Mono> {
        self.due
    }

    /// Facts for lists; for times that are known, seconds since 1970.
    fn shown(&self, now: Mono, real: i64) -> Shown<'_> {
        let left = self.due.map(|due| due.since(now) as i64);
        let made = left.map(|left| real + left - ROTATION.as_secs() as i64);
        Shown {
            keys: self.keys.len(),
            path: self.path(),
            sealing_since: self.sealing_since.filter(|_| self.path.is_some()).or(made),
            next: left.map(|left| real + left),
        }
    }

    fn take(&mut self, keys: Vec<TicketKey>, file: Option<File>) {
        if keys.first() != self.keys.first() {
            (self.sealing_since, self.reminded) = (None, None);
        }
        (self.keys, self.file) = (keys, file);
    }

    /// Notes the signature with which the file was read. One that has only been touched has no new key.
    fn saw(&mut self, seen: Option<Signature>) {
        self.seen = seen;
        self.sealing_since = self.sealing_since.or(seen.map(Signature::modified));
    }

    /// Days for which the key of the file has sealed, if that is to be logged now.
    fn days_to_tell(&mut self, now: i64) -> Option<i64> {
        let days = (now - self.sealing_since?) / DAY_SECONDS;
        let was_said = self.reminded.is_some_and(|at| (at..at + DAY_SECONDS).contains(&now));
        (days >= OLD_DAYS && !was_said).then(|| {
            self.reminded = Some(now);
            days
        })
    }
}

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct TicketKeysRecord {
        maybe "ticket_keys" pub file: Option<Fd>,
        maybe "ticket_file" pub path: Option<String>,
        maybe "ticket_due" pub due: Option<Mono>,
    }
}

impl Carried for TicketKeys {
    type Record = TicketKeysRecord;

    fn save(&self, _: Mono) -> TicketKeysRecord {
        TicketKeysRecord { file: self.file.as_ref().map(Fd::of), path: self.path.clone(), due: self.due }
    }

    fn restore(record: &TicketKeysRecord, by: &Successor<'_>) -> Result<TicketKeys, String> {
        let Some(file) = copy_file(record.file)? else { return Ok(TicketKeys::default()) };
        let secret =
            sys::secret::SealedSecret::map(&file).map_err(|e| format!("keys of tickets: {}", errno_text(&e)))?;
        let keys = tickets::decode(secret.as_ref()).ok_or("the keys of tickets can't be read")?;
        // An upgrade puts nothing off; and a due time that makes no sense doesn't either.
        let latest = by.now + ROTATION;
        let due = record.due.filter(|due| *due <= latest).unwrap_or(latest);
        let due = record.path.is_none().then_some(due);
        // The file is read again: it may have changed meanwhile.
        Ok(TicketKeys { keys, file: Some(file), path: record.path.clone(), due, ..TicketKeys::default() })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Shown<'a> {
    keys: usize,
    path: Option<&'a str>,
    sealing_since: Option<i64>,
    next: Option<i64>,
}

/// Stands in lists for a time that isn't known.
const NOT_KNOWN: &str = "-";

impl Shown<'_> {
    fn row(&self) -> String {
        let date = |at: Option<i64>| at.map_or(NOT_KNOWN.to_owned(), |at| message::date::text(Real(at as f64)));
        let (since, next) = (date(self.sealing_since), date(self.next));
        format!("{}\t{}\t{since}\t{next}\n", self.keys, self.path.unwrap_or("made here"))
    }

    fn object(&self) -> String {
        let number = |at: Option<i64>| at.map_or("null".to_owned(), |at| at.to_string());
        let path = self.path.map_or("null".to_owned(), quote);
        let (since, next) = (number(self.sealing_since), number(self.next));
        format!(",\n  {{\"keys\": {}, \"file\": {path}, \"sealing_since\": {since}, \"next\": {next}}}", self.keys)
    }
}

fn read(path: &str, jail: &Jail) -> Result<Vec<TicketKey>, String> {
    let refused = |reason: String| format!("ticket-keys-file {path}: {reason}");
    let bytes = jail.privileged(|| bytes_of(path, LONGEST_FILE)).map_err(refused)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| refused("it isn't text".to_owned()))?;
    tickets::read(text).map_err(refused)
}

fn new_key() -> Result<TicketKey, String> {
    TicketKey::random().ok_or_else(|| "the system has no random numbers".to_owned())
}

fn sealed(keys: &[TicketKey]) -> Result<File, String> {
    let file = sys::secret::seal("lacquer-ticket-keys", &tickets::encode(keys));
    file.map_err(|e| format!("no memory for keys of tickets: {}", errno_text(&e)))
}

impl Manager {
    /// `tls.ticket.list`: never a key, nor anything that is made of one.
    pub(crate) fn ticket_list(&self, request: &CliRequest) -> CliReply {
        if !self.tls.certs.is_on() {
            return CliReply::cant("TLS has not been configured");
        }
        let shown = self.tls.ticket_keys.shown(self.now(), self.clock.real().0 as i64);
        match request.wants_json() {
            true => self.json(request, &shown.object()),
            false => CliReply::ok(format!("# Keys\tFrom\tSealing since\tNext\n{}", shown.row())),
        }
    }

    pub(crate) fn rotate_ticket_keys(&mut self) {
        self.tls.ticket_keys.due = Some(self.now() + ROTATION);
        let former = self.tls.ticket_keys.keys.first().cloned();
        let done = new_key().and_then(|key| self.use_ticket_keys(std::iter::once(key).chain(former).collect()));
        if let Err(reason) = done {
            print(ReportSeverity::Error, &format!("Session ticket keys unchanged: {reason}"));
        }
    }

    /// Looks whether the file of keys has changed, and uses what is in it once it stays the same for two looks.
    pub(crate) fn watch_ticket_keys(&mut self) {
        let Some(path) = self.tls.ticket_keys.path.clone() else { return };
        let jail = self.jail.clone();
        let now = jail.privileged(|| signature(&path));
        let clock = self.clock.real().0 as i64;
        let ours = &mut self.tls.ticket_keys;
        if let Some(days) = ours.days_to_tell(clock) {
            let text = format!(
                "Session tickets have been encrypted with the same key for {days} days: put a new key first in {path}"
            );
            print(ReportSeverity::Info, &text);
        }
        if now == ours.seen {
            ours.changing = None;
            return;
        }
        if ours.changing != Some(now) {
            ours.changing = Some(now);
            return;
        }
        ours.changing = None;
        let keys = read(&path, &jail);
        // One that is of no use is left alone until it changes; what the worker couldn't be given is tried again.
        if keys.is_err() {
            ours.seen = now;
        }
        let done = keys.and_then(|keys| self.use_ticket_keys(keys)).map(|()| self.tls.ticket_keys.saw(now));
        match done {
            Ok(()) => print(ReportSeverity::Info, &format!("Session ticket keys reloaded: {path}")),
            Err(reason) => print(ReportSeverity::Error, &format!("Session ticket keys unchanged: {reason}")),
        }
    }

    /// The keys that are in the file now, if there is a file.
    ///
    /// # Errors
    /// In words, with the path.
    pub(crate) fn read_ticket_keys(&self) -> Result<Option<Vec<TicketKey>>, String> {
        self.tls.ticket_keys.path.as_deref().map(|path| read(path, &self.jail)).transpose()
    }

    pub(crate) fn use_ticket_keys(&mut self, keys: Vec<TicketKey>) -> Result<(), String> {
        let file = sealed(&keys)?;
        self.send_secret(HandoffSecret::TicketKeys, &file)?;
        self.tls.ticket_keys.take(keys, Some(file));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_of_a_file_is_reminded_of_once_a_day() {
        let dir = std::env::temp_dir().join(format!("ticket-keys-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("keys");
        let file = File::create(&path).unwrap();
        let written = |day: i64| {
            let at = std::time::UNIX_EPOCH + Duration::from_secs((day * DAY_SECONDS) as u64);
            file.set_modified(at).unwrap();
            signature(&path.to_string_lossy())
        };
        let mut keys = TicketKeys::default();
        let day = |day: f64| (day * DAY_SECONDS as f64) as i64;
        assert_eq!(keys.days_to_tell(day(1000.0)), None, "no file");
        let first = vec![new_key().unwrap()];
        keys.take(first.clone(), None);
        keys.saw(written(100));
        let said: Vec<_> = [106.9, 107.0, 107.9, 108.1].map(|at| keys.days_to_tell(day(at))).to_vec();
        assert_eq!(said, [None, Some(7), None, Some(8)]);
        keys.take(first, None);
        keys.saw(written(109));
        assert_eq!(keys.days_to_tell(day(110.0)), Some(10), "touched, and the same key");
        keys.take(vec![new_key().unwrap()], None);
        assert_eq!(keys.days_to_tell(day(120.0)), None, "the file wasn't looked at since");
        keys.saw(written(110));
        assert_eq!((keys.days_to_tell(day(110.0)), keys.days_to_tell(day(117.0))), (None, Some(7)));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn since_when_a_key_seals_is_told_and_nothing_of_the_key() {
        let (now, real) = (Mono(1000.0), 500_000);
        let mut keys =
            TicketKeys { keys: vec![new_key().unwrap()], due: Some(now + ROTATION), ..TicketKeys::default() };
        let shown = keys.shown(now.plus(3600.0), real);
        let (since, next) = (Some(real - 3600), Some(real + ROTATION.as_secs() as i64 - 3600));
        assert_eq!(shown, Shown { keys: 1, path: None, sealing_since: since, next });
        assert_eq!(shown.row(), "1\tmade here\tTue, 06 Jan 1970 17:53:20 GMT\tWed, 07 Jan 1970 05:53:20 GMT\n");
        (keys.due, keys.path) = (None, Some("/keys \"x\"".to_owned()));
        let shown = keys.shown(now, real);
        let object = ",\n  {\"keys\": 1, \"file\": \"/keys \\\"x\\\"\", \"sealing_since\": null, \"next\": null}";
        assert_eq!((shown.row().as_str(), shown.object().as_str()), ("1\t/keys \"x\"\t-\t-\n", object));
        keys.sealing_since = Some(86_400);
        assert!(keys.shown(now, real).row().ends_with("\tFri, 02 Jan 1970 00:00:00 GMT\t-\n"));
    }
}
