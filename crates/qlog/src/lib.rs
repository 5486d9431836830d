// SPDX-License-Identifier: BSD-2-Clause
//! The part of the crate `qlog` that quinn-proto uses, with the same names and types: it writes the events of QUIC connections as JSON text
//! sequences (draft-ietf-quic-qlog-main-schema-04, RFC 7464). It reads nothing and has no other events.
//!
//! Cargo takes it instead of the crate of that name on crates.io, whose types for all of QUIC and HTTP/3 are derived for serde with seven more
//! packages: 3 % of a first build.

pub mod events;
mod json;
pub mod streamer;

/// The version of the schema that is written.
pub const QLOG_VERSION: &str = "0.3";

/// The head of a file: who looked at which connection, with which settings.
#[derive(Debug)]
pub struct TraceSeq {
    vantage_point: VantagePoint,
    title: Option<String>,
    description: Option<String>,
    configuration: Option<Configuration>,
}

impl TraceSeq {
    /// No user of this crate has fields that all events share.
    pub fn new(
        vantage_point: VantagePoint,
        title: Option<String>,
        description: Option<String>,
        configuration: Option<Configuration>,
        _common_fields: Option<std::convert::Infallible>,
    ) -> TraceSeq {
        TraceSeq { vantage_point, title, description, configuration }
    }

    fn write(&self, out: &mut String) {
        json::object(out, |trace| {
            trace.object("vantage_point", |point| {
                point.texts("name", self.vantage_point.name.as_deref());
                point.texts("type", Some(self.vantage_point.ty.name()));
                point.texts("flow", self.vantage_point.flow.as_ref().map(|flow| flow.name()));
            });
            trace.texts("title", self.title.as_deref());
            trace.texts("description", self.description.as_deref());
            if let Some(configuration) = &self.configuration {
                trace.object("configuration", |own| {
                    own.numbers("time_offset", configuration.time_offset);
                    own.lists("original_uris", configuration.original_uris.as_deref());
                });
            }
        });
    }
}

#[derive(Debug)]
pub struct VantagePoint {
    pub name: Option<String>,
    pub ty: VantagePointType,
    pub flow: Option<VantagePointType>,
}

#[derive(Clone, Copy, Debug)]
pub enum VantagePointType {
    Unknown,
}

impl VantagePointType {
    fn name(self) -> &'static str {
        match self {
            VantagePointType::Unknown => "unknown",
        }
    }
}

#[derive(Debug)]
pub struct Configuration {
    /// Milliseconds.
    pub time_offset: Option<f64>,
    pub original_uris: Option<Vec<String>>,
}
