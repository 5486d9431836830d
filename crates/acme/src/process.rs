// SPDX-License-Identifier: BSD-2-Clause
//! The process that talks to the CA. A few threads take what is due next, one order each; a reader has the manager's messages. It ends
//! when the manager does. It opens no file but for the system's list of trusted authorities, and listens nowhere.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use instant_acme::{Account, AccountCredentials, CertificateIdentifier, Error, ExternalAccountKey, NewAccount};

use crate::certificate::AcmeCertificateFacts;
use crate::http::{AcmeClient, take_retry_after};
use crate::name::AcmeName;
use crate::order::{self, AcmeFault, Desk, OrderFailure, Wish};
use crate::schedule::{self, LONGEST_ASKED, RenewalWindow, Validity};
use crate::talk::{
    AcmeChallenge, AcmeCommand, AcmeReport, Begin, ChallengeKind, Managed, NameStanding, TalkLines, line, seconds, time,
};

/// The program name under which this executable is the process.
pub const PROGRAM: &str = "lacquer-acme";
pub const SOCKET: &str = "LACQUER_ACME_FD";

/// Orders at a time.
const THREADS: usize = 4;
/// The longest sleep: the clock on the wall may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);
/// Time that the manager may take over a question.
const MANAGER_TIME: Duration = Duration::from_secs(120);
/// Time between questions about the time of a renewal, whatever the CA says.
const WINDOW_PACE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));
/// The same, after a failure.
const WINDOW_AGAIN: Duration = Duration::from_secs(6 * 3600);

struct AcmeEntry {
    name: AcmeName,
    validity: Option<Validity>,
    id: Option<CertificateIdentifier<'static>>,
    window: Option<RenewalWindow>,
    /// The time at which the CA is asked for the window.
    ask_at: Option<SystemTime>,
    draw: f64,
    standing: NameStanding,
    is_at_work: bool,
    /// Asked for while a thread was at work on it, which plans anew when it is done.
    is_wanted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Order,
    AskWindow,
}

impl AcmeEntry {
    fn new(managed: Managed) -> AcmeEntry {
        let Managed { name, chain, standing } = managed;
        let mut entry = AcmeEntry {
            name,
            validity: None,
            id: None,
            window: None,
            ask_at: None,
            draw: schedule::draw(),
            standing,
            is_at_work: false,
            is_wanted: false,
        };
        if let Some(facts) =
            chain.and_then(|chain| AcmeCertificateFacts::of(&chain).ok()).filter(|facts| facts.is_for(&entry.name))
        {
            entry.take(&facts, SystemTime::now());
        }
        entry
    }

    /// There is this certificate from now on.
    fn take(&mut self, facts: &AcmeCertificateFacts, now: SystemTime) {
        (self.validity, self.id, self.window) = (Some(facts.validity), facts.id.clone(), None);
        self.ask_at = self.id.is_some().then_some(now);
        self.draw = schedule::draw();
        self.plan();
    }

    fn plan(&mut self) {
        let at = self.validity.map(|validity| schedule::renewal(validity, self.window, self.draw));
        self.standing.renew_at = at.map(seconds);
    }

    fn due(&self, now: SystemTime) -> (SystemTime, Task) {
        // A clock that was set back mustn't put it off for ever.
        let latest = now + LONGEST_ASKED.mul_f64(1.25);
        let not_before = self.standing.next_at.map_or(SystemTime::UNIX_EPOCH, |at| time(at).min(latest));
        let renew_at = self.standing.renew_at.map_or(SystemTime::UNIX_EPOCH, time);
        let order = (renew_at.max(not_before), Task::Order);
        match self.ask_at {
            Some(at) if at < order.0 => (at, Task::AskWindow),
            _ => order,
        }
    }

    fn renew_now(&mut self) {
        (self.standing.renew_at, self.standing.next_at) = (None, None);
        self.is_wanted = self.is_at_work;
    }

    fn end_work(&mut self) {
        self.is_at_work = false;
        if self.is_wanted {
            self.renew_now();
        }
    }

