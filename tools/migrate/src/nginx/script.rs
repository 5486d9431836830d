// SPDX-License-Identifier: BSD-2-Clause
//! nginx's rewrite module: `set`, `if`, `return`, `rewrite` and `break`, which nginx runs in their order before it asks anybody.

use super::capture;
use super::claims;
use super::config::{Claim, Directive};
use super::rewrite::rewritten;
use super::scope::LocationScope;
use super::value::{ExpressionSide, VariableNames, comparable, expression, header, truth};
use crate::source::SourcePlace;
use crate::vcl;

pub const NAMES: [&str; 5] = ["set", "if", "return", "rewrite", "break"];

/// A directive of a script that can't be translated, and why.
pub struct UntoldDirective {
    pub place: SourcePlace,
    pub directive: String,
    pub reason: String,
}

/// The block that has the script: behind the server's the location is chosen, a location's may begin that choice anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptPlace {
    Server,
    Location,
}

/// A script in VCL, with the blocks of those `if`s that hold other directives: each has its label.
#[derive(Default)]
pub struct RewriteScript<'a> {
    pub lines: Vec<String>,
    pub variants: Vec<(String, &'a Directive)>,
    /// Statuses that a `return` answers with.
    pub statuses: Vec<(u16, &'a Directive)>,
    /// True if it always answers, so that nothing behind it counts.
    pub is_final: bool,
    /// True if an answer has a text of its own.
    pub has_text: bool,
    /// True if nginx goes on serving the location, so that answers that depend on its files can be left to it.
    leaves_files: bool,
    pub file_answers: Vec<&'a Directive>,
    is_inner: bool,
    /// True if a part of it may keep the rest from being run.
    may_stop: bool,
    /// True if it may have changed the URL without saying what comes next.
    may_move: bool,
}

/// Translates the script of a block; `label` is the beginning of its variants' labels.
///
/// # Errors
/// The first directive that has no counterpart.
pub fn script<'a>(
    block: &'a [Directive],
    label: &str,
    place: ScriptPlace,
    names: &VariableNames,
) -> Result<RewriteScript<'a>, UntoldDirective> {
    completed(RewriteScript::default(), block, label, place, names)
}

/// Translates the script of a location that nginx goes on serving: it asks for files by itself, as long as nothing of its answers is kept.
///
/// # Errors
/// The first directive that has no counterpart.
pub fn served<'a>(
    block: &'a [Directive],
    label: &str,
    scope: &LocationScope<'_>,
    names: &VariableNames,
) -> Result<RewriteScript<'a>, UntoldDirective> {
    let script = RewriteScript { leaves_files: true, ..RewriteScript::default() };
    let script = completed(script, block, label, ScriptPlace::Location, names)?;
    match script.file_answers.iter().find(|answer| is_kept_by(scope, answer.word(0))) {
        Some(answer) => Err(UntoldDirective {
            place: answer.place.clone(),
            directive: answer.name.clone(),
            reason: format!("it depends on files, and a {} would be kept", answer.word(0)),
        }),
        None => Ok(script),
    }
}

/// True if a location keeps responses of this status that don't say how long they are fresh.
fn is_kept_by(scope: &LocationScope<'_>, status: &str) -> bool {
    let is_own = |words: &[String]| match words.split_last() {
        Some((_, [])) => matches!(status, "200" | "301" | "302"),
        Some((_, statuses)) => statuses.iter().any(|word| word == status || word == "any"),
        None => false,
    };
    scope.all_of_kind("cache_valid").iter().any(|directive| is_own(&directive.words))
}

fn completed<'a>(
    mut script: RewriteScript<'a>,
    block: &'a [Directive],
    label: &str,
    place: ScriptPlace,
    names: &VariableNames,
) -> Result<RewriteScript<'a>, UntoldDirective> {
    script.add(block, label, place, names)?;
    if script.may_stop {
        script.lines.insert(0, format!("unset req.http.{STOP};"));
    }
    if script.may_move && place == ScriptPlace::Location && !script.is_final {
        script.lines.insert(0, format!("unset req.http.{CHANGED};"));
        script.lines.push(format!("if (req.http.{CHANGED}) {{"));
        script.lines.extend(again(names).into_iter().map(|line| format!("\t{line}")));
        script.lines.push("}".to_owned());
    }
    Ok(script)
}

/// The header that keeps the rest of a script from being run.
pub const STOP: &str = "Nginx-Stop";
/// The header that tells that a location has rewritten the URL, so that another one has to be chosen.
pub const CHANGED: &str = "Nginx-Changed";
/// The header that tells that the server's script has run before a location was chosen anew.
pub const MOVED: &str = "Nginx-Moved";

