// SPDX-License-Identifier: BSD-2-Clause
//! The management protocol: framing, quoting, challenge; both ends.
