// SPDX-License-Identifier: BSD-2-Clause
//! vmod_netmapper(3) of libvmod-netmapper.

use tables::vclvars::Method;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

/// vmod_netmapper(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "netmapper",
    text: "Texts by address: a JSON file says which networks have which text, {\"TEXT\": [\"ADDRESS/BITS\", ...], ...}. The smallest \
           network that an address is in decides. An IPv4 address counts as such in each of its IPv6 forms: compatible, mapped, SIIT, \
           Teredo and 6to4",
    functions: &[
        Func::new(
            Void,
            "init",
            &[Arg::new(String, "label"), Arg::new(String, "file"), Arg::new(Int, "interval")],
            "Reads a file, which map() knows by the label. When it has changed it is read again, looked at once in so many seconds; one \
             that is wrong then changes nothing",
        )
        .only(Method::Init.set())
        .blocks(),
        Func::new(
            String,
            "map",
            &[Arg::new(String, "label"), Arg::new(String, "ip")],
            "The text of an address; unset when it is in no network, is no address, or there is no such label",
        ),
    ],
    objects: &[],
};
