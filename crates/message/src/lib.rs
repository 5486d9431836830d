// SPDX-License-Identifier: BSD-2-Clause
//! HTTP messages as data: ordered, case-keeping header lists; dates, Cache-Control, ranges, conditionals, Vary, freshness.
