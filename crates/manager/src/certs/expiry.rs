// SPDX-License-Identifier: BSD-2-Clause
//! Certificates that are about to end, or have: nobody need ask for it. Gauges for who watches numbers, and a line in the log when it
//! begins and once a day.

use std::time::Duration;

use tls::bundle::BundleEntry;

use super::{CertificateStanding, Certs, Row};
use crate::manager::Manager;
use crate::report::{ReportSeverity, print};

/// Seconds between two surveys.
const STEP: i64 = 10;
const DAY: i64 = 86_400;
/// A certificate ends soon when so much is left, or this part of its life, whichever is less: one that is renewed by itself gets
/// another long before.
const SOON: i64 = 14 * DAY;
const SOON_PART: i64 = 6;
const MOST_LINES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    Expired,
    Early,
    Ends,
    Unstapled,
}

pub type ReportedConcern = Option<(Concern, i64)>;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ExpirySurvey {
    pub certificates: u64,
    /// Expired certificates among them.
    pub expired: u64,
    /// Certificates among them that end soon.
    pub ending: u64,
    pub next_end: Duration,
    pub lines: Vec<(ReportSeverity, String)>,
}

fn ends_soon(entry: &BundleEntry, now: i64) -> bool {
    let (begin, end) = (entry.facts.not_before, entry.facts.not_after);
    let soon = SOON.min(end.saturating_sub(begin) / SOON_PART);
    end.saturating_sub(now) < soon
}

fn concern(row: &Row, now: i64) -> Option<Concern> {
    let facts = &row.entry.facts;
    if now >= facts.not_after {
        Some(Concern::Expired)
    } else if now < facts.not_before {
        Some(Concern::Early)
    } else if ends_soon(&row.entry, now) {
        Some(Concern::Ends)
    } else {
        row.staple_trouble(now).map(|_| Concern::Unstapled)
    }
}

fn line(row: &Row, concern: Concern, now: i64) -> (ReportSeverity, String) {
    let BundleEntry { id, facts, path, .. } = &row.entry;
    let (subject, from) = (&facts.subject, if path.is_empty() { String::new() } else { format!(", of {path}") });
    let span = |seconds: i64| match seconds / DAY {
        0 => format!("{} hours", seconds / 3600),
        days => format!("{days} days"),
    };
    let what = match concern {
        Concern::Expired => format!("expired {} ago", span(now - facts.not_after)),
        Concern::Early => format!("isn't valid for another {}", span(facts.not_before - now)),
        Concern::Ends => format!("expires in {}", span(facts.not_after - now)),
        Concern::Unstapled => format!("has no OCSP response: {}", row.staple_trouble(now).unwrap_or_default()),
    };
    let severity = if matches!(concern, Concern::Ends) { ReportSeverity::Info } else { ReportSeverity::Error };
    (severity, format!("Certificate {id} ({subject}{from}) {what}"))
}

impl Certs {
    /// Looks at the times of all certificates in use. What is wrong is said when it begins, and again after a day.
    pub fn survey(&mut self, now: i64) -> ExpirySurvey {
        let mut out = ExpirySurvey::default();
        let (mut first, mut unsaid) = (i64::MAX, 0);
        for row in self.rows_mut().iter_mut().filter(|row| row.standing != CertificateStanding::Staged) {
            out.certificates += 1;
            first = first.min(row.entry.facts.not_after);
            let concern = concern(row, now);
            out.expired += u64::from(concern == Some(Concern::Expired));
            out.ending += u64::from(concern == Some(Concern::Ends));
            let Some(concern) = concern else {
                row.told = None;
                continue;
            };
            if row.told.is_some_and(|(told, at)| told == concern && (at..at + DAY).contains(&now)) {
                continue;
            }
            row.told = Some((concern, now));
            if out.lines.len() < MOST_LINES {
                out.lines.push(line(row, concern, now));
            } else {
                unsaid += 1;
            }
        }
        if unsaid > 0 {
            out.lines.push((ReportSeverity::Error, format!("{unsaid} more certificates expire: lacquer tls status")));
        }
        out.next_end = Duration::from_secs(u64::try_from(first.saturating_sub(now)).unwrap_or(0));
        if out.certificates == 0 {
            out.next_end = Duration::ZERO;
        }
        out
    }
}

