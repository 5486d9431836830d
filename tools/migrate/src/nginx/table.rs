// SPDX-License-Identifier: BSD-2-Clause
//! `map` and `geo` as subroutines that set a variable, and the names that `set` gives values.

use super::capture;
use super::config::{Claim, Directive};
use super::leaf::address;
use super::value::{ExpressionSide, VariableNames, comparable, expression, header};
use crate::vcl;

/// Finds the variables that a configuration makes.
pub fn names(http: &[Directive], names: &mut VariableNames) {
    for directive in http {
        match variable(directive) {
            Some(name) => _ = names.tables.insert(name),
            None => sets(directive.inside(), true, names),
        }
    }
    names.has_pages = has(http, &|d| d.name == "error_page");
    let is_move = |d: &Directive| match d.name.as_str() {
        "rewrite" => !matches!(d.word(2), "redirect" | "permanent"),
        name => name == "break",
    };
    names.has_moves = names.has_pages || has(http, &is_move);
    capture::asked(http, &mut names.captures);
    regexes(http, &mut |regex| names.set.extend(capture::names(regex).map(|name| (name, None))));
    // nginx picks them by a hash that VCL doesn't have, even where a script sets them, too.
    let picked = http.iter().filter(|d| d.name == "split_clients").filter_map(|d| d.words.last());
    picked.for_each(|name| _ = names.set.remove(&name.trim_start_matches('$').to_ascii_lowercase()));
}

/// True if a directive of these blocks, or in them, is of a kind.
fn has(block: &[Directive], is_it: &dyn Fn(&Directive) -> bool) -> bool {
    block.iter().any(|d| is_it(d) || has(d.inside(), is_it))
}

/// Calls `each` with the regexes of all blocks that may capture.
fn regexes(block: &[Directive], each: &mut dyn FnMut(&str)) {
    for directive in block {
        let words = directive.words.iter().map(String::as_str);
        match directive.name.as_str() {
            "location" | "if" => words.for_each(&mut *each),
            "server_name" => words.filter_map(|name| name.strip_prefix('~')).for_each(&mut *each),
            "rewrite" => each(directive.word(0)),
            "map" => directive.inside().iter().filter_map(|entry| entry.name.strip_prefix('~')).for_each(&mut *each),
            _ => {}
        }
        regexes(directive.inside(), each);
    }
}

/// `set` in all blocks: a text that is set once, and not within an `if`, is the variable's only one.
fn sets(block: &[Directive], is_always: bool, names: &mut VariableNames) {
    for directive in block {
        match directive.name.as_str() {
            "set" => {
                let name = directive.word(0).trim_start_matches('$').to_ascii_lowercase();
                let is_name = !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
                if !is_name {
                    continue;
                }
                let text = Some(directive.word(1).to_owned()).filter(|text| is_always && !text.contains('$'));
                match names.set.get_mut(&name) {
                    Some(known) => *known = known.take().filter(|known| Some(known) == text.as_ref()),
                    None => _ = names.set.insert(name, text),
                }
            }
            "if" => sets(directive.inside(), false, names),
            _ => sets(directive.inside(), is_always, names),
        }
    }
}

/// The subroutines of those tables that were asked for, in an order in which each finds what it needs: name, text.
pub fn subs(http: &[Directive], names: &VariableNames, acls: &mut Vec<String>) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let mut done: Vec<String> = Vec::new();
    // A table may ask for another one.
    while let Some(name) = next(names, &done) {
        if let Some(table) = http.iter().rfind(|d| variable(d).as_ref() == Some(&name))
            && let Ok(lines) = lines(table, &name, names, acls)
        {
            table.claim(Claim::Claimed);
            let sub = format!("nginx_{}_{name}", table.name);
            out.insert(0, (sub.clone(), vcl::sub(&sub, &lines)));
        }
        done.push(name);
    }
    out
}

fn next(names: &VariableNames, done: &[String]) -> Option<String> {
    names.used.borrow().iter().find(|name| names.tables.contains(*name) && !done.contains(*name)).cloned()
}

/// The variable that a `map` or `geo` makes; None of other directives.
fn variable(directive: &Directive) -> Option<String> {
    let is_table = matches!(directive.name.as_str(), "map" | "geo") && directive.block.is_some();
    let last = directive.words.last().filter(|_| is_table)?;
    Some(last.trim_start_matches('$').to_ascii_lowercase())
}

fn lines(table: &Directive, name: &str, names: &VariableNames, acls: &mut Vec<String>) -> Result<Vec<String>, String> {
    if table.name == "map" { map(table, name, names) } else { geo(table, name, acls) }
}

/// Takes out of the names those of tables that can't be translated: where one of them is asked for, the location is refused.
pub fn drop_unknown(http: &[Directive], names: &mut VariableNames) {
    loop {
        let mut unknown = Vec::new();
        for table in http {
            if let Some(name) = variable(table).filter(|name| names.tables.contains(name))
                && lines(table, &name, names, &mut Vec::new()).is_err()
            {
                unknown.push(name);
            }
        }
        names.used.borrow_mut().clear();
        if unknown.is_empty() {
            return;
        }
        unknown.iter().for_each(|name| _ = names.tables.remove(name));
    }
}

