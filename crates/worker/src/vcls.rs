// SPDX-License-Identifier: BSD-2-Clause
//! The VCLs of this worker: loaded ones, labels, temperatures.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Weak};

use base::Real;
use cli::CliReply;
use engine::Labels;
use parking_lot::Mutex;
use tables::Compat;
use vrt::LoadedVcl;

struct VclEntry {
    name: String,
    /// `auto`, `warm`, `cold`, `label`.
    state: String,
    warm: bool,
    what: What,
}

enum What {
    Vcl(Arc<LoadedVcl>),
    Label(String),
}

#[derive(Default)]
pub struct WorkerVcls {
    entries: Mutex<Vec<VclEntry>>,
    discarded: Mutex<Vec<Weak<LoadedVcl>>>,
    active: Mutex<Option<String>>,
    active_since: Mutex<Real>,
}

impl WorkerVcls {
    pub fn add(&self, name: &str, state: &str, warm: bool, vcl: Arc<LoadedVcl>) {
        let entry = VclEntry { name: name.to_owned(), state: state.to_owned(), warm, what: What::Vcl(vcl) };
        self.entries.lock().push(entry);
    }

    pub fn label(&self, name: &str, vcl: &str) {
        let mut entries = self.entries.lock();
        match entries.iter_mut().find(|entry| entry.name == name) {
            Some(entry) => entry.what = What::Label(vcl.to_owned()),
            None => entries.push(VclEntry {
                name: name.to_owned(),
                state: "label".to_owned(),
                warm: true,
                what: What::Label(vcl.to_owned()),
            }),
        }
    }

    pub fn labels(&self) -> Vec<String> {
        let entries = self.entries.lock();
        entries.iter().filter(|entry| matches!(entry.what, What::Label(_))).map(|entry| entry.name.clone()).collect()
    }

    pub fn find(&self, name: &str) -> Option<Arc<LoadedVcl>> {
        let entries = self.entries.lock();
        let vcl_of = |name: &str| {
            entries.iter().find_map(|entry| match &entry.what {
                What::Vcl(vcl) if entry.name == name => Some(vcl.clone()),
                What::Vcl(_) | What::Label(_) => None,
            })
        };
        vcl_of(name).or_else(|| {
            let target = entries.iter().find_map(|entry| match &entry.what {
                What::Label(target) if entry.name == name => Some(target.as_str()),
                What::Vcl(_) | What::Label(_) => None,
            })?;
            vcl_of(target)
        })
    }

    /// The reply to a name that none has.
    pub fn unknown(&self, name: &str) -> CliReply {
        let entries = self.entries.lock();
        let unknown = CliReply::param(format!("No VCL named '{name}'"));
        unknown.meant(name, entries.iter().map(|entry| entry.name.as_str()))
    }

    /// Sets state and temperature; whether the temperature changed.
    pub fn set_state(&self, name: &str, state: &str, warm: bool) -> bool {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.iter_mut().find(|entry| entry.name == name) else { return false };
        state.clone_into(&mut entry.state);
        std::mem::replace(&mut entry.warm, warm) != warm
    }

    pub fn remove(&self, name: &str) -> Option<Arc<LoadedVcl>> {
        let mut entries = self.entries.lock();
        let at = entries.iter().position(|entry| entry.name == name)?;
        match entries.remove(at).what {
            What::Vcl(vcl) => {
                self.discarded.lock().push(Arc::downgrade(&vcl));
                Some(vcl)
            }
            What::Label(_) => None,
        }
    }

    pub fn set_active(&self, name: &str, now: Real) {
        *self.active.lock() = Some(name.to_owned());
        *self.active_since.lock() = now;
    }

    pub fn active_since(&self) -> Real {
        *self.active_since.lock()
    }

    pub fn active(&self) -> String {
        self.active.lock().clone().unwrap_or_default()
    }

    pub fn all(&self) -> Vec<Arc<LoadedVcl>> {
        let entries = self.entries.lock();
        let vcls = entries.iter().filter_map(|entry| match &entry.what {
            What::Vcl(vcl) => Some(vcl.clone()),
            What::Label(_) => None,
        });
        vcls.collect()
    }

    pub fn warm(&self) -> Vec<Arc<LoadedVcl>> {
        let entries = self.entries.lock();
        let vcls = entries.iter().filter(|entry| entry.warm).filter_map(|entry| match &entry.what {
            What::Vcl(vcl) => Some(vcl.clone()),
            What::Label(_) => None,
        });
        vcls.collect()
    }

