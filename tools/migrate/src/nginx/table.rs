// SPDX-License-Identifier: BSD-2-Clause
//! `map` and `geo` as subroutines that set a variable, and the names that `set` gives values.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::address::made_of;
use super::admit::REAL_IP;
use super::capture;
use super::config::{Claim, Directive};
use super::value::{ExpressionSide, Part, VariableNames, comparable, expression, header, is_plain, parts};
use super::words::address;
use crate::vcl;

pub fn names(http: &[Directive], names: &mut VariableNames) {
    names.tables.extend(http.iter().filter_map(variable));
    let mut uses = BTreeMap::new();
    count_uses(http, &mut uses);
    sets(http, &uses, true, names);
    let mut values = BTreeMap::new();
    texts(http, &mut values);
    let known = values.into_iter().filter_map(|(name, all)| Some((name, all?.into_iter().collect())));
    names.values = known.collect();
    names.has_pages = has(http, &|d| d.name == "error_page");
    let is_rewrite = |d: &Directive| d.name == "rewrite" && !matches!(d.word(2), "redirect" | "permanent");
    names.has_moves = names.has_pages || has(http, &|d| is_rewrite(d) || d.name == "break");
    names.has_real_ip = has(http, &|d| d.name == "set_real_ip_from")
        && !has(http, &|d| d.name == "real_ip_header" && d.word(0) == "proxy_protocol");
    if has(http, &is_rewrite) {
        names.moving =
            made_of(http, is_of_url, Vec::new()).into_iter().filter(|name| names.tables.contains(name)).collect();
        // A script asks before or after a URL is rewritten, and nginx keeps what came of it: nobody here can tell which.
        let moving = std::mem::take(&mut names.moving);
        let (asked, late): (BTreeSet<_>, BTreeSet<_>) = moving.into_iter().partition(|name| is_asked(http, name));
        asked.iter().for_each(|name| _ = names.tables.remove(name));
        names.moving = late;
    }
    capture::asked(http, &mut names.captures);
    regexes(http, &mut |regex| {
        for name in capture::names(regex) {
            names.values.remove(&name);
            names.set.insert(name, None);
        }
    });
    // nginx picks them by a hash that VCL doesn't have, even where a script sets them, too.
    let picked = http.iter().filter(|d| d.name == "split_clients").filter_map(|d| d.words.last());
    for name in picked.map(|name| name.trim_start_matches('$').to_ascii_lowercase()) {
        names.set.remove(&name);
        names.values.remove(&name);
    }
}

/// True of variables that are parts of the URL as scripts rewrite it.
fn is_of_url(name: &str) -> bool {
    matches!(name, "uri" | "document_uri" | "args" | "query_string" | "is_args") || name.starts_with("arg_")
}

