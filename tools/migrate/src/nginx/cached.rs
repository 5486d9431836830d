// SPDX-License-Identifier: BSD-2-Clause
//! A location that caches: the requests for which the cache is asked, the key, and what is kept.

use super::asked::Origin;
use super::content::LocationPart;
use super::kept::Refusal;
use super::leaf::LocationWork;
use super::location::NginxLocation;
use super::number::size;
use super::pages;
use super::response::{self, StaleRule};
use super::scope::LocationScope;
use super::value::{ExpressionSide, VariableNames, expression, replaced, truth};
use crate::vcl;

/// True if nginx caches here: not without buffers, whatever else is said.
pub fn is_cached(scope: &LocationScope<'_>) -> bool {
    let buffering = scope.holding(&[&format!("{}_buffering", scope.kind)]).pop();
    let is_buffered = buffering.is_none_or(|directive| directive.word(0) != "off");
    is_buffered && scope.one_of_kind("cache").is_some_and(|cache| cache.word(0) != "off")
}

impl<'w, 'a> LocationWork<'w, 'a> {
    /// The lines of requests for which the cache is asked. `packed` are the lines about compression; with `is_accelerated` a response may send nginx
    /// elsewhere.
    pub(super) fn cached(
        &mut self,
        part: &LocationPart<'_, 'w, 'a>,
        origin: &Origin<'a>,
        packed: Vec<String>,
        is_accelerated: bool,
    ) -> Result<Vec<String>, Refusal<'a>> {
        let (names, scope, label) = (&self.around.names, part.scope, part.label);
        let is_direct = matches!(origin, Origin::Direct(_));
        if let Some(kilobytes) = slice(scope)? {
            let set = ["set bereq.do_slice = true;".to_owned(), format!("set bereq.slice_size = {kilobytes}KB;")];
            self.lines.add("fetch", label, set.to_vec());
        }
        let mut lines = vec!["if (req.method != \"GET\" && req.method != \"HEAD\") { return (pass); }".to_owned()];
        methods(scope)?;
        lines.extend(zone(scope, &self.around.inactive, names)?);
        lines.extend(late_ranges(scope)?);
        if scope.one_of_kind("cache_convert_head").is_some_and(|d| d.word(0) == "off") {
            lines.push("set req.http.Nginx-Method = req.method;".to_owned());
            self.lines.add("fetch", label, vec!["set bereq.method = bereq.http.Nginx-Method;".to_owned()]);
        }
        lines.extend(bypassed(scope, names)?);
        let (unkept, late) = unkept(scope, names)?;
        lines.extend(unkept);
        if let Some(cache) = scope.one_of_kind("cache") {
            let text = "as in nginx, requests with Cookie or Authorization get what is kept, too: is each of these pages the same for all?";
            self.migrated.note(&cache.place, &cache.name, text);
        }
        let stale = StaleRule::of(scope, &self.around.inactive);
        lines.extend(stale.recv());
        self.lines.add("hit", label, stale.hit());
        self.lines.add("error", label, stale.error());
        if names.has_pages && is_direct {
            self.lines.add("error", label, vec![pages::failed()]);
        }
        self.lines.add("hash", label, key(scope, part.location, origin, names)?);
        let lifetimes = &mut self.lines.lifetimes;
        let response = response::cached(scope, &stale, &late, !is_direct, is_accelerated, lifetimes, self.migrated);
        let response = response.map_err(Refusal::of)?;
        self.lines.add("response", label, [packed, response].concat());
        self.lines.add("fetch", label, stale.fetch());
        lines.push("return (hash);".to_owned());
        Ok(lines)
    }
}

/// The size of a location's slices in kilobytes, if it has any.
pub fn slice<'a>(scope: &LocationScope<'a>) -> Result<Option<u64>, Refusal<'a>> {
    let Some(directive) = scope.one("slice").filter(|directive| directive.word(0) != "0") else { return Ok(None) };
    match size(directive.word(0)).map(|bytes| bytes >> 10).filter(|kilobytes| (64..=64 << 10).contains(kilobytes)) {
        _ if !is_cached(scope) || scope.kind != "proxy" => {
            Err(Refusal::new(directive, "only cached responses of proxy_pass come in slices here"))
        }
        Some(kilobytes) if size(directive.word(0)) == Some(kilobytes << 10) && kilobytes.is_power_of_two() => {
            Ok(Some(kilobytes))
        }
        _ => Err(Refusal::new(directive, "slices have a power of two from 64k to 64m here: docs/slices.md")),
    }
}

fn methods<'a>(scope: &LocationScope<'a>) -> Result<(), Refusal<'a>> {
    let is_other = |method: &String| !matches!(method.to_ascii_uppercase().as_str(), "GET" | "HEAD");
    match scope.one_of_kind("cache_methods").filter(|directive| directive.words.iter().any(is_other)) {
        Some(directive) => Err(Refusal::new(directive, "responses to GET and HEAD alone are cached here")),
        None => Ok(()),
    }
}

