// SPDX-License-Identifier: BSD-2-Clause
//! ESI: tokenizer to instructions, resumable over chunks.
