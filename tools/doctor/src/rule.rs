// SPDX-License-Identifier: BSD-2-Clause
//! What a rule is: declared once, with its texts and the function that looks.

use crate::facts::DoctorFacts;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The setting could be better.
    Notice,
    /// Costs speed or hits, or will do so under load.
    Warning,
    Fault,
}

impl Severity {
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Fault => "fault",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    /// The machine, by /proc, /sys and /etc.
    Host,
    /// The server, by its counters and its CLI.
    Server,
    /// The requests, by the log.
    Log,
}

impl Area {
    pub const ALL: [Area; 3] = [Area::Host, Area::Server, Area::Log];

    /// The area's name, also in JSON and for `--only`.
    pub const fn word(self) -> &'static str {
        match self {
            Area::Host => "host",
            Area::Server => "server",
            Area::Log => "log",
        }
    }
}

pub struct Rule {
    /// The rule's name for `--explain`, `--only`, `--skip` and JSON. Never changes.
    pub id: &'static str,
    pub area: Area,
    pub severity: Severity,
    /// The fault in one line; `{}` is the finding's subject.
    pub what: &'static str,
    pub why: &'static str,
    /// Commands to type or things to do, one a line; `{}` is the finding's subject.
    pub remedy: &'static [&'static str],
    /// The facts that the rule looks at, and the threshold of a finding.
    pub evidence: &'static str,
    pub look: fn(&DoctorFacts) -> RuleResult,
}

/// A rule's findings, none if all is well. The error says why it couldn't look.
pub type RuleResult = Result<Vec<Finding>, String>;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Finding {
    /// The interface or backend with the fault. Empty if there is only one.
    pub subject: String,
    /// The facts seen, one a line.
    pub evidence: Vec<String>,
}

impl Rule {
    /// Commands to type for a finding, one a line. Never asks for a value that is set already: a limit is doubled, a
    /// switch is left out.
    pub fn remedy_for(&self, finding: &Finding, facts: &DoctorFacts) -> Vec<String> {
        let fitting = |line: &&str| {
            let line = about(line, &finding.subject);
            let sysctl = line.strip_prefix("sysctl -w ").and_then(|setting| setting.split_once('='));
            let param = line.strip_prefix("varnishadm param.set ").and_then(|setting| setting.split_once(' '));
            let now = match (sysctl, param) {
                (Some((name, _)), _) => facts.host.sysctl(name).ok(),
                (_, Some((name, _))) => facts.server().and_then(|server| server.number(name)).ok().map(|n| n as u64),
                (None, None) => None,
            };
            let wanted = sysctl.or(param).and_then(|(_, value)| value.parse::<u64>().ok());
            match now.zip(wanted) {
                Some((now, wanted)) if wanted >= LEAST_LIMIT && now >= wanted => {
                    Some(line.replacen(&wanted.to_string(), &now.saturating_mul(2).to_string(), 1))
                }
                Some((now, wanted)) if now == wanted => None,
                _ => Some(line),
            }
        };
        self.remedy.iter().filter_map(fitting).collect()
    }
}

/// A smaller number in a setting is a switch, not a limit.
const LEAST_LIMIT: u64 = 1000;

pub const SOUND: RuleResult = Ok(Vec::new());

/// A finding about the only one that there is.
pub fn found(evidence: impl Into<String>) -> Finding {
    Finding { subject: String::new(), evidence: vec![evidence.into()] }
}

/// A finding about one of several.
pub fn found_at(subject: impl Into<String>, evidence: impl Into<String>) -> Finding {
    Finding { subject: subject.into(), evidence: vec![evidence.into()] }
}

/// The finding if it is one.
pub fn when(is_wrong: bool, evidence: impl FnOnce() -> String) -> RuleResult {
    Ok(if is_wrong { vec![found(evidence())] } else { Vec::new() })
}

impl Finding {
    pub fn and(mut self, evidence: impl Into<String>) -> Finding {
        self.evidence.push(evidence.into());
        self
    }
}

/// `text` with its `{}` filled in.
pub fn about(text: &str, subject: &str) -> String {
    text.replace("{}", if subject.is_empty() { "NAME" } else { subject })
}

/// A number with separators: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `5.2 %`; 0 of nothing.
pub fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
    if share >= 10.0 { format!("{share:.0} %") } else { format!("{share:.2} %") }
}

/// `3 d 4 h`, `5 m 6 s`, `0.250 s`: the two greatest units.
pub fn time(seconds: f64) -> String {
    let whole = seconds as u64;
    let parts = [(whole / 86_400, "d"), (whole / 3600 % 24, "h"), (whole / 60 % 60, "m"), (whole % 60, "s")];
    match parts.iter().position(|(n, _)| *n > 0) {
        None | Some(3) => format!("{seconds:.3} s"),
        Some(at) => format!("{} {} {} {}", parts[at].0, parts[at].1, parts[at + 1].0, parts[at + 1].1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_as_people_read_them() {
        assert_eq!((count(7), count(1234), count(1_234_567)), ("7".into(), "1,234".into(), "1,234,567".into()));
        assert_eq!((percent(1, 8), percent(1, 1000), percent(1, 0)), ("12 %".into(), "0.10 %".into(), "0.00 %".into()));
        assert_eq!((time(0.25), time(65.0), time(90_061.0)), ("0.250 s".into(), "1 m 5 s".into(), "1 d 1 h".into()));
        assert_eq!((about("a {}", "b"), about("a {}", "")), ("a b".into(), "a NAME".into()));
    }
}
