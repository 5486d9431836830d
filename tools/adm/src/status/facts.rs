// SPDX-License-Identifier: BSD-2-Clause
//! What there is to know of a running server, from its shared memory, its CLI and the kernel.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use admin::AdminConnection;
use serde_json::{Value, json};
use shm::reader::{CounterReader, WorkdirStatus};
use toolkit::print;

use super::process::{self, Descriptors};
use crate::{Config, is_good};

/// All of it. What is `None` couldn't be known.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Facts {
    pub version: Option<String>,
    /// `running`, `stopped`, ...; from shared memory when the CLI isn't there.
    pub state: Option<String>,
    pub manager: Option<u64>,
    pub worker: Option<u64>,
    pub arguments: Option<Vec<String>>,
    pub addresses: Option<Vec<(String, String)>>,
    pub vcls: Option<Vec<Vcl>>,
    pub stores: Vec<Store>,
    pub counters: HashMap<String, u64>,
    pub last_cause: Option<String>,
    pub descriptors: Option<Descriptors>,
    pub parameters: Option<Vec<Parameter>>,
    pub workdir: Option<String>,
    /// The faults that a doctor finds, or why it couldn't look.
    pub wrong: Option<Result<Vec<String>, String>>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Vcl {
    pub name: String,
    /// One of `active`, `available`, `discarded`.
    pub status: String,
    /// `auto/warm`, `label -> name`.
    pub state: String,
}

#[derive(Debug, PartialEq)]
pub(super) struct Store {
    pub name: String,
    pub kind: Option<String>,
    pub used: u64,
    /// Bytes that are free; none of a store without a bound.
    pub free: Option<u64>,
    /// Bytes used of the memory of a store on a disk, and of how many.
    pub front: Option<(u64, u64)>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Parameter {
    pub name: String,
    pub value: String,
    pub default: String,
    pub units: String,
}

/// `None`: there is no server; that was said.
pub(super) fn gather(config: &Config) -> Option<Facts> {
    let mut facts = Facts::default();
    let mut config = config.clone();
    if config.address.is_none() {
        let found = config.attach().and_then(|attach| attach.wait_asleep());
        let read = found.and_then(|workdir| facts.read_memory(&workdir).map(|()| workdir));
        let workdir = read.inspect_err(|text| print::foreign_err(format_args!("lacquer status: {text}\n"))).ok()?;
        config.name = Some(workdir.to_string_lossy().into_owned());
        facts.workdir = config.name.clone();
    }
    match config.connect() {
        Some(mut connection) => facts.ask_cli(&mut connection),
        None if config.address.is_some() => return None,
        None => print::err("lacquer status: the manager can't be asked; this is what its shared memory tells\n"),
    }
    Some(facts)
}

/// Stores of what is used and free: one that is in both has its memory in front of its disk.
fn stores(disks: BTreeMap<String, (u64, u64)>, mut memories: BTreeMap<String, (u64, u64)>) -> Vec<Store> {
    let on_disk = disks.into_iter().map(|(name, (used, free))| {
        let front = memories.remove(&name).map(|(used, free)| (used, used + free));
        Store { name, kind: None, used, free: Some(free), front }
    });
    let mut all: Vec<Store> = on_disk.collect();
    all.extend(memories.into_iter().map(|(name, (used, free))| {
        let free = Some(free).filter(|&free| free > 0 || name != "Transient");
        Store { name, kind: None, used, free, front: None }
    }));
    all.sort_by_key(|store| (store.name == "Transient", store.name.clone()));
    all
}

impl Facts {
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.get(name).copied()
    }

    pub fn is_running(&self) -> bool {
        self.state.as_deref() == Some("running")
    }