impl Manager {
    /// Tells of certificates that end, every now and then, and at once when others came into use.
    pub(crate) fn survey_certificates(&mut self) {
        let now = self.clock.real().0 as i64;
        if self.tls.certs.surveyed.is_some_and(|at| (at..at + STEP).contains(&now)) {
            return;
        }
        self.tls.certs.surveyed = Some(now);
        let survey = self.tls.certs.survey(now);
        self.count(|m| {
            m.counters.certs_loaded.set(survey.certificates);
            m.counters.certs_expired.set(survey.expired);
            m.counters.certs_ending.set(survey.ending);
            m.counters.certs_next_end.set(survey.next_end.as_secs());
        });
        survey.lines.iter().for_each(|(severity, text)| print(*severity, text));
    }
}

#[cfg(test)]
mod tests {
    use tls::facts::CertificateFacts;
    use tls::ocsp::ValiditySpan;

    use std::sync::Arc;

    use super::*;

    /// A certificate that is valid for `life` days and ends in `left` days.
    fn row(id: &str, life: i64, left: i64) -> Row {
        let facts =
            CertificateFacts { not_before: (left - life) * DAY, not_after: left * DAY, ..CertificateFacts::default() };
        Row {
            standing: CertificateStanding::Active,
            ..Row::of(BundleEntry { id: id.into(), facts, ..BundleEntry::default() })
        }
    }

    fn said(survey: &ExpirySurvey) -> String {
        survey
            .lines
            .iter()
            .map(|(_, text)| format!("{text}; "))
            .collect::<String>()
            .replace("Certificate ", "")
            .replace(" ()", "")
    }

    #[test]
    fn who_ends_is_named_at_once_and_daily() {
        let mut certs = Certs::default();
        assert_eq!(certs.survey(0), ExpirySurvey::default());
        certs.rows = Arc::new(vec![
            row("good", 90, 30),
            row("ends", 90, 13),
            row("short", 6, 2),
            row("early", 90, 95),
            row("old", 90, -2),
        ]);
        certs.rows_mut().push(Row { standing: CertificateStanding::Staged, ..row("staged", 90, 1) });
        let first = certs.survey(0);
        assert_eq!(
            said(&first),
            "ends expires in 13 days; early isn't valid for another 5 days; old expired 2 days ago; "
        );
        assert_eq!((first.certificates, first.expired, first.ending, first.next_end), (5, 1, 1, Duration::ZERO));
        assert_eq!(said(&certs.survey(3600)), "");
        assert_eq!(certs.survey(DAY).lines.len(), 3);
        certs.rows_mut().pop();
        certs.rows_mut().pop();
        let next = certs.survey(DAY + 60);
        assert_eq!((said(&next).as_str(), next.next_end.as_secs()), ("short expires in 23 hours; ", DAY as u64 - 60));
        assert_eq!(
            said(&certs.survey(DAY * 2)),
            "ends expires in 11 days; short expired 0 hours ago; early isn't valid for another 3 days; "
        );
    }

    #[test]
    fn an_answer_that_is_over_is_named() {
        let mut certs = Certs::default();
        let mut row = row("a", 90, 30);
        (row.entry.staple, row.entry.ocsp_path) = (ValiditySpan { from: 0, until: DAY }, "/o.der".into());
        certs.rows = Arc::new(vec![row]);
        assert_eq!(said(&certs.survey(DAY - 1)), "");
        assert_eq!(
            said(&certs.survey(DAY)),
            "a has no OCSP response: /o.der: the OCSP response has expired and is no longer sent; "
        );
    }

    #[test]
    fn many_are_told_of_in_few_lines() {
        let mut certs =
            Certs { rows: Arc::new((0..1000).map(|n| row(&n.to_string(), 90, -1)).collect()), ..Certs::default() };
        let survey = certs.survey(0);
        assert_eq!((survey.lines.len(), survey.expired), (MOST_LINES + 1, 1000));
        assert!(said(&survey).ends_with("980 more certificates expire: lacquer tls status; "));
        assert_eq!(certs.survey(60).lines, []);
    }
}
