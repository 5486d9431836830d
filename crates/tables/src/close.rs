// SPDX-License-Identifier: BSD-2-Clause
//! Why a session or backend connection ended: the word in SessClose records, the description in BackendClose records, and
//! the `sc_*` counters.

use crate::Compat;
use crate::counters::{Counter, Main};

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $text:literal $counter:ident $is_err:literal $description:literal;)*) => {
        /// The reason why a connection was closed.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum SessClose {
            $($(#[$doc])* $variant,)*
        }

        impl SessClose {
            /// Every reason, in the order of the counters.
            pub const ALL: &'static [SessClose] = &[$(SessClose::$variant),*];

            /// The word the log shows (`REM_CLOSE`, ...).
            pub const fn text(self) -> &'static str {
                match self { $(SessClose::$variant => $text,)* }
            }

            const fn description(self) -> &'static str {
                match self { $(SessClose::$variant => $description,)* }
            }

            /// True if this also counts as `MAIN.sess_closed_err`.
            pub const fn is_err(self) -> bool {
                match self { $(SessClose::$variant => $is_err,)* }
            }

            /// The counter of this reason.
            pub fn counter(self, main: &Main) -> &Counter {
                match self { $(SessClose::$variant => &main.$counter,)* }
            }
        }
    };
}

reasons! {
    /// The peer closed the connection.
    RemClose "REM_CLOSE" sc_rem_close false "Client Closed";
    /// The client asked for it (`Connection: close`).
    ReqClose "REQ_CLOSE" sc_req_close false "Client requested close";
    /// The client speaks HTTP/1.0 and did not ask to keep the connection.
    ReqHttp10 "REQ_HTTP10" sc_req_http10 true "Proto < HTTP/1.1";
    /// A request or response that breaks the protocol.
    RxBad "RX_BAD" sc_rx_bad true "Received bad req/resp";
    /// The request body could not be read.
    RxBody "RX_BODY" sc_rx_body true "Failure receiving req.body";
    /// Bytes that are no request at all.
    RxJunk "RX_JUNK" sc_rx_junk true "Received junk data";
    /// A head larger than allowed.
    RxOverflow "RX_OVERFLOW" sc_rx_overflow true "Received buffer overflow";
    /// Too slow in sending a head.
    RxTimeout "RX_TIMEOUT" sc_rx_timeout true "Receive timeout";
    /// No data arrived within `timeout_idle`.
    RxCloseIdle "RX_CLOSE_IDLE" sc_rx_close_idle false "timeout_idle reached";
    /// The end of a piped transaction.
    TxPipe "TX_PIPE" sc_tx_pipe false "Piped transaction";
    /// Writing to the connection failed.
    TxError "TX_ERROR" sc_tx_error true "Error transaction";
    /// The end of a body without framing.
    TxEof "TX_EOF" sc_tx_eof false "EOF transmission";
    /// The backend or VCL asked for it.
    RespClose "RESP_CLOSE" sc_resp_close false "Backend/VCL requested close";
    /// Some resource ran out.
    Overload "OVERLOAD" sc_overload true "Out of some resource";
    /// More pipes than `pipe_sess_max`.
    PipeOverflow "PIPE_OVERFLOW" sc_pipe_overflow true "Session pipe overflow";
    /// The object ended before the range that was announced.
    RangeShort "RANGE_SHORT" sc_range_short true "Insufficient data for range";
    /// HTTP/2 is not accepted here.
    ReqHttp20 "REQ_HTTP20" sc_req_http20 true "HTTP2 not accepted";
    VclFailure "VCL_FAILURE" sc_vcl_failure true "VCL failure";
    /// More streams reset soon after they began than `h2_rapid_reset_limit`.
    RapidReset "RAPID_RESET" sc_rapid_reset true "HTTP/2 rapid reset";
    /// All streams of an HTTP/2 session waited for their windows longer than `h2_window_timeout`.
    Bankrupt "BANKRUPT" sc_bankrupt true "HTTP/2 credit bankruptcy";
}

impl SessClose {
    /// The reason in a BackendClose record. `None`: the connection could be reused but for what it began with.
    pub const fn of_backend(reason: Option<SessClose>, compat: Compat) -> &'static str {
        match (reason, compat) {
            (Some(reason), Compat::V7_1) => reason.description(),
            (Some(reason), Compat::V9) => reason.text(),
            (None, Compat::V7_1) => "Not Closing",
            (None, Compat::V9) => "null",
        }
    }
}

impl std::fmt::Display for SessClose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}
