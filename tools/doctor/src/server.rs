// SPDX-License-Identifier: BSD-2-Clause
//! A running server, ours or a genuine varnishd: its processes, counters and CLI replies. The doctor asks it and
//! changes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use admin::{AdminConnection, Door, is_good};
use serde_json::Value;
use shm::reader::{CounterReader, CounterValue};

/// Maximum number of backends to which a connection is tried.
const MAX_REACHED: usize = 16;
/// Span of time, if it isn't known from when it counts. See [`DoctorServer::span`].
const WATCHED: &str = "while it was watched";

use crate::reach;

pub type ServerCounters = BTreeMap<String, u64>;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListedBackend {
    pub name: String,
    /// The administrative state: `probe`, or `healthy` or `sick` as set by an operator.
    pub admin: String,
    /// The probe's verdict, such as `2 of 8, sick`.
    pub probe: String,
    pub is_sick: bool,
    /// Addresses in the order in which they are tried, separated by `, `: `127.0.0.1:8080`, `name:80`, `/path`. Empty of a genuine
    /// varnishd.
    pub address: String,
    /// The reason why it is sick, or why its requests fail, if none has succeeded since.
    pub failure: Option<String>,
    /// The result of a test connection, made because fetches fail.
    pub reached: Option<String>,
}

#[derive(Debug)]
pub struct DoctorServer {
    /// The server's directory; `None` if only a file describes the server.
    pub workdir: Option<PathBuf>,
    pub manager: Option<u64>,
    pub worker: Option<u64>,
    pub counters: ServerCounters,
    pub before: Option<ServerCounters>,
    /// The time from then to now, as a text says it: `while it was watched`.
    pub span: &'static str,
    pub told: Result<CliFacts, String>,
}

/// The facts that the CLI replies with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CliFacts {
    /// Name and version from the CLI's banner; empty if it has none.
    pub version: String,
    pub params: BTreeMap<String, String>,
    pub backends: Vec<ListedBackend>,
    /// Conditions of the bans that are not completed.
    pub bans: Vec<String>,
    pub panic: Option<String>,
}

impl DoctorServer {
    /// The server of a workdir.
    ///
    /// # Errors
    /// None runs there.
    pub fn look(workdir: PathBuf) -> Result<DoctorServer, String> {
        let counters = counters(&workdir)?;
        let status = shm::reader::status(&workdir);
        let (manager, worker) = (status.manager.map(|(pid, _)| pid), status.worker.map(|(pid, _)| pid));
        Ok(DoctorServer {
            workdir: Some(workdir),
            manager,
            worker,
            counters,
            before: None,
            span: WATCHED,
            told: Err("its CLI wasn't asked".into()),
        })
    }

    /// The server of a workdir whose counters were read already, now and a minute ago. Of its CLI's replies only the sick
    /// backends are known: name and reason.
    pub fn seen(
        workdir: PathBuf,
        now: &[CounterValue],
        before: &[CounterValue],
        sick: &[(String, String)],
    ) -> DoctorServer {
        let status = shm::reader::status(&workdir);
        let (manager, worker) = (status.manager.map(|(pid, _)| pid), status.worker.map(|(pid, _)| pid));
        let backend = |(name, reason): &(String, String)| ListedBackend {
            name: name.clone(),
            failure: Some(reason.clone()),
            is_sick: true,
            ..ListedBackend::default()
        };
        DoctorServer {
            workdir: Some(workdir),
            manager,
            worker,
            counters: named(now),
            before: Some(named(before)),
            span: "in the last minute",
            told: Ok(CliFacts { backends: sick.iter().map(backend).collect(), ..CliFacts::default() }),
        }
    }

    /// Reads the counters again and keeps the earlier ones in `before`.
    ///
    /// # Errors
    /// The server has gone.
    pub fn look_again(&mut self) -> Result<(), String> {
        let Some(workdir) = &self.workdir else { return Ok(()) };
        let now = counters(workdir)?;
        self.worker = shm::reader::status(workdir).worker.map(|(pid, _)| pid);
        self.before = Some(std::mem::replace(&mut self.counters, now));
        Ok(())
    }

    pub fn saved(counters: ServerCounters) -> DoctorServer {
        let told = Err("its CLI can't be asked: these are saved counters".into());
        DoctorServer { workdir: None, manager: None, worker: None, counters, before: None, span: WATCHED, told }
    }

    pub fn counter(&self, name: &str) -> Result<u64, String> {
        self.counters.get(name).copied().ok_or_else(|| format!("the server has no counter {name}"))
    }

