// SPDX-License-Identifier: BSD-2-Clause
//! The one binary: `lacquer serve|…`; started as `varnishd` it is that program.

fn main() {}
