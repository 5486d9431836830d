// SPDX-License-Identifier: BSD-2-Clause
//! `pcre2.tsv` holds what PCRE2 10.42 does: pattern, subject, the match and its groups, regsub and regsuball with
//! `<\0|\1|\2>`. Bytes are escaped as `\xHH`, `~` is the empty string, `-` is no match.

use super::*;

mod public;

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

/// `errors.tsv`: pattern, then `-` or PCRE2's offset and message. Offsets may differ by a token's length. What Lacquer
/// refuses on purpose says so.
#[test]
fn errors_are_pcre2s() {
    let mut bad = Vec::new();
    for line in include_str!("errors.tsv").lines() {
        let (pattern, want) = line.split_once('\t').expect("two fields");
        let (at, text) = want.split_once(' ').unwrap_or(("0", "-"));
        let at: usize = at.parse().expect("an offset");
        let pattern = unescape(pattern);
        let (got_at, got) = match Regex::new(&pattern) {
            Ok(_) => (0, "-"),
            Err(error) => (error.offset, error.text),
        };
        assert!(got_at <= pattern.len());
        if (got != text || got_at.abs_diff(at) > 3) && !got.ends_with("supported by Lacquer") {
            bad.push(format!("{line}: {got_at} {got}"));
        }
    }
    assert!(bad.is_empty(), "{} differ:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn sizes_are_bounded() {
    let too_large = |pattern: &[u8]| {
        assert_eq!(Regex::new(pattern).expect_err("too large").text, "regular expression is too large")
    };
    too_large(&vec![b'a'; 1 << 20]);
    too_large(b"((a{1000}){1000}){1000}");
    too_large(b"(?=((a{1000}){1000}){1000})x");
    let deep = [vec![b'('; 251], vec![b')'; 251]].concat();
    assert_eq!(Regex::new(&deep).expect_err("too deep").text, "parentheses are too deeply nested");
    assert!(Regex::new(&[vec![b'('; 250], vec![b'a'], vec![b')'; 250]].concat()).is_ok());
}

#[test]
fn backtracking_stops_at_the_limit() {
    let regex = Regex::new(b"(?=(a|aa)+$)x|(?!.)(.)").expect("good");
    let subject = [vec![b'a'; 60], vec![b'b']].concat();
    let got = Regex::new(br"^(a|aa)+\1{3}z$").expect("good").is_match(&subject);
    assert_eq!(got, Err(MatchError::Limit));
    assert_eq!(regex.is_match(b"aab"), Ok(false));
    assert_eq!(Regex::new(b"^(a|aa)+$").expect("good").is_match(&subject), Ok(false));
}

#[test]
fn one_pattern_on_many_threads() {
    let regex = std::sync::Arc::new(Regex::new(b"[a-c]+(x|y)$").expect("good"));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let regex = regex.clone();
            std::thread::spawn(move || (0..100).all(|_| regex.is_match(b"zzabcx") == Ok(true)))
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().expect("no panic")));
}

proptest::proptest! {
    #[test]
    fn any_pattern_and_subject(pattern in r"[ab.()|*+?\[\]{}\\^$1-3,:!=<>PKQEdwbsRi-]{0,24}", subject in r"[ab1\n]{0,12}", with in r"[x\\0-3]{0,5}") {
        if let Ok(regex) = Regex::new(pattern.as_bytes()) {
            let subject = subject.as_bytes();
            let (test, found) = (regex.is_match(subject), regex.find(subject));
            let mut out = Vec::new();
            let once = regex.sub(subject, with.as_bytes(), false, &mut out);
            if let (Ok(test), Ok(found), Ok(once)) = (test, found, once) {
                proptest::prop_assert_eq!(test, found.is_some());
                proptest::prop_assert_eq!(test, once);
                proptest::prop_assert_eq!(once, regex.sub(subject, with.as_bytes(), true, &mut Vec::new()).unwrap_or(once));
            }
        }
    }

    #[test]
    fn quoted_text_is_itself(text in proptest::collection::vec(1u8..=255, 1..12), before in "[xyz]{0,5}") {
        proptest::prop_assume!(!text.windows(2).any(|w| w == b"\\E") && text.last() != Some(&b'\\'));
        let pattern = [b"\\Q".as_slice(), &text, b"\\E"].concat();
        let subject = [before.as_bytes(), &text].concat();
        let found = Regex::new(&pattern).expect("quoted").find(&subject);
        let want = subject.windows(text.len()).position(|w| w == text).map(|at| at..at + text.len());
        proptest::prop_assert_eq!(found, Ok(want));
    }
}
