// SPDX-License-Identifier: BSD-2-Clause
//! Lists of rules that squid reads in order: the first whose condition holds decides, and the opposite of the last one where none does.

use std::collections::BTreeSet;

use super::Squid;
use super::acl::folded;
use super::line::Line;
use crate::migrated::Migrated;
use crate::vcl;

/// A line of a list that squid reads in order: the first whose condition holds decides.
pub(super) struct Rule {
    pub is_allowed: bool,
    /// `true` where it always holds.
    pub condition: String,
}

pub(super) const LISTS: [&str; 4] = ["http_access", "cache", "miss_access", "always_direct"];

/// Bytes of all conditions together. An acl of acls has the texts of these, so that a few lines could double one without end.
const MAX_CONDITIONS: usize = 4 << 20;

pub(super) const TOO_LONG: &str = "the conditions of all acls and rules are too long: name fewer acls, or shorter ones";

impl Squid {
    /// True if the conditions of these acls may be put together once more. They are counted once each.
    pub(super) fn can_join(&mut self, names: &[String]) -> bool {
        let names: BTreeSet<String> = names.iter().map(|name| folded(name.strip_prefix('!').unwrap_or(name))).collect();
        let bytes = names.iter().map(|name| self.acl_bytes.get(name).map_or(0, |bytes| *bytes) + name.len()).sum();
        self.count_condition(bytes)
    }

    /// Counts the bytes of a condition; false if all would be too long with it.
    pub(super) fn count_condition(&mut self, bytes: usize) -> bool {
        let is_short = self.condition_bytes + bytes <= MAX_CONDITIONS;
        self.condition_bytes += if is_short { bytes } else { 0 };
        is_short
    }

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
        if !self.can_join(names) {
            let done = if is_allowed { "nothing is allowed by this line" } else { "the line denies everything" };
            migrated.refuse(&line.place, line.word(0), format!("{TOO_LONG}: {done}"));
            return Some(Rule { is_allowed, condition: (!is_allowed).to_string() });
        }
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        for name in names.iter().filter(|name| seen.insert(*name)) {
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
        Some(Rule { is_allowed, condition: all_of(&all) })
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

/// The condition that holds where all of these do.
pub(super) fn all_of(conditions: &[String]) -> String {
    joined(
        conditions,
        ["false", "true"],
        " && ",
        |one, is_alone| if is_alone { one.to_owned() } else { bracketed(one) },
    )
}

/// The condition that holds where one of these does.
pub(super) fn any_of(conditions: &[String]) -> String {
    joined(conditions, ["true", "false"], " || ", |one, _| one.to_owned())
}

/// Conditions put together: one that decides alone, else those that decide anything, once each.
fn joined(
    all: &[String],
    [decisive, idle]: [&str; 2],
    operator: &str,
    written: impl Fn(&str, bool) -> String,
) -> String {
    if all.iter().any(|one| one == decisive) {
        return decisive.to_owned();
    }
    let mut seen = BTreeSet::new();
    let kept: Vec<&String> = all.iter().filter(|one| *one != idle && seen.insert(*one)).collect();
    match kept.is_empty() {
        true => idle.to_owned(),
        false => kept.iter().map(|one| written(one, kept.len() == 1)).collect::<Vec<_>>().join(operator),
    }
}

fn and(one: &str, other: &str) -> String {
    match (one, other) {
        ("false", _) | (_, "false") => "false".to_owned(),
        ("true", rest) | (rest, "true") => rest.to_owned(),
        _ => format!("{} && {}", bracketed(one), bracketed(other)),
    }
}

fn or(one: &str, other: &str) -> String {
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
