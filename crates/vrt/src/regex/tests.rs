// SPDX-License-Identifier: BSD-2-Clause
//! `pcre2.tsv` holds what PCRE2 10.42 does: pattern, subject, the match and its groups, regsub and regsuball with
//! `<\0|\1|\2>`. Bytes are escaped as `\xHH`, `~` is the empty string, `-` is no match.

use super::*;

fn unescape(text: &str) -> Vec<u8> {
    if text == "~" {
        return Vec::new();
    }
    let (mut out, bytes, mut i) = (Vec::new(), text.as_bytes(), 0);
    while i < bytes.len() {
        if bytes[i] == b'\\' {
            out.push(u8::from_str_radix(&text[i + 2..i + 4], 16).expect("hex"));
            i += 4;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    out
}

fn spans(groups: &[Option<Range<usize>>]) -> String {
    let one = |group: &Option<Range<usize>>| match group {
        Some(range) => format!("{}:{}", range.start, range.end),
        None => "_".into(),
    };
    groups.iter().take(10).map(one).collect::<Vec<_>>().join(",")
}

/// What differs from the expectations of one line.
fn differs(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let (pattern, subject) = (unescape(fields[0]), unescape(fields[1]));
    let regex = match Regex::new(&pattern) {
        Ok(regex) => regex,
        Err(error) => return Some(format!("{line}: {error:?}")),
    };
    let mut groups = Groups::new();
    let Ok(found) = regex.search(&subject, 0, false, true, &mut groups) else { return Some(format!("{line}: search")) };
    let mut got = vec![if found { spans(&groups) } else { "-".into() }];
    for all in [false, true] {
        let mut out = b"kept".to_vec();
        let Ok(changed) = regex.sub(&subject, br"<\0|\1|\2>", all, &mut out) else {
            return Some(format!("{line}: sub"));
        };
        assert!(out.starts_with(b"kept"));
        let text: String = out[4..]
            .iter()
            .map(|&b| if b.is_ascii_graphic() && b != b'\\' { (b as char).to_string() } else { format!("\\x{b:02x}") })
            .collect();
        got.push(if !changed {
            "-".into()
        } else if text.is_empty() {
            "~".into()
        } else {
            text
        });
    }
    assert_eq!(regex.is_match(&subject), Ok(found), "{line}");
    let whole = groups.first().cloned().flatten().filter(|_| found);
    assert_eq!(regex.find(&subject), Ok(whole), "{line}");
    (got[..] != fields[2..]).then(|| format!("{line}: {got:?}"))
}

#[test]
fn matches_as_pcre2_does() {
    let table = match std::env::var("PCRE2_TABLE") {
        Ok(path) => std::fs::read_to_string(path).expect("a table"),
        Err(_) => include_str!("pcre2.tsv").to_owned(),
    };
    let bad: Vec<String> = table.lines().filter_map(differs).collect();
    assert!(bad.is_empty(), "{} differ:\n{}", bad.len(), bad.join("\n"));
}
