// SPDX-License-Identifier: BSD-2-Clause
//! The modules that a VCL may import. The program that contains this tool sets them once, when it starts.

use std::sync::OnceLock;

use vcl::Modules;

static MODULES: OnceLock<Modules> = OnceLock::new();

/// Sets the modules. Only the first call has an effect.
pub(crate) fn set(modules: Modules) {
    let _ = MODULES.set(modules);
}

pub(crate) fn all() -> Modules {
    *MODULES.get_or_init(unset)
}

#[cfg(not(test))]
fn unset() -> Modules {
    Modules::default()
}

/// Tests don't call `main`, so they need a default.
#[cfg(test)]
fn unset() -> Modules {
    vmods::MODULES
}
