// SPDX-License-Identifier: BSD-2-Clause
//! Directives that depend on the client's address. Behind the cache nginx sees the cache's address instead, unless its realip module takes the
//! client's from `X-Forwarded-For`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::config::Directive;
use super::scope::LocationScope;
use super::script;
use super::value::{Part, parts};

/// Variables that nginx itself makes of the client's address, by a part of their names.
const BUILT_IN: [&str; 3] = ["remote_addr", "proxy_add_x_forwarded_for", "geoip"];

/// Directives whose variables matter elsewhere, or not at all behind the cache.
const SILENT: [&str; 6] = ["set", "access_log", "log_format", "server_name", "limit_req_zone", "limit_conn_zone"];

/// The variables of a configuration that depend on the client's address, and the zones of limits that count by one of them.
#[derive(Default)]
pub struct AddressNames {
    variables: BTreeSet<String>,
    zones: BTreeSet<String>,
}

fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|known| name.contains(known))
}

/// The variables that directives make, by what they are made of.
struct MadeVariables {
    /// True of a variable of nginx's own that is looked for.
    is_source: fn(&str) -> bool,
    /// Variables made of such a one.
    made: Vec<String>,
    /// Variables made of another one, by its name.
    askers: BTreeMap<String, Vec<String>>,
}

/// The variables that a configuration makes, also by way of others, of those of nginx's own that `is_source` holds for; and those of `own`.
pub fn made_of(http: &[Directive], is_source: fn(&str) -> bool, own: Vec<String>) -> BTreeSet<String> {
    let mut all = MadeVariables { is_source, made: own, askers: BTreeMap::new() };
    all.read(http);
    let mut found = BTreeSet::new();
    // A variable may be made of another one that stands below it.
    while let Some(name) = all.made.pop() {
        if !found.contains(&name) {
            all.made.extend(all.askers.remove(&name).unwrap_or_default());
            found.insert(name);
        }
    }
    found
}

fn of_addresses(http: &[Directive]) -> Vec<String> {
    let tables = http.iter().filter(|d| d.name == "geo" && d.words.len() == 1);
    tables.map(|table| own_name(table.word(0))).collect()
}

impl MadeVariables {
    fn read(&mut self, block: &[Directive]) {
        for directive in block {
            let (words, last) = (&directive.words, directive.words.last());
            match directive.name.as_str() {
                "set" => self.add(words.first(), words.get(1)),
                "geo" if words.len() == 1 => {}
                "map" => {
                    let values = directive.inside().iter().flat_map(|entry| &entry.words);
                    self.add(last, words.first().into_iter().chain(values));
                }
                "geo" | "split_clients" => self.add(last, words.first()),
                _ => self.read(directive.inside()),
            }
        }
    }

    fn add<'d>(&mut self, name: Option<&String>, values: impl IntoIterator<Item = &'d String>) {
        let Some(name) = name.map(|name| own_name(name)) else { return };
        for part in values.into_iter().flat_map(|value| parts(value)) {
            match part {
                Part::Variable(source) if (self.is_source)(&source.to_ascii_lowercase()) => {
                    self.made.push(name.clone());
                }
                Part::Variable(source) => {
                    self.askers.entry(source.to_ascii_lowercase()).or_default().push(name.clone());
                }
                Part::Text(_) => {}
            }
        }
    }
}

/// The name of a variable as directives that make one write it.
fn own_name(word: &str) -> String {
    word.trim_start_matches('$').to_ascii_lowercase()
}

impl AddressNames {
    pub fn new(http: &[Directive]) -> AddressNames {
        let variables = made_of(http, is_built_in, of_addresses(http));
        let mut names = AddressNames { variables, ..AddressNames::default() };
        let is_zone = |d: &&Directive| matches!(d.name.as_str(), "limit_req_zone" | "limit_conn_zone");
        let by_address = http.iter().filter(is_zone).filter(|d| names.is_in(d.word(0)));
        names.zones = by_address.filter_map(zone).map(str::to_owned).collect();
        names
    }

    /// True if a value has a variable that depends on the client's address.
    pub fn is_in(&self, value: &str) -> bool {
        parts(value).iter().any(|part| match part {
            Part::Text(_) => false,
            Part::Variable(name) => {
                let name = name.to_ascii_lowercase();
                self.variables.contains(&name) || is_built_in(&name)
            }
        })
    }

    /// True if a directive, or one in its block, depends on the client's address by a variable.
    pub fn is_asked_by(&self, directive: &Directive) -> bool {
        directive.words.iter().any(|word| self.is_in(word)) || directive.inside().iter().any(|d| self.is_asked_by(d))
    }

    /// The directives of a location that nginx judges by the client's address, with the effect of the cache's address in its place.
    pub fn judged<'a>(
        &self,
        scope: &LocationScope<'a>,
        upstreams: &[&'a Directive],
    ) -> Vec<(&'a Directive, &'static str)> {
        let mut out = Vec::new();
        for directive in scope.directives().filter(|d| holds(d, scope)) {
            self.add_judged(directive, upstreams, &mut out);
        }
        out
    }

