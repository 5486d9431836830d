// SPDX-License-Identifier: BSD-2-Clause
//! The VCLs as one program tells them to the next.

use std::fs::File;
use std::os::fd::AsRawFd;

use base::clock::Mono;

use super::{ManagerVcls, Prog, VclState};
use crate::upgrade::state;

impl ManagerVcls {
    /// All, which is active, and how many the command line loaded.
    pub fn parts(&self, now: Mono) -> (Vec<state::UpgradeVcl>, Option<String>, u32) {
        let progs = self.progs.iter().map(|prog| state::UpgradeVcl {
            name: prog.name.clone(),
            state: prog.state.word().to_owned(),
            is_warm: prog.warm,
            file: prog.file.clone(),
            keys: prog.keys.as_ref().map(AsRawFd::as_raw_fd),
            uses: prog.uses.clone(),
            idle: prog.idle_since.map(|since| now.since(since)),
        });
        (progs.collect(), self.active.clone(), self.booted)
    }

    pub fn warm_names(&self) -> Vec<String> {
        self.progs.iter().filter(|prog| prog.warm).map(|prog| prog.name.clone()).collect()
    }

    /// Continues from the parts that [`ManagerVcls::parts`] gave; `None` when they make no sense.
    pub fn from_parts(
        progs: &[state::UpgradeVcl],
        active: Option<String>,
        booted: u32,
        now: Mono,
    ) -> Option<ManagerVcls> {
        let is_known = |name: &String| progs.iter().any(|prog| prog.name == *name);
        if !active.iter().chain(progs.iter().flat_map(|prog| &prog.uses)).all(is_known) {
            return None;
        }
        let progs = progs.iter().map(|prog| {
            let state = if prog.state == VclState::Label.word() {
                Ok(VclState::Label)
            } else {
                VclState::parse(Some(&prog.state))
            };
            let state = state.ok().filter(|state| (*state == VclState::Label) == prog.file.is_none())?;
            Some(Prog {
                name: prog.name.clone(),
                state,
                warm: prog.is_warm,
                file: prog.file.clone(),
                keys: prog.keys.map(sys::fd::duplicate_inherited).transpose().ok()?.map(File::from),
                uses: prog.uses.clone(),
                idle_since: prog.idle.map(|idle| now.plus(-idle)),
            })
        });
        Some(ManagerVcls { progs: progs.collect::<Option<_>>()?, active, booted })
    }
}
