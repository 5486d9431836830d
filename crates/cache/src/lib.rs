// SPDX-License-Identifier: BSD-2-Clause
//! The cache core: digest, objhead, objcore, boc, lookup, waitinglist, vary, expiry, bans, purge.
