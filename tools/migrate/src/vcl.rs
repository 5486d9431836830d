// SPDX-License-Identifier: BSD-2-Clause
//! Pieces of VCL: names, strings, regexes, conditions, and lines with their indentation.

use std::collections::{BTreeMap, BTreeSet};

/// A string as VCL writes it: between quotes, or as a long string where it has some itself. None: it holds both ends of a long string, or a
/// control character.
pub fn string(text: &str) -> Option<String> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return None;
    }
    match text.contains('"') {
        false => Some(format!("\"{text}\"")),
        true if !text.contains("\"}") && !text.ends_with('"') => Some(format!("{{\"{text}\"}}")),
        true if !text.contains("\"\"\"") && !text.starts_with('"') && !text.ends_with('"') => {
            Some(format!("\"\"\"{text}\"\"\""))
        }
        true => None,
    }
}

/// A text as a regex that matches nothing else, and that can stand between quotes.
pub fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\0'..='\x1f' | '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            _ => {
                if "\\.+*?()|[]{}^$".contains(c) {
                    out.push('\\');
                }
                out.push(c);
            }
        }
    }
    out
}

/// Bytes of a regex that is put together of a list: one of all its entries might be more than the engine takes.
const LIST_BYTES: usize = 2048;

/// A condition that holds where a text matches one of a list: regexes of some entries each, between `begin` and `end`. With `is_not` it holds
/// where the text matches none. None: an entry can't be written in VCL.
pub fn one_of(of: &str, is_not: bool, (begin, end): (&str, &str), entries: &[String]) -> Option<String> {
    let mut groups: Vec<String> = vec![String::new()];
    for (i, entry) in entries.iter().enumerate() {
        match groups.last_mut().filter(|group| i == 0 || group.len() + entry.len() < LIST_BYTES) {
            Some(group) if i > 0 => *group = format!("{group}|{entry}"),
            Some(group) => group.push_str(entry),
            None => groups.push(entry.clone()),
        }
    }
    let (operator, between) = if is_not { ("!~", " && ") } else { ("~", " || ") };
    let one = |group: &String| Some(format!("{of} {operator} {}", string(&format!("{begin}{group}{end}"))?));
    Some(groups.iter().map(one).collect::<Option<Vec<_>>>()?.join(between))
}

/// A name that VCL takes, made of any text: letters, digits and `_`, a letter first.
pub fn name(text: &str) -> String {
    let mut out: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.insert_str(0, "b_");
    }
    // Names that the language has itself.
    if matches!(
        out.as_str(),
        "default" | "none" | "all" | "new" | "sub" | "backend" | "acl" | "probe" | "import" | "include" | "vcl"
    ) {
        out.push_str("_1");
    }
    out
}

/// Words of the language and of its modules, which nothing else may be named.
#[rustfmt::skip]
const WORDS: [&str; 42] = [
    "acl", "all", "backend", "ban", "bereq", "beresp", "blob", "call", "client", "cookie", "default", "directors", "else", "elseif", "elsif", "false",
    "if", "import", "include", "local", "new", "none", "now", "obj", "probe", "remote", "req", "req_top", "resp", "return", "rollback", "server", "sess",
    "set", "std", "storage", "sub", "synthetic", "true", "unset", "vcl", "error",
];

/// Names that a program has given. Each text of a kind has a name of its own, since names made by [`name`] alone may be the same: VCL knows fewer
/// signs, compares names without regard to case, and has one set of names for all kinds.
#[derive(Default)]
pub struct GivenNames {
    names: BTreeMap<(&'static str, String), String>,
    taken: BTreeSet<String>,
}

impl GivenNames {
    /// The name of a text. Names that begin with one of `reserved` are kept for the program itself.
    pub fn of(&mut self, kind: &'static str, text: &str, reserved: &[&str]) -> String {
        let key = (kind, text.to_owned());
        if let Some(known) = self.names.get(&key) {
            return known.clone();
        }
        let own = self.fresh(text, reserved);
        self.names.insert(key, own.clone());
        own
    }

    /// A name for a text that nothing else has.
    pub fn fresh(&mut self, text: &str, reserved: &[&str]) -> String {
        let plain = name(text);
        let low = plain.to_ascii_lowercase();
        let is_reserved = WORDS.contains(&low.as_str())
            || low.starts_with("vcl_")
            || reserved.iter().any(|begin| low.starts_with(begin));
        let plain = if is_reserved { format!("b_{plain}") } else { plain };
        let numbered = std::iter::once(plain.clone()).chain((2..).map(|number| format!("{plain}_{number}")));
        numbered.into_iter().find(|name| self.taken.insert(name.to_ascii_lowercase())).unwrap_or(plain)
    }
}

/// Text with each line set in by so many tabs.
pub fn indented(lines: &[String], tabs: usize) -> String {
    lines
        .iter()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{}{line}\n", "\t".repeat(tabs)) })
        .collect()
}

/// `sub NAME { LINES }`, or nothing where there are no lines.
pub fn sub(name: &str, lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("\nsub {name} {{\n{}}}\n", indented(lines, 1)) }
}

