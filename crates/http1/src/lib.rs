// SPDX-License-Identifier: BSD-2-Clause
//! The HTTP/1 codec: heads and body framing, both directions. Bytes and events in, values out.
