// SPDX-License-Identifier: BSD-2-Clause
//! Tests of the figures: tables of facts, and a naive reference.

use proptest::prelude::*;

use super::*;

fn plan(percents: &[f64]) -> PercentilePlan {
    PercentilePlan { thresholds: percents.iter().map(|p| Threshold::new(*p)).collect(), ..PercentilePlan::default() }
}

fn show(figures: &Figures) -> String {
    let text = |list: &[Figure]| list.iter().map(|(n, v)| format!("{n}={}", number::show(*v))).collect::<Vec<_>>();
    let mut all = text(&figures.plain);
    all.extend(figures.bins.iter().flat_map(|bins| text(bins)));
    all.join(" ")
}

fn check(plan: &PercentilePlan, values: &[f64], expected: &str) {
    let got = figures(plan, b"render.time", values, values.len() as f64, 10.0);
    assert_eq!(show(&got), expected);
}

fn only(plan: PercentilePlan, names: &[&str]) -> PercentilePlan {
    PercentilePlan { only: names.iter().map(|n| (*n).to_owned()).collect(), ..plan }
}

#[test]
fn nothing_and_one() {
    check(&plan(&[90.0]), &[], "count=0 count_ps=0");
    let one = "count_90=1 mean_90=100 upper_90=100 sum_90=100 sum_squares_90=10000 \
               std=0 upper=100 lower=100 count=1 count_ps=0.1 sum=100 sum_squares=10000 mean=100 median=100";
    check(&plan(&[90.0]), &[100.0], one);
    check(&only(plan(&[-10.0]), &["lower_percent"]), &[100.0], "lower_top10=100");
}

#[test]
fn thresholds() {
    let names = ["count_percent", "mean_percent", "upper_percent", "lower_percent", "sum_percent"];
    let three = [100.0, 200.0, 300.0];
    check(&only(plan(&[50.0]), &names), &three, "count_50=2 mean_50=150 upper_50=200 sum_50=300");
    check(&only(plan(&[-40.0]), &names), &three, "count_top40=1 mean_top40=300 lower_top40=300 sum_top40=300");
    check(&only(plan(&[0.1, 90.0]), &names), &three, "count_90=3 mean_90=200 upper_90=300 sum_90=600");
    // All of them by the upper end: figures, where node has NaN.
    check(&only(plan(&[-90.0]), &names), &three, "count_top90=3 mean_top90=200 lower_top90=100 sum_top90=600");
    check(&only(plan(&[150.0]), &names), &three, "count_150=3 mean_150=200 upper_150=300 sum_150=600");
    // A fraction isn't `_percent`: its name ends in `_9`, as in node.
    check(&only(plan(&[99.9]), &["mean_99_percent"]), &three, "mean_99_9=200");
}

#[test]
fn histograms() {
    let histogram = |metric: &str, bins: &[f64]| BucketHistogram {
        metric: metric.into(),
        bins: bins.iter().map(|b| BucketHistogram::bin(*b)).collect(),
    };
    let values = [0.5, 1.0, 5.0, 50.0];
    let with = |list: Vec<BucketHistogram>| {
        only(PercentilePlan { histograms: list, ..PercentilePlan::default() }, &["histogram"])
    };
    let inf = f64::INFINITY;
    check(&with(vec![histogram("", &[1.0, 2.5, inf])]), &values, "bin_1=1 bin_2_5=1 bin_inf=2");
    check(&with(vec![histogram("render", &[1.0])]), &values, "bin_1=1");
    check(&with(vec![histogram("foo", &[1.0])]), &values, "");
    check(&with(vec![histogram("render", &[]), histogram("", &[1.0])]), &values, "");
}

proptest! {
    #[test]
    fn agrees_with_the_plain_definition(
        mut values in proptest::collection::vec(0u32..10_000, 1..60),
        percent in prop_oneof![-100i32..=-1, 1i32..=100],
    ) {
        values.sort_unstable();
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let got = figures(&plan(&[f64::from(percent)]), b"", &values, values.len() as f64, 1.0);
        let find = |stem: &str| got.plain.iter().find(|(n, _)| n.starts_with(stem)).map(|(_, v)| *v);
        let taken = if values.len() == 1 { 1 } else {
            (f64::from(percent.abs()) / 100.0 * values.len() as f64 + 0.5).floor() as usize
        };
        prop_assert_eq!(find("sum_squares_").is_some(), taken > 0);
        if taken > 0 {
            let part = if percent > 0 { &values[..taken] } else { &values[values.len() - taken..] };
            prop_assert_eq!(find("sum_"), Some(part.iter().sum::<f64>()));
            prop_assert_eq!(find("count_"), Some(taken as f64));
            let bound = if percent > 0 { part[taken - 1] } else { part[0] };
            prop_assert_eq!(find(if percent > 0 { "upper_" } else { "lower_" }), Some(bound));
        }
    }
}
