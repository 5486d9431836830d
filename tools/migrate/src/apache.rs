// SPDX-License-Identifier: BSD-2-Clause
//! Apache: it goes on serving its sites, behind the cache. Its `Listen` and `VirtualHost` lines get another port, its `LogFormat` lines the client's
//! address as the cache tells it; what mod_cache kept is kept by the cache.

mod access;
mod cache;
mod host;
mod known;
mod listen;
mod program;
mod reader;
mod section;
#[cfg(test)]
mod tests;

use access::AccessRules;
use cache::Cache;
use reader::Reader;
use section::Sections;

use crate::migrated::Migrated;
use crate::source::FileSource;

/// Translates a configuration; `origin` is where Apache is to listen from now on.
///
/// # Errors
/// A file can't be read.
pub fn migrate(file: &str, origin: (&str, &str), files: &dyn FileSource) -> Result<Migrated, String> {
    let mut migrated = Migrated::default();
    let mut reader = Reader::new(file, origin, files);
    reader.file(file, 0, &mut migrated)?;
    let lines = reader.lines;
    if lines.is_empty() {
        return Err(format!("{file}: there is no directive in it"));
    }
    listen::listens(&lines, &mut migrated);
    let mut cache = Cache::default();
    let mut rules = AccessRules::new(&lines, origin.0);
    let mut sections = Sections::new(&lines);
    for line in &lines {
        let word = |i: usize| line.words.get(i).map_or("", String::as_str);
        let name = word(0).to_ascii_lowercase();
        if sections.take(&name, line) {
            rules.section(&name, line, &sections, &mut migrated);
            continue;
        }
        if rules.take(&name, line, &sections, &mut migrated) {
            continue;
        }
        match name.as_str() {
            "cacheenable" | "cachedisable" | "cachedefaultexpire" | "cachemaxexpire" | "cacheminexpire"
            | "cachestaleonerror" | "cacheignoreheaders" => cache.take(&name, line, &sections, &mut migrated),
            "cacheroot" => listen::storage(line, &mut migrated),
            "sslcertificatefile" | "sslcertificatekeyfile" => {}
            "requestheader" | "header" if sections.is_cached(&lines) => {
                migrated.note(
                    &line.place,
                    word(0),
                    "Apache goes on doing this, for what reaches it: hits and VCL see the client's own headers",
                );
            }
            _ => known::known(&name, line, &mut migrated),
        }
    }
    listen::certificates(&lines, &mut migrated);
    rules.denied.extend(host::addresses(&lines, &sections, &mut migrated));
    migrated.vcl = cache.program(origin, rules);
    Ok(migrated)
}
