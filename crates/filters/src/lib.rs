// SPDX-License-Identifier: BSD-2-Clause
//! Fetch and deliver filter chains: gzip, gunzip, ranges.
