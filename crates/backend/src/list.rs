// SPDX-License-Identifier: BSD-2-Clause
//! `backend.list` and `backend.set_health`: flags, patterns, text and JSON, byte for byte as varnishd.
//!
//! The worker hands in the directors of the VCLs, in the order they were made.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use base::{Real, fnmatch};
use tables::Compat;

use crate::Director;

/// The administrator's verdict, `backend.set_health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AdminHealth {
    Auto = 0,
    /// The backend is used regardless of the probe.
    Healthy = 1,
    Sick = 2,
}

impl AdminHealth {
    /// Parses `auto`, `healthy` or `sick`, in any case. For anything else, the CLI answers `Invalid state <word>`.
    pub fn parse(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "auto" => Some(Self::Auto),
            "healthy" => Some(Self::Healthy),
            "sick" => Some(Self::Sick),
            _ => None,
        }
    }

    pub(crate) fn from_u8(value: u8) -> Self {
        match value {
            1 => Self::Healthy,
            2 => Self::Sick,
            _ => Self::Auto,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ListFlags {
    pub details: bool,
    pub json: bool,
}

/// Reads the words after `backend.list`: flags, then at most one pattern.
///
/// # Errors
/// The CLI's answer, with status 106.
pub fn parse_list_flags<'a>(words: &[&'a str]) -> Result<(ListFlags, Option<&'a str>), String> {
    let mut flags = ListFlags::default();
    let mut rest = words;
    while let Some((word, tail)) = rest.split_first() {
        let Some(letters) = word.strip_prefix('-') else { break };
        for letter in letters.chars() {
            match letter {
                'j' => flags.json = true,
                'p' => flags.details = !flags.details,
                other => return Err(format!("Invalid flag {other}")),
            }
        }
        rest = tail;
    }
    match rest {
        [] => Ok((flags, None)),
        [pattern] => Ok((flags, Some(pattern))),
        _ => Err("Too many arguments".into()),
    }
}

/// The directors that a pattern names. Without a dot it means the active VCL's; with one, those of all VCLs.
pub fn matching(pattern: Option<&str>, active: &str, all: &[Arc<dyn Director>]) -> Vec<Arc<dyn Director>> {
    let (glob, only_active) = match pattern {
        None | Some("" | "*") => (format!("{active}.*"), true),
        Some(pattern) if !pattern.contains('.') => (format!("{active}.{pattern}"), true),
        Some(pattern) => (pattern.to_string(), false),
    };
    let ours = |name: &str| name.strip_prefix(active).is_some_and(|rest| rest.starts_with('.'));
    all.iter()
        .filter(|director| {
            let name = director.base().cli_name();
            fnmatch::matches(glob.as_bytes(), name.as_bytes(), fnmatch::MatchFlags::default())
                && (!only_active || ours(name))
        })
        .cloned()
        .collect()
}

/// Executes `backend.set_health` for the directors that a pattern matched. Returns false if there are none; the reply is then `No Backends
/// matches` with status 106.
pub fn set_health(directors: &[Arc<dyn Director>], health: AdminHealth, now: Real) -> bool {
    directors.iter().for_each(|director| director.base().set_admin(health, now));
    !directors.is_empty()
}

fn admin_word(director: &dyn Director, now: Real) -> &'static str {
    match director.base().admin() {
        AdminHealth::Healthy => "healthy",
        AdminHealth::Sick => "sick",
        AdminHealth::Auto if director.own_health(now).is_some() => "probe",
        AdminHealth::Auto => "healthy",
    }
}

/// The later of the changes by the administrator and by the probe. varnishd 7.1 shows only the former.
fn last_change(director: &dyn Director, now: Real) -> Real {
    let own = director.own_health(now).map_or(0.0, |health| health.changed.0);
    Real(director.base().changed().0.max(own))
}

fn health_word(healthy: bool) -> &'static str {
    if healthy { "healthy" } else { "sick" }
}

/// The text form. `date` writes a time as an HTTP date.
pub fn list_text(
    directors: &[Arc<dyn Director>],
    flags: ListFlags,
    now: Real,
    compat: Compat,
    date: impl Fn(Real) -> String,
) -> String {
    let mut rows = String::from("Backend name\tAdmin\tProbe\tHealth\tLast change\n");
    for director in directors {
        let (base, summary) = (director.base(), director.summary(now));
        let _ = write!(
            rows,
            "{}\t{}\t{}/{}\t{}\t{}",
            base.cli_name(),
            admin_word(&**director, now),
            summary.good,
            summary.of,
            health_word(summary.healthy),
            date(last_change(&**director, now))
        );
        if flags.details {
            director.details(now, &mut rows);
        }
        rows.push('\n');
    }
    base::columns(&rows, compat.is_9())
}

/// The JSON form; `words` are the command's words, with the command.
pub fn list_json(directors: &[Arc<dyn Director>], words: &[&str], flags: ListFlags, now: Real) -> String {
    let mut out = String::new();
    let quoted: Vec<String> = words.iter().map(|word| json_string(word)).collect();
    let _ = write!(out, "[ 3, [{}], {:.3},\n  {{\n", quoted.join(", "), now.0);
    for (i, director) in directors.iter().enumerate() {
        if i > 0 {
            out.push_str(",\n");
        }
        json_entry(&**director, flags, now, &mut out);
    }
    out.push_str("\n  }\n]\n");
    out
}

fn json_entry(director: &dyn Director, flags: ListFlags, now: Real, out: &mut String) {
    let (base, summary) = (director.base(), director.summary(now));
    let _ = write!(
        out,
        "    {}: {{\n      \"type\": \"{}\",\n      \"admin_health\": \"{}\",\n      \"probe_message\": [{}, {}, \"{}\"],\n",
        json_string(base.cli_name()),
        director.kind(),
        admin_word(director, now),
        summary.good,
        summary.of,
        health_word(summary.healthy)
    );
    // These members are ours: the address for a tool's own attempts, and the reason why requests fail.
    if let Some(backend) = director.as_backend() {
        let _ = writeln!(out, "      \"address\": {},", json_string(&backend.spec().endpoint.to_string()));
        if let Some((cause, seconds)) = backend.last_fault() {
            let _ = writeln!(out, "      \"failure\": {},\n      \"failure_age\": {seconds:.3},", json_string(&cause));
        }
    }
    let mut details = String::new();
    if flags.details {
        director.details_json(now, &mut details);
    }
    if !details.is_empty() {
        let indented = details.trim_end_matches('\n').replace('\n', "\n      ");
        let _ = writeln!(out, "      \"probe_details\": {indented}");
    }
    if let Some(backend) = director.as_backend().filter(|_| flags.details) {
        json_endpoint(backend.addresses(), out);
    }
    let _ = write!(out, "      \"last_change\": {:.3}\n    }}", last_change(director, now).0);
}

/// Members of releases from 7.7 on: a backend's addresses.
fn json_endpoint(addresses: [Option<SocketAddr>; 2], out: &mut String) {
    for (name, address) in ["ipv4", "ipv6"].into_iter().zip(addresses) {
        if let Some(address) = address {
            let _ = writeln!(out, "      \"{name}\": \"{}\",", address.ip());
        }
    }
}

fn json_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