    fn add_judged<'a>(
        &self,
        directive: &'a Directive,
        upstreams: &[&'a Directive],
        out: &mut Vec<(&'a Directive, &'static str)>,
    ) {
        let name = directive.name.as_str();
        match name {
            "limit_req" | "limit_conn" if self.is_limited_by(directive) => out.push((directive, ONE_LIMIT)),
            "allow" | "deny" if directive.word(0) != "all" => out.push((directive, RULE)),
            "if" | "limit_except" => {
                out.extend(directive.words.iter().any(|word| self.is_in(word)).then_some((directive, OTHER)));
                directive.inside().iter().for_each(|inner| self.add_judged(inner, upstreams, out));
            }
            _ if name.ends_with("_pass") => {
                let host = directive.word(0).rsplit("://").next().unwrap_or_default();
                let host = host.split('/').next().unwrap_or_default();
                let upstream = upstreams.iter().filter(|upstream| upstream.word(0).eq_ignore_ascii_case(host));
                let chosen = upstream.flat_map(|upstream| upstream.inside()).filter(|d| self.chooses(d));
                out.extend(chosen.map(|d| (d, ONE_SERVER)));
                out.extend(self.is_in(directive.word(0)).then_some((directive, OTHER)));
            }
            _ if directive.block.is_some() || SILENT.contains(&name) || name.contains("_cache") => {}
            _ => out.extend(directive.words.iter().any(|word| self.is_in(word)).then_some((directive, OTHER))),
        }
    }

    fn is_limited_by(&self, limit: &Directive) -> bool {
        zone(limit).or(limit.words.first().map(String::as_str)).is_some_and(|zone| self.zones.contains(zone))
    }

    fn chooses(&self, directive: &Directive) -> bool {
        directive.name == "ip_hash" || directive.name == "hash" && self.is_in(directive.word(0))
    }
}

const ONE_LIMIT: &str = "nginx sees the cache's address there: all clients share one limit";
const RULE: &str = "nginx applies this rule, too, and sees the cache's address there";
const ONE_SERVER: &str = "nginx sees the cache's address there: it sends all clients to one server";
const OTHER: &str = "nginx sees the cache's address there, not the client's";

/// The name of the zone in `zone=NAME:SIZE` or `zone=NAME`.
fn zone(directive: &Directive) -> Option<&str> {
    let zone = directive.words.iter().find_map(|word| word.strip_prefix("zone="))?;
    zone.split(':').next()
}

/// True if no inner block has replaced a directive by its own; scripts of all blocks run.
fn holds(directive: &Directive, scope: &LocationScope<'_>) -> bool {
    let name = directive.name.as_str();
    // One list for both.
    let names = if matches!(name, "allow" | "deny") { ["allow", "deny"] } else { [name, name] };
    script::NAMES.contains(&name) || scope.holding(&names).iter().any(|known| std::ptr::eq(*known, directive))
}

/// The lines that let nginx know its clients behind the cache; None if it has them. `host` is the address on which nginx listens there.
pub fn realip(scope: &LocationScope<'_>, host: &str) -> Option<String> {
    let of = |name: &str| scope.holding(&[name]);
    let (trusted, header) = (of("set_real_ip_from"), of("real_ip_header"));
    let ip: Option<IpAddr> = host.parse().ok();
    // On the loopback interface the cache has the address that it connects to.
    let local = ip.filter(IpAddr::is_loopback);
    let is_local = |d: &&Directive| local.is_some_and(|ip| contains(d.word(0), ip));
    let is_recursive = of("real_ip_recursive").last().is_some_and(|d| d.word(0) == "on");
    // Behind a balancer the cache is one more that is to be passed over.
    let is_trusted = trusted.iter().any(is_local) && (is_recursive || trusted.iter().all(is_local));
    if is_trusted && header.last().is_some_and(|d| d.word(0).eq_ignore_ascii_case("X-Forwarded-For")) {
        return None;
    }
    let cache = local.map_or_else(|| "ADDRESS-OF-THE-CACHE".to_owned(), |ip| ip.to_string());
    let others = if trusted.is_empty() { "" } else { " real_ip_recursive on;" };
    Some(format!(
        "`set_real_ip_from {cache}; real_ip_header X-Forwarded-For;{others}` in this server gives it the client's"
    ))
}

