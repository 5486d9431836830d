// SPDX-License-Identifier: BSD-2-Clause
//! The reply to `drain`: whether the node is on its way out of service, and the requests that it still has.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DrainState {
    pub is_on: bool,
    pub connections: u64,
    pub requests: u64,
}

impl DrainState {
    /// Members of the JSON reply, after its head.
    pub fn json(&self) -> String {
        let DrainState { is_on, connections, requests } = self;
        format!(",\n{{\"drain\": {is_on}, \"connections\": {connections}, \"requests\": {requests}}}")
    }
}

impl fmt::Display for DrainState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_on { "on" } else { "off" };
        write!(f, "Drain: {word}. Connections: {}. Requests in progress: {}.", self.connections, self.requests)
    }
}
