// SPDX-License-Identifier: BSD-2-Clause
//! All that rules look at. What couldn't be had says why.

use crate::fleet::LogServerFacts;
use crate::host::Host;
use crate::server::DoctorServer;
use crate::traffic::LogTraffic;

/// Seconds from the machine's start to that of a server which starts with it.
const MOST_BETWEEN: f64 = 60.0;

#[derive(Debug)]
pub struct DoctorFacts {
    pub host: Host,
    pub server: Result<DoctorServer, String>,
    pub traffic: Result<LogTraffic, String>,
    /// The server of the fleet's log; `None` without a fleet.
    pub fleet: Result<Option<LogServerFacts>, String>,
}

impl DoctorFacts {
    pub fn server(&self) -> Result<&DoctorServer, String> {
        self.server.as_ref().map_err(Clone::clone)
    }

    /// True if the machine has run for longer than the server, so that its counters say little about the server.
    pub fn is_server_younger(&self) -> bool {
        let Ok(server) = self.server() else { return false };
        let uptime = |name| server.counter(name).unwrap_or(0);
        let of_server = uptime("MGT.uptime").max(uptime("MAIN.uptime")) as f64;
        self.host.uptime().is_ok_and(|of_machine| of_machine > of_server + MOST_BETWEEN)
    }

    pub fn traffic(&self) -> Result<&LogTraffic, String> {
        self.traffic.as_ref().map_err(Clone::clone)
    }

    pub fn arguments(&self) -> Result<Vec<String>, String> {
        let pid = self.server()?.manager.ok_or("the manager isn't known")?;
        let text = self.host.needs(&format!("proc/{pid}/cmdline"))?;
        Ok(text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    pub fn stores(&self) -> Result<Vec<DoctorStore>, String> {
        let arguments = self.arguments()?;
        let mut words = arguments.iter().skip(1);
        let mut stores = Vec::new();
        while let Some(word) = words.next() {
            match word.strip_prefix("-s") {
                Some("") => stores.extend(words.next().map(|spec| DoctorStore::of(spec))),
                Some(spec) => stores.push(DoctorStore::of(spec)),
                None => {}
            }
        }
        Ok(stores)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoctorStore {
    pub spec: String,
    /// `malloc`, `default`, `file`, `umem`, ...
    pub kind: String,
    pub options: Vec<String>,
}

impl DoctorStore {
    fn of(spec: &str) -> DoctorStore {
        let rest = match spec.split_once('=') {
            // A name comes first; an option's `=` comes after a comma.
            Some((name, rest)) if !name.contains(',') => rest,
            _ => spec,
        };
        let mut parts = rest.split(',').map(str::to_owned);
        let kind = parts.next().unwrap_or_default();
        DoctorStore { spec: spec.to_owned(), kind, options: parts.collect() }
    }

    pub fn is_memory(&self) -> bool {
        ["malloc", "default", "umem"].contains(&self.kind.as_str())
    }

    pub fn memory(&self) -> Option<u64> {
        self.is_memory().then(|| self.options.first().and_then(|size| base::text::parse_bytes(size)))?
    }

    pub fn path(&self) -> Option<&str> {
        let is_file = ["file", "persistent", "deprecated_persistent"].contains(&self.kind.as_str());
        is_file.then(|| self.options.first().map(String::as_str))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_as_operators_write_them() {
        let store = |spec| (DoctorStore::of(spec).memory(), DoctorStore::of(spec).path().map(str::to_owned));
        assert_eq!(store("malloc,1G"), (Some(1 << 30), None));
        assert_eq!(store("s0=malloc,256m"), (Some(256 << 20), None));
        assert_eq!(store("malloc"), (None, None));
        assert_eq!(store("big=file,/data/x,10G,front=1G"), (None, Some("/data/x".into())));
    }
}
