// SPDX-License-Identifier: BSD-2-Clause
//! Which network and country an address belongs to, from files that people have.
//!
//! | a line | who writes such |
//! | --- | --- |
//! | `1.0.0.0/24 <TAB> 13335` | pyasn, dumps of RouteViews |
//! | `1.0.0.0 <TAB> 24 <TAB> 13335` | CAIDA's pfx2as; of `13335_4826` and `13335,4826` the first counts |
//! | `1.0.0.0 <TAB> 1.0.0.255 <TAB> 13335 <TAB> US <TAB> CLOUDFLARENET` | iptoasn |
//! | `1.0.0.0/24,13335,"CLOUDFLARENET"` | GeoLite2's tables |
//! | `1.0.0.0,1.0.0.255,13335,"Cloudflare, Inc."` | ip-location-db, DB-IP Lite; `1.0.0.0,1.0.0.255,AU` for countries |
//! | `13335 \| 1.0.0.1 \| CLOUDFLARENET, US` | Team Cymru's bulk answer; `verbose`, with the prefix and the country |
//! | a MaxMind database | GeoLite2-ASN, GeoLite2-Country; flat ones of ip-location-db and IPinfo |
//!
//! Each may be packed with gzip. Of several files the first that knows an answer gives it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use flate2::bufread::MultiGzDecoder;
use maxminddb::{PathElement, Reader};

use crate::ranges::{AddressRange, Ranges, number_of, prefix};

const MOST_LINE: u64 = 64 << 10;
/// Bytes of a file of names, at most.
const MOST_NAMES: u64 = 256 << 20;
/// Most of a file's lines that may be unknown: with more it is another kind of file.
const MOST_UNKNOWN: usize = 1000;
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The mark by which a MaxMind database is known, from its end (MaxMind DB File Format Specification 2.0).
const MMDB_MARK: &[u8] = b"\xab\xcd\xefMaxMind.com";
const MMDB_TAIL: usize = 128 << 10;

pub type Country = [u8; 2];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct AddressOrigin {
    /// The number of the network (autonomous system) that it is announced by; 0: none.
    pub asn: u32,
    pub country: Option<Country>,
}

#[derive(Default)]
pub struct Database {
    files: Vec<Source>,
    names: HashMap<u32, String>,
    /// Those that MaxMind's databases have told on the way.
    told: Mutex<HashMap<u32, String>>,
}

struct Source {
    name: String,
    known: Known,
    was_asked: AtomicBool,
    has_answered: AtomicBool,
}

enum Known {
    Ranges { ranges: Ranges, owners: Vec<AddressOrigin> },
    MaxMind(Box<Reader<Vec<u8>>>),
}

impl Database {
    /// Reads a file of prefixes; what it is.
    ///
    /// # Errors
    /// It can't be read, or is of no known kind: with the line.
    pub fn add(&mut self, file: &str) -> Result<String, String> {
        let wrong = |why: String| format!("{file}: {why}");
        let bytes = read(file, u64::MAX).map_err(|error| wrong(error.to_string()))?;
        let tail = &bytes[bytes.len().saturating_sub(MMDB_TAIL)..];
        if tail.windows(MMDB_MARK.len()).any(|window| window == MMDB_MARK) {
            let reader = Reader::from_source(bytes).map_err(|error| wrong(error.to_string()))?;
            let what = reader.metadata().database_type.clone();
            self.files.push(Source::new(file, Known::MaxMind(Box::new(reader))));
            return Ok(format!("{file}: MaxMind's {what}"));
        }
        let lines = Lines::of(&bytes, &mut self.names).map_err(wrong)?;
        let ranges = Ranges::of(lines.ranges);
        let what =
            format!("{file}: {} prefixes of {} networks, {} ranges", lines.prefixes, lines.owners.len(), ranges.len());
        self.files.push(Source::new(file, Known::Ranges { ranges, owners: lines.owners }));
        Ok(what)
    }

