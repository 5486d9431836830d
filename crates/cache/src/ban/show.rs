// SPDX-License-Identifier: BSD-2-Clause
//! `ban.list`, as text and as JSON rows.

use super::{Ban, Bans};
use crate::cache::Cache;

impl Cache {
    /// The reply to `ban.list`; `debug` (`debug=+lurker`) adds the kinds of tests of each ban.
    pub fn ban_list(&self, debug: bool) -> String {
        let mut out = String::from("Present bans:\n");
        self.shared().bans.each(&mut |ban, refs| {
            let done = if ban.is_completed() { 'C' } else { '-' };
            out.push_str(&format!("{:10.6} {refs:5} {done}", ban.real.0));
            if debug {
                let (req, obj) = looks_at(ban);
                out.push_str(&format!(
                    "{}{} {:#x} ",
                    if req { 'R' } else { '-' },
                    if obj { 'O' } else { '-' },
                    ban.seq
                ));
            }
            out.push_str(&format!("  {}\n", ban.spec));
        });
        self.shared().bans.kick();
        out
    }

    /// The objects of `ban.list -j`, to be put behind the CLI's own first members.
    pub fn ban_list_json(&self, debug: bool) -> String {
        let mut rows = Vec::new();
        self.shared().bans.each(&mut |ban, refs| {
            let mut row = format!(
                "{{\n  \"time\": {:.6},\n  \"refs\": {refs},\n  \"completed\": {},\n  \"spec\": \"{}\"",
                ban.real.0,
                ban.is_completed(),
                quoted(&ban.spec.to_string()),
            );
            if debug {
                let (req, obj) = looks_at(ban);
                row.push_str(&format!(",\n  \"req_tests\": {req},\n  \"obj_tests\": {obj}"));
            }
            row.push_str("\n}");
            rows.push(row);
        });
        self.shared().bans.kick();
        rows.join(",\n")
    }
}

impl Bans {
    /// Every ban, newest first, with the number of objects that stand at it.
    fn each(&self, visit: &mut dyn FnMut(&Ban, u64)) {
        let rows: Vec<_> = {
            let list = self.inner.lock();
            list.entries.iter().rev().map(|entry| (entry.ban.clone(), entry.refs)).collect()
        };
        rows.iter().for_each(|(ban, refs)| visit(ban, *refs));
    }
}

fn looks_at(ban: &Ban) -> (bool, bool) {
    (ban.spec.has_req(), ban.spec.has_obj())
}

/// The inside of a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// A duration as `ban.list` writes it: milliseconds below a second or beside seconds, else the largest whole unit.
pub(super) fn duration(seconds: f64) -> String {
    const UNITS: [(u64, char); 5] = [(365 * 86_400, 'y'), (7 * 86_400, 'w'), (86_400, 'd'), (3600, 'h'), (60, 'm')];
    let whole = seconds.floor() as u64;
    let millis = (seconds * 1e3).floor() as u64 % 1000;
    match (whole, millis) {
        (0, 0) => "0s".to_owned(),
        (0, millis) => format!("{millis}ms"),
        (whole, 0) => match UNITS.iter().find(|unit| whole.is_multiple_of(unit.0)) {
            Some((size, unit)) => format!("{}{unit}", whole / size),
            None => format!("{whole}s"),
        },
        (whole, millis) => format!("{whole}.{millis:03}s"),
    }
}