    fn failed(&mut self, failure: &OrderFailure, retry: Duration, now: SystemTime) {
        self.standing.failures = self.standing.failures.saturating_add(1);
        let pause = schedule::pause(retry, self.standing.failures, failure.retry_after, schedule::draw());
        self.standing.tried_at = Some(seconds(now));
        self.standing.next_at = Some(seconds(now + pause));
        self.standing.error = Some(failure.text.clone());
    }

    fn succeeded(&mut self, now: SystemTime) {
        self.standing.failures = 0;
        self.standing.tried_at = Some(seconds(now));
        self.standing.next_at = None;
        self.standing.error = None;
    }
}

#[derive(Default)]
struct Work {
    entries: Vec<AcmeEntry>,
    /// Nobody is asked anything before.
    ca_not_before: Option<SystemTime>,
    ca_failures: u32,
}

struct Office {
    begin: Begin,
    work: Mutex<Work>,
    changed: Condvar,
    account: Mutex<Login>,
    desk: SocketDesk,
}

#[derive(Default)]
struct Login {
    /// The account as the manager keeps it.
    kept: Option<String>,
    open: Option<Account>,
}

/// The manager, at the other end of the socket.
struct SocketDesk {
    socket: Mutex<UnixStream>,
    questions: Mutex<Questions>,
}

#[derive(Default)]
struct Questions {
    last: u64,
    waiting: HashMap<u64, Sender<Option<String>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked has ended its order; what it had locked is in order between two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SocketDesk {
    fn say(&self, report: &AcmeReport) {
        // A manager that is gone is noticed by the reader.
        let _ = lock(&self.socket).write_all(&line(report));
    }

    fn ask(&self, report: impl FnOnce(u64) -> AcmeReport) -> Result<(), String> {
        let (sender, receiver) = channel();
        let number = {
            let mut questions = lock(&self.questions);
            questions.last += 1;
            let number = questions.last;
            questions.waiting.insert(number, sender);
            number
        };
        self.say(&report(number));
        let answer = receiver.recv_timeout(MANAGER_TIME);
        lock(&self.questions).waiting.remove(&number);
        match answer {
            Ok(None) => Ok(()),
            Ok(Some(error)) => Err(error),
            Err(_) => Err("the server has not answered in time".to_owned()),
        }
    }

    fn answered(&self, number: u64, error: Option<String>) {
        if let Some(sender) = lock(&self.questions).waiting.remove(&number) {
            let _ = sender.send(error);
        }
    }
}

impl Desk for SocketDesk {
    fn show(&self, challenge: &AcmeChallenge) -> Result<(), String> {
        self.ask(|number| AcmeReport::Challenge(number, challenge.clone()))
    }

    fn hide(&self, challenge: &AcmeChallenge) {
        self.say(&AcmeReport::Over(challenge.clone()));
    }
}

/// Runs the process: the value is the exit status.
pub fn run() -> i32 {
    // It makes keys: no other process of its user looks into it, and no core holds one.
    let _ = sys::limits::set_dumpable(false);
    // Orders that others wait for must not stay half done: the manager starts another one.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
        let _ = sys::fd::write_all(sys::fd::standard(2), format!("{PROGRAM}: panic at {place}\n").as_bytes());
        std::process::exit(3);
    }));
    let number = sys::process::take_env(SOCKET).and_then(|text| text.to_str()?.parse().ok());
    let Some(socket) = number.and_then(|number| sys::fd::inherit(number).ok()) else { return 2 };
    let socket = UnixStream::from(socket);
    let (Ok(reader), mut lines) = (socket.try_clone(), TalkLines::default()) else { return 2 };
    match read_command(&reader, &mut lines) {
        Some(AcmeCommand::Begin(begin)) => serve(*begin, socket, reader, lines),
        _ => 2,
    }
}

