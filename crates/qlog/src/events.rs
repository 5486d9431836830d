// SPDX-License-Identifier: BSD-2-Clause
//! One event with its time and its data.

pub mod quic;

use crate::json;
use quic::{MetricsUpdated, PacketLost, PacketReceived, PacketSent};

/// The events that a file has: those up to this importance. All that this crate knows are of the highest one.
#[derive(Clone, Copy, Debug)]
pub enum EventImportance {
    Core,
}

#[derive(Debug)]
pub struct Event {
    /// Milliseconds since the file began.
    pub(crate) time: f32,
    data: EventData,
    /// The connection's number.
    pub group_id: Option<String>,
}

#[derive(Debug)]
pub enum EventData {
    MetricsUpdated(MetricsUpdated),
    PacketLost(PacketLost),
    PacketReceived(PacketReceived),
    PacketSent(PacketSent),
}

impl Event {
    pub fn with_time(time: f32, data: EventData) -> Event {
        Event { time, data, group_id: None }
    }

    pub(crate) fn write(&self, out: &mut String) {
        json::object(out, |event| {
            event.numbers("time", Some(self.time));
            event.texts("name", Some(self.data.name()));
            event.object("data", |data| self.data.write(data));
            event.texts("group_id", self.group_id.as_deref());
        });
    }
}

impl EventData {
    fn name(&self) -> &'static str {
        match self {
            EventData::MetricsUpdated(_) => "recovery:metrics_updated",
            EventData::PacketLost(_) => "recovery:packet_lost",
            EventData::PacketReceived(_) => "transport:packet_received",
            EventData::PacketSent(_) => "transport:packet_sent",
        }
    }

    fn write(&self, data: &mut json::Object<'_>) {
        match self {
            EventData::MetricsUpdated(metrics) => metrics.write(data),
            EventData::PacketLost(lost) => lost.write(data),
            EventData::PacketReceived(received) => received.header.write(data),
            EventData::PacketSent(sent) => sent.header.write(data),
        }
    }
}
