// SPDX-License-Identifier: BSD-2-Clause
//! The server that a location's requests go to, and the requests as it gets them.

use std::collections::BTreeSet;

use super::admit;
use super::cached;
use super::config::Directive;
use super::content::LocationPart;
use super::kept::Refusal;
use super::leaf::LocationWork;
use super::location::{LocationKind, NginxLocation, handler};
use super::number::millis;
use super::redirect;
use super::scope::{LocationScope, duration};
use super::targets;
use super::upstream::{self, Attributes};
use super::value::{ExpressionSide, VariableNames, expression, folded};
use super::words;
use crate::vcl;

pub enum Origin<'a> {
    Direct(DirectOrigin<'a>),
    Nginx,
}

/// An address of `proxy_pass`: the directive, scheme, name, and the URI in the place of the location's.
pub struct DirectOrigin<'a> {
    pub pass: &'a Directive,
    pub scheme: String,
    /// The name, which may be made of variables.
    pub name: String,
    /// The upstream of that name.
    pub upstream: Option<&'a Directive>,
    uri: Uri,
}

enum Uri {
    /// The URL as the client sent it.
    Same,
    /// Instead of the location's prefix.
    Instead(String),
    /// A value of its own.
    Whole(String),
}

pub const UPGRADED: &str = "if (req.http.Upgrade ~ \"(?i)websocket\") { return (pipe); }";

/// URLs that nginx writes another way when it puts a URI in the place of a prefix: it resolves `..`, and joins slashes.
const UNUSUAL: &str = "^[^?]*(//|/\\.\\.?(/|\\?|$)|%2[eEfF])";

impl DirectOrigin<'_> {
    /// The expression of the URL that the origin is asked for; `prefix` is the location's, `side` `req` or `bereq`.
    pub fn url(&self, prefix: &str, side: &str) -> String {
        match &self.uri {
            Uri::Same => format!("{side}.url"),
            Uri::Instead(uri) => format!("regsub({side}.url, \"^{}\", {uri})", vcl::literal(prefix)),
            Uri::Whole(value) => value.replace("bereq.", &format!("{side}.")),
        }
    }
}

