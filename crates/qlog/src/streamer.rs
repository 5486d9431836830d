// SPDX-License-Identifier: BSD-2-Clause
//! Writes a file as its events come.

use std::io::{self, Write};
use std::time::Instant;

use crate::events::{Event, EventImportance};
use crate::{TraceSeq, json};

/// Begins each text of a sequence (RFC 7464).
const RECORD_SEPARATOR: char = '\x1e';

pub struct QlogStreamer {
    qlog_version: String,
    title: Option<String>,
    description: Option<String>,
    summary: Option<String>,
    start_time: Instant,
    trace: TraceSeq,
    writer: Box<dyn Write + Send + Sync>,
    /// The last record; its memory is for the next one.
    record: String,
}

impl QlogStreamer {
    #[expect(clippy::too_many_arguments, reason = "quinn-proto calls it")]
    pub fn new(
        qlog_version: String,
        title: Option<String>,
        description: Option<String>,
        summary: Option<String>,
        start_time: Instant,
        trace: TraceSeq,
        _log_level: EventImportance,
        writer: Box<dyn Write + Send + Sync>,
    ) -> QlogStreamer {
        let record = String::new();
        QlogStreamer { qlog_version, title, description, summary, start_time, trace, writer, record }
    }

    /// Writes the head, which comes before events.
    ///
    /// # Errors
    /// That of the writer.
    pub fn start_log(&mut self) -> io::Result<()> {
        self.begin();
        json::object(&mut self.record, |head| {
            head.texts("qlog_version", Some(&self.qlog_version));
            head.texts("qlog_format", Some("JSON-SEQ"));
            head.texts("title", self.title.as_deref());
            head.texts("description", self.description.as_deref());
            head.texts("summary", self.summary.as_deref());
            head.value("trace", |out| self.trace.write(out));
        });
        self.end()
    }

    /// Writes an event that happened at `now`.
    ///
    /// # Errors
    /// That of the writer.
    pub fn add_event_with_instant(&mut self, mut event: Event, now: Instant) -> io::Result<()> {
        event.time = now.saturating_duration_since(self.start_time).as_secs_f32() * 1000.0;
        self.begin();
        event.write(&mut self.record);
        self.end()
    }

    fn begin(&mut self) {
        self.record.clear();
        self.record.push(RECORD_SEPARATOR);
    }

    fn end(&mut self) -> io::Result<()> {
        self.record.push('\n');
        self.writer.write_all(self.record.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::events::EventData;
    use crate::events::quic::{
        MetricsUpdated, PacketHeader, PacketLost, PacketLostTrigger, PacketReceived, PacketSent, PacketType,
    };
    use crate::{Configuration, QLOG_VERSION, VantagePoint, VantagePointType};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(octets)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn header(packet_type: PacketType, packet_number: u64, length: Option<u16>) -> PacketHeader {
        PacketHeader { packet_type, packet_number: Some(packet_number), length }
    }

    /// The records of the crate on crates.io, version 0.15.2, for the same events.
    const EXPECTED: &str = concat!(
        "\x1e",
        r#"{"qlog_version":"0.3","qlog_format":"JSON-SEQ","trace":{"vantage_point":{"type":"unknown"},"configuration":{"time_offset":0.0}}}"#,
        "\n\x1e",
        r#"{"time":0.0,"name":"transport:packet_received","data":{"header":{"packet_type":"initial","packet_number":0}},"group_id":"d8cb174d885946e9"}"#,
        "\n\x1e",
        r#"{"time":0.0,"name":"recovery:metrics_updated","data":{"min_rtt":0.333,"smoothed_rtt":0.333,"latest_rtt":0.333,"rtt_variance":0.1665,"pto_count":0,"congestion_window":12000,"bytes_in_flight":0,"ssthresh":18446744073709551615,"packets_in_flight":0},"group_id":"d8cb174d885946e9"}"#,
        "\n\x1e",
        r#"{"time":1.8202059,"name":"transport:packet_sent","data":{"header":{"packet_type":"handshake","packet_number":0,"length":1057}},"group_id":"d8cb174d885946e9"}"#,
        "\n\x1e",
        r#"{"time":69.12317,"name":"recovery:packet_lost","data":{"header":{"packet_type":"1RTT","packet_number":12,"length":140},"trigger":"reordering_threshold"},"group_id":"d8cb174d885946e9"}"#,
        "\n"
    );

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a time to count from")]
    fn records_are_those_of_the_published_crate() {
        let (written, start) = (Written::default(), Instant::now());
        let point = VantagePoint { name: None, ty: VantagePointType::Unknown, flow: None };
        let configuration = Configuration { time_offset: Some(0.0), original_uris: None };
        let trace = TraceSeq::new(point, None, None, Some(configuration), None);
        let writer = Box::new(written.clone());
        let version = QLOG_VERSION.to_owned();
        let mut log = QlogStreamer::new(version, None, None, None, start, trace, EventImportance::Core, writer);
        log.start_log().unwrap();
        let metrics = MetricsUpdated {
            min_rtt: Some(0.333),
            smoothed_rtt: Some(0.333),
            latest_rtt: Some(0.333),
            rtt_variance: Some(0.1665),
            pto_count: Some(0),
            congestion_window: Some(12000),
            bytes_in_flight: Some(0),
            ssthresh: Some(u64::MAX),
            packets_in_flight: Some(0),
            pacing_rate: None,
        };
        let sent = PacketSent { header: header(PacketType::Handshake, 0, Some(1057)) };
        let lost = PacketLost {
            header: Some(header(PacketType::OneRtt, 12, Some(140))),
            frames: None,
            trigger: Some(PacketLostTrigger::ReorderingThreshold),
        };
        for (nanos, data) in [
            (0, EventData::PacketReceived(PacketReceived { header: header(PacketType::Initial, 0, None) })),
            (0, EventData::MetricsUpdated(metrics)),
            (1_820_206, EventData::PacketSent(sent)),
            (69_123_170, EventData::PacketLost(lost)),
        ] {
            let mut event = Event::with_time(0.0, data);
            event.group_id = Some("d8cb174d885946e9".to_owned());
            log.add_event_with_instant(event, start + Duration::from_nanos(nanos)).unwrap();
        }
        assert_eq!(String::from_utf8(written.0.lock().unwrap().clone()).unwrap(), EXPECTED);
    }
}
