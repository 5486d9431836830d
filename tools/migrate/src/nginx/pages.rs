// SPDX-License-Identifier: BSD-2-Clause
//! `error_page`: an error is answered by another location, by a page at another URL, or by a redirection. The request begins again for it, as
//! nginx redirects it internally.

use super::config::Directive;
use super::location::{LocationKind, NginxLocation, handler};
use super::scope::LocationScope;
use super::script::{self, MOVED, ScriptPlace};
use super::value::{ExpressionSide, VariableNames, expression};
use crate::vcl;

pub const ERROR: &str = "Nginx-Error";
pub const NAMED: &str = "Nginx-Named";
pub const STATUS: &str = "Nginx-Status";
pub const FAILED: &str = "Nginx-Failed";

pub fn failed() -> String {
    format!("set beresp.http.{FAILED} = \"1\";")
}

/// One `error_page`: for these statuses, with this one instead, that page.
struct ErrorPage<'a> {
    statuses: Vec<u16>,
    /// The status of the response; None: the page's own.
    status: Option<PageStatus>,
    target: &'a str,
}

enum PageStatus {
    Kept,
    Instead(u16),
}

#[derive(Default)]
pub struct PageLines {
    pub synth: Vec<String>,
    pub deliver: Vec<String>,
}

/// Translates the pages of a location.
///
/// # Errors
/// The first that has no counterpart, and why.
pub fn pages<'a>(
    scope: &LocationScope<'a>,
    server: &NginxLocation<'a>,
    names: &VariableNames,
) -> Result<PageLines, (&'a Directive, String)> {
    let mut lines = PageLines::default();
    let is_recursive = scope.one("recursive_error_pages").is_some_and(|d| d.word(0) == "on");
    let first = if is_recursive { String::new() } else { format!("!req.http.{ERROR} && ") };
    let intercepts = scope.is_on("intercept_errors");
    let (mut synth, mut deliver, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for directive in scope.all("error_page") {
        let refused = |reason: String| (directive, reason);
        let page = parsed(directive).map_err(refused)?;
        let action = page.action(server, names).map_err(refused)?;
        let plain = if action.only_plain { "(req.method == \"GET\" || req.method == \"HEAD\") && " } else { "" };
        let own: Vec<u16> = page.statuses.iter().copied().filter(|status| *status >= 400).collect();
        if !own.is_empty() {
            synth.push((format!("{first}{plain}!req.http.Nginx-Text && ({})", any(&own)), action.synth));
        }
        let mut found = Vec::new();
        if intercepts {
            found.push(format!("!resp.http.{FAILED} && ({})", any(&page.statuses)));
        }
        if page.statuses.iter().any(|status| matches!(status, 502 | 504)) {
            found.push(format!("resp.http.{FAILED}"));
        }
        if !found.is_empty() {
            let condition = format!("{plain}({})", found.join(" || "));
            deliver.push((format!("{first}{condition}"), action.deliver));
            last.push(condition);
        }
    }
    if !is_recursive && !last.is_empty() {
        // An error of a page is answered by nginx's own text.
        deliver.push((last.join(" || "), vec!["return (synth(resp.status));".to_owned()]));
    }
    lines.synth = vcl::chain(synth);
    lines.deliver = vcl::chain(deliver);
    Ok(lines)
}

fn any(statuses: &[u16]) -> String {
    statuses.iter().map(|status| format!("resp.status == {status}")).collect::<Vec<_>>().join(" || ")
}

fn parsed(directive: &Directive) -> Result<ErrorPage<'_>, String> {
    let Some((target, rest)) = directive.words.split_last() else { return Err("it has no page".to_owned()) };
    let (codes, status) = match rest.split_last() {
        Some((word, codes)) if word.starts_with('=') => match &word[1..] {
            "" => (codes, None),
            code => (codes, Some(PageStatus::Instead(code.parse().map_err(|_| format!("{word} is no status"))?))),
        },
        _ => (rest, Some(PageStatus::Kept)),
    };
    let statuses: Result<Vec<u16>, String> =
        codes.iter().map(|code| code.parse().map_err(|_| format!("{code} is no status"))).collect();
    Ok(ErrorPage { statuses: statuses?, status, target })
}