/// The lines that choose the location anew for the URL as it is now.
pub(super) fn again(names: &VariableNames) -> Vec<String> {
    let mut lines = vec![format!("set req.http.{MOVED} = \"1\";"), "set req.http.Nginx-Url = req.url;".to_owned()];
    if names.has_pages {
        lines.push(format!("unset req.http.{};", super::pages::NAMED));
    }
    lines.push("return (restart);".to_owned());
    lines
}

impl<'a> RewriteScript<'a> {
    fn add(
        &mut self,
        block: &'a [Directive],
        label: &str,
        place: ScriptPlace,
        names: &VariableNames,
    ) -> Result<(), UntoldDirective> {
        for (at, directive) in block.iter().enumerate() {
            let untold = |reason: String| UntoldDirective {
                place: directive.place.clone(),
                directive: directive.name.clone(),
                reason,
            };
            if NAMES.contains(&directive.name.as_str()) {
                directive.is_read.set(true);
            }
            let could_stop = self.may_stop;
            match directive.name.as_str() {
                "set" => self.lines.push(assigned(directive, names).map_err(untold)?),
                "return" => {
                    self.lines.extend(answered(directive, names, &mut self.statuses).map_err(untold)?);
                    self.has_text |= directive.words.len() > 1;
                    self.is_final = true;
                    return Ok(());
                }
                "rewrite" => {
                    let rewrite = rewritten(directive, label, place, names).map_err(untold)?;
                    self.lines.extend(rewrite.lines);
                    self.may_stop |= rewrite.may_stop;
                    self.may_move |= rewrite.may_move;
                }
                "break" => {
                    // Within an `if` it ends the script around that, too.
                    if self.is_inner {
                        self.lines.push(format!("set req.http.{STOP} = \"1\";"));
                        self.may_stop = true;
                    }
                    return Ok(());
                }
                "if" => self.condition(directive, label, place, names)?,
                _ => {}
            }
            if self.may_stop && !could_stop {
                return self.rest(&block[at + 1..], label, place, names);
            }
        }
        Ok(())
    }

    /// The directives behind one that may have ended the script.
    fn rest(
        &mut self,
        block: &'a [Directive],
        label: &str,
        place: ScriptPlace,
        names: &VariableNames,
    ) -> Result<(), UntoldDirective> {
        let outer = std::mem::take(&mut self.lines);
        self.may_stop = false;
        self.add(block, label, place, names)?;
        // An answer behind it isn't the answer to every request.
        self.is_final = false;
        self.may_stop = true;
        let inner = std::mem::replace(&mut self.lines, outer);
        if !inner.is_empty() {
            self.wrapped(&format!("!req.http.{STOP}"), inner);
        }
        Ok(())
    }

    fn wrapped(&mut self, condition: &str, inner: Vec<String>) {
        self.lines.push(format!("if ({condition}) {{"));
        self.lines.extend(inner.into_iter().map(|line| format!("\t{line}")));
        self.lines.push("}".to_owned());
    }

    fn condition(
        &mut self,
        directive: &'a Directive,
        label: &str,
        place: ScriptPlace,
        names: &VariableNames,
    ) -> Result<(), UntoldDirective> {
        let untold =
            |reason: String| UntoldDirective { place: directive.place.clone(), directive: "if".to_owned(), reason };
        if self.leaves_files && asks_for_file(directive) {
            claims::claim_all(directive, Claim::Kept);
            directive.is_read.set(false);
            self.file_answers.extend(directive.inside());
            return Ok(());
        }
        let (condition, captures) = condition(&directive.words, names).map_err(untold)?;
        let mut inner = RewriteScript {
            lines: captures,
            is_inner: true,
            leaves_files: self.leaves_files,
            ..RewriteScript::default()
        };
        if directive.inside().iter().any(|d| !NAMES.contains(&d.name.as_str())) {
            let own = format!("{label}if{}", self.variants.len() + 1);
            inner.lines.push(format!("set req.http.Nginx-Location = \"{own}\";"));
            self.variants.push((own, directive));
        }
        inner.add(directive.inside(), label, place, names)?;
        self.statuses.extend(inner.statuses);
        self.file_answers.extend(inner.file_answers);
        self.has_text |= inner.has_text;
        self.may_stop |= inner.may_stop;
        self.may_move |= inner.may_move;
        if !inner.lines.is_empty() {
            self.wrapped(&condition, inner.lines);
        }
        Ok(())
    }
}

