// SPDX-License-Identifier: BSD-2-Clause
//! vmod_xbody of Varnish Enterprise: the request's body, and the response's rewritten, searched and hashed on its way into the
//! cache. Patterns are VCL's own; they work in the order of the calls, each on what the one before made. A body that is
//! rewritten or searched is held as a whole, 8 MB at most, or the fetch fails; one that is hashed streams. `$` at the end
//! of a pattern is the end of the body, also behind a last newline.

use std::sync::Arc;

use filters::{Filter, FilterError, FilterState, FilterStep, SLICE};
use serde_json::Value as Json;
use vcl_regex::Regex;
use vrt::vmod::EnumWords;
use vrt::vmod::{BLOB, CallResult, STRING, VOID, VmodCall, give};
use vrt::{Blob, Method, Text, VclFailure};

use crate::support::body_collector::{BodyCollector, MAX_BODY_BYTES, WorkState};
use crate::support::pattern;
use vmod_support::args::fail;
use vmod_support::hashing::Hashing;

const MAX_CALLS: usize = 100;
const MAX_CAPTURED: usize = 64 * 1024;
const NAME: &str = "xbody";

vrt::words! {
    enum Algorithm {
        Md5 = "md5", Sha1 = "sha1", Sha224 = "sha224", Sha256 = "sha256", Sha384 = "sha384", Sha512 = "sha512",
    }
}

vrt::vmod! {
    /// Rewrites, searches and hashes response bodies before they are stored; gives access to the request's body
    pub(crate) static VMOD = xbody;

    functions {
        /// Replaces matches in the response's body: all in mode g, the first one in an empty mode; at most max (0:
        /// unlimited). \1 is a group. The fetch fails if the body exceeds 8 MB
        fn regsub(
            pattern: STRING, substitution: STRING, mode: STRING = "g", max: INT = 0
        ) -> VOID, local, only(Method::BackendResponse.set()) = xbody_regsub;

        /// Stores a value under a name with the object if the pattern matches; both may contain groups. The object isn't
        /// streamed
        fn capture(
            name: STRING, pattern: STRING, value: STRING, mode: STRING = "", max: INT = 0
        ) -> VOID, local, only(Method::BackendResponse.set()) = xbody_capture;

        /// Stores a hash of the body, as received, with the object. With do_stream the object may be streamed, and the hash
        /// is available once it is complete
        fn hash_body(
            algorithm: Algorithm, name: STRING = "", do_stream: BOOL = false
        ) -> VOID, local, only(Method::BackendResponse.set()) = hash_body;

        /// Returns a hash that hash_body has stored
        fn get_hash(name: STRING = "") -> BLOB, only(Method::Deliver.set().with(Method::Synth.set())) = get_hash;

        /// Returns the value captured under a name
        fn get(value: STRING, default: STRING = null) -> STRING, only(Method::Deliver.set().with(Method::Synth.set()))
            = get;

        /// Returns all captured values as a JSON object
        fn get_all() -> STRING, only(Method::Deliver.set().with(Method::Synth.set())) = get_all;

        /// Makes the captured values available in vcl_synth
        fn synth() -> VOID, local, only(Method::Deliver.set()) = synth;

        /// Sets the captured values, instead of running regsub and capture
        fn set(json: STRING) -> VOID, local, only(Method::BackendResponse.set()) = set;

        /// Returns the request's body; unset, with a VCL_Error record, if std.cache_req_body hasn't cached it
        fn get_req_body() -> STRING, local = get_req_body;

        /// Returns a hash of the request's body, under the conditions of get_req_body
        fn get_req_body_hash(algorithm: Algorithm) -> BLOB, local = get_req_body_hash;

        /// Discards all calls for this body
        fn reset() -> VOID, local = reset;
    }

    left_out {
        "xbody.log_body" => "xbody.capture, and std.log of what it has in vcl_deliver";
    }
}

fn xbody_regsub(call: &mut VmodCall<'_>, regex: &[u8], substitution: &[u8], mode: &[u8], max: i64) -> CallResult<VOID> {
    let with = substitution.to_vec();
    let most = most(mode, max, "regsub")?;
    let regex = compile(call, regex, "regsub")?;
    add(call, "regsub", Op::Regsub { regex, with, most })
}

