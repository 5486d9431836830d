// SPDX-License-Identifier: BSD-2-Clause
//! Apache: it goes on serving its sites, behind the cache. Its `Listen` and `VirtualHost` lines get another port, its `LogFormat` lines the client's
//! address as the cache tells it; what mod_cache kept is kept by the cache.

mod access;
mod cache;
mod conditional;
mod host;
mod known;
mod listen;
mod program;
mod reader;
mod section;
mod settings;
mod stays;
#[cfg(test)]
mod tests;
mod unseen;

use access::AccessRules;
use cache::Cache;
use listen::TlsPorts;
use reader::Reader;
use section::Sections;
use unseen::Unseen;

use crate::migrated::Migrated;
use crate::source::FileSource;

/// Translates a configuration; `origin` is where Apache is to listen from now on.
///
/// # Errors
/// A file can't be read.
pub fn migrate(file: &str, origin: (&str, &str), files: &dyn FileSource) -> Result<Migrated, String> {
    let mut migrated = Migrated::default();
    // Ports that are of TLS may be told from lines far below: the first reading finds them.
    let mut reader = Reader::new(file, origin, TlsPorts::default(), files);
    reader.file(file, 0, &mut Migrated::default())?;
    let ports = TlsPorts::of(&reader.lines, origin.1);
    let mut reader = Reader::new(file, origin, ports.clone(), files);
    reader.file(file, 0, &mut migrated)?;
    let lines = reader.lines;
    if lines.is_empty() {
        return Err(format!("{file}: there is no directive in it"));
    }
    reader::check_sections(&lines)?;
    listen::listens(&lines, &ports, &mut migrated);
    let mut cache = Cache::default();
    let mut rules = AccessRules::new(&lines, origin.0);
    let mut sections = Sections::new(&lines, &ports);
    let mut unseen = Unseen::default();
    for line in &lines {
        let name = line.name();
        let spelled = line.word(0).trim_start_matches('<').trim_end_matches('>');
        if !name.starts_with("</") {
            migrated.account.read(&line.place, spelled);
        }
        if sections.take(&name, line) {
            if !name.starts_with("</") {
                match sections.open.last().is_some_and(|section| section.condition.is_some()) {
                    true => migrated.translated(&line.place, spelled),
                    false => migrated.without_meaning(&line.place, spelled, "Apache goes on deciding by it"),
                }
            }
            rules.section(&name, line, &sections, &mut migrated);
            unseen.section(&name, line, &sections);
            continue;
        }
        let asks_for_tls = name == "sslrequiressl" || name == "require" && line.word(1).eq_ignore_ascii_case("ssl");
        if asks_for_tls && !sections.is_of_tls() && ports.moved().next().is_some() {
            let text =
                "Apache no longer sees TLS, and denies all requests: write it into the virtual hosts of TLS alone";
            migrated.refuse(&line.place, line.word(0), text);
        }
        if rules.take(&name, line, &sections, &mut migrated) {
            migrated.without_meaning(&line.place, spelled, "Apache goes on deciding by it, for all clients alike");
            continue;
        }
        if unseen.take(&name, line, &sections, &mut cache, &mut migrated)
            || cache.take(&name, line, &sections, &mut migrated)
        {
            continue;
        }
        known::note_scheme(&name, line, &mut migrated);
        match name.as_str() {
            "cacheroot" => listen::storage(line, &mut migrated),
            // Taken below, once all addresses are known.
            "listen" | "sslcertificatefile" | "sslcertificatekeyfile" => {}
            "requestheader" | "header" if sections.is_cached(&lines) => {
                let text = "Apache goes on doing this, for what reaches it: hits and VCL see the client's own headers";
                migrated.note(&line.place, line.word(0), text);
                migrated.without_meaning(&line.place, line.word(0), text);
            }
            _ if !known::known(&name, line, &sections, &mut migrated) && name.starts_with("cache") => cache.pass_all(),
            _ => {}
        }
    }
    listen::certificates(&lines, &mut migrated);
    rules.denied.extend(host::addresses(&lines, &ports, &sections, &mut migrated));
    unseen.finish(&mut cache, &rules.passed, &mut migrated);
    migrated.vcl = cache.program(origin, &ports, !migrated.tls.is_empty(), &rules);
    if !cache.enabled.is_empty() {
        migrated.arguments.extend(["-p", "feature=+rfc9111"].map(str::to_owned));
    }
    Ok(migrated)
}
