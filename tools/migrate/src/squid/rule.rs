// SPDX-License-Identifier: BSD-2-Clause
//! Lists of rules that squid reads in order: the first whose condition holds decides, and the opposite of the last one where none does.

use super::Squid;
use super::line::Line;
use crate::migrated::Migrated;
use crate::vcl;

/// A line of a list that squid reads in order: the first whose condition holds decides.
pub(super) struct Rule {
    pub is_allowed: bool,
    /// `true` where it always holds.
    pub condition: String,
}

/// The lists that hold for all peers.
pub(super) const LISTS: [&str; 4] = ["http_access", "cache", "miss_access", "always_direct"];

impl Squid {
    /// A line of a list: `allow` or `deny`, and acls that must all hold. An acl that isn't known allows nothing, and keeps nothing from being
    /// denied; a line that allows nothing stays, since the last line decides what holds where none does.
    pub(super) fn rule(&mut self, word: &str, names: &[String], line: &Line, migrated: &mut Migrated) -> Option<Rule> {
        let is_allowed = match word {
            "allow" => true,
            "deny" => false,
            _ => {
                self.passed(line, "`allow` or `deny` is wanted", migrated);
                return None;
            }
        };
        let mut all = Vec::new();
        for name in names {
            let (is_not, name) = name.strip_prefix('!').map_or((false, name.as_str()), |name| (true, name));
            let Some(any) = self.known(name) else {
                let done = if is_allowed { "nothing is allowed by this line" } else { "the line denies without it" };
                migrated.refuse(&line.place, line.word(0), format!("acl {name} can't be translated: {done}"));
                if is_allowed {
                    return Some(Rule { is_allowed, condition: "false".to_owned() });
                }
                continue;
            };
            all.push(if is_not { not(&any) } else { any });
        }
        let condition = all.into_iter().fold("true".to_owned(), |whole, one| and(&whole, &one));
        Some(Rule { is_allowed, condition })
    }

    /// A list as branches, with the rule that squid adds: the opposite of the last one; `none` where there is no line at all.
    pub(super) fn list(&self, name: &str, none: bool, denied: &str) -> Vec<String> {
        let rules = self.rules.get(name).map_or(&[][..], Vec::as_slice);
        let lines = |is_allowed: bool| if is_allowed { Vec::new() } else { vec![denied.to_owned()] };
        let mut branches: Vec<(String, Vec<String>)> = Vec::new();
        for rule in rules {
            let is_all = rule.condition == "true";
            if rule.condition == "false" {
                continue;
            }
            branches.push((if is_all { String::new() } else { rule.condition.clone() }, lines(rule.is_allowed)));
            if is_all {
                return vcl::chain(branches);
            }
        }
        branches.push((String::new(), lines(rules.last().map_or(none, |rule| !rule.is_allowed))));
        vcl::chain(branches)
    }
}

/// The condition under which a list allows: its rules in order, then the opposite of the last one; `none` for an empty list.
pub(super) fn first_match(rules: &[Rule], none: bool) -> String {
    let rest = rules.last().map_or(none, |rule| !rule.is_allowed).to_string();
    rules.iter().rev().fold(rest, |rest, rule| match rule.is_allowed {
        true => or(&rule.condition, &rest),
        false => and(&not(&rule.condition), &rest),
    })
}

pub(super) fn not(condition: &str) -> String {
    match condition {
        "true" => "false".to_owned(),
        "false" => "true".to_owned(),
        other => format!("!({other})"),
    }
}

pub(super) fn and(one: &str, other: &str) -> String {
    match (one, other) {
        ("false", _) | (_, "false") => "false".to_owned(),
        ("true", rest) | (rest, "true") => rest.to_owned(),
        _ => format!("{} && {}", bracketed(one), bracketed(other)),
    }
}

pub(super) fn or(one: &str, other: &str) -> String {
    match (one, other) {
        ("true", _) | (_, "true") => "true".to_owned(),
        ("false", rest) | (rest, "false") => rest.to_owned(),
        _ if one == other => one.to_owned(),
        _ => format!("{one} || {other}"),
    }
}

fn bracketed(condition: &str) -> String {
    if condition.contains(" || ") { format!("({condition})") } else { condition.to_owned() }
}
