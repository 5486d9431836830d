// SPDX-License-Identifier: BSD-2-Clause
//! `vcl.profile show`: the lines of a VCL with what they cost, and what could be had by another order.

use std::fmt::Write;

use tables::json::quote;
use tables::vclsubs::Method;
use vrt::profile::{CountedOps, ProfileLine};

/// No advice is given on lines that take less than this part of a request's CPU time.
const WORTH: f64 = 0.01;
const ENOUGH: u64 = 1000;

pub(crate) struct ProfileSource<'a> {
    pub name: &'a str,
    pub text: &'a [u8],
}

pub(crate) struct Profiled<'a> {
    pub vcl: &'a str,
    pub on: bool,
    pub sources: &'a [ProfileSource<'a>],
    pub counted: &'a CountedOps,
}

impl Profiled<'_> {
    fn total(&self) -> u64 {
        self.counted.subroutines.iter().map(|sub| sub.nanos).sum()
    }

    fn requests(&self) -> u64 {
        self.counted.subroutines.iter().find(|sub| sub.method == Method::Recv).map_or(0, |sub| sub.runs)
    }

    /// The whole of which a line's cost is judged as a part: the worker's CPU time.
    fn worker(&self) -> u64 {
        self.counted.process_nanos.max(self.total())
    }

    /// The lines that ran, the most expensive first.
    fn shown(&self) -> Vec<&ProfileLine> {
        let mut lines: Vec<&ProfileLine> = self.counted.lines.iter().filter(|line| line.runs > 0).collect();
        lines.sort_by_key(|line| (!line.is_measurable, std::cmp::Reverse(line.nanos), line.source, line.line));
        lines
    }
}