fn xbody_capture(
    call: &mut VmodCall<'_>,
    name: &[u8],
    regex: &[u8],
    value: &[u8],
    mode: &[u8],
    max: i64,
) -> CallResult<VOID> {
    let (name, value) = (name.to_vec(), value.to_vec());
    let most = most(mode, max, "capture")?;
    let regex = compile(call, regex, "capture")?;
    add(call, "capture", Op::Capture { regex, name, value, most })
}

fn hash_body(call: &mut VmodCall<'_>, algorithm: Algorithm, name: &[u8], do_stream: bool) -> CallResult<VOID> {
    let (hash, name) = (Hashing::named(algorithm.word()), name.to_vec());
    let waits = !do_stream;
    let hashes = &mut body(call, "hash_body")?.hashes;
    hashes.retain(|other| other.name != name);
    if hashes.len() >= MAX_CALLS {
        return fail(format!("xbody.hash_body(): a body has no more than {MAX_CALLS} hashes"));
    }
    hashes.push(Hash { name, hash, waits });
    give(())
}

fn get_hash(call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<BLOB> {
    let (name, left) = (name, left(call, "get_hash")?);
    let found = left.as_ref().and_then(|left| left.hashes.iter().find(|(other, _)| other == name));
    give(found.map(|(_, hash)| Blob::new(&hash[..])))
}

fn get(call: &mut VmodCall<'_>, value: &[u8], default: Option<&Text>) -> CallResult<STRING> {
    let left = left(call, "get")?;
    let found =
        left.as_ref().and_then(|left| left.captured.iter().find(|(name, _)| name == value).map(|(_, value)| value));
    give(match found {
        Some(value) => Some(Text::copy(value)),
        None => default.cloned(),
    })
}

fn get_all(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    let left = left(call, "get_all")?;
    give(left.map(|left| left.json()))
}

fn synth(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    let left = left(call, "synth")?;
    call.ctx.task().get::<SynthBody>().0 = left;
    give(())
}

fn set(call: &mut VmodCall<'_>, json: &[u8]) -> CallResult<VOID> {
    let captured = parse(json).map_err(|reason| VclFailure::new(format!("xbody.set(): {reason}")))?;
    body(call, "set")?.set = Some(captured);
    give(())
}

fn get_req_body(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    let body = crate::bodyaccess::body(call, None, b"");
    give(body)
}

fn get_req_body_hash(call: &mut VmodCall<'_>, algorithm: Algorithm) -> CallResult<BLOB> {
    let Some(body) = crate::bodyaccess::body(call, None, b"") else { return give(None) };
    let mut hash = Hashing::named(algorithm.word());
    hash.update(&body);
    give(Some(Blob::new(hash.finish())))
}

fn reset(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    call.ctx.task().get::<SynthBody>().0 = None;
    if let Some(body) = call.ctx.injected_filters().and_then(|injected| injected.find::<Body>()) {
        *body = Body::default();
    }
    give(())
}

/// Captures that `synth` keeps for vcl_synth.
#[derive(Default)]
struct SynthBody(Option<Captures>);

enum Op {
    Regsub { regex: Arc<Regex>, with: Vec<u8>, most: usize },
    Capture { regex: Arc<Regex>, name: Vec<u8>, value: Vec<u8>, most: usize },
}

struct Hash {
    name: Vec<u8>,
    hash: Hashing,
    waits: bool,
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Default)]
struct Body {
    gathered: BodyCollector,
    ops: Vec<Op>,
    done: usize,
    captured: Pairs,
    set: Option<Pairs>,
    hashes: Vec<Hash>,
}

/// Number of matches that count: `mode` "g" is all of them, "" one; then max.
fn most(mode: &[u8], max: i64, who: &str) -> Result<usize, VclFailure> {
    let most = match mode {
        b"g" => usize::MAX,
        b"" => 1,
        other => return fail(format!("xbody.{who}(): mode \"{}\" isn't \"g\" or empty", other.escape_ascii())),
    };
    Ok(match max {
        ..=0 => most,
        max => most.min(max as usize),
    })
}

