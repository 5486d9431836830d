// SPDX-License-Identifier: BSD-2-Clause
//! Clients or networks as an ACL of VCL: what to put before `sub vcl_recv`.

use std::net::IpAddr;

use networks::address;

use crate::report::{TalkersReport, printable, share};

/// The ACL. Who has no address (a log with names) can't be in it and is told in a comment.
pub fn text(report: &TalkersReport<'_>, name: &str) -> String {
    let mut text = format!("acl {name} {{\n");
    let mut nameless = 0;
    for listing in &report.listings {
        for row in &listing.ranking.rows {
            let Some(entry) = entry(&row.key) else {
                nameless += 1;
                continue;
            };
            let share = share(row, &listing.total, report.measure());
            text += &format!("    {entry};  # {share:.2} % of {}\n", report.measure().word());
        }
    }
    if nameless > 0 {
        text += &format!("    # {nameless} without an address\n");
    }
    text + "}\n"
}

/// An entry: `"192.0.2.1"`, `"192.0.2.0"/24`.
fn entry(key: &[u8]) -> Option<String> {
    let key = printable(key);
    match key.rsplit_once('/') {
        Some((network, bits)) => {
            let (network, bits) = (network.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
            Some(format!("\"{network}\"/{bits}"))
        }
        None => address(key.as_bytes()).map(|address| format!("\"{address}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_an_acl() {
        for (key, want) in [
            ("192.0.2.1", Some("\"192.0.2.1\"")),
            ("192.0.2.1:80", Some("\"192.0.2.1\"")),
            ("192.0.2.0/24", Some("\"192.0.2.0\"/24")),
            ("2001:db8::/64", Some("\"2001:db8::\"/64")),
            ("www.example.com", None),
            ("-", None),
            ("\"; }", None),
        ] {
            assert_eq!(entry(key.as_bytes()).as_deref(), want, "{key}");
        }
    }
}
