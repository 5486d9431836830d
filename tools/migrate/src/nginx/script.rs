// SPDX-License-Identifier: BSD-2-Clause
//! nginx's rewrite module: `set`, `if`, `return`, `rewrite` and `break`, which nginx runs in their order before it asks anybody.

use super::config::Directive;
use super::value::{ExpressionSide, VariableNames, comparable, expression, header, truth};
use crate::source::SourcePlace;
use crate::vcl;

/// The directives that are part of a script.
pub const NAMES: [&str; 5] = ["set", "if", "return", "rewrite", "break"];

/// A directive of a script that can't be translated, and why.
pub struct UntoldDirective {
    pub place: SourcePlace,
    pub directive: String,
    pub reason: String,
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
}

/// Translates the script of a block; `label` is the beginning of its variants' labels.
///
/// # Errors
/// The first directive that has no counterpart.
pub fn script<'a>(
    block: &'a [Directive],
    label: &str,
    names: &VariableNames,
) -> Result<RewriteScript<'a>, UntoldDirective> {
    let mut script = RewriteScript::default();
    // `break` ends the script of this block, and of no other.
    let end = block.iter().position(|d| d.name == "break").unwrap_or(block.len());
    script.add(&block[..end], label, names)?;
    Ok(script)
}

impl<'a> RewriteScript<'a> {
    fn add(&mut self, block: &'a [Directive], label: &str, names: &VariableNames) -> Result<(), UntoldDirective> {
        for directive in block {
            let untold = |reason: String| UntoldDirective {
                place: directive.place.clone(),
                directive: directive.name.clone(),
                reason,
            };
            if NAMES.contains(&directive.name.as_str()) {
                directive.is_read.set(true);
            }
            match directive.name.as_str() {
                "set" => {
                    let name = directive.word(0).trim_start_matches('$').to_ascii_lowercase();
                    if !names.set.contains_key(&name) {
                        return Err(untold(format!("${name} can't be set")));
                    }
                    let value = expression(directive.word(1), ExpressionSide::Client, "", names).map_err(untold)?;
                    self.lines.push(format!("set req.http.{} = {value};", header(&name)));
                }
                "return" => {
                    self.lines.extend(answered(directive, names, &mut self.statuses).map_err(untold)?);
                    self.has_text |= directive.words.len() > 1;
                    self.is_final = true;
                    break;
                }
                "rewrite" => self.lines.extend(redirected(directive, names).map_err(untold)?),
                "break" => return Err(untold("the rest of the script is skipped: write it in vcl_recv".to_owned())),
                "if" => {
                    let condition = condition(&directive.words, names).map_err(untold)?;
                    let mut inner = RewriteScript::default();
                    if directive.inside().iter().any(|d| !NAMES.contains(&d.name.as_str())) {
                        let own = format!("{label}if{}", self.variants.len() + 1);
                        inner.lines.push(format!("set req.http.Nginx-Location = \"{own}\";"));
                        self.variants.push((own, directive));
                    }
                    inner.add(directive.inside(), label, names)?;
                    self.statuses.extend(inner.statuses);
                    self.has_text |= inner.has_text;
                    if !inner.lines.is_empty() {
                        self.lines.push(format!("if ({condition}) {{"));
                        self.lines.extend(inner.lines.into_iter().map(|line| format!("\t{line}")));
                        self.lines.push("}".to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The condition of `if (...)`.
fn condition(words: &[String], names: &VariableNames) -> Result<String, String> {
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
        [value] if value.starts_with('$') => truth(value, ExpressionSide::Client, names),
        [left, operator @ ("=" | "!="), right] => {
            let operator = if *operator == "=" { "==" } else { operator };
            let left = comparable(left, ExpressionSide::Client, names)?;
            if right.contains('$') {
                // nginx compares with the value of a variable here, too.
                return Ok(format!("{left} {operator} {}", comparable(right, ExpressionSide::Client, names)?));
            }
            Ok(format!("{left} {operator} {}", text(right)?))
        }
        [left, operator @ ("~" | "~*" | "!~" | "!~*"), regex] => {
            let flag = if operator.ends_with('*') { "(?i)" } else { "" };
            let left = comparable(left, ExpressionSide::Client, names)?;
            Ok(format!("{left} {} {}", operator.trim_end_matches('*'), text(&format!("{flag}{regex}"))?))
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

/// `rewrite REGEX URL redirect|permanent`, and any with a URL that names a scheme: a redirection.
fn redirected(directive: &Directive, names: &VariableNames) -> Result<Vec<String>, String> {
    let (regex, target, flag) = (directive.word(0), directive.word(1), directive.word(2));
    let is_url = ["http://", "https://", "$scheme"].iter().any(|begin| target.starts_with(begin));
    let status = match flag {
        "permanent" => 301,
        "redirect" => 302,
        "" if is_url => 302,
        _ => return Err("set req.url = regsub(req.url, ...) in vcl_recv".to_owned()),
    };
    let regex = vcl::string(regex).ok_or("the regex can't be written in VCL")?;
    // Captures are VCL's own, as long as no other variable is between them.
    let has_args = !target.ends_with('?');
    let target = target.trim_end_matches('?');
    let captures: String = (1..10).fold(target.to_owned(), |text, n| text.replace(&format!("${n}"), &format!("\\{n}")));
    if captures.contains('$') && captures != target {
        return Err("captures beside other variables: write it in vcl_recv".to_owned());
    }
    let path = "req.http.Nginx-Path";
    let mut value = match captures == target {
        true => expression(target, ExpressionSide::Client, "", names)?,
        false => {
            let whole = vcl::string(&format!("^.*?(?:{}).*$", directive.word(0))).unwrap_or_default();
            let text = vcl::string(&captures).ok_or("the URL can't be written in VCL")?;
            format!("regsub({path}, {whole}, {text})")
        }
    };
    if has_args {
        let args = "regsub(req.url, \"^[^?]*\", \"\")";
        value = match target.contains('?') {
            true => format!("{value} + regsub({args}, \"^\\?\", \"&\")"),
            false => format!("{value} + {args}"),
        };
    }
    Ok(vec![
        format!("if ({path} ~ {regex}) {{"),
        format!("\tset req.http.Nginx-Text = {value};"),
        format!("\treturn (synth({status}));"),
        "}".to_owned(),
    ])
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
        let names = VariableNames { set: [("s".to_owned(), None)].into(), ..VariableNames::default() };
        match script(&block, "l", &names) {
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
        assert!(of("if ($s) { break; } return 403;").starts_with("1 break: the rest"));
    }

    #[test]
    fn answers() {
        assert_eq!(
            of("return 301 https://$host;").split(" return").next().unwrap(),
            "set req.http.Nginx-Text = \"https://\" + std.tolower(regsub(req.http.Host, \":\\d*$\", \"\"));"
        );
        assert!(of("return 444;").starts_with("1 return: 444 closes"));
        assert_eq!(
            of("rewrite ^/old/(.*)$ /new/$1 permanent;"),
            "if (req.http.Nginx-Path ~ \"^/old/(.*)$\") { \tset req.http.Nginx-Text = regsub(req.http.Nginx-Path, \"^.*?(?:^/old/(.*)$).*$\", \"/new/\\1\") + regsub(req.url, \"^[^?]*\", \"\"); \treturn (synth(301)); }"
        );
        assert!(of("rewrite ^ /index.php last;").starts_with("1 rewrite: set req.url"));
    }
}
