// SPDX-License-Identifier: BSD-2-Clause
//! vmod_edgestash of Varnish Enterprise: Mustache templates that are filled in from JSON when they are delivered. A template has
//! 1 MB at most, what is none is delivered as it is, as documented; so is a template that nobody executes. JSON that is none
//! counts as `null`, and so does a URL whose response isn't a 200 with 1 MB at most; URLs are asked for one after the other. `"` becomes `&quot;` in `{{x}}`, as in Mustache; `{{& x}}` writes JSON's escapes anew. Not built: partials (a fetch of a template with some fails), packing what was filled in.

mod expr;
mod render;
mod template;
#[cfg(test)]
mod tests;

use filters::{Filter, FilterError, FilterNote, FilterState, FilterStep, SLICE, Subrequest};
use vrt::vmod::{BOOL, CallResult, Methods, STRING, VOID, VmodCall, give};
use vrt::{Method, VclFailure};

use self::render::Render;
use self::template::{Delimiters, Fault, Op, parse};
use crate::support::values::Values;
use vmod_support::args::fail;

/// Bytes of a template, and of a response that is looked at as JSON.
const MAX: usize = 1024 * 1024;
const MAX_JSON: usize = 64;
const MAX_JSON_BYTES: usize = 4 * 1024 * 1024;
const TOO_MUCH: &str = "edgestash: a page has no more than 64 documents and 4 MB of JSON";
const NAME: &str = "edgestash";
/// Marks that a fetch leaves with an object: the start and the end of its tags, or that it is JSON.
const IS_JSON: &[u8] = b"";

vrt::vmod! {
    /// Mustache templates in the cache, filled with JSON data at delivery
    pub(crate) static VMOD = edgestash;

    functions {
        /// Treats the response as a template (at most 1 MB). A response that doesn't parse is delivered unchanged and
        /// logged as VCL_Error
        fn parse_response() -> VOID, local, only(Method::BackendResponse.set()) = parse_response;

        /// Treats the response as JSON (at most 1 MB)
        fn index_json() -> VOID, local, only(Method::BackendResponse.set()) = index_json;

        /// Adds JSON data for the template. Documents are searched in the order of the calls; at most 64 with 4 MB in total
        fn add_json(json_blob: STRING) -> VOID, local, only(Method::Deliver.set()) = add_json;

        /// Adds JSON data from a URL, which is requested like an ESI fragment when the template is delivered (at most 1
        /// MB). xbody isn't supported and fails
        fn add_json_url(
            json_url: STRING, json_host: STRING = "", xbody: BOOL = false
        ) -> VOID, local, only(Method::Deliver.set()) = add_json_url;

        /// Adds JSON data from each URL of a list, each with the prefix
        fn add_json_url_csv(
            json_urls: STRING, prefix: STRING = "", delimiter: STRING = ",", json_host: STRING = "", xbody: BOOL
            = false
        ) -> VOID, local, only(Method::Deliver.set()) = add_json_url_csv;

        /// Delivers the filled template, uncompressed. Has no effect if the object isn't a template
        fn execute(do_gzip: [BOOL]) -> VOID, local, only(Method::Deliver.set()) = execute;

        /// Sets the delimiters of tags, for later calls of parse_response. quote_char isn't supported and fails
        fn set_delimiter(
            start: STRING, end: STRING, quote_char: STRING = ""
        ) -> VOID, local, only(Method::BackendResponse.set()) = set_delimiter;

        /// Returns the opening delimiter of tags
        fn get_sdelimiter(quote_char: STRING = "") -> STRING, local, only(Methods::BACKEND)
            = |call: &mut VmodCall<'_>, quote_char: &[u8]| get_delimiter(call, quote_char, |both| &both.0);

        /// Returns the closing delimiter of tags
        fn get_edelimiter(quote_char: STRING = "") -> STRING, local, only(Methods::BACKEND)
            = |call: &mut VmodCall<'_>, quote_char: &[u8]| get_delimiter(call, quote_char, |both| &both.1);

        /// Returns whether parse_response recognised this object as a template
        fn is_edgestash() -> BOOL, local = is_edgestash;

        /// Returns whether index_json recognised this object as JSON
        fn is_json() -> BOOL, local = is_json;

        /// Returns the version of Edgestash with which this module is compatible
        fn version() -> STRING, local = |_| "2.1";
    }
}

