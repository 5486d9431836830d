// SPDX-License-Identifier: BSD-2-Clause
//! Shared memory in varnish-7.1's formats: segment index (VSM), counters (VSC), log ring (VSL).
