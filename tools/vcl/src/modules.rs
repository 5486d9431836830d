// SPDX-License-Identifier: BSD-2-Clause
//! The modules that a VCL may import, as the program that this tool is part of has them: told once, when it begins.

use std::sync::OnceLock;

use vcl::Modules;

static MODULES: OnceLock<Modules> = OnceLock::new();

/// These are they. The first call counts.
pub(crate) fn set(modules: Modules) {
    let _ = MODULES.set(modules);
}

/// All of them.
pub(crate) fn all() -> Modules {
    *MODULES.get_or_init(unset)
}

#[cfg(not(test))]
fn unset() -> Modules {
    Modules::default()
}

/// Tests call what lies below `main`.
#[cfg(test)]
fn unset() -> Modules {
    vmods::MODULES
}