impl<'w, 'a> LocationWork<'w, 'a> {
    /// The `proxy_pass` of a location; None where it has none, or where the response comes by way of `try_files`.
    pub(super) fn pass(&self, part: &LocationPart<'_, 'w, 'a>) -> Option<&'a Directive> {
        // Blocks of `if` take over the handler of their location.
        let own = handler(part.scope.inner()).or_else(|| handler(part.location.scope.inner()));
        own.filter(|(kind, _)| *kind == "proxy" && !part.is_fallback).map(|(_, pass)| pass)
    }

    /// The server that a location's `proxy_pass` names, else nginx.
    pub(super) fn origin(&mut self, part: &LocationPart<'_, 'w, 'a>) -> Result<Origin<'a>, Refusal<'a>> {
        let Some(pass) = self.pass(part) else { return Ok(Origin::Nginx) };
        pass.is_read.set(true);
        let text = match part.address {
            Some(branch) => branch.address.clone(),
            None => folded(pass.word(0), &self.around.names),
        };
        let (scheme, name, uri) = parts(&text).ok_or_else(|| Refusal::new(pass, NO_ADDRESS))?;
        let own_name = part.address.and_then(|branch| branch.upstream.as_deref()).unwrap_or(name);
        let upstream = upstream::named(&self.around.upstreams, own_name);
        if upstream.is_none() && !words::is_address(name) && !name.contains('$') {
            return Err(Refusal::new(pass, "it names no server: HOST, HOST:PORT or unix:PATH is wanted"));
        }
        let uri = self.uri(pass, name, uri, part.location.kind)?;
        Ok(Origin::Direct(DirectOrigin { pass, scheme: scheme.to_owned(), name: name.to_owned(), upstream, uri }))
    }

    fn uri(&self, pass: &'a Directive, name: &str, uri: &str, kind: LocationKind) -> Result<Uri, Refusal<'a>> {
        if uri.is_empty() {
            return Ok(Uri::Same);
        }
        // Beside a variable anywhere in it, its URI is the whole one.
        if pass.word(0).contains('$') {
            let value = expression(uri, ExpressionSide::Backend, name, &self.around.names);
            return value.map(Uri::Whole).map_err(|reason| Refusal::new(pass, reason));
        }
        match kind {
            // A backslash has a meaning in what regsub puts in.
            LocationKind::Exact | LocationKind::Prefix { .. } => vcl::string(&uri.replace('\\', "\\\\"))
                .map(Uri::Instead)
                .ok_or_else(|| Refusal::new(pass, "its URI can't be written in VCL")),
            LocationKind::Regex { .. } | LocationKind::Named | LocationKind::Server => {
                Err(Refusal::new(pass, "with a URI in a location that isn't a prefix"))
            }
        }
    }

    pub(super) fn asked(
        &mut self,
        part: &LocationPart<'_, 'w, 'a>,
        direct: &DirectOrigin<'a>,
    ) -> Result<Vec<String>, Refusal<'a>> {
        let (names, scope, label) = (&self.around.names, part.scope, part.label);
        let is_sliced = cached::slice(scope)?.is_some();
        let mut lines: Vec<String> = admit::body_bound(scope)?.into_iter().collect();
        lines.extend(self.excepted(scope)?);
        if let Uri::Instead(_) = direct.uri {
            // A prefix that is written another way: nginx knows how to take it away.
            let prefix = vcl::literal(part.location.text);
            lines.push(format!("if (req.url !~ \"^{prefix}\" || req.url ~ \"{UNUSUAL}\") {{"));
            lines.extend(self.nginx_alone().into_iter().map(|line| format!("\t{line}")));
            lines.push("}".to_owned());
        }
        lines.push(format!("set req.backend_hint = {};", self.backend(scope, direct)?));
        let redirected = redirect::redirected(scope, part.location, direct.pass, names).map_err(Refusal::of)?;
        self.lines.add("deliver", label, redirected);
        let mut fields = scope.all("proxy_set_header");
        if is_sliced {
            // The core asks for the range of a slice.
            fields.retain(|field| !(field.word(0).eq_ignore_ascii_case("range") && is_slice_range(field.word(1))));
        }
        let fetch = fetched(&fields, direct, part.location, names)?;
        if scope.holding(&["underscores_in_headers"]).last().is_none_or(|d| d.word(0) != "on") {
            let mut unset: BTreeSet<String> = BTreeSet::new();
            for field in &fields {
                let spellings = respelled(field.word(0)).ok_or_else(|| Refusal::new(field, MANY_DASHES))?;
                unset.extend(spellings.into_iter().map(|name| format!("unset bereq.http.{name};")));
            }
            self.lines.add("fetch", label, unset.into_iter().collect());
        }
        self.lines.add("fetch", label, fetch);
        lines.extend(fields.iter().any(|field| is_upgrade(field)).then(|| UPGRADED.to_owned()));
        Ok(lines)
    }

    fn backend(&mut self, scope: &LocationScope<'a>, direct: &DirectOrigin<'a>) -> Result<String, Refusal<'a>> {
        let DirectOrigin { pass, scheme, name, .. } = direct;
        let known = direct.upstream.map_or(name.as_str(), |upstream| upstream.word(0));
        if !known.contains('$') {
            return Ok(self.backends.expression(scheme, known, direct.upstream, &attributes(scope)));
        }
        let name = expression(name, ExpressionSide::Client, "", &self.around.names);
        let name = name.map_err(|reason| Refusal::new(pass, reason))?;
        Ok(self.backends.named_by_request(scheme, &name, &attributes(scope)))
    }

    /// The lines that send requests to nginx, whose response is kept here.
    pub(super) fn asked_of_nginx(&mut self, scope: &LocationScope<'a>, location: &NginxLocation<'a>) -> Vec<String> {
        let mut lines = Vec::new();
        if self.around.names.has_moves {
            // nginx runs its script again.
            lines.push("set req.url = req.http.Nginx-Asked;".to_owned());
        }
        lines.push(self.nginx());
        lines.extend(self.has_upgrades.then(|| UPGRADED.to_owned()));
        // The directive that names the program which nginx asks counts as read.
        let found = handler(scope.inner()).or_else(|| handler(location.scope.inner()));
        found.iter().for_each(|(_, pass)| pass.is_read.set(true));
        lines
    }

