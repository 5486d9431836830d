// SPDX-License-Identifier: BSD-2-Clause
//! The VCL modules: those of Varnish 7.1's distribution and of its users, one file each, which declares it by
//! `vrt::vmod!`: signatures, texts and bodies, checked against each other by the compiler. No function blocks a runtime's thread: what would wait returns a future.

mod accept;
mod accept_language;
mod aclplus;
mod activedns;
mod basicauth;
mod blob;
mod bodyaccess;
mod cookie;
mod cookieplus;
mod crypto;
mod debug;
mod digest;
mod directors;
mod dynamic;
mod edgestash;
mod file;
mod fileserver;
mod geoip;
mod geoip2;
mod goto;
mod header;
mod headerplus;
mod http;
mod json;
mod jwt;
mod kvstore;
mod math;
mod netmapper;
mod proxy;
mod purge;
mod querysort;
mod querystring;
mod re;
mod re2;
mod redis;
mod reqwest;
mod rers;
mod s3;
mod saintmode;
mod selector;
mod standard;
mod statsd;
mod str;
mod support;
mod synthbackend;
mod tcp;
mod udo;
mod unix;
mod urlplus;
mod utils;
mod uuid;
mod var;
mod vsthrottle;
mod vtc;
mod xbody;
mod xkey;
mod ykey;

use tables::vmods::Modules;
use vrt::vmod::Vmod;

macro_rules! modules {
    ($($module:ident)*) => {
        /// All modules, in order of name: what runs, for `vrt::Env::vmods`.
        pub static ALL: &[&Vmod] = &[$(&$module::VMOD),*];

        /// Their signatures, for `vcl::Options`.
        pub static MODULES: Modules = Modules(&[$(&$module::VMOD.signature),*]);
    };
}

modules! {
    accept accept_language aclplus activedns basicauth blob bodyaccess cookie cookieplus crypto debug digest
    directors dynamic edgestash file fileserver geoip geoip2 goto header headerplus http json jwt kvstore math
    netmapper proxy purge querysort querystring re re2 redis reqwest rers s3 saintmode selector statsd
    standard str synthbackend tcp udo unix urlplus utils uuid var vsthrottle vtc xbody xkey ykey
}

#[cfg(test)]
mod tests;