fn read_command(mut socket: &UnixStream, lines: &mut TalkLines) -> Option<AcmeCommand> {
    let mut buf = vec![0; 64 * 1024];
    loop {
        if let Some(command) = lines.take().ok()? {
            return Some(command);
        }
        match socket.read(&mut buf) {
            Ok(0) => return None,
            Ok(n) => lines.feed(&buf[..n]).ok()?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

fn serve(mut begin: Begin, socket: UnixStream, reader: UnixStream, mut lines: TalkLines) -> i32 {
    let entries = std::mem::take(&mut begin.names).into_iter().map(AcmeEntry::new).collect();
    let account = Mutex::new(Login { kept: begin.account.take(), open: None });
    let desk = SocketDesk { socket: Mutex::new(socket), questions: Mutex::default() };
    let work = Mutex::new(Work { entries, ..Work::default() });
    let office = Arc::new(Office { begin, work, changed: Condvar::new(), account, desk });
    office.tell_all();
    for _ in 0..THREADS {
        let office = office.clone();
        std::thread::spawn(move || office.work());
    }
    while let Some(command) = read_command(&reader, &mut lines) {
        match command {
            AcmeCommand::Done { number, error } => office.desk.answered(number, error),
            AcmeCommand::Renew(name) => office.renew(&name),
            AcmeCommand::Add(managed) => office.add(*managed),
            AcmeCommand::Begin(_) => {}
        }
    }
    // The manager is gone, or wants no more. An order that is under way is begun anew by who comes next.
    0
}

impl Office {
    fn tell_all(&self) {
        for entry in &lock(&self.work).entries {
            self.desk.say(&AcmeReport::Standing(entry.name.clone(), entry.standing.clone()));
        }
    }

    fn add(&self, managed: Managed) {
        let mut work = lock(&self.work);
        if work.entries.iter().all(|entry| entry.name != managed.name) {
            work.entries.push(AcmeEntry::new(managed));
        }
        drop(work);
        self.changed.notify_all();
    }

    fn renew(&self, name: &AcmeName) {
        let mut work = lock(&self.work);
        work.ca_not_before = None;
        if let Some(entry) = work.entries.iter_mut().find(|entry| entry.name == *name) {
            entry.renew_now();
        }
        drop(work);
        self.changed.notify_all();
    }

    fn work(&self) {
        loop {
            let (name, task) = self.next();
            match task {
                Task::Order => self.order(&name),
                Task::AskWindow => self.ask_window(&name),
            }
            if let Some(entry) = lock(&self.work).entries.iter_mut().find(|entry| entry.name == name) {
                entry.end_work();
            }
            self.changed.notify_all();
        }
    }

    fn next(&self) -> (AcmeName, Task) {
        let mut work = lock(&self.work);
        loop {
            let now = SystemTime::now();
            let earliest = work.ca_not_before.map_or(SystemTime::UNIX_EPOCH, |at| at.min(now + LONGEST_ASKED));
            let idle = work.entries.iter_mut().filter(|entry| !entry.is_at_work);
            let first = idle.map(|entry| (entry.due(now), entry)).min_by_key(|((at, _), _)| *at);
            let wait = match first {
                Some(((at, task), entry)) => match at.max(earliest).duration_since(now) {
                    Ok(wait) if !wait.is_zero() => wait,
                    _ => {
                        entry.is_at_work = true;
                        return (entry.name.clone(), task);
                    }
                },
                None => LONGEST_SLEEP,
            };
            let woken = self.changed.wait_timeout(work, wait.min(LONGEST_SLEEP));
            work = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn order(&self, name: &AcmeName) {
        let (kind, replaces) = {
            let work = lock(&self.work);
            let Some(entry) = work.entries.iter().find(|entry| entry.name == *name) else { return };
            (self.kind(entry.standing.failures), entry.id.clone())
        };
        let outcome = match kind {
            Some(kind) => self.obtain(name, kind, replaces),
            None => Err(OrderFailure::of_name(
                "no listener can answer the CA: http-01 takes a plain one, tls-alpn-01 one with TLS",
            )),
        };
        let now = SystemTime::now();
        let mut work = lock(&self.work);
        let is_of_the_ca = outcome.as_ref().is_err_and(|failure| failure.fault == AcmeFault::Ca);
        match &outcome {
            Err(failure) if is_of_the_ca => self.ca_failed(&mut work, failure, now),
            _ => self.ca_works(&mut work),
        }
        let Some(entry) = work.entries.iter_mut().find(|entry| entry.name == *name) else { return };
        match outcome {
            Ok(facts) => {
                entry.succeeded(now);
                entry.take(&facts, now);
            }
            Err(failure) if is_of_the_ca => {
                // The next attempt is the CA's matter, but what went wrong is to be seen.
                (entry.standing.tried_at, entry.standing.error) = (Some(seconds(now)), Some(failure.text));
            }
            Err(failure) => entry.failed(&failure, self.begin.retry, now),
        }
        self.desk.say(&AcmeReport::Standing(name.clone(), entry.standing.clone()));
    }

    /// The better challenge first, then in turn.
    fn kind(&self, failures: u32) -> Option<ChallengeKind> {
        let kinds = &self.begin.kinds;
        (!kinds.is_empty()).then(|| kinds[failures as usize % kinds.len()])
    }

    fn ca_failed(&self, work: &mut Work, failure: &OrderFailure, now: SystemTime) {
        work.ca_failures = work.ca_failures.saturating_add(1);
        let pause = schedule::pause(self.begin.retry, work.ca_failures, failure.retry_after, schedule::draw());
        work.ca_not_before = Some(now + pause);
        if work.ca_failures == 1 {
            self.desk.say(&AcmeReport::Ca(Some(failure.text.clone())));
        }
    }

    fn ca_works(&self, work: &mut Work) {
        if std::mem::take(&mut work.ca_failures) > 0 {
            self.desk.say(&AcmeReport::Ca(None));
        }
        work.ca_not_before = None;
    }

    fn obtain(
        &self,
        name: &AcmeName,
        kind: ChallengeKind,
        replaces: Option<CertificateIdentifier<'static>>,
    ) -> Result<AcmeCertificateFacts, OrderFailure> {
        let try_it = || {
            let account = self.account()?;
            let wish = Wish { name, kind, replaces: replaces.clone(), profile: self.begin.profile.as_deref() };
            complete(order::obtain(&account, wish, &self.desk))?
        };
        let pem = match try_it() {
            // A CA that has lost its accounts takes new ones.
            Err(failure) if failure.fault == AcmeFault::Account => {
                *lock(&self.account) = Login::default();
                try_it()?
            }
            tried => tried?,
        };
        let facts = AcmeCertificateFacts::of(&pem).map_err(OrderFailure::of_name)?;
        self.desk
            .ask(|number| AcmeReport::Issued { number, name: name.clone(), pem })
            .map_err(OrderFailure::of_name)?;
        Ok(facts)
    }

    /// The account, made or looked up by the first who needs it, while the others wait.
    fn account(&self) -> Result<Account, OrderFailure> {
        let mut login = lock(&self.account);
        if let Some(account) = &login.open {
            return Ok(account.clone());
        }
        let client = AcmeClient::new(self.begin.trusted.as_deref()).map_err(OrderFailure::of_ca)?;
        let builder = Account::builder_with_http(Box::new(client));
        let made = match login.kept.as_deref().map(serde_json::from_str::<AccountCredentials>) {
            Some(Ok(credentials)) => complete(builder.from_credentials(credentials))?,
            Some(Err(error)) => {
                return Err(OrderFailure::of_ca(format!("the account that was kept can't be read: {error}")));
            }
            None => complete(self.register(builder))?,
        };
        let made = made.map_err(|error| OrderFailure { fault: AcmeFault::Ca, ..OrderFailure::from(error) })?;
        Ok(login.open.insert(made).clone())
    }

    async fn register(&self, builder: instant_acme::AccountBuilder) -> Result<Account, Error> {
        let begin = &self.begin;
        let contact = begin.mail.as_ref().map(|mail| format!("mailto:{mail}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        // Who asks for certificates has agreed: the manual says so.
        let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let binding = begin.binding.as_ref().map(|binding| ExternalAccountKey::new(binding.kid.clone(), &binding.key));
        let (account, credentials) = builder.create(&new, begin.directory.clone(), binding.as_ref()).await?;
        self.desk.say(&AcmeReport::Account(serde_json::to_string(&credentials)?));
        Ok(account)
    }

    fn ask_window(&self, name: &AcmeName) {
        let id = lock(&self.work).entries.iter().find(|entry| entry.name == *name).and_then(|entry| entry.id.clone());
        let Some(id) = id else { return };
        let ask = |account: Account| complete(account.renewal_info(&id)).ok()?.ok();
        let answer = self.account().ok().and_then(ask);
        // It was no order's.
        take_retry_after();
        let now = SystemTime::now();
        let mut work = lock(&self.work);
        let Some(entry) = work.entries.iter_mut().find(|entry| entry.name == *name && entry.id.as_ref() == Some(&id))
        else {
            return;
        };
        match answer {
            Some((info, again)) => {
                let window = &info.suggested_window;
                let window = RenewalWindow { from: window.start.into(), until: window.end.into() };
                if entry.window != Some(window) {
                    entry.window = Some(window);
                    entry.plan();
                    self.desk.say(&AcmeReport::Standing(name.clone(), entry.standing.clone()));
                }
                entry.ask_at = Some(now + again.clamp(WINDOW_PACE.0, WINDOW_PACE.1));
            }
            None => entry.ask_at = Some(now + WINDOW_AGAIN),
        }
    }
}

/// Runs what never waits for long on this thread.
fn complete<F: Future>(work: F) -> Result<F::Output, OrderFailure> {
    rt::run(work).map_err(|error| OrderFailure::of_name(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> AcmeEntry {
        let name = AcmeName::parse("a.example").unwrap();
        AcmeEntry::new(Managed { name, chain: None, standing: NameStanding::default() })
    }

    fn facts(from: SystemTime, days: u64) -> AcmeCertificateFacts {
        let validity = Validity { from, until: from + Duration::from_secs(days * 86_400) };
        let id = CertificateIdentifier { authority_key_identifier: "a".into(), serial: "b".into() };
        AcmeCertificateFacts {
            validity,
            names: vec!["a.example".into()],
            issuer: String::new(),
            public_key: Vec::new(),
            id: Some(id),
        }
    }

    #[test]
    fn a_name_without_a_certificate_is_due_at_once() {
        let (entry, now) = (entry(), SystemTime::now());
        let (at, task) = entry.due(now);
        assert!(at <= now);
        assert_eq!(task, Task::Order);
    }

    #[test]
    fn a_new_certificate_has_the_ca_asked_for_its_time_and_then_rests() {
        let (mut entry, now) = (entry(), SystemTime::now());
        entry.take(&facts(now, 90), now);
        assert_eq!(entry.due(now), (now, Task::AskWindow));
        entry.ask_at = Some(now + Duration::from_secs(400 * 86_400));
        let (at, task) = entry.due(now);
        let days = at.duration_since(now).unwrap().as_secs_f64() / 86_400.0;
        assert!(task == Task::Order && (56.9..60.1).contains(&days), "{days}");
    }

    #[test]
    fn a_renewal_asked_for_while_a_thread_is_at_work_comes_after_it() {
        let (mut entry, now) = (entry(), SystemTime::now());
        entry.take(&facts(now, 90), now);
        entry.ask_at = None;
        entry.is_at_work = true;
        entry.renew_now();
        // The order that goes on succeeds; a window of the CA plans likewise.
        entry.succeeded(now);
        entry.take(&facts(now, 90), now);
        entry.end_work();
        assert_eq!(entry.due(now), (SystemTime::UNIX_EPOCH, Task::Order));

        entry.is_at_work = true;
        entry.take(&facts(now, 90), now);
        entry.ask_at = None;
        entry.end_work();
        assert!(entry.due(now).0 > now);
    }

    #[test]
    fn failures_put_it_off_and_a_clock_that_was_set_back_not_for_ever() {
        let (mut entry, now) = (entry(), SystemTime::now());
        let failure = OrderFailure { retry_after: Some(Duration::from_secs(7200)), ..OrderFailure::of_name("no") };
        entry.failed(&failure, Duration::from_secs(60), now);
        let (at, _) = entry.due(now);
        assert!((at.duration_since(now).unwrap().as_secs_f64() - 7200.0).abs() < 1.0);
        assert_eq!((entry.standing.failures, entry.standing.error.as_deref()), (1, Some("no")));
        let earlier = now - Duration::from_secs(100 * 86_400);
        assert!(entry.due(earlier).0 <= earlier + LONGEST_ASKED * 2);
        entry.succeeded(now);
        assert!(entry.due(now).0 <= now && entry.standing.error.is_none());
    }
}