    /// Increase of a counter since the first look; if there was only one look, since the worker's start.
    pub fn grown(&self, name: &str) -> Result<u64, String> {
        let now = self.counter(name)?;
        let before = self.before.as_ref().and_then(|all| all.get(name)).copied().unwrap_or(0);
        Ok(if now >= before { now - before } else { now })
    }

    /// Increases of all counters called `name`, in sets whose name begins with `set`, each with the rest of the set's
    /// name.
    pub fn all_grown(&self, set: &str, name: &str) -> Vec<(String, u64)> {
        let of_set = self.counters.keys().filter_map(|full| {
            let (rest, last) = full.strip_prefix(set)?.strip_prefix('.')?.rsplit_once('.')?;
            (last == name).then(|| (rest.to_owned(), full))
        });
        of_set.filter_map(|(rest, full)| Some((rest, self.grown(full).ok()?))).collect()
    }

    pub fn param(&self, name: &str) -> Result<String, String> {
        let told = self.told.as_ref().map_err(Clone::clone)?;
        told.params.get(name).cloned().ok_or_else(|| format!("the server has no parameter {name}"))
    }

    pub fn number(&self, name: &str) -> Result<f64, String> {
        let value = self.param(name)?;
        value.parse().map_err(|_| format!("the parameter {name} is {value}"))
    }

    /// `in 3 h 2 m`: how long the counters have counted.
    pub fn since(&self) -> String {
        match (&self.before, self.counter("MAIN.uptime")) {
            (Some(_), _) => self.span.to_owned(),
            (None, Ok(uptime)) => format!("in the worker's {}", crate::rule::time(uptime as f64)),
            (None, Err(_)) => "since the worker began".to_owned(),
        }
    }

    /// True for Lacquer, whose threads don't each hold one request.
    pub fn is_ours(&self) -> bool {
        self.counters.contains_key("MAIN.txn_busy")
    }

    /// Asks the CLI. Sends no command that changes anything.
    pub fn ask(&mut self, address: Option<&str>, secret: Option<&str>, timeout: Option<Duration>) {
        self.told = self.connect(address, secret, timeout).map(|mut connection| CliFacts::of(&mut connection));
        let failing: Vec<String> =
            self.all_grown("VBE", "fail").into_iter().filter(|(_, failed)| *failed > 0).map(|(name, _)| name).collect();
        let Ok(told) = &mut self.told else { return };
        let asked =
            told.backends.iter_mut().filter(|backend| backend.failure.is_some() || failing.contains(&backend.name));
        reach::reach_all(asked.take(MAX_REACHED));
    }

