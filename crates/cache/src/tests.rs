// SPDX-License-Identifier: BSD-2-Clause
//! Tests of the cache as a whole.
