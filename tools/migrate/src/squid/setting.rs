// SPDX-License-Identifier: BSD-2-Clause
//! Directives with one value: sizes, times, names and switches. A value that squid doesn't take is refused, and so is one that has no counterpart.

use super::line::Line;
use super::units::{bytes, seconds, size};
use super::{Squid, claim, push};
use crate::migrated::Migrated;

const TIME: &str = "a number and a unit of time are wanted behind it: `5 minutes`";
const SIZE: &str = "a number and its unit are wanted behind it: bytes, KB, MB or GB";

impl Squid {
    /// False of any other directive.
    pub(super) fn setting(&mut self, line: &Line, migrated: &mut Migrated) -> bool {
        match line.word(0) {
            "cache_mem" => memory(line, migrated),
            "cache_dir" => self.directory(line, migrated),
            "visible_hostname" | "unique_hostname" => option(line, "-i", "", line.word(1), migrated),
            "maximum_object_size" => match bytes(line.rest(1)) {
                Some(most) => {
                    self.most_bytes = Some(most);
                    claim(line, migrated);
                }
                None => self.passed(line, SIZE, migrated),
            },
            "max_stale" | "negative_ttl" => match seconds(line.rest(1)) {
                Some(seconds) => {
                    match line.word(0) {
                        "max_stale" => self.most_stale = Some(seconds),
                        _ => self.negative = seconds,
                    }
                    claim(line, migrated);
                }
                None => self.passed(line, TIME, migrated),
            },
            "connect_timeout" | "read_timeout" => timeout(line, migrated),
            "forwarded_for" if line.word(1) != "on" => {
                migrated.refuse(&line.place, "forwarded_for", "set bereq.http.X-Forwarded-For in vcl_backend_fetch");
            }
            "via" if line.word(1) != "on" => {
                migrated.refuse(&line.place, "via", "unset Via in vcl_backend_fetch and vcl_deliver");
            }
            "forwarded_for" | "via" => migrated.without_meaning(&line.place, line.word(0), "the header is always sent"),
            _ => return false,
        }
        true
    }

    fn directory(&mut self, line: &Line, migrated: &mut Migrated) {
        let megabytes = line.word(3);
        if megabytes.parse::<u32>().ok().is_none_or(|megabytes| megabytes == 0) {
            return migrated.refuse(&line.place, "cache_dir", "TYPE DIRECTORY MEGABYTES are wanted");
        }
        if let Some(option) = line.rest(4).iter().find(|option| matches!(option.as_str(), "no-store" | "read-only")) {
            let text = format!("{option}: nothing would be stored in it: leave the line out");
            return migrated.refuse(&line.place, "cache_dir", text);
        }
        self.directories += 1;
        let name = if self.directories == 1 { "disk".to_owned() } else { format!("disk{}", self.directories) };
        let store = format!("file,/var/lib/varnish/{name}.store,{megabytes}m");
        option(line, "-s", &format!("{name}="), &store, migrated);
        let text = "a store is one file with memory in front; what squid has kept is fetched anew";
        migrated.note(&line.place, "cache_dir", text);
        let is_bound = |option: &&String| option.starts_with("max-size=") || option.starts_with("min-size=");
        if let Some(bound) = line.rest(4).iter().find(is_bound) {
            let text = format!("{bound}: a store takes objects of any size; maximum_object_size bounds all of them");
            migrated.note(&line.place, "cache_dir", text);
        }
    }
}

fn memory(line: &Line, migrated: &mut Migrated) {
    match bytes(line.rest(1)) {
        Some(0) => {
            migrated.without_meaning(&line.place, "cache_mem", "there is some memory in front of each store");
        }
        Some(bytes) if bytes >= 1 << 20 => option(line, "-s", "malloc,", &size(bytes), migrated),
        Some(bytes) => {
            let text = format!("that is {bytes} bytes, less than a store can have: write its unit, KB, MB or GB");
            migrated.refuse(&line.place, "cache_mem", text);
        }
        None => migrated.refuse(&line.place, "cache_mem", SIZE),
    }
}

/// Translates a line to an option of the start line. The last line of a `key` counts, as in squid.
fn option(line: &Line, letter: &str, key: &str, value: &str, migrated: &mut Migrated) {
    let is_same = |pair: &[String]| pair[0] == letter && pair[1].starts_with(key);
    let before = migrated.arguments.chunks(2).position(is_same);
    match before {
        Some(at) => migrated.arguments[2 * at + 1] = format!("{key}{value}"),
        None => push(migrated, letter, &format!("{key}{value}")),
    }
    claim(line, migrated);
}

fn timeout(line: &Line, migrated: &mut Migrated) {
    let names: &[&str] = match line.word(0) {
        "connect_timeout" => &["connect_timeout"],
        _ => &["first_byte_timeout", "between_bytes_timeout"],
    };
    match seconds(line.rest(1)) {
        None | Some(0) => migrated.refuse(&line.place, line.word(0), TIME),
        Some(seconds) => {
            names.iter().for_each(|name| option(line, "-p", &format!("{name}="), &seconds.to_string(), migrated));
        }
    }
}
