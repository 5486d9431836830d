// SPDX-License-Identifier: BSD-2-Clause
//! `rewrite`: another URL for the rest of the request, or a redirection.

use std::collections::BTreeSet;

use super::capture::{self, numbered};
use super::config::Directive;
use super::script::{CHANGED, STOP, ScriptPlace, again};
use super::value::{ExpressionSide, Part, VariableNames, expression, parts};
use crate::vcl;

/// The subroutine that writes the URL of a rewritten path, for the site of a label.
pub fn rewriting(label: &str) -> String {
    format!("{}_rewritten", label.split('_').next().unwrap_or_default())
}

pub(super) struct Rewrite {
    pub lines: Vec<String>,
    pub may_stop: bool,
    pub may_move: bool,
}

/// `rewrite REGEX URL [FLAG]`: a redirection if it says so or names a scheme; else another URL for the rest of the request.
pub(super) fn rewritten(
    directive: &Directive,
    label: &str,
    place: ScriptPlace,
    names: &VariableNames,
) -> Result<Rewrite, String> {
    let (regex, target, flag) = (directive.word(0), directive.word(1), directive.word(2));
    let is_url = ["http://", "https://", "$scheme"].iter().any(|begin| target.starts_with(begin));
    let status = match flag {
        "permanent" => Some(301),
        "redirect" => Some(302),
        _ if is_url => Some(302),
        "" | "last" | "break" => None,
        _ => return Err(format!("{flag} is no flag of it")),
    };
    let path = "req.http.Nginx-Path";
    let condition = format!("{path} ~ {}", vcl::string(regex).ok_or("the regex can't be written in VCL")?);
    let mut inner = capture::lines(path, regex, false, names);
    let keeps_args = !target.ends_with('?');
    let target = target.strip_suffix('?').unwrap_or(target);
    let (to, query) = target.split_once('?').map_or((target, None), |(to, query)| (to, Some(query)));
    let mut args = Vec::new();
    if let Some(query) = query {
        args.push(expression(&format!("?{query}"), ExpressionSide::Client, "", names)?);
    }
    if keeps_args {
        let old = "regsub(req.url, \"^[^?]*\", \"\")";
        args.push(if query.is_some() { format!("regsub({old}, \"^\\?\", \"&\")") } else { old.to_owned() });
    }
    let args = if args.is_empty() { "\"\"".to_owned() } else { args.join(" + ") };
    if status.is_some() && parts(to).iter().any(|part| matches!(part, Part::Variable(name) if name.starts_with("arg_")))
    {
        return Err("nginx decodes the escapes of an argument that it puts into the path of a redirection".to_owned());
    }
    let to = if status.is_some() { unescaped(to) } else { to.to_owned() };
    let to_path = expression(&to, ExpressionSide::Client, "", names)?;
    let (mut may_stop, mut may_move) = (false, false);
    if let Some(status) = status {
        inner.extend(escaped(&to, query.unwrap_or_default()));
        inner.push(format!("set req.http.Nginx-Text = {to_path} + {args};"));
        inner.push(format!("return (synth({status}));"));
    } else {
        if !to.starts_with(['/', '$']) {
            return Err(format!("{to} is no path"));
        }
        inner.push(format!("set req.http.Nginx-Args = {args};"));
        inner.push(format!("set req.http.Nginx-Path = {to_path};"));
        inner.push(format!("call {};", rewriting(label)));
        match (place, flag) {
            (ScriptPlace::Location, "last") => inner.extend(again(names)),
            (ScriptPlace::Location, "") => {
                may_move = true;
                inner.push(format!("set req.http.{CHANGED} = \"1\";"));
            }
            (ScriptPlace::Location, _) => {
                (may_stop, may_move) = (true, true);
                inner.push(format!("set req.http.{STOP} = \"1\";"));
                inner.push(format!("unset req.http.{CHANGED};"));
            }
            (ScriptPlace::Server, "") => {}
            (ScriptPlace::Server, _) => {
                may_stop = true;
                inner.push(format!("set req.http.{STOP} = \"1\";"));
            }
        }
    }
    let mut lines = vec![format!("if ({condition}) {{")];
    lines.extend(inner.into_iter().map(|line| format!("\t{line}")));
    lines.push("}".to_owned());
    Ok(Rewrite { lines, may_stop, may_move })
}