    /// The lines of a request that nginx answers by itself: as the client sent it, and judged by no location.
    pub fn nginx_alone(&mut self) -> Vec<String> {
        let mut lines = vec!["set req.http.Nginx-Location = \"nginx\";".to_owned()];
        if self.around.names.has_moves {
            lines.push("set req.url = req.http.Nginx-Asked;".to_owned());
        }
        lines.push(self.nginx());
        lines.extend(self.has_upgrades.then(|| UPGRADED.to_owned()));
        lines.push("return (pass);".to_owned());
        lines
    }

    fn nginx(&mut self) -> String {
        let address = self.origins.address(self.site);
        let chosen = self.backends.expression("http", &address, None, &Vec::new());
        format!("set req.backend_hint = {chosen};")
    }
}

const MANY_DASHES: &str = "a client could send a header of this name with `_`, in more spellings than are taken out here: six dashes are the most";

const NO_ADDRESS: &str =
    "it is no address: http:// or https://, a name and a URI that begins with `/`, $uri or $request_uri are wanted";

/// Scheme, name and URI of an address; None where it has no scheme or name.
pub(super) fn parts(address: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = address.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))?;
    let at = match rest.strip_prefix("unix:") {
        // Behind `unix:PATH:` a URI may stand.
        Some(path) => path.find(':').map_or(rest.len(), |at| at + 6),
        None => targets::ends(address).1 - scheme.len() - 3,
    };
    let (name, uri) = rest.split_at(at);
    let uri = uri.trim_start_matches(':');
    let is_whole = targets::URI.iter().any(|begin| uri.starts_with(begin));
    (!name.is_empty() && (uri.is_empty() || is_whole)).then_some((scheme, name, uri))
}

pub fn is_upgrade(directive: &Directive) -> bool {
    directive.name == "proxy_set_header" && directive.word(0).eq_ignore_ascii_case("upgrade")
}

fn is_slice_range(value: &str) -> bool {
    matches!(value, "$slice_range" | "${slice_range}")
}

