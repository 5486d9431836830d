// SPDX-License-Identifier: BSD-2-Clause
//! The server that keeps the log of the fleet to which the looked-at server belongs. It is asked with the node's own
//! credentials, and nothing is changed there.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use base::lookup::addresses_of_text;
use fleet::survey::ServerFact;
use fleet::{FleetLogKind, FleetSettings};
use logq::source::strerror;
use serde_json::Value;

/// Limit for a reply of the monitoring port.
const LIMIT: Duration = Duration::from_secs(2);
/// Longest file with a password or certificates.
const LONGEST: u64 = 1 << 20;

/// Facts about the log's server.
#[derive(Debug)]
pub struct LogServerFacts {
    pub kind: FleetLogKind,
    pub address: String,
    /// The setting `replicas` of `--fleet`.
    pub replicas: u32,
    pub facts: Vec<ServerFact>,
}

impl LogServerFacts {
    /// A fact by its name.
    ///
    /// # Errors
    /// The reason why it isn't known.
    pub fn get(&self, name: &str) -> Result<&str, String> {
        let fact = self.facts.iter().find(|fact| fact.name == name);
        let value = fact.ok_or_else(|| format!("{name} wasn't asked for"))?.value.as_deref();
        value.map_err(|why| format!("{} {}: {why}", self.kind.name(), self.address))
    }

    pub fn number(&self, name: &str) -> Result<u64, String> {
        let text = self.get(name)?;
        text.parse().map_err(|_| format!("{} {}: {name} is {text}", self.kind.name(), self.address))
    }
}

/// Asks the server that `--fleet` names in a manager's arguments; `None`: it isn't in a fleet. `monitor` is the address of a NATS
/// server's monitoring port.
///
/// # Errors
/// The server can't be asked.
pub fn look(arguments: &[String], root: &Path, monitor: Option<&str>) -> Result<Option<LogServerFacts>, String> {
    let Some(spec) = spec(arguments) else { return Ok(None) };
    if root != Path::new("/") {
        return Err("the log's server of another machine's fleet isn't asked".to_owned());
    }
    let mut settings = FleetSettings::parse(spec)?;
    for (role, path) in settings.files.clone() {
        let named = |why: String| format!("{}: {why}", path.display());
        let contents =
            contents(&path).map_err(|error| named(format!("{}; run lacquer doctor as root", strerror(&error))))?;
        settings.provide(role, &contents).map_err(named)?;
    }
    let connector = fleet::connector(&settings)?;
    let (address, mut facts) = fleet::survey::survey(&*connector, &settings)
        .map_err(|why| format!("the server of the fleet's log can't be asked: {why}"))?;
    if settings.kind == FleetLogKind::Nats {
        facts.push(ServerFact { name: "sync_interval", value: sync_interval(monitor) });
    }
    Ok(Some(LogServerFacts { kind: settings.kind, address, replicas: settings.replicas, facts }))
}

fn spec(arguments: &[String]) -> Option<&str> {
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        match word.strip_prefix("--fleet") {
            Some("") => return words.next().map(String::as_str),
            Some(rest) if rest.starts_with('=') => return Some(&rest[1..]),
            Some(_) | None => {}
        }
    }
    None
}

fn contents(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut contents = Vec::new();
    std::fs::File::open(path)?.take(LONGEST).read_to_end(&mut contents)?;
    Ok(contents)
}

/// The interval at which a NATS server writes to its disk, in nanoseconds, or `always`.
fn sync_interval(monitor: Option<&str>) -> Result<String, String> {
    let Some(monitor) = monitor else {
        let why = "NATS tells sync_interval only on its monitoring port: name it with --nats-monitor HOST:PORT (http_port in its configuration)";
        return Err(why.to_owned());
    };
    let body = varz(monitor).map_err(|error| format!("http://{monitor}/varz: {}", strerror(&error)))?;
    read_varz(&body).ok_or_else(|| {
        format!("http://{monitor}/varz says nothing about sync_interval: NATS 2.10 or newer with JetStream does")
    })
}

fn varz(monitor: &str) -> std::io::Result<Vec<u8>> {
    let mut failure = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in addresses_of_text(monitor)? {
        match TcpStream::connect_timeout(&address, LIMIT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                let request = format!("GET /varz HTTP/1.1\r\nHost: {monitor}\r\nConnection: close\r\n\r\n");
                return webclient::talk(stream, request.as_bytes(), false).map(|response| response.body);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn read_varz(body: &[u8]) -> Option<String> {
    let all: Value = serde_json::from_slice(body).ok()?;
    let config = &all["jetstream"]["config"];
    match config["sync_always"] {
        Value::Bool(true) => Some("always".to_owned()),
        _ => config["sync_interval"].as_u64().map(|nanoseconds| nanoseconds.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_found_among_the_arguments() {
        let found = |line: &str| spec(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).map(str::to_owned);
        assert_eq!(found("varnishd -a :80 --fleet nats://a,name=x -F").as_deref(), Some("nats://a,name=x"));
        assert_eq!(found("varnishd --fleet=redis://b").as_deref(), Some("redis://b"));
        assert_eq!([found("varnishd -F"), found("--fleet"), found("varnishd --fleet")], [None, None, None]);
        let of = |line: &str, root: &str| {
            look(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), Path::new(root), None)
                .map(|found| found.is_some())
        };
        assert_eq!(of("varnishd -F", "/elsewhere"), Ok(false));
        assert!(of("varnishd --fleet redis://127.0.0.1", "/elsewhere").unwrap_err().contains("another machine"));
        let secret = of("varnishd --fleet redis://u@127.0.0.1,password-file=/nonexistent/p", "/").unwrap_err();
        assert_eq!(secret, "/nonexistent/p: No such file or directory; run lacquer doctor as root");
    }

    #[test]
    fn what_a_monitoring_port_says_of_writes_to_the_disk() {
        let read = |config: &str| read_varz(format!(r#"{{"jetstream":{{"config":{config}}}}}"#).as_bytes());
        assert_eq!(read(r#"{"sync_interval":120000000000}"#).as_deref(), Some("120000000000"));
        assert_eq!(read(r#"{"sync_interval":120000000000,"sync_always":true}"#).as_deref(), Some("always"));
        assert_eq!([read("{}"), read("null"), read_varz(b"x"), read_varz(b"{}")], [None, None, None, None]);
    }
}
