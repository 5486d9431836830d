// SPDX-License-Identifier: BSD-2-Clause
//! `tls.acme.list` and `tls.acme.renew`.

use std::fmt::Write as _;
use std::time::SystemTime;

use acme::AcmeName;
use acme::talk::{AcmeCommand, line, seconds};
use base::clock::Real;
use cli::CliRequest;
use message::date;
use tables::json::quote;

use super::Held;
use crate::manager::Manager;
use crate::reply::{CliReply, CliStatus};

const HEAD: &str = "# Name\tEnds\tRenewal\tFailures\tNext attempt\tLast error\n";
const NONE: &str = "-";

impl Manager {
    pub(crate) fn acme_list(&self, request: &CliRequest) -> CliReply {
        let names = self.tls.acme.iter().flat_map(|acme| &acme.held);
        if request.wants_json() {
            return self.json(request, &names.map(|(name, held)| object(name, held)).collect::<String>());
        }
        CliReply::ok(names.fold(HEAD.to_owned(), |text, (name, held)| text + &row(name, held)))
    }

    pub(crate) fn acme_renew(&mut self, name: &str) -> CliReply {
        let Some(acme) = &self.tls.acme else { return CliReply::cant("No certificate is got by ACME (option --acme)") };
        let name = match AcmeName::parse(name) {
            Ok(name) if acme.held.contains_key(&name) => name,
            _ => return CliReply::new(CliStatus::Param, format!("No certificate for {name:?} is got by ACME")),
        };
        let Some(process) = &acme.process else {
            return CliReply::cant("The process that talks to the CA is about to begin");
        };
        match sys::fd::write_all(&process.socket, &line(&AcmeCommand::Renew(name))) {
            Ok(()) => CliReply::ok(""),
            Err(_) => CliReply::cant("The process that talks to the CA is gone"),
        }
    }
}

fn row(name: &AcmeName, held: &Held) -> String {
    let date = |at: Option<f64>| at.map_or(NONE.to_owned(), |at| date::text(Real(at)));
    let standing = &held.standing;
    let (until, renew, next) = (date(held.until.map(seconds)), date(standing.renew_at), date(next(held)));
    let error = standing.error.as_deref().unwrap_or(NONE);
    format!("{name}\t{until}\t{renew}\t{}\t{next}\t{error}\n", standing.failures)
}

/// Time of the next attempt, if the last one is known to have failed.
fn next(held: &Held) -> Option<f64> {
    held.standing.next_at.filter(|at| *at > seconds(SystemTime::now()))
}

fn object(name: &AcmeName, held: &Held) -> String {
    let number = |at: Option<f64>| at.map_or("null".to_owned(), |at| format!("{at:.0}"));
    let standing = &held.standing;
    let mut text = format!(",\n  {{\n    \"name\": {},\n", quote(name.as_str()));
    for (key, at) in [
        ("ends", held.until.map(seconds)),
        ("renewal", standing.renew_at),
        ("tried", standing.tried_at),
        ("next", next(held)),
    ] {
        // Writing to a String can't fail.
        let _ = writeln!(text, "    {}: {},", quote(key), number(at));
    }
    let error = standing.error.as_deref().map_or("null".to_owned(), quote);
    let _ = write!(text, "    \"failures\": {},\n    \"error\": {error}\n  }}", standing.failures);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use acme::talk::NameStanding;

    #[test]
    fn a_row_has_what_is_known() {
        let name = AcmeName::parse("a.example").unwrap();
        assert_eq!(row(&name, &Held::default()), "a.example\t-\t-\t0\t-\t-\n");
        let standing =
            NameStanding { failures: 2, next_at: Some(4e9), error: Some("no \"x\"".into()), ..NameStanding::default() };
        let held = Held { until: Some(acme::talk::time(3e9)), standing };
        let shown = "a.example\tSat, 24 Jan 2065 05:20:00 GMT\t-\t2\tTue, 02 Oct 2096 07:06:40 GMT\tno \"x\"\n";
        assert_eq!(row(&name, &held), shown);
        let json = object(&name, &held);
        assert!(json.contains("\"ends\": 3000000000,") && json.contains("\"error\": \"no \\\"x\\\"\""), "{json}");
    }
}
