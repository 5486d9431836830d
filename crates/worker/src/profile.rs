// SPDX-License-Identifier: BSD-2-Clause
//! `vcl.profile show`: the lines of a VCL with what they cost, and what could be had by another order.

use std::fmt::Write;

use tables::json::quote;
use vrt::profile::Line;

/// A line that takes less than this part of the time isn't worth a word.
const WORTH: f64 = 0.01;
/// After fewer runs nothing is advised.
const ENOUGH: u64 = 1000;

/// A source: its name and text.
pub(crate) struct Source<'a> {
    pub name: &'a str,
    pub text: &'a [u8],
}

/// What a profile is of.
pub(crate) struct Profiled<'a> {
    pub vcl: &'a str,
    /// Whether it is counting.
    pub on: bool,
    pub sources: &'a [Source<'a>],
    pub lines: &'a [Line],
}

impl Profiled<'_> {
    fn total(&self) -> u64 {
        self.lines.iter().map(|line| line.nanos).sum()
    }

    fn shown(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.runs > 0)
    }
}

/// The table, and the advice below it.
pub(crate) fn report(profiled: &Profiled<'_>) -> String {
    let Profiled { vcl, on, sources, .. } = *profiled;
    if profiled.shown().next().is_none() {
        let reason = if on {
            "no request has come to it since counting began"
        } else {
            "no request came to it while counting was on (`vcl.profile on`)"
        };
        return format!("VCL {vcl}: nothing was counted: {reason}.\n");
    }
    let total = profiled.total();
    let mut out = format!("VCL {vcl}: {:.3} ms in all lines\n\n", total as f64 / 1e6);
    out.push_str("      runs    held   us/run    time  line\n");
    for line in profiled.shown() {
        let held = line.held.map_or(String::new(), |held| percent(ratio(held, line.runs)));
        let _ = writeln!(
            out,
            "{:10} {held:>7} {:8.3} {:>7}  {}: {}",
            line.runs,
            line.nanos as f64 / 1e3 / line.runs as f64,
            percent(ratio(line.nanos, total)),
            place(sources, line),
            cut(text(sources, line).trim()),
        );
    }
    let advice = advice(sources, profiled.lines, total);
    if !advice.is_empty() {
        out.push('\n');
        advice.iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    out
}

/// The same as one JSON object.
pub(crate) fn report_json(profiled: &Profiled<'_>) -> String {
    let Profiled { vcl, on, sources, lines } = *profiled;
    let name = |line: &Line| quote(sources.get(line.source as usize).map_or("", |source| source.name));
    let one = |line: &Line| {
        let held = line.held.map_or("null".to_owned(), |held| held.to_string());
        format!(
            "  {{ \"source\": {}, \"line\": {}, \"runs\": {}, \"held\": {held}, \"nanoseconds\": {}, \"text\": {} }}",
            name(line),
            line.line,
            line.runs,
            line.nanos,
            quote(text(sources, line).trim())
        )
    };
    let shown: Vec<String> = profiled.shown().map(one).collect();
    let advice: Vec<String> = advice(sources, lines, profiled.total()).iter().map(|line| quote(line)).collect();
    format!(
        "{{ \"vcl\": {}, \"on\": {on}, \"nanoseconds\": {}, \"lines\": [\n{}\n], \"advice\": [{}] }}",
        quote(vcl),
        profiled.total(),
        shown.join(",\n"),
        advice.join(", ")
    )
}

/// Longest quoted line, in characters.
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

fn place(sources: &[Source<'_>], line: &Line) -> String {
    format!("{}:{}", sources.get(line.source as usize).map_or("?", |source| source.name), line.line)
}

fn text(sources: &[Source<'_>], line: &Line) -> String {
    let source = sources.get(line.source as usize).map_or(&b""[..], |source| source.text);
    let text = source.split(|c| *c == b'\n').nth(line.line.saturating_sub(1) as usize).unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// What could be had by another order; of lines that the VCL's author wrote.
fn advice(sources: &[Source<'_>], lines: &[Line], total: u64) -> Vec<String> {
    let mut out = Vec::new();
    let written = |line: &&Line| sources.get(line.source as usize).is_none_or(|source| source.name != "<builtin>");
    let lines: Vec<Line> = lines.iter().filter(written).copied().collect();
    for line in &lines {
        let share = ratio(line.nanos, total);
        if line.held == Some(0) && line.runs >= ENOUGH && share >= WORTH {
            let place = place(sources, line);
            out.push(format!("{place} never held in {} runs and takes {} of the time.", line.runs, percent(share)));
        }
    }
    for chain in chains(sources, &lines) {
        let Some((at, saved)) = best_move(&chain) else { continue };
        if ratio(saved, total) >= WORTH {
            out.push(format!(
                "{} holds {} of the time: tested before {} it would save about {} of the time. The same happens only if \
                 none of the conditions from there on holds for the same request.",
                place(sources, chain[at]),
                percent(ratio(chain[at].held.unwrap_or(0), chain[0].runs)),
                place(sources, chain[0]),
                percent(ratio(saved, total)),
            ));
        }
    }
    out
}

/// The chains of `if` and `elsif` of the same indentation, as far as their lines were counted.
fn chains<'a>(sources: &[Source<'_>], lines: &'a [Line]) -> Vec<Vec<&'a Line>> {
    let mut open: Vec<(usize, Vec<&Line>)> = Vec::new();
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

/// Which test of a chain should be its first, and how many nanoseconds that would have saved.
fn best_move(chain: &[&Line]) -> Option<(usize, u64)> {
    let each = |line: &Line| ratio(line.nanos, line.runs);
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

    fn of<'a>(name: &'static str, lines: &'a [Line]) -> Profiled<'a> {
        let sources: &'static [Source<'static>] = Box::leak(Box::new([Source { name, text: TEXT }]));
        Profiled { vcl: "boot", on: true, sources, lines }
    }

    fn line(line: u32, runs: u64, held: Option<u64>, nanos: u64) -> Line {
        Line { source: 0, line, runs, held, nanos, acts: false }
    }

    #[test]
    fn lines_come_with_their_text_and_advice() {
        let lines = [
            line(2, 1000, Some(0), 400_000),
            line(3, 0, Some(0), 0),
            line(5, 1000, Some(10), 300_000),
            line(6, 990, Some(900), 250_000),
            line(8, 1000, None, 50_000),
        ];
        let told = report(&of("/x.vcl", &lines));
        assert!(told.starts_with("VCL boot: 1.000 ms in all lines\n"), "{told}");
        assert!(
            told.contains("       990  90.9 %    0.253  25.0 %  /x.vcl:6: } else if (req.url ~ \"c\") {\n"),
            "{told}"
        );
        assert!(told.contains("      1000            0.050   5.0 %  /x.vcl:8: set req.http.y"), "{told}");
        assert!(!told.contains("x.vcl:3"), "{told}");
        assert!(told.contains("/x.vcl:2 never held in 1000 runs and takes 40.0 % of the time.\n"), "{told}");
        assert!(
            told.contains("/x.vcl:6 holds 90.0 % of the time: tested before /x.vcl:2 it would save about 62."),
            "{told}"
        );
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
        let moved = |lines: &[Line]| report(&of("/x.vcl", lines)).contains("tested before");
        assert!(moved(&lines));
        for at in 0..3 {
            lines[at].acts = true;
            assert!(!moved(&lines), "{at}");
            lines[at].acts = false;
        }
        assert!(!report(&of("<builtin>", &lines)).contains("never held"));
    }

    #[test]
    fn as_json() {
        let told = report_json(&of("/x.vcl", &[line(2, 2, Some(1), 40), line(8, 2, None, 2), line(9, 0, None, 0)]));
        assert_eq!(
            told,
            "{ \"vcl\": \"boot\", \"on\": true, \"nanoseconds\": 42, \"lines\": [\n  \
             { \"source\": \"/x.vcl\", \"line\": 2, \"runs\": 2, \"held\": 1, \"nanoseconds\": 40, \"text\": \"if (req.url ~ \\\"a\\\") {\" },\n  \
             { \"source\": \"/x.vcl\", \"line\": 8, \"runs\": 2, \"held\": null, \"nanoseconds\": 2, \"text\": \"set req.http.y = \\\"1\\\";\" }\n], \
             \"advice\": [] }"
        );
        let long = format!("{}ä", "x".repeat(99));
        assert_eq!((cut(&long), cut(&format!("{long}y"))), (long.clone(), format!("{long}...")));
    }
}