fn parse_response(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    looking(call, "parse_response")?.as_json = false;
    give(())
}

fn index_json(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    looking(call, "index_json")?.as_json = true;
    give(())
}

fn add_json(call: &mut VmodCall<'_>, text: &[u8]) -> CallResult<VOID> {
    let page = page(call, "add_json")?;
    if page.values.roots.len() == MAX_JSON || page.json_bytes + text.len() > MAX_JSON_BYTES {
        return fail(TOO_MUCH);
    }
    page.json_bytes += text.len();
    page.values.add(text);
    give(())
}

fn add_json_url(call: &mut VmodCall<'_>, json_url: &[u8], json_host: &[u8], xbody: bool) -> CallResult<VOID> {
    let host = json_host.to_vec();
    if xbody {
        return fail("edgestash.add_json_url(): xbody isn't built into Lacquer");
    }
    ask(call, "add_json_url", json_url.to_vec(), host)
}

fn add_json_url_csv(
    call: &mut VmodCall<'_>,
    json_urls: &[u8],
    prefix: &[u8],
    delimiter: &[u8],
    host: &[u8],
    xbody: bool,
) -> CallResult<VOID> {
    if xbody {
        return fail("edgestash.add_json_url_csv(): xbody isn't built into Lacquer");
    }
    if delimiter.is_empty() {
        return fail("edgestash.add_json_url_csv(): there is no delimiter");
    }
    let mut rest = json_urls;
    loop {
        let end = memchr::memmem::find(rest, delimiter);
        let url = rest[..end.unwrap_or(rest.len())].trim_ascii();
        if !url.is_empty() {
            ask(call, "add_json_url_csv", [prefix, url].concat(), host.to_vec())?;
        }
        match end {
            Some(end) => rest = &rest[end + delimiter.len()..],
            None => return give(()),
        }
    }
}

fn execute(call: &mut VmodCall<'_>, do_gzip: Option<bool>) -> CallResult<VOID> {
    if do_gzip.is_some() && do_gzip.unwrap_or_default() {
        return fail("edgestash.execute(): do_gzip isn't built into Lacquer");
    }
    page(call, "execute")?;
    // Of anything else there is nothing to execute.
    if let Some(delimiters) = left(call).and_then(|left| delimiters_of(&left))
        && let Some(injected) = call.ctx.injected_filters()
    {
        injected.by_itself(Page::default).delimiters = delimiters;
    }
    give(())
}

fn set_delimiter(call: &mut VmodCall<'_>, start: &[u8], end: &[u8], quote_char: &[u8]) -> CallResult<VOID> {
    if !quote_char.is_empty() {
        return fail("edgestash.set_delimiter(): a quote_char isn't built into Lacquer");
    }
    let Some(new) = Delimiters::new(start, end) else {
        return fail("edgestash.set_delimiter(): 1 to 16 bytes each, without blanks or =");
    };
    response(call, "set_delimiter")?;
    *delimiters(call) = new;
    give(())
}

fn is_edgestash(call: &mut VmodCall<'_>) -> CallResult<BOOL> {
    let is = left(call).is_some_and(|left| delimiters_of(&left).is_some());
    give(is)
}

fn is_json(call: &mut VmodCall<'_>) -> CallResult<BOOL> {
    let is = left(call).is_some_and(|left| left == IS_JSON);
    give(is)
}

