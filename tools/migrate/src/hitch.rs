// SPDX-License-Identifier: BSD-2-Clause
//! hitch's configuration: varnishd reads it as it is (`-A`); what hitch says of itself as a process has no meaning there.

use std::rc::Rc;

use tls::hitch;

use crate::migrated::Migrated;
use crate::source::{FileSource, SourcePlace};

/// The server's counterpart of a key of hitch's own.
const INSTEAD: [(&str, &str); 3] = [
    (
        "backend",
        "the cache takes hitch's place: a listener for its PROXY connections (-a ADDRESS,PROXY) isn't needed any more",
    ),
    ("backlog", "the parameter listen_depth"),
    ("ssl-handshake-timeout", "the parameter tls_handshake_timeout"),
];

/// Gives the option that reads the file.
///
/// # Errors
/// The file can't be read, or isn't in hitch's language; the text says where.
pub fn migrate(path: &str, files: &dyn FileSource) -> Result<Migrated, String> {
    let text = files.read(path)?;
    let file = hitch::read(&text).map_err(|error| format!("{path}:{}: {}", error.line.max(1), error.reason))?;
    let mut migrated = Migrated::default();
    migrated.is_start_line = true;
    migrated.arguments = vec!["-A".to_owned(), path.to_owned()];
    let name: Rc<str> = Rc::from(path);
    for (column, (key, line)) in keys(&text).into_iter().enumerate() {
        let place = SourcePlace { file: Rc::clone(&name), line, column };
        if !file.ignored.contains(&(key.clone(), line)) {
            migrated.translated(&place, &key);
            continue;
        }
        match INSTEAD.iter().find(|(known, _)| *known == key) {
            Some((_, instead)) => {
                migrated.note(&place, &key, *instead);
                migrated.without_meaning(&place, &key, *instead);
            }
            None => migrated.without_meaning(&place, &key, "it speaks of hitch as a process"),
        }
    }
    let said = std::iter::once(&file.said).chain(file.frontends.iter().map(|frontend| &frontend.said));
    for list in said.filter_map(|said| said.alpn.as_ref()) {
        for unspoken in tls::settings::alpn(list).1 {
            let place = SourcePlace { file: Rc::clone(&name), line: 1, column: 0 };
            migrated.note(&place, "alpn-protos", format!("{unspoken} isn't spoken here, and isn't offered"));
        }
    }
    Ok(migrated)
}

/// The keys of a file with their lines: words before `=`, outside of quotes and comments.
fn keys(text: &str) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut word = String::new();
        let mut is_over = false;
        let mut is_quoted = false;
        for letter in line.chars() {
            match letter {
                '"' => (is_quoted, is_over) = (!is_quoted, true),
                _ if is_quoted => {}
                '#' => break,
                '=' if !word.is_empty() => out.push((std::mem::take(&mut word), at + 1)),
                letter if letter.is_ascii_alphanumeric() || letter == '-' => {
                    if std::mem::take(&mut is_over) {
                        word.clear();
                    }
                    word.push(letter);
                }
                _ => is_over = true,
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Given;

    fn of(text: &'static str) -> Result<Migrated, String> {
        migrate("h.conf", &Given(Box::leak(Box::new([("h.conf", text)]))))
    }

    #[test]
    fn a_file_of_hitch_is_read_as_it_is() {
        let migrated = of(
            "# hitch\nfrontend = {\n host = \"*\" # x = y\n port = \"443\"\n}\nbackend = \"[127.0.0.1]:6086\"\nworkers = 4\npem-file = \"/etc/a=b.pem\"\ntls-protos = TLSv1.2 TLSv1.3\n",
        )
        .expect("hitch's language");
        assert_eq!(migrated.text(), "varnishd -A h.conf\n");
        assert_eq!(
            migrated.account.short(),
            "backend 0/1/0, frontend 1/0/0, host 1/0/0, pem-file 1/0/0, port 1/0/0, tls-protos 1/0/0, workers 0/1/0"
        );
        assert!(migrated.notes.iter().any(|note| note.to_string().starts_with("h.conf:6: note: backend: the cache")));
    }

    #[test]
    fn what_is_not_hitchs_language_is_named_by_line() {
        for (text, error) in [
            ("frontend = \"*:443\"\nworkerz = 4\n", "h.conf:2: "),
            ("frontend = {\n host = \"*\"\n", "h.conf:1: "),
            ("", "h.conf:1: "),
        ] {
            let told = of(text).err().unwrap_or_default();
            assert!(told.starts_with(error) && told.len() > error.len(), "{told}");
        }
    }
}
