// SPDX-License-Identifier: BSD-2-Clause
//! The VCL modules: those of Varnish 7.1's distribution and of its users, one file each, which declares it by
//! `vrt::vmod!`: signatures, texts and bodies, checked against each other by the compiler. No function blocks a runtime's
//! thread: what would wait returns a future. Those that bring cryptography are in `vmods-crypto`; helpers in `support`.

mod accept;
mod accept_language;
mod aclplus;
mod activedns;
mod blob;
mod bodyaccess;
mod brotli;
mod cfg;
mod cookie;
mod cookieplus;
mod debug;
mod directors;
mod dynamic;
mod edgestash;
mod file;
mod fileserver;
mod geoip;
mod geoip2;
mod goto;
mod h2;
mod header;
mod headerplus;
mod http;
mod json;
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
mod slicer;
mod standard;
mod statsd;
mod str;
mod support;
mod synthbackend;
mod tags;
mod tcp;
mod tls;
mod udo;
mod unix;
mod urlplus;
mod utils;
mod var;
mod vsthrottle;
mod vtc;
mod xbody;
mod xkey;
mod ykey;

vmod_support::modules! {
    accept accept_language aclplus activedns blob bodyaccess brotli cfg cookie cookieplus debug
    directors dynamic edgestash file fileserver geoip geoip2 goto h2 header headerplus http json kvstore math
    netmapper proxy purge querysort querystring re re2 redis reqwest rers s3 saintmode selector slicer
    statsd standard str synthbackend tags tcp tls udo unix urlplus utils var vsthrottle vtc xbody xkey ykey
}

#[cfg(test)]
mod tests;
