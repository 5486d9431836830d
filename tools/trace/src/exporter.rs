// SPDX-License-Identifier: BSD-2-Clause
//! Spans to a collector, by a thread of its own: whoever reads the log never waits for it. Spans that find no room, or no collector, are
//! counted and gone.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prost::Message as _;
use tls::origin::TlsOrigin;
use tls::roots::Roots;
use tls::verify::Verify;
use toolkit::print;
use transactions::attributes::AttributeValue;
use webclient::{ClearText, GrpcCall, GrpcChannel, GrpcError, WebLink, WebTarget, connect, in_words, talk};

use crate::otlp::{ExportRequest, ExportResponse, OtlpScope, OtlpSpan, Resource, ResourceSpans, ScopeSpans, attribute};

const QUEUE: usize = 4096;
/// Spans of one export.
const BATCH: usize = 512;
/// A batch isn't kept waiting longer.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// An export takes no longer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Number of times that a batch is sent that a collector may take later.
const TRIES: u32 = 3;
/// Behind the first try; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Between two lines about the same trouble.
const COMPLAINTS: Duration = Duration::from_secs(60);
const HTTP_PATH: &str = "/v1/traces";
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportProtocol {
    Http,
    Grpc,
}

/// The collector that gets spans, and the name that they are sent under.
#[derive(Clone, Debug)]
pub struct Destination {
    pub target: WebTarget,
    pub protocol: ExportProtocol,
    pub fields: Vec<(String, String)>,
    /// Certificates in PEM to be trusted instead of the system's.
    pub trusted: Option<Vec<u8>>,
    /// `service.name`, and further attributes.
    pub resource: Vec<(String, String)>,
}

impl Destination {
    /// Takes an address apart; without a path it is OTLP's own.
    ///
    /// # Errors
    /// Nobody can be asked there.
    pub fn parse_target(url: &str, protocol: ExportProtocol) -> Result<WebTarget, String> {
        let mut target = WebTarget::parse(url, ClearText::Anywhere)?;
        match protocol {
            ExportProtocol::Http if target.path == "/" => target.path = HTTP_PATH.to_owned(),
            ExportProtocol::Grpc if target.path != "/" => return Err("with gRPC there is no path in it".to_owned()),
            ExportProtocol::Http | ExportProtocol::Grpc => {}
        }
        Ok(target)
    }
}

#[derive(Debug)]
pub struct Exporter {
    queue: Option<SyncSender<Vec<OtlpSpan>>>,
    lost: u64,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Begins.
    ///
    /// # Errors
    /// Certificates can't be read, or no thread can be had.
    pub fn start(to: Destination) -> Result<Exporter, String> {
        let client = tls_client(&to)?;
        let (queue, spans) = sync_channel(QUEUE);
        let mut work = Work { to, client, channel: None, complained: None, lost: 0 };
        let thread = std::thread::Builder::new().name("exporter".into()).spawn(move || work.run(&spans));
        let thread = thread.map_err(|error| error.to_string())?;
        Ok(Exporter { queue: Some(queue), lost: 0, thread: Some(thread) })
    }

    pub fn send(&mut self, spans: Vec<OtlpSpan>) {
        let count = spans.len() as u64;
        let Some(queue) = &self.queue else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = queue.try_send(spans) {
            self.lost += count;
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.queue.take());
        let _ = self.thread.take().map(JoinHandle::join);
        if self.lost > 0 {
            print::err(format_args!("{} spans found no room and were lost\n", self.lost));
        }
    }
}

fn tls_client(to: &Destination) -> Result<Arc<tls::TlsClient>, String> {
    let roots = match &to.trusted {
        Some(pem) => Roots::from_pem(pem).map_err(|error| error.to_string())?,
        None if to.target.is_tls => Roots::system(),
        None => Roots::none(),
    };
    let verify = Verify::ChainAndName;
    let origin = TlsOrigin { name: String::new(), sni: true, verify, roots, revoked: None, certificate: None };
    match to.protocol {
        ExportProtocol::Http => origin.client(1),
        ExportProtocol::Grpc => origin.client_offering(&["h2"], 1),
    }
}

struct Work {
    to: Destination,
    client: Arc<tls::TlsClient>,
    /// The connection that the last call of gRPC has left open.
    channel: Option<GrpcChannel<WebLink>>,
    complained: Option<Instant>,
    lost: u64,
}

/// The reason why an export failed; with it, whether it may succeed later.
struct Failure {
    text: String,
    is_passing: bool,
}

fn told(error: GrpcError) -> Failure {
    Failure { text: error.to_string(), is_passing: error.is_passing() }
}