/// True of an `if` that answers with a status where the file of the request is missing, and does nothing else. One that looks for another file
/// may close a site for maintenance.
fn asks_for_file(directive: &Directive) -> bool {
    let is_answer = |d: &Directive| d.name == "return" && d.words.len() == 1 && d.word(0).parse::<u16>().is_ok();
    let mut words = directive.words.iter().map(|word| word.trim_start_matches('(')).filter(|word| !word.is_empty());
    let is_test = words.next().is_some_and(|test| matches!(test, "!-f" | "!-e" | "!-d"));
    let is_own = words.next().is_some_and(|path| OF_REQUEST.iter().any(|variable| path.contains(variable)));
    is_test && is_own && directive.inside().iter().all(is_answer)
}

const OF_REQUEST: [&str; 3] = ["$uri", "$request_filename", "$fastcgi_script_name"];

fn assigned(directive: &Directive, names: &VariableNames) -> Result<String, String> {
    let name = directive.word(0).trim_start_matches('$').to_ascii_lowercase();
    if !names.set.contains_key(&name) {
        return Err(format!("${name} can't be set"));
    }
    let value = expression(directive.word(1), ExpressionSide::Client, "", names)?;
    Ok(format!("set req.http.{} = {value};", header(&name)))
}

/// The condition of `if (...)`, and the lines that keep what its regex captures.
fn condition(words: &[String], names: &VariableNames) -> Result<(String, Vec<String>), String> {
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_open = words.first().is_some_and(|word| word.starts_with('('));
    let is_closed = words.last().is_some_and(|word| word.ends_with(')'));
    if !is_open || !is_closed {
        return Err("the condition isn't in parentheses".to_owned());
    }
    if let Some(first) = words.first_mut() {
        *first = &first[1..];
    }
    if words[0].is_empty() {
        words.remove(0);
    }
    if let Some(last) = words.last_mut() {
        *last = last.strip_suffix(')').unwrap_or(last);
    }
    // `"" )` has the parenthesis as a word of its own.
    if words.len() > 1 && words.last() == Some(&"") && words.len() != 3 {
        words.pop();
    }
    let text = |word: &str| vcl::string(word).ok_or_else(|| format!("{word:?} can't be written in VCL"));
    match &words[..] {
        [value] if value.starts_with('$') => Ok((truth(value, ExpressionSide::Client, names)?, Vec::new())),
        [left, operator @ ("=" | "!="), right] => {
            let operator = if *operator == "=" { "==" } else { operator };
            let left = comparable(left, ExpressionSide::Client, names)?;
            if right.contains('$') {
                // nginx compares with the value of a variable here, too.
                let right = comparable(right, ExpressionSide::Client, names)?;
                return Ok((format!("{left} {operator} {right}"), Vec::new()));
            }
            Ok((format!("{left} {operator} {}", text(right)?), Vec::new()))
        }
        [left, operator @ ("~" | "~*" | "!~" | "!~*"), regex] => {
            let ignores_case = operator.ends_with('*');
            let flag = if ignores_case { "(?i)" } else { "" };
            let left = comparable(left, ExpressionSide::Client, names)?;
            let condition = format!("{left} {} {}", operator.trim_end_matches('*'), text(&format!("{flag}{regex}"))?);
            let captures = match operator.starts_with('!') {
                true => Vec::new(),
                false => capture::lines(&left, regex, ignores_case, names),
            };
            Ok((condition, captures))
        }
        _ => Err("only variables are compared, with texts, variables and regexes: write it in vcl_recv".to_owned()),
    }
}

