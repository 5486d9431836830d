// SPDX-License-Identifier: BSD-2-Clause
//! Runs side by side: whether what differs from the first is more than noise.
//!
//! The seconds of a run are its samples (Welch's test, 95 %). Seconds follow each other and resemble each other, so they count
//! for fewer by what the correlation of neighbours says.

use std::fmt::Write;
use std::fs;

use serde_json::{Value, json};

use crate::server::round;

/// Seconds that a run must have to be judged.
const LEAST_SECONDS: usize = 5;
/// A difference below this share of the first run's value is none, however sure it is.
const LEAST_SHARE: f64 = 0.01;
/// The longest report that is read.
const MAX_BYTES: u64 = 256 << 20;

/// A measure: its name, whether more is better, the samples of a report.
type Measure = (&'static str, bool, fn(&Value) -> Vec<f64>);

const MEASURES: [Measure; 6] = [
    ("rate", true, |r| samples(r, "answers")),
    ("mean ms", false, |r| samples(r, "mean_ms")),
    ("p50 ms", false, |r| samples(r, "p50_ms")),
    ("p99 ms", false, |r| samples(r, "p99_ms")),
    ("hit %", true, |r| {
        let (hits, answers) = (samples(r, "hits"), samples(r, "answers"));
        if r["cache"]["told"].as_u64().unwrap_or(0) == 0 {
            return Vec::new();
        }
        hits.iter().zip(answers).filter(|(_, n)| *n > 0.0).map(|(hits, n)| 100.0 * hits / n).collect()
    }),
    // The server's CPU time for an answer.
    (CPU, false, |r| {
        let (cpu, answers) = (samples(r, "server_cpu_ms"), samples(r, "answers"));
        cpu.iter().zip(answers).filter(|(_, n)| *n > 0.0).map(|(ms, n)| 1e3 * ms / n).collect()
    }),
];
const CPU: &str = "CPU us";

fn samples(report: &Value, name: &str) -> Vec<f64> {
    report["series"][name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

pub fn read(name: &str) -> Result<Value, String> {
    let meta = fs::metadata(name).map_err(|e| format!("{name}: {}", logq::source::strerror(&e)))?;
    if meta.len() > MAX_BYTES {
        return Err(format!("{name}: too long for a report"));
    }
    let bytes = fs::read(name).map_err(|e| format!("{name}: {}", logq::source::strerror(&e)))?;
    let report: Value = serde_json::from_slice(&bytes).map_err(|e| format!("{name}: not a report: {e}"))?;
    if report["series"]["answers"].is_array() { Ok(report) } else { Err(format!("{name}: not a report of one run")) }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    TooShort,
    Noise,
    Better,
    Worse,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::TooShort => "too short to tell",
            Verdict::Noise => "within noise",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
        }
    }
}

struct Row {
    name: &'static str,
    a: f64,
    b: f64,
    change: f64,
    /// Half of the 95 % interval of `change`.
    noise: f64,
    verdict: Verdict,
}

fn row((name, more_is_better, of): &Measure, a: &Value, b: &Value) -> Option<Row> {
    let (a, b) = (of(a), of(b));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (sa, sb) = (Sample::new(&a), Sample::new(&b));
    let difference = sb.mean - sa.mean;
    let scale = if sa.mean == 0.0 { 1.0 } else { sa.mean.abs() };
    let error = (sa.error2 + sb.error2).sqrt();
    let freedom = if error == 0.0 {
        f64::INFINITY
    } else {
        (sa.error2 + sb.error2).powi(2)
            / (sa.error2.powi(2) / (sa.n - 1.0).max(1.0) + sb.error2.powi(2) / (sb.n - 1.0).max(1.0))
    };
    let half = error * student(freedom);
    let verdict = if a.len() < LEAST_SECONDS || b.len() < LEAST_SECONDS {
        Verdict::TooShort
    } else if difference.abs() <= half || difference.abs() < LEAST_SHARE * scale {
        Verdict::Noise
    } else if (difference > 0.0) == *more_is_better {
        Verdict::Better
    } else {
        Verdict::Worse
    };
    let percent = |n: f64| 100.0 * n / scale;
    Some(Row { name, a: sa.mean, b: sb.mean, change: percent(difference), noise: percent(half), verdict })
}

struct Sample {
    mean: f64,
    /// Number of independent samples that these are worth.
    n: f64,
    /// The square of the mean's standard error.
    error2: f64,
}

impl Sample {
    fn new(all: &[f64]) -> Sample {
        let n = all.len() as f64;
        let mean = all.iter().sum::<f64>() / n;
        let sum2: f64 = all.iter().map(|x| (x - mean).powi(2)).sum();
        let neighbours: f64 = all.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
        let correlation = if sum2 > 0.0 { (neighbours / sum2).clamp(0.0, 0.95) } else { 0.0 };
        let worth = (n * (1.0 - correlation) / (1.0 + correlation)).max(2.0_f64.min(n));
        let variance = if n > 1.0 { sum2 / (n - 1.0) } else { 0.0 };
        Sample { mean, n: worth, error2: variance / worth }
    }
}

/// The 97.5th percentile of Student's distribution (Cornish and Fisher's expansion; 1 % off at three degrees of freedom).
fn student(freedom: f64) -> f64 {
    let (z, v) = (1.959_964_f64, freedom.max(1.0));
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * v)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * v.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * v.powi(3))
}

