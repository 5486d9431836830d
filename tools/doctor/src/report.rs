// SPDX-License-Identifier: BSD-2-Clause
//! What the rules have found, for people at 80 columns and for programs.

use serde_json::{Value, json};

use crate::facts::DoctorFacts;
use crate::options::DoctorOptions;
use crate::rule::{Area, Finding, Rule, Severity, about, count, time};
use crate::rules;

const COLUMNS: usize = 79;
/// Further findings of one rule that are counted only.
const MOST_FINDINGS: usize = 20;

struct Found {
    rule: &'static Rule,
    finding: Finding,
    /// Commands to type, one a line.
    remedy: Vec<String>,
}

pub struct DoctorReport {
    head: Vec<String>,
    findings: Vec<Found>,
    sound: Vec<&'static Rule>,
    blind: Vec<(&'static Rule, String)>,
    remarks: Vec<String>,
}

impl DoctorReport {
    pub fn new(options: &DoctorOptions, facts: &DoctorFacts, is_early: bool) -> DoctorReport {
        let (mut findings, mut sound, mut blind) = (Vec::new(), Vec::new(), Vec::new());
        let mut remarks = remarks(facts);
        for rule in rules::all().filter(|rule| options.wants(rule)) {
            match (rule.look)(facts) {
                Err(why) => blind.push((rule, why)),
                Ok(found) if found.is_empty() => sound.push(rule),
                Ok(found) => {
                    if found.len() > MOST_FINDINGS {
                        remarks.push(format!(
                            "{}: {} more like these",
                            rule.id,
                            count((found.len() - MOST_FINDINGS) as u64)
                        ));
                    }
                    findings.extend(found.into_iter().take(MOST_FINDINGS).map(|finding| {
                        let remedy = rule.remedy_for(&finding, facts);
                        Found { rule, finding, remedy }
                    }));
                }
            }
        }
        // Those about the server and its requests first: the machine may have other users. Then the gravest; else as they are declared.
        findings.sort_by_key(|found| (found.rule.area == Area::Host, std::cmp::Reverse(found.rule.severity)));
        if is_early {
            remarks.push("ended early: what had been seen until then".into());
        }
        DoctorReport { head: head(facts), findings, sound, blind, remarks }
    }

    /// True if a finding is worse than a notice.
    pub fn is_bad(&self) -> bool {
        self.findings.iter().any(|found| found.rule.severity > Severity::Notice)
    }

    /// Findings worse than a notice, one a line, in the report's order.
    pub fn gravest(&self) -> Vec<String> {
        let bad = self.findings.iter().filter(|found| found.rule.severity > Severity::Notice);
        bad.map(|Found { rule, finding, .. }| {
            format!("{}: {} ({})", rule.severity.word(), about(rule.what, &finding.subject), rule.id)
        })
        .collect()
    }

    pub fn is_blind(&self) -> bool {
        self.findings.is_empty() && self.sound.is_empty()
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        self.head.iter().for_each(|line| out.push_str(&wrapped(line, "", "  ")));
        self.findings.iter().for_each(|found| out.push_str(&section(found)));
        out.push('\n');
        let grave = |severity: Severity| {
            let found = self.findings.iter().filter(|found| found.rule.severity == severity).count();
            format!("{found} {}{}", severity.word(), if found == 1 { "" } else { "s" })
        };
        let grave = [Severity::Fault, Severity::Warning, Severity::Notice].map(grave);
        let looked = self.sound.len() + distinct(&self.findings);
        out.push_str(&wrapped(&format!("{looked} rules looked: {}.", grave.join(", ")), "", ""));
        out.push_str(&self.blind_text());
        self.remarks.iter().for_each(|remark| out.push_str(&wrapped(remark, "Note: ", "      ")));
        out
    }

    fn blind_text(&self) -> String {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (rule, why) in &self.blind {
            match reasons.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, ids)) => ids.push(rule.id),
                None => reasons.push((why, vec![rule.id])),
            }
        }
        let line =
            |(why, ids): (&str, Vec<&str>)| wrapped(&format!("{why}: {}", ids.join(", ")), "Not looked at, as ", "  ");
        reasons.into_iter().map(line).collect()
    }

    pub fn json(&self) -> Value {
        let finding = |Found { rule, finding, remedy }: &Found| {
            json!({
                "id": rule.id, "area": rule.area.word(), "severity": rule.severity.word(), "subject": finding.subject,
                "what": about(rule.what, &finding.subject), "evidence": finding.evidence, "why": unfolded(rule.why),
                "type": remedy,
            })
        };
        json!({
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "sound": self.sound.iter().map(|rule| rule.id).collect::<Vec<_>>(),
            "not_looked_at": self.blind.iter().map(|(rule, why)| json!({ "id": rule.id, "why": why })).collect::<Vec<_>>(),
            "about": self.head,
            "remarks": self.remarks,
        })
    }
}