fn compile(call: &VmodCall<'_>, text: &[u8], who: &str) -> Result<Arc<Regex>, VclFailure> {
    let who = format!("xbody.{who}()");
    match text.strip_suffix(b"$") {
        Some(start) if start.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0 => {
            pattern::compile(call, &who, &[start, b"\\z"].concat())
        }
        _ => pattern::compile(call, &who, text),
    }
}

fn body<'a>(call: &'a mut VmodCall<'_>, who: &str) -> Result<&'a mut Body, VclFailure> {
    if call.method != Method::BackendResponse {
        return fail(format!("xbody.{who}() is for vcl_backend_response"));
    }
    let Some(injected) = call.ctx.injected_filters() else {
        return fail(format!("xbody.{who}(): there is no response here"));
    };
    Ok(injected.by_itself(Body::default))
}

fn add(call: &mut VmodCall<'_>, who: &str, op: Op) -> CallResult<VOID> {
    let ops = &mut body(call, who)?.ops;
    if ops.len() >= MAX_CALLS {
        return fail(format!("xbody.{who}(): a body has no more than {MAX_CALLS} of them"));
    }
    ops.push(op);
    give(())
}

/// Captures that the filter left with the object at hand.
fn left(call: &mut VmodCall<'_>, who: &str) -> Result<Option<Captures>, VclFailure> {
    match call.method {
        Method::Deliver => Ok(call.ctx.object_metadata(NAME).map(|left| Captures::read(&left))),
        Method::Synth => Ok(call.ctx.task().get::<SynthBody>().0.clone()),
        _ => fail(format!("xbody.{who}() is for vcl_deliver")),
    }
}

/// Names and values of an object in JSON; of no text there are none.
fn parse(json: &[u8]) -> Result<Pairs, &'static str> {
    if json.len() > MAX_CAPTURED {
        return Err("more than 64 KB");
    }
    if json.is_empty() {
        return Ok(Vec::new());
    }
    let Ok(Json::Object(all)) = serde_json::from_slice(json) else { return Err("that is no object in JSON") };
    let value = |value: Json| match value {
        Json::String(text) => text,
        other => other.to_string(),
    };
    Ok(all.into_iter().map(|(name, json)| (name.into_bytes(), value(json).into_bytes())).collect())
}

fn regsub(body: &[u8], regex: &Regex, with: &[u8], most: usize) -> Result<Option<Vec<u8>>, &'static str> {
    let (mut out, mut done, mut count) = (Vec::new(), 0, 0);
    let searched = regex.each_match(body, &mut |groups| {
        let Some(Some(whole)) = groups.first() else { return false };
        out.extend_from_slice(&body[done..whole.start.max(done)]);
        Regex::expand(with, body, groups, &mut out);
        (done, count) = (whole.end.max(done), count + 1);
        count < most && out.len() <= MAX_BODY_BYTES
    });
    searched.map_err(|reason| reason.text())?;
    out.extend_from_slice(&body[done..]);
    Ok((count > 0).then_some(out))
}

impl Body {
    fn streams(&self) -> bool {
        self.ops.is_empty() || self.set.is_some()
    }

    fn hash(&mut self, data: &[u8]) {
        self.hashes.iter_mut().for_each(|hash| hash.hash.update(data));
    }
}

fn capture(
    body: &[u8],
    (regex, name, value, most): (&Regex, &[u8], &[u8], usize),
    captured: &mut Pairs,
) -> Result<(), &'static str> {
    let mut bytes: usize = captured.iter().map(|(name, value)| name.len() + value.len()).sum();
    let mut count = 0;
    let searched = regex.each_match(body, &mut |groups| {
        let (mut key, mut text) = (Vec::new(), Vec::new());
        Regex::expand(name, body, groups, &mut key);
        Regex::expand(value, body, groups, &mut text);
        bytes += key.len() + text.len();
        match captured.iter_mut().find(|(other, _)| *other == key) {
            Some((_, old)) => {
                bytes -= key.len() + old.len();
                *old = text;
            }
            None => captured.push((key, text)),
        }
        count += 1;
        count < most && bytes <= MAX_CAPTURED
    });
    searched.map_err(|reason| reason.text())?;
    if bytes > MAX_CAPTURED { Err("more than 64 KB are captured") } else { Ok(()) }
}