    fn connect(
        &self,
        address: Option<&str>,
        secret: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<AdminConnection, String> {
        let door = match address {
            Some(address) => Door { addresses: vec![address.to_owned()], secret: secret.map(str::to_owned) },
            None => {
                let door = self.workdir.as_deref().and_then(Door::of);
                let door = door.ok_or("the server has no CLI address (-T), or it isn't for us to read")?;
                Door { secret: secret.map(str::to_owned).or(door.secret), ..door }
            }
        };
        door.open(timeout).map_err(|why| format!("the CLI can't be asked: {}", why.replace('\n', " ")))
    }
}

fn counters(workdir: &std::path::Path) -> Result<ServerCounters, String> {
    CounterReader::new(workdir).read().map(|readings| named(&readings)).map_err(|error| error.to_string())
}

fn named(readings: &[CounterValue]) -> ServerCounters {
    // A gauge just below 0 is 0.
    let value = |signed: i64| u64::try_from(signed).unwrap_or(0);
    readings.iter().map(|reading| (reading.full_name(), value(reading.signed()))).collect()
}

impl CliFacts {
    fn of(connection: &mut AdminConnection) -> CliFacts {
        let mut ask = |command: &str| {
            let reply = connection.ask(format!("{command}\n").as_bytes()).ok()?;
            is_good(reply.status).then(|| reply.text().into_owned())
        };
        let version = ask("banner").and_then(|text| admin::version_in_banner(&text)).unwrap_or_default();
        CliFacts {
            version,
            params: ask("param.show -j").as_deref().map(params).unwrap_or_default(),
            backends: ask("backend.list -j").as_deref().map(backends).unwrap_or_default(),
            bans: ask("ban.list").as_deref().map(bans).unwrap_or_default(),
            panic: ask("panic.show").as_deref().and_then(panic),
        }
    }
}

/// Counters as `varnishstat -j` has written them.
///
/// # Errors
/// It is no such text.
pub fn counters_of(text: &str) -> Result<ServerCounters, String> {
    let all: Value = serde_json::from_str(text).map_err(|error| format!("no output of varnishstat -j: {error}"))?;
    // Before version 7 there was no member of that name.
    let members = all.get("counters").unwrap_or(&all).as_object().ok_or("no output of varnishstat -j")?;
    let one = |(name, about): (&String, &Value)| Some((name.clone(), about.get("value")?.as_u64()?));
    let counters: ServerCounters = members.iter().filter_map(one).collect();
    if counters.is_empty() { Err("it has no counters".into()) } else { Ok(counters) }
}

pub fn params(text: &str) -> BTreeMap<String, String> {
    let all: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let one = |member: &Value| {
        let value = match member.get("value")? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some((member.get("name")?.as_str()?.to_owned(), value))
    };
    all.iter().filter_map(one).collect()
}

fn backends(text: &str) -> Vec<ListedBackend> {
    let all: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let members = all.iter().skip(3).filter_map(Value::as_object).flatten();
    members.map(|(name, about)| backend(name, about)).collect()
}

fn backend(name: &str, about: &Value) -> ListedBackend {
    let word = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let empty = Vec::new();
    let probe = about.get("probe_message").and_then(Value::as_array).unwrap_or(&empty);
    let text = |at: usize| match probe.get(at) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let admin = word("admin_health");
    let is_sick = admin == "sick" || (admin != "healthy" && text(2) == "sick");
    ListedBackend {
        name: name.to_owned(),
        admin,
        probe: format!("{} of {}, {}", text(0), text(1), text(2)),
        is_sick,
        address: word("address"),
        failure: about.get("failure").and_then(Value::as_str).map(str::to_owned),
        reached: None,
    }
}

/// `TIME REFS FLAG CONDITION`: those that aren't completed.
fn bans(text: &str) -> Vec<String> {
    let one = |line: &str| {
        let mut words = line.splitn(2, char::is_whitespace);
        let _time = words.next().and_then(|word| word.parse::<f64>().ok())?;
        let mut rest = words.next()?.trim_start().splitn(2, char::is_whitespace);
        let _refs = rest.next()?.parse::<u64>().ok()?;
        let (flag, condition) = rest.next()?.trim_start().split_once(char::is_whitespace)?;
        (flag != "C").then(|| condition.trim().to_owned())
    };
    text.lines().filter_map(one).collect()
}

/// The first two lines of a report; None: there was no panic.
fn panic(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
    (!lines.is_empty() && !text.contains("has not panicked")).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cli_tells() {
        let text = r#"[ 3, ["backend.list", "-j"], 1.0, {
            "boot.a": {"type": "backend", "admin_health": "probe", "probe_message": [2, 8, "sick"], "last_change": 1.0},
            "boot.b": {"type": "backend", "admin_health": "healthy", "probe_message": [0, 0, "healthy"]},
            "boot.c": {"type": "backend", "admin_health": "sick", "probe_message": [0, 0, "healthy"]} }]"#;
        let all: Vec<_> = backends(text).into_iter().map(|b| (b.name, b.probe, b.is_sick)).collect();
        assert_eq!(all[0], ("boot.a".into(), "2 of 8, sick".into(), true));
        assert_eq!((all[1].2, all[2].2), (false, true));
        let text = "Present bans:\n1795434420.939836     0 -  obj.http.x ~ foo\n1795434419.9     3 C\n1795434418.2     1 C  req.url ~ x\n";
        assert_eq!(bans(text), ["obj.http.x ~ foo"]);
        let text = r#"[2, ["param.show"], 1.0, {"name": "a", "implemented": false}, {"name": "b", "value": 0.9}, {"name": "c", "value": "x"}]"#;
        assert_eq!(
            params(text).into_iter().collect::<Vec<_>>(),
            [("b".into(), "0.9".into()), ("c".into(), "x".into())]
        );
        assert_eq!(panic("Child has not panicked or panic has been cleared"), None);
        assert_eq!(
            panic("Panic at: now\nAssert error in x\nmore").as_deref(),
            Some("Panic at: now; Assert error in x")
        );
        assert!(backends("[1").is_empty() && params("{}").is_empty() && bans("\0 x").is_empty());
    }

    #[test]
    fn counters_of_a_file() {
        let text = r#"{"version": 1, "timestamp": "t", "counters": {"MAIN.x": {"value": 7}}}"#;
        assert_eq!(counters_of(text).unwrap().get("MAIN.x"), Some(&7));
        assert_eq!(counters_of(r#"{"MAIN.x": {"value": 7}, "timestamp": "t"}"#).unwrap().len(), 1);
        assert!(counters_of("{}").is_err() && counters_of("x").is_err() && counters_of("[]").is_err());
    }
}
