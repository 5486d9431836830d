// SPDX-License-Identifier: BSD-2-Clause
//! `vcl.profile show`: the lines of a VCL with what they cost, and what could be had by another order.

use std::fmt::Write;

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

/// The table, and the advice below it.
pub(crate) fn report(vcl: &str, sources: &[Source<'_>], lines: &[Line]) -> String {
    let total: u64 = lines.iter().map(|line| line.nanos).sum();
    let mut out = format!("VCL {vcl}: {:.3} ms in all lines\n\n", total as f64 / 1e6);
    out.push_str("      runs    held   us/run    time  line\n");
    for line in lines.iter().filter(|line| line.runs > 0) {
        let held = line.held.map_or(String::new(), |held| percent(ratio(held, line.runs)));
        let _ = writeln!(
            out,
            "{:10} {held:>7} {:8.3} {:>7}  {}: {}",
            line.runs,
            line.nanos as f64 / 1e3 / line.runs as f64,
            percent(ratio(line.nanos, total)),
            place(sources, line),
            text(sources, line).trim(),
        );
    }
    let advice = advice(sources, lines, total);
    if !advice.is_empty() {
        out.push('\n');
        out.push_str(&advice);
    }
    out
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

fn advice(sources: &[Source<'_>], lines: &[Line], total: u64) -> String {
    let mut out = String::new();
    for line in lines {
        let share = ratio(line.nanos, total);
        if line.held == Some(0) && line.runs >= ENOUGH && share >= WORTH {
            let place = place(sources, line);
            let _ = writeln!(out, "{place} never held in {} runs and takes {} of the time.", line.runs, percent(share));
        }
    }
    for chain in chains(sources, lines) {
        let Some((at, saved)) = best_move(&chain) else { continue };
        if ratio(saved, total) >= WORTH {
            let _ = writeln!(
                out,
                "{} holds {} of the time: tested before {} it would save about {} of the time, if both never hold at once.",
                place(sources, chain[at]),
                percent(ratio(chain[at].held.unwrap_or(0), chain[0].runs)),
                place(sources, chain[0]),
                percent(ratio(saved, total)),
            );
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
    (1..chain.len())
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

    fn line(line: u32, runs: u64, held: Option<u64>, nanos: u64) -> Line {
        Line { source: 0, line, runs, held, nanos }
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
        let told = report("boot", &[Source { name: "/x.vcl", text: TEXT }], &lines);
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
        let told = report("boot", &[Source { name: "x", text: TEXT }], &[line(2, 0, Some(0), 0)]);
        assert_eq!(told.lines().count(), 3);
    }
}
