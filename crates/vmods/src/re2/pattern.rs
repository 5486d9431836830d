// SPDX-License-Identifier: BSD-2-Clause
//! One pattern in RE2's syntax, on an automaton of the same kind. The syntax of the parser below is RE2's but for `\C`, `\pN`
//! without braces and `\Q...\E`, which it refuses.

use regex_automata::meta::{BuildError, Regex};
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use regex_automata::{Input, Span};
use vrt::Text;

#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) utf8: bool,
    pub(super) posix: bool,
    pub(super) longest: bool,
    pub(super) max_mem: i64,
    pub(super) literal: bool,
    pub(super) never_nl: bool,
    pub(super) dot_nl: bool,
    pub(super) never_capture: bool,
    pub(super) case_sensitive: bool,
    pub(super) perl_classes: bool,
    pub(super) word_boundary: bool,
    pub(super) one_line: bool,
}

impl Options {
    /// Refuses options that aren't built, and patterns that these options forbid.
    pub(super) fn check(&self, pattern: &[u8]) -> Result<(), String> {
        if self.longest && !self.literal {
            return Err("longest_match isn't built into Lacquer".into());
        }
        if self.never_nl {
            return Err("never_nl isn't built into Lacquer".into());
        }
        if !self.posix || self.literal {
            return Ok(());
        }
        let mut bytes = pattern.iter();
        while let Some(byte) = bytes.next() {
            let escaped = if *byte == b'\\' { bytes.next() } else { None };
            let is_refused = match escaped {
                Some(b'd' | b's' | b'w' | b'D' | b'S' | b'W') => !self.perl_classes,
                Some(b'b' | b'B') => !self.word_boundary,
                _ => false,
            };
            if is_refused {
                return Err(format!("invalid escape sequence: \\{}", char::from(*escaped.unwrap_or(&b'?'))));
            }
        }
        Ok(())
    }

    pub(super) fn syntax(&self) -> syntax::Config {
        syntax::Config::new()
            .unicode(self.utf8)
            .utf8(false)
            .case_insensitive(!self.case_sensitive)
            .dot_matches_new_line(self.dot_nl)
            .multi_line(self.posix && !self.one_line)
            .octal(true)
    }

    /// The pattern as the parser wants it: text, with the bytes that aren't ASCII as such when they stand for themselves.
    pub(super) fn text(&self, pattern: &[u8]) -> Result<String, String> {
        let text = match std::str::from_utf8(pattern) {
            Ok(text) if self.utf8 || text.is_ascii() => text.to_owned(),
            _ if self.utf8 => return Err("invalid UTF-8".into()),
            _ => {
                let escaped = |byte: &u8| match byte {
                    0x80.. => format!("\\x{byte:02X}"),
                    ascii => char::from(*ascii).to_string(),
                };
                pattern.iter().map(escaped).collect()
            }
        };
        Ok(if self.literal { regex_syntax::escape(&text) } else { text })
    }

    pub(super) fn limit(&self) -> usize {
        usize::try_from(self.max_mem).unwrap_or(0).clamp(1, 64 << 20)
    }
}

/// In one line, as a log record must be.
pub(super) fn error_text(error: &BuildError) -> String {
    match error.syntax_error() {
        Some(regex_syntax::Error::Parse(error)) => error.kind().to_string(),
        Some(regex_syntax::Error::Translate(error)) => error.kind().to_string(),
        Some(_) => "bad pattern".to_owned(),
        None => match error.size_limit() {
            Some(_) => "pattern too large - compile failed".to_owned(),
            None => "bad pattern".to_owned(),
        },
    }
}

/// `\` before what might mean something.
pub(super) fn quoted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            0 => out.extend_from_slice(b"\\x00"),
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => out.push(*byte),
            other => out.extend_from_slice(&[b'\\', *other]),
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rewrite {
    First,
    All,
    Extract,
}

#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    never_captures: bool,
    cost: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Match {
    subject: Text,
    groups: Vec<Option<Span>>,
}

impl Match {
    pub(super) fn group(&self, group: usize) -> Option<&[u8]> {
        self.groups.get(group).copied().flatten().map(|span| &self.subject[span.start..span.end])
    }
}

impl Pattern {
    pub(super) fn new(pattern: &[u8], options: &Options) -> Result<Pattern, String> {
        options.check(pattern)?;
        let text = options.text(pattern)?;
        let config = Regex::config().utf8_empty(false).nfa_size_limit(Some(options.limit()));
        let regex =
            Regex::builder().configure(config).syntax(options.syntax()).build(&text).map_err(|e| error_text(&e))?;
        let cost = (text.len() + 4 * regex.captures_len()) as i64;
        Ok(Pattern { regex, never_captures: options.never_capture, cost })
    }

    pub(super) fn never_captures(&self) -> bool {
        self.never_captures
    }

    pub(super) fn cost(&self) -> i64 {
        self.cost
    }

    pub(super) fn groups(&self) -> usize {
        self.regex.captures_len() - 1
    }

    pub(super) fn group_called(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?;
        self.regex.group_info().to_index(regex_automata::PatternID::ZERO, name)
    }

