// SPDX-License-Identifier: BSD-2-Clause
//! vmod_statsd(3) of libvmod-statsd.

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const NAME: Arg = Arg::pos(String);
const VALUE: &[Arg] = &[NAME, Arg::pos(Int)];

/// vmod_statsd(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "statsd",
    text: "Metrics to a statsd, by UDP (or to a Unix datagram socket). Nothing here waits for it or fails because of it",
    objects: &[],
    functions: &[
        Func::new(
            Void,
            "server",
            &[NAME, Arg::pos(String)],
            "Where the statsd is: host (or a path) and port; localhost and 8125 at first. For vcl_init",
        )
        .waits(),
        Func::new(Void, "prefix", &[NAME], "What comes before each name. For vcl_init"),
        Func::new(Void, "suffix", &[NAME], "What comes after each name. For vcl_init"),
        Func::new(Void, "incr", &[NAME], "Counts one"),
        Func::new(Void, "gauge", VALUE, "Sets a gauge"),
        Func::new(Void, "timing", VALUE, "One duration, in milliseconds"),
        Func::new(Void, "counter", VALUE, "Counts so many"),
    ],
};
