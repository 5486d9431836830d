// SPDX-License-Identifier: BSD-2-Clause
//! The configuration: every key of node statsd and of the Perl port, and a few of ours, checked once.

mod script;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::arith::{BucketHistogram, PercentilePlan, Threshold};
use crate::store::Delete;

pub use script::{FILE_BYTES, ScriptValue, ScriptWorld, StatsdScriptError};

/// Original to follow where they differ: how the management port and the console show metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsdDialect {
    /// JavaScript's way of showing objects, on stdout.
    Node,
    /// JSON, the console on stderr.
    Perl,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputConfig {
    Udp {
        /// Address or name; empty is every address.
        address: String,
        port: u16,
        v6: bool,
    },
    Tcp {
        /// Address or name; empty is every address.
        address: String,
        port: u16,
    },
    /// Connections at a path, with its mode.
    Unix { path: PathBuf, mode: Option<u32> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendConfig {
    /// Carbon, as text or pickle.
    Graphite,
    /// stdout, or stderr as the Perl port does.
    Console,
    File,
    Repeater,
    Prometheus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carbon {
    /// `name value time` lines.
    Text,
    Pickle,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graphite {
    /// None: points are worked out and thrown away.
    pub host: Option<String>,
    pub port: u16,
    pub carbon: Carbon,
    /// Names as before statsd 0.5.
    pub legacy: bool,
    pub flush_counts: bool,
    /// First part of every name.
    pub global: String,
    pub counter: String,
    pub timer: String,
    pub gauge: String,
    pub set: String,
    pub suffix: String,
    /// Names are cleaned here because they weren't before.
    pub clean: bool,
    /// The most bytes that wait while Graphite can't be reached.
    pub backlog_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeaterConfig {
    pub targets: Vec<(String, u16)>,
    pub tcp: bool,
    /// Names are looked up for IPv6 only.
    pub v6: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeyFlush {
    pub interval_ms: f64,
    /// Percentage of the names to show, the busiest first.
    pub percent: f64,
    pub log: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    pub syslog: bool,
    pub application: String,
    pub level: crate::log::StatsdLevel,
}

#[derive(Clone, Debug)]
pub struct StatsdConfig {
    pub dialect: StatsdDialect,
    pub inputs: Vec<InputConfig>,
    pub management: Option<(String, u16)>,
    pub flush_interval_ms: f64,
    pub plan: PercentilePlan,
    pub delete: Delete,
    pub prefix: String,
    /// Names are cleaned when they come in.
    pub clean_names: bool,
    /// Lines are counted by name.
    pub key_flush: Option<KeyFlush>,
    /// Each line is shown.
    pub dump: bool,
    pub debug: bool,
    pub healthy: bool,
    pub reload: bool,
    pub log: LogConfig,
    pub backends: Vec<BackendConfig>,
    pub graphite: Graphite,
    pub pretty: bool,
    pub file: Option<PathBuf>,
    pub repeater: RepeaterConfig,
    pub prometheus: (String, u16),
    /// Sockets for one UDP address.
    pub sockets: usize,
    /// Bytes of SO_RCVBUF to ask for.
    pub receive_buffer: usize,
    pub max_metrics: usize,
    /// The most bytes of names, values and members.
    pub max_bytes: u64,
    pub raw: ScriptValue,
}

#[derive(Debug)]
pub enum ConfigError {
    File(PathBuf, std::io::Error),
    TooLong(PathBuf),
    Script(PathBuf, StatsdScriptError),
    /// A key has an invalid value, or names something that isn't built.
    Key(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::File(path, error) => write!(f, "{}: {error}", path.display()),
            ConfigError::TooLong(path) => write!(f, "{}: longer than {FILE_BYTES} bytes", path.display()),
            ConfigError::Script(path, error) => write!(f, "{}: {error}", path.display()),
            ConfigError::Key(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for ConfigError {}

struct Machine;

impl ScriptWorld for Machine {
    fn host_name(&self) -> String {
        sys::process::host_name()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

impl StatsdConfig {
    pub fn load(path: &Path) -> Result<StatsdConfig, ConfigError> {
        use std::io::Read as _;
        let refuse = |error| ConfigError::File(path.to_owned(), error);
        let file = std::fs::File::open(path).map_err(refuse)?;
        let mut text = Vec::new();
        file.take(FILE_BYTES as u64 + 1).read_to_end(&mut text).map_err(refuse)?;
        if text.len() > FILE_BYTES {
            return Err(ConfigError::TooLong(path.to_owned()));
        }
        let text = String::from_utf8_lossy(&text);
        let read = script::read(&text, &Machine);
        let (value, hashes) = read.map_err(|error| ConfigError::Script(path.to_owned(), error))?;
        StatsdConfig::from_value(value, hashes)
    }

    #[cfg(test)]
    pub fn parse(text: &str) -> Result<StatsdConfig, ConfigError> {
        let (value, hashes) = script::read(text, &Machine).map_err(|e| ConfigError::Script(PathBuf::new(), e))?;
        StatsdConfig::from_value(value, hashes)
    }

    pub fn from_value(raw: ScriptValue, hashes: bool) -> Result<StatsdConfig, ConfigError> {
        if !matches!(raw, ScriptValue::Object(_)) {
            return Err(ConfigError::Key("the configuration is no object: it begins with `{`".to_owned()));
        }
        let (backends, bare_names) = backends(&raw)?;
        let dialect = match raw.get("dialect") {
            ScriptValue::Text(text) if text == "perl" => StatsdDialect::Perl,
            ScriptValue::Text(text) if text == "node" => StatsdDialect::Node,
            ScriptValue::Null if bare_names || hashes => StatsdDialect::Perl,
            ScriptValue::Null => StatsdDialect::Node,
            _ => return Err(key("dialect", "\"node\" or \"perl\"")),
        };
        let clean_names = flag(&raw, "keyNameSanitize", true);
        Ok(StatsdConfig {
            dialect,
            inputs: inputs(&raw)?,
            management: management(&raw)?,
            flush_interval_ms: number(&raw, "flushInterval", 10_000.0, 1.0, 86_400_000.0)?,
            plan: plan(&raw)?,
            delete: delete(&raw),
            prefix: text(&raw, "prefixStats", "statsd")?,
            clean_names,
            key_flush: key_flush(raw.get("keyFlush"))?,
            dump: flag(&raw, "dumpMessages", false),
            debug: flag(&raw, "debug", false),
            healthy: raw.get("healthStatus").show() != "down",
            reload: flag(&raw, "automaticConfigReload", true),
            log: log(raw.get("log"))?,
            graphite: graphite(&raw, clean_names)?,
            pretty: flag(raw.get("console"), "prettyprint", false),
            file: path(raw.get("file"), "name"),
            repeater: repeater(&raw)?,
            prometheus: address(raw.get("prometheus"), "address", 9102)?,
            sockets: number(&raw, "sockets", 1.0, 1.0, 256.0)? as usize,
            receive_buffer: receive_buffer(&raw)?,
            max_metrics: number(&raw, "maxMetrics", 1e6, 1.0, 1e9)? as usize,
            max_bytes: number(&raw, "maxMemory", 512.0 * 1024.0 * 1024.0, 65536.0, 1e15)? as u64,
            backends,
            raw,
        })
    }
}

/// 8 MB unless said otherwise; 0 leaves the socket as the kernel made it.
fn receive_buffer(raw: &ScriptValue) -> Result<usize, ConfigError> {
    match raw.get("receiveBuffer") {
        ScriptValue::Number(0.0) | ScriptValue::Bool(false) => Ok(0),
        _ => Ok(number(raw, "receiveBuffer", 8.0 * 1024.0 * 1024.0, 4096.0, 1e9)? as usize),
    }
}

fn key(name: &str, wanted: &str) -> ConfigError {
    ConfigError::Key(format!("{name}: expected {wanted}"))
}

fn flag(from: &ScriptValue, name: &str, default: bool) -> bool {
    match from.get(name) {
        ScriptValue::Null => default,
        value => value.truthy(),
    }
}

/// A number, or a text that is one, as `Number()` takes both. Null, 0 and the empty text stand for the default, as
/// node's `config.x || default` has it.
fn number(from: &ScriptValue, name: &str, default: f64, least: f64, most: f64) -> Result<f64, ConfigError> {
    let n = match from.get(name) {
        value if !value.truthy() => return Ok(default),
        ScriptValue::Number(n) => Some(*n),
        ScriptValue::Text(text) => crate::number::parse(text.as_bytes()),
        _ => None,
    };
    let wanted = || format!("a number from {} to {}", crate::number::show(least), crate::number::show(most));
    n.filter(|n| (least..=most).contains(n)).ok_or_else(|| key(name, &wanted()))
}

fn port(from: &ScriptValue, name: &str, default: u16) -> Result<u16, ConfigError> {
    // Port 0, which a test may ask for with a text, lets the kernel choose.
    if *from.get(name) == ScriptValue::Text("any".to_owned()) {
        return Ok(0);
    }
    Ok(number(from, name, f64::from(default), 1.0, 65535.0)? as u16)
}

fn text(from: &ScriptValue, name: &str, default: &str) -> Result<String, ConfigError> {
    match from.get(name) {
        ScriptValue::Null => Ok(default.to_owned()),
        ScriptValue::Text(text) => Ok(text.clone()),
        ScriptValue::Number(n) => Ok(crate::number::show(*n)),
        _ => Err(key(name, "a text")),
    }
}

fn path(from: &ScriptValue, name: &str) -> Option<PathBuf> {
    match from.get(name) {
        ScriptValue::Text(text) if !text.is_empty() => Some(PathBuf::from(text)),
        _ => None,
    }
}

fn address(from: &ScriptValue, name: &str, default_port: u16) -> Result<(String, u16), ConfigError> {
    Ok((text(from, name, "")?, port(from, "port", default_port)?))
}

fn backends(raw: &ScriptValue) -> Result<(Vec<BackendConfig>, bool), ConfigError> {
    let list = match raw.get("backends") {
        ScriptValue::Null => return Ok((vec![BackendConfig::Graphite], false)),
        ScriptValue::List(list) => list,
        _ => return Err(key("backends", "a list")),
    };
    let mut bare = false;
    let mut all = Vec::new();
    for item in list {
        let ScriptValue::Text(name) = item else { return Err(key("backends", "names")) };
        bare |= !name.contains('/');
        let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".js").to_ascii_lowercase();
        let backend = match stem.as_str() {
            "graphite" => BackendConfig::Graphite,
            "console" => BackendConfig::Console,
            "file" => BackendConfig::File,
            "repeater" => BackendConfig::Repeater,
            "prometheus" => BackendConfig::Prometheus,
            _ => {
                let reason = format!(
                    "backend {name:?} isn't built here; there are graphite, console, file, repeater, prometheus"
                );
                return Err(ConfigError::Key(reason));
            }
        };
        if !all.contains(&backend) {
            all.push(backend);
        }
    }
    Ok((all, bare))
}

fn inputs(raw: &ScriptValue) -> Result<Vec<InputConfig>, ConfigError> {
    match raw.get("servers") {
        ScriptValue::Null => Ok(vec![input(raw)?]),
        ScriptValue::List(list) => list.iter().map(input).collect(),
        _ => Err(key("servers", "a list")),
    }
}

fn input(from: &ScriptValue) -> Result<InputConfig, ConfigError> {
    // The Perl port's own example says `host`, which it then ignores; here it counts when `address` doesn't say anything.
    let address = match from.get("address") {
        ScriptValue::Null => text(from, "host", "")?,
        _ => text(from, "address", "")?,
    };
    let server = text(from, "server", "./servers/udp")?;
    match server.rsplit('/').next().unwrap_or(&server).trim_end_matches(".js") {
        "udp" => {
            Ok(InputConfig::Udp { address, port: port(from, "port", 8125)?, v6: flag(from, "address_ipv6", false) })
        }
        "tcp" => match path(from, "socket") {
            Some(path) => Ok(InputConfig::Unix { path, mode: mode(from.get("socket_mod"))? }),
            None => Ok(InputConfig::Tcp { address, port: port(from, "port", 8125)? }),
        },
        other => Err(ConfigError::Key(format!(
            "server {other:?} isn't built here; there are ./servers/udp and ./servers/tcp"
        ))),
    }
}

/// A number is the mode itself; a text is octal, as `fs.chmod` has it.
fn mode(value: &ScriptValue) -> Result<Option<u32>, ConfigError> {
    let mode = match value {
        ScriptValue::Null => return Ok(None),
        ScriptValue::Number(n) if (0.0..=4095.0).contains(n) => Some(*n as u32),
        ScriptValue::Text(text) => u32::from_str_radix(text.trim_start_matches("0o"), 8).ok().filter(|m| *m <= 0o7777),
        _ => None,
    };
    mode.map(Some).ok_or_else(|| key("socket_mod", "a file's mode, as \"0660\""))
}

fn management(raw: &ScriptValue) -> Result<Option<(String, u16)>, ConfigError> {
    if *raw.get("mgmt_port") == ScriptValue::Bool(false) {
        return Ok(None);
    }
    Ok(Some((text(raw, "mgmt_address", "")?, port(raw, "mgmt_port", 8126)?)))
}

fn plan(raw: &ScriptValue) -> Result<PercentilePlan, ConfigError> {
    let mut plan = PercentilePlan { thresholds: Vec::new(), ..PercentilePlan::default() };
    let listed = match raw.get("percentThreshold") {
        value if !value.truthy() => vec![ScriptValue::Number(90.0)],
        ScriptValue::List(list) => list.clone(),
        single => vec![single.clone()],
    };
    for item in &listed {
        let percent = match item {
            ScriptValue::Number(n) => Some(*n),
            ScriptValue::Text(text) => crate::number::parse(text.as_bytes()),
            _ => None,
        };
        let percent = percent.filter(|p| p.is_finite()).ok_or_else(|| key("percentThreshold", "numbers"))?;
        if !plan.thresholds.iter().any(|t| t.percent == percent) {
            plan.thresholds.push(Threshold::new(percent));
        }
    }
    if let ScriptValue::List(list) = raw.get("histogram") {
        plan.histograms = list.iter().map(histogram).collect::<Result<_, _>>()?;
    }
    if let ScriptValue::List(list) = raw.get("calculatedTimerMetrics") {
        plan.only = list.iter().map(ScriptValue::show).collect();
    }
    Ok(plan)
}

fn histogram(from: &ScriptValue) -> Result<BucketHistogram, ConfigError> {
    let ScriptValue::List(bins) = from.get("bins") else { return Err(key("histogram", "{ metric, bins: [...] }")) };
    let bound = |bin: &ScriptValue| match bin {
        ScriptValue::Number(n) if !n.is_nan() => Ok(*n),
        ScriptValue::Text(text) if text == "inf" => Ok(f64::INFINITY),
        _ => Err(key("histogram bins", "numbers, or 'inf'")),
    };
    let bounds = bins.iter().map(bound).collect::<Result<Vec<_>, _>>()?;
    let metric = text(from, "metric", "")?.into_bytes();
    Ok(BucketHistogram { metric, bins: bounds.into_iter().map(BucketHistogram::bin).collect() })
}

fn delete(raw: &ScriptValue) -> Delete {
    let idle = flag(raw, "deleteIdleStats", false);
    // Any positive whole number above 1 counts; everything else is 1.
    let ttl = match raw.get("gaugesMaxTTL") {
        ScriptValue::Number(n) if *n > 1.0 && n.fract() == 0.0 => n.min(f64::from(u32::MAX)) as u32,
        _ => 1,
    };
    Delete {
        counters: flag(raw, "deleteCounters", idle),
        timers: flag(raw, "deleteTimers", idle),
        sets: flag(raw, "deleteSets", idle),
        gauges: flag(raw, "deleteGauges", idle).then_some(ttl),
    }
}

fn key_flush(from: &ScriptValue) -> Result<Option<KeyFlush>, ConfigError> {
    let interval_ms = number(from, "interval", 0.0, 0.0, 86_400_000.0)?;
    if interval_ms == 0.0 {
        return Ok(None);
    }
    let percent = number(from, "percent", 100.0, 0.0, 100.0)?;
    Ok(Some(KeyFlush { interval_ms, percent, log: path(from, "log") }))
}

fn log(from: &ScriptValue) -> Result<LogConfig, ConfigError> {
    let syslog = match text(from, "backend", "stdout")?.as_str() {
        "stdout" => false,
        "syslog" => true,
        _ => return Err(ConfigError::Key("log.backend: should be 'stdout' or 'syslog'".to_owned())),
    };
    let level = text(from, "level", "LOG_INFO")?;
    let level = crate::log::StatsdLevel::parse(&level)
        .ok_or_else(|| key("log.level", "LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERR"))?;
    Ok(LogConfig { syslog, application: text(from, "application", "statsd")?, level })
}

fn graphite(raw: &ScriptValue, clean_names: bool) -> Result<Graphite, ConfigError> {
    let from = raw.get("graphite");
    let carbon = match text(raw, "graphiteProtocol", "text")?.as_str() {
        "pickle" => Carbon::Pickle,
        _ => Carbon::Text,
    };
    let port = match carbon {
        Carbon::Text => port(raw, "graphitePort", 2003)?,
        Carbon::Pickle => port(raw, "graphitePicklePort", 2004)?,
    };
    Ok(Graphite {
        host: Some(text(raw, "graphiteHost", "")?).filter(|host| !host.is_empty()),
        port,
        carbon,
        legacy: flag(from, "legacyNamespace", true),
        flush_counts: flag(raw, "flush_counts", true),
        global: text(from, "globalPrefix", "stats")?,
        counter: text(from, "prefixCounter", "counters")?,
        timer: text(from, "prefixTimer", "timers")?,
        gauge: text(from, "prefixGauge", "gauges")?,
        set: text(from, "prefixSet", "sets")?,
        suffix: match from.get("globalSuffix") {
            ScriptValue::Null => String::new(),
            _ => format!(".{}", text(from, "globalSuffix", "")?),
        },
        clean: !clean_names,
        backlog_bytes: number(raw, "graphiteBacklog", 64.0 * 1024.0 * 1024.0, 1.0, 1e12)? as usize,
    })
}

fn repeater(raw: &ScriptValue) -> Result<RepeaterConfig, ConfigError> {
    let target = |item: &ScriptValue| Ok((text(item, "host", "127.0.0.1")?, port(item, "port", 8125)?));
    let targets = match raw.get("repeater") {
        ScriptValue::Null => Vec::new(),
        ScriptValue::List(list) => list.iter().map(target).collect::<Result<_, ConfigError>>()?,
        _ => return Err(key("repeater", "a list of { host, port }")),
    };
    let protocol = text(raw, "repeaterProtocol", "udp4")?;
    Ok(RepeaterConfig { targets, tcp: protocol == "tcp", v6: protocol == "udp6" })
}

#[cfg(test)]
mod tests;
