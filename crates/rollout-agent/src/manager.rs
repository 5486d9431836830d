// SPDX-License-Identifier: BSD-2-Clause
//! The manager that started this process: the commands by which VCL and parameters are loaded, used and taken back. The inner `Err` is the
//! manager's refusal.

use std::os::fd::OwnedFd;
use std::time::Duration;

use admin::{AdminConnection, is_good};
use base::clock;
use fleet::rollout::Release;
use serde_json::Value;

use crate::{PACE, Wrong};

/// Time that the manager may take over a command: the checker has a minute.
const CLI_TIME: Duration = Duration::from_secs(120);
/// Probes of a VCL that was loaded have so long to find their backends healthy.
const PROBE_TIME: Duration = Duration::from_secs(5);

pub(crate) struct ManagerCli(AdminConnection);

impl ManagerCli {
    pub fn new(socket: OwnedFd) -> Result<ManagerCli, String> {
        AdminConnection::given(socket, CLI_TIME).map(ManagerCli)
    }

    pub fn ask(&mut self, words: &[&[u8]]) -> Result<Result<String, String>, Wrong> {
        let reply = self.0.ask(&cli::client::encode(words)).map_err(|_| Wrong::Manager)?;
        let text = reply.text().into_owned();
        Ok(if is_good(reply.status) { Ok(text) } else { Err(text) })
    }

    pub fn ask_words(&mut self, words: &[&str]) -> Result<Result<String, String>, Wrong> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.ask(&words)
    }

    /// The members of a reply in JSON, behind what every one begins with.
    fn ask_json(&mut self, words: &[&str]) -> Result<Vec<Value>, Wrong> {
        let reply = self.ask_words(words)?.unwrap_or_default();
        let members = serde_json::from_str(&reply).ok();
        Ok(match members {
            Some(Value::Array(members)) => members.into_iter().skip(3).collect(),
            _ => Vec::new(),
        })
    }

    /// Loads a VCL unless it is loaded, and gives its probes a moment to find their backends healthy.
    pub fn load(&mut self, name: &str, bundle: &[u8]) -> Result<Result<(), String>, Wrong> {
        let is_loaded = self.ask_json(&["vcl.list", "-j"])?.iter().any(|row| row["name"] == name[..]);
        if !is_loaded && let Err(why) = self.ask(&[b"fleet.load", name.as_bytes(), bundle, b"auto"])? {
            return Ok(Err(why));
        }
        let until = clock::now() + PROBE_TIME;
        while clock::now() < until {
            let rows = self.ask_json(&["backend.list", "-j", &format!("{name}.*")])?;
            let is_well = |row: &Value| {
                row.as_object()
                    .is_none_or(|backends| backends.values().all(|backend| backend["probe_message"][2] != "sick"))
            };
            if rows.iter().all(is_well) {
                break;
            }
            std::thread::sleep(PACE);
        }
        Ok(Ok(()))
    }

    pub fn params_of(&mut self, release: &Release) -> Result<Vec<(String, String)>, Wrong> {
        let mut params = Vec::new();
        for name in release.params.keys() {
            let shown = self.ask_json(&["param.show", "-j", name])?;
            let is = shown.iter().find(|param| param["name"] == name[..]).map(|param| match &param["value"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            params.extend(is.map(|is| (name.clone(), is)));
        }
        Ok(params)
    }

    /// Sets parameters and uses the VCL. If it can't be done nothing is changed.
    pub fn activate(&mut self, release: &Release) -> Result<Result<(), String>, Wrong> {
        let mut former = self.params_of(release)?;
        let mut wrong = None;
        for (at, (name, value)) in release.params.iter().enumerate() {
            match self.ask_words(&["param.set", name, value])? {
                Ok(_) => {}
                Err(why) => {
                    let is_set =
                        |(former, _): &(String, String)| release.params.keys().take(at).any(|name| name == former);
                    former.retain(is_set);
                    wrong = Some(format!("{name}: {}", why.trim()));
                    break;
                }
            }
        }
        if let (None, Some(vcl)) = (&wrong, &release.vcl)
            && let Err(why) = self.use_vcl(&vcl.name())?
        {
            wrong = Some(why);
        }
        let Some(why) = wrong else { return Ok(Ok(())) };
        for (name, value) in &former {
            let _ = self.ask_words(&["param.set", name, value])?;
        }
        Ok(Err(why))
    }

    pub fn use_vcl(&mut self, name: &str) -> Result<Result<(), String>, Wrong> {
        if name.is_empty() {
            return Ok(Ok(()));
        }
        Ok(self.ask_words(&["vcl.use", name])?.map(drop))
    }

    /// The VCL that is in use; if that is one of a roll-out that is over, the first of the node's own.
    pub fn former(&mut self, next: &Release, has_released: bool) -> Result<String, Wrong> {
        let rows = self.ask_json(&["vcl.list", "-j"])?;
        let name = |row: &Value| row["name"].as_str().unwrap_or_default().to_owned();
        let active = rows.iter().find(|row| row["status"] == "active").map(name).unwrap_or_default();
        if has_released || next.vcl.as_ref().is_none_or(|vcl| vcl.name() != active) {
            return Ok(active);
        }
        let own = rows.iter().find(|row| row["label"].is_null() && !name(row).starts_with("fleet_"));
        Ok(own.map(name).unwrap_or(active))
    }

    pub fn discard(&mut self, release: &Release, kept: &str) -> Result<(), Wrong> {
        match &release.vcl {
            Some(vcl) if vcl.name() != kept => self.ask_words(&["vcl.discard", &vcl.name()]).map(drop),
            Some(_) | None => Ok(()),
        }
    }

    pub fn discard_named(&mut self, name: &str, present: &Release) -> Result<(), Wrong> {
        if name.starts_with("fleet_") && present.vcl.as_ref().is_some_and(|vcl| vcl.name() != name) {
            let _ = self.ask_words(&["vcl.discard", name])?;
        }
        Ok(())
    }

    pub fn discard_others(&mut self, present: &Release) -> Result<(), Wrong> {
        let rows = self.ask_json(&["vcl.list", "-j"])?;
        for row in rows.iter().filter(|row| row["status"] == "available") {
            let name = row["name"].as_str().unwrap_or_default().to_owned();
            self.discard_named(&name, present)?;
        }
        Ok(())
    }
}