    /// Hits among lookups that found an object or should have.
    pub fn hit_rate(&self) -> Option<f64> {
        let (hits, misses) = (self.counter("MAIN.cache_hit")?, self.counter("MAIN.cache_miss")?);
        (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
    }

    fn read_memory(&mut self, workdir: &Path) -> Result<(), String> {
        let readings = CounterReader::new(workdir).read().map_err(|error| error.to_string())?;
        let WorkdirStatus { manager, worker } = shm::reader::status(workdir);
        (self.manager, self.worker) = (manager.map(|(pid, _)| pid), worker.map(|(pid, _)| pid));
        self.state = Some(if worker.is_some() { "running" } else { "stopped" }.to_owned());
        self.arguments = self.manager.and_then(process::arguments);
        self.descriptors = self.worker.and_then(process::descriptors);
        // By the name of a store: used and free, of a disk and of memory.
        let (mut disks, mut memories) = (BTreeMap::<String, (u64, u64)>::new(), BTreeMap::<String, (u64, u64)>::new());
        for reading in &readings {
            let value = u64::try_from(reading.signed()).unwrap_or(0);
            match (&*reading.set, reading.about.name.as_str()) {
                ("MAIN" | "MGT", _) => drop(self.counters.insert(reading.full_name(), value)),
                (set, what @ ("g_bytes" | "g_space")) => {
                    let amounts = match set.split_once('.') {
                        Some(("SMF", name)) => disks.entry(name.to_owned()).or_default(),
                        Some(("SMA" | "SMU", name)) => memories.entry(name.to_owned()).or_default(),
                        _ => continue,
                    };
                    *(if what == "g_bytes" { &mut amounts.0 } else { &mut amounts.1 }) = value;
                }
                _ => {}
            }
        }
        self.stores = stores(disks, memories);
        Ok(())
    }

    fn ask_cli(&mut self, connection: &mut AdminConnection) {
        let mut ask = |command: &str| {
            let reply = connection.ask(format!("{command}\n").as_bytes()).ok()?;
            is_good(reply.status).then(|| reply.text().into_owned())
        };
        self.version = ask("banner").and_then(|text| admin::version_in_banner(&text));
        if let Some([Value::String(state), ..]) = ask("status -j").as_deref().and_then(members).as_deref() {
            self.state = Some(state.clone());
        }
        self.addresses = ask("debug.listen_address").map(|text| addresses(&text));
        self.vcls = ask("vcl.list -j").as_deref().and_then(members).map(|all| all.iter().map(Vcl::from_json).collect());
        self.parameters = ask("param.show -j changed")
            .as_deref()
            .and_then(members)
            .map(|all| all.iter().map(Parameter::from_json).collect());
        for kind in ask("storage.list -j").as_deref().and_then(members).unwrap_or_default() {
            let name = word(&kind, "name");
            match self.stores.iter_mut().find(|store| store.name == name) {
                Some(store) => store.kind = Some(word(&kind, "storage")),
                None => self.stores.push(Store {
                    name,
                    kind: Some(word(&kind, "storage")),
                    used: 0,
                    free: None,
                    front: None,
                }),
            }
        }
        // The first is ours alone, and knows of deaths that were no panic.
        let died = ask("restarts").and_then(|text| Some(text.lines().nth(1)?.to_owned()));
        self.last_cause = died.or_else(|| ask("panic.show").and_then(|text| panicked(&text)));
    }

    pub fn json(&self) -> Value {
        let counter = |name: &str| self.counter(name);
        json!({
            "version": self.version,
            "state": self.state,
            "wrong": self.wrong.as_ref().and_then(|wrong| wrong.as_ref().ok()),
            "manager": { "pid": self.manager, "uptime": counter("MGT.uptime") },
            "worker": { "pid": self.worker, "uptime": counter("MAIN.uptime") },
            "arguments": self.arguments,
            "listen": self.addresses.as_ref().map(|all| {
                all.iter().map(|(name, address)| json!({ "name": name, "address": address })).collect::<Vec<_>>()
            }),
            "vcl": self.vcls.as_ref().map(|all| {
                all.iter().map(|v| json!({ "name": v.name, "status": v.status, "state": v.state })).collect::<Vec<_>>()
            }),
            "stores": self.stores.iter().map(|store| json!({
                "name": store.name, "kind": store.kind, "used_bytes": store.used, "free_bytes": store.free,
                "front": store.front.map(|(used, all)| json!({ "used_bytes": used, "free_bytes": all - used })),
            })).collect::<Vec<_>>(),
            "objects": counter("MAIN.n_object"),
            "nuked": counter("MAIN.n_lru_nuked"),
            "adopted": counter("MAIN.adopted"),
            "adopting": counter("MAIN.adopting"),
            "requests": {
                "all": counter("MAIN.client_req"),
                "hits": counter("MAIN.cache_hit"),
                "misses": counter("MAIN.cache_miss"),
                "passes": counter("MAIN.s_pass"),
                "hit_rate": self.hit_rate(),
            },
            "connections": {
                "accepted": counter("MAIN.sess_conn"),
                "dropped": counter("MAIN.sess_dropped"),
            },
            "workers": {
                "started": counter("MGT.child_start"),
                "died": counter("MGT.child_died"),
                "panicked": counter("MGT.child_panic"),
                "distrusted": counter("MGT.child_distrust"),
                "last_cause": self.last_cause,
            },
            "descriptors": self.descriptors.map(|d| json!({ "open": d.open, "limit": d.limit })),
            "parameters": self.parameters.as_ref().map(|all| {
                all.iter().map(|p| json!({
                    "name": p.name, "value": p.value, "default": p.default, "units": p.units,
                })).collect::<Vec<_>>()
            }),
        })
    }
}

/// The members of an answer to a command with -j, without version, command and time.
fn members(text: &str) -> Option<Vec<Value>> {
    // Where no member follows, varnishd and Lacquer leave a comma behind the time.
    let whole = text.trim_end().strip_suffix(']').and_then(|head| head.trim_end().strip_suffix(','));
    let whole = whole.map_or_else(|| text.to_owned(), |head| format!("{head}]"));
    match serde_json::from_str(&whole).ok()? {
        Value::Array(mut all) if all.len() >= 3 => Some(all.split_off(3)),
        _ => None,
    }
}

/// A member as text; numbers as they are written.
fn word(object: &Value, name: &str) -> String {
    match &object[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl Vcl {
    fn from_json(object: &Value) -> Self {
        let (state, temperature) = (word(object, "state"), word(object, "temperature"));
        let state = match &object["label"] {
            Value::Object(_) => format!("label -> {}", word(&object["label"], "name")),
            _ => format!("{state}/{temperature}"),
        };
        Vcl { name: word(object, "name"), status: word(object, "status"), state }
    }
}

impl Parameter {
    fn from_json(object: &Value) -> Self {
        let text = |name| word(object, name);
        Parameter { name: text("name"), value: text("value"), default: text("default"), units: text("units") }
    }
}

/// `name host port`, or `name path -`.
fn addresses(text: &str) -> Vec<(String, String)> {
    let one = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (name, host, port) = (words.next()?, words.next()?, words.next()?);
        let address = match (host.contains(':'), port) {
            (_, "-") => host.to_owned(),
            (true, _) => format!("[{host}]:{port}"),
            (false, _) => format!("{host}:{port}"),
        };
        Some((name.to_owned(), address))
    };
    text.lines().filter_map(one).collect()
}

/// When and what, of a panic's report.
fn panicked(report: &str) -> Option<String> {
    let mut lines = report.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?.to_owned();
    Some(lines.next().map_or(first.clone(), |what| format!("{first}: {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_members_are_none() {
        let text = "[ 2, [\"param.show\", \"-j\", \"changed\"], 1795952865.229,\n\n]\n";
        assert_eq!(members(text), Some(Vec::new()));
        assert_eq!(members("[ 2, [\"x\"], 1.0,\n{}\n]"), Some(vec![json!({})]));
        assert_eq!(members("[ 2"), None);
    }

    #[test]
    fn a_store_on_a_disk_is_one_with_its_memory() {
        let amounts =
            |names: &[(&str, u64, u64)]| names.iter().map(|&(name, used, free)| (name.into(), (used, free))).collect();
        let got = stores(amounts(&[("d", 30, 70)]), amounts(&[("Transient", 1, 0), ("d", 2, 8), ("m", 3, 0)]));
        let got: Vec<_> = got.iter().map(|own| (own.name.as_str(), own.used, own.free, own.front)).collect();
        let want = [("d", 30, Some(70), Some((2, 10))), ("m", 3, Some(0), None), ("Transient", 1, None, None)];
        assert_eq!(got, want);
    }

    #[test]
    fn answers_are_read_whoever_gives_them() {
        let list = "[ 2, [\"vcl.list\", \"-j\"], 1.0,\n {\"status\": \"active\", \"state\": \"auto\", \"temperature\": \"warm\",
            \"busy\": 0, \"name\": \"boot\"}, {\"status\": \"available\", \"state\": \"label\", \"temperature\": \"warm\",
            \"busy\": 0, \"name\": \"l\", \"label\": {\"name\": \"boot\", \"refs\": 0}}\n]\n";
        let all: Vec<_> = members(list).unwrap().iter().map(Vcl::from_json).collect();
        assert_eq!(
            (all[0].name.as_str(), all[0].status.as_str(), all[0].state.as_str()),
            ("boot", "active", "auto/warm")
        );
        assert_eq!(all[1].state, "label -> boot");
        let changed = "[ 2, [\"param.show\"], 1.0, {\"name\": \"default_ttl\", \"value\": 99.000, \"default\": \"120.000\", \"units\": \"seconds\"}]";
        let all: Vec<_> = members(changed).unwrap().iter().map(Parameter::from_json).collect();
        assert_eq!((all[0].value.as_str(), all[0].default.as_str()), ("99.0", "120.000"));
        assert_eq!((members("{}"), members("[1]"), members("no")), (None, None, None));
    }

    #[test]
    fn addresses_are_written_as_a_takes_them() {
        let all = addresses("a0 127.0.0.1 80\na1 ::1 80\nu /run/x.sock -\nodd\n");
        let all: Vec<_> = all.iter().map(|(name, address)| format!("{name}={address}")).collect();
        assert_eq!(all, ["a0=127.0.0.1:80", "a1=[::1]:80", "u=/run/x.sock"]);
    }

    #[test]
    fn a_panic_is_told_in_a_line() {
        let report = "Panic at: Sun, 22 Nov 2026 10:00:00 GMT\nAssert error in child(), file.c line 1:\n  Condition(x) not true.\n";
        let want = "Panic at: Sun, 22 Nov 2026 10:00:00 GMT: Assert error in child(), file.c line 1:";
        assert_eq!(panicked(report).as_deref(), Some(want));
        assert_eq!(panicked(""), None);
    }
}
