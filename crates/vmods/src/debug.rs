// SPDX-License-Identifier: BSD-2-Clause
//! vmod_debug: an empty module, so that VCL that imports it and doesn't use it loads.

use vrt::vmod::Vmod;

/// vmod_debug
pub(crate) static VMOD: Vmod = Vmod { name: "debug", classes: &[], functions: &[] };
