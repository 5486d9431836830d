// SPDX-License-Identifier: BSD-2-Clause
//! Stores: where bodies and stored heads live, accounted to the byte; object writer and reader.
