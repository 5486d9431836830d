// SPDX-License-Identifier: BSD-2-Clause
//! Rules about certificates. A genuine varnishd has none: nothing is found there.

use super::server::counted;
use crate::facts::DoctorFacts;
use crate::rule::{Area, Rule, SOUND, Severity, count, time, when};
use crate::server::DoctorServer;

pub const RULES: &[Rule] = &[
    Rule {
        id: "certificate-expired",
        area: Area::Server,
        severity: Severity::Fault,
        what: "A certificate has expired",
        why: "Browsers show a warning in place of the site, and programs fail. Whoever renews it has stopped, or writes it to another place \
              than the server reads.",
        remedy: &["lacquer tls status    # which", "varnishadm tls.cert.reload    # after its files were renewed"],
        evidence: "MGT.certs_expired: 1 or more",
        look: |facts| {
            let Some(server) = with_certificates(facts)? else { return SOUND };
            let (expired, all) = (server.counter("MGT.certs_expired")?, server.counter("MGT.certs_loaded")?);
            when(expired > 0, || format!("{} of {} certificates", count(expired), count(all)))
        },
    },
    Rule {
        id: "certificate-ending",
        area: Area::Server,
        severity: Severity::Warning,
        what: "A certificate that nobody has renewed expires soon",
        why: "Less than 14 days are left, or a sixth of its time: what renews by itself would have done so.",
        remedy: &[
            "lacquer tls status    # which, and what went wrong with its files or by ACME",
            "certbot renew --dry-run",
        ],
        evidence: "MGT.certs_ending: 1 or more",
        look: |facts| {
            let Some(server) = with_certificates(facts)? else { return SOUND };
            let ending = server.counter("MGT.certs_ending")?;
            let left = server.counter("MGT.certs_next_end")?;
            let each = if ending == 1 { "" } else { ", the first" };
            let noun = if ending == 1 { "certificate" } else { "certificates" };
            when(ending > 0, || format!("{} {noun}{each} in {}", count(ending), time(left as f64)))
        },
    },
    Rule {
        id: "certificate-refused",
        area: Area::Server,
        severity: Severity::Warning,
        what: "Files of a certificate have changed and can't be used",
        why: "The server goes on with the certificate of before, which is fine until it expires.",
        remedy: &["lacquer tls status    # which, and why", "journalctl -u varnish | grep 'stays as it is'"],
        evidence: "MGT.certs_refused: 1 or more",
        look: |facts| {
            with_certificates(facts)?
                .map_or(SOUND, |server| counted(server, "MGT.certs_refused", "files that were of no use", 1))
        },
    },
    Rule {
        id: "acme-failed",
        area: Area::Server,
        severity: Severity::Warning,
        what: "Certificates couldn't be got by ACME",
        why: "It is tried again, later and later, while the present certificate comes to its end. Authorities ask for a file at port 80, or shake hands \
              at port 443: a firewall or a DNS record that leads elsewhere is in the way as a rule.",
        remedy: &["varnishadm tls.acme.list    # what went wrong last", "lacquer tls status"],
        evidence: "MGT.acme_failed: 1 or more",
        look: |facts| {
            with_certificates(facts)?
                .map_or(SOUND, |server| counted(server, "MGT.acme_failed", "attempts that failed", 1))
        },
    },
];

fn with_certificates(facts: &DoctorFacts) -> Result<Option<&DoctorServer>, String> {
    let server = facts.server()?;
    Ok(server.counter("MGT.certs_loaded").is_ok().then_some(server))
}
