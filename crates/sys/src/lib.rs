// SPDX-License-Identifier: BSD-2-Clause
//! Operating-system calls as safe types: sockets, descriptor passing, users, limits, memory maps, signals.
