// SPDX-License-Identifier: BSD-2-Clause
//! The worker process: runtimes, listeners, VCL table, housekeeping, its side of the CLI.
