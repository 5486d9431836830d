// SPDX-License-Identifier: BSD-2-Clause
//! Where packets come in: threads for datagrams, tasks for connections.

pub mod stream;
pub mod udp;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::repeater::Repeater;
use crate::shard::StatsdShard;

pub type SharedShard = Arc<Mutex<StatsdShard>>;

/// Repeater of packets, if there is one; a reload changes it.
pub type SharedRepeater = Arc<Mutex<Option<Arc<Repeater>>>>;
