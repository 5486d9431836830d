// SPDX-License-Identifier: BSD-2-Clause
//! VCL in use, and what all of its runs share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use tables::Compat;
use vrt::LoadedVcl;

use crate::random::Random;

pub trait Labels: Send + Sync {
    fn labelled(&self, label: &str) -> Option<Arc<LoadedVcl>>;
}

pub struct ServerNames {
    pub identity: String,
    pub hostname: String,
}

impl ServerNames {
    /// This server's element of Via. Tests and scripts compare it, so it is varnishd's.
    pub(crate) fn via(&self, compat: Compat) -> String {
        let name = match compat {
            Compat::V7_1 => "varnish",
            Compat::V9 => &self.identity,
        };
        format!("1.1 {name} (Varnish/{})", compat.release())
    }
}

pub struct Vcls {
    active: ArcSwapOption<LoadedVcl>,
    labels: Box<dyn Labels>,
    keeps_key_fields: AtomicBool,
    pub names: ServerNames,
    /// `debug.srandom`'s generator, also used otherwise.
    pub random: Random,
}

impl Vcls {
    pub(crate) fn new(labels: Box<dyn Labels>, names: ServerNames, seed: u32) -> Self {
        Vcls {
            active: ArcSwapOption::empty(),
            labels,
            keeps_key_fields: AtomicBool::new(false),
            names,
            random: Random::seeded(seed),
        }
    }

    pub fn active(&self) -> Option<Arc<LoadedVcl>> {
        self.active.load_full()
    }

    pub fn activate(&self, vcl: Option<Arc<LoadedVcl>>) {
        self.active.store(vcl);
    }

    pub(crate) fn labelled(&self, label: &str) -> Option<Arc<LoadedVcl>> {
        self.labels.labelled(label)
    }

    /// From now on fields give objects keys: a VCL imports xkey.
    pub fn keep_key_fields(&self) {
        self.keeps_key_fields.store(true, Relaxed);
    }

    pub(crate) fn keeps_key_fields(&self) -> bool {
        self.keeps_key_fields.load(Relaxed)
    }
}
