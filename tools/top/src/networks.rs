// SPDX-License-Identifier: BSD-2-Clause
//! Which autonomous system an address belongs to, by a table that the operator has: lines of a network and a number, as
//! pyasn's are, or of a first address, a last one, a number, a country and a name, as iptoasn.com's are. The smallest network
//! that holds an address counts. Binary tables (.mmdb) are refused.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::IpAddr;

/// Networks in a table; the Internet has about a million.
const MAX: usize = 8_000_000;
/// Octets in a line.
const LONGEST: u64 = 4096;

/// The table: addresses at which another system begins, in order.
#[derive(Debug, Default)]
pub struct Networks {
    begins: Vec<u128>,
    /// 0: none.
    systems: Vec<u32>,
    names: HashMap<u32, String>,
}

struct Network {
    first: u128,
    last: u128,
    system: u32,
}

/// IPv4 stands where IPv6 maps it.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn system(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("AS").or_else(|| word.strip_prefix("as")).unwrap_or(word);
    digits.parse().ok()
}

/// A line's network and the system's name, if it gives one. None: no network.
fn network(line: &str) -> Option<(Network, Option<&str>)> {
    let mut words = line.splitn(5, ['\t', ' ', ',']).map(|word| word.trim_matches('"'));
    let first = words.next()?;
    if let Some((address, bits)) = first.split_once('/') {
        let address: IpAddr = address.parse().ok()?;
        let size: u32 = if address.is_ipv4() { 32 } else { 128 };
        let bits: u32 = bits.parse().ok().filter(|bits| *bits <= size)?;
        let rest = 1u128.checked_shl(size - bits).unwrap_or(0).wrapping_sub(1);
        let first = number(address) & !rest;
        let system = system(words.next()?)?;
        let name = line.splitn(3, ['\t', ' ', ',']).nth(2);
        return Some((Network { first, last: first | rest, system }, name));
    }
    let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, words.next()?.parse().ok()?);
    let system = system(words.next()?)?;
    let (first, last) = (number(first), number(last));
    let name = words.nth(1);
    (first <= last).then_some((Network { first, last, system }, name))
}

impl Networks {
    /// Reads a table.
    ///
    /// # Errors
    /// It can't be read, or a line is none of a table.
    pub fn open(name: &str) -> Result<Networks, String> {
        let failed = |e: io::Error| format!("{name}: {}", logq::source::strerror(&e));
        let file = BufReader::with_capacity(256 << 10, File::open(name).map_err(failed)?);
        Networks::read(file).map_err(|e| format!("{name}: {e}"))
    }

    fn read(mut from: impl BufRead) -> Result<Networks, String> {
        let mut networks = Vec::new();
        let mut names = HashMap::new();
        let mut line = Vec::new();
        for at in 1.. {
            line.clear();
            let n = from.by_ref().take(LONGEST).read_until(b'\n', &mut line).map_err(|e| e.to_string())?;
            if n == 0 {
                break;
            }
            if line.starts_with(&[0x1f, 0x8b]) && at == 1 {
                return Err("compressed: unpack it first (gunzip)".into());
            }
            let Ok(text) = std::str::from_utf8(&line).map(str::trim) else {
                return Err(format!(
                    "line {at} is no text: tables of networks are lines, binary ones (.mmdb) aren't read"
                ));
            };
            if text.is_empty() || text.starts_with(['#', ';']) {
                continue;
            }
            let (network, system_name) = network(text).ok_or_else(|| format!("line {at} is no network: {text:.60}"))?;
            if let Some(text) = system_name.map(str::trim).filter(|text| !text.is_empty()) {
                names.entry(network.system).or_insert_with(|| text.trim_matches('"').to_owned());
            }
            if networks.len() >= MAX {
                return Err(format!("more than {MAX} networks"));
            }
            networks.push(network);
        }
        if networks.is_empty() {
            return Err("no networks in it".into());
        }
        Ok(Networks::build(networks, names))
    }

    fn build(mut networks: Vec<Network>, names: HashMap<u32, String>) -> Networks {
        // The larger before those in it.
        networks.sort_by(|a, b| a.first.cmp(&b.first).then(b.last.cmp(&a.last)));
        let mut table = Networks { names, ..Networks::default() };
        let mut open: Vec<(u128, u32)> = Vec::new();
        for network in &networks {
            table.close(&mut open, Some(network.first));
            table.begin(network.first, network.system);
            open.push((network.last, network.system));
        }
        table.close(&mut open, None);
        table
    }

    /// Ends networks that end before `at`; where one ends that which holds it goes on.
    fn close(&mut self, open: &mut Vec<(u128, u32)>, at: Option<u128>) {
        while let Some((last, _)) = open.last().copied().filter(|(last, _)| at.is_none_or(|at| *last < at)) {
            open.pop();
            // One that reaches over its neighbour's end is none of a tree: what is left of it counts.
            open.retain(|(end, _)| *end > last);
            if let Some(next) = last.checked_add(1) {
                self.begin(next, open.last().map_or(0, |(_, system)| *system));
            }
        }
    }

