// SPDX-License-Identifier: BSD-2-Clause
//! One feature set for tests. Cargo builds a package with the features that the packages of a command ask for, so that
//! `cargo test -p X` and `cargo test --workspace` would each build their own `bitflags`, and with it `nix`, `base` and
//! nearly everything. As a dev-dependency of each crate this one asks for the union. It has no code, and no release has it.
