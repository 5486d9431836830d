// SPDX-License-Identifier: BSD-2-Clause
//! Checks of the code base that are not tests of a crate: layers, licences.

fn main() {}
