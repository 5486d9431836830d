// SPDX-License-Identifier: BSD-2-Clause
//! The modules of Varnish 7.1's distribution, one file each. Signatures are data in `tables::vmods`; a test checks that
//! each of them is implemented here. No function blocks a runtime's thread: what would wait returns a future.

mod accept;
mod accept_language;
mod args;
mod blob;
mod cookie;
mod debug;
mod directors;
mod proxy;
mod purge;
mod standard;
mod unix;
mod vtc;

use vrt::vmod::Vmod;

/// All modules, for `vrt::Env::vmods`.
pub static ALL: &[&Vmod] = &[
    &accept::VMOD,
    &accept_language::VMOD,
    &blob::VMOD,
    &cookie::VMOD,
    &debug::VMOD,
    &directors::VMOD,
    &proxy::VMOD,
    &purge::VMOD,
    &standard::VMOD,
    &unix::VMOD,
    &vtc::VMOD,
];

#[cfg(test)]
mod tests;
