// SPDX-License-Identifier: BSD-2-Clause
//! VCL for tests of modules, without an engine.

mod world;

pub use world::{Signatures, TestCtx, TestModules, VclWorld};
