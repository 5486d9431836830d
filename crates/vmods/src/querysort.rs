// SPDX-License-Identifier: BSD-2-Clause
//! The module querysort: what std.querysort has been since 4.0, under its older name.

use vrt::vmod::Vmod;

/// The module querysort
pub(crate) static VMOD: Vmod =
    Vmod { name: "querysort", classes: &[], functions: &[("querysort", crate::standard::querysort)] };
