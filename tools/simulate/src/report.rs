// SPDX-License-Identifier: BSD-2-Clause
//! What is told: tables and curves as text, JSON and a picture (SVG).

use accesslog::Gathered;
use serde_json::{Value, json};

use crate::bodies::Compared;
use crate::case::{CaseTally, KeptAnswers, Pass};
use crate::chart::{self, ChartCurve, human};
use crate::curve::{CurvePoint, EvictBy, Percent};
use crate::options::SimulateOptions;
use crate::trace::Trace;

/// A size within so many points of the best is enough.
const ENOUGH: f64 = 1.0;
/// Greatest error; with more a percentage says nothing.
const MOST_ERROR: f64 = 25.0;
const MOST_GROUPS: usize = 10;
const COLUMNS: usize = 4;

pub struct SimulateReport<'a> {
    options: &'a SimulateOptions,
    gathered: &'a Gathered<CaseTally>,
    cases: Vec<Shown>,
    compared: Option<Compared>,
    is_cut: bool,
}

struct Shown {
    name: String,
    objects: f64,
    working_set: u64,
    /// Share of all requests of the log that are the first for their object.
    first: f64,
    most_variants: u32,
    possible_variants: Option<u64>,
    /// Curves in the order of the policies.
    curves: Vec<(EvictBy, Vec<CurvePoint>)>,
}

/// Bytes that a cache of all that was asked for would hold.
pub fn working_set(trace: &Trace, bodies: &[u64], by: EvictBy, beside: u64) -> u64 {
    (bodies.iter().map(|body| by.charge(*body, beside) as f64).sum::<f64>() / trace.rate()) as u64
}