impl Filter for Body {
    fn name(&self) -> &'static str {
        NAME
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        if self.streams() {
            let n = input.len().min(out.len()).min(SLICE);
            out[..n].copy_from_slice(&input[..n]);
            self.hash(&input[..n]);
            let state = match (n == input.len(), is_last) {
                (false, _) => FilterState::More,
                (true, false) => FilterState::Hungry,
                (true, true) => FilterState::End,
            };
            return Ok(FilterStep { consumed: n, produced: n, state });
        }
        let consumed = input.len().min(SLICE);
        // Of the body as it came: what it becomes is VCL's to know.
        self.hash(&input[..consumed]);
        let (ops, done, captured) = (&self.ops, &mut self.done, &mut self.captured);
        self.gathered.step(NAME, input, is_last, out, |body| {
            let Some(op) = ops.get(*done) else { return Ok(WorkState::Done) };
            *done += 1;
            match op {
                Op::Regsub { regex, with, most } => {
                    if let Some(new) = regsub(body, regex, with, *most)? {
                        *body = new;
                    }
                }
                Op::Capture { regex, name, value, most } => {
                    capture(body, (regex, name, value, *most), captured)?;
                }
            }
            Ok(WorkState::More)
        })
    }

    fn keeps_body(&self) -> bool {
        self.streams()
    }

    fn needs_whole(&self) -> bool {
        !self.streams()
    }

    fn has_metadata(&self) -> bool {
        self.set.is_some()
            || self.ops.iter().any(|op| matches!(op, Op::Capture { .. }))
            || self.hashes.iter().any(|hash| hash.waits)
    }

    fn take_metadata(&mut self) -> Option<Vec<u8>> {
        if !self.has_metadata() && self.hashes.is_empty() {
            return None;
        }
        let captured = self.set.take().unwrap_or_else(|| std::mem::take(&mut self.captured));
        let hashes = self.hashes.drain(..).map(|hash| (hash.name, hash.hash.finish())).collect();
        Some(Captures { captured, hashes }.store())
    }
}

#[derive(Clone, Default, Debug, PartialEq, Eq)]
struct Captures {
    captured: Pairs,
    hashes: Pairs,
}

impl Captures {
    fn json(&self) -> String {
        let text = |bytes: &[u8]| Json::from(String::from_utf8_lossy(bytes)).to_string();
        let pairs: Vec<String> =
            self.captured.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect();
        format!("{{{}}}", pairs.join(", "))
    }

    /// Twice: a count, and so many names and values, each after its length.
    fn store(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for pairs in [&self.captured, &self.hashes] {
            out.extend_from_slice(&(pairs.len() as u32).to_le_bytes());
            for bytes in pairs.iter().flat_map(|(name, value)| [name, value]) {
                out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                out.extend_from_slice(bytes);
            }
        }
        out
    }

