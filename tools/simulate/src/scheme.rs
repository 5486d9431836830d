// SPDX-License-Identifier: BSD-2-Clause
//! What a cache knows an object by: host and URL, less what is dropped of them, and the class of each field that answers vary by.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use accesslog::AccessEntry;
use memchr::memmem;

/// The way in which requests become objects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scheme {
    pub dropped: Dropped,
    /// True if `www.a.nz` is `a.nz`.
    pub merges_www: bool,
    pub vary: Vec<VaryScheme>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dropped {
    pub all: bool,
    /// Names; one that ends with `*` stands for all that begin so.
    pub names: Vec<String>,
}

/// A field of requests, and the classes that its values are sorted into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VaryScheme {
    pub field: String,
    /// Words in lower case; a value's class is the first of these that is in it. None: each value is a class.
    words: Vec<String>,
}

/// The numbers that tell a request from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// A hash of host and URL.
    pub page: u64,
    /// A hash of those and the classes: the number of one object.
    pub object: u64,
}

impl Scheme {
    pub fn identify(&self, entry: &AccessEntry<'_>) -> Identity {
        let mut hasher = DefaultHasher::new();
        self.host(entry).hash(&mut hasher);
        self.target(&entry.target).hash(&mut hasher);
        let page = hasher.finish();
        for vary in &self.vary {
            vary.class(entry).hash(&mut hasher);
        }
        Identity { page, object: if self.vary.is_empty() { page } else { hasher.finish() } }
    }

    /// Number of variants that one URL can have; `None`: as many as clients like.
    pub fn possible_variants(&self) -> Option<u64> {
        self.vary.iter().try_fold(1u64, |all, vary| {
            (!vary.words.is_empty()).then(|| all.saturating_mul(vary.words.len() as u64 + 1))
        })
    }

    fn host(&self, entry: &AccessEntry<'_>) -> Vec<u8> {
        let mut host = entry.host.as_deref().unwrap_or_default().to_ascii_lowercase();
        if self.merges_www && host.starts_with(b"www.") {
            host.drain(..4);
        }
        host
    }

    fn target<'a>(&self, target: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(at) = memchr::memchr(b'?', target).filter(|_| self.dropped.all || !self.dropped.names.is_empty())
        else {
            return Cow::Borrowed(target);
        };
        let mut kept = target[..at].to_vec();
        if !self.dropped.all {
            let mut mark = b'?';
            for parameter in target[at + 1..].split(|b| *b == b'&').filter(|p| !self.dropped.has(p)) {
                kept.push(mark);
                kept.extend_from_slice(parameter);
                mark = b'&';
            }
        }
        Cow::Owned(kept)
    }
}

impl Dropped {
    /// `all`, or names with commas between them.
    ///
    /// # Errors
    /// There is an empty name.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        if text == "all" {
            self.all = true;
            return Ok(());
        }
        for name in text.split(',') {
            if name.trim_end_matches('*').is_empty() {
                return Err(format!("--drop-query {text}: names with commas between them, as utm_*,ref, or all"));
            }
            self.names.push(name.to_owned());
        }
        Ok(())
    }

    fn has(&self, parameter: &[u8]) -> bool {
        let name = parameter.split(|b| *b == b'=').next().unwrap_or_default();
        self.names.iter().any(|dropped| match dropped.strip_suffix('*') {
            Some(begin) => name.starts_with(begin.as_bytes()),
            None => name == dropped.as_bytes(),
        })
    }
}

impl VaryScheme {
    /// `User-Agent`, or with classes `User-Agent:opera mini|msie`.
    ///
    /// # Errors
    /// It isn't of that form.
    pub fn parse(text: &str) -> Result<VaryScheme, String> {
        let (field, words) = text.split_once(':').map_or((text, None), |(field, words)| (field, Some(words)));
        let words: Vec<String> = words.map_or_else(Vec::new, |words| words.split('|').map(str::to_lowercase).collect());
        let is_name = !field.is_empty() && field.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !is_name || words.iter().any(String::is_empty) {
            return Err(format!(
                "--vary {text}: a field, or a field and words of its values, as User-Agent:opera|msie"
            ));
        }
        Ok(VaryScheme { field: field.to_owned(), words })
    }

