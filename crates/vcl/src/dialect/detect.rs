// SPDX-License-Identifier: BSD-2-Clause
//! Detects the dialect of a file by its words.

use tables::dialects::{BARE, Dialect, NEW_WORDS, OldSub};

use super::flat::{FlatItem, FlatItemKind};
use crate::token::{Tok, VclSource};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detection {
    /// The program declares `vcl 4.x;`, doesn't begin with a declaration, or has words that only 4.x knows.
    New,
    /// The program has words that only old releases knew.
    Old(Dialect),
    /// Nothing in the program differs between the dialects.
    Any,
}

impl Detection {
    /// The dialect from which a whole program is translated; `None` for VCL 4.x.
    pub fn dialect(self) -> Option<Dialect> {
        match self {
            Detection::New => None,
            Detection::Old(dialect) => Some(dialect),
            Detection::Any => Some(Dialect::V30),
        }
    }
}

/// A set of dialects, one bit for each.
const D20: u8 = 1;
const D21: u8 = 2;
const D30: u8 = 4;
const D2X: u8 = D20 | D21;
const SINCE21: u8 = D21 | D30;
const OLD: u8 = D2X | D30;

const FIRST_WORDS: [&str; 7] = ["acl", "sub", "backend", "director", "probe", "import", "include"];

pub(crate) fn detect(items: &[FlatItem], sources: &[VclSource]) -> Detection {
    let scan = Scan { words: items.iter().filter(|i| matches!(i.kind, FlatItemKind::Tok(_))).collect(), sources };
    let first = items.first().map_or("", |i| scan.text(i));
    let begins = FIRST_WORDS.contains(&first)
        || items.first().is_some_and(|i| i.kind == FlatItemKind::Include || i.tok() == Some(Tok::InlineC));
    let (mut seen, mut new, mut count) = (Vec::new(), false, 0);
    let mut sub = "";
    for at in 0..scan.words.len() {
        if scan.at(at).0 == "sub" && scan.at(at + 2).1 == Some(Tok::C(b'{')) {
            sub = scan.at(at + 1).0;
        }
        match scan.evidence(at, sub) {
            Evidence::Says(set) => {
                seen.push(set);
                count += 1;
            }
            Evidence::New => new = true,
            Evidence::Nothing => {}
        }
    }
    // A program with another beginning is damaged or isn't VCL: it counts as old only if that is certain.
    if count == 0 || !begins && new {
        return if new || !begins { Detection::New } else { Detection::Any };
    }
    let all = seen.iter().fold(OLD, |all, set| all & set);
    // If words of several releases occur, the newest release that nothing contradicts is chosen, or else the newest one
    // with such a word.
    let has = |set: u8| seen.contains(&set);
    let pick = match all {
        0 if has(D30) => D30,
        0 if has(D21) || has(SINCE21) => D21,
        0 => D30,
        set => set,
    };
    Detection::Old(if pick & D30 != 0 {
        Dialect::V30
    } else if pick & D21 != 0 {
        Dialect::V21
    } else {
        Dialect::V20
    })
}

enum Evidence {
    Says(u8),
    New,
    Nothing,
}

struct Scan<'a> {
    words: Vec<&'a FlatItem>,
    sources: &'a [VclSource],
}