    /// Writes each VCL and the files it was made of, a line each; nothing when somebody changes the list just now. It neither
    /// allocates nor waits: a signal handler calls it.
    pub fn write_files(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (Some(entries), Some(active)) = (self.entries.try_lock(), self.active.try_lock()) else { return Ok(()) };
        for entry in entries.iter() {
            let What::Vcl(vcl) = &entry.what else { continue };
            let mark = if active.as_ref() == Some(&entry.name) { " (active)" } else { "" };
            write!(out, "  {}{mark}:", entry.name)?;
            for (n, source) in vcl.program.map.sources.iter().enumerate() {
                write!(out, "{}{}", if n > 0 { ", " } else { " " }, source.name)?;
            }
            out.write_char('\n')?;
        }
        Ok(())
    }

    pub fn count(&self) -> usize {
        self.all().len()
    }

    pub fn discarded(&self) -> usize {
        let mut discarded = self.discarded.lock();
        discarded.retain(|vcl| vcl.strong_count() > 0);
        discarded.len()
    }

    pub fn modules(&self) -> usize {
        let vcls = self.all();
        let names: HashSet<&str> =
            vcls.iter().flat_map(|vcl| &vcl.program.imports).map(|import| import.module.as_ref()).collect();
        names.len()
    }

    pub fn list(&self, compat: Compat) -> String {
        let mut rows = String::new();
        for row in self.rows() {
            let temperature = if row.warm { "warm" } else { "cold" };
            let busy = match compat {
                Compat::V7_1 => format!("{:>6}", row.busy),
                Compat::V9 => format!("\x0b{}", row.busy),
            };
            rows.push_str(&format!("{}\t{}\t{temperature}\t{busy}\t{}", row.status, row.state, row.name));
            if let Some(target) = &row.target {
                rows.push_str(&format!("\t->\t{target}"));
                if row.users > 0 {
                    let plural = if row.users > 1 { "'s" } else { "" };
                    rows.push_str(&format!(" ({} return(vcl){plural})", row.users));
                }
            } else if row.users > 0 {
                let plural = if row.users > 1 { "s" } else { "" };
                rows.push_str(&format!("\t<-\t({} label{plural})", row.users));
            }
            rows.push('\n');
        }
        base::columns(&rows, compat.is_9())
    }

    pub fn list_json(&self) -> String {
        let mut text = String::new();
        for row in self.rows() {
            let temperature = if row.warm { "warm" } else { "cold" };
            text.push_str(&format!(
                ",\n{{\n  \"status\": \"{}\",\n  \"state\": \"{}\",\n  \"temperature\": \"{temperature}\",\n  \"busy\": {},\n  \"name\": {}",
                row.status,
                row.state,
                row.busy,
                tables::json::quote(&row.name)
            ));
            if let Some(target) = &row.target {
                text.push_str(&format!(",\n  \"label\": {{\n    \"name\": {}", tables::json::quote(target)));
                if row.users > 0 {
                    text.push_str(&format!(",\n    \"refs\": {}", row.users));
                }
                text.push_str("\n  }");
            } else if row.users > 0 {
                text.push_str(&format!(",\n  \"labels\": {}", row.users));
            }
            text.push_str("\n}");
        }
        text
    }

    fn rows(&self) -> Vec<Row> {
        let active = self.active();
        let entries = self.entries.lock();
        let labels_of = |name: &str| {
            entries.iter().filter(|entry| matches!(&entry.what, What::Label(target) if target == name)).count()
        };
        let returns_to = |name: &str| {
            let uses = |entry: &&VclEntry| matches!(&entry.what, What::Vcl(vcl) if vcl.program.labels.iter().any(|label| label == name));
            entries.iter().filter(uses).count()
        };
        let row = |entry: &VclEntry| {
            let (target, users, busy) = match &entry.what {
                // One reference is the list's; the active one, or what an active label stands for, the engine holds too.
                What::Vcl(vcl) => {
                    let is_target = entries
                        .iter()
                        .any(|e| e.name == active && matches!(&e.what, What::Label(target) if *target == entry.name));
                    let held = 1 + usize::from(entry.name == active || is_target);
                    (None, labels_of(&entry.name), Arc::strong_count(vcl).saturating_sub(held))
                }
                What::Label(target) => (Some(target.clone()), returns_to(&entry.name), 0),
            };
            Row {
                status: if entry.name == active { "active" } else { "available" },
                state: entry.state.clone(),
                warm: entry.warm,
                busy,
                name: entry.name.clone(),
                target,
                users,
            }
        };
        entries.iter().map(row).collect()
    }
}

struct Row {
    status: &'static str,
    state: String,
    warm: bool,
    busy: usize,
    name: String,
    target: Option<String>,
    users: usize,
}

/// A handle for the engine.
pub struct ByLabel(pub Arc<WorkerVcls>);

impl Labels for ByLabel {
    fn labelled(&self, label: &str) -> Option<Arc<LoadedVcl>> {
        self.0.find(label)
    }
}
