// SPDX-License-Identifier: BSD-2-Clause
//! Messages of the OpenTelemetry protocol, as far as traces need them (opentelemetry-proto 1.x: numbers and types of fields).

use transactions::attributes::AttributeValue;

use crate::protobuf::{Fields, ProtobufValue, WriteMessage, Writer};

/// The message `ExportTraceServiceRequest` of OTLP.
pub struct ExportRequest {
    /// One element: this server.
    pub resource_spans: Vec<ResourceSpans>,
}

impl WriteMessage for ExportRequest {
    fn write(&self, to: &mut Writer) {
        to.messages(1, &self.resource_spans);
    }
}

/// The collector's answer: the spans that it didn't take. All zero when all was taken.
#[derive(Debug, Default, PartialEq)]
pub struct ExportResponse {
    pub rejected_spans: i64,
    pub error_message: String,
}

impl ExportResponse {
    /// Reads the message `ExportTraceServiceResponse`; None if it isn't one.
    pub fn read(bytes: &[u8]) -> Option<ExportResponse> {
        let mut response = ExportResponse::default();
        for field in Fields::of(bytes) {
            if let (1, ProtobufValue::Bytes(partial_success)) = field? {
                response.read_partial_success(partial_success)?;
            }
        }
        Some(response)
    }

    fn read_partial_success(&mut self, bytes: &[u8]) -> Option<()> {
        for field in Fields::of(bytes) {
            match field? {
                (1, ProtobufValue::Number(number)) => self.rejected_spans = number.cast_signed(),
                (2, ProtobufValue::Bytes(text)) => self.error_message = String::from_utf8(text.to_vec()).ok()?,
                _ => {}
            }
        }
        Some(())
    }
}

pub struct ResourceSpans {
    pub resource: Resource,
    pub scope_spans: Vec<ScopeSpans>,
}

impl WriteMessage for ResourceSpans {
    fn write(&self, to: &mut Writer) {
        to.message(1, &self.resource);
        to.messages(2, &self.scope_spans);
    }
}

pub struct Resource {
    /// `service.name` and the like.
    pub attributes: Vec<KeyValue>,
}

impl WriteMessage for Resource {
    fn write(&self, to: &mut Writer) {
        to.messages(1, &self.attributes);
    }
}

pub struct ScopeSpans {
    pub scope: OtlpScope,
    pub spans: Vec<OtlpSpan>,
}

impl WriteMessage for ScopeSpans {
    fn write(&self, to: &mut Writer) {
        to.message(1, &self.scope);
        to.messages(2, &self.spans);
    }
}

pub struct OtlpScope {
    pub name: String,
    pub version: String,
}

impl WriteMessage for OtlpScope {
    fn write(&self, to: &mut Writer) {
        to.text(1, &self.name);
        to.text(2, &self.version);
    }
}

/// A step with a beginning and an end.
#[derive(Clone, Debug, Default)]
pub struct OtlpSpan {
    /// The number, 16 bytes.
    pub trace_id: Vec<u8>,
    /// The number, 8 bytes.
    pub span_id: Vec<u8>,
    /// 8 bytes, or none.
    pub parent_span_id: Vec<u8>,
    pub name: String,
    pub kind: SpanKind,
    pub start_time_unix_nano: u64,
    pub end_time_unix_nano: u64,
    pub attributes: Vec<KeyValue>,
    pub events: Vec<SpanEvent>,
    pub status: Option<SpanStatus>,
    /// The lowest bits are those of `traceparent`.
    pub flags: u32,
}