    /// The class of a request: a word's number, that after the last for what has none; a value itself where there are no words.
    fn class<'a>(&self, entry: &'a AccessEntry<'_>) -> Class<'a> {
        let value = entry.field(&self.field).unwrap_or_default();
        if self.words.is_empty() {
            return Class::Value(value);
        }
        let value = value.to_ascii_lowercase();
        // What a client accepts is a list, best first; other values are one text.
        let is_list = self.field.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("accept"));
        let parts: Vec<&[u8]> = if is_list { value.split(|b| *b == b',').collect() } else { vec![&value] };
        let in_part = |part: &[u8]| self.words.iter().position(|word| memmem::find(part, word.as_bytes()).is_some());
        Class::Word(parts.into_iter().find_map(in_part).unwrap_or(self.words.len()))
    }
}

#[derive(Hash)]
enum Class<'a> {
    Word(usize),
    Value(&'a [u8]),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(url: &'a str, fields: &[(&'a str, &'a str)]) -> AccessEntry<'a> {
        let mut entry = AccessEntry::default();
        entry.set_url(Cow::Borrowed(url.as_bytes())).expect("a URL");
        for (name, value) in fields {
            entry.fields.push((Cow::Borrowed(name.as_bytes()), Cow::Borrowed(value.as_bytes())));
        }
        entry
    }

    fn scheme(drop: &str, vary: &[&str]) -> Scheme {
        let mut scheme = Scheme { merges_www: true, ..Scheme::default() };
        if !drop.is_empty() {
            scheme.dropped.add(drop).expect("names");
        }
        scheme.vary = vary.iter().map(|text| VaryScheme::parse(text).expect("a field")).collect();
        scheme
    }

    #[test]
    fn parameters_are_dropped() {
        let show =
            |drop, url: &'static [u8]| String::from_utf8(scheme(drop, &[]).target(url).into_owned()).expect("text");
        assert_eq!(show("utm_*,_", b"/a?x=1&utm_source=b&_=77&__=1"), "/a?x=1&__=1");
        assert_eq!(show("utm_*,_", b"/a?_=77"), "/a");
        assert_eq!(show("all", b"/a?x=1?y"), "/a");
        assert_eq!(show("", b"/a?x=1"), "/a?x=1");
        assert!(Dropped::default().add("a,,b").is_err());
        assert!(Dropped::default().add("*").is_err());
    }

    #[test]
    fn hosts_are_part_of_what_is_asked_for() {
        let page = |merges_www, url| Scheme { merges_www, ..Scheme::default() }.identify(&entry(url, &[])).page;
        assert_eq!(page(true, "http://WWW.a.nz/"), page(false, "http://a.nz/"));
        assert_ne!(page(false, "http://www.a.nz/"), page(false, "http://a.nz/"));
    }

    #[test]
    fn values_have_classes() {
        let scheme = scheme("", &["Accept-Language:de|en", "User-Agent:opera mini|msie"]);
        assert_eq!(scheme.possible_variants(), Some(9));
        let object =
            |l, a| scheme.identify(&entry("http://a.nz/", &[("accept-language", l), ("User-Agent", a)])).object;
        assert_eq!(object("fr,en;q=0.5,de;q=0.1", "x MSIE 6"), object("EN-us", "msie"), "the best that is known");
        assert_eq!(object("", "Opera Mini; MSIE"), object("fr", "Opera Mini/4"), "the first word of the list");
        assert_ne!(object("de", "x"), object("en", "x"));
        assert_eq!(Scheme { vary: vec![VaryScheme::parse("Cookie").unwrap()], ..scheme }.possible_variants(), None);
        for bad in ["", ":a", "User-Agent:a||b", "User Agent"] {
            assert!(VaryScheme::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn classes_bound_the_variants_of_a_page() {
        const LANGUAGES: &str = "ar|bg|cs|da|de|en|es|fi|fr|hu|it|ja|nl|pl|pt|ru|sv";
        let languages = format!("Accept-Language:{LANGUAGES}");
        let scheme = scheme("", &["User-Agent:opera mini|opera mobi|msie", &languages, "Cookie:view=mobile"]);
        assert_eq!(scheme.possible_variants(), Some(144));
        let mut seen = std::collections::HashSet::new();
        for agent in ["Opera Mini/4.2", "Opera/9.5 (Opera Mobi/49)", "MSIE 7.0", "Firefox/3.5", "Chrome/4", ""] {
            for language in LANGUAGES.split('|').chain(["zh", "ko", "*"]) {
                for region in ["", "-xx", "-yy"] {
                    for cookie in ["view=mobile; id=1", "id=2", "view=full; id=3", ""] {
                        let language = format!("{language}{region},nn;q=0.1");
                        let fields = [("User-Agent", agent), ("Accept-Language", &*language), ("Cookie", cookie)];
                        seen.insert(scheme.identify(&entry("http://a.nz/", &fields)).object);
                    }
                }
            }
        }
        assert_eq!(seen.len(), 144);
    }
}