fn is_asked(http: &[Directive], name: &str) -> bool {
    let is_it = |part: &Part| matches!(part, Part::Variable(asked) if asked.eq_ignore_ascii_case(name));
    has(http, &|d| {
        matches!(d.name.as_str(), "if" | "set" | "rewrite") && d.words.iter().any(|word| parts(word).iter().any(is_it))
    })
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

/// `set` in all blocks: a text that is set once, not within an `if`, is the variable's only one if no other block asks for it. Where another one
/// does, the variable is empty there. `uses` is how often each variable is named in all.
fn sets(block: &[Directive], uses: &BTreeMap<String, usize>, is_always: bool, names: &mut VariableNames) {
    let mut here = BTreeMap::new();
    if block.iter().any(|directive| directive.name == "set") {
        count_uses(block, &mut here);
    }
    for directive in block {
        match directive.name.as_str() {
            "set" => {
                let name = directive.word(0).trim_start_matches('$').to_ascii_lowercase();
                if !is_plain(&name) {
                    continue;
                }
                let is_only = is_always && here.get(&name) == uses.get(&name);
                let text = Some(directive.word(1).to_owned()).filter(|text| is_only && !text.contains('$'));
                match names.set.get_mut(&name) {
                    Some(known) => *known = known.take().filter(|known| Some(known) == text.as_ref()),
                    None => _ = names.set.insert(name, text),
                }
            }
            "if" => sets(directive.inside(), uses, false, names),
            _ if directive.is_table() => {}
            _ => sets(directive.inside(), uses, is_always, names),
        }
    }
}

/// Counts how often each variable is named in these blocks.
fn count_uses(block: &[Directive], uses: &mut BTreeMap<String, usize>) {
    for directive in block {
        for part in directive.words.iter().flat_map(|word| parts(word)) {
            if let Part::Variable(name) = part {
                *uses.entry(name.to_ascii_lowercase()).or_default() += 1;
            }
        }
        count_uses(directive.inside(), uses);
    }
}

/// The texts that `set`, `map` and `geo` give to variables; None for one that may get a value made of others. A variable is empty where no `set` was
/// reached, and where no entry fits of a table without a default.
fn texts(block: &[Directive], all: &mut BTreeMap<String, Option<BTreeSet<String>>>) {
    for directive in block {
        let own = |word: &str| word.trim_start_matches('$').to_ascii_lowercase();
        let (name, values): (_, Vec<&str>) = match (directive.name.as_str(), variable(directive)) {
            ("set", _) => (own(directive.word(0)), vec![directive.word(1), ""]),
            (_, Some(name)) => {
                let entries = directive.inside().iter();
                let default = entries.clone().all(|entry| entry.name != "default").then_some("");
                (name, entries.map(|entry| entry.word(0)).chain(default).collect())
            }
            _ => {
                texts(directive.inside(), all);
                continue;
            }
        };
        let known = all.entry(name).or_insert_with(|| Some(BTreeSet::new()));
        match known {
            Some(known) if values.iter().all(|value| !value.contains('$')) => {
                known.extend(values.into_iter().map(str::to_owned));
            }
            _ => *known = None,
        }
    }
}

/// The subroutines of those tables that were asked for, in an order in which each finds what it needs: name, text.
pub fn subs(http: &[Directive], names: &VariableNames, acls: &mut Vec<String>) -> Vec<(String, String)> {
    let tables: BTreeMap<String, &Directive> = http.iter().filter_map(|d| Some((variable(d)?, d))).collect();
    let mut out: Vec<(String, String)> = Vec::new();
    let mut begun: BTreeSet<String> = BTreeSet::new();
    // Each waits for the one above it.
    let mut stack = vec![BegunTable { sub: None, waiting: used(names) }];
    while let Some(last) = stack.last_mut() {
        let Some(name) = last.waiting.pop() else {
            out.extend(stack.pop().and_then(|table| table.sub));
            continue;
        };
        if !begun.insert(name.clone()) {
            continue;
        }
        if let Some(table) = tables.get(&name)
            && let Ok((lines, asked)) = lines_and_used(table, &name, names, acls)
        {
            table.claim(Claim::Claimed);
            let sub = format!("nginx_{}_{name}", table.name);
            stack.push(BegunTable { sub: Some((sub.clone(), vcl::sub(&sub, &lines))), waiting: asked });
        }
    }
    out
}

/// A table whose subroutine stands behind those of the tables that it asks for.
struct BegunTable {
    /// The name and the text of the subroutine; None for the locations, which ask for tables, too.
    sub: Option<(String, String)>,
    /// The tables that are still to come before it.
    waiting: Vec<String>,
}

/// The variables of tables that were asked for.
fn used(names: &VariableNames) -> Vec<String> {
    names.used.borrow().iter().rev().filter(|name| names.tables.contains(*name)).cloned().collect()
}

/// The lines of a table, and the tables whose variables they ask for.
fn lines_and_used(
    table: &Directive,
    name: &str,
    names: &VariableNames,
    acls: &mut Vec<String>,
) -> Result<(Vec<String>, Vec<String>), String> {
    let outer = names.used.take();
    let result = lines(table, name, names, acls);
    let asked = used(names);
    // The smaller set goes into the larger one.
    let own = names.used.replace(outer);
    names.used.borrow_mut().extend(own);
    Ok((result?, asked))
}

/// The variable that a `map` or `geo` makes; None of other directives.
fn variable(directive: &Directive) -> Option<String> {
    let is_table = matches!(directive.name.as_str(), "map" | "geo") && directive.block.is_some();
    let last = directive.words.last().filter(|_| is_table)?;
    Some(last.trim_start_matches('$').to_ascii_lowercase()).filter(|name| is_plain(name))
}

fn lines(table: &Directive, name: &str, names: &VariableNames, acls: &mut Vec<String>) -> Result<Vec<String>, String> {
    if table.name == "map" { map(table, name, names) } else { geo(table, name, names, acls) }
}

/// Takes out of the names those of tables that can't be translated: where one of them is asked for, the location is refused.
pub fn drop_unknown(http: &[Directive], names: &mut VariableNames) {
    let tables: Vec<(String, &Directive)> = http.iter().filter_map(|d| Some((variable(d)?, d))).collect();
    // The tables that ask for a variable: they are tried again when it turns out to be unknown.
    let mut askers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut waiting: Vec<usize> = (0..tables.len()).rev().collect();
    while let Some(at) = waiting.pop() {
        let (name, table) = &tables[at];
        if !names.tables.contains(name) {
            continue;
        }
        match lines_and_used(table, name, names, &mut Vec::new()) {
            Ok((_, asked)) => asked.into_iter().for_each(|other| askers.entry(other).or_default().push(at)),
            Err(_) => {
                names.tables.remove(name);
                waiting.extend(askers.remove(name).unwrap_or_default());
            }
        }
    }
    names.used.borrow_mut().clear();
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

/// Networks with the longest first. Of several lines for one network nginx takes the last.
fn geo(table: &Directive, name: &str, names: &VariableNames, acls: &mut Vec<String>) -> Result<Vec<String>, String> {
    if names.has_real_ip {
        return Err(REAL_IP.to_owned());
    }
    let source = match table.words.len() {
        1 => "client.ip",
        2 if table.word(0) == "$remote_addr" => "client.ip",
        _ => return Err("only client addresses are translated".to_owned()),
    };
    let set = |value: &str| Ok::<_, String>(vec![format!("set req.http.{} = {};", header(name), quoted(value)?)]);
    let mut entries: BTreeMap<(Reverse<u32>, String), Vec<String>> = BTreeMap::new();
    let mut default = set("")?;
    for entry in table.inside() {
        match entry.name.as_str() {
            "default" => default = set(entry.word(0))?,
            "proxy" | "proxy_recursive" | "ranges" | "delete" | "include" => {
                return Err(format!("{} in it isn't translated", entry.name));
            }
            network => {
                let acl = address(network).ok_or_else(|| format!("{network} is no address"))?.0;
                // One address, however it is written.
                let acl = acl
                    .strip_suffix("/32")
                    .filter(|ip| ip.contains('.'))
                    .or(acl.strip_suffix("/128"))
                    .unwrap_or(&acl)
                    .to_owned();
                let bits = acl.split_once('/').and_then(|(_, bits)| bits.parse().ok()).unwrap_or(128);
                entries.insert((Reverse(bits), acl), set(entry.word(0))?);
            }
        }
    }
    let mut branches: Vec<(String, Vec<String>)> = Vec::new();
    for ((_, entry), lines) in entries {
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