/// `if (A) { X } else if (B) { Y } else { Z }`: branches in order, the last condition empty where it always holds. Branches without lines
/// stay, since they keep what they match from the ones behind them; at the end they go.
pub fn chain(branches: Vec<(String, Vec<String>)>) -> Vec<String> {
    let kept = branches.iter().rposition(|(_, lines)| !lines.is_empty()).map_or(0, |last| last + 1);
    let mut out = Vec::new();
    for (i, (condition, lines)) in branches.into_iter().take(kept).enumerate() {
        let is_all = condition.is_empty();
        if i == 0 && is_all {
            return lines;
        }
        let head = match (i, is_all) {
            (0, _) => format!("if ({condition}) {{"),
            (_, false) => format!("}} else if ({condition}) {{"),
            (_, true) => "} else {".to_owned(),
        };
        out.push(head);
        out.extend(lines.into_iter().map(|line| format!("\t{line}")));
        if is_all {
            break;
        }
    }
    if !out.is_empty() {
        out.push("}".to_owned());
    }
    out
}

/// A subroutine that sets a header to the path as nginx and Apache compare it with locations. With `joins_slashes` several are one.
pub fn decoded_path(name: &str, header: &str, joins_slashes: bool) -> String {
    let text = match joins_slashes {
        true => DECODED_PATH.to_owned(),
        // Between two slashes stands a segment then, too.
        false => DECODED_PATH.replace(JOIN, "").replace("[^/]+/\\.\\.", "[^/]*/\\.\\."),
    };
    text.replace("NAME", name).replace("PATH", header)
}

const JOIN: &str = "\t\tset PATH = regsuball(PATH, \"//+\", \"/\");\n";

const DECODED_PATH: &str = r#"
# The path as locations are compared with it: decoded, without //, /./ and /../
sub NAME {
	if (req.url !~ "^/") {
		return (synth(400));
	}
	set PATH = regsub(req.url, "[?#].*$", "");
	if (PATH ~ "%") {
		if (PATH ~ "%(00|0[aA]|0[dD]|[^0-9a-fA-F]|.[^0-9a-fA-F]|.?$)") {
			return (synth(400));
		}
		set PATH = blob.transcode(decoding=URL, encoded=PATH);
	}
	if (PATH ~ "//|/\.") {
		set PATH = regsuball(PATH, "//+", "/");
		set PATH = regsuball(PATH, "/(\./)+", "/");
		set PATH = regsub(PATH, "/\.$", "/");
		set PATH = regsub(PATH, "/\.\.$", "/../");
		set PATH = regsuball(PATH, "/(?!\.\./)[^/]+/\.\.(?=/|$)", "");
		set PATH = regsuball(PATH, "/(?!\.\./)[^/]+/\.\.(?=/|$)", "");
		set PATH = regsuball(PATH, "/(?!\.\./)[^/]+/\.\.(?=/|$)", "");
		if (PATH ~ "/\.\.(/|$)") {
			return (synth(400));
		}
		if (PATH !~ "^/") {
			set PATH = "/";
		}
	}
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings() {
        assert_eq!(string("a\\.b").as_deref(), Some("\"a\\.b\""));
        assert_eq!(string("a \"b\" c").as_deref(), Some("{\"a \"b\" c\"}"));
        assert_eq!(string("a\nb"), None);
        assert_eq!(literal("/a.b(c)"), "/a\\.b\\(c\\)");
        assert_eq!(literal("a\"b\n"), "a\\x22b\\x0a");
    }

    #[test]
    fn names() {
        assert_eq!([name("my-app.1"), name("10.0.0.1"), name("default")], ["my_app_1", "b_10_0_0_1", "default_1"]);
    }

    #[test]
    fn each_text_has_a_name_of_its_own() {
        let mut names = GivenNames::default();
        let all = [
            ("acl", "a-b"),
            ("acl", "a_b"),
            ("acl", "A_B"),
            ("peer", "a-b"),
            ("acl", "a_b_2"),
            ("acl", "req"),
            ("acl", "vcl_x"),
            ("acl", "own_x"),
            ("acl", "a_b"),
        ];
        assert_eq!(
            all.map(|(kind, text)| names.of(kind, text, &["own_"])),
            ["a_b", "a_b_2", "A_B_3", "a_b_4", "a_b_2_2", "b_req", "b_vcl_x", "b_own_x", "a_b_2"]
        );
    }

    #[test]
    fn long_lists_are_several_regexes() {
        let list = |count: usize| (0..count).map(|i| format!("{i:08}")).collect::<Vec<_>>();
        let of = |count, is_not| one_of("x", is_not, ("^(", ")$"), &list(count)).expect("plain");
        assert_eq!(of(2, false), "x ~ \"^(00000000|00000001)$\"");
        assert_eq!(of(0, false), "x ~ \"^()$\"");
        let (some, none) = (of(1000, false), of(1000, true));
        assert_eq!((some.matches(" || x ~ ").count(), none.matches(" && x !~ ").count()), (4, 4));
        assert_eq!(some.matches('|').count() - 8, 1000 - 5);
        assert_eq!(one_of("x", false, ("", ""), &["a\nb".to_owned()]), None);
    }

    #[test]
    fn branches() {
        let of = |list: &[(&str, &str)]| {
            let lines = |text: &str| if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
            chain(list.iter().map(|(c, l)| ((*c).to_owned(), lines(l))).collect()).join(" ")
        };
        assert_eq!(of(&[("a", "x;"), ("b", ""), ("", "z;")]), "if (a) { \tx; } else if (b) { } else { \tz; }");
        assert_eq!(of(&[("a", "x;"), ("b", "")]), "if (a) { \tx; }");
        assert_eq!(of(&[("", "x;")]), "x;");
        assert_eq!(of(&[("a", "")]), "");
    }
}