    /// Reads names of networks: a JSON object (`{"13335": "CLOUDFLARENET, US"}`), or a number, a blank, tab, comma or bar and a name a
    /// line (`AS` may stand before the number).
    ///
    /// # Errors
    /// It can't be read, or has no name in it.
    pub fn add_names(&mut self, file: &str) -> Result<(), String> {
        let bytes = read(file, MOST_NAMES).map_err(|error| format!("{file}: {error}"))?;
        let text = String::from_utf8_lossy(&bytes);
        let before = self.names.len();
        if text.trim_start().starts_with('{') {
            let all: HashMap<String, serde_json::Value> =
                serde_json::from_str(&text).map_err(|error| format!("{file}: {error}"))?;
            let names = all.iter().filter_map(|(asn, name)| Some((number(asn)?, name.as_str()?.trim().to_owned())));
            self.names.extend(names);
        } else {
            let names = text.lines().filter_map(|line| {
                let (asn, name) = line.trim().split_once([' ', '\t', ',', '|'])?;
                let name = name.trim_matches([' ', '\t', ',', '|']);
                Some((number(asn)?, name.to_owned())).filter(|(_, name)| !name.is_empty())
            });
            self.names.extend(names);
        }
        if self.names.len() == before { Err(format!("{file}: has no names of networks")) } else { Ok(()) }
    }

    pub fn origin(&self, address: IpAddr) -> AddressOrigin {
        let mut origin = AddressOrigin::default();
        for file in &self.files {
            let found = match &file.known {
                Known::Ranges { ranges, owners } => {
                    ranges.owner(number_of(address)).map_or_else(AddressOrigin::default, |owner| owners[owner as usize])
                }
                Known::MaxMind(reader) => self.of_maxmind(reader, address),
            };
            file.was_asked.store(true, Relaxed);
            if found != AddressOrigin::default() {
                file.has_answered.store(true, Relaxed);
            }
            if origin.asn == 0 {
                origin.asn = found.asn;
            }
            origin.country = origin.country.or(found.country);
        }
        origin
    }

    /// A remark on each file that had an answer for none of the addresses it was asked for.
    pub fn silent(&self) -> Vec<String> {
        let is_silent = |file: &&Source| file.was_asked.load(Relaxed) && !file.has_answered.load(Relaxed);
        let remark = |file: &Source| match &file.known {
            Known::Ranges { .. } => {
                format!("{}: knows none of the addresses (is it of IPv4 or of IPv6 alone?)", file.name)
            }
            Known::MaxMind(reader) => format!(
                "{}: knows network and country of none of the addresses; it is a database of the kind {}",
                file.name,
                reader.metadata().database_type
            ),
        };
        self.files.iter().filter(is_silent).map(remark).collect()
    }

    fn of_maxmind(&self, reader: &Reader<Vec<u8>>, address: IpAddr) -> AddressOrigin {
        let Ok(found) = reader.lookup(address) else { return AddressOrigin::default() };
        let key = |name| PathElement::Key(name);
        // A field of another type is as good as none.
        let text = |path: &[&'static str]| {
            let path: Vec<PathElement<'_>> = path.iter().map(|name| key(name)).collect();
            found.decode_path::<String>(&path).ok().flatten()
        };
        let number_of = |name| {
            let plain: Option<u32> = found.decode_path(&[key(name)]).ok().flatten();
            plain.or_else(|| number(&text(&[name])?))
        };
        let asn = ["autonomous_system_number", "asn"].into_iter().find_map(number_of).unwrap_or(0);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if asn != 0
            && !told.contains_key(&asn)
            && let Some(name) = ["autonomous_system_organization", "as_name"].into_iter().find_map(|name| text(&[name]))
        {
            told.insert(asn, name);
        }
        let places: [&[&'static str]; 4] =
            [&["country", "iso_code"], &["registered_country", "iso_code"], &["country_code"], &["country"]];
        let country = places.into_iter().find_map(|place| country_of(&text(place)?));
        AddressOrigin { asn, country }
    }

    pub fn name(&self, asn: u32) -> Option<String> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        self.names.get(&asn).or_else(|| told.get(&asn)).cloned()
    }
}

impl Source {
    fn new(name: &str, known: Known) -> Source {
        Source { name: name.to_owned(), known, was_asked: AtomicBool::new(false), has_answered: AtomicBool::new(false) }
    }
}

pub fn country_of(text: &str) -> Option<Country> {
    let bytes: Country = text.as_bytes().try_into().ok()?;
    bytes.iter().all(u8::is_ascii_alphabetic).then(|| bytes.map(|b| b.to_ascii_uppercase()))
}

fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    let digits = text.strip_prefix("AS").or_else(|| text.strip_prefix("as")).unwrap_or(text);
    digits.parse().ok()
}

