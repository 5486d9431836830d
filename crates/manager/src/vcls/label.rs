// SPDX-License-Identifier: BSD-2-Clause
//! `vcl.label`: a name for a VCL, which other VCLs can return to.

use base::clock::Mono;

use super::{ManagerVcls, Prog, VclState, WorkerCli, check_name, label_line};
use crate::reply::{CliReply, CliStatus, ReplyExt};

impl ManagerVcls {
    pub fn label(
        &mut self,
        label: &str,
        target: &str,
        now: Mono,
        worker: &mut dyn WorkerCli,
    ) -> Result<CliReply, CliReply> {
        check_name(label)?;
        let existing = self.at(label);
        if existing.is_some_and(|at| self.progs[at].state != VclState::Label) {
            return Err(CliReply::new(CliStatus::Param, format!("{label} is not a label")));
        }
        let to = self.find(target)?;
        if self.progs[to].state == VclState::Label {
            return Err(CliReply::new(CliStatus::Cant, "VCL labels cannot point to labels"));
        }
        if let Some(at) = existing
            && self.progs[at].uses[0] != target
        {
            let mut path = String::new();
            if self.reaches(target, label, &mut path) {
                path.push_str(&format!("Pointing label {label} at {target} would create a loop"));
                return Err(CliReply::new(CliStatus::Param, path));
            }
        }
        self.require_warm(to, now, worker)?;
        let at = match existing {
            Some(at) => {
                self.require_warm(at, now, worker)?;
                let old = std::mem::replace(&mut self.progs[at].uses[0], target.to_string());
                let old = self.at(&old).expect("a label's VCL can't be discarded before it");
                self.rest(old, now);
                at
            }
            None => {
                self.progs.push(Prog {
                    name: label.into(),
                    state: VclState::Label,
                    warm: true,
                    file: None,
                    keys: None,
                    uses: vec![target.to_string()],
                    idle_since: None,
                });
                self.progs.len() - 1
            }
        };
        self.progs[to].idle_since = None;
        if worker.is_running() {
            let answer = worker.ask(&label_line(&self.progs[at]));
            if !answer.is_ok() {
                return Err(answer);
            }
        }
        Ok(CliReply::ok(""))
    }

    /// True if `target` is reached from `from`; `path` describes the way.
    fn reaches(&self, from: &str, target: &str, path: &mut String) -> bool {
        if from == target {
            return true;
        }
        let Some(at) = self.at(from) else { return false };
        for used in &self.progs[at].uses {
            if self.reaches(used, target, path) {
                path.push_str(&match self.progs[at].state {
                    VclState::Label => format!("Label {from} points to vcl {used}\n"),
                    _ => format!("Vcl {from} uses Label {used}\n"),
                });
                return true;
            }
        }
        false
    }
}
