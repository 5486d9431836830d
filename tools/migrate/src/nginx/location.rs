// SPDX-License-Identifier: BSD-2-Clause
//! The locations of a server: a tree, and the order in which nginx asks them. The exact path first; then the longest prefix, and within it the
//! locations that stand in it; then the regexes of this level in their order, unless the prefix has `^~`; else the prefix.

use super::capture;
use super::config::Directive;
use super::scope::{KINDS, LocationScope};
use super::value::VariableNames;
use crate::vcl;

/// The variable that holds the path by which locations are told apart.
const PATH: &str = "req.http.Nginx-Path";

/// The way in which a location is told from the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocationKind {
    /// An exact path: `= /path`.
    Exact,
    /// A prefix of the path: `/path`, or with `^~`, which keeps regexes from being asked.
    Prefix { is_final: bool },
    /// A regex: `~` and `~*`.
    Regex { ignores_case: bool },
    /// `@name`: no request comes here by itself.
    Named,
    /// The server's own block, for what no location is for.
    Server,
}

/// A location, or a server as the location of what is left.
pub struct NginxLocation<'a> {
    pub directive: &'a Directive,
    pub kind: LocationKind,
    /// The path, regex or name.
    pub text: &'a str,
    pub scope: LocationScope<'a>,
    /// A name for VCL, of the site's and the location's number.
    pub label: String,
    /// The lines that keep what its regex captures.
    captures: Vec<String>,
    pub inside: Vec<NginxLocation<'a>>,
}

/// A regex location, and the subroutine that asks the regexes of its level.
type Groups = Vec<String>;

impl<'a> NginxLocation<'a> {
    /// A server with all its locations; `site` is the beginning of their labels.
    pub fn of_server(
        server: &'a Directive,
        http: &LocationScope<'a>,
        site: &str,
        names: &VariableNames,
    ) -> NginxLocation<'a> {
        let mut count = 0;
        let mut whole = NginxLocation::new(server, LocationKind::Server, "", http, (site, names), &mut count);
        whole.label = format!("{site}rest");
        whole
    }

    fn new(
        directive: &'a Directive,
        kind: LocationKind,
        text: &'a str,
        around: &LocationScope<'a>,
        (site, names): (&str, &VariableNames),
        count: &mut usize,
    ) -> NginxLocation<'a> {
        let mut scope = around.within(directive.inside());
        scope.kind = handler(directive.inside()).map_or("", |(kind, _)| kind);
        let label = format!("{site}loc{count}");
        let mut inside = Vec::new();
        for location in directive.inside().iter().filter(|d| d.name == "location") {
            *count += 1;
            let (kind, text) = kind_of(location);
            inside.push(NginxLocation::new(location, kind, text, &scope, (site, names), count));
        }
        let captures = match kind {
            LocationKind::Regex { ignores_case } => capture::lines(PATH, text, ignores_case, names),
            _ => Vec::new(),
        };
        NginxLocation { directive, kind, text, scope, label, captures, inside }
    }

    /// This location and all in it.
    pub fn all(&self) -> Vec<&NginxLocation<'a>> {
        let mut out = vec![self];
        self.inside.iter().for_each(|location| out.extend(location.all()));
        out
    }

    /// The location of a path that is known now; None where a regex would have to be asked.
    pub fn find(&self, path: &str) -> Option<&NginxLocation<'a>> {
        if let Some(exact) = self.inside.iter().find(|l| l.kind == LocationKind::Exact && l.text == path) {
            return Some(exact);
        }
        let prefix = self.prefixes().into_iter().find(|l| path.starts_with(l.text));
        let is_final = prefix.is_some_and(|l| l.kind == LocationKind::Prefix { is_final: true });
        let mut regexes = self.inside.iter().filter(|l| matches!(l.kind, LocationKind::Regex { .. }));
        if !is_final {
            // Only regexes of an extension are decided here: `\.php$` and the like.
            for location in regexes.by_ref() {
                let LocationKind::Regex { .. } = location.kind else { continue };
                match extension_fits(location.text, path) {
                    Some(true) => return Some(location),
                    Some(false) => {}
                    None => return None,
                }
            }
        }
        match prefix {
            Some(prefix) if prefix.inside.is_empty() => Some(prefix),
            Some(prefix) => prefix.find(path),
            None => Some(self),
        }
    }

    pub fn is_everything(&self) -> bool {
        matches!(self.kind, LocationKind::Prefix { .. }) && self.text == "/"
    }

    /// The prefixes of this level, the longest first.
    fn prefixes(&self) -> Vec<&NginxLocation<'a>> {
        let mut found: Vec<&NginxLocation<'a>> =
            self.inside.iter().filter(|l| matches!(l.kind, LocationKind::Prefix { .. })).collect();
        found.sort_by_key(|l| std::cmp::Reverse(l.text.len()));
        found
    }

    fn regexes(&self) -> Vec<&NginxLocation<'a>> {
        self.inside.iter().filter(|l| matches!(l.kind, LocationKind::Regex { .. })).collect()
    }

    /// The lines that call the subroutine of the location that a request is for, and the further subroutines that they call.
    /// A location's own subroutine never comes back.
    pub fn decision(&self, subs: &mut String) -> Vec<String> {
        self.level(&Vec::new(), subs)
    }

    /// One level: `pending` are the regexes of the levels around it, which are asked when this one's are not for the path.
    fn level(&self, pending: &Groups, subs: &mut String) -> Vec<String> {
        let mut groups = Vec::new();
        let regexes = self.regexes();
        if !regexes.is_empty() {
            let name = format!("{}_regexes", self.label);
            let branches = regexes
                .iter()
                .map(|location| {
                    let LocationKind::Regex { ignores_case } = location.kind else { return Default::default() };
                    let flag = if ignores_case { "(?i)" } else { "" };
                    let regex = vcl::string(&format!("{flag}{}", location.text)).unwrap_or_default();
                    // Locations within a regex are tried, but no longer those around it.
                    let lines = [location.captures.clone(), location.level(&Vec::new(), subs)].concat();
                    (format!("{PATH} ~ {regex}"), lines)
                })
                .collect();
            subs.push_str(&vcl::sub(&name, &vcl::chain(branches)));
            groups.push(name);
        }
        let mut branches = Vec::new();
        for location in self.inside.iter().filter(|l| l.kind == LocationKind::Exact) {
            branches.push((equals(location.text), location.level(&Vec::new(), subs)));
        }
        for location in self.prefixes() {
            if let Some(bare) = location.without_slash()
                && !self
                    .inside
                    .iter()
                    .any(|l| matches!(l.kind, LocationKind::Exact | LocationKind::Prefix { .. }) && l.text == bare)
            {
                let args = "regsub(req.url, \"^[^?]*\", \"\")";
                let slash = vcl::string(location.text).unwrap_or_default();
                let lines = vec![
                    format!("set req.http.Nginx-Location = \"{}\";", location.label),
                    format!("set req.http.Nginx-Text = {slash} + {args};"),
                    "return (synth(301));".to_owned(),
                ];
                branches.push((equals(bare), lines));
            }
        }
        for location in self.prefixes() {
            let mut around = Vec::new();
            if location.kind == (LocationKind::Prefix { is_final: false }) {
                around.extend(groups.iter().cloned());
            }
            around.extend(pending.iter().cloned());
            let condition = match location.text {
                "/" => String::new(),
                text => format!("{PATH} ~ \"^{}\"", vcl::literal(text)),
            };
            branches.push((condition, location.level(&around, subs)));
        }
        let mut rest: Vec<String> = groups.iter().chain(pending).map(|name| format!("call {name};")).collect();
        rest.push(format!("call {};", self.label));
        branches.push((String::new(), rest));
        vcl::chain(branches)
    }

    /// `/path` of a location `/path/` that asks another server: nginx answers it with a redirection.
    pub fn without_slash(&self) -> Option<&'a str> {
        let is_asking = KINDS.iter().any(|kind| self.scope.inner().iter().any(|d| d.name == format!("{kind}_pass")));
        self.text.strip_suffix('/').filter(|bare| is_asking && !bare.is_empty())
    }
}

