// SPDX-License-Identifier: BSD-2-Clause
//! The VCL language: source, lexer, parser, types, lowering to bytecode, diagnostics. Knows no socket, clock or thread.