/// The lines that answer an error, where VCL has found it and where it was delivered.
struct PageAction {
    synth: Vec<String>,
    deliver: Vec<String>,
    /// True if it is for requests without a body alone: VCL has sent that to the origin already.
    only_plain: bool,
}

const REDIRECTIONS: [u16; 5] = [301, 302, 303, 307, 308];

impl<'a> ErrorPage<'a> {
    fn action(&self, server: &NginxLocation<'a>, names: &VariableNames) -> Result<PageAction, String> {
        if self.target.contains("://") {
            return self.redirection(names);
        }
        let mut lines = vec![format!("set req.http.{ERROR} = \"1\";")];
        lines.push(match self.status {
            Some(PageStatus::Kept) => format!("set req.http.{STATUS} = \"\" + resp.status;"),
            Some(PageStatus::Instead(status)) => format!("set req.http.{STATUS} = \"{status}\";"),
            None => format!("unset req.http.{STATUS};"),
        });
        let only_plain = match self.target.starts_with('@') {
            true => self.named(server, names, &mut lines)?,
            false => {
                self.at_url(server, names, &mut lines)?;
                false
            }
        };
        lines.push("unset req.http.Nginx-Stale;".to_owned());
        lines.push("return (restart);".to_owned());
        Ok(PageAction { synth: lines.clone(), deliver: lines, only_plain })
    }

    fn redirection(&self, names: &VariableNames) -> Result<PageAction, String> {
        let status = match self.status {
            Some(PageStatus::Instead(status)) if REDIRECTIONS.contains(&status) => status,
            _ => 302,
        };
        let text =
            format!("set req.http.Nginx-Text = {};", expression(self.target, ExpressionSide::Deliver, "", names)?);
        Ok(PageAction {
            synth: vec![text.clone(), format!("set resp.status = {status};")],
            deliver: vec![text, format!("return (synth({status}));")],
            only_plain: false,
        })
    }

    fn named(
        &self,
        server: &NginxLocation<'a>,
        names: &VariableNames,
        lines: &mut Vec<String>,
    ) -> Result<bool, String> {
        let is_it = |l: &&NginxLocation<'a>| l.kind == LocationKind::Named && l.text == self.target;
        let location = server.all().into_iter().find(is_it).ok_or_else(|| format!("there is no {}", self.target))?;
        let script = script::script(location.scope.inner(), &location.label, ScriptPlace::Location, names);
        let is_final = script.is_ok_and(|script| script.is_final);
        if !is_final && handler(location.scope.inner()).is_none_or(|(kind, _)| kind != "proxy") {
            return Err(format!("nginx gives {} to nobody who asks from outside", self.target));
        }
        lines.push(format!("set req.http.{NAMED} = \"{}\";", location.label));
        Ok(!is_final)
    }

    fn at_url(&self, server: &NginxLocation<'a>, names: &VariableNames, lines: &mut Vec<String>) -> Result<(), String> {
        if !self.target.starts_with(['/', '$']) {
            return Err(format!("{} is no path", self.target));
        }
        let path = self.target.split('?').next().unwrap_or_default();
        let target = server.find(path).filter(|_| !path.contains('$'));
        let is_internal = target.is_some_and(|l| l.scope.inner().iter().any(|d| d.name == "internal"));
        if is_internal && target.is_some_and(|l| handler(l.scope.inner()).is_none_or(|(kind, _)| kind != "proxy")) {
            return Err(format!("nginx gives {} to nobody who asks from outside: take `internal` away", self.target));
        }
        let value = expression(self.target, ExpressionSide::Deliver, "", names)?;
        lines.push(format!("set req.http.Nginx-Url = {value};"));
        lines.push("set req.http.Nginx-Asked = req.http.Nginx-Url;".to_owned());
        lines.push(format!("unset req.http.{MOVED};"));
        lines.push(format!("unset req.http.{NAMED};"));
        lines.push("if (req.method != \"HEAD\") { set req.method = \"GET\"; }".to_owned());
        lines.push("unset req.http.Content-Length;".to_owned());
        lines.push("unset req.http.Transfer-Encoding;".to_owned());
        Ok(())
    }
}