/// True if a network in nginx's spelling has an address in it.
fn contains(network: &str, ip: IpAddr) -> bool {
    let (base, bits) = network.split_once('/').unwrap_or((network, "128"));
    let (Ok(base), Ok(bits)) = (base.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    match (base, ip) {
        (IpAddr::V4(base), IpAddr::V4(ip)) => {
            let mask = u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or_default();
            base.to_bits() & mask == ip.to_bits() & mask
        }
        (IpAddr::V6(base), IpAddr::V6(ip)) => {
            let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or_default();
            base.to_bits() & mask == ip.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::config;
    use super::*;
    use crate::source::Given;

    fn read(text: &str) -> Vec<Directive> {
        let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("f", text)]));
        config::read("f", &Given(files)).expect("nginx's language")
    }

    #[test]
    fn variables_made_of_the_address() {
        let names = AddressNames::new(&read(
            "map $b $c { default 1; } map $arg_x $b { default $a; } geo $a { default 0; } geo $arg_x $d { default 0; }
             split_clients \"${remote_addr}x\" $e { * 1; } split_clients $cookie_a $f { * 1; } server { location / { set $g $e; } }",
        ));
        for (value, expect) in [
            ("x$a", true),
            ("${b}", true),
            ("$C", true),
            ("$d", false),
            ("$e", true),
            ("$f", false),
            ("$g", true),
            ("$binary_remote_addr", true),
            ("$geoip_country_code", true),
            ("remote_addr", false),
            ("$ab", false),
        ] {
            assert_eq!(names.is_in(value), expect, "{value}");
        }
    }

    /// The names of the directives that are judged in a location of these lines.
    fn check(lines: &str, expect: &[&str]) {
        let http = read(&format!(
            "limit_req_zone $binary_remote_addr zone=by_client:1m; limit_req_zone $server_name zone=by_server:1m;
             limit_conn_zone $remote_addr zone=connections:1m; upstream sticky {{ ip_hash; server a; }} upstream by_url {{ hash $uri; server a; }}
             upstream by_client {{ hash $remote_addr consistent; server a; }} log_format l $remote_addr; {lines}",
        ));
        let upstreams: Vec<&Directive> = http.iter().filter(|d| d.name == "upstream").collect();
        let location = http.iter().find(|d| d.name == "location").expect("a location");
        let scope = LocationScope::outer(&http).within(location.inside());
        let judged = AddressNames::new(&http).judged(&scope, &upstreams);
        let names: Vec<&str> = judged.iter().map(|(directive, _)| directive.name.as_str()).collect();
        assert_eq!(names, expect, "{lines}");
    }

    #[test]
    fn directives_that_depend_on_it() {
        check("location / { limit_req zone=by_client burst=5; limit_req zone=by_server; }", &["limit_req"]);
        check("limit_req zone=by_client; location / { limit_req zone=by_server; }", &[]);
        check("limit_req zone=by_client; limit_conn connections 5; location / { }", &["limit_req", "limit_conn"]);
        check("location / { allow 10.0.0.0/8; deny all; }", &["allow"]);
        check("allow 10.0.0.0/8; location / { deny all; }", &[]);
        check("location / { limit_except GET { allow 10.0.0.1; } }", &["allow"]);
        check("location / { fastcgi_pass sticky; } ", &["ip_hash"]);
        check("location / { proxy_pass http://by_url/x; }", &[]);
        check("location / { proxy_pass https://by_client; }", &["hash"]);
        check(
            "location / { fastcgi_param REMOTE_ADDR $remote_addr; access_log /l; set $x $remote_addr; }",
            &["fastcgi_param"],
        );
        check("set $x $remote_addr; location / { if ($x = 1) { return 200 $x; } }", &["if", "return"]);
        check(
            "proxy_set_header A $remote_addr; location / { proxy_set_header B x; proxy_cache_key $remote_addr; }",
            &[],
        );
    }

    #[test]
    fn lines_that_name_the_client() {
        let check = |lines: &str, host: &str, expect: Option<&str>| {
            let lines = read(lines);
            let told = realip(&LocationScope::outer(&lines), host);
            assert_eq!(told.as_deref().and_then(|text| text.split('`').nth(1)), expect, "{host}");
        };
        let local = Some("set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;");
        check("", "127.0.0.1", local);
        check("set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For;", "127.0.0.1", None);
        check("set_real_ip_from ::1; real_ip_header x-forwarded-for;", "::1", None);
        let others = Some("set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; real_ip_recursive on;");
        check("set_real_ip_from 127.0.0.1;", "127.0.0.1", others);
        check("set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For;", "127.0.0.1", others);
        check(
            "set_real_ip_from 10.0.0.1; set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;",
            "127.0.0.1",
            others,
        );
        check(
            "set_real_ip_from 10.0.0.1; set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; real_ip_recursive on;",
            "127.0.0.1",
            None,
        );
        let remote = Some("set_real_ip_from ADDRESS-OF-THE-CACHE; real_ip_header X-Forwarded-For;");
        check("", "10.0.0.1", remote);
    }

    #[test]
    fn networks() {
        let check = |network, ip: &str, expect| assert_eq!(contains(network, ip.parse().expect("an address")), expect);
        check("0.0.0.0/0", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.1/32", "127.0.0.2", false);
        check("::/0", "::1", true);
        check("::/0", "127.0.0.1", false);
        check("unix:", "127.0.0.1", false);
        check("10.0.0.0/99", "127.0.0.1", false);
    }
}
