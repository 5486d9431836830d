// SPDX-License-Identifier: BSD-2-Clause
//! A timer's figures of one interval: thresholds, spread, histogram. Same operations in the same order as node statsd,
//! so that the last digit agrees.
//!
//! One difference on purpose: for a threshold like -90 that takes in all values, node reads before the start of its sums
//! and gives NaN for mean, sum and sum of squares; here they are those of all values.

use std::sync::Arc;

use crate::number;

pub type Figure = (Arc<str>, f64);

/// A percentage of a timer's values to look at: the lowest when positive, the highest when negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// Percentage, with its sign.
    pub percent: f64,
    names: [Arc<str>; 5],
}

impl Threshold {
    /// The names end in the percentage with its first `.` as `_` and its `-` as `top`.
    pub fn new(percent: f64) -> Threshold {
        let clean = number::show(percent).replacen('.', "_", 1).replacen('-', "top", 1);
        let bound = if percent > 0.0 { "upper" } else { "lower" };
        let names = ["count", "mean", bound, "sum", "sum_squares"].map(|stem| Arc::from(format!("{stem}_{clean}")));
        Threshold { percent, names }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct BucketHistogram {
    /// Part of a name; empty is part of every name.
    pub metric: Vec<u8>,
    /// Upper bounds, exclusive, ascending; infinity last if wanted. With the name of each.
    pub bins: Vec<(f64, Arc<str>)>,
}

impl BucketHistogram {
    pub fn bin(bound: f64) -> (f64, Arc<str>) {
        let text = if bound.is_infinite() { "inf".to_owned() } else { number::show(bound) };
        (bound, format!("bin_{}", text.replacen('.', "_", 1)).into())
    }

    /// The first of `all` that is for this timer.
    pub fn of<'a>(all: &'a [BucketHistogram], name: &[u8]) -> Option<&'a BucketHistogram> {
        let fits = |h: &&BucketHistogram| h.metric.is_empty() || memchr::memmem::find(name, &h.metric).is_some();
        all.iter().find(fits).filter(|h| !h.bins.is_empty())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PercentilePlan {
    /// Thresholds in the order of the figures.
    pub thresholds: Vec<Threshold>,
    /// The first match counts.
    pub histograms: Vec<BucketHistogram>,
    /// Figures to give; empty is all. `_percent` stands for `_N` and `_topN`.
    pub only: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Figures in node's order.
    pub plain: Vec<Figure>,
    pub bins: Option<Vec<Figure>>,
}

/// Works out a timer. `values` ascend; `events` is their number with rates worked in.
pub fn figures(plan: &PercentilePlan, name: &[u8], values: &[f64], events: f64, interval_seconds: f64) -> Figures {
    let mut out = Figures::default();
    if values.is_empty() {
        out.plain = vec![("count".into(), 0.0), ("count_ps".into(), 0.0)];
    } else {
        at_thresholds(plan, values, &mut out.plain);
        of_all(values, events, interval_seconds, &mut out.plain);
        out.bins = BucketHistogram::of(&plan.histograms, name).map(|h| bins(&h.bins, values));
    }
    if !plan.only.is_empty() {
        out.plain.retain(|(name, _)| plan.only.contains(&generalised(name)));
        out.bins = out.bins.filter(|_| plan.only.iter().any(|name| name == "histogram"));
    }
    out
}

fn at_thresholds(plan: &PercentilePlan, values: &[f64], out: &mut Vec<Figure>) {
    let count = values.len();
    let (sums, squares) = running(values);
    for threshold in &plan.thresholds {
        let taken = if count == 1 { 1 } else { share(threshold.percent, count) };
        if taken == 0 {
            continue;
        }
        let before = count - taken;
        let (bound, sum, sum_squares) = if threshold.percent > 0.0 || count == 1 {
            (values[taken - 1], sums[taken - 1], squares[taken - 1])
        } else if before == 0 {
            (values[0], sums[count - 1], squares[count - 1])
        } else {
            (values[before], sums[count - 1] - sums[before - 1], squares[count - 1] - squares[before - 1])
        };
        let taken = taken as f64;
        let mean = if count == 1 { values[0] } else { sum / taken };
        let figures = [taken, mean, bound, sum, sum_squares];
        out.extend(threshold.names.iter().cloned().zip(figures));
    }
}

/// Number of values among `count` that a percentage is.
fn share(percent: f64, count: usize) -> usize {
    // More than 100 percent is all.
    number::round(percent.abs() / 100.0 * count as f64).min(count as f64) as usize
}

fn running(values: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (mut sums, mut squares) = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
    let (mut sum, mut square) = (0.0, 0.0);
    for (at, &value) in values.iter().enumerate() {
        sum = if at == 0 { value } else { value + sum };
        square = if at == 0 { value * value } else { value * value + square };
        sums.push(sum);
        squares.push(square);
    }
    (sums, squares)
}

fn of_all(values: &[f64], events: f64, interval_seconds: f64, out: &mut Vec<Figure>) {
    let count = values.len();
    let (sums, squares) = running(values);
    let (sum, sum_squares) = (sums[count - 1], squares[count - 1]);
    let mean = sum / count as f64;
    let spread = values.iter().fold(0.0, |total, value| total + (value - mean) * (value - mean));
    let middle = count / 2;
    let median = if count % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
    let figures = [
        ("std", (spread / count as f64).sqrt()),
        ("upper", values[count - 1]),
        ("lower", values[0]),
        ("count", events),
        ("count_ps", events / interval_seconds),
        ("sum", sum),
        ("sum_squares", sum_squares),
        ("mean", mean),
        ("median", median),
    ];
    out.extend(figures.map(|(name, value)| (Arc::from(name), value)));
}

fn bins(bounds: &[(f64, Arc<str>)], values: &[f64]) -> Vec<Figure> {
    let mut rest = values;
    let count = |(bound, name): &(f64, Arc<str>)| {
        // An infinite bound takes the infinite values too.
        let below = if *bound == f64::INFINITY { rest.len() } else { rest.partition_point(|value| value < bound) };
        rest = &rest[below..];
        (Arc::clone(name), below as f64)
    };
    bounds.iter().map(count).collect()
}

/// `mean_90` and `mean_top90` become `mean_percent`.
fn generalised(name: &str) -> String {
    match name.rsplit_once('_') {
        Some((stem, tail)) => {
            let digits = tail.strip_prefix("top").unwrap_or(tail);
            if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                return format!("{stem}_percent");
            }
            name.to_owned()
        }
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
