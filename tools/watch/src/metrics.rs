// SPDX-License-Identifier: BSD-2-Clause
//! `/metrics` for Prometheus and compatible scrapers: OpenMetrics if the client accepts it, else the older text format.

mod costs;
mod exporter;
mod fleet;
mod own;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use crate::latency::Buckets;
use crate::state::WatchShared;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MetricNaming {
    /// Our own names, `lacquer_...`.
    #[default]
    Own,
    /// The names of prometheus_varnish_exporter, `varnish_...`.
    Exporter,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricsFormat {
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Text,
}

impl MetricsFormat {
    /// Selects the format by the `Accept` header.
    pub fn of_accept(accept: &[u8]) -> MetricsFormat {
        let wanted = b"application/openmetrics-text";
        if accept.windows(wanted.len()).any(|w| w.eq_ignore_ascii_case(wanted)) {
            MetricsFormat::OpenMetrics
        } else {
            MetricsFormat::Text
        }
    }

    pub const fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            MetricsFormat::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Type {
    Counter,
    Gauge,
    Histogram,
}

impl Type {
    const fn word(self) -> &'static str {
        match self {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        }
    }
}

#[derive(Debug)]
struct Family {
    kind: Type,
    help: String,
    unit: &'static str,
    /// The suffix of the name (`_total`, `_bucket`), the labels, and the value of each sample.
    samples: Vec<(&'static str, String, f64)>,
}

/// Metrics by name. Samples with the same name and labels are summed.
#[derive(Debug, Default)]
struct Exposition(BTreeMap<String, Family>);

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    fn family(&mut self, name: &str, kind: Type, help: &str) -> &mut Family {
        let unit = ["_bytes", "_seconds", "_ratio"].into_iter().find(|unit| name.ends_with(unit)).unwrap_or("");
        let make = || Family { kind, help: help.to_owned(), unit: unit.trim_start_matches('_'), samples: Vec::new() };
        self.0.entry(name.to_owned()).or_insert_with(make)
    }

    fn add(&mut self, name: &str, kind: Type, help: &str, labels: Labels<'_>, value: f64) {
        let labels = written(labels);
        let family = self.family(name, kind, help);
        match family.samples.iter_mut().find(|(_, known, _)| *known == labels) {
            Some((.., sum)) => *sum += value,
            None => family.samples.push(("", labels, value)),
        }
    }

    fn counter(&mut self, name: &str, help: &str, labels: Labels<'_>, value: f64) {
        self.add(name, Type::Counter, help, labels, value);
    }

    fn gauge(&mut self, name: &str, help: &str, labels: Labels<'_>, value: f64) {
        self.add(name, Type::Gauge, help, labels, value);
    }

    fn histogram(&mut self, name: &str, help: &str, labels: Labels<'_>, buckets: &Buckets) {
        let family = self.family(name, Type::Histogram, help);
        for (bound, count) in buckets.cumulative() {
            let bound = bound.to_string();
            let with: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            family.samples.push(("_bucket", written(&with), count as f64));
        }
        let with: Vec<_> = labels.iter().copied().chain([("le", "+Inf")]).collect();
        family.samples.push(("_bucket", written(&with), buckets.count() as f64));
        family.samples.push(("_sum", written(labels), buckets.sum));
        family.samples.push(("_count", written(labels), buckets.count() as f64));
    }

    /// Writes the metrics. `total` is the suffix of counters' names, in both formats.
    fn text(&self, format: MetricsFormat, total: &str) -> String {
        let mut out = String::with_capacity(64 << 10);
        for (name, family) in &self.0 {
            let ending = if family.kind == Type::Counter { total } else { "" };
            // The older format describes each sample's name instead of the family's.
            let described = if format == MetricsFormat::Text { format!("{name}{ending}") } else { name.clone() };
            let help = escape(&family.help, format == MetricsFormat::OpenMetrics);
            let _ = writeln!(out, "# HELP {described} {help}");
            let _ = writeln!(out, "# TYPE {described} {}", family.kind.word());
            if format == MetricsFormat::OpenMetrics && !family.unit.is_empty() {
                let _ = writeln!(out, "# UNIT {described} {}", family.unit);
            }
            for (suffix, labels, value) in &family.samples {
                let suffix = if suffix.is_empty() { ending } else { suffix };
                let _ = writeln!(out, "{name}{suffix}{labels} {value}");
            }
        }
        if format == MetricsFormat::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

fn written(labels: Labels<'_>) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let all: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value, true))).collect();
    format!("{{{}}}", all.join(","))
}

fn escape(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}

/// The replies of the server's CLI that its metrics show.
#[derive(Debug, Default)]
pub struct CliReplies {
    pub nodes: Option<Value>,
    pub costs: Option<Value>,
}

pub fn page(
    shared: &WatchShared,
    naming: MetricNaming,
    format: MetricsFormat,
    replies: &CliReplies,
) -> (&'static str, String) {
    match naming {
        MetricNaming::Own => {
            let mut out = own::exposition(shared);
            if let Some(said) = &replies.nodes {
                fleet::add(&mut out, said);
            }
            if let Some(said) = &replies.costs {
                costs::add(&mut out, said);
            }
            (format.content_type(), out.text(format, "_total"))
        }
        // The exporter's counters lack the suffix that OpenMetrics requires.
        MetricNaming::Exporter => {
            (MetricsFormat::Text.content_type(), exporter::exposition(shared).text(MetricsFormat::Text, ""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Exposition {
        let mut out = Exposition::default();
        out.counter("x_requests", "Requests", &[("backend", "a\"b\\c\nd")], 3.0);
        out.counter("x_requests", "Requests", &[("backend", "a\"b\\c\nd")], 4.0);
        out.gauge("x_used_bytes", "Of \"memory\"\nused", &[], 1e15);
        let mut buckets = Buckets::default();
        buckets.add(0.003);
        out.histogram("x_time_seconds", "Time", &[("status", "2xx")], &buckets);
        out
    }

    #[test]
    fn the_older_format_names_what_it_shows() {
        let text = sample().text(MetricsFormat::Text, "_total");
        assert!(text.starts_with("# HELP x_requests_total Requests\n# TYPE x_requests_total counter\n"), "{text}");
        assert!(text.contains("x_requests_total{backend=\"a\\\"b\\\\c\\nd\"} 7\n"), "{text}");
        assert!(text.contains("# HELP x_used_bytes Of \"memory\"\\nused\n"), "{text}");
        assert!(text.contains("x_used_bytes 1000000000000000\n"), "{text}");
        assert!(!text.contains("EOF") && !text.contains("UNIT"));
    }

    #[test]
    fn openmetrics_has_families_units_and_an_end() {
        let text = sample().text(MetricsFormat::OpenMetrics, "_total");
        assert!(text.contains("# TYPE x_requests counter\nx_requests_total{"), "{text}");
        assert!(text.contains("# UNIT x_time_seconds seconds\n"), "{text}");
        for line in [
            "x_time_seconds_bucket{status=\"2xx\",le=\"0.0025\"} 0",
            "x_time_seconds_bucket{status=\"2xx\",le=\"0.005\"} 1",
            "x_time_seconds_bucket{status=\"2xx\",le=\"+Inf\"} 1",
            "x_time_seconds_sum{status=\"2xx\"} 0.003",
            "x_time_seconds_count{status=\"2xx\"} 1",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_reader_says_what_it_takes() {
        assert_eq!(
            MetricsFormat::of_accept(b"text/html, Application/OpenMetrics-text;version=1.0.0"),
            MetricsFormat::OpenMetrics
        );
        assert_eq!(MetricsFormat::of_accept(b"*/*"), MetricsFormat::Text);
    }
}
