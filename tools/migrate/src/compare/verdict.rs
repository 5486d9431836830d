// SPDX-License-Identifier: BSD-2-Clause
//! The compared parts of responses: status, headers that matter, body, and whether the second one came from the cache.

use std::hash::{DefaultHasher, Hasher};

use accesslog::{handling_from_cache_status, handling_from_text};
use logq::Handling;
use message::Head;

/// Headers that are compared as they are.
pub const HEADERS: [&str; 4] = ["Location", "Content-Type", "Cache-Control", "Vary"];

/// A response, as far as it is compared.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ComparedResponse {
    /// The compared parts with their values: one for each of the same names in each response.
    pub aspects: Vec<(String, String)>,
    /// None: the response doesn't tell.
    pub is_hit: Option<bool>,
}

/// The length and the hash of a body, which comes in pieces of any length.
#[derive(Default)]
pub struct BodySum {
    bytes: u64,
    hasher: DefaultHasher,
}

impl BodySum {
    pub fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.hasher.write(piece);
    }
}

impl ComparedResponse {
    /// The parts of a response that count; `more` are further headers.
    pub fn of(head: &Head, body: &BodySum, more: &[String]) -> ComparedResponse {
        let text = |name: &str| {
            let all: Vec<String> =
                head.get_all(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned()).collect();
            if all.is_empty() { "none".to_owned() } else { all.join(", ") }
        };
        let mut aspects = vec![("status".to_owned(), head.status().to_string())];
        let names = HEADERS.iter().map(|name| (*name).to_owned()).chain(more.iter().cloned());
        aspects.extend(names.map(|name| (name.clone(), text(&name))));
        // Values of cookies are another one each time.
        let cookies: Vec<String> = head.get_all(b"Set-Cookie").map(cookie_name).collect();
        aspects
            .push(("Set-Cookie".to_owned(), if cookies.is_empty() { "none".to_owned() } else { cookies.join(", ") }));
        aspects.push(("body".to_owned(), format!("{} bytes, {:016x}", body.bytes, body.hasher.finish())));
        ComparedResponse { aspects, is_hit: is_hit(head) }
    }
}

fn cookie_name(value: &[u8]) -> String {
    let end = value.iter().position(|byte| matches!(byte, b'=' | b';')).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).trim().to_owned()
}

/// True of a response from a cache, by the headers in which caches say so; the one next to the client counts.
fn is_hit(head: &Head) -> Option<bool> {
    if let Some(ids) = head.get("X-Varnish") {
        return Some(ids.split(|byte| *byte == b' ').filter(|id| !id.is_empty()).count() > 1);
    }
    let said = match head.get("Cache-Status") {
        Some(value) => handling_from_cache_status(value),
        None => ["X-Cache-Status", "X-Cache", "X-Proxy-Cache"]
            .into_iter()
            .find_map(|name| handling_from_text(head.get(name)?)),
    };
    match said {
        Some(handling) => Some(handling == Handling::Hit),
        None => head.get("Age").and_then(|age| std::str::from_utf8(age).ok()?.trim().parse::<u64>().ok()).and_then(
            // An age of 0 may be that of a response that has just been fetched.
            |age| (age > 0).then_some(true),
        ),
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResponseDifference {
    pub aspect: String,
    pub old: String,
    pub new: String,
}

/// Compares the two responses of each server. What the old one itself changes from one response to the next is no difference.
pub fn differences(old: &[ComparedResponse; 2], new: &[ComparedResponse; 2]) -> Vec<ResponseDifference> {
    let mut out = Vec::new();
    for (at, (aspect, value)) in old[0].aspects.iter().enumerate() {
        let value_of = |response: &ComparedResponse| response.aspects.get(at).map(|(_, value)| value.clone());
        if value_of(&old[1]).as_ref() != Some(value) {
            continue;
        }
        let ours = new.iter().filter_map(value_of).find(|ours| ours != value);
        out.extend(ours.map(|new| ResponseDifference { aspect: aspect.clone(), old: value.clone(), new }));
    }
    if let (Some(before), Some(now)) = (old[1].is_hit, new[1].is_hit)
        && before != now
    {
        let word = |is_hit: bool| if is_hit { "hit" } else { "no hit" }.to_owned();
        out.push(ResponseDifference { aspect: "second response".to_owned(), old: word(before), new: word(now) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(lines: &str, body: &str) -> ComparedResponse {
        let mut head = Head::new();
        head.set_status(200).expect("a status");
        for line in lines.split('|').filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").expect("a header");
            head.append(name, value).expect("a few headers");
        }
        let mut sum = BodySum::default();
        body.as_bytes().chunks(1).for_each(|piece| sum.add(piece));
        ComparedResponse::of(&head, &sum, &["X-Origin".to_owned()])
    }

    fn check(old: [&str; 2], new: [&str; 2], expect: &[&str]) {
        let of = |all: [&str; 2]| all.map(|text| response(text, ""));
        let shown = |d: ResponseDifference| format!("{}: {} / {}", d.aspect, d.old, d.new);
        let got: Vec<String> = differences(&of(old), &of(new)).into_iter().map(shown).collect();
        assert_eq!(got, expect, "{old:?} {new:?}");
    }

    #[test]
    fn headers_that_matter() {
        check(["Date: 1", "Date: 2"], ["Server: x", "Via: y"], &[]);
        check(["Vary: a"; 2], ["Vary: b"; 2], &["Vary: a / b"]);
        check(["Vary: a"; 2], ["Vary: a", "Vary: b"], &["Vary: a / b"]);
        check(["X-Origin: a"; 2], [""; 2], &["X-Origin: a / none"]);
        check(["Set-Cookie: a=1", "Set-Cookie: a=2"], ["Set-Cookie: a=3; Path=/"; 2], &[]);
        check(["Set-Cookie: a=1"; 2], ["Set-Cookie: b=1"; 2], &["Set-Cookie: a / b"]);
        // The old server changes it itself.
        check(["Cache-Control: max-age=9", "Cache-Control: max-age=8"], ["Cache-Control: max-age=7"; 2], &[]);
    }

    #[test]
    fn bodies() {
        let of = |a: &str, b: &str| [response("", a), response("", b)];
        assert!(differences(&of("x", "x"), &of("x", "x")).is_empty());
        assert_eq!(differences(&of("x", "x"), &of("y", "y")).len(), 1);
        assert!(differences(&of("1", "2"), &of("3", "4")).is_empty());
    }

    #[test]
    fn hits() {
        for (old, new, expect) in [
            ("X-Cache-Status: HIT", "X-Varnish: 5 3", &[][..]),
            ("X-Cache-Status: HIT", "X-Varnish: 5", &["second response: hit / no hit"]),
            ("X-Cache: MISS from a", "Cache-Status: x; hit", &["second response: no hit / hit"]),
            ("Age: 3", "X-Varnish: 5", &["second response: hit / no hit"]),
            // They don't tell.
            ("Age: 0", "X-Varnish: 5 3", &[]),
            ("", "X-Varnish: 5 3", &[]),
        ] {
            check(["", old], ["", new], expect);
        }
    }
}
