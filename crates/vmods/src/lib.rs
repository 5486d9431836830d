// SPDX-License-Identifier: BSD-2-Clause
//! The VCL modules: those of Varnish 7.1's distribution and of its users, one file each. Their signatures are in
//! `signatures`; a test checks that each of them is implemented. No function blocks a runtime's thread: what would wait returns a future.

mod accept;
mod accept_language;
mod aclplus;
mod activedns;
mod args;
mod basicauth;
mod blob;
mod bodyaccess;
mod client;
mod cookie;
mod cookieplus;
mod crypto;
mod debug;
mod digest;
mod directors;
mod dynamic;
mod edgestash;
mod file;
mod files;
mod fileserver;
mod gathered;
mod geoip;
mod geoip2;
mod goto;
mod hashing;
mod header;
mod headerplus;
mod http;
mod json;
mod jwt;
mod kvstore;
mod local;
mod math;
mod netmapper;
mod pattern;
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
mod signatures;
mod standard;
mod statsd;
mod str;
mod synthbackend;
mod talk;
mod tcp;
mod udo;
mod unix;
mod urlplus;
mod utils;
mod uuid;
mod values;
mod var;
mod vsthrottle;
mod vtc;
mod wire;
mod xbody;
mod xkey;
mod ykey;

pub use signatures::MODULES;
use vrt::vmod::Vmod;

/// All modules, for `vrt::Env::vmods`.
pub static ALL: &[&Vmod] = &[
    &accept::VMOD,
    &accept_language::VMOD,
    &aclplus::VMOD,
    &activedns::VMOD,
    &basicauth::VMOD,
    &blob::VMOD,
    &bodyaccess::VMOD,
    &cookie::VMOD,
    &cookieplus::VMOD,
    &crypto::VMOD,
    &debug::VMOD,
    &digest::VMOD,
    &directors::VMOD,
    &dynamic::VMOD,
    &edgestash::VMOD,
    &file::VMOD,
    &fileserver::VMOD,
    &geoip::VMOD,
    &geoip2::VMOD,
    &goto::VMOD,
    &header::VMOD,
    &headerplus::VMOD,
    &http::VMOD,
    &json::VMOD,
    &jwt::VMOD,
    &kvstore::VMOD,
    &math::VMOD,
    &netmapper::VMOD,
    &proxy::VMOD,
    &purge::VMOD,
    &querysort::VMOD,
    &querystring::VMOD,
    &re::VMOD,
    &re2::VMOD,
    &redis::VMOD,
    &reqwest::VMOD,
    &rers::VMOD,
    &s3::VMOD,
    &saintmode::VMOD,
    &selector::VMOD,
    &statsd::VMOD,
    &standard::VMOD,
    &str::VMOD,
    &synthbackend::VMOD,
    &tcp::VMOD,
    &udo::VMOD,
    &unix::VMOD,
    &urlplus::VMOD,
    &utils::VMOD,
    &uuid::VMOD,
    &var::VMOD,
    &vsthrottle::VMOD,
    &vtc::VMOD,
    &xbody::VMOD,
    &xkey::VMOD,
    &ykey::VMOD,
];

#[cfg(test)]
mod tests;
