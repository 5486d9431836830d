// SPDX-License-Identifier: BSD-2-Clause
//! Hit rates over memory, as `lacquer simulate --format json` has them.

use serde_json::Value;

#[derive(Clone, PartialEq, Debug)]
pub struct HitRateCurve {
    /// Memory in bytes and hits of a hundred requests, ascending.
    points: Vec<(f64, f64)>,
    /// Points that are as good as unknown, and left out.
    unsure: usize,
}

/// A result of another kind is refused before it is read whole.
const MAX_BYTES: u64 = 64 << 20;
/// A hit rate that may be wrong by more, in points of a hundred, is none: simulate shows `?` in its place.
const MOST_ERROR: f64 = 25.0;

impl HitRateCurve {
    /// Reads a file.
    ///
    /// # Errors
    /// It can't be read, or isn't what simulate writes.
    pub fn read(file: &str) -> Result<HitRateCurve, String> {
        let length = std::fs::metadata(file).map_err(|error| format!("{file}: {error}"))?.len();
        if length > MAX_BYTES {
            return Err(format!("{file}: {length} bytes are no result of lacquer simulate"));
        }
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        HitRateCurve::parse(&text).map_err(|why| format!("{file}: {why}"))
    }

    fn parse(text: &str) -> Result<HitRateCurve, String> {
        let wrong = || "isn't what lacquer simulate --format json writes".to_owned();
        let all: Value = serde_json::from_str(text).map_err(|error| format!("{}: {error}", wrong()))?;
        let curves = all["cases"][0]["curves"].as_array().ok_or_else(wrong)?;
        let curve = curves.iter().find(|curve| curve["policy"] == "lacquer").or(curves.first()).ok_or_else(wrong)?;
        let points = curve["points"].as_array().ok_or_else(wrong)?;
        let point = |point: &Value| {
            let (memory, hits) = (point["memory_bytes"].as_f64()?, point["hit_percent"].as_f64()?);
            // No number in JSON: an error without end.
            let is_within = |error: &Value| error.as_f64().is_some_and(|error| error <= MOST_ERROR);
            let is_sure = point.get("hit_error").is_none_or(is_within);
            (memory >= 1.0 && (0.0..=100.0).contains(&hits)).then_some((is_sure, (memory, hits)))
        };
        let all: Vec<(bool, (f64, f64))> = points.iter().map(point).collect::<Option<_>>().ok_or_else(wrong)?;
        let points: Vec<(f64, f64)> = all.iter().filter(|(is_sure, _)| *is_sure).map(|(_, point)| *point).collect();
        let is_sorted = all.windows(2).all(|pair| pair[0].1.0 < pair[1].1.0);
        if all.is_empty() || !is_sorted {
            return Err(wrong());
        }
        if points.is_empty() {
            return Err(format!("no hit rate in it is known to {MOST_ERROR} points: simulate a longer log"));
        }
        Ok(HitRateCurve { unsure: all.len() - points.len(), points })
    }

    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    pub fn remark(&self) -> Option<String> {
        let n = self.unsure;
        (n > 0).then(|| format!("{n} sizes left out: their hit rates may be wrong by more than {MOST_ERROR} points"))
    }

    /// Hits of a hundred with that memory: between two points by the logarithm of the memory; beyond them as at the nearest, with less
    /// than the first in proportion.
    pub fn hits(&self, memory: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 < memory);
        match (after.checked_sub(1).and_then(|at| self.points.get(at)), self.points.get(after)) {
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
        let curve = HitRateCurve::parse(TEXT).unwrap();
        assert_eq!([512.0, 1024.0, 2048.0, 4096.0, 1e9].map(|m| curve.hits(m)), [25.0, 50.0, 70.0, 90.0, 90.0]);
    }

    #[test]
    fn what_is_as_good_as_unknown_is_left_out() {
        let text = TEXT.replace("50.0}", "50.0, \"hit_error\": 25.1}").replace("90.0}", "90.0, \"hit_error\": 25}");
        let curve = HitRateCurve::parse(&text).unwrap();
        assert_eq!(curve.points(), [(4096.0, 90.0)]);
        assert!(curve.remark().is_some_and(|remark| remark.starts_with("1 sizes left out")));
        let error = HitRateCurve::parse(&text.replace("25}", "26}")).unwrap_err();
        assert!(error.contains("no hit rate"), "{error}");
        assert!(HitRateCurve::parse(&text.replace("25}", "null}")).is_err());
        assert_eq!(HitRateCurve::parse(TEXT).unwrap().remark(), None);
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
            assert!(HitRateCurve::parse(text).is_err(), "{text}");
        }
    }
}