/// The zone of a location where a variable names it: nginx caches nothing without one, and fails where there is none of that name.
fn zone<'a>(
    scope: &LocationScope<'a>,
    zones: &[(String, f64)],
    names: &VariableNames,
) -> Result<Vec<String>, Refusal<'a>> {
    let Some(directive) = scope.one_of_kind("cache").filter(|cache| cache.word(0).contains('$')) else {
        return Ok(Vec::new());
    };
    let value = expression(directive.word(0), ExpressionSide::Client, "", names)
        .map_err(|reason| Refusal::new(directive, reason))?;
    let known: Vec<String> = zones.iter().map(|(zone, _)| vcl::literal(zone)).collect();
    let is_unknown = vcl::one_of("req.http.Nginx-Zone", true, ("^(", ")$"), &known)
        .ok_or_else(|| Refusal::new(directive, "a zone's name can't be written in VCL"))?;
    Ok(vec![
        format!("set req.http.Nginx-Zone = {value};"),
        "if (req.http.Nginx-Zone == \"\" || req.http.Nginx-Zone == \"off\") { return (pass); }".to_owned(),
        format!("if ({is_unknown}) {{ return (synth(500)); }}"),
    ])
}

/// Ranges that begin behind `proxy_cache_max_range_offset`: the origin is asked for them, and the cache isn't.
fn late_ranges<'a>(scope: &LocationScope<'a>) -> Result<Vec<String>, Refusal<'a>> {
    let Some(directive) = scope.one_of_kind("cache_max_range_offset") else { return Ok(Vec::new()) };
    let most =
        size(directive.word(0)).ok_or_else(|| Refusal::new(directive, format!("{} is no size", directive.word(0))))?;
    let condition = match most {
        0 => "req.http.Range".to_owned(),
        _ => format!(
            "req.http.Range ~ \"(?i)^bytes= *-\" || req.http.Range ~ \"(?i)^bytes= *\\d\" && std.integer(regsub(req.http.Range, \"(?i)^bytes= *(\\d+).*$\", \"\\1\"), {most}) >= {most}"
        ),
    };
    Ok(vec![format!("if ({condition}) {{ return (pass); }}")])
}

/// `proxy_cache_bypass`: the lines by which a request doesn't get what is kept. Those that keep nothing either come first.
fn bypassed<'a>(scope: &LocationScope<'a>, names: &VariableNames) -> Result<Vec<String>, Refusal<'a>> {
    let unkept: Vec<&String> = scope.all_of_kind("no_cache").into_iter().flat_map(|d| &d.words).collect();
    let (mut passing, mut bypassing) = (Vec::new(), Vec::new());
    for directive in scope.all_of_kind("cache_bypass") {
        for word in &directive.words {
            let condition = truth(word, ExpressionSide::Client, names).map_err(|why| Refusal::new(directive, why))?;
            let skip = "set req.hash_always_miss = true;";
            match unkept.contains(&word) {
                // Neither asked for nor kept: what is kept for others stays.
                true => passing.push(format!("if ({condition}) {{ {skip} return (pass); }}")),
                false => bypassing.push(format!("if ({condition}) {{ {skip} }}")),
            }
        }
    }
    Ok([passing, bypassing].concat())
}

/// `proxy_no_cache`: the lines that mark requests whose responses aren't kept, and the conditions that only the response decides.
fn unkept<'a>(scope: &LocationScope<'a>, names: &VariableNames) -> Result<(Vec<String>, Vec<String>), Refusal<'a>> {
    let (mut lines, mut late) = (Vec::new(), Vec::new());
    for directive in scope.all_of_kind("no_cache") {
        for word in &directive.words {
            if let Some(condition) = response::late_truth(word) {
                late.push(condition);
                continue;
            }
            let condition = truth(word, ExpressionSide::Client, names).map_err(|why| Refusal::new(directive, why))?;
            lines.push(format!("if ({condition}) {{ set req.http.Nginx-No-Store = \"1\"; }}"));
        }
    }
    Ok((lines, late))
}

fn key<'a>(
    scope: &LocationScope<'a>,
    location: &NginxLocation<'a>,
    origin: &Origin<'a>,
    names: &VariableNames,
) -> Result<Vec<String>, Refusal<'a>> {
    let zone = scope.one_of_kind("cache").map_or("", |cache| cache.word(0));
    let mut hash = vec![match zone.contains('$') {
        true => "hash_data(req.http.Nginx-Zone);".to_owned(),
        false => format!("hash_data({});", vcl::string(zone).unwrap_or_default()),
    }];
    match (scope.one_of_kind("cache_key"), origin) {
        (Some(key), _) => {
            let proxy_host = if let Origin::Direct(direct) = origin { direct.name.as_str() } else { "" };
            let mut text = key.words.join(" ");
            if slice(scope)?.is_some() {
                // Each slice has a key of its own besides.
                text = replaced(&text, "slice_range", "");
            }
            let text = expression(&text, ExpressionSide::Client, proxy_host, names);
            let text = text.map_err(|reason| Refusal::new(key, reason))?;
            hash.push(format!("hash_data({text});"));
            hash.push("return (lookup);".to_owned());
        }
        // nginx's own key: the URL that the origin is asked for, with the name that proxy_pass gives it.
        (None, Origin::Direct(direct)) => {
            let begin = format!("{}://{}", direct.scheme, direct.name);
            let begin = expression(&begin, ExpressionSide::Client, "", names);
            let begin = begin.map_err(|reason| Refusal::new(direct.pass, reason))?;
            hash.push(format!("hash_data({begin});"));
            hash.push(format!("hash_data({});", direct.url(location.text, "req")));
            hash.push("return (lookup);".to_owned());
        }
        // nginx has none: by URL and Host.
        (None, Origin::Nginx) => {}
    }
    Ok(hash)
}
