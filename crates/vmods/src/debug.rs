// SPDX-License-Identifier: BSD-2-Clause
//! vmod_debug: an empty module, so that VCL that imports it and doesn't use it loads.

vrt::vmod! {
    /// Varnish's own test module; empty here
    pub(crate) static VMOD = debug;
}