impl WriteMessage for OtlpSpan {
    fn write(&self, to: &mut Writer) {
        to.bytes(1, &self.trace_id);
        to.bytes(2, &self.span_id);
        to.bytes(4, &self.parent_span_id);
        to.text(5, &self.name);
        to.number(6, self.kind as u64);
        to.fixed64(7, self.start_time_unix_nano);
        to.fixed64(8, self.end_time_unix_nano);
        to.messages(9, &self.attributes);
        to.messages(11, &self.events);
        to.messages(15, self.status.as_slice());
        to.fixed32(16, self.flags);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpanKind {
    /// A step within a server.
    #[default]
    Internal = 1,
    /// A request that was answered.
    Server = 2,
    /// A request that was made.
    Client = 3,
}

#[derive(Clone, Debug)]
pub struct SpanEvent {
    pub time_unix_nano: u64,
    pub name: String,
    pub attributes: Vec<KeyValue>,
}

impl WriteMessage for SpanEvent {
    fn write(&self, to: &mut Writer) {
        to.fixed64(1, self.time_unix_nano);
        to.text(2, &self.name);
        to.messages(3, &self.attributes);
    }
}

#[derive(Clone, Debug)]
pub struct SpanStatus {
    pub message: String,
    /// The value 2: it failed.
    pub code: u32,
}

/// [`SpanStatus::code`] of what failed.
pub const STATUS_ERROR: u32 = 2;

impl WriteMessage for SpanStatus {
    fn write(&self, to: &mut Writer) {
        to.text(2, &self.message);
        to.number(3, self.code.into());
    }
}

#[derive(Clone, Debug)]
pub struct KeyValue {
    pub key: String,
    pub value: AnyValue,
}

impl WriteMessage for KeyValue {
    fn write(&self, to: &mut Writer) {
        to.text(1, &self.key);
        to.message(2, &self.value);
    }
}

#[derive(Clone, Debug)]
pub enum AnyValue {
    String(String),
    Bool(bool),
    Int(i64),
}

impl WriteMessage for AnyValue {
    // One of several fields is also written where it has its default.
    fn write(&self, to: &mut Writer) {
        match self {
            AnyValue::String(text) => to.bytes_always(1, text.as_bytes()),
            AnyValue::Bool(value) => to.number_always(2, (*value).into()),
            AnyValue::Int(number) => to.number_always(3, number.cast_unsigned()),
        }
    }
}

pub fn attribute(key: impl Into<String>, value: AttributeValue) -> KeyValue {
    let value = match value {
        AttributeValue::Text(text) => AnyValue::String(text),
        AttributeValue::Number(number) => AnyValue::Int(i64::try_from(number).unwrap_or(i64::MAX)),
        AttributeValue::Boolean(value) => AnyValue::Bool(value),
    };
    KeyValue { key: key.into(), value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::written;

    #[test]
    fn bytes_are_those_of_the_protocol() {
        // Tag 4 of type 2, tag 6 of type 0, tag 7 of type 1, tag 16 of type 5: as the schema's numbers make them.
        let span = OtlpSpan {
            parent_span_id: vec![1; 8],
            start_time_unix_nano: 1,
            flags: 1,
            name: "a".into(),
            ..OtlpSpan::default()
        };
        let expected: &[u8] = &[
            0x22, 8, 1, 1, 1, 1, 1, 1, 1, 1, 0x2a, 1, b'a', 0x30, 1, 0x39, 1, 0, 0, 0, 0, 0, 0, 0, 0x85, 0x01, 1, 0, 0,
            0,
        ];
        assert_eq!(written(&span), expected);
    }

    #[test]
    fn values_of_attributes_are_written_even_if_they_are_empty_or_zero() {
        let of = |value| written(&attribute("k", value));
        assert_eq!(of(AttributeValue::Text(String::new())), [0x0a, 1, b'k', 0x12, 2, 0x0a, 0]);
        assert_eq!(of(AttributeValue::Boolean(false)), [0x0a, 1, b'k', 0x12, 2, 0x10, 0]);
        assert_eq!(of(AttributeValue::Number(300)), [0x0a, 1, b'k', 0x12, 3, 0x18, 0xac, 0x02]);
    }

    #[test]
    fn refused_spans_are_read() {
        let answer = [0x0a, 8, 0x08, 0xac, 0x02, 0x12, 3, b'o', b'd', b'd'];
        let expected = ExportResponse { rejected_spans: 300, error_message: "odd".into() };
        assert_eq!(ExportResponse::read(&answer), Some(expected));
        assert_eq!(ExportResponse::read(&[]), Some(ExportResponse::default()));
        // Fields that a later release may add, of each type.
        let later = [0x18, 1, 0x21, 1, 2, 3, 4, 5, 6, 7, 8, 0x2a, 1, 0, 0x35, 1, 2, 3, 4];
        assert_eq!(ExportResponse::read(&later), Some(ExportResponse::default()));
        for bad in [&answer[..9], &[0x0a], &[0x0a, 2, 0x12, 1], &[0x0a, 3, 0x12, 1, 0xff], &[0x0b], &[0xff; 11]] {
            assert_eq!(ExportResponse::read(bad), None, "{bad:x?}");
        }
    }
}
