// SPDX-License-Identifier: BSD-2-Clause
//! Listeners, streams, connectors and the PROXY protocol.
