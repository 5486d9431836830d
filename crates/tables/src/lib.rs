// SPDX-License-Identifier: BSD-2-Clause
//! Things that are declared once: the releases to be compatible with, counters, log tags, CLI commands, close reasons, kinds of stores, VCL variables and subroutines, vmod signatures.

pub mod choices;
pub mod cli_cmds;
pub mod close;
pub mod compat;
pub mod counters;
pub mod dialects;
pub mod json;
pub mod no_hit;
pub mod origin_proto;
pub mod proxy_error;
pub mod stores;
pub mod tag_numbers;
pub mod tags;
pub mod vclsubs;
pub mod vcltext;
pub mod vclvars;
pub mod vmods;

pub use close::SessClose;
pub use compat::Compat;
pub use tags::Tag;
