// SPDX-License-Identifier: BSD-2-Clause
//! The account of a configuration: each directive that was read, and its one fate. Translators claim what they have translated. A directive that
//! nobody claims is refused, so nothing is dropped in silence.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

use crate::source::SourcePlace;

/// The fate of a directive.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DirectiveFate {
    /// The directive changes nothing here, for this reason.
    WithoutMeaning(String),
    Translated,
    Refused(String),
}

#[derive(Debug)]
struct AccountLine {
    place: SourcePlace,
    directive: String,
    fate: Option<DirectiveFate>,
}

/// All directives in the order in which they were read. A directive that holds in many places has one line.
#[derive(Debug, Default)]
pub struct Account {
    lines: Vec<AccountLine>,
    by_place: BTreeMap<SourcePlace, usize>,
}

/// Directives by name: how many have each fate, and the reasons with the places for which they were given.
#[derive(Default)]
struct ReportRow<'a> {
    translated: usize,
    without_meaning: usize,
    refused: usize,
    reasons: BTreeMap<&'a DirectiveFate, Vec<&'a SourcePlace>>,
}

/// Places that a line of the report names; the others are counted.
const MAX_PLACES: usize = 3;

impl Account {
    /// Enters a directive, whose fate is open.
    pub fn read(&mut self, place: &SourcePlace, directive: &str) -> usize {
        *self.by_place.entry(place.clone()).or_insert_with(|| {
            self.lines.push(AccountLine { place: place.clone(), directive: directive.to_owned(), fate: None });
            self.lines.len() - 1
        })
    }

    /// Gives a directive its fate. A refusal stays, whatever else is translated of it; a translation outweighs the places where it means nothing.
    pub fn decide(&mut self, place: &SourcePlace, directive: &str, fate: DirectiveFate) {
        let at = self.read(place, directive);
        let known = &mut self.lines[at].fate;
        let rank = |fate: &DirectiveFate| match fate {
            DirectiveFate::WithoutMeaning(_) => 0,
            DirectiveFate::Translated => 1,
            DirectiveFate::Refused(_) => 2,
        };
        if known.as_ref().is_none_or(|known| rank(known) < rank(&fate)) {
            *known = Some(fate);
        }
    }

    pub fn is_refused(&self, place: &SourcePlace) -> bool {
        let at = self.by_place.get(place);
        at.is_some_and(|at| matches!(self.lines[*at].fate, Some(DirectiveFate::Refused(_))))
    }

    /// The directives that nobody has claimed.
    pub fn unclaimed(&self) -> Vec<(SourcePlace, String)> {
        let open = self.lines.iter().filter(|line| line.fate.is_none());
        open.map(|line| (line.place.clone(), line.directive.clone())).collect()
    }

