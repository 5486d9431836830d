// SPDX-License-Identifier: BSD-2-Clause
//! `vcl.discard`: all that patterns match, users before what they use, or nothing at all.

use std::path::PathBuf;

use base::clock::Mono;
use base::fnmatch;

use super::{ManagerVcls, VclState, WorkerCli};
use crate::reply::{CliReply, CliStatus, ReplyExt};

impl ManagerVcls {
    /// `vcl.discard`: the files of what went, for the caller to remove, and the reply.
    pub fn discard(&mut self, patterns: &[&str], now: Mono, worker: &mut dyn WorkerCli) -> (Vec<PathBuf>, CliReply) {
        let marked = match self.mark(patterns) {
            Ok(marked) => marked,
            Err(reply) => return (Vec::new(), reply),
        };
        let mut files = Vec::new();
        // Users before what they use, so that nothing dangles in between.
        let mut left = marked;
        while !left.is_empty() {
            let free = left.iter().position(|name| self.users(name).is_empty());
            let name = left.remove(free.expect("everything that uses a marked one is marked"));
            self.remove(&name, now, worker, &mut files);
        }
        (files, CliReply::ok(""))
    }

    fn mark(&self, patterns: &[&str]) -> Result<Vec<String>, CliReply> {
        let mut marked: Vec<String> = Vec::new();
        for pattern in patterns {
            let before = marked.len();
            let mut matched = false;
            for (at, prog) in self.progs.iter().enumerate() {
                if !fnmatch::matches(pattern.as_bytes(), prog.name.as_bytes(), fnmatch::MatchFlags::default()) {
                    continue;
                }
                if self.is_active(at) {
                    let text = format!("Cannot discard active VCL program {}\n", prog.name);
                    return Err(CliReply::new(CliStatus::Cant, text));
                }
                matched = true;
                if !marked.contains(&prog.name) {
                    marked.push(prog.name.clone());
                }
            }
            if !matched && before == marked.len() {
                let unknown = CliReply::new(CliStatus::Param, format!("No VCL name matches {pattern}\n"));
                return Err(unknown.meant(pattern, self.names()));
            }
        }
        for name in &marked {
            let users = self.users(name);
            if users.iter().any(|user| !marked.iter().any(|m| m == user)) {
                return Err(CliReply::new(CliStatus::Cant, self.still_used(name, &users)));
            }
        }
        Ok(marked)
    }

    fn still_used(&self, name: &str, users: &[&str]) -> String {
        let mut text = match self.is_label(name) {
            true => format!("Cannot discard VCL label {name}, other VCLs depend on it:\n"),
            false => format!("Cannot discard labeled VCL program {name}:\n"),
        };
        for user in users.iter().take(5) {
            text.push_str(&format!("\t{user}\n"));
        }
        if users.len() > 5 {
            text.push_str("\t[...]");
        }
        text
    }

    fn remove(&mut self, name: &str, now: Mono, worker: &mut dyn WorkerCli, files: &mut Vec<PathBuf>) {
        let at = self.at(name).expect("marked from this list");
        let _ = self.change_state(at, VclState::Cold, now, worker);
        if worker.is_running() {
            let answer = worker.ask(&format!("vcl.discard {name}"));
            if !answer.is_ok() && answer.status != CliStatus::Comms {
                worker.complain(&format!("VCL {name} could not be discarded: {}", answer.text()));
            }
        }
        let prog = self.progs.remove(at);
        files.extend(prog.file);
        for used in prog.uses {
            if let Some(at) = self.at(&used) {
                self.rest(at, now);
            }
        }
    }
}