pub type NamedReport = (Value, String);

fn letters(reports: &[NamedReport]) -> impl Iterator<Item = (char, &NamedReport)> {
    ('A'..='Z').zip(reports)
}

/// The later reports beside the first.
fn beside(reports: &[NamedReport]) -> impl Iterator<Item = (char, &Value, &Value)> {
    letters(reports).skip(1).map(|(letter, (report, _))| (letter, &reports[0].0, report))
}

pub fn json(reports: &[NamedReport]) -> Value {
    let of = |letter: char, r: Row| {
        json!({"measure": r.name, "report": letter.to_string(), "a": round(r.a, 3), "b": round(r.b, 3),
            "change_percent": round(r.change, 2), "noise_percent": round(r.noise, 2), "verdict": r.verdict.word()})
    };
    let rows = MEASURES
        .iter()
        .flat_map(|measure| beside(reports).filter_map(move |(letter, a, b)| Some(of(letter, row(measure, a, b)?))));
    let files: Value = letters(reports).map(|(letter, (_, name))| (letter.to_string(), json!(name))).collect();
    json!({"reports": files, "rows": rows.collect::<Vec<_>>(), "notes": notes(reports)})
}

fn notes(reports: &[NamedReport]) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, (report, _)) in letters(reports) {
        let (failed, sent) = (report["failed"].as_u64().unwrap_or(0), report["sent"].as_u64().unwrap_or(0));
        if failed > 0 {
            notes.push(format!("{name}: {failed} of {sent} requests failed"));
        }
        let noted = report["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        notes.extend(noted.map(|note| format!("{name}: {note}")));
        let is_sampled = report["series"]["server_cpu_ms"].is_array();
        if let Some(cost) = report["server"]["us_per_answer"].as_f64().filter(|_| !is_sampled) {
            notes.push(format!(
                "{name}: the server's CPU time, {cost} us an answer, is one value of an older report: no verdict"
            ));
        }
    }
    notes
}

const COLUMN: usize = 18;