/// Exact texts first (without regard to case), then regexes in their order, then the default.
fn map(table: &Directive, name: &str, names: &VariableNames) -> Result<Vec<String>, String> {
    if table.words.len() != 2 {
        return Err("it has a source and a variable".to_owned());
    }
    let source = comparable(table.word(0), ExpressionSide::Client, names)?;
    if is_later(&source, names) {
        return Err("its source is set later".to_owned());
    }
    // Values of regexes may have their captures.
    let set = |value: &str, regex: Option<(&str, bool)>| {
        let value = expression(value, ExpressionSide::Client, "", names)?;
        let mut lines = regex.map(|(regex, i)| capture::lines(&source, regex, i, names)).unwrap_or_default();
        let set_here: String = lines.concat();
        let is_own = |header: &str| set_here.contains(&format!("req.http.{header} = "));
        if value.split("req.http.").skip(1).any(|rest| {
            let header = rest.split([' ', ',', ')']).next().unwrap_or_default();
            is_later(&format!("req.http.{header}"), names) && !is_own(header)
        }) {
            return Err("a value in it is set later".to_owned());
        }
        lines.push(format!("set req.http.{} = {value};", header(name)));
        Ok(lines)
    };
    let mut texts = Vec::new();
    let mut regexes = Vec::new();
    let mut default = vec![format!("set req.http.{} = \"\";", header(name))];
    for entry in table.inside() {
        let key = entry.name.as_str();
        match (key, key.strip_prefix("~*"), key.strip_prefix('~')) {
            ("default", ..) => default = set(entry.word(0), None)?,
            ("volatile", ..) if entry.words.is_empty() => {}
            ("hostnames" | "include", ..) => return Err(format!("{key} in it isn't translated")),
            (_, Some(regex), _) => {
                let condition = format!("{source} ~ {}", quoted(&format!("(?i){regex}"))?);
                regexes.push((condition, set(entry.word(0), Some((regex, true)))?));
            }
            (_, None, Some(regex)) => {
                let condition = format!("{source} ~ {}", quoted(regex)?);
                regexes.push((condition, set(entry.word(0), Some((regex, false)))?));
            }
            (_, None, None) => {
                let text = key.strip_prefix('\\').unwrap_or(key);
                texts.push((
                    format!("{source} ~ {}", quoted(&format!("(?i)^{}$", vcl::literal(text)))?),
                    set(entry.word(0), None)?,
                ));
            }
        }
    }
    texts.extend(regexes);
    texts.push((String::new(), default));
    Ok(vcl::chain(texts))
}

/// True if an expression has a value that a request gets only after the tables: one of `set`, or a capture.
fn is_later(expression: &str, names: &VariableNames) -> bool {
    let has = |name: &str| expression.contains(&format!("req.http.{name}"));
    names.captures.iter().any(|number| has(&capture::numbered(*number)))
        || names.set.keys().any(|set| has(&header(set)))
}

/// Networks with the longest first.
fn geo(table: &Directive, name: &str, acls: &mut Vec<String>) -> Result<Vec<String>, String> {
    let source = match table.words.len() {
        1 => "client.ip",
        2 if table.word(0) == "$remote_addr" => "client.ip",
        _ => return Err("only client addresses are translated".to_owned()),
    };
    let set =
        |value: &str| vec![format!("set req.http.{} = {};", header(name), vcl::string(value).unwrap_or_default())];
    let mut entries: Vec<(u32, String, Vec<String>)> = Vec::new();
    let mut default = set("");
    for entry in table.inside() {
        match entry.name.as_str() {
            "default" => default = set(entry.word(0)),
            "proxy" | "proxy_recursive" | "ranges" | "delete" | "include" => {
                return Err(format!("{} in it isn't translated", entry.name));
            }
            network => {
                let acl = address(network).ok_or_else(|| format!("{network} is no address"))?;
                let bits = network.split_once('/').and_then(|(_, bits)| bits.parse().ok()).unwrap_or(128);
                entries.push((bits, acl, set(entry.word(0))));
            }
        }
    }
    entries.sort_by_key(|(bits, ..)| std::cmp::Reverse(*bits));
    let mut branches: Vec<(String, Vec<String>)> = Vec::new();
    for (_, entry, lines) in entries {
        let at = acls.iter().position(|known| *known == entry).unwrap_or_else(|| {
            acls.push(entry.clone());
            acls.len() - 1
        });
        branches.push((format!("{source} ~ addresses_{}", at + 1), lines));
    }
    branches.push((String::new(), default));
    Ok(vcl::chain(branches))
}

fn quoted(text: &str) -> Result<String, String> {
    vcl::string(text).ok_or_else(|| format!("{text:?} can't be written in VCL"))
}