    pub(super) fn find(&self, subject: &Text) -> Option<Match> {
        let mut captures = self.regex.create_captures();
        self.regex.captures(Input::new(subject.as_bytes()), &mut captures);
        let groups = |captures: &Captures| captures.iter().collect();
        captures.is_match().then(|| Match { subject: subject.clone(), groups: groups(&captures) })
    }

    /// `None`: no match, or a rewrite that names no group of the pattern.
    pub(super) fn rewrite(&self, text: &[u8], rewrite: &[u8], how: Rewrite) -> Option<Vec<u8>> {
        let parts = parts(rewrite, self.groups())?;
        let (mut out, mut done, mut is_match) = (Vec::new(), 0, false);
        for captures in self.regex.captures_iter(Input::new(text)) {
            let whole = captures.get_match().expect("it matched").span();
            is_match = true;
            if how != Rewrite::Extract {
                out.extend_from_slice(&text[done..whole.start]);
            }
            for part in &parts {
                match part {
                    Part::Byte(byte) => out.push(*byte),
                    Part::Group(group) => {
                        out.extend_from_slice(
                            captures.get_group(*group).map_or(&[], |span| &text[span.start..span.end]),
                        );
                    }
                }
            }
            done = whole.end;
            if how != Rewrite::All {
                break;
            }
        }
        if how != Rewrite::Extract {
            out.extend_from_slice(&text[done..]);
        }
        is_match.then_some(out)
    }
}

enum Part {
    Byte(u8),
    Group(usize),
}

/// `\0` to `\9` and `\\`; anything else after a backslash is an error.
fn parts(rewrite: &[u8], groups: usize) -> Option<Vec<Part>> {
    let (mut out, mut bytes) = (Vec::new(), rewrite.iter());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => Part::Byte(b'\\'),
                digit @ b'0'..=b'9' => {
                    Some(usize::from(digit - b'0')).filter(|group| *group <= groups).map(Part::Group)?
                }
                _ => return None,
            },
            plain => Part::Byte(*plain),
        });
    }
    Some(out)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const PLAIN: Options = Options {
        utf8: false,
        posix: false,
        longest: false,
        max_mem: 8_388_608,
        literal: false,
        never_nl: false,
        dot_nl: false,
        never_capture: false,
        case_sensitive: true,
        perl_classes: false,
        word_boundary: false,
        one_line: false,
    };

    fn rewrite(pattern: &str, text: &str, with: &str, how: Rewrite) -> Option<String> {
        let pattern = Pattern::new(pattern.as_bytes(), &PLAIN).expect("a good pattern");
        let out = pattern.rewrite(text.as_bytes(), with.as_bytes(), how);
        out.map(|out| String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn rewriting_as_re2_does() {
        let pattern = "a(b|(c))?d";
        assert_eq!(rewrite(pattern, "abd acd", "<\\1\\2\\0\\\\>", Rewrite::First).as_deref(), Some("<babd\\> acd"));
        assert_eq!(rewrite(pattern, "abd acd", "<\\1>", Rewrite::All).as_deref(), Some("<b> <c>"));
        assert_eq!(rewrite(pattern, "zzabdzz", "[\\1]", Rewrite::Extract).as_deref(), Some("[b]"));
        assert_eq!(rewrite("ana", "banana", "X", Rewrite::All).as_deref(), Some("bXna"));
        for (text, with) in [("zzz", "x"), ("abd", "\\5"), ("abd", "\\x"), ("abd", "\\")] {
            assert_eq!(rewrite(pattern, text, with, Rewrite::First), None, "{text} {with}");
        }
    }

    #[test]
    fn options_count() {
        let is_match = |options: Options, pattern: &[u8], text: &[u8]| {
            Pattern::new(pattern, &options).map(|pattern| pattern.find(&Text::copy(text)).is_some())
        };
        assert_eq!(is_match(PLAIN, b"AbC", b"xabcx"), Ok(false));
        assert_eq!(is_match(Options { case_sensitive: false, ..PLAIN }, b"AbC", b"xabcx"), Ok(true));
        assert_eq!(is_match(Options { literal: true, ..PLAIN }, b"a.b", b"axb"), Ok(false));
        assert_eq!(is_match(PLAIN, b"^.$", "\u{e9}".as_bytes()), Ok(false));
        assert_eq!(is_match(Options { utf8: true, ..PLAIN }, b"^.$", "\u{e9}".as_bytes()), Ok(true));
        assert_eq!(is_match(PLAIN, b"\xe9", b"\xe9"), Ok(true));
        assert_eq!(is_match(PLAIN, b"a.b", b"a\nb"), Ok(false));
        assert_eq!(is_match(Options { dot_nl: true, ..PLAIN }, b"a.b", b"a\nb"), Ok(true));
        assert_eq!(is_match(Options { posix: true, ..PLAIN }, b"^b", b"a\nb"), Ok(true));
        assert_eq!(is_match(PLAIN, b"^b", b"a\nb"), Ok(false));
        assert!(is_match(Options { posix: true, ..PLAIN }, b"\\d", b"1").is_err());
        assert!(is_match(Options { longest: true, ..PLAIN }, b"a", b"a").is_err());
        assert!(is_match(Options { max_mem: 100, ..PLAIN }, b"(a{100}){100}", b"a").is_err());
        assert!(is_match(PLAIN, b"(a", b"a").is_err());
        assert_eq!(quoted(b"a.b*c"), b"a\\.b\\*c");
    }
}
