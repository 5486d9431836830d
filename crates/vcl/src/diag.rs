// SPDX-License-Identifier: BSD-2-Clause
//! Places in messages: `('<vcl.inline>' Line 3 Pos 9) -- (Pos 12)`, the line, and the line of marks below it.

use std::fmt::Write;

use crate::token::{Source, Token};

/// Most bytes of a line that are quoted.
const QUOTED: usize = 400;

fn line_start(text: &[u8], at: usize) -> usize {
    text[..at].iter().rposition(|c| *c == b'\n').map_or(0, |n| n + 1)
}

fn clamp(text: &[u8], at: u32) -> usize {
    (at as usize).min(text.len())
}

/// Line and column, from 1; a tab goes to the next multiple of eight.
pub(crate) fn line_and_pos(text: &[u8], at: usize) -> (u32, u32) {
    let start = line_start(text, at);
    let line = text[..start].iter().filter(|c| **c == b'\n').count() + 1;
    let pos = text[start..at].iter().fold(0u32, |pos, c| if *c == b'\t' { (pos & !7) + 8 } else { pos + 1 });
    (line as u32, pos + 1)
}

fn last_byte(token: &Token) -> u32 {
    token.end.saturating_sub(1).max(token.start)
}

fn coordinate(out: &mut String, source: &Source, at: u32, short: bool) {
    let (line, pos) = line_and_pos(&source.text, clamp(&source.text, at));
    if short {
        let _ = write!(out, "(Pos {pos})");
    } else {
        let _ = write!(out, "('{}' Line {line} Pos {pos})", source.name);
    }
}

/// Quotes the line that begins at `start` and marks what lies in `from..to`. Of a very long line only what is around
/// the mark.
fn quote(out: &mut String, text: &[u8], start: usize, from: u32, to: u32) {
    let (mut quoted, mut marks, mut column) = (Vec::new(), String::new(), 0usize);
    let before = (from as usize).saturating_sub(start);
    let skip = if before > QUOTED / 2 { before - QUOTED / 4 } else { 0 };
    if skip > 0 {
        quoted.extend_from_slice(b"[...]");
        marks.push_str("-----");
    }
    let line = text[start..].iter().take_while(|c| **c != b'\n').enumerate();
    for (at, c) in line.skip(skip).take(QUOTED) {
        let at = (start + at) as u32;
        let mark = if at >= from && at < to { '#' } else { '-' };
        let (c, width) = match *c {
            b'\t' => (b' ', 8 - (column & 7)),
            b'\r' => continue,
            c => (c, 1),
        };
        for _ in 0..width {
            quoted.push(c);
            marks.push(mark);
        }
        column += width;
    }
    let _ = writeln!(out, "{}\n{marks}", String::from_utf8_lossy(&quoted));
}

/// The token that one of translated text stands for; itself when it is of a source as written.
pub(crate) fn origin(sources: &[Source], token: &Token) -> Token {
    let map = sources[token.src as usize].map.as_ref();
    match map.and_then(|map| map.origin(token.start, token.end)) {
        Some((src, start, end)) => Token { src, start, end, ..*token },
        None => *token,
    }
}

/// Shows one token.
pub(crate) fn show(out: &mut String, sources: &[Source], token: &Token) {
    let token = &origin(sources, token);
    let source = &sources[token.src as usize];
    coordinate(out, source, token.start, false);
    out.push('\n');
    let start = line_start(&source.text, clamp(&source.text, token.start));
    quote(out, &source.text, start, token.start, token.end);
    out.push('\n');
}

/// Shows the stretch from `first` to `last`, both included.
pub(crate) fn show_range(out: &mut String, sources: &[Source], first: &Token, last: &Token) {
    let (first, last) = (&origin(sources, first), &origin(sources, last));
    // What was put together from several places is shown at the first.
    let last = if first.src == last.src && first.start > last.start { first } else { last };
    let (s1, s2) = (&sources[first.src as usize], &sources[last.src as usize]);
    let l1 = line_start(&s1.text, clamp(&s1.text, first.start));
    let l2 = line_start(&s2.text, clamp(&s2.text, last_byte(last)));
    let same = first.src == last.src;
    coordinate(out, s1, first.start, false);
    if same && l1 == l2 {
        out.push_str(" -- ");
        coordinate(out, s2, last_byte(last), true);
        out.push('\n');
        quote(out, &s1.text, l1, first.start, last.end);
    } else {
        let to = if same { last.end } else { u32::MAX };
        let next = s1.text[l1..].iter().position(|c| *c == b'\n').map_or(s1.text.len(), |n| l1 + n + 1);
        let adjacent = same && next == l2;
        if adjacent {
            out.push_str(" -- ");
            coordinate(out, s2, last_byte(last), false);
        }
        out.push('\n');
        quote(out, &s1.text, l1, first.start, to);
        if !adjacent {
            out.push_str("[...]\n");
            coordinate(out, s2, last_byte(last), false);
            out.push('\n');
        }
        quote(out, &s2.text, l2, if same { first.start } else { 0 }, last.end);
    }
    out.push('\n');
}