fn left(call: &mut VmodCall<'_>) -> Option<Vec<u8>> {
    call.ctx.object_metadata(NAME)
}

fn delimiters_of(left: &[u8]) -> Option<Delimiters> {
    let blank = left.iter().position(|byte| *byte == b' ')?;
    Delimiters::new(&left[..blank], &left[blank + 1..])
}

fn response(call: &VmodCall<'_>, who: &str) -> Result<(), VclFailure> {
    match call.method {
        Method::BackendResponse => Ok(()),
        _ => fail(format!("edgestash.{who}() is for vcl_backend_response")),
    }
}

fn delimiters<'a>(call: &'a mut VmodCall<'_>) -> &'a mut Delimiters {
    call.ctx.task().get()
}

fn get_delimiter(
    call: &mut VmodCall<'_>,
    quote_char: &[u8],
    which: impl FnOnce(&Delimiters) -> &Vec<u8>,
) -> CallResult<STRING> {
    if !quote_char.is_empty() {
        return fail("edgestash: a quote_char isn't built into Lacquer");
    }
    let text = which(delimiters(call)).clone();
    give(text)
}

fn looking<'a>(call: &'a mut VmodCall<'_>, who: &str) -> Result<&'a mut PageScanner, VclFailure> {
    response(call, who)?;
    let delimiters = delimiters(call).clone();
    let Some(injected) = call.ctx.injected_filters() else { return fail("edgestash: there is no response here") };
    let looking = injected.by_itself(PageScanner::default);
    looking.delimiters = delimiters;
    Ok(looking)
}

fn page<'a>(call: &'a mut VmodCall<'_>, who: &str) -> Result<&'a mut Page, VclFailure> {
    if call.method != Method::Deliver {
        return fail(format!("edgestash.{who}() is for vcl_deliver"));
    }
    match call.ctx.injected_filters() {
        Some(injected) => Ok(injected.named(Page::default)),
        None => fail("edgestash: there is no response here"),
    }
}

/// A document that is still to be had.
fn ask(call: &mut VmodCall<'_>, who: &str, url: Vec<u8>, host: Vec<u8>) -> CallResult<VOID> {
    if !url.starts_with(b"/") || url.iter().chain(&host).any(|byte| *byte <= b' ' || *byte == 0x7f) {
        return fail(format!("edgestash.{who}(): \"{}\" is no URL without a host", url.escape_ascii()));
    }
    let page = page(call, who)?;
    if page.values.roots.len() == MAX_JSON {
        return fail(TOO_MUCH);
    }
    page.values.add(b"null");
    let host = Some(host).filter(|host| !host.is_empty());
    page.asked.push((page.values.roots.len() - 1, Subrequest { url, host, most: MAX }));
    give(())
}

/// The filter of the fetch: the body goes through as it is, and is looked at.
#[derive(Default)]
struct PageScanner {
    as_json: bool,
    delimiters: Delimiters,
    seen: Vec<u8>,
    is_too_long: bool,
    left: Option<Vec<u8>>,
    why_not: Option<&'static str>,
}

impl PageScanner {
    fn look(&mut self) -> Result<(), FilterError> {
        let seen = std::mem::take(&mut self.seen);
        let found = match (self.is_too_long, self.as_json) {
            (true, _) => Err("it is longer than 1 MB"),
            (false, true) => match serde_json::from_slice::<serde_json::Value>(&seen) {
                Ok(_) => Ok(IS_JSON.to_vec()),
                Err(_) => Err("it isn't JSON"),
            },
            (false, false) => match parse(&seen, &self.delimiters) {
                Ok(_) => Ok([&self.delimiters.0[..], b" ", &self.delimiters.1].concat()),
                Err(Fault::NoTemplate(reason)) => Err(reason),
                Err(Fault::NotBuilt(reason)) => return Err(FilterError::Module { name: NAME, reason }),
            },
        };
        match found {
            Ok(left) => self.left = Some(left),
            Err(reason) => self.why_not = Some(reason),
        }
        Ok(())
    }
}

