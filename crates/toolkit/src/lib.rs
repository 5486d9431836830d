// SPDX-License-Identifier: BSD-2-Clause
//! The command-line kit of the programs beside the server: options and words, help and exit status, output. The worker
//! writes its lines for the manager by it, too.

pub mod args;
pub mod options;
pub mod print;
pub mod tool;