impl<'a> SimulateReport<'a> {
    /// `points`: for each case those of all policies, so many sizes each.
    pub fn new(
        options: &'a SimulateOptions,
        gathered: &'a Gathered<CaseTally>,
        bodies: &[Vec<u64>],
        sizes: usize,
        points: Vec<Vec<Option<CurvePoint>>>,
        compared: Option<Compared>,
        is_over: bool,
    ) -> SimulateReport<'a> {
        let tally = &gathered.result;
        let is_cut = is_over || points.iter().flatten().any(Option::is_none);
        let cases = options.cases.iter().zip(bodies).zip(points).map(|((case, bodies), points)| {
            let trace = &kept(tally, &case.rules).trace;
            let objects = trace.objects().len() as f64 / trace.rate();
            let curves = options.policies.iter().zip(points.chunks(sizes.max(1)));
            Shown {
                name: if case.words.is_empty() { "as it is".to_owned() } else { case.words.clone() },
                objects,
                working_set: working_set(trace, bodies, options.policies[0], case.beside),
                first: percent(objects, tally.requests as f64),
                most_variants: trace.most_variants(),
                possible_variants: case.rules.scheme.possible_variants(),
                curves: curves.map(|(by, points)| (*by, points.iter().flatten().copied().collect())).collect(),
            }
        });
        SimulateReport { options, gathered, cases: cases.collect(), compared, is_cut }
    }

    /// The requests that don't count, and what else there is to know.
    pub fn remarks(&self) -> Vec<String> {
        let tally = &self.gathered.result;
        let trace = self.trace();
        let unknown = trace.unknown_bodies();
        let counts = [
            (unknown as u64, "objects whose length the log doesn't tell count as average ones"),
            (tally.clock.doubted, "requests are of quite another time than those around them: theirs was taken"),
            (tally.clock.went_back, "times the log goes back by more than an hour: are its files in order?"),
            (trace.forgotten, "requests are too old: few URLs are asked for so often that only the last ones count"),
        ];
        let counts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        let untold = tally.untold().into_iter().map(|(option, field)| {
            let words = if option == "--vary" { format!("--vary {field}") } else { option.to_owned() };
            format!("no request of this log tells {field}: {words} says nothing")
        });
        let cut = self.is_cut.then(|| "ended early: what isn't there wasn't simulated".to_owned());
        counts.chain(untold).chain(cut).chain(self.gathered.remarks()).collect()
    }

    fn trace(&self) -> &Trace {
        &kept(&self.gathered.result, &self.options.cases[0].rules).trace
    }

    pub fn text(&self) -> String {
        let mut text = self.heading();
        text += "\n";
        text += &self.table();
        if let Some(enough) = self.enough() {
            text += &format!("\n{enough}\n");
        }
        let chart = chart::text(&self.curves(true));
        if !chart.is_empty() {
            text += "\nRequests that are hits\n\n";
            text += &chart;
        }
        if self.cases.len() > 1 {
            text += "\n";
            text += &self.comparison();
        }
        text + &self.duplicates_text()
    }

    fn heading(&self) -> String {
        let (tally, case, trace) = (&self.gathered.result, &self.cases[0], self.trace());
        let kept = kept(tally, &self.options.cases[0].rules);
        let mut text = format!(
            "{} requests, {} bytes sent; {:.1} % of the requests may be cached\n",
            tally.requests,
            human(tally.bytes),
            percent(kept.requests as f64, tally.requests as f64)
        );
        text += &format!(
            "{:.0} objects, {} in a cache; {:.1} % of the requests are the first for theirs\n",
            case.objects,
            human(case.working_set),
            case.first
        );
        if tally.told > 0 {
            let hits = percent(tally.told_hits as f64, tally.told as f64);
            text += &format!("by the log itself {hits:.1} % of the requests were hits\n");
        }
        if let Some(variants) = variants(case) {
            text += &format!("{variants} variants of one URL\n");
        }
        if trace.rate() < 1.0 {
            text +=
                &format!("sampled: {} requests, those for one URL in {:.0}\n", trace.refs().len(), 1.0 / trace.rate());
        }
        text
    }

    fn table(&self) -> String {
        let case = &self.cases[0];
        let mut text = format!("{:>8}", "memory");
        for (by, _) in &case.curves {
            text += &format!("  {:>16}{:>14}", format!("{}: requests", by.name()), "bytes");
        }
        text += "\n";
        for n in 0..case.curves.iter().map(|curve| curve.1.len()).max().unwrap_or(0) {
            let memory = case.curves.iter().find_map(|curve| curve.1.get(n)).map_or(0, |point| point.memory);
            text += &format!("{:>8}", human(memory));
            for (_, points) in &case.curves {
                let cell =
                    |of: fn(&CurvePoint) -> Percent| points.get(n).map_or_else(String::new, |point| cell(of(point)));
                text += &format!("  {:>16}{:>14}", cell(|p| p.requests), cell(|p| p.bytes));
            }
            text.truncate(text.trim_end().len());
            text += "\n";
        }
        text
    }

    /// The least size with which nearly all is a hit that can be one.
    fn enough(&self) -> Option<String> {
        let (_, points) = self.cases[0].curves.first()?;
        let best = sure(points).map(|point| point.requests.value).fold(0.0, f64::max);
        let enough = sure(points).find(|point| point.requests.value >= best - ENOUGH)?;
        let memory = human(enough.memory);
        let text = match best - enough.requests.value {
            more if more >= 0.05 => {
                format!("{memory} is enough: with more, {more:.1} % more of the requests would be hits")
            }
            _ => format!("{memory} is enough: with more, no more requests would be hits"),
        };
        (points.len() > 1 && best > 0.0).then_some(text)
    }

    fn comparison(&self) -> String {
        let Some((by, points)) = self.cases[0].curves.first() else { return String::new() };
        let count = points.len().min(COLUMNS);
        let chosen: Vec<usize> = (1..=count).map(|n| (n * points.len()).div_ceil(count).saturating_sub(1)).collect();
        let mut text = format!("{:<30}{:>9}{:>8}", format!("case ({})", by.name()), "objects", "cache");
        chosen.iter().for_each(|&n| text += &format!("{:>8}", human(points[n].memory)));
        text += "\n";
        for case in &self.cases {
            if case.name.chars().count() > 29 {
                text += &format!("{}\n{:<30}", case.name, "");
            } else {
                text += &format!("{:<30}", case.name);
            }
            text += &format!("{:>9.0}{:>8}", case.objects, human(case.working_set));
            for &n in &chosen {
                let point = case.curves.first().and_then(|curve| curve.1.get(n));
                let shown =
                    point.map(|point| if is_sure(point) { format!("{:.1}", point.requests.value) } else { "?".into() });
                text += &format!("{:>8}", shown.as_deref().unwrap_or("-"));
            }
            text += &variants(case).map_or_else(String::new, |variants| format!("\n  {variants} variants of one URL"));
            text += "\n";
        }
        text
    }

    fn duplicates_text(&self) -> String {
        let duplicates = &self.gathered.result.duplicates;
        let groups = duplicates.groups();
        let mut text = String::new();
        if let Some(compared) = &self.compared {
            text += &format!("\nStored more than once: {} asked for, {} failed\n", compared.asked, compared.failed);
            for same in compared.same.iter().take(MOST_GROUPS) {
                text += &format!("{:>8} saved: {}\n", human(same.saved()), same.urls.join(" "));
            }
        } else if !groups.is_empty() {
            let sum: f64 = groups.iter().map(|group| group.saved() as f64).sum::<f64>() / duplicates.rate();
            text += &format!(
                "\nMaybe stored more than once, by name and length: {}; --bodies HOST:PORT looks\n",
                human(sum as u64)
            );
            for group in groups.iter().take(MOST_GROUPS) {
                let urls: Vec<String> = group.urls.iter().take(3).map(|(host, url)| format!("{host}{url}")).collect();
                text += &format!("{:>8} in {} objects: {}\n", human(group.saved()), group.objects(), urls.join(" "));
            }
        }
        text
    }

    /// The curves to draw: of the first case each policy; of others, unless there is room for two alone, the first
    /// policy.
    fn curves(&self, few: bool) -> Vec<ChartCurve> {
        let named = |name: String, points: &[CurvePoint]| ChartCurve {
            name,
            points: sure(points).map(|point| (point.memory, point.requests.value)).collect(),
        };
        let first = self.cases[0].curves.iter().map(|(by, points)| named(by.name().to_owned(), points));
        let others = self.cases[1..].iter().filter(|_| !few);
        let others = others.filter_map(|case| case.curves.first().map(|curve| named(case.name.clone(), &curve.1)));
        first.chain(others).collect()
    }

    pub fn svg(&self) -> String {
        chart::svg(&self.curves(false))
    }

    pub fn json(&self) -> Value {
        let (tally, trace) = (&self.gathered.result, self.trace());
        let kept = kept(tally, &self.options.cases[0].rules);
        let passed: serde_json::Map<String, Value> =
            Pass::ALL.iter().map(|pass| (pass.word().to_owned(), json!(tally.passed[*pass as usize]))).collect();
        json!({
            "requests": tally.requests, "bytes": tally.bytes, "cacheable": kept.requests, "passed": passed,
            "measured": (tally.told > 0).then(|| json!({
                "requests": tally.told, "hit_percent": rounded(percent(tally.told_hits as f64, tally.told as f64)),
            })),
            "sampled": { "requests": trace.refs().len(), "keys": trace.objects().len(), "rate": trace.rate() },
            "cases": self.cases.iter().map(Shown::json).collect::<Vec<_>>(),
            "duplicates": self.duplicates_json(),
            "remarks": self.remarks(),
        })
    }

    fn duplicates_json(&self) -> Value {
        let duplicates = &self.gathered.result.duplicates;
        let groups: Vec<Value> = duplicates
            .groups()
            .iter()
            .take(MOST_GROUPS)
            .map(|group| {
                let urls: Vec<String> = group.urls.iter().map(|(host, url)| format!("{host}{url}")).collect();
                json!({ "bytes": group.bytes, "objects": group.objects(), "requests": group.requests,
                        "saved_bytes": group.saved(), "urls": urls })
            })
            .collect();
        let saved: f64 = duplicates.groups().iter().map(|group| group.saved() as f64).sum();
        let compared = self.compared.as_ref().map(|compared| {
            let same = compared.same.iter();
            let same = same.map(|s| json!({ "bytes": s.bytes, "saved_bytes": s.saved(), "urls": s.urls }));
            json!({ "asked": compared.asked, "failed": compared.failed, "same": same.collect::<Vec<_>>() })
        });
        json!({ "saved_bytes": (saved / duplicates.rate()) as u64, "groups": groups, "compared": compared })
    }
}