    fn begin(&mut self, at: u128, system: u32) {
        if self.begins.last() == Some(&at) {
            self.systems.pop();
            self.begins.pop();
        }
        if self.systems.last() != Some(&system) {
            self.begins.push(at);
            self.systems.push(system);
        }
    }

    /// What an address belongs to, for people: number and name.
    pub fn find(&self, address: &[u8]) -> Option<String> {
        let address: IpAddr = std::str::from_utf8(address).ok()?.parse().ok()?;
        let at = self.begins.partition_point(|begin| *begin <= number(address));
        let system = *self.systems.get(at.checked_sub(1)?)?;
        if system == 0 {
            return None;
        }
        Some(match self.names.get(&system) {
            Some(name) => format!("AS{system} {name}"),
            None => format!("AS{system}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<Networks, String> {
        Networks::read(text.as_bytes())
    }

    #[track_caller]
    fn check(text: &str, address: &str, expected: &str) {
        let found = table(text).map(|t| t.find(address.as_bytes()).unwrap_or_else(|| "none".to_owned()));
        assert_eq!(found.unwrap_or_else(|e| e), expected, "{address}");
    }

    #[test]
    fn smallest_network_counts() {
        const NESTED: &str =
            "; a table\n10.0.0.0/8\t1\n10.1.0.0/16\t2\n10.1.2.0/24\t3\n10.1.3.0/24\t3\n2001:db8::/32\t4\n";
        for (address, expected) in [
            ("10.0.0.1", "AS1"),
            ("10.1.0.0", "AS2"),
            ("10.1.2.255", "AS3"),
            ("10.1.3.9", "AS3"),
            ("10.1.4.0", "AS2"),
            ("10.2.0.0", "AS1"),
            ("10.255.255.255", "AS1"),
            ("11.0.0.0", "none"),
            ("9.255.255.255", "none"),
            ("::ffff:10.1.2.3", "AS3"),
            ("2001:db8::1", "AS4"),
            ("2001:db9::", "none"),
            ("nonsense", "none"),
        ] {
            check(NESTED, address, expected);
        }
    }

    #[test]
    fn ranges_with_names() {
        const RANGES: &str = "1.0.0.0\t1.0.0.255\t13335\tUS\tCLOUDFLARENET\n1.0.1.0\t1.0.3.255\t0\tNone\tNot routed\n\
                              1.0.4.0\t1.0.7.255\tAS38803\tAU\tGTELECOM AU\n2001:db8::\t2001:db8::ff\t7\tZZ\tseven\n";
        check(RANGES, "1.0.0.7", "AS13335 CLOUDFLARENET");
        check(RANGES, "1.0.2.0", "none");
        check(RANGES, "1.0.5.1", "AS38803 GTELECOM AU");
        check(RANGES, "2001:db8::ff", "AS7 seven");
        check("10.0.0.0/8,AS9,\"Nine, Inc.\"\n", "10.9.9.9", "AS9 Nine, Inc.");
        check("0.0.0.0/0 5\n::/0 6\n", "8.8.8.8", "AS5");
        check("::/0 6\n", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "AS6");
    }

    #[test]
    fn what_is_no_table_is_refused() {
        check("", "1.1.1.1", "no networks in it");
        check("10.0.0.0/33 1\n", "1.1.1.1", "line 1 is no network: 10.0.0.0/33 1");
        check("10.0.0.9\t10.0.0.1\t1\n", "1.1.1.1", "line 1 is no network: 10.0.0.9\t10.0.0.1\t1");
        check("10.0.0.0/8 x\n", "1.1.1.1", "line 1 is no network: 10.0.0.0/8 x");
        let binary = Networks::read(&b"\xff\xfe\0"[..]).unwrap_err();
        assert!(binary.contains("mmdb"), "{binary}");
    }

    #[test]
    fn overlaps_that_are_no_tree_are_bounded() {
        let text: String = (0..2000).map(|i| format!("10.0.{}.{}\t10.9.0.0\t{}\n", i / 250, i % 250, i + 1)).collect();
        check(&text, "10.8.0.0", "AS2000");
        check("10.0.0.0\t10.0.0.9\t1\n10.0.0.5\t10.0.0.20\t2\n", "10.0.0.4", "AS1");
        check("10.0.0.0\t10.0.0.9\t1\n10.0.0.5\t10.0.0.20\t2\n", "10.0.0.15", "AS2");
        check("10.0.0.0\t10.0.0.9\t1\n10.0.0.5\t10.0.0.20\t2\n", "10.0.0.21", "none");
    }
}
