// SPDX-License-Identifier: BSD-2-Clause
//! Counters of what costs a peer little and us much ([`crate::limits`]), by the clock of its connection.

use base::clock::Mono;

use crate::error::{Http2Abuse, Http2Fault};
use crate::limits::{EventMeter, Http2AbuseLimits, RapidResetLimit, seconds_since};

/// PRIORITY frames that a new stream may bring along.
const PRIORITIES_PER_STREAM: u32 = 4;
/// WINDOW_UPDATE frames that come with one or follow its end.
const UPDATES_PER_STREAM: u32 = 2;
/// Frames that were on their way when it was over.
const IGNORED_PER_STREAM: u32 = 4;
/// A DATA frame of ours below this, cut by a window, is a small one.
const SMALL_DATA: usize = 256;
/// WINDOW_UPDATEs that one DATA frame of ours explains.
const UPDATES_PER_DATA: u32 = 8;
/// PINGs that one DATA frame of ours explains: some peers measure by them.
const PINGS_PER_DATA: u32 = 1;
/// Small DATA frames that one DATA frame of ours answers: messages go to and fro.
const SMALL_PER_DATA: u32 = 1;

#[derive(Debug, Default)]
pub(super) struct Meters {
    rapid_resets: EventMeter,
    pub(super) made_resets: EventMeter,
    pub(super) refused: EventMeter,
    pub(super) settings: EventMeter,
    pub(super) pings: EventMeter,
    pub(super) priorities: EventMeter,
    pub(super) empty_data: EventMeter,
    pub(super) small_data: EventMeter,
    pub(super) window_updates: EventMeter,
    small_windows: EventMeter,
    pub(super) ignored: EventMeter,
}

#[derive(Debug)]
pub(super) struct Conduct {
    born: Mono,
    /// Seconds since the connection was born, as the owner said last.
    now: f32,
    rapid_reset_limit: RapidResetLimit,
    meters: Meters,
}

impl Conduct {
    pub(super) fn new(limits: &Http2AbuseLimits, born: Mono) -> Conduct {
        Conduct { born, now: 0.0, rapid_reset_limit: RapidResetLimit::from(limits), meters: Meters::default() }
    }

    pub(super) fn set_now(&mut self, now: Mono) {
        self.now = seconds_since(self.born, now);
    }

    pub(super) fn now(&self) -> f32 {
        self.now
    }

    pub(super) fn count(
        &mut self,
        limits: &Http2AbuseLimits,
        meter: impl FnOnce(&mut Meters) -> &mut EventMeter,
        limit: impl FnOnce(&Http2AbuseLimits) -> u32,
        abuse: Http2Abuse,
    ) -> Result<(), Http2Fault> {
        let is_too_many = meter(&mut self.meters).count(self.now, limit(limits), limits.period);
        if is_too_many { Err(abuse.into()) } else { Ok(()) }
    }

    pub(super) fn rapid_resets(&self) -> (RapidResetLimit, f32) {
        let limit = self.rapid_reset_limit;
        (limit, limit.most as f32 - self.meters.rapid_resets.spent_by(self.now, limit.most, limit.period as f32))
    }

    pub(super) fn limit_rapid_resets(&mut self, limit: RapidResetLimit) {
        self.rapid_reset_limit = limit;
        self.meters.rapid_resets = EventMeter::default();
    }

    /// Counts the reset of a stream that began at `began`, if that is a rapid one.
    pub(super) fn reset_by_peer(&mut self, began: f32) -> Result<(), Http2Fault> {
        if f64::from(self.now - began) < self.rapid_reset_limit.within { self.rapid_reset() } else { Ok(()) }
    }

    pub(super) fn rapid_reset(&mut self) -> Result<(), Http2Fault> {
        let is_too_many = self.meters.rapid_resets.count_reset(self.now, self.rapid_reset_limit);
        if is_too_many { Err(Http2Abuse::RapidReset.into()) } else { Ok(()) }
    }

    /// A new stream explains some frames.
    pub(super) fn pay_back_for_stream(&mut self) {
        self.meters.priorities.pay_back(PRIORITIES_PER_STREAM);
        self.meters.window_updates.pay_back(UPDATES_PER_STREAM);
        self.meters.ignored.pay_back(IGNORED_PER_STREAM);
    }

    /// Data that we sent explains some frames. `is_cut`: a window made the frame as short as it is.
    pub(super) fn sent_data(&mut self, limits: &Http2AbuseLimits, len: usize, is_cut: bool) -> Result<(), Http2Fault> {
        self.meters.pings.pay_back(PINGS_PER_DATA);
        self.meters.small_data.pay_back(SMALL_PER_DATA);
        if len >= SMALL_DATA || !is_cut {
            self.meters.window_updates.pay_back(UPDATES_PER_DATA);
            return Ok(());
        }
        self.count(limits, |m| &mut m.small_windows, |l| l.small_windows, Http2Abuse::SmallWindow)
    }
}