fn read(file: &str, most: u64) -> std::io::Result<Vec<u8>> {
    let mut from = BufReader::new(File::open(file)?);
    let mut bytes = Vec::new();
    if from.fill_buf()?.starts_with(GZIP) {
        MultiGzDecoder::new(from).take(most).read_to_end(&mut bytes)?;
    } else {
        from.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

#[derive(Default)]
struct Lines {
    ranges: Vec<AddressRange>,
    owners: Vec<AddressOrigin>,
    places: HashMap<AddressOrigin, u32>,
    prefixes: usize,
}

impl Lines {
    fn of(bytes: &[u8], names: &mut HashMap<u32, String>) -> Result<Lines, String> {
        let (mut lines, mut unknown) = (Lines::default(), 0);
        for (at, line) in bytes.split(|b| *b == b'\n').enumerate() {
            let text = std::str::from_utf8(line).unwrap_or("?").trim();
            if text.is_empty() || text.starts_with([';', '#']) || is_heading(text) {
                continue;
            }
            if line.len() as u64 > MOST_LINE || lines.add(text, names).is_none() {
                unknown += 1;
                if unknown > MOST_UNKNOWN || lines.prefixes == 0 {
                    let shown: String = text.chars().take(60).collect();
                    return Err(format!(
                        "line {}: {shown:?} is neither `PREFIX/LENGTH AS`, `PREFIX LENGTH AS`, `FIRST LAST AS COUNTRY NAME`, `FIRST,LAST,AS,NAME` nor `AS | ADDRESS | NAME`",
                        at + 1
                    ));
                }
            }
        }
        if lines.prefixes == 0 { Err("has no prefixes".to_owned()) } else { Ok(lines) }
    }

    fn add(&mut self, line: &str, names: &mut HashMap<u32, String>) -> Option<()> {
        let is_address =
            |word: &str| word.trim().trim_matches('"').split('/').next().is_some_and(|a| a.parse::<IpAddr>().is_ok());
        // Blanks will do, as long as no name has any.
        match line.contains('\t') {
            true => self.add_words(&mut line.split('\t'), names),
            false if line.split_once(',').is_some_and(|(first, _)| is_address(first)) => {
                self.add_row(&cells(line), names)
            }
            false if line.split('|').nth(1).is_some_and(is_address) => self.add_cymru(line, names),
            false => self.add_words(&mut line.split_ascii_whitespace(), names),
        }
    }

    /// `PREFIX,AS,NAME`, `FIRST,LAST,AS,NAME` or `FIRST,LAST,COUNTRY`.
    fn add_row(&mut self, cells: &[String], names: &mut HashMap<u32, String>) -> Option<()> {
        let cell = |at: usize| cells.get(at).map(String::as_str);
        if cell(0)?.contains('/') {
            return self.add_words(&mut [cell(0)?, cell(1)?, "", cell(2).unwrap_or("")].into_iter(), names);
        }
        let (asn, country) = match country_of(cell(2)?) {
            Some(_) => ("0", cell(2)?),
            None => (cell(2)?, ""),
        };
        self.add_words(&mut [cell(0)?, cell(1)?, asn, country, cell(3).unwrap_or("")].into_iter(), names)
    }

    /// `AS | ADDRESS | NAME, COUNTRY` or, asked for verbose ones, `AS | ADDRESS | PREFIX | COUNTRY | REGISTRY | DATE | NAME`.
    fn add_cymru(&mut self, line: &str, names: &mut HashMap<u32, String>) -> Option<()> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        // Several origins stand side by side; NA: nobody announces it.
        let asn = cells.first()?.split(' ').next().map(|asn| if asn == "NA" { "0" } else { asn })?;
        let (prefix, country, name) = match cells[..] {
            [_, address, name] => (address, name.rsplit_once(", ").map_or("", |(_, country)| country), name),
            [_, address, prefix, country, _, _, name] => (if prefix == "NA" { address } else { prefix }, country, name),
            _ => return None,
        };
        let whole = match prefix.parse::<IpAddr>() {
            Ok(address) => format!("{prefix}/{}", if address.is_ipv4() { 32 } else { 128 }),
            Err(_) => prefix.to_owned(),
        };
        self.add_words(&mut [whole.as_str(), asn, country, if asn == "0" { "" } else { name }].into_iter(), names)
    }

    fn add_words(&mut self, words: &mut dyn Iterator<Item = &str>, names: &mut HashMap<u32, String>) -> Option<()> {
        let first = words.next()?.trim();
        let ((first, last), asn) = match first.split_once('/') {
            Some((address, length)) => (prefix(address.parse().ok()?, length.parse().ok()?)?, words.next()?),
            None => {
                let address: IpAddr = first.parse().ok()?;
                let second = words.next()?.trim();
                let ends = match second.parse::<IpAddr>() {
                    Ok(last) if last.is_ipv4() == address.is_ipv4() => (number_of(address), number_of(last)),
                    Ok(_) => return None,
                    Err(_) => prefix(address, second.parse().ok()?)?,
                };
                (ends, words.next()?)
            }
        };
        // Several origins: `1_2` and `1,2`; a set: `{1,2}`. None: pyasn's `None`.
        let asn = asn.trim().trim_start_matches('{').split(['_', ',', '}']).next()?;
        let asn = if asn == "None" { 0 } else { number(asn)? };
        let country = words.next().and_then(|word| country_of(word.trim()));
        if first > last {
            return None;
        }
        self.prefixes += 1;
        // iptoasn says so of what nobody has.
        if asn == 0 && country.is_none() {
            return Some(());
        }
        if let Some(name) = words.next().map(str::trim).filter(|name| !name.is_empty()) {
            names.entry(asn).or_insert_with(|| name.to_owned());
        }
        let origin = AddressOrigin { asn, country };
        let owners = &mut self.owners;
        let owner = *self.places.entry(origin).or_insert_with(|| {
            owners.push(origin);
            owners.len() as u32 - 1
        });
        self.ranges.push(AddressRange { first, last, owner });
        Some(())
    }
}

fn is_heading(line: &str) -> bool {
    let is_columns = line.split_once('|').is_some_and(|(first, _)| first.trim_end() == "AS");
    is_columns || ["network,", "Bulk mode;", "Error: no ASN or IP match"].iter().any(|start| line.starts_with(start))
}

/// The cells of a line of CSV (RFC 4180).
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            c => cell.push(c),
        }
    }
    cells.push(cell.trim().to_owned());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Result<Database, String> {
        let mut names = HashMap::new();
        let lines = Lines::of(text.as_bytes(), &mut names)?;
        let ranges = Ranges::of(lines.ranges);
        let known = Known::Ranges { ranges, owners: lines.owners };
        Ok(Database { files: vec![Source::new("x", known)], names, ..Database::default() })
    }

    fn asn(database: &Database, address: &str) -> u32 {
        database.origin(address.parse().unwrap()).asn
    }

    #[test]
    fn kinds_of_lines() {
        for text in [
            "; IP-ASN32-DAT file\n10.0.0.0/8\t1\n10.1.0.0/16\t2\n2001:db8::/32\t3\n",
            "10.0.0.0\t8\t1\n10.1.0.0\t16\t2_9\n2001:db8::\t32\t{3,4}\n",
            "10.0.0.0 8 1\n10.1.0.0/16 AS2\n2001:db8::/32 3\n",
            "10.0.0.0\t10.0.255.255\t1\tNZ\tONE\n10.1.0.0\t10.1.255.255\t2\tNZ\tTWO\n10.2.0.0\t10.255.255.255\t1\tNZ\tONE\n\
             2001:db8::\t2001:db8:ffff:ffff:ffff:ffff:ffff:ffff\t3\tAU\tTHREE\n11.0.0.0\t11.0.0.9\t0\tNone\tNot routed\n",
        ] {
            let database = of(text).unwrap();
            let got = ["10.0.0.1", "10.1.2.3", "10.2.0.0", "11.0.0.1", "2001:db8::1", "::1"].map(|a| asn(&database, a));
            assert_eq!(got, [1, 2, 1, 0, 3, 0], "{text}");
        }
        let row =
            of("network,autonomous_system_number,autonomous_system_organization\n10.0.0.0/8,AS9,\"Nine, Inc.\"\n")
                .unwrap();
        assert_eq!((asn(&row, "10.0.0.1"), row.name(9).as_deref()), (9, Some("Nine, Inc.")));
        let named = of("10.0.0.0\t10.0.255.255\t1\tnz\tONE, Ltd\n").unwrap();
        assert_eq!(
            (named.name(1), named.origin("10.0.0.1".parse().unwrap()).country),
            (Some("ONE, Ltd".to_owned()), Some(*b"NZ"))
        );
    }

    #[test]
    fn tables_with_quotes_and_of_countries() {
        let origin = |database: &Database, address: &str| database.origin(address.parse().unwrap());
        let table =
            of("1.0.0.0,1.0.0.255,13335,\"Cloudflare, Inc.\"\n1.0.4.0,1.0.7.255,38803,Wirefreebroadband Pty Ltd\n\
                        2001:200::,2001:200:5ff:ffff:ffff:ffff:ffff:ffff,2500,\"The \"\"WIDE\"\" Project\"\n")
            .unwrap();
        assert_eq!((asn(&table, "1.0.0.7"), table.name(13335).as_deref()), (13335, Some("Cloudflare, Inc.")));
        assert_eq!((asn(&table, "1.0.5.1"), asn(&table, "2001:200::1"), asn(&table, "1.0.1.0")), (38803, 2500, 0));
        assert_eq!(table.name(2500).as_deref(), Some("The \"WIDE\" Project"));
        let countries = of("1.0.0.0,1.0.0.255,AU\n1.0.1.0,1.0.3.255,cn\n").unwrap();
        assert_eq!(origin(&countries, "1.0.2.9"), AddressOrigin { asn: 0, country: Some(*b"CN") });
        let rows =
            of("network,autonomous_system_number,autonomous_system_organization\n1.0.0.0/24,13335,CLOUDFLARENET\n");
        assert_eq!(rows.unwrap().name(13335).as_deref(), Some("CLOUDFLARENET"));
    }

    /// Answers as Team Cymru's page on its service shows them.
    #[test]
    fn bulk_answers_of_team_cymru() {
        let short = "Bulk mode; whois.cymru.com [2005-06-09 14:01:31 +0000]\n\
                     23028   | 216.90.108.31    | TEAM-CYMRU - Team Cymru Inc., US\n\
                     NA      | 10.0.0.1         | NA\n13335   | 2606:4700::1     | CLOUDFLARENET, US\n";
        let verbose = "Bulk mode; whois.cymru.com [2005-06-09 14:01:31 +0000]\nError: no ASN or IP match on line 2.\n\
                       AS      | IP               | BGP Prefix          | CC | Registry | Allocated  | AS Name\n\
                       23028   | 216.90.108.31    | 216.90.108.0/24     | US | arin     | 1998-09-25 | TEAM-CYMRU - Team Cymru Inc., US\n\
                       NA      | 10.0.0.1         | NA                  |    | other    |            | NA\n";
        for (text, neighbour) in [(short, 0), (verbose, 23028)] {
            let database = of(text).unwrap();
            let origin = database.origin("216.90.108.31".parse().unwrap());
            assert_eq!(origin, AddressOrigin { asn: 23028, country: Some(*b"US") }, "{text}");
            assert_eq!(asn(&database, "216.90.108.32"), neighbour, "{text}");
            assert_eq!(asn(&database, "10.0.0.1"), 0, "{text}");
            assert_eq!(database.name(23028).as_deref(), Some("TEAM-CYMRU - Team Cymru Inc., US"));
        }
    }

    #[test]
    fn a_file_that_answers_nothing_is_named() {
        let database = of("10.0.0.0/8\t1\n").unwrap();
        assert!(database.silent().is_empty(), "it wasn't asked");
        asn(&database, "2001:db8::1");
        assert!(database.silent()[0].starts_with("x: knows none of the addresses"));
        asn(&database, "10.0.0.1");
        assert!(database.silent().is_empty());
    }

    #[test]
    fn other_files_are_refused() {
        for text in [
            "",
            "hello\n",
            "<html>\n10.0.0.0/8\t1\n",
            "10.0.0.0/40\t1\n",
            "10.0.0.0\t10.0.0.9\tx\n",
            "10.0.0.9\t10.0.0.1\t1\n",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
        assert!(of("10.0.0.0/8\t1\nnonsense\n").is_ok(), "a bad line among good ones");
    }

    proptest! {
        #[test]
        fn no_line_can_hurt(text in "[0-9a-fA-F.:/\t ,_{}|\"-]{0,60}") {
            let _ = of(&format!("10.0.0.0/8\t1\n{text}\n")).map(|database| asn(&database, "10.0.0.1"));
        }
    }
}
