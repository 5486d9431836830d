// SPDX-License-Identifier: BSD-2-Clause
//! The VCLs that are loaded: states, temperatures, labels, dependencies, which one is active. The sources themselves are
//! checked by `checker`; the worker is told over its CLI.
//!
//! ```text
//! state auto ── goes cold after vcl_cooldown when unused ──▶ warm = false      (a use warms it again)
//! state warm, cold ── fixed by vcl.state, vcl.load         label ── always warm, points at one VCL
//! ```

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use base::clock::Mono;

use crate::named;
use crate::reply::{CliReply, CliStatus, ReplyExt};

pub mod carry;
mod discard;
mod label;
mod list;

/// Time until the first look for VCLs that may go cold.
const FIRST_COOLING: Duration = Duration::from_secs(3);

pub trait WorkerCli {
    fn is_running(&self) -> bool;
    /// Sends one line (without its end) and waits for the answer.
    fn ask(&mut self, line: &str) -> CliReply;
    fn complain(&mut self, text: &str);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VclState {
    /// Warm while in use.
    Auto,
    Cold,
    Warm,
    Label,
}

impl VclState {
    const ALL: [VclState; 4] = [VclState::Auto, VclState::Cold, VclState::Warm, VclState::Label];

    pub fn word(self) -> &'static str {
        match self {
            VclState::Auto => "auto",
            VclState::Cold => "cold",
            VclState::Warm => "warm",
            VclState::Label => "label",
        }
    }

    fn parse(text: Option<&str>) -> Result<VclState, CliReply> {
        match text {
            Some("auto") => Ok(VclState::Auto),
            Some("cold") => Ok(VclState::Cold),
            Some("warm") => Ok(VclState::Warm),
            _ => Err(CliReply::new(CliStatus::Param, "State must be one of auto, cold or warm.")),
        }
    }
}

#[derive(Debug)]
pub struct Prog {
    name: String,
    state: VclState,
    warm: bool,
    file: Option<PathBuf>,
    /// Certificates and keys ([`CheckedVcl::keys`]).
    keys: Option<File>,
    /// Names this one refers to: a label its VCL, a VCL the labels it returns to.
    uses: Vec<String>,
    idle_since: Option<Mono>,
}

#[derive(Debug, Default)]
pub struct ManagerVcls {
    progs: Vec<Prog>,
    active: Option<String>,
    booted: u32,
    /// Next look for VCLs that may go cold.
    pub cooling: Mono,
}

/// Highest number of VCLs, and the reaction beyond it (parameters max_vcl and max_vcl_handling).
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub most: u32,
    /// 0 ignore, 1 warn, 2 refuse
    pub handling: u32,
}

#[derive(Debug)]
pub struct CheckedVcl {
    /// The bundle's file, for the worker.
    pub file: PathBuf,
    pub keys: Option<File>,
    pub labels: Vec<String>,
    pub warnings: String,
}

impl ManagerVcls {
    pub fn begin(now: Mono) -> ManagerVcls {
        ManagerVcls { cooling: now + FIRST_COOLING, ..ManagerVcls::default() }
    }