fn equals(path: &str) -> String {
    format!("{PATH} == {}", vcl::string(path).unwrap_or_default())
}

/// The directive that gives a block its handler, and the beginning of the names that belong to it.
pub fn handler(block: &[Directive]) -> Option<(&'static str, &Directive)> {
    block.iter().find_map(|d| KINDS.iter().find(|kind| d.name == format!("{kind}_pass")).map(|kind| (*kind, d)))
}

fn kind_of(location: &Directive) -> (LocationKind, &str) {
    let first = location.word(0);
    match (first, location.words.len()) {
        ("=", 2..) => (LocationKind::Exact, location.word(1)),
        ("^~", 2..) => (LocationKind::Prefix { is_final: true }, location.word(1)),
        ("~", 2..) => (LocationKind::Regex { ignores_case: false }, location.word(1)),
        ("~*", 2..) => (LocationKind::Regex { ignores_case: true }, location.word(1)),
        _ if first.starts_with('@') => (LocationKind::Named, first),
        _ if first.starts_with("^~") => (LocationKind::Prefix { is_final: true }, &first[2..]),
        _ if first.starts_with("~*") => (LocationKind::Regex { ignores_case: true }, &first[2..]),
        _ if first.starts_with('~') => (LocationKind::Regex { ignores_case: false }, &first[1..]),
        _ if first.starts_with('=') => (LocationKind::Exact, &first[1..]),
        _ => (LocationKind::Prefix { is_final: false }, first),
    }
}

