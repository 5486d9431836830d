// SPDX-License-Identifier: BSD-2-Clause
//! What is declared once: parameters, counters, log tags, CLI commands, close reasons, VCL variables, vmod signatures.

pub mod vclvars;
pub mod vmods;