fn attributes(scope: &LocationScope<'_>) -> Attributes {
    let of = |name: &str, attribute: &str| {
        scope.one(name).and_then(|d| millis(d.word(0))).map(|seconds| format!(".{attribute} = {};", duration(seconds)))
    };
    [
        of("proxy_connect_timeout", "connect_timeout"),
        of("proxy_read_timeout", "first_byte_timeout"),
        of("proxy_read_timeout", "between_bytes_timeout"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// True of an expression without any text that is always there.
fn may_be_empty(value: &str) -> bool {
    let is_sure =
        |term: &str| term.starts_with('"') && term != "\"\"" || SURE.iter().any(|sure| term.starts_with(sure));
    !value.split(" + ").any(is_sure)
}

/// Variables that are never empty; nginx answers 400 where Host is.
const SURE: [&str; 7] =
    ["client.ip", "server.", "std.port(", "std.time2real(", "std.tolower(", "bereq.method", "bereq.url"];

/// The spellings of a header with `_`; None of a name with too many dashes. nginx takes such headers out of requests: an application may read them
/// as the header itself, and so a client could say what nginx is to say.
fn respelled(header: &str) -> Option<Vec<String>> {
    const MOST: usize = 6;
    let dashes: Vec<usize> = header.match_indices('-').map(|(at, _)| at).collect();
    let spelled = |mask: u32| {
        let is_at = |at: usize| dashes.iter().position(|dash| *dash == at).is_some_and(|i| mask >> i & 1 == 1);
        header.chars().enumerate().map(|(at, c)| if is_at(at) { '_' } else { c }).collect()
    };
    (dashes.len() <= MOST).then(|| (1..1 << dashes.len()).map(spelled).collect())
}

/// The request to the origin: headers that read the client's before they are changed, then Host, then the URL.
fn fetched<'a>(
    fields: &[&'a Directive],
    direct: &DirectOrigin<'a>,
    location: &NginxLocation<'a>,
    names: &VariableNames,
) -> Result<Vec<String>, Refusal<'a>> {
    let mut lines = Vec::new();
    let name = expression(&direct.name, ExpressionSide::Backend, "", names);
    let mut host = name.ok().map(|host| format!("set bereq.http.Host = {host};"));
    let mut changed: Vec<String> = Vec::new();
    for field in fields {
        let lower = field.word(0).to_ascii_lowercase();
        if lower == "host" {
            host = changed_header(field, &direct.name, &changed, names)?;
        } else if let Some(line) = changed_header(field, &direct.name, &changed, names)? {
            changed.push(lower);
            lines.push(line);
        }
    }
    lines.extend(host);
    if names.has_tls && !fields.iter().any(|field| field.word(0).eq_ignore_ascii_case("x-forwarded-proto")) {
        // The core has set it for this VCL.
        lines.push("unset bereq.http.X-Forwarded-Proto;".to_owned());
    }
    match &direct.uri {
        Uri::Whole(value) if value.contains("bereq.http.Host") => {
            return Err(Refusal::new(direct.pass, "its URI has Host in it"));
        }
        Uri::Same => {}
        Uri::Whole(value) if value == "bereq.url" => {}
        Uri::Whole(_) | Uri::Instead(_) => {
            lines.push(format!("set bereq.url = {};", direct.url(location.text, "bereq")));
        }
    }
    Ok(lines)
}

/// The line for a header of the request; None where the core sends what is asked for. `changed` are those that lines before it have changed.
fn changed_header<'a>(
    field: &'a Directive,
    name: &str,
    changed: &[String],
    names: &VariableNames,
) -> Result<Option<String>, Refusal<'a>> {
    let (header, value) = (field.word(0), field.word(1));
    if !words::is_header(header) {
        return Err(Refusal::new(field, format!("{header} can't be named in VCL")));
    }
    match (header.to_ascii_lowercase().as_str(), value) {
        // The core writes these for each connection.
        ("connection" | "upgrade" | "te" | "transfer-encoding" | "content-length", _) => return Ok(None),
        // The core sends the client's Host.
        ("host", "$http_host") | ("x-forwarded-for", "$proxy_add_x_forwarded_for") => return Ok(None),
        ("x-forwarded-proto", "$scheme") if names.has_tls => return Ok(None),
        (_, "") => return Ok(Some(format!("unset bereq.http.{header};"))),
        _ => {}
    }
    let value =
        expression(value, ExpressionSide::Backend, name, names).map_err(|reason| Refusal::new(field, reason))?;
    if changed.iter().any(|known| value.to_ascii_lowercase().contains(&format!("bereq.http.{known}"))) {
        return Err(Refusal::new(field, "it reads a header that another line has changed"));
    }
    let set = format!("set bereq.http.{header} = {value};");
    // nginx sends no header that is empty.
    Ok(Some(match may_be_empty(&value) {
        true => format!("{set} if (bereq.http.{header} == \"\") {{ unset bereq.http.{header}; }}"),
        false => set,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_with_underscores() {
        for (header, expect) in
            [("Host", &[][..]), ("X-User", &["X_User"]), ("X-Real-IP", &["X_Real-IP", "X-Real_IP", "X_Real_IP"])]
        {
            assert_eq!(
                respelled(header).as_deref(),
                Some(expect.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).as_deref()
            );
        }
        assert_eq!(respelled("A-B-C-D-E").map(|all| all.len()), Some(15));
        assert!(respelled("A-B-C-D-E-F-G").is_some_and(|all| all.contains(&"A_B-C_D-E_F-G".to_owned())));
        assert_eq!(respelled("A-B-C-D-E-F-G-H"), None);
    }

    #[test]
    fn parts_of_addresses() {
        for (address, expect) in [
            ("http://a:1/b", Some(("http", "a:1", "/b"))),
            ("https://a", Some(("https", "a", ""))),
            ("http://unix:/run/a:/b", Some(("http", "unix:/run/a:", "/b"))),
            ("http://a${uri}", Some(("http", "a", "${uri}"))),
            ("http://${a}:81", Some(("http", "${a}:81", ""))),
            ("http:///a", None),
            ("http://a?b", None),
            ("http://a${is_args}", None),
            ("ftp://a", None),
            ("${a}", None),
        ] {
            assert_eq!(parts(address), expect, "{address}");
        }
    }
}