/// True or false where a regex is known to be for a path or not: `\.php$`, `\.(png|css)$`. None of any other.
fn extension_fits(regex: &str, path: &str) -> Option<bool> {
    let regex = regex.strip_prefix("[^/]").unwrap_or(regex);
    if regex.starts_with("^/") && !regex.contains('|') && !regex[2..].starts_with(['(', '[', '.', '\\']) {
        let plain: String = regex[1..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '/').collect();
        // The last letter may be optional.
        let sure = &plain[..plain.len().saturating_sub(1)];
        return (!path.starts_with(sure)).then_some(false);
    }
    let inner = regex.strip_prefix("\\.")?;
    let (list, rest) = match inner.strip_prefix('(') {
        Some(list) => list.split_once(')')?,
        None => inner.split_at(inner.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(inner.len())),
    };
    let list = list.strip_prefix("?:").unwrap_or(list);
    if !list.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'|') {
        return None;
    }
    let dotted = |name: &str| format!(".{name}");
    match rest {
        "$" => Some(list.split('|').any(|name| path.ends_with(&dotted(name)))),
        "(/|$)" | "(?:$|/)" | "(?:/|$)" | "($|/)" => {
            Some(list.split('|').any(|name| path.ends_with(&dotted(name)) || path.contains(&format!(".{name}/"))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::config;
    use super::*;
    use crate::source::Given;

    fn server(text: &str) -> Directive {
        let text: &'static str = Box::leak(format!("server {{ {text} }}").into_boxed_str());
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("f", text)]));
        config::read("f", &Given(files)).expect("nginx's language").remove(0)
    }

    /// The decision on one line, with labels as numbers in the order of the file.
    fn check(text: &str, expect: &str) {
        let server = server(text);
        let http = LocationScope::outer(&[]);
        let mut subs = String::new();
        let lines = NginxLocation::of_server(&server, &http, "", &VariableNames::default()).decision(&mut subs);
        let all = format!("{subs}\n{}", lines.join("\n")).replace("req.http.Nginx-Path", "P");
        assert_eq!(all.split_whitespace().collect::<Vec<_>>().join(" "), expect, "{text}");
    }

    #[test]
    fn the_order_of_locations() {
        check(
            "location / {} location /a/b {} location ^~ /a {} location ~* \\.png$ {} location = /x {} location @n {}",
            "sub rest_regexes { if (P ~ \"(?i)\\.png$\") { call loc4; } } \
             if (P == \"/x\") { call loc5; } else if (P ~ \"^/a/b\") { call rest_regexes; call loc2; } \
             else if (P ~ \"^/a\") { call loc3; } else { call rest_regexes; call loc1; }",
        );
    }

    #[test]
    fn locations_in_locations() {
        check(
            "location / { location /s/ {} location ~ ^/c/ {} location = /deny {} } location ~ x {}",
            "sub rest_regexes { if (P ~ \"x\") { call loc5; } } sub loc1_regexes { if (P ~ \"^/c/\") { call loc3; } } \
             if (P == \"/deny\") { call loc4; } else if (P ~ \"^/s/\") { call loc1_regexes; call rest_regexes; call loc2; } \
             else { call loc1_regexes; call rest_regexes; call loc1; }",
        );
        check(
            "location ~ \\.php$ { location ~ ^/admin/ {} }",
            "sub loc1_regexes { if (P ~ \"^/admin/\") { call loc2; } } sub rest_regexes { if (P ~ \"\\.php$\") { call loc1_regexes; call loc1; } } \
             call rest_regexes; call rest;",
        );
    }

    #[test]
    fn a_path_without_its_slash_is_redirected() {
        check(
            "location /a/ { proxy_pass http://x; } location /b/ { root /srv; }",
            "if (P == \"/a\") { set req.http.Nginx-Location = \"loc1\"; set req.http.Nginx-Text = \"/a/\" + regsub(req.url, \"^[^?]*\", \"\"); return (synth(301)); } \
             else if (P ~ \"^/a/\") { call loc1; } else if (P ~ \"^/b/\") { call loc2; } else { call rest; }",
        );
    }

    #[test]
    fn locations_of_paths_that_are_known() {
        let server = server(
            "location / {} location ~ \\.php$ {} location ~* \\.(png|css)$ {} location ^~ /p/ {} location ~ (a) {}",
        );
        let tree = NginxLocation::of_server(&server, &LocationScope::outer(&[]), "", &VariableNames::default());
        let find = |path| tree.find(path).map(|l| l.label.clone());
        assert_eq!(find("/index.php").as_deref(), Some("loc2"));
        assert_eq!(find("/a.css").as_deref(), Some("loc3"));
        assert_eq!(find("/p/a.php").as_deref(), Some("loc4"));
        assert_eq!(find("/index.html"), None);
        for (regex, path, expect) in [
            ("^/api", "/index.php", Some(false)),
            ("^/api|/index\\.php$", "/index.php", None),
            ("^/api|^/b", "/b", None),
        ] {
            assert_eq!(extension_fits(regex, path), expect, "{regex}");
        }
    }
}