impl Scan<'_> {
    fn text(&self, item: &FlatItem) -> &str {
        let text = &self.sources[item.src as usize].text;
        std::str::from_utf8(&text[item.start as usize..item.end as usize]).unwrap_or("")
    }

    fn at(&self, at: usize) -> (&str, Option<Tok>) {
        self.words.get(at).map_or(("", None), |i| (self.text(i), i.tok()))
    }

    fn dotted(&self, mut at: usize) -> String {
        let mut name = self.at(at).0.to_ascii_lowercase();
        while self.at(at + 1).1 == Some(Tok::C(b'.')) && self.at(at + 2).1 == Some(Tok::Id) {
            name.push('.');
            name.push_str(&self.at(at + 2).0.to_ascii_lowercase());
            at += 2;
        }
        name
    }

    fn evidence(&self, at: usize, sub: &str) -> Evidence {
        use Evidence::{New, Nothing, Says};
        let (word, tok) = self.at(at);
        let next_tok = self.at(at + 1).1;
        let before = if at == 0 { None } else { self.at(at - 1).1 };
        // Adjacent strings: only releases before 3.0 joined them; since 3.0 they occur only in a probe's request and in
        // `error`.
        if tok == Some(Tok::Str) && next_tok == Some(Tok::Id) {
            return Says(D2X);
        }
        if tok != Some(Tok::Id) || before == Some(Tok::C(b'.')) {
            return Nothing;
        }
        let statement = matches!(before, Some(Tok::C(b'{' | b'}' | b';') | Tok::InlineC));
        if statement && next_tok == Some(Tok::C(b';')) && BARE.contains(&word) {
            return Says(D20);
        }
        if self.at(at.wrapping_sub(1)).0 == "sub" {
            return match OldSub::ALL.into_iter().find(|sub| sub.name() == word) {
                Some(OldSub::Prefetch | OldSub::Timeout | OldSub::Discard) => Says(D20),
                Some(OldSub::Fetch | OldSub::Error) => Says(OLD),
                Some(_) => Nothing,
                None if word.starts_with("vcl_backend_") || word == "vcl_synth" || word == "vcl_purge" => New,
                None => Nothing,
            };
        }
        match (word, next_tok) {
            ("error", Some(Tok::Int | Tok::Str | Tok::Id)) if statement => Says(OLD),
            ("error", Some(Tok::C(b';' | b'('))) if statement => Says(OLD),
            ("remove", Some(Tok::Id)) if statement => Says(OLD),
            ("restart", Some(Tok::C(b';'))) if statement => Says(D2X),
            ("esi", Some(Tok::C(b';'))) if statement => Says(D2X),
            ("purge", Some(Tok::C(b';'))) if statement => Says(D30),
            ("rollback", Some(Tok::C(b';'))) if statement => Says(D30),
            ("purge", Some(Tok::C(b'('))) if statement => Says(D2X),
            ("purge_url", _) if statement => Says(D2X),
            ("purge_hash", _) if statement => Says(D20),
            ("log", Some(Tok::Str | Tok::Id)) if statement => Says(D21),
            ("ban_url", _) if statement => Says(D30),
            ("synthetic", Some(Tok::Str | Tok::Id)) if statement => Says(OLD),
            ("import", Some(Tok::Id)) if statement || at == 0 => Nothing,
            ("new", Some(Tok::Id)) if statement => New,
            ("backend", Some(Tok::Id)) if self.at(at + 2).0 == "none" => New,
            ("director", Some(Tok::Id)) => match self.at(at + 2).0 {
                "client" | "hash" | "dns" => Says(SINCE21),
                "fallback" => Says(D30),
                "random" | "round-robin" => Says(OLD),
                _ => Nothing,
            },
            ("return", Some(Tok::C(b'('))) => match self.at(at + 2).0 {
                "lookup" if sub == "vcl_recv" => Says(OLD),
                "pass" if sub == "vcl_fetch" => Says(D2X),
                "hit_for_pass" => Says(D30),
                "synth" | "abandon" | "retry" | "vcl" | "fail" => New,
                "purge" => New,
                "hash" if sub == "vcl_recv" => New,
                _ => Nothing,
            },
            (_, Some(Tok::C(b'.'))) => {
                let name = self.dotted(at);
                if NEW_WORDS.contains(&name.as_str()) {
                    return New;
                }
                match name.as_str() {
                    "req.request" | "bereq.request" | "resp.response" | "req.backend" => Says(OLD),
                    "obj.response" | "beresp.response" => Says(OLD),
                    "req.backend.healthy" => Says(OLD),
                    "req.hash" => Says(D2X),
                    "obj.prefetch" | "obj.hash" => Says(D20),
                    "beresp.cacheable" => Says(D21),
                    "obj.cacheable" => Says(D2X),
                    "beresp.saintmode" => Says(SINCE21),
                    "beresp.do_esi" | "beresp.do_gzip" | "beresp.do_gunzip" => Nothing,
                    _ if name.starts_with("beresp.") && sub == "vcl_fetch" => Says(SINCE21),
                    _ if name.starts_with("obj.") && sub == "vcl_fetch" => Says(D20),
                    _ => Nothing,
                }
            }
            _ => Nothing,
        }
    }
}