    /// The number of directives that were translated, that have no meaning here, and that were refused.
    fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for line in &self.lines {
            counts[match line.fate {
                Some(DirectiveFate::Translated) => 0,
                Some(DirectiveFate::WithoutMeaning(_)) => 1,
                Some(DirectiveFate::Refused(_)) | None => 2,
            }] += 1;
        }
        counts
    }

    /// The share that wasn't refused, in per cent with one decimal; rounded down, so that 100 means all.
    #[allow(clippy::cast_precision_loss, reason = "counts of directives are far below 2^52")]
    fn coverage(&self) -> f64 {
        let [translated, without_meaning, refused] = self.counts();
        let all = translated + without_meaning + refused;
        (((translated + without_meaning) * 1000) / all.max(1)) as f64 / 10.0
    }

    fn rows(&self) -> BTreeMap<&str, ReportRow<'_>> {
        let mut rows: BTreeMap<&str, ReportRow<'_>> = BTreeMap::new();
        for line in &self.lines {
            let row = rows.entry(&line.directive).or_default();
            let Some(fate) = &line.fate else { continue };
            match fate {
                DirectiveFate::Translated => row.translated += 1,
                DirectiveFate::WithoutMeaning(_) => row.without_meaning += 1,
                DirectiveFate::Refused(_) => row.refused += 1,
            }
            if *fate != DirectiveFate::Translated {
                row.reasons.entry(fate).or_default().push(&line.place);
            }
        }
        rows
    }

    /// One line for the end of a run.
    pub fn summary(&self) -> String {
        let [translated, without_meaning, refused] = self.counts();
        format!(
            "{} directives: {translated} translated, {without_meaning} without meaning here, {refused} refused; coverage {:.1} %",
            self.lines.len(),
            self.coverage()
        )
    }

    /// The table by directive, then the reasons, then the coverage.
    pub fn text(&self) -> String {
        let rows = self.rows();
        let width = rows.keys().map(|name| name.chars().count()).max().unwrap_or(0).max("directive".len());
        let mut out = format!("{:width$}  translated  without meaning  refused\n", "directive");
        for (name, row) in &rows {
            let ReportRow { translated, without_meaning, refused, .. } = row;
            let _ = writeln!(out, "{name:width$}  {translated:10}  {without_meaning:15}  {refused:7}");
        }
        for (title, is_refused) in [("Refused", true), ("Without meaning here", false)] {
            let mut lines = String::new();
            for (name, row) in &rows {
                for (fate, places) in &row.reasons {
                    let text = match fate {
                        DirectiveFate::Refused(text) if is_refused => text,
                        DirectiveFate::WithoutMeaning(text) if !is_refused => text,
                        _ => continue,
                    };
                    let _ = writeln!(lines, "  {name} ({}): {text}", named(places));
                }
            }
            if !lines.is_empty() {
                let _ = write!(out, "\n{title}:\n{lines}");
            }
        }
        format!("{out}\n{}\n", self.summary())
    }

    /// Directives by name with the three counts, for tests.
    #[cfg(test)]
    pub fn short(&self) -> String {
        let row = |(name, row): (&str, ReportRow<'_>)| {
            format!("{name} {}/{}/{}", row.translated, row.without_meaning, row.refused)
        };
        self.rows().into_iter().map(row).collect::<Vec<_>>().join(", ")
    }

    pub fn json(&self) -> Value {
        let [translated, without_meaning, refused] = self.counts();
        let row = |(name, row): (&&str, &ReportRow<'_>)| {
            let reason = |(fate, places): (&&DirectiveFate, &Vec<&SourcePlace>)| {
                let (is_refused, text) = match fate {
                    DirectiveFate::Refused(text) => (true, text.as_str()),
                    DirectiveFate::WithoutMeaning(text) => (false, text.as_str()),
                    DirectiveFate::Translated => (false, ""),
                };
                let places: Vec<String> = places.iter().map(ToString::to_string).collect();
                json!({ "refused": is_refused, "text": text, "places": places })
            };
            json!({
                "directive": name, "translated": row.translated, "without_meaning": row.without_meaning,
                "refused": row.refused, "reasons": row.reasons.iter().map(reason).collect::<Vec<_>>(),
            })
        };
        json!({
            "directives": self.rows().iter().map(row).collect::<Vec<_>>(),
            "translated": translated, "without_meaning": without_meaning, "refused": refused,
            "coverage": self.coverage(),
        })
    }
}

/// The first places of a list, and how many more there are.
fn named(places: &[&SourcePlace]) -> String {
    let mut out: Vec<String> = places.iter().take(MAX_PLACES).map(ToString::to_string).collect();
    if places.len() > MAX_PLACES {
        out.push(format!("{} more", places.len() - MAX_PLACES));
    }
    out.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: usize) -> SourcePlace {
        SourcePlace { file: "f".into(), line, column: 1 }
    }

    fn account(fates: &[(usize, &str, DirectiveFate)]) -> Account {
        let mut account = Account::default();
        fates.iter().for_each(|(line, name, fate)| account.decide(&place(*line), name, fate.clone()));
        account
    }

    #[test]
    fn a_directive_that_holds_in_many_places_counts_once() {
        use DirectiveFate::{Refused, Translated, WithoutMeaning};
        let no = || WithoutMeaning("no".to_owned());
        let counts = |fates: &[DirectiveFate]| {
            account(&fates.iter().map(|fate| (1, "a", fate.clone())).collect::<Vec<_>>()).counts()
        };
        assert_eq!(counts(&[no(), Translated, no()]), [1, 0, 0]);
        assert_eq!(counts(&[Translated, Refused("r".to_owned()), Translated]), [0, 0, 1]);
        assert_eq!(counts(&[no(), no()]), [0, 1, 0]);
    }

    #[test]
    fn the_report() {
        use DirectiveFate::{Refused, Translated, WithoutMeaning};
        let mut fates = vec![(1, "listen", Translated), (2, "user", WithoutMeaning("it starts nothing".to_owned()))];
        fates.extend((3..8).map(|line| (line, "echo", Refused("unknown".to_owned()))));
        let account = account(&fates);
        assert_eq!(
            account.text(),
            "directive  translated  without meaning  refused\n\
             echo                0                0        5\n\
             listen              1                0        0\n\
             user                0                1        0\n\
             \nRefused:\n  echo (f:3, f:4, f:5, 2 more): unknown\n\
             \nWithout meaning here:\n  user (f:2): it starts nothing\n\
             \n7 directives: 1 translated, 1 without meaning here, 5 refused; coverage 28.5 %\n"
        );
        assert_eq!(account.json()["coverage"], 28.5);
        assert_eq!(account.json()["directives"][0]["reasons"][0]["places"][4], "f:7");
    }
}
