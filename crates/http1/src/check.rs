// SPDX-License-Identifier: BSD-2-Clause
//! What no cache should forward.
