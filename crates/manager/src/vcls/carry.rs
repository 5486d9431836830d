// SPDX-License-Identifier: BSD-2-Clause
//! The VCLs as one program tells them to the next.

use std::path::PathBuf;
use std::time::Duration;

use base::clock::Mono;
use cli::record::Fd;
use cli::{record, words};

use super::{FIRST_COOLING, ManagerVcls, Prog, VclState};
use crate::upgrade::carried::{Carried, Successor, begun, copy_file, elapsed};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpgradeVcl {
    pub name: String,
    pub state: String,
    pub is_warm: bool,
    pub file: Option<PathBuf>,
    /// Time for which it could have gone cold.
    pub idle: Option<Duration>,
    /// Certificates and keys for its backends, in sealed memory.
    pub keys: Option<Fd>,
    pub uses: Vec<String>,
}

words!(UpgradeVcl { name, state, is_warm, file, idle, keys, uses });

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct VclsRecord {
        each "vcl" pub progs: Vec<UpgradeVcl>,
        maybe "active" pub active: Option<String>,
        one "booted" pub booted: u32,
    }
}

impl ManagerVcls {
    pub fn warm_names(&self) -> Vec<String> {
        self.progs.iter().filter(|prog| prog.warm).map(|prog| prog.name.clone()).collect()
    }
}

impl Carried for ManagerVcls {
    type Record = VclsRecord;

    fn save(&self, now: Mono) -> VclsRecord {
        let progs = self.progs.iter().map(|prog| UpgradeVcl {
            name: prog.name.clone(),
            state: prog.state.word().to_owned(),
            is_warm: prog.warm,
            file: prog.file.clone(),
            idle: prog.idle_since.map(|since| elapsed(since, now)),
            keys: prog.keys.as_ref().map(Fd::of),
            uses: prog.uses.clone(),
        });
        VclsRecord { progs: progs.collect(), active: self.active.clone(), booted: self.booted }
    }

    fn restore(record: &VclsRecord, by: &Successor<'_>) -> Result<ManagerVcls, String> {
        let no_sense = || "the VCLs of the state make no sense".to_owned();
        let VclsRecord { progs, active, booted } = record;
        let is_known = |name: &String| progs.iter().any(|prog| prog.name == *name);
        if !active.iter().chain(progs.iter().flat_map(|prog| &prog.uses)).all(is_known) {
            return Err(no_sense());
        }
        if progs.iter().any(|prog| prog.keys.is_some()) {
            by.forbid_cores()?;
        }
        let progs = progs.iter().map(|prog| {
            let state = VclState::ALL.into_iter().find(|state| state.word() == prog.state);
            let state = state.filter(|state| (*state == VclState::Label) == prog.file.is_none());
            Ok(Prog {
                name: prog.name.clone(),
                state: state.ok_or_else(no_sense)?,
                warm: prog.is_warm,
                file: prog.file.clone(),
                keys: copy_file(prog.keys)?,
                uses: prog.uses.clone(),
                idle_since: prog.idle.map(|idle| begun(idle, by.now)),
            })
        });
        let progs = progs.collect::<Result<_, String>>()?;
        Ok(ManagerVcls { progs, active: active.clone(), booted: *booted, cooling: by.now + FIRST_COOLING })
    }
}
