// SPDX-License-Identifier: BSD-2-Clause
//! Every target is this file under another name; `crates/fuzz-targets` has their entry functions and seeds.

#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| fuzz_targets::run(env!("CARGO_BIN_NAME"), octets));
