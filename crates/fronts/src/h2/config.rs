// SPDX-License-Identifier: BSD-2-Clause
//! What the parameters make of the codec. A thread works it out once for each set of parameters.

use std::cell::RefCell;
use std::sync::Arc;

use http2::conn::ReceiveWindow;
use http2::{Http2AbuseLimits, Http2Config, Http2Settings};
use params::{DebugBit, Params};
use tables::Compat;

/// Parameters, and what follows from them: for connections in clear text, and for those with TLS.
struct Worked {
    params: Arc<Params>,
    clear: Arc<Http2Config>,
    sealed: Arc<Http2Config>,
}

thread_local! {
    static WORKED: RefCell<Option<Worked>> = const { RefCell::new(None) };
}

pub(super) fn current(params: &Arc<Params>, is_sealed: bool) -> Arc<Http2Config> {
    WORKED.with_borrow_mut(|worked| {
        if worked.as_ref().is_none_or(|worked| !Arc::ptr_eq(&worked.params, params)) {
            let [clear, sealed] = [false, true].map(|seals| Arc::new(config(params, seals)));
            *worked = Some(Worked { params: params.clone(), clear, sealed });
        }
        match worked {
            Some(worked) if is_sealed => worked.sealed.clone(),
            Some(worked) => worked.clear.clone(),
            None => Arc::new(config(params, is_sealed)),
        }
    })
}

fn config(params: &Params, is_sealed: bool) -> Http2Config {
    Http2Config {
        settings: settings(params, is_sealed),
        limits: limits(params),
        windows: ReceiveWindow {
            low_water: bytes(params.h2_rx_window_low_water),
            increment: bytes(params.h2_rx_window_increment),
            max_unread: bytes(params.h2_rx_unread),
        },
        lax_settings: params.debug.has(DebugBit::H2Nocheck),
        lax_start: !is_sealed,
        late_pseudo: !is_sealed,
    }
}

/// More streams of one connection than anybody needs: what each holds adds up.
const MOST_STREAMS: u32 = 10_000;

/// In clear text just what varnishd announces, whose accounts of sessions count it; with TLS, which it hasn't got, also what came later.
fn settings(params: &Params, is_sealed: bool) -> Http2Settings {
    Http2Settings {
        header_table_size: bytes(params.h2_header_table_size),
        max_concurrent_streams: bytes(params.h2_max_concurrent_streams).min(MOST_STREAMS),
        initial_window_size: bytes(params.h2_initial_window_size),
        max_frame_size: bytes(params.h2_max_frame_size),
        max_header_list_size: list_sizes(params).0,
        enable_connect_protocol: is_sealed,
        no_rfc7540_priorities: is_sealed,
        ..Http2Settings::default()
    }
}

/// Bytes of a header list as announced, which cost a request its stream, and those that cost the connection; 0: none do. Release 9
/// announces http_req_size.
fn list_sizes(params: &Params) -> (u32, u32) {
    let (head, list) = (params.http_req_size, params.h2_max_header_list_size);
    match params.compat() {
        Compat::V7_1 if list > 0 => (bytes(list), 0),
        Compat::V7_1 | Compat::V9 => {
            let most = match list {
                0 => head.saturating_mul(3) / 2,
                list if list < head => 0,
                list => list,
            };
            (bytes(head), bytes(most))
        }
    }
}

fn limits(params: &Params) -> Http2AbuseLimits {
    Http2AbuseLimits {
        period: params.h2_rapid_reset_period.as_secs_f64().ceil() as u32,
        rapid_reset_ms: bytes(params.h2_rapid_reset.as_millis()),
        rapid_resets: params.h2_rapid_reset_limit,
        made_resets: params.h2_limit_stream_errors,
        refused: params.h2_limit_refused,
        continuations: params.h2_limit_continuations,
        section_bytes: bytes(params.h2_limit_header_bytes),
        list_bytes: list_sizes(params).1,
        line_bytes: bytes(params.http_req_hdr_len),
        settings: params.h2_limit_settings,
        pings: params.h2_limit_pings,
        priorities: params.h2_limit_priorities,
        empty_data: params.h2_limit_empty_data,
        small_data: params.h2_limit_small_data,
        window_updates: params.h2_limit_window_updates,
        small_windows: params.h2_limit_small_windows,
        ignored: params.h2_limit_ignored,
        unread_bytes: bytes(params.h2_limit_unread),
    }
}

fn bytes(value: impl TryInto<u32>) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_9_announces_the_size_of_a_head() {
        let sizes = |compat, list: &str| {
            let mut params = Params::of(compat);
            params.set("http_req_size", "32k").unwrap();
            params.set("h2_max_header_list_size", list).unwrap();
            list_sizes(&params)
        };
        assert_eq!(list_sizes(&Params::of(Compat::V7_1)), (0x7fff_ffff, 0));
        assert_eq!(list_sizes(&Params::of(Compat::V9)), (32 << 10, 48 << 10));
        assert_eq!(sizes(Compat::V9, "64k"), (32 << 10, 64 << 10));
        assert_eq!(sizes(Compat::V9, "16k"), (32 << 10, 0));
        assert_eq!(sizes(Compat::V7_1, "16k"), (16 << 10, 0));
        assert_eq!(sizes(Compat::V7_1, "0b"), (32 << 10, 48 << 10));
    }
}