impl Work {
    fn run(&mut self, spans: &Receiver<Vec<OtlpSpan>>) {
        let mut batch = Vec::new();
        loop {
            let is_over = fill(&mut batch, spans);
            if !batch.is_empty() {
                self.export(std::mem::take(&mut batch), is_over);
            }
            if is_over {
                break;
            }
        }
        if self.lost > 0 {
            print::err(format_args!("{} spans didn't reach {}\n", self.lost, self.to.target.authority));
        }
    }

    fn export(&mut self, spans: Vec<OtlpSpan>, is_over: bool) {
        let count = spans.len() as u64;
        let bytes = self.request(spans).encode_to_vec();
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=TRIES {
            match self.attempt(&bytes) {
                Ok(answer) => return self.note(&answer),
                Err(failure) => {
                    self.complain(&failure.text);
                    if !failure.is_passing || attempt == TRIES || is_over {
                        break;
                    }
                    std::thread::sleep(pause);
                    pause *= 2;
                }
            }
        }
        self.lost += count;
    }

    fn request(&self, spans: Vec<OtlpSpan>) -> ExportRequest {
        let attributes =
            self.to.resource.iter().map(|(key, value)| attribute(key, AttributeValue::Text(value.clone()))).collect();
        let scope = OtlpScope { name: "lacquer".into(), version: env!("CARGO_PKG_VERSION").into() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        ExportRequest { resource_spans: vec![ResourceSpans { resource: Some(Resource { attributes }), scope_spans }] }
    }

    fn attempt(&mut self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        match self.to.protocol {
            ExportProtocol::Http => self.post(message),
            ExportProtocol::Grpc => self.call(message),
        }
    }

    fn connect(&self, until: Instant) -> Result<WebLink, Failure> {
        let told = |error: io::Error| Failure { text: in_words(&error), is_passing: true };
        connect(&self.to.target, &self.client, until).map_err(told)
    }

    fn post(&self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let link = self.connect(Instant::now() + TIMEOUT)?;
        let told = |error: io::Error| Failure { text: in_words(&error), is_passing: true };
        let answer = talk(link, &self.http_request(message), false).map_err(told)?;
        match answer.head.status() {
            200..300 => Ok(answer.body),
            status => {
                let is_passing = matches!(status, 429 | 502..=504);
                Err(Failure { text: format!("answers {status}"), is_passing })
            }
        }
    }

    /// Calls over the connection that is there. It may have been closed since: then by a new one. Spans that came twice
    /// are the same to a collector.
    fn call(&mut self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let until = Instant::now() + TIMEOUT;
        if let Some(mut channel) = self.channel.take().filter(GrpcChannel::is_open) {
            channel.link_mut().end_by(until);
            match self.call_over(channel, message) {
                Err(GrpcError::Io(_)) => {}
                called => return called.map_err(told),
            }
        }
        let channel = GrpcChannel::new(self.connect(until)?);
        self.call_over(channel, message).map_err(told)
    }

    /// Calls, and keeps the connection where that is of use.
    fn call_over(&mut self, mut channel: GrpcChannel<WebLink>, message: &[u8]) -> Result<Vec<u8>, GrpcError> {
        let what = GrpcCall { path: GRPC_PATH, fields: &self.to.fields, message };
        let called = channel.call(&self.to.target, &what);
        if !matches!(called, Err(GrpcError::Io(_))) {
            self.channel = Some(channel);
        }
        called
    }

    fn http_request(&self, message: &[u8]) -> Vec<u8> {
        let WebTarget { path, authority, .. } = &self.to.target;
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\n",
            message.len()
        );
        self.to.fields.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        head.push_str("\r\n");
        [head.as_bytes(), message].concat()
    }

    /// Collectors say what they didn't take.
    fn note(&mut self, answer: &[u8]) {
        let rejected = ExportResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
        if let Some(rejected) = rejected.filter(|rejected| rejected.rejected_spans > 0) {
            self.lost += rejected.rejected_spans.unsigned_abs();
            self.complain(&format!("took not all: {}", base::text::printable(&rejected.error_message)));
        }
    }

    fn complain(&mut self, text: &str) {
        if self.complained.is_none_or(|at| at.elapsed() >= COMPLAINTS) {
            self.complained = Some(Instant::now());
            print::err(format_args!("{}: {text} ({} spans lost so far)\n", self.to.target.authority, self.lost));
        }
    }
}

/// Waits for a batch; true: nothing more comes.
fn fill(batch: &mut Vec<OtlpSpan>, spans: &Receiver<Vec<OtlpSpan>>) -> bool {
    let mut until = None;
    while batch.len() < BATCH {
        let left = until.map_or(MAX_WAIT, |until: Instant| until.saturating_duration_since(Instant::now()));
        match spans.recv_timeout(left) {
            Ok(more) => {
                batch.extend(more);
                until.get_or_insert_with(|| Instant::now() + MAX_WAIT);
            }
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
    false
}
