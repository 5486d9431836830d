// SPDX-License-Identifier: BSD-2-Clause
//! vmod_geoip(3) of libvmod-geoip, whose files MaxMind no longer makes: read here from those of today.

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const ADDRESS: &[Arg] = &[Arg::pos(String)];

/// vmod_geoip(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "geoip",
    text: "The country of an address, by the first .mmdb file found in /usr/share/GeoIP or /var/lib/GeoIP; geoip2 tells more",
    objects: &[],
    functions: &[
        Func::new(String, "country_code", ADDRESS, "Two letters of the address's country, or Unknown").blocks(),
        Func::new(String, "country_name", ADDRESS, "The English name of the address's country, or Unknown").blocks(),
    ],
};