    fn read(stored: &[u8]) -> Captures {
        let mut rest = stored;
        let number = |rest: &mut &[u8]| {
            let (number, after) = rest.split_first_chunk()?;
            *rest = after;
            Some(u32::from_le_bytes(*number) as usize)
        };
        let bytes = |rest: &mut &[u8]| {
            let len = number(rest)?;
            let (bytes, after) = rest.split_at_checked(len)?;
            *rest = after;
            Some(bytes.to_vec())
        };
        let mut pairs = || {
            let (count, after) = rest.split_first_chunk()?;
            rest = after;
            (0..u32::from_le_bytes(*count))
                .map(|_| Some((bytes(&mut rest)?, bytes(&mut rest)?)))
                .collect::<Option<Pairs>>()
        };
        Captures { captured: pairs().unwrap_or_default(), hashes: pairs().unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::support::body_collector::tests::run;

    fn regex(pattern: &str) -> Arc<Regex> {
        Arc::new(Regex::new(pattern.as_bytes()).expect("a pattern"))
    }

    fn sub(pattern: &str, with: &str) -> Op {
        Op::Regsub { regex: regex(pattern), with: with.into(), most: usize::MAX }
    }

    fn find(name: &str, pattern: &str, value: &str, most: usize) -> Op {
        Op::Capture { regex: regex(pattern), name: name.into(), value: value.into(), most }
    }

    #[track_caller]
    fn check(ops: Vec<Op>, body: &str, wanted: &str, captured: &str) {
        for (cut, room) in [(1, 1), (3, 100)] {
            let ops = ops.iter().map(|op| match op {
                Op::Regsub { regex, with, most } => {
                    Op::Regsub { regex: regex.clone(), with: with.clone(), most: *most }
                }
                Op::Capture { regex, name, value, most } => {
                    Op::Capture { regex: regex.clone(), name: name.clone(), value: value.clone(), most: *most }
                }
            });
            let mut filter = Body { ops: ops.collect(), ..Body::default() };
            let made = run(&mut filter, body.as_bytes(), cut, room).expect("short");
            assert_eq!(String::from_utf8(made).unwrap(), wanted);
            let left = filter.take_metadata().map(|left| Captures::read(&left));
            assert_eq!(left.unwrap_or_default().json(), captured);
        }
    }

    #[test]
    fn in_the_order_of_the_calls() {
        let ops = vec![
            sub("test", "new string"),
            sub("\\sis", " isn't"),
            sub("string", "cat"),
            find("name", "new (\\w+)", "\\1", 1),
        ];
        check(ops, "This is a test!", "This isn't a new cat!", "{\"name\": \"cat\"}");
        let ops = vec![find("\\1", "(\\w)=(\\S*)", "\\2", usize::MAX), sub("=\\S*", "=")];
        check(ops, "a=1 b=\"x\" a=2", "a= b= a=", "{\"a\": \"2\", \"b\": \"\\\"x\\\"\"}");
        check(vec![find("n", "x", "", 1)], "abc", "abc", "{}");
        check(vec![sub("^", "f("), sub("\\z", ");")], "1\n", "f(1\n);", "{}");
    }

    #[test]
    fn too_much_is_an_error() {
        let mut filter = Body { ops: vec![find("\\0", ".", "\\0", usize::MAX)], ..Body::default() };
        assert!(run(&mut filter, &[b'a'; 100_000], 9999, 9999).is_ok(), "one name");
        let mut filter = Body { ops: vec![find("n", "a+", "\\0", 1)], ..Body::default() };
        assert!(run(&mut filter, &[b'a'; 70_000], 9999, 9999).is_err());
        let mut filter = Body { ops: vec![sub("a", &"b".repeat(1000))], ..Body::default() };
        assert!(run(&mut filter, &[b'a'; 10_000], 9999, 9999).is_err());
    }

    #[test]
    fn what_is_set_takes_the_place_of_work() {
        let set = parse(br#"{"a": "b\n", "n": 1}"#).expect("an object");
        let mut filter = Body { ops: vec![sub("x", "y")], set: Some(set), ..Body::default() };
        assert_eq!(run(&mut filter, b"x", 1, 1), Ok(b"x".to_vec()));
        let left = Captures::read(&filter.take_metadata().expect("set"));
        assert_eq!(left.json(), r#"{"a": "b\n", "n": "1"}"#);
        assert_eq!(parse(b""), Ok(Vec::new()));
        assert!(parse(b"[]").is_err() && parse(b"{").is_err() && parse(&[b' '; 70_000]).is_err());
    }

    proptest! {
        #[test]
        fn what_was_stored_is_read(pairs in proptest::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..4), cut in 0usize..40) {
            let left = Captures { captured: pairs.clone(), hashes: pairs };
            let stored = left.store();
            prop_assert_eq!(&Captures::read(&stored), &left);
            Captures::read(&stored[..cut.min(stored.len())]);
        }

        #[test]
        fn any_pattern(pattern in "[ab.*+?()|^$\\\\-]{0,10}", with in "[a\\\\0-2]{0,5}", body in "[ab\n]{0,60}", cut in 1usize..70) {
            let Ok(regex) = Regex::new(pattern.as_bytes()) else { return Ok(()) };
            let mut wanted = Vec::new();
            let Ok(found) = regex.sub(body.as_bytes(), with.as_bytes(), true, &mut wanted) else { return Ok(()) };
            let mut filter = Body { ops: vec![sub(&pattern, &with)], ..Body::default() };
            let made = run(&mut filter, body.as_bytes(), cut, 7).expect("short");
            prop_assert_eq!(made, if found { wanted } else { body.into_bytes() });
        }
    }
}