    /// The reason why the worker can't start; `None` when it can.
    pub fn not_startable(&self) -> Option<&'static str> {
        match (self.progs.is_empty(), &self.active) {
            (true, _) => Some("No VCL loaded"),
            (false, None) => Some("No active VCL"),
            (false, Some(_)) => None,
        }
    }

    /// Names of all labels: what `return (vcl(x))` may name.
    pub fn labels(&self) -> Vec<String> {
        self.progs.iter().filter(|p| p.state == VclState::Label).map(|p| p.name.clone()).collect()
    }

    /// Files that are in use, to remove at exit.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.progs.iter().filter_map(|p| p.file.as_ref())
    }

    pub fn keys(&self) -> impl Iterator<Item = &File> {
        self.progs.iter().filter_map(|p| p.keys.as_ref())
    }

    fn at(&self, name: &str) -> Option<usize> {
        self.progs.iter().position(|p| p.name == name)
    }

    fn find(&self, name: &str) -> Result<usize, CliReply> {
        check_name(name)?;
        let unknown = || CliReply::new(CliStatus::Param, format!("No VCL named {name} known\n"));
        self.at(name).ok_or_else(|| unknown().meant(name, self.names()))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.progs.iter().map(|prog| prog.name.as_str())
    }

    fn users(&self, name: &str) -> Vec<&str> {
        self.progs.iter().flat_map(|p| p.uses.iter().filter(|used| *used == name).map(|_| p.name.as_str())).collect()
    }

    fn is_active(&self, at: usize) -> bool {
        self.active.as_ref() == Some(&self.progs[at].name)
    }

    fn count(&self) -> u32 {
        self.progs.iter().filter(|p| p.state != VclState::Label).count() as u32
    }

    /// Notes that the VCL may go cold from `now` on, if nothing holds it.
    fn rest(&mut self, at: usize, now: Mono) {
        let prog = &self.progs[at];
        let held = self.is_active(at)
            || prog.state != VclState::Auto
            || !prog.warm
            || !prog.uses.is_empty()
            || !self.users(&prog.name).is_empty();
        self.progs[at].idle_since = (!held).then_some(now);
    }

    /// Checks that a new VCL of this name and state may be loaded; gives the state.
    pub fn may_load(&self, name: &str, state: Option<&str>, quota: Quota) -> Result<VclState, CliReply> {
        check_name(name)?;
        if self.at(name).is_some() {
            return Err(CliReply::new(CliStatus::Param, format!("Already a VCL named {name}")));
        }
        if self.count() >= quota.most && quota.handling == 2 {
            let text = format!(
                "Too many ({}) VCLs already loaded\n(See max_vcl and max_vcl_handling parameters)",
                self.count()
            );
            return Err(CliReply::new(CliStatus::Cant, text));
        }
        match state {
            None => Ok(VclState::Auto),
            given => VclState::parse(given),
        }
    }

    /// Adds a checked VCL and gives it to the worker, if there is one. On failure `checked.file` is the caller's again.
    pub fn load(
        &mut self,
        name: &str,
        state: VclState,
        checked: CheckedVcl,
        quota: Quota,
        now: Mono,
        worker: &mut dyn WorkerCli,
    ) -> CliReply {
        if let Some(unknown) = checked.labels.iter().find(|label| !self.is_label(label)) {
            return CliReply::new(CliStatus::Param, format!("Not a VCL label: '{unknown}'\nVCL compilation failed"));
        }
        for label in &checked.labels {
            let at = self.at(label).expect("checked above");
            self.progs[at].idle_since = None;
        }
        let mut reply = CliReply::new(CliStatus::Ok, checked.warnings);
        let warm = state != VclState::Cold;
        self.progs.push(Prog {
            name: name.into(),
            state,
            warm,
            file: Some(checked.file),
            keys: checked.keys,
            uses: checked.labels,
            idle_since: None,
        });
        if self.count() > quota.most && quota.handling == 1 {
            reply.push_str(&format!(
                "{} VCLs loaded\nRemember to vcl.discard the old/unused VCLs.\n(See max_vcl and max_vcl_handling parameters)",
                self.count()
            ));
        }
        let at = self.progs.len() - 1;
        if worker.is_running() {
            let answer = worker.ask(&load_line(&self.progs[at]));
            if !answer.is_ok() {
                self.progs.pop();
                return answer;
            }
            self.rest(at, now);
        }
        reply
    }

    /// Adds a VCL of the command line; the last one becomes the active one. `only` names it `boot`, else boot0, boot1...
    pub fn boot_name(&mut self, only: bool) -> String {
        if only {
            return "boot".into();
        }
        self.booted += 1;
        format!("boot{}", self.booted - 1)
    }

    pub fn set_active(&mut self, name: &str) {
        self.active = Some(name.to_string());
    }

    fn is_label(&self, name: &str) -> bool {
        self.at(name).is_some_and(|at| self.progs[at].state == VclState::Label)
    }

    /// All lines for a new worker, each after those it depends on; `vcl.use` last.
    pub fn push_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut told: Vec<&str> = Vec::new();
        while told.len() < self.progs.len() {
            let before = told.len();
            for prog in &self.progs {
                let ready = prog.uses.iter().all(|used| told.contains(&used.as_str()));
                if ready && !told.contains(&prog.name.as_str()) {
                    lines.push(if prog.state == VclState::Label { label_line(prog) } else { load_line(prog) });
                    told.push(&prog.name);
                }
            }
            assert!(told.len() > before, "labels and VCLs point in a circle");
        }
        if let Some(active) = &self.active {
            lines.push(format!("vcl.use \"{active}\""));
        }
        lines
    }

    pub fn use_vcl(&mut self, name: &str, now: Mono, worker: &mut dyn WorkerCli) -> Result<CliReply, CliReply> {
        let at = self.find(name)?;
        if self.is_active(at) {
            return Ok(CliReply::ok(""));
        }
        self.require_warm(at, now, worker)?;
        if worker.is_running() {
            let answer = worker.ask(&format!("vcl.use {name}"));
            if !answer.is_ok() {
                return Err(answer);
            }
        }
        let old = self.active.replace(name.to_string()).and_then(|old| self.at(&old));
        self.rest(at, now);
        if let Some(old) = old {
            self.rest(old, now);
        }
        Ok(CliReply::ok(format!("VCL '{name}' now active")))
    }

    pub fn set_state(
        &mut self,
        name: &str,
        state: Option<&str>,
        now: Mono,
        worker: &mut dyn WorkerCli,
    ) -> Result<CliReply, CliReply> {
        let at = self.find(name)?;
        if self.progs[at].state == VclState::Label {
            return Err(CliReply::new(CliStatus::Param, "Labels are always warm"));
        }
        let state = VclState::parse(state)?;
        if state == VclState::Cold {
            if !self.users(name).is_empty() {
                return Err(CliReply::new(CliStatus::Cant, "A labeled VCL cannot be set cold"));
            }
            if self.is_active(at) {
                return Err(CliReply::new(CliStatus::Cant, "Cannot set the active VCL cold."));
            }
        }
        self.change_state(at, state, now, worker)?;
        Ok(CliReply::ok(""))
    }

    fn change_state(
        &mut self,
        at: usize,
        state: VclState,
        now: Mono,
        worker: &mut dyn WorkerCli,
    ) -> Result<(), CliReply> {
        if self.progs[at].state == VclState::Label || self.progs[at].state == state {
            return Ok(());
        }
        let old = std::mem::replace(&mut self.progs[at].state, state);
        let warm = match state {
            _ if self.is_active(at) => true,
            VclState::Auto | VclState::Label => self.progs[at].warm,
            VclState::Warm => true,
            VclState::Cold => false,
        };
        match self.tell_temperature(at, warm, worker) {
            Ok(()) => {
                self.rest(at, now);
                Ok(())
            }
            Err(answer) => {
                self.progs[at].state = old;
                Err(answer)
            }
        }
    }

    fn tell_temperature(&mut self, at: usize, warm: bool, worker: &mut dyn WorkerCli) -> Result<(), CliReply> {
        let prog = &mut self.progs[at];
        if worker.is_running() {
            let answer = worker.ask(&format!("vcl.state {} {}{}", prog.name, u8::from(warm), prog.state.word()));
            if !answer.is_ok() {
                return Err(answer);
            }
        }
        prog.warm = warm;
        Ok(())
    }

    fn require_warm(&mut self, at: usize, now: Mono, worker: &mut dyn WorkerCli) -> Result<(), CliReply> {
        let prog = &self.progs[at];
        if prog.state == VclState::Cold {
            let text = format!("VCL '{}' is cold - set to auto or warm first", prog.name);
            return Err(CliReply::new(CliStatus::Cant, text));
        }
        self.set_warm(at, true, now, worker)
    }

    fn set_warm(&mut self, at: usize, warm: bool, now: Mono, worker: &mut dyn WorkerCli) -> Result<(), CliReply> {
        if self.progs[at].warm == warm {
            return Ok(());
        }
        match self.progs[at].state {
            VclState::Auto | VclState::Label => {
                self.progs[at].idle_since = None;
                let done = self.tell_temperature(at, warm, worker);
                self.rest(at, now);
                done
            }
            VclState::Cold | VclState::Warm => {
                self.change_state(at, if warm { VclState::Warm } else { VclState::Cold }, now, worker)
            }
        }
    }

    /// Lets VCLs go cold that have rested for `cooldown`. Called whenever [`ManagerVcls::cooling`] is over.
    pub fn cool(&mut self, now: Mono, cooldown: Duration, worker: &mut dyn WorkerCli) {
        self.cooling = now + cooldown.mul_f64(0.45).max(Duration::from_millis(100));
        for at in 0..self.progs.len() {
            let due = self.progs[at].idle_since.is_some_and(|since| since + cooldown < now);
            if due && let Err(answer) = self.set_warm(at, false, now, worker) {
                worker.complain(&format!("VCL {} could not go cold: {}", self.progs[at].name, answer.text()));
            }
        }
    }
}

fn load_line(prog: &Prog) -> String {
    let file = prog.file.as_ref().expect("a VCL that is no label has a file");
    format!("vcl.load {} {} {}{}", prog.name, file.display(), u8::from(prog.warm), prog.state.word())
}

fn label_line(prog: &Prog) -> String {
    format!("vcl.label {} {}", prog.name, prog.uses[0])
}

fn check_name(name: &str) -> Result<(), CliReply> {
    match named::bad_name_byte(name) {
        None => Ok(()),
        Some(byte @ 0x21..0x7f) => {
            Err(CliReply::new(CliStatus::Param, format!("Illegal character in VCL name ('{}')", byte as char)))
        }
        Some(byte) => Err(CliReply::new(CliStatus::Param, format!("Illegal character in VCL name (0x{byte:02x})"))),
    }
}

#[cfg(test)]
mod tests;