pub(crate) fn report(profiled: &Profiled<'_>) -> String {
    let Profiled { vcl, on, sources, counted } = *profiled;
    let (lines, total) = (profiled.shown(), profiled.total());
    if lines.is_empty() {
        let reason = if on {
            "no request has come to it since counting began"
        } else {
            "no request came to it while counting was on (`vcl.profile on`)"
        };
        return format!("VCL {vcl}: nothing was counted: {reason}.\n");
    }
    let mut out = format!("VCL {vcl}: {}\n\n", summary(profiled));
    out.push_str("      runs   us/run    time  subroutine, with all that it calls\n");
    for sub in &counted.subroutines {
        let each = sub.nanos as f64 / 1e3 / sub.runs as f64;
        let share = percent(ratio(sub.nanos, total));
        let _ = writeln!(out, "{:10} {each:8.3} {share:>7}  {}", sub.runs, sub.method.sub_name());
    }
    out.push_str("\n      runs    held   us/run    time  line\n");
    let least = format!("<{:.3}", counted.look_nanos / 1e3);
    for line in &lines {
        let held = line.held.map_or(String::new(), |held| percent(ratio(held, line.runs)));
        let (each, share) = match line.is_measurable {
            true => (format!("{:.3}", line.nanos as f64 / 1e3 / line.runs as f64), percent(ratio(line.nanos, total))),
            false => (least.clone(), "0.0 %".to_owned()),
        };
        let (place, text) = (place(sources, line), text(sources, line));
        let _ = writeln!(out, "{:10} {held:>7} {each:>8} {share:>7}  {place}: {}", line.runs, cut(text.trim()));
    }
    if lines.iter().any(|line| !line.is_measurable) {
        let _ = writeln!(out, "\n{least}: under what can be measured: a look at the clock takes longer.");
    }
    let advice = advice(profiled);
    if !advice.is_empty() {
        out.push('\n');
        advice.iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    out
}

/// VCL's share of what a request costs.
fn summary(profiled: &Profiled<'_>) -> String {
    let (total, requests, all) = (profiled.total(), profiled.requests(), profiled.worker());
    if requests == 0 {
        return format!("{:.3} ms of CPU time", total as f64 / 1e6);
    }
    let each = |nanos: u64| nanos as f64 / 1e3 / requests as f64;
    let share = percent(ratio(total, all));
    format!("{:.3} us of a request's {:.1} us of CPU time ({share}), over {requests} requests", each(total), each(all))
}

pub(crate) fn report_json(profiled: &Profiled<'_>) -> String {
    let Profiled { vcl, on, sources, counted } = *profiled;
    let name = |line: &ProfileLine| quote(sources.get(line.source as usize).map_or("", |source| source.name));
    let one = |line: &&ProfileLine| {
        let held = line.held.map_or("null".to_owned(), |held| held.to_string());
        format!(
            "  {{ \"source\": {}, \"line\": {}, \"runs\": {}, \"held\": {held}, \"nanoseconds\": {}, \"measurable\": {}, \"text\": {} }}",
            name(line),
            line.line,
            line.runs,
            line.nanos,
            line.is_measurable,
            quote(text(sources, line).trim())
        )
    };
    let shown: Vec<String> = profiled.shown().iter().map(one).collect();
    let sub = |sub: &vrt::profile::Subroutine| {
        let name = quote(sub.method.sub_name());
        format!("  {{ \"name\": {name}, \"runs\": {}, \"nanoseconds\": {} }}", sub.runs, sub.nanos)
    };
    let subroutines: Vec<String> = counted.subroutines.iter().map(sub).collect();
    let advice: Vec<String> = advice(profiled).iter().map(|line| quote(line)).collect();
    format!(
        "{{ \"vcl\": {}, \"on\": {on}, \"nanoseconds\": {}, \"requests\": {}, \"worker_nanoseconds\": {}, \"subroutines\": [\n{}\n], \"lines\": [\n{}\n], \"advice\": [{}] }}",
        quote(vcl),
        profiled.total(),
        profiled.requests(),
        counted.process_nanos,
        subroutines.join(",\n"),
        shown.join(",\n"),
        advice.join(", ")
    )
}

const QUOTED: usize = 100;

fn cut(line: &str) -> String {
    match line.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

fn place(sources: &[ProfileSource<'_>], line: &ProfileLine) -> String {
    format!("{}:{}", sources.get(line.source as usize).map_or("?", |source| source.name), line.line)
}

fn text(sources: &[ProfileSource<'_>], line: &ProfileLine) -> String {
    let source = sources.get(line.source as usize).map_or(&b""[..], |source| source.text);
    let text = source.split(|c| *c == b'\n').nth(line.line.saturating_sub(1) as usize).unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Advice on making a request cheaper, as far as that is worth it; about lines that the VCL's author wrote.
fn advice(profiled: &Profiled<'_>) -> Vec<String> {
    let Profiled { sources, counted, .. } = *profiled;
    let (total, whole) = (profiled.total(), profiled.worker());
    let runs = counted.subroutines.iter().map(|sub| sub.runs).max().unwrap_or(0);
    if runs < ENOUGH {
        return Vec::new();
    }
    if ratio(total, whole) < WORTH {
        let share = percent(ratio(total, whole));
        return vec![format!(
            "All VCL takes {share} of the CPU time: optimising it would make no noticeable difference."
        )];
    }
    let mut out = Vec::new();
    let written =
        |line: &&ProfileLine| sources.get(line.source as usize).is_none_or(|source| source.name != "<builtin>");
    let lines: Vec<ProfileLine> = counted.lines.iter().filter(written).copied().collect();
    for line in lines.iter().filter(|line| line.is_measurable) {
        let share = ratio(line.nanos, whole);
        if line.held == Some(0) && line.runs >= ENOUGH && share >= WORTH {
            let place = place(sources, line);
            out.push(format!(
                "{place} was never true in {} runs and takes {} of a request's CPU time.",
                line.runs,
                percent(share)
            ));
        }
    }
    for chain in chains(sources, &lines) {
        let grouped: Vec<&ProfileLine> = chain.iter().copied().filter(|line| line.is_grouped).collect();
        if let [first, .., last] = grouped[..] {
            out.push(format!(
                "{} to {}: {} of {} tests are done by one lookup: neither their number nor their order matters.",
                place(sources, first),
                place(sources, last),
                grouped.len(),
                chain.len()
            ));
            continue;
        }
        let Some((at, saved)) = best_move(&chain) else { continue };
        if ratio(saved, whole) >= WORTH {
            out.push(format!(
                "{} holds {} of the time: tested before {} it would save about {} of a request's CPU time. The same \
                 happens only if none of the conditions from there on holds for the same request.",
                place(sources, chain[at]),
                percent(ratio(chain[at].held.unwrap_or(0), chain[0].runs)),
                place(sources, chain[0]),
                percent(ratio(saved, whole)),
            ));
        }
    }
    out
}

/// The chains of `if` and `elsif` of the same indentation, as far as their lines were counted.
fn chains<'a>(sources: &[ProfileSource<'_>], lines: &'a [ProfileLine]) -> Vec<Vec<&'a ProfileLine>> {
    let mut open: Vec<(usize, Vec<&ProfileLine>)> = Vec::new();
    let mut done = Vec::new();
    let mut source = 0;
    for line in lines.iter().filter(|line| line.held.is_some()) {
        if line.source != source {
            source = line.source;
            done.append(&mut open);
        }
        let text = text(sources, line);
        let words = text.trim_start_matches([' ', '\t', '}']);
        let depth = text.len() - text.trim_start().len();
        while open.last().is_some_and(|(deeper, _)| *deeper > depth) {
            done.extend(open.pop());
        }
        let goes_on = ["elsif", "elseif", "elif", "else if"].iter().any(|word| words.starts_with(word));
        match open.last_mut() {
            Some((same, chain)) if *same == depth && goes_on => chain.push(line),
            last => {
                if last.is_some_and(|(same, _)| *same == depth) {
                    done.extend(open.pop());
                }
                open.push((depth, vec![line]));
            }
        }
    }
    done.append(&mut open);
    done.into_iter().map(|(_, chain)| chain).filter(|chain| chain.len() > 1 && chain[0].runs >= ENOUGH).collect()
}

/// The test of a chain that should be its first, and how many nanoseconds that would have saved.
fn best_move(chain: &[&ProfileLine]) -> Option<(usize, u64)> {
    let each = |line: &ProfileLine| ratio(line.nanos, line.runs);
    let gain = |at: usize| {
        let before: f64 = chain[..at].iter().map(|line| each(line)).sum();
        let held = chain[at].held.unwrap_or(0) as f64;
        // Those for which it doesn't hold, and that it isn't reached by now, pay for it.
        let more = (chain[0].runs - chain[at].runs.min(chain[0].runs)) as f64 * each(chain[at]);
        held * before - more
    };
    // A test that does something must stay where it is, and what stands behind it too.
    let movable = chain.iter().take_while(|line| !line.acts).count();
    (1..movable)
        .map(|at| (at, gain(at)))
        .filter(|(_, gain)| *gain > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(at, gain)| (at, gain as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"sub vcl_recv {
    if (req.url ~ \"a\") {
        if (req.http.x) {
        }
    } elsif (req.url ~ \"b\") {
    } else if (req.url ~ \"c\") {
    }
    set req.http.y = \"1\";
}";

    /// Lines of vcl_recv in a worker that uses twice their time.
    fn of(name: &'static str, lines: &[ProfileLine]) -> Profiled<'static> {
        let sources: &'static [ProfileSource<'static>] = Box::leak(Box::new([ProfileSource { name, text: TEXT }]));
        let (nanos, runs) = (lines.iter().map(|l| l.nanos).sum(), lines.iter().map(|l| l.runs).max().unwrap_or(0));
        let recv = vrt::profile::Subroutine { method: Method::Recv, runs, nanos };
        let subroutines = if runs > 0 { vec![recv] } else { Vec::new() };
        let counted = CountedOps { subroutines, lines: lines.to_vec(), process_nanos: nanos * 2, look_nanos: 45.0 };
        Profiled { vcl: "boot", on: true, sources, counted: Box::leak(Box::new(counted)) }
    }

    fn line(line: u32, runs: u64, held: Option<u64>, nanos: u64) -> ProfileLine {
        ProfileLine { source: 0, line, runs, held, nanos, is_measurable: nanos > 0, acts: false, is_grouped: false }
    }

    #[test]
    fn the_share_comes_first_then_lines_by_cost_then_advice() {
        let lines = [
            line(2, 1000, Some(0), 400_000),
            line(3, 0, Some(0), 0),
            line(5, 1000, Some(10), 250_000),
            line(6, 990, Some(900), 300_000),
            line(7, 900, Some(0), 0),
            line(8, 1000, None, 50_000),
        ];
        let printed = report(&of("/x.vcl", &lines));
        assert!(
            printed.starts_with("VCL boot: 1.000 us of a request's 2.0 us of CPU time (50.0 %), over 1000 requests\n"),
            "{printed}"
        );
        assert!(printed.contains("      1000    1.000 100.0 %  vcl_recv\n"), "{printed}");
        assert!(
            printed.contains("       990  90.9 %    0.303  30.0 %  /x.vcl:6: } else if (req.url ~ \"c\") {\n"),
            "{printed}"
        );
        assert!(printed.contains("      1000            0.050   5.0 %  /x.vcl:8: set req.http.y"), "{printed}");
        assert!(printed.contains("       900   0.0 %   <0.045   0.0 %  /x.vcl:7:"), "{printed}");
        assert!(printed.contains("<0.045: under what can be measured"), "{printed}");
        assert!(!printed.contains("x.vcl:3"), "{printed}");
        let at = |number: u32| printed.find(&format!("%  /x.vcl:{number}: ")).unwrap();
        assert!(at(2) < at(6) && at(6) < at(5) && at(5) < at(8) && at(8) < at(7), "{printed}");
        assert!(
            printed.contains("/x.vcl:2 was never true in 1000 runs and takes 20.0 % of a request's CPU time.\n"),
            "{printed}"
        );
        assert!(
            printed.contains("/x.vcl:6 holds 90.0 % of the time: tested before /x.vcl:2 it would save about 29."),
            "{printed}"
        );
    }

    #[test]
    fn nothing_is_advised_that_nobody_would_notice() {
        let mut lines = [line(2, 1000, Some(0), 400), line(5, 1000, Some(10), 300), line(6, 990, Some(900), 250)];
        let mut profiled = of("/x.vcl", &lines);
        let counted = CountedOps { process_nanos: 1_000_000, ..profiled.counted.clone() };
        profiled.counted = &counted;
        assert_eq!(
            advice(&profiled),
            ["All VCL takes 0.1 % of the CPU time: optimising it would make no noticeable difference."]
        );
        lines.iter_mut().for_each(|line| line.is_grouped = true);
        let advised = advice(&of("/x.vcl", &lines)).join("\n");
        assert!(advised.contains("/x.vcl:2 to /x.vcl:6: 3 of 3 tests are done by one lookup"), "{advised}");
        assert!(!advised.contains("tested before"), "{advised}");
    }

    #[test]
    fn nothing_counted_nothing_advised() {
        let told = report(&of("x", &[line(2, 0, Some(0), 0)]));
        assert_eq!(told, "VCL boot: nothing was counted: no request has come to it since counting began.\n");
        let off = report(&Profiled { on: false, ..of("x", &[]) });
        assert!(off.contains("while counting was on"), "{off}");
    }

    #[test]
    fn what_acts_stays_where_it_is() {
        let mut lines = [
            line(2, 1000, Some(0), 400_000),
            line(5, 1000, Some(10), 300_000),
            line(6, 990, Some(900), 250_000),
            line(8, 1000, None, 50_000),
        ];
        let moved = |lines: &[ProfileLine]| report(&of("/x.vcl", lines)).contains("tested before");
        assert!(moved(&lines));
        for at in 0..3 {
            lines[at].acts = true;
            assert!(!moved(&lines), "{at}");
            lines[at].acts = false;
        }
        assert!(!report(&of("<builtin>", &lines)).contains("never true"));
    }

    #[test]
    fn as_json() {
        let printed = report_json(&of("/x.vcl", &[line(2, 2, Some(1), 40), line(8, 2, None, 2), line(9, 0, None, 0)]));
        assert_eq!(
            printed,
            "{ \"vcl\": \"boot\", \"on\": true, \"nanoseconds\": 42, \"requests\": 2, \"worker_nanoseconds\": 84, \"subroutines\": [\n  \
             { \"name\": \"vcl_recv\", \"runs\": 2, \"nanoseconds\": 42 }\n], \"lines\": [\n  \
             { \"source\": \"/x.vcl\", \"line\": 2, \"runs\": 2, \"held\": 1, \"nanoseconds\": 40, \"measurable\": true, \"text\": \"if (req.url ~ \\\"a\\\") {\" },\n  \
             { \"source\": \"/x.vcl\", \"line\": 8, \"runs\": 2, \"held\": null, \"nanoseconds\": 2, \"measurable\": true, \"text\": \"set req.http.y = \\\"1\\\";\" }\n], \
             \"advice\": [] }"
        );
        let long = format!("{}ä", "x".repeat(99));
        assert_eq!((cut(&long), cut(&format!("{long}y"))), (long.clone(), format!("{long}...")));
    }
}
