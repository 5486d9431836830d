// SPDX-License-Identifier: BSD-2-Clause
//! The transaction machine: sessions, requests, backend requests; meets every HTTP version at Transport.
