// SPDX-License-Identifier: BSD-2-Clause
//! `tls.cert.*` and `tls.status`: certificates while the server runs, staged and then committed, as Varnish 9 has it.

use cli::CliRequest;
use tables::json::quote;
use tls::bundle::{BundleEntry, GLOBAL};
use tls::hitch::HitchSettings;
use tls::ocsp::ValiditySpan;

use super::{CertificateStanding, Certs, Row, config};
use crate::manager::Manager;
use crate::reply::CliReply;

#[derive(Debug, Default, PartialEq, Eq)]
struct Load {
    id: Option<String>,
    path: String,
    frontend: Option<String>,
    key: Option<String>,
    said: HitchSettings,
    is_default: bool,
}

/// `[ID] FILE [-f FRONTEND] [-k KEYFILE] [-p PROTOS] [-c CIPHERS] [-s SUITES] [-o] [-d]`
fn parse_load(words: &[String]) -> Result<Load, String> {
    let mut out = Load::default();
    let is_option = |word: &String| word.starts_with('-');
    let mut rest = match words {
        [id, path, rest @ ..] if !is_option(path) => {
            (out.id, out.path) = (Some(id.clone()), path.clone());
            rest
        }
        [path, rest @ ..] => {
            out.path.clone_from(path);
            rest
        }
        [] => return Err("Which file?".to_owned()),
    };
    while let [option, after @ ..] = rest {
        rest = after;
        let mut value = || match rest {
            [value, after @ ..] if !is_option(value) => {
                rest = after;
                Ok(value.clone())
            }
            _ => Err(format!("No value specified for: {option}")),
        };
        match option.as_str() {
            "-f" => out.frontend = Some(value()?),
            "-k" => out.key = Some(value()?),
            "-c" => out.said.ciphers = Some(value()?),
            "-s" => out.said.ciphersuites = Some(value()?),
            "-p" => out.said.protocols = Some(protocols(&value()?)?),
            "-d" => out.is_default = true,
            "-o" => out.said.prefers_own_order = Some(true),
            _ => return Err(format!("Unknown TLS option: {option}")),
        }
    }
    Ok(out)
}

fn protocols(list: &str) -> Result<Vec<usize>, String> {
    let known = |word: &str| tls::settings::protocol(word).ok_or_else(|| format!("Unknown protocol specifier: {word}"));
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(known).collect()
}

impl Manager {
    pub(crate) fn tls_command(
        &mut self,
        request: &CliRequest,
        run: fn(&mut Manager, &[String]) -> CliReply,
    ) -> CliReply {
        if !self.tls.certs.is_on() {
            return CliReply::cant("TLS has not been configured");
        }
        let words: Option<Vec<String>> =
            request.args().iter().map(|word| String::from_utf8(word.clone()).ok()).collect();
        match words {
            Some(words) => run(self, &words),
            None => CliReply::cant("That isn't text"),
        }
    }

    pub(crate) fn tls_cert_load(&mut self, words: &[String]) -> CliReply {
        match parse_load(words).and_then(|load| self.stage_one(load)) {
            Ok(()) => CliReply::ok(""),
            Err(text) => CliReply::cant(text),
        }
    }

    fn stage_one(&mut self, load: Load) -> Result<(), String> {
        let scope = match &load.frontend {
            None => GLOBAL,
            Some(name) => self.tls.certs.scope_named(name).ok_or_else(|| format!("Frontend '{name}' not found\n"))?,
        };
        let id = load.id.unwrap_or_else(|| self.tls.certs.new_id());
        if !self.tls.certs.is_free(&id) {
            return Err(format!("Id: \"{id}\" already exists"));
        }
        if id.starts_with(super::ACME) {
            return Err(format!(
                "Ids that begin with {} are those of certificates that come by themselves",
                super::ACME
            ));
        }
        let jail = self.jail.clone();
        let entry = BundleEntry {
            id,
            scope,
            batch: self.tls.certs.next_batch(),
            is_default: load.is_default,
            path: load.path,
            key_path: load.key.unwrap_or_default(),
            overrides: config::overrides(&load.said, &mut self.tls.certs.lists, &jail)?,
            ..BundleEntry::default()
        };
        self.tls.certs.stage(vec![entry], self.params.tls_err_dup_servername, &jail)
    }

    pub(crate) fn tls_cert_discard(&mut self, words: &[String]) -> CliReply {
        let found = words.first().is_some_and(|id| self.tls.certs.discard(id));
        if found { CliReply::ok("") } else { CliReply::cant("ID not found") }
    }

    pub(crate) fn tls_cert_commit(&mut self, _: &[String]) -> CliReply {
        if !self.tls.certs.has_staged() {
            return CliReply::ok("");
        }
        let done = self.tls.certs.with_staged().and_then(|candidate| self.put_in_place(candidate, true));
        done.map_or_else(CliReply::cant, |()| CliReply::ok(""))
    }

    pub(crate) fn tls_cert_rollback(&mut self, _: &[String]) -> CliReply {
        self.tls.certs.roll_back();
        CliReply::ok("")
    }