/// `return CODE [TEXT]`, `return URL`.
fn answered<'a>(
    directive: &'a Directive,
    names: &VariableNames,
    statuses: &mut Vec<(u16, &'a Directive)>,
) -> Result<Vec<String>, String> {
    let first = directive.word(0);
    let (status, text) = match (first.parse::<u16>(), directive.words.len()) {
        (Ok(status), 1) => (status, None),
        (Ok(status), _) => (status, Some(directive.word(1))),
        (Err(_), _) => (302, Some(first)),
    };
    if !(200..=999).contains(&status) {
        // nginx closes the connection of 444 without a response.
        return Err(format!("{status} is no status that VCL can answer with"));
    }
    if status == 444 || status == 499 {
        return Err(format!("{status} closes the connection; `return (synth(403));` is the nearest"));
    }
    statuses.push((status, directive));
    let mut lines = Vec::new();
    if let Some(text) = text {
        let value = expression(text, ExpressionSide::Client, "", names)?;
        lines.push(format!("set req.http.Nginx-Text = {value};"));
    }
    lines.push(format!("return (synth({status}));"));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::super::config;
    use super::*;
    use crate::source::Given;

    fn of(text: &str) -> String {
        let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("f", text)]));
        let block = config::read("f", &Given(files)).expect("nginx's language");
        let names = VariableNames {
            set: [("s".to_owned(), None)].into(),
            captures: [1].into_iter().filter(|_| text.contains("$1")).collect(),
            ..VariableNames::default()
        };
        match script(&block, "l", ScriptPlace::Location, &names) {
            Ok(script) => script.lines.join(" "),
            Err(untold) => format!("{} {}: {}", untold.place.line, untold.directive, untold.reason),
        }
    }

    #[test]
    fn conditions() {
        for (text, expect) in [
            ("($s)", "req.http.Nginx-Var-s + \"\" !~ \"^0?$\""),
            ("( $s = a )", "req.http.Nginx-Var-s + \"\" == \"a\""),
            ("($query_string != \"\")", "regsub(req.url, \"^[^?]*\\??\", \"\") != \"\""),
            ("($http_x_loop = $hostname)", "req.http.x-loop + \"\" == server.hostname + \"\""),
            ("($request_uri ~* \"/a|(b)\")", "req.url + \"\" ~ \"(?i)/a|(b)\""),
            ("($http_cookie !~ x)", "req.http.cookie + \"\" !~ \"x\""),
        ] {
            assert_eq!(
                of(&format!("if {text} {{ return 403; }}")),
                format!("if ({expect}) {{ \treturn (synth(403)); }}")
            );
        }
        assert!(of("if (-f $request_filename) { return 403; }").starts_with("1 if: only variables"));
        assert_eq!(of("if ($nobody = 1) { return 403; }"), "1 if: $nobody has no counterpart");
    }

    #[test]
    fn a_break_ends_the_script() {
        assert_eq!(of("set $s 1; break; return 403;"), "set req.http.Nginx-Var-s = \"1\";");
        assert_eq!(of("break;"), "");
    }

    #[test]
    fn answers() {
        assert_eq!(
            of("return 301 https://$host;").split(" return").next().unwrap(),
            "set req.http.Nginx-Text = \"https://\" + std.tolower(regsub(req.http.Host, \"\\.?(:\\d*)?$\", \"\"));"
        );
        assert!(of("return 444;").starts_with("1 return: 444 closes"));
        assert!(of("rewrite ^ $arg_to? redirect;").starts_with("1 rewrite: nginx decodes"));
        check_rewrites();
    }

    fn check_rewrites() {
        let moved = "set req.http.Nginx-Path = \"/b\"; call l_rewritten;";
        let args = "set req.http.Nginx-Args = regsub(req.url, \"^[^?]*\", \"\");";
        let again = "set req.http.Nginx-Moved = \"1\"; set req.http.Nginx-Url = req.url; return (restart);";
        for (text, expect) in [
            (
                "rewrite ^/old/(.*)$ /new/$1 permanent;",
                "if (P ~ \"^/old/(.*)$\") { set req.http.Nginx-Capture-1 = regsub(P, \"^.*?(?:^/old/(.*)$).*$\", \"\\1\"); \
                 if (req.url ~ \"^[^?]*[%+]\") { set req.http.Nginx-Text = req.http.Nginx-Capture-1; call nginx_escaped; \
                 set req.http.Nginx-Capture-1 = req.http.Nginx-Text; } \
                 set req.http.Nginx-Text = \"/new/\" + req.http.Nginx-Capture-1 + regsub(req.url, \"^[^?]*\", \"\"); return (synth(301)); }"
                    .to_owned(),
            ),
            ("rewrite a /b last;", format!("if (P ~ \"a\") {{ {args} {moved} {again} }}")),
            (
                "rewrite a /b?c=1; return 204;",
                format!(
                    "if (P ~ \"a\") {{ set req.http.Nginx-Args = \"?c=1\" + \
                     regsub(regsub(req.url, \"^[^?]*\", \"\"), \"^\\?\", \"&\"); {moved} set req.http.Nginx-Changed = \"1\"; }} \
                     return (synth(204));"
                ),
            ),
            (
                "rewrite a /b? break; set $s 1;",
                format!(
                    "unset req.http.Nginx-Changed; unset req.http.Nginx-Stop; if (P ~ \"a\") {{ set req.http.Nginx-Args = \"\"; {moved} \
                     set req.http.Nginx-Stop = \"1\"; unset req.http.Nginx-Changed; }} \
                     if (!req.http.Nginx-Stop) {{ set req.http.Nginx-Var-s = \"1\"; }} if (req.http.Nginx-Changed) {{ {again} }}"
                ),
            ),
            (
                "if ($s) { break; } return 403;",
                "unset req.http.Nginx-Stop; if (req.http.Nginx-Var-s + \"\" !~ \"^0?$\") { set req.http.Nginx-Stop = \"1\"; } \
                 if (!req.http.Nginx-Stop) { return (synth(403)); }"
                    .to_owned(),
            ),
        ] {
            assert_eq!(of(text).replace("req.http.Nginx-Path ~", "P ~").replace("(req.http.Nginx-Path,", "(P,").replace('\t', ""), expect, "{text}");
        }
    }
}