fn distinct(findings: &[Found]) -> usize {
    let mut ids: Vec<&str> = findings.iter().map(|found| found.rule.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len()
}

fn section(Found { rule, finding, remedy }: &Found) -> String {
    let title = format!("{} ({})", about(rule.what, &finding.subject), rule.id);
    let severity = format!("{:<8} ", rule.severity.word().to_uppercase());
    let mut out = format!("\n{}", wrapped(&title, &severity, "         "));
    finding.evidence.iter().for_each(|line| out.push_str(&wrapped(line, "  Seen:  ", "         ")));
    out.push_str(&wrapped(&unfolded(rule.why), "  Why:   ", "         "));
    // What is to be typed isn't broken into lines.
    remedy.iter().for_each(|line| out.push_str(&format!("  Type:  {line}\n")));
    out
}

pub fn explained(rule: &Rule) -> String {
    let mut out = wrapped(&format!("{}: {}", rule.id, about(rule.what, "")), "", "  ");
    out.push_str(&format!("\n  A {} of the {}.\n\n", rule.severity.word(), rule.area.word()));
    out.push_str(&wrapped(rule.evidence, "  Looks: ", "         "));
    out.push_str(&wrapped(&unfolded(rule.why), "  Why:   ", "         "));
    rule.remedy.iter().for_each(|line| out.push_str(&format!("  Type:  {}\n", about(line, ""))));
    out
}

pub fn list() -> String {
    let mut out = String::new();
    for area in Area::ALL {
        out.push_str(&format!("{}\n", area.word()));
        for rule in rules::all().filter(|rule| rule.area == area) {
            let head = format!("  {:<20} {:<8} ", rule.id, rule.severity.word());
            out.push_str(&wrapped(&about(rule.what, ""), &head, &" ".repeat(head.len())));
        }
    }
    out
}

pub fn list_json() -> Value {
    let rule = |rule: &Rule| {
        json!({
            "id": rule.id, "area": rule.area.word(), "severity": rule.severity.word(), "what": about(rule.what, ""),
            "why": unfolded(rule.why), "evidence": rule.evidence, "type": rule.remedy,
        })
    };
    rules::all().map(rule).collect()
}

/// The text with its line breaks in the source replaced by blanks.
fn unfolded(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lines that fit a terminal; a word that doesn't stands alone.
fn wrapped(text: &str, first: &str, others: &str) -> String {
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            out.push_str(&line);
            out.push('\n');
            line = others.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

/// The report's first lines: the machine and the server that were looked at.
fn head(facts: &DoctorFacts) -> Vec<String> {
    let host = &facts.host;
    let name = host.text("proc/sys/kernel/hostname").map_or_else(|| "unknown".into(), |name| name.trim().to_owned());
    let kernel = host.text("proc/sys/kernel/osrelease").map_or_else(|| "unknown".into(), |text| text.trim().to_owned());
    let up = host.uptime().map_or_else(|_| String::new(), |seconds| format!(", up {}", time(seconds)));
    let mut lines = vec![format!("Host {name}: Linux {kernel}{up}")];
    match &facts.server {
        Err(why) => lines.push(format!("No server: {why}")),
        Ok(server) => {
            let place =
                server.workdir.as_ref().map_or_else(|| "saved counters".into(), |dir| dir.display().to_string());
            let worker = server.worker.map(|pid| format!(", worker {pid}")).unwrap_or_default();
            let up =
                server.counter("MAIN.uptime").map_or_else(|_| String::new(), |s| format!(", up {}", time(s as f64)));
            lines.push(format!("Server {place}{worker}{up}"));
            lines.extend(
                server.told.as_ref().ok().map(|told| told.version.clone()).filter(|version| !version.is_empty()),
            );
        }
    }
    if let Ok(traffic) = &facts.traffic {
        let (requests, fetches) = (count(traffic.requests), count(traffic.fetches));
        lines.push(format!("Log: {requests} requests, {fetches} fetches in {}", time(traffic.seconds())));
    }
    lines
}

fn remarks(facts: &DoctorFacts) -> Vec<String> {
    let Ok(traffic) = &facts.traffic else { return Vec::new() };
    let mut remarks = traffic.remarks.clone();
    if traffic.left_out > 0 {
        remarks.push(format!(
            "{} requests and fetches of further URLs weren't looked at one by one",
            count(traffic.left_out)
        ));
    }
    if traffic.variants_left_out > 0 {
        remarks.push(format!(
            "too many variants of all URLs: those of {} fetches weren't told apart",
            count(traffic.variants_left_out)
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_a_terminal() {
        assert_eq!(wrapped("a b", "> ", "  "), "> a b\n");
        let long = wrapped(&"word ".repeat(40), "  Why:   ", "         ");
        assert!(long.lines().all(|line| line.len() <= COLUMNS) && long.lines().count() == 3, "{long}");
        assert_eq!(wrapped(&"x".repeat(100), "a ", ""), format!("a {}\n", "x".repeat(100)));
    }

    #[test]
    fn every_rule_can_be_explained() {
        for rule in rules::all() {
            let text = explained(rule);
            assert!(text.contains("Looks:") && text.contains("Why:") && text.contains("Type:"), "{text}");
            assert!(!text.contains("{}"), "{text}");
        }
    }
}