/// The comparison as text: a column for each report, below each value its change and the verdict.
pub fn text(reports: &[NamedReport]) -> String {
    let mut out = String::new();
    for (letter, (_, name)) in letters(reports) {
        let _ = writeln!(out, "{letter}: {name}");
    }
    let cells = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        let all: String = cells.map(|cell| format!(" {cell:>COLUMN$}")).collect();
        format!("{name:<8}{}\n", all.trim_end())
    };
    out.push_str(&cells("", &mut letters(reports).map(|(letter, _)| letter.to_string())));
    for measure in &MEASURES {
        let rows: Vec<Option<Row>> = beside(reports).map(|(_, a, b)| row(measure, a, b)).collect();
        let Some(first) = rows.iter().flatten().next() else { continue };
        let later = |of: &dyn Fn(&Row) -> String| {
            rows.iter().map(|row| row.as_ref().map_or_else(String::new, of)).collect::<Vec<_>>()
        };
        let below = |line: Vec<String>| cells("", &mut std::iter::once(String::new()).chain(line));
        let values = later(&|r| round(r.b, 3).to_string());
        out.push_str(&cells(first.name, &mut std::iter::once(round(first.a, 3).to_string()).chain(values)));
        out.push_str(&below(later(&|r| format!("{:+.1} % +-{:.1}", r.change, r.noise))));
        out.push_str(&below(later(&|r| r.verdict.word().to_owned())));
    }
    notes(reports).iter().for_each(|note| {
        let _ = writeln!(out, "note     {note}");
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::ReplayRng;
    use proptest::prelude::*;

    fn report(answers: &[f64]) -> Value {
        json!({"series": {"answers": answers}})
    }

    fn verdict(a: &[f64], b: &[f64]) -> Verdict {
        row(&MEASURES[0], &report(a), &report(b)).unwrap().verdict
    }

    #[test]
    fn clear_cases() {
        assert_eq!(verdict(&[100.0; 4], &[200.0; 10]), Verdict::TooShort);
        assert_eq!(verdict(&[100.0; 10], &[100.5; 10]), Verdict::Noise);
        assert_eq!(verdict(&[100.0; 10], &[110.0; 10]), Verdict::Better);
        let noisy = [100.0, 140.0, 80.0, 120.0, 60.0, 110.0];
        assert_eq!(verdict(&noisy, &noisy.map(|n| n + 10.0)), Verdict::Noise);
        assert_eq!(verdict(&noisy, &noisy.map(|n| n - 70.0)), Verdict::Worse);
        let p99 = |n: f64| json!({"series": {"p99_ms": vec![n; 6]}});
        assert_eq!(row(&MEASURES[3], &p99(5.0), &p99(4.0)).unwrap().verdict, Verdict::Better);
    }

    #[test]
    fn many_reports_stand_beside_the_first_with_a_verdict_on_cpu() {
        let run = |rate: f64, ms: f64| {
            let jitter = |n: f64| (0..10).map(|i| n * (1.0 + 0.002 * f64::from(i % 3))).collect::<Vec<_>>();
            json!({"series": {"answers": jitter(rate), "server_cpu_ms": jitter(ms)}, "server": {"us_per_answer": 1.0}})
        };
        let names = ["original.json", "default.json", "cheap.json"];
        let reports: Vec<NamedReport> = [run(1000.0, 60.0), run(1000.0, 41.0), run(1000.0, 60.1)]
            .into_iter()
            .zip(names.map(str::to_owned))
            .collect();
        let told = json(&reports);
        let of = |letter: &str| {
            let rows = told["rows"].as_array().unwrap();
            rows.iter().find(|r| r["report"] == letter && r["measure"] == CPU).unwrap()["verdict"].clone()
        };
        assert_eq!((of("B"), of("C")), (json!("better"), json!("within noise")));
        assert_eq!(told["notes"], json!([]));
        let text = text(&reports);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[3], ["A", "B", "C"], "{text}");
        assert!(lines.iter().any(|line| line[..] == ["CPU", "us", "60", "41", "60.1"]), "{text}");
        // A report from before there were samples of the CPU.
        let old = json!({"series": {"answers": vec![1000.0; 10]}, "server": {"us_per_answer": 60.5}});
        let reports = [(old, "old.json".to_owned()), reports[1].clone()];
        assert!(json(&reports)["notes"][0].as_str().unwrap().starts_with("A: the server's CPU time, 60.5 us"));
    }

    #[test]
    fn equal_servers_are_rarely_told_apart() {
        let mut rng = ReplayRng::new(3);
        let mut run = || -> Vec<f64> { (0..10).map(|_| 1000.0 + 100.0 * (rng.unit() + rng.unit() - 1.0)).collect() };
        let wrong = (0..500).filter(|_| verdict(&run(), &run()) != Verdict::Noise).count();
        assert!(wrong < 40, "{wrong} of 500 where 25 are due");
    }

    #[test]
    fn students_numbers() {
        for (freedom, want) in [(5.0, 2.571), (10.0, 2.228), (30.0, 2.042), (1e9, 1.96)] {
            assert!((student(freedom) - want).abs() < 0.01, "{freedom}: {}", student(freedom));
        }
    }

    proptest! {
        #[test]
        fn no_report_can_hurt(a in proptest::collection::vec(any::<f64>(), 0..8), b in proptest::collection::vec(0.0..1e9, 0..8)) {
            let named = |all: [Value; 3]| all.map(|report| (report, String::new()));
            let _ = text(&named([report(&a), report(&b), json!(3)]));
            let _ = json(&named([json!({"series": {"answers": a, "hits": b, "p99_ms": {}}}), json!([1]), report(&a)]));
        }
    }
}
