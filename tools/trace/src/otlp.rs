// SPDX-License-Identifier: BSD-2-Clause
//! Messages of the OpenTelemetry protocol, as far as traces need them (opentelemetry-proto 1.x: numbers and types of fields).

use prost::{Message, Oneof};
use transactions::attributes::AttributeValue;

/// The message `ExportTraceServiceRequest` of OTLP.
#[derive(Clone, PartialEq, Message)]
pub struct ExportRequest {
    /// One element: this server.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// The collector's answer: the spans that it didn't take.
#[derive(Clone, PartialEq, Message)]
pub struct ExportResponse {
    /// Absent when all was taken.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// The part of an [`ExportResponse`] that tells of refused spans.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    #[prost(string, tag = "2")]
    pub error_message: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// `service.name` and the like.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<OtlpScope>,
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<OtlpSpan>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OtlpScope {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A step with a beginning and an end.
#[derive(Clone, PartialEq, Message)]
pub struct OtlpSpan {
    /// The number, 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// The number, 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// 8 bytes, or none.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    /// The number of a [`SpanKind`].
    #[prost(enumeration = "SpanKind", tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<SpanEvent>,
    #[prost(message, optional, tag = "15")]
    pub status: Option<SpanStatus>,
    /// The lowest bits are those of `traceparent`.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum SpanKind {
    Unspecified = 0,
    /// A step within a server.
    Internal = 1,
    /// A request that was answered.
    Server = 2,
    /// A request that was made.
    Client = 3,
}

#[derive(Clone, PartialEq, Message)]
pub struct SpanEvent {
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SpanStatus {
    #[prost(string, tag = "2")]
    pub message: String,
    /// The value 2: it failed.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

/// [`SpanStatus::code`] of what failed.
pub const STATUS_ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    #[prost(oneof = "AnyValueKind", tags = "1, 2, 3")]
    pub value: Option<AnyValueKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum AnyValueKind {
    #[prost(string, tag = "1")]
    String(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
}

pub fn attribute(key: impl Into<String>, value: AttributeValue) -> KeyValue {
    let value = match value {
        AttributeValue::Text(text) => AnyValueKind::String(text),
        AttributeValue::Number(number) => AnyValueKind::Int(i64::try_from(number).unwrap_or(i64::MAX)),
        AttributeValue::Boolean(value) => AnyValueKind::Bool(value),
    };
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_protocol() {
        // Tag 4 of type 2, tag 7 of type 1, tag 16 of type 5: as the schema's numbers make them.
        let span = OtlpSpan {
            parent_span_id: vec![1; 8],
            start_time_unix_nano: 1,
            flags: 1,
            name: "a".into(),
            ..OtlpSpan::default()
        };
        let bytes = span.encode_to_vec();
        let expected: &[u8] =
            &[0x22, 8, 1, 1, 1, 1, 1, 1, 1, 1, 0x2a, 1, b'a', 0x39, 1, 0, 0, 0, 0, 0, 0, 0, 0x85, 0x01, 1, 0, 0, 0];
        assert_eq!(bytes, expected);
    }
}
