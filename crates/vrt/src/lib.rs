// SPDX-License-Identifier: BSD-2-Clause
//! Runs VCL bytecode: values, conversions, regexes, ACLs, the machine, the vmod interface.