impl Filter for PageScanner {
    fn name(&self) -> &'static str {
        NAME
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let n = input.len().min(out.len()).min(SLICE);
        out[..n].copy_from_slice(&input[..n]);
        self.is_too_long |= self.seen.len() + n > MAX;
        if self.is_too_long {
            self.seen = Vec::new();
        } else {
            self.seen.extend_from_slice(&input[..n]);
        }
        let state = match (n == input.len(), is_last) {
            (false, _) => FilterState::More,
            (true, false) => FilterState::Hungry,
            (true, true) => {
                self.look()?;
                FilterState::End
            }
        };
        Ok(FilterStep { consumed: n, produced: n, state })
    }

    fn keeps_body(&self) -> bool {
        true
    }

    fn has_metadata(&self) -> bool {
        true
    }

    fn take_metadata(&mut self) -> Option<Vec<u8>> {
        self.left.take()
    }

    fn take_notes(&mut self, notes: &mut Vec<FilterNote>) {
        let what = if self.as_json { "index_json" } else { "parse_response" };
        notes.extend(self.why_not.take().map(|reason| FilterNote::VclError(format!("edgestash.{what}(): {reason}"))));
    }
}

/// The filter of a delivery: the template is read, and filled in.
#[derive(Default)]
struct Page {
    delimiters: Delimiters,
    values: Values,
    json_bytes: usize,
    /// Documents that are asked for, and which they are.
    asked: Vec<(usize, Subrequest)>,
    waiting: Vec<usize>,
    text: Vec<u8>,
    render: Option<Render>,
    made: Vec<u8>,
    at: usize,
}

impl Filter for Page {
    fn name(&self) -> &'static str {
        NAME
    }

    fn needs_whole(&self) -> bool {
        true
    }

    fn take_subrequests(&mut self) -> Vec<Subrequest> {
        let (which, asked): (Vec<_>, _) = self.asked.drain(..).unzip();
        self.waiting.extend(which);
        asked
    }

    fn answer(&mut self, answers: Vec<Option<Vec<u8>>>) {
        for (root, answer) in self.waiting.drain(..).zip(answers) {
            let Some(json) = answer else { continue };
            self.json_bytes += json.len();
            if self.json_bytes <= MAX_JSON_BYTES {
                self.values.replace(root, &json);
            }
        }
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let failed = |reason| FilterError::Module { name: NAME, reason };
        let Some(render) = &mut self.render else {
            let consumed = input.len().min(SLICE);
            self.text.extend_from_slice(&input[..consumed]);
            if self.text.len() > MAX {
                return Err(failed("the template is longer than 1 MB"));
            }
            let is_whole = is_last && consumed == input.len();
            if is_whole {
                let ops: Vec<Op> = match parse(&self.text, &self.delimiters) {
                    Ok(ops) => ops,
                    Err(Fault::NoTemplate(reason) | Fault::NotBuilt(reason)) => return Err(failed(reason)),
                };
                self.render = Some(Render::new(std::mem::take(&mut self.text), ops, std::mem::take(&mut self.values)));
            }
            let state = if is_whole || consumed < input.len() { FilterState::More } else { FilterState::Hungry };
            return Ok(FilterStep { consumed, produced: 0, state });
        };
        let mut has_more = true;
        if self.at == self.made.len() {
            (self.at, has_more) = (0, true);
            self.made.clear();
            has_more &= render.go_on(SLICE, &mut self.made).map_err(failed)?;
        }
        let produced = (self.made.len() - self.at).min(out.len()).min(SLICE);
        out[..produced].copy_from_slice(&self.made[self.at..self.at + produced]);
        self.at += produced;
        let state = if !has_more && self.at == self.made.len() { FilterState::End } else { FilterState::More };
        Ok(FilterStep { consumed: 0, produced, state })
    }
}