    pub(crate) fn tls_cert_reload(&mut self, _: &[String]) -> CliReply {
        if self.tls.certs.has_staged() {
            let text = "There are staged changes, please commit or rollback staged changes first.\n";
            return CliReply::cant(text);
        }
        match self.read_all_again() {
            Ok(()) => CliReply::ok(""),
            Err(text) => {
                self.tls.certs.forget_fresh();
                CliReply::cant(text)
            }
        }
    }

    /// All files again: certificates, lists, keys for tickets.
    fn read_all_again(&mut self) -> Result<(), String> {
        let jail = self.jail.clone();
        let ticket_keys = self.read_ticket_keys()?;
        self.tls.certs.reread_all(&jail)?;
        let candidate = self.tls.certs.with_staged()?;
        self.put_in_place(candidate, true)?;
        ticket_keys.map_or(Ok(()), |keys| self.use_ticket_keys(keys))
    }

    pub(crate) fn tls_cert_list(&mut self, request: &CliRequest) -> CliReply {
        if !self.tls.certs.is_on() {
            return CliReply::cant("TLS has not been configured");
        }
        let only_staged = match (request.arg(0), request.arg(1)) {
            (None, _) => false,
            (Some("-s"), None) => true,
            (Some(other), _) => return CliReply::param(format!("Unknown option {other}")),
        };
        let shown = |row: &&Row| !only_staged || row.standing != CertificateStanding::Active;
        // By frontend, the global ones first.
        let mut rows: Vec<&Row> = self.tls.certs.rows().iter().filter(shown).collect();
        rows.sort_by_key(|row| row.entry.scope);
        if request.wants_json() {
            let now = self.clock.real().0 as i64;
            let objects: String = rows.iter().map(|row| format!(",\n{}", object(&self.tls.certs, row, now))).collect();
            return self.json(request, &objects);
        }
        let line = |row: &&Row| {
            let scope = self.tls.certs.scope_name(row.entry.scope);
            format!("{scope}\t{}\t{}\t{}\n", row.entry.id, row.standing.word(), row.entry.facts.subject)
        };
        CliReply::ok(rows.iter().map(line).collect::<String>())
    }
}

/// A certificate for programs: Varnish's four members, and what else is known.
fn object(certs: &Certs, row: &Row, now: i64) -> String {
    let BundleEntry { id, path, key_path, ocsp_path, facts, is_default, .. } = &row.entry;
    let names: Vec<String> = facts.names.iter().map(|name| quote(name)).collect();
    let mut members = vec![
        ("frontend", quote(certs.scope_name(row.entry.scope))),
        ("id", quote(id)),
        ("status", quote(row.standing.word())),
        ("subject", quote(&facts.subject)),
        ("default", is_default.to_string()),
        ("issuer", quote(&facts.issuer)),
        ("serial", quote(&facts.serial)),
        ("names", format!("[{}]", names.join(", "))),
        ("not_before", facts.not_before.to_string()),
        ("not_after", facts.not_after.to_string()),
    ];
    if row.entry.staple != ValiditySpan::default() {
        members.push(("ocsp_until", row.entry.staple.until.to_string()));
    }
    let trouble = certs.trouble(row, now);
    let texts = [
        ("file", Some(path)),
        ("key_file", Some(key_path)),
        ("ocsp_file", Some(ocsp_path)),
        ("trouble", trouble.as_ref()),
    ];
    members
        .extend(texts.into_iter().filter_map(|(key, text)| Some((key, quote(text.filter(|text| !text.is_empty())?)))));
    let members: Vec<String> = members.iter().map(|(key, value)| format!("{}: {value}", quote(key))).collect();
    format!("  {{{}}}", members.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Load, String> {
        parse_load(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_id_may_be_left_out() {
        let named = load("id file.pem -f tls0 -k key.pem -p TLSv1.2,tlsv1.3 -o -d").unwrap();
        assert_eq!(
            (named.id.as_deref(), named.path.as_str(), named.key.as_deref()),
            (Some("id"), "file.pem", Some("key.pem"))
        );
        assert_eq!((named.frontend.as_deref(), named.said.protocols.as_deref()), (Some("tls0"), Some(&[3, 4][..])));
        assert!(named.is_default && named.said.prefers_own_order == Some(true));
        let unnamed = load("file.pem -c HIGH").unwrap();
        assert_eq!(
            (unnamed.id, unnamed.path.as_str(), unnamed.said.ciphers.as_deref()),
            (None, "file.pem", Some("HIGH"))
        );
        assert_eq!(load("file.pem").unwrap().path, "file.pem");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("file.pem -f", "No value specified for: -f"),
            ("file.pem -k -d", "No value specified for: -k"),
            ("id file.pem -x", "Unknown TLS option: -x"),
            ("id file.pem more", "Unknown TLS option: more"),
            ("file.pem -p TLSv9", "Unknown protocol specifier: TLSv9"),
        ] {
            assert_eq!(load(text), Err(expected.to_owned()), "{text}");
        }
    }
}
