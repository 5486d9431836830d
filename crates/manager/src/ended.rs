// SPDX-License-Identifier: BSD-2-Clause
//! Workers that have ended or are about to: reports, counts, and when the next worker begins.

use base::clock::Mono;
use cli::record;

use crate::deaths::{Deaths, DeathsRecord};
use crate::dying::DyingWorker;
use crate::naming::BacktraceNaming;
use crate::upgrade::carried::{Carried, Successor};

#[derive(Debug, Default)]
pub(crate) struct EndedWorkers {
    pub dying: Vec<DyingWorker>,
    /// Next look at a worker that begins to end, and the last one.
    pub look: Option<Mono>,
    pub look_until: Mono,
    pub naming: BacktraceNaming,
    /// The last worker's panic, until it's cleared.
    pub panic: Option<String>,
    pub deaths: Deaths,
    pub exit_status: i32,
    /// Number of workers in a row that lived shortly, and when the next one begins.
    pub restarts: u32,
    pub restart: Option<Mono>,
}

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct EndedRecord {
        maybe "panic" pub panic: Option<String>,
        part pub deaths: DeathsRecord,
        one "exit_status" pub exit_status: i32,
        one "restarts" pub restarts: u32,
    }
}

impl Carried for EndedWorkers {
    type Record = EndedRecord;

    fn save(&self, now: Mono) -> EndedRecord {
        EndedRecord {
            panic: self.panic.clone(),
            deaths: self.deaths.save(now),
            exit_status: self.exit_status,
            restarts: self.restarts,
        }
    }

    fn restore(record: &EndedRecord, by: &Successor<'_>) -> Result<EndedWorkers, String> {
        Ok(EndedWorkers {
            panic: record.panic.clone(),
            deaths: Deaths::restore(&record.deaths, by)?,
            exit_status: record.exit_status,
            restarts: record.restarts,
            ..EndedWorkers::default()
        })
    }
}
