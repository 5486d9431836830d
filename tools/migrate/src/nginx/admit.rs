// SPDX-License-Identifier: BSD-2-Clause
//! The requests that a location lets in: by address, by method, by the length of the body. nginx behind the cache no longer sees its clients, so
//! a rule that VCL doesn't have is answered with 403.

use super::config::{Claim, Directive};
use super::kept::Refusal;
use super::leaf::LocationWork;
use super::number::size;
use super::scope::LocationScope;
use super::words;
use crate::vcl;

impl<'w, 'a> LocationWork<'w, 'a> {
    /// `allow` and `deny`: the first that holds decides; an address in none is let in.
    pub(super) fn access(&mut self, scope: &LocationScope<'a>) -> Result<Vec<String>, Refusal<'a>> {
        let rules = scope.all_of(&["allow", "deny"]);
        let satisfy = scope.one("satisfy");
        let Some(first) = rules.first() else { return Ok(Vec::new()) };
        if satisfy.is_some_and(|d| d.word(0) == "any") {
            let text = "beside `satisfy any` nginx would decide, and to it every client has this cache's address";
            return Err(Refusal::new(first, text));
        }
        if scope.one("set_real_ip_from").is_some() {
            return Err(Refusal::new(first, REAL_IP));
        }
        let mut branches: Vec<(String, Vec<String>)> = Vec::new();
        for rule in &rules {
            let lines = if rule.name == "deny" { vec!["return (synth(403));".to_owned()] } else { Vec::new() };
            match rule.word(0) {
                "all" => {
                    branches.push((String::new(), lines));
                    break;
                }
                "unix:" => {}
                word => match words::address(word) {
                    Some((entry, _)) => branches.push((format!("client.ip ~ {}", self.acl(&entry)), lines)),
                    None => return Err(Refusal::new(rule, format!("{word} is no address"))),
                },
            }
        }
        rules.iter().chain(&satisfy).for_each(|d| d.claim(Claim::Claimed));
        Ok(vcl::chain(branches))
    }

    /// `limit_except`: nginx answers the other methods, once its rules of addresses let them in.
    pub(super) fn excepted(&mut self, scope: &LocationScope<'a>) -> Result<Vec<String>, Refusal<'a>> {
        let Some(except) = scope.own("limit_except") else { return Ok(Vec::new()) };
        let methods: Vec<&str> = except.words.iter().map(String::as_str).collect();
        if let Some(odd) = methods.iter().find(|name| !name.bytes().all(|c| c.is_ascii_alphanumeric())) {
            return Err(Refusal::new(except, format!("{odd} is no method")));
        }
        let head = if methods.contains(&"GET") { "|HEAD" } else { "" };
        let mut inner = self.access(&scope.within(except.inside()))?;
        inner.extend(self.nginx_alone());
        except.claim(Claim::Claimed);
        let mut lines = vec![format!("if (req.method !~ \"^({}{head})$\") {{", methods.join("|"))];
        lines.extend(inner.into_iter().map(|line| format!("\t{line}")));
        lines.push("}".to_owned());
        Ok(lines)
    }

    /// Refuses a directive without which requests would be let in that nginx keeps out.
    pub(super) fn denied(&mut self, directive: &Directive, reason: &str) -> Vec<String> {
        self.refuse(directive, &format!("{reason}; until then these requests are answered with 403"));
        self.left = Claim::Unreached;
        vec!["return (synth(403));".to_owned()]
    }

    fn acl(&mut self, entry: &str) -> String {
        let at = self.acls.iter().position(|known| known == entry).unwrap_or_else(|| {
            self.acls.push(entry.to_owned());
            self.acls.len() - 1
        });
        format!("addresses_{}", at + 1)
    }
}

/// The reason against the client's address where nginx takes it from a header.
pub const REAL_IP: &str = "beside set_real_ip_from the client's address is another one: use the PROXY protocol";

/// The lines that refuse a body that is too long: 1 MB unless it is set, none for 0.
pub fn body_bound<'a>(scope: &LocationScope<'a>) -> Result<Option<String>, Refusal<'a>> {
    let most = match scope.one("client_max_body_size") {
        None => 1 << 20,
        Some(directive) => size(directive.word(0))
            .ok_or_else(|| Refusal::new(directive, format!("{} is no size", directive.word(0))))?,
    };
    let line = format!("if (std.integer(req.http.Content-Length, 0) > {most}) {{ return (synth(413)); }}");
    Ok((most > 0).then_some(line))
}
