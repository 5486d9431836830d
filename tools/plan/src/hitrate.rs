// SPDX-License-Identifier: BSD-2-Clause
//! Hit rates over memory, as `lacquer simulate --format json` has them.

use serde_json::Value;

/// One policy's curve: memory in bytes and hits of a hundred requests, ascending.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve(Vec<(f64, f64)>);

/// A result of another kind is refused before it is read whole.
const MAX_BYTES: u64 = 64 << 20;

impl Curve {
    /// Of a file.
    ///
    /// # Errors
    /// It can't be read, or isn't what simulate writes.
    pub fn read(file: &str) -> Result<Curve, String> {
        let length = std::fs::metadata(file).map_err(|error| format!("{file}: {error}"))?.len();
        if length > MAX_BYTES {
            return Err(format!("{file}: {length} bytes are no result of lacquer simulate"));
        }
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        Curve::parse(&text).map_err(|why| format!("{file}: {why}"))
    }

    fn parse(text: &str) -> Result<Curve, String> {
        let wrong = || "isn't what lacquer simulate --format json writes".to_owned();
        let all: Value = serde_json::from_str(text).map_err(|error| format!("{}: {error}", wrong()))?;
        let curves = all["cases"][0]["curves"].as_array().ok_or_else(wrong)?;
        let curve = curves.iter().find(|curve| curve["policy"] == "lacquer").or(curves.first()).ok_or_else(wrong)?;
        let points = curve["points"].as_array().ok_or_else(wrong)?;
        let point = |point: &Value| {
            let (memory, hits) = (point["memory_bytes"].as_f64()?, point["hit_percent"].as_f64()?);
            (memory >= 1.0 && (0.0..=100.0).contains(&hits)).then_some((memory, hits))
        };
        let points: Vec<(f64, f64)> = points.iter().map(point).collect::<Option<_>>().ok_or_else(wrong)?;
        let is_sorted = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if points.is_empty() || !is_sorted { Err(wrong()) } else { Ok(Curve(points)) }
    }

    /// Its points.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }

    /// Hits of a hundred with that memory: between two points by the logarithm of the memory; beyond them as at the nearest, with less
    /// than the first in proportion.
    pub fn hits(&self, memory: f64) -> f64 {
        let after = self.0.partition_point(|point| point.0 < memory);
        match (after.checked_sub(1).and_then(|at| self.0.get(at)), self.0.get(after)) {
            (Some(&(low, hits)), Some(&(high, more))) => {
                hits + (more - hits) * (memory.log2() - low.log2()) / (high.log2() - low.log2())
            }
            (None, Some(&(first, hits))) => hits * (memory / first).clamp(0.0, 1.0),
            (Some(&(_, hits)), None) => hits,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"requests": 9, "cases": [{"case": "as it is", "curves": [
        {"policy": "lru", "points": [{"memory_bytes": 1024, "hit_percent": 1}]},
        {"policy": "lacquer", "points": [{"memory_bytes": 1024, "hit_percent": 50.0}, {"memory_bytes": 4096, "hit_percent": 90.0}]}]}]}"#;

    #[test]
    fn hits_between_points() {
        let curve = Curve::parse(TEXT).unwrap();
        assert_eq!([512.0, 1024.0, 2048.0, 4096.0, 1e9].map(|m| curve.hits(m)), [25.0, 50.0, 70.0, 90.0, 90.0]);
    }

    #[test]
    fn other_files_are_refused() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"cases": [{"curves": []}]}"#,
            r#"{"cases": [{"curves": [{"points": []}]}]}"#,
            r#"{"cases": [{"curves": [{"points": [{"memory_bytes": 0, "hit_percent": 1}]}]}]}"#,
            r#"{"cases": [{"curves": [{"points": [{"memory_bytes": 9, "hit_percent": 1}, {"memory_bytes": 8, "hit_percent": 1}]}]}]}"#,
        ] {
            assert!(Curve::parse(text).is_err(), "{text}");
        }
    }
}
