// SPDX-License-Identifier: BSD-2-Clause
//! What a client may do only so often, as parameters and counters have it; and who looks at the frames of QUIC, which pass nobody
//! here: one task for all connections of an endpoint, as long as there are any.

use std::rc::Weak;
use std::time::Duration;

use http3::Http3Abuse;
use http3::abuse::Http3AbuseLimits;
use net::quic::Frames;
use params::Params;
use tables::counters::{Counter, Main};

use super::link::LinkGroup;

/// Interval at which counts of QUIC's frames are looked at: a flood may last so long.
const LOOK: Duration = Duration::from_secs(2);
/// Connections looked at in a row before other tasks get their turn.
const LOOK_BATCH: usize = 500;
/// Frames about windows that one of data calls for: its stream's and the connection's, changed and asked for.
const WINDOWS_PER_DATA: u64 = 4;

/// In the order of [`Http3Abuse::ALL`].
pub(super) fn limits(params: &Params) -> Http3AbuseLimits {
    let most = Http3Abuse::ALL.map(|abuse| match abuse {
        Http3Abuse::Control => params.h3_limit_control,
        Http3Abuse::Priority => params.h3_limit_priorities,
        Http3Abuse::Ignored => params.h3_limit_ignored,
        Http3Abuse::Stream => params.h3_limit_streams,
        Http3Abuse::Ping => params.h3_limit_pings,
        Http3Abuse::Path => params.h3_limit_paths,
        Http3Abuse::Window => params.h3_limit_windows,
        Http3Abuse::Stop => params.h3_limit_stops,
    });
    Http3AbuseLimits { period: params.h3_reset_period.as_secs() as u32, most }
}

pub(super) fn counter(abuse: Http3Abuse, main: &Main) -> &Counter {
    match abuse {
        Http3Abuse::Control => &main.h3_abuse_control,
        Http3Abuse::Priority => &main.h3_abuse_priority,
        Http3Abuse::Ignored => &main.h3_abuse_ignored,
        Http3Abuse::Stream => &main.h3_abuse_stream,
        Http3Abuse::Ping => &main.h3_abuse_ping,
        Http3Abuse::Path => &main.h3_abuse_path,
        Http3Abuse::Window => &main.h3_abuse_window,
        Http3Abuse::Stop => &main.h3_abuse_stop,
    }
}

pub(super) fn counts(before: &Frames, now: &Frames) -> [(Http3Abuse, u32); 4] {
    let more = |of: fn(&Frames) -> u64| of(now).saturating_sub(of(before));
    let windows = more(|f| f.windows).saturating_sub(WINDOWS_PER_DATA * more(|f| f.data));
    [
        (Http3Abuse::Ping, more(|f| f.pings)),
        (Http3Abuse::Path, more(|f| f.paths)),
        (Http3Abuse::Window, windows),
        (Http3Abuse::Stop, more(|f| f.stops)),
    ]
    .map(|(abuse, times)| (abuse, u32::try_from(times).unwrap_or(u32::MAX)))
}

/// Looks at all connections now and then, until there is none.
pub(super) fn watch(group: Weak<LinkGroup>) {
    rt::spawn(async move {
        loop {
            rt::sleep(LOOK).await;
            let links = match group.upgrade() {
                Some(group) => group.watched(),
                None => return,
            };
            if links.is_empty() {
                return;
            }
            for batch in links.chunks(LOOK_BATCH) {
                batch.iter().filter_map(Weak::upgrade).for_each(|link| link.look());
                rt::yield_now().await;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_data_calls_for_are_free() {
        let before = Frames { pings: 1, paths: 2, windows: 10, stops: 4, data: 5 };
        let check = |now: Frames, want: [u32; 4]| assert_eq!(counts(&before, &now).map(|(_, times)| times), want);
        check(before, [0; 4]);
        check(Frames { pings: 3, paths: 3, windows: 50, stops: 5, data: 10 }, [2, 1, 20, 1]);
        check(Frames { windows: 30, data: 10, ..before }, [0; 4]);
    }
}
