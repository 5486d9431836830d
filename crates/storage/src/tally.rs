// SPDX-License-Identifier: BSD-2-Clause
//! A store's counters, whichever set they are in: `SMA` for memory, `SMF` for a file.

use std::sync::Arc;

use sys::extent::Region;
use tables::counters::{Counter, Sma, Smf};

/// References to the counters that all kinds have, and those of a file.
pub struct Tally {
    pub(crate) c_req: &'static Counter,
    pub(crate) c_fail: &'static Counter,
    pub(crate) c_bytes: &'static Counter,
    pub(crate) c_freed: &'static Counter,
    pub(crate) g_alloc: &'static Counter,
    pub(crate) g_bytes: &'static Counter,
    pub(crate) g_space: &'static Counter,
    gaps: Option<&'static Smf>,
}

impl Tally {
    /// Shows how cut up a file is.
    pub(crate) fn show_gaps(&self, region: &Arc<Region>) {
        if let Some(smf) = self.gaps {
            // What this thread keeps of the allocations belongs to the sum.
            tables::counters::flush();
            let (small, large) = region.gaps();
            smf.g_smf_frag.set(small);
            smf.g_smf_large.set(large);
            smf.g_smf.set(smf.g_alloc.get() + small + large);
        }
    }
}

impl From<&'static Sma> for Tally {
    fn from(sma: &'static Sma) -> Self {
        let Sma { c_req, c_fail, c_bytes, c_freed, g_alloc, g_bytes, g_space } = sma;
        Tally { c_req, c_fail, c_bytes, c_freed, g_alloc, g_bytes, g_space, gaps: None }
    }
}

impl From<&'static Smf> for Tally {
    fn from(smf: &'static Smf) -> Self {
        let Smf { c_req, c_fail, c_bytes, c_freed, g_alloc, g_bytes, g_space, .. } = smf;
        Tally { c_req, c_fail, c_bytes, c_freed, g_alloc, g_bytes, g_space, gaps: Some(smf) }
    }
}
