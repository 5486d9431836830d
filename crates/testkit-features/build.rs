// SPDX-License-Identifier: BSD-2-Clause
//! Without a build script Cargo doesn't look at build-dependencies.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
