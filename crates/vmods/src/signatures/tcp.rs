// SPDX-License-Identifier: BSD-2-Clause
//! vmod_tcp(3) of varnish-modules.

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

/// vmod_tcp(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "tcp",
    text: "The client's TCP connection; on the client side only",
    objects: &[],
    functions: &[
        Func::new(
            Int,
            "congestion_algorithm",
            &[Arg::new(String, "algorithm")],
            "Chooses the congestion control algorithm: 0, or -1 when the kernel refuses",
        ),
        Func::new(Void, "dump_info", &[], "Writes what the kernel knows of the connection to the log"),
        Func::new(Real, "get_estimated_rtt", &[], "The round-trip time in whole milliseconds; 0 when it isn't known"),
        Func::new(
            Void,
            "set_socket_pace",
            &[Arg::pos(Int)],
            "Limits the speed of sending, in KB/s (needs the fq scheduler)",
        ),
    ],
};
