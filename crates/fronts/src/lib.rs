// SPDX-License-Identifier: BSD-2-Clause
//! Front ends: one per HTTP version, codec + net + engine::Transport.
