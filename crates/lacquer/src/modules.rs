// SPDX-License-Identifier: BSD-2-Clause
//! The VCL modules of this program: those of all crates that have some, in one list.

use tables::vmods::{Module, Modules};
use vrt::vmod::Vmod;

/// The modules that run, in order of name.
pub static ALL: &[&Vmod] = &merged(vmods::ALL, vmods_crypto::ALL);

/// Their signatures, in order of name.
pub static MODULES: Modules = Modules(&signatures(&merged(vmods::ALL, vmods_crypto::ALL)));

const COUNT: usize = vmods::ALL.len() + vmods_crypto::ALL.len();

/// Both lists are in order of name, and so is what comes of them.
const fn merged(one: &[&'static Vmod], other: &[&'static Vmod]) -> [&'static Vmod; COUNT] {
    let mut all = [one[0]; COUNT];
    let (mut i, mut j) = (0, 0);
    while i + j < COUNT {
        if j == other.len() || (i < one.len() && is_before(one[i].signature.name, other[j].signature.name)) {
            all[i + j] = one[i];
            i += 1;
        } else {
            all[i + j] = other[j];
            j += 1;
        }
    }
    all
}

const fn signatures(all: &[&'static Vmod; COUNT]) -> [&'static Module; COUNT] {
    let mut signatures = [&all[0].signature; COUNT];
    let mut i = 0;
    while i < COUNT {
        signatures[i] = &all[i].signature;
        i += 1;
    }
    signatures
}

/// `<` of texts, which the compiler can't ask for in a constant.
const fn is_before(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] != b[i] {
            return a[i] < b[i];
        }
        i += 1;
    }
    a.len() < b.len()
}

#[cfg(test)]
mod tests;