impl Shown {
    fn json(&self) -> Value {
        let point = |point: &CurvePoint| {
            json!({
                "memory_bytes": point.memory,
                "hit_percent": rounded(point.requests.value), "hit_error": rounded(point.requests.error),
                "byte_hit_percent": rounded(point.bytes.value), "byte_hit_error": rounded(point.bytes.error),
            })
        };
        let curve = |(by, points): &(EvictBy, Vec<CurvePoint>)| {
            let points: Vec<Value> = points.iter().map(point).collect();
            json!({ "policy": by.name(), "points": points })
        };
        json!({
            "case": self.name, "keys": self.objects.round() as u64, "working_set_bytes": self.working_set,
            "first_requests_percent": rounded(self.first),
            "variants": { "most": self.most_variants, "possible": self.possible_variants },
            "curves": self.curves.iter().map(curve).collect::<Vec<_>>(),
        })
    }
}

fn kept<'a>(tally: &'a CaseTally, rules: &crate::case::CacheRules) -> &'a KeptAnswers {
    tally.of(rules).expect("there is one for each case")
}

/// The number of variants that a URL has, where it may have some.
fn variants(case: &Shown) -> Option<String> {
    match case.possible_variants {
        Some(1) => None,
        Some(possible) => Some(format!("{} of {possible} possible", case.most_variants)),
        None => Some(format!("{} (no bound)", case.most_variants)),
    }
}

fn is_sure(point: &CurvePoint) -> bool {
    point.requests.error <= MOST_ERROR
}

fn sure(points: &[CurvePoint]) -> impl Iterator<Item = &CurvePoint> {
    points.iter().filter(|point| is_sure(point))
}

fn cell(percent: Percent) -> String {
    if percent.error > MOST_ERROR {
        "?".to_owned()
    } else if percent.error > 0.0 {
        format!("{:.1} ±{:.1}", percent.value, percent.error)
    } else {
        format!("{:.1}", percent.value)
    }
}

pub fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part * 100.0 / whole }
}

pub fn rounded(percent: f64) -> f64 {
    (percent * 1e4).round() / 1e4
}