/// The path of a redirection as nginx writes it: escapes of visible characters behind `%` are decoded, as far as the query.
fn unescaped(to: &str) -> String {
    let mut out = String::new();
    let mut rest = to;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let code = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code.filter(|code| (b'&'..=b'~').contains(code)) {
            Some(b'?') => return out + "?" + &after[2..],
            Some(code) => out.push(code.into()),
            None => out.push('%'),
        }
        rest = if out.ends_with('%') { after } else { &after[2..] };
    }
    out + rest
}

/// The lines that escape the captures of a redirection, as nginx does if the path of the request has escapes itself.
fn escaped(to: &str, query: &str) -> Vec<String> {
    let captures = |text: &str| -> BTreeSet<u8> {
        let number = |part| match part {
            Part::Variable(name) => name.parse::<u8>().ok().filter(|number| (1..=9).contains(number)),
            Part::Text(_) => None,
        };
        parts(text).into_iter().filter_map(number).collect()
    };
    let of_query = captures(query);
    let mut inner = Vec::new();
    for number in captures(to).union(&of_query) {
        let header = format!("req.http.{}", numbered(*number));
        inner.push(format!("set req.http.Nginx-Text = {header};"));
        inner.push(format!("call {ESCAPED};"));
        inner.push(match of_query.contains(number) {
            true => {
                format!("set {header} = regsuball(regsuball(req.http.Nginx-Text, \"&\", \"%26\"), \"\\+\", \"%2B\");")
            }
            false => format!("set {header} = req.http.Nginx-Text;"),
        });
    }
    if inner.is_empty() { inner } else { vcl::chain(vec![("req.url ~ \"^[^?]*[%+]\"".to_owned(), inner)]) }
}

/// The subroutine that escapes a text.
const ESCAPED: &str = "nginx_escaped";

/// The subroutine that escapes `Nginx-Text`, if any of `text` calls it. Visible characters behind `%` stay as they are.
pub fn escaping<'t>(mut text: impl Iterator<Item = &'t str>) -> Option<String> {
    let call = format!("call {ESCAPED};");
    text.any(|text| text.contains(&call)).then(|| {
        let header = "req.http.Nginx-Text";
        let mut lines = vec![format!("set {header} = blob.transcode(encoding=URL, case=UPPER, encoded={header});")];
        for visible in "!$&'()*+,/:;<=>?@[\\]^`{|}".chars() {
            let code = visible as u32;
            lines.push(format!(
                "set {header} = regsuball({header}, \"%{code:02X}\", {{\"{}\"}});",
                replacement(visible)
            ));
        }
        format!("\n# A capture as nginx writes it into a redirection{}", vcl::sub(ESCAPED, &lines))
    })
}

/// A character as a replacement of `regsuball`.
fn replacement(visible: char) -> String {
    if visible == '\\' { "\\\\".to_owned() } else { visible.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_escapes_of_a_redirection() {
        for (to, expect) in [
            ("/a%2Fb%20c%41", "/a/b%20cA"),
            ("/a%3Fd%2F", "/a?d%2F"),
            ("/%25%2f%zz%4", "/%25/%zz%4"),
            ("/\u{e9}%\u{e9}", "/\u{e9}%\u{e9}"),
        ] {
            assert_eq!(unescaped(to), expect, "{to}");
        }
    }

    #[test]
    fn captures_of_a_redirection() {
        assert_eq!(escaped("/$uri", "a=$b"), [""; 0]);
        let lines = escaped("/${1}b", "x=$2").join(" ");
        assert_eq!(
            lines,
            "if (req.url ~ \"^[^?]*[%+]\") { \tset req.http.Nginx-Text = req.http.Nginx-Capture-1; \tcall nginx_escaped; \
             \tset req.http.Nginx-Capture-1 = req.http.Nginx-Text; \tset req.http.Nginx-Text = req.http.Nginx-Capture-2; \tcall nginx_escaped; \
             \tset req.http.Nginx-Capture-2 = regsuball(regsuball(req.http.Nginx-Text, \"&\", \"%26\"), \"\\+\", \"%2B\"); }"
        );
        assert!(escaping([lines.as_str()].into_iter()).is_some_and(|sub| sub.contains("\"%5C\", {\"\\\\\"}")));
        assert!(escaping(["call site1;"].into_iter()).is_none());
    }
}
