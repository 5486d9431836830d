// SPDX-License-Identifier: BSD-2-Clause
//! vmod_debug: Varnish's module for its own tests, without a manual. It can be imported; none of its functions is built.

use tables::vmods::Module;

/// vmod_debug
pub(crate) const MODULE: Module = Module {
    name: "debug",
    text: "Varnish's own test module; empty here",
    objects: &[],
    functions: &[],
    left_out: &[],
};
