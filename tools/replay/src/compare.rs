// SPDX-License-Identifier: BSD-2-Clause
//! Two runs side by side, and whether what differs is more than noise.
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

/// What is compared: its name, whether more is better, the samples of a report.
type Measure = (&'static str, bool, fn(&Value) -> Vec<f64>);

const MEASURES: [Measure; 5] = [
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
];

fn samples(report: &Value, name: &str) -> Vec<f64> {
    report["series"][name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

/// Reads a report.
///
/// # Errors
/// It isn't there, or is none.
pub fn read(name: &str) -> Result<Value, String> {
    let meta = fs::metadata(name).map_err(|e| format!("{name}: {}", logq::source::strerror(&e)))?;
    if meta.len() > MAX_BYTES {
        return Err(format!("{name}: too long for a report"));
    }
    let bytes = fs::read(name).map_err(|e| format!("{name}: {}", logq::source::strerror(&e)))?;
    let report: Value = serde_json::from_slice(&bytes).map_err(|e| format!("{name}: not a report: {e}"))?;
    if report["series"]["answers"].is_array() { Ok(report) } else { Err(format!("{name}: not a report of one run")) }
}

/// What the comparison says of one measure.
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
    /// Percent of `a`.
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
    /// How many independent samples these are worth.
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

/// The comparison as JSON.
pub fn json(a: &Value, b: &Value) -> Value {
    let rows = MEASURES.iter().filter_map(|measure| row(measure, a, b));
    let of = |r: Row| {
        json!({"measure": r.name, "a": round(r.a, 3), "b": round(r.b, 3), "change_percent": round(r.change, 2),
            "noise_percent": round(r.noise, 2), "verdict": r.verdict.word()})
    };
    json!({"rows": rows.map(of).collect::<Vec<_>>(), "notes": notes(a, b)})
}

fn notes(a: &Value, b: &Value) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, report) in [("A", a), ("B", b)] {
        let (failed, sent) = (report["failed"].as_u64().unwrap_or(0), report["sent"].as_u64().unwrap_or(0));
        if failed > 0 {
            notes.push(format!("{name}: {failed} of {sent} requests failed"));
        }
        let noted = report["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        notes.extend(noted.map(|note| format!("{name}: {note}")));
    }
    let cost = |r: &Value| r["server"]["us_per_answer"].as_f64();
    if let (Some(x), Some(y)) = (cost(a), cost(b)) {
        notes.push(format!("the server's CPU time: {x} us an answer in A, {y} in B (one value each: no verdict)"));
    }
    notes
}

/// The comparison as text.
pub fn text(a: &Value, b: &Value) -> String {
    let mut out = format!("{:<10} {:>12} {:>12} {:>10} {:>10}  {}\n", "", "A", "B", "change", "noise", "B is");
    for r in MEASURES.iter().filter_map(|measure| row(measure, a, b)) {
        let _ = writeln!(
            out,
            "{:<10} {:>12} {:>12} {:>8} % {:>8} %  {}",
            r.name,
            round(r.a, 3),
            round(r.b, 3),
            format!("{:+.1}", r.change),
            format!("+-{:.1}", r.noise),
            r.verdict.word()
        );
    }
    notes(a, b).iter().for_each(|note| {
        let _ = writeln!(out, "note       {note}");
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Rng;
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
    fn equal_servers_are_rarely_told_apart() {
        let mut rng = Rng::new(3);
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
            let _ = text(&report(&a), &report(&b));
            let _ = json(&json!({"series": {"answers": a, "hits": b, "p99_ms": {}}}), &json!([1]));
        }
    }
}
