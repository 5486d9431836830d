// SPDX-License-Identifier: BSD-2-Clause
//! The data of events of QUIC (draft-ietf-quic-qlog-quic-events-03).

use crate::json::Object;

/// The members that changed. Times are seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricsUpdated {
    pub min_rtt: Option<f32>,
    pub smoothed_rtt: Option<f32>,
    pub latest_rtt: Option<f32>,
    pub rtt_variance: Option<f32>,
    pub pto_count: Option<u16>,
    pub congestion_window: Option<u64>,
    pub bytes_in_flight: Option<u64>,
    pub ssthresh: Option<u64>,
    pub packets_in_flight: Option<u64>,
    pub pacing_rate: Option<u64>,
}

impl MetricsUpdated {
    pub(super) fn write(&self, data: &mut Object<'_>) {
        data.numbers("min_rtt", self.min_rtt);
        data.numbers("smoothed_rtt", self.smoothed_rtt);
        data.numbers("latest_rtt", self.latest_rtt);
        data.numbers("rtt_variance", self.rtt_variance);
        data.numbers("pto_count", self.pto_count);
        data.numbers("congestion_window", self.congestion_window);
        data.numbers("bytes_in_flight", self.bytes_in_flight);
        data.numbers("ssthresh", self.ssthresh);
        data.numbers("packets_in_flight", self.packets_in_flight);
        data.numbers("pacing_rate", self.pacing_rate);
    }
}

#[derive(Debug)]
pub struct PacketLost {
    pub header: Option<PacketHeader>,
    /// No user of this crate names frames.
    pub frames: Option<std::convert::Infallible>,
    pub trigger: Option<PacketLostTrigger>,
}

impl PacketLost {
    pub(super) fn write(&self, data: &mut Object<'_>) {
        if let Some(header) = &self.header {
            header.write(data);
        }
        data.texts("trigger", self.trigger.map(PacketLostTrigger::name));
    }
}

#[derive(Clone, Copy, Debug)]
pub enum PacketLostTrigger {
    ReorderingThreshold,
    TimeThreshold,
}

impl PacketLostTrigger {
    fn name(self) -> &'static str {
        match self {
            PacketLostTrigger::ReorderingThreshold => "reordering_threshold",
            PacketLostTrigger::TimeThreshold => "time_threshold",
        }
    }
}

#[derive(Debug, Default)]
pub struct PacketReceived {
    pub header: PacketHeader,
}

#[derive(Debug, Default)]
pub struct PacketSent {
    pub header: PacketHeader,
}

#[derive(Debug, Default)]
pub struct PacketHeader {
    pub packet_type: PacketType,
    pub packet_number: Option<u64>,
    pub length: Option<u16>,
}

impl PacketHeader {
    /// Adds the member `header`.
    pub(super) fn write(&self, data: &mut Object<'_>) {
        data.object("header", |header| {
            header.texts("packet_type", Some(self.packet_type.name()));
            header.numbers("packet_number", self.packet_number);
            header.numbers("length", self.length);
        });
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub enum PacketType {
    #[default]
    Initial,
    Handshake,
    ZeroRtt,
    OneRtt,
}

impl PacketType {
    fn name(self) -> &'static str {
        match self {
            PacketType::Initial => "initial",
            PacketType::Handshake => "handshake",
            PacketType::ZeroRtt => "0RTT",
            PacketType::OneRtt => "1RTT",
        }
    }
}
