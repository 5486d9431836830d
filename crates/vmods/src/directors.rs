// SPDX-License-Identifier: BSD-2-Clause
//! vmod_directors(3).
