// SPDX-License-Identifier: BSD-2-Clause
//! ACLs of vcl(7): built once per VCL from the entries as written, matched by the longest prefix.
//!
//! As in Varnish an IPv4 address never matches an IPv6 entry, and a name stands for all its addresses at load time.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vcl::fold::{AclNetwork, fold};

/// An ACL as its declaration says it.
#[derive(Clone, Debug, Default)]
pub struct AclDeclaration {
    /// The name in VCL.
    pub name: String,
    /// The flags after the name.
    pub flags: AclFlags,
    /// The entries in order.
    pub entries: Vec<DeclaredEntry>,
}

/// The flags `+log`, `-pedantic`, `+table` and `+fold`.
#[derive(Clone, Copy, Debug)]
pub struct AclFlags {
    /// Log a `VCL_acl` record for each match.
    pub log: bool,
    /// Bits beyond a mask are an error (default) or are cleared.
    pub pedantic: bool,
    /// Changes nothing but the log text for no match, as Varnish's tables do.
    pub table: bool,
    /// Networks that belong together become one ([`vcl::fold`]), which only the log shows.
    pub fold: bool,
}

impl Default for AclFlags {
    fn default() -> Self {
        AclFlags { log: false, pedantic: true, table: false, fold: false }
    }
}

/// One entry of a declaration.
#[derive(Clone, Debug, Default)]
pub struct DeclaredEntry {
    /// True for an entry with `!`.
    pub negated: bool,
    /// In parentheses: left out when its name can't be resolved.
    pub ignorable: bool,
    /// Text in the quotes; `address/mask` is possible.
    pub addr: String,
    /// The number after `"..." /`.
    pub mask: Option<u32>,
}

/// Reason why an ACL can't be built; `entry` is its index in [`AclDeclaration::entries`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclError {
    /// Index of the entry.
    pub entry: usize,
    /// True: the mask is to blame; false: the address.
    pub at_mask: bool,
    /// For a conflict, the earlier entry: Varnish shows both.
    pub other: Option<usize>,
    /// Varnish's text, without the place in the source.
    pub text: String,
}

/// Turns a host name into addresses, or says why not (`getaddrinfo`'s text).
pub type Resolve<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<IpAddr>, String>;

/// An ACL that can match addresses.
#[derive(Debug)]
pub struct Acl {
    name: String,
    v4: Family,
    v6: Family,
    no_match: Option<Box<str>>,
}

/// Prefixes of one address family: the longest first, those of one length in order.
#[derive(Debug, Default)]
struct Family(Vec<(u8, Vec<Rule>)>);

#[derive(Debug)]
struct Rule {
    /// The address, left-aligned, bits beyond the mask zero.
    prefix: u128,
    allowed: bool,
    log: Option<Box<str>>,
    entry: usize,
}

/// Result of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclVerdict<'a> {
    /// The value of `ip ~ acl`.
    pub allowed: bool,
    /// The text of the `VCL_acl` record; `None` unless the ACL has `+log`.
    pub log: Option<&'a str>,
}

impl Acl {
    /// Builds it. Entries left out because their name can't be resolved are told in `warnings`.
    ///
    /// # Errors
    /// The first entry that is wrong.
    pub fn build(decl: &AclDeclaration, resolve: Resolve<'_>, warnings: &mut Vec<String>) -> Result<Acl, AclError> {
        let mut acl = Acl { name: decl.name.clone(), v4: Family::default(), v6: Family::default(), no_match: None };
        for (index, entry) in decl.entries.iter().enumerate() {
            let (addr, mask) = split_mask(entry).map_err(|text| fault(index, false, text))?;
            let found = match net_notation(addr) {
                Some((ip, bits)) => vec![(IpAddr::V4(ip), mask.unwrap_or(bits))],
                None => match resolved(addr, mask, resolve) {
                    Ok(found) => found,
                    Err(ResolveFailure::Mixed(text)) => return Err(fault(index, true, text)),
                    Err(ResolveFailure::Name(reason)) if entry.ignorable => {
                        warnings.push(format!("Warning: {addr} ignored\n  -- {reason}\n"));
                        continue;
                    }
                    Err(ResolveFailure::Name(reason)) => {
                        return Err(fault(index, false, format!("DNS lookup({addr}): {reason}\n")));
                    }
                },
            };
            for (ip, mask) in found {
                acl.add(decl, index, ip, mask)?;
            }
        }
        if decl.flags.fold {
            acl.fold(decl);
        }
        acl.no_match = decl.flags.log.then(|| {
            let word = if decl.flags.table && acl.disjoint_rules() > 1 { "NO MATCH" } else { "NO_MATCH" };
            format!("{word} {}", decl.name).into()
        });
        Ok(acl)
    }

    /// The name in VCL.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Matches an address against the entries.
    pub fn matches(&self, ip: IpAddr) -> AclVerdict<'_> {
        match self.rule_of(ip) {
            Some(rule) => AclVerdict { allowed: rule.allowed, log: rule.log.as_deref() },
            None => AclVerdict { allowed: false, log: self.no_match.as_deref() },
        }
    }

    /// The index in [`AclDeclaration::entries`] of the entry that decides about an address.
    pub fn entry_of(&self, ip: IpAddr) -> Option<usize> {
        self.rule_of(ip).map(|rule| rule.entry)
    }

    fn rule_of(&self, ip: IpAddr) -> Option<&Rule> {
        match ip {
            IpAddr::V4(ip) => self.v4.find(aligned4(ip)),
            IpAddr::V6(ip) => self.v6.find(ip.to_bits()),
        }
    }

    fn add(&mut self, decl: &AclDeclaration, index: usize, ip: IpAddr, mask: u32) -> Result<(), AclError> {
        let (family, bits, width, version) = match ip {
            IpAddr::V4(ip) => (&mut self.v4, aligned4(ip), 32, 4),
            IpAddr::V6(ip) => (&mut self.v6, ip.to_bits(), 128, 6),
        };
        if mask > width {
            return Err(fault(index, true, format!("Too wide mask (/{mask}) for IPv{version} address\n")));
        }
        let entry = &decl.entries[index];
        let prefix = bits & leading(mask);
        let mut fixed = String::new();
        if prefix != bits {
            let shown = if ip.is_ipv4() { v4_of(prefix) } else { v6_of(prefix) };
            fixed = format!("{shown}/{mask}");
            if decl.flags.pedantic {
                return Err(fault(index, false, format!("Non-zero bits in masked part, (maybe use {fixed} ?)\n")));
            }
        }
        let log = decl.flags.log.then(|| log_text(&decl.name, entry, mask, &fixed));
        let rule = Rule { prefix, allowed: !entry.negated, log, entry: index };
        family.insert(mask as u8, rule).map_err(|earlier| AclError {
            entry: index,
            at_mask: false,
            other: Some(earlier),
            text: "Conflicting ACL entries:\n".into(),
        })
    }

    /// Makes one rule of those that belong together. Results of matches stay the same.
    fn fold(&mut self, decl: &AclDeclaration) {
        let mut networks: Vec<AclNetwork> = self.networks().collect();
        networks.sort_by_key(|net| net.entry);
        let folded = fold(&networks, &mut |_| {});
        if folded.len() == networks.len() {
            return;
        }
        let (v4, v6) = (std::mem::take(&mut self.v4), std::mem::take(&mut self.v6));
        let mut logs: HashMap<(IpAddr, u8), Option<Box<str>>> = v4.logs(v4_of).chain(v6.logs(v6_of)).collect();
        for net in folded {
            let log = match logs.remove(&(net.ip, net.bits)).filter(|_| !net.is_folded) {
                Some(log) => log,
                None => {
                    decl.flags.log.then(|| log_text(&decl.name, &decl.entries[net.entry], net.bits.into(), "folded"))
                }
            };
            let (family, prefix) = match net.ip {
                IpAddr::V4(ip) => (&mut self.v4, aligned4(ip)),
                IpAddr::V6(ip) => (&mut self.v6, ip.to_bits()),
            };
            let rule = Rule { prefix, allowed: !net.is_negated, log, entry: net.entry };
            family.insert(net.bits, rule).expect("folding contradicts no entry");
        }
    }

    fn networks(&self) -> impl Iterator<Item = AclNetwork> {
        self.v4.networks(v4_of).chain(self.v6.networks(v6_of))
    }

    /// Number of rules that no longer rule covers part of: Varnish puts just these into its table.
    fn disjoint_rules(&self) -> usize {
        [&self.v4, &self.v6].into_iter().map(Family::outermost).sum()
    }
}

impl Family {
    /// Err: an earlier entry says the opposite. Of two equal ones the first stays.
    fn insert(&mut self, mask: u8, rule: Rule) -> Result<(), usize> {
        let at = match self.0.binary_search_by(|(len, _)| mask.cmp(len)) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (mask, Vec::new()));
                at
            }
        };
        let rules = &mut self.0[at].1;
        match rules.binary_search_by_key(&rule.prefix, |other| other.prefix) {
            Ok(same) if rules[same].allowed != rule.allowed => Err(rules[same].entry),
            Ok(_) => Ok(()),
            Err(place) => {
                rules.insert(place, rule);
                Ok(())
            }
        }
    }

    fn find(&self, bits: u128) -> Option<&Rule> {
        self.0.iter().find_map(|(mask, rules)| {
            let prefix = bits & leading((*mask).into());
            rules.binary_search_by_key(&prefix, |rule| rule.prefix).ok().map(|at| &rules[at])
        })
    }

    /// Each rule as a network; `ip` makes an address of its prefix.
    fn networks(&self, ip: fn(u128) -> IpAddr) -> impl Iterator<Item = AclNetwork> {
        let network = move |bits: u8, rule: &Rule| AclNetwork {
            ip: ip(rule.prefix),
            bits,
            is_negated: !rule.allowed,
            entry: rule.entry,
            is_folded: false,
        };
        self.0.iter().flat_map(move |(bits, rules)| rules.iter().map(move |rule| network(*bits, rule)))
    }

    /// The log text of each rule.
    fn logs(self, ip: fn(u128) -> IpAddr) -> impl Iterator<Item = ((IpAddr, u8), Option<Box<str>>)> {
        self.0
            .into_iter()
            .flat_map(move |(bits, rules)| rules.into_iter().map(move |rule| ((ip(rule.prefix), bits), rule.log)))
    }

    /// Rules that no shorter rule covers.
    fn outermost(&self) -> usize {
        let covered = |mask: u8, prefix: u128| {
            self.0.iter().filter(|(shorter, _)| *shorter < mask).any(|(shorter, rules)| {
                let cut = prefix & leading((*shorter).into());
                rules.binary_search_by_key(&cut, |rule| rule.prefix).is_ok()
            })
        };
        self.0.iter().map(|(mask, rules)| rules.iter().filter(|rule| !covered(*mask, rule.prefix)).count()).sum()
    }
}

fn fault(entry: usize, at_mask: bool, text: impl Into<String>) -> AclError {
    AclError { entry, at_mask, other: None, text: text.into() }
}

fn aligned4(ip: Ipv4Addr) -> u128 {
    u128::from(ip.to_bits()) << 96
}

fn v4_of(prefix: u128) -> IpAddr {
    Ipv4Addr::from_bits((prefix >> 96) as u32).into()
}

fn v6_of(prefix: u128) -> IpAddr {
    Ipv6Addr::from_bits(prefix).into()
}

fn leading(mask: u32) -> u128 {
    u128::MAX.checked_shl(128 - mask).unwrap_or(0)
}

fn split_mask(entry: &DeclaredEntry) -> Result<(&str, Option<u32>), &'static str> {
    match entry.addr.split_once('/') {
        None => Ok((&entry.addr, entry.mask)),
        Some(_) if entry.mask.is_some() => Err("/mask only allowed once.\n"),
        Some((addr, "")) => Ok((addr, Some(0))),
        Some((addr, mask)) => match mask.parse() {
            Ok(mask) => Ok((addr, Some(mask))),
            Err(_) => Err(".../mask is not numeric.\n"),
        },
    }
}

/// `10`, `10.1`, `10.1.2`, `10.1.2.3`: the parts given are the leading ones. And the bits that were given.
fn net_notation(text: &str) -> Option<(Ipv4Addr, u32)> {
    let mut octets = [0u8; 4];
    let mut count = 0;
    for part in text.split('.') {
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octets.get_mut(count)? = part.parse().ok()?;
        count += 1;
    }
    Some((octets.into(), 8 * count as u32))
}

enum ResolveFailure {
    Name(String),
    Mixed(String),
}

fn resolved(name: &str, mask: Option<u32>, resolve: Resolve<'_>) -> Result<Vec<(IpAddr, u32)>, ResolveFailure> {
    let found = match name.parse() {
        Ok(ip) => vec![ip],
        Err(_) => resolve(name).map_err(ResolveFailure::Name)?,
    };
    match mask {
        Some(mask) if found.iter().any(IpAddr::is_ipv4) && found.iter().any(IpAddr::is_ipv6) => {
            Err(ResolveFailure::Mixed(format!(
                "Mask (/{mask}) specified, but string resolves to both IPv4 and IPv6 addresses.\n"
            )))
        }
        _ => Ok(found.into_iter().map(|ip| (ip, mask.unwrap_or(if ip.is_ipv4() { 32 } else { 128 }))).collect()),
    }
}

/// Varnish shows the entry's words: the address in quotes, a mask that stood beside it, and what was cleared.
fn log_text(acl: &str, entry: &DeclaredEntry, mask: u32, fixed: &str) -> Box<str> {
    let word = if entry.negated { "NEG_MATCH" } else { "MATCH" };
    let addr = entry.addr.split('/').next().unwrap_or_default();
    let mut text = format!("{word} {acl} \"{addr}\"");
    if entry.mask.is_some() {
        text += &format!("/{mask}");
    }
    if !fixed.is_empty() {
        text += &format!(" fixed: {fixed}");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `! ("addr") / mask`, separated by `;`.
    fn decl(flags: AclFlags, entries: &str) -> AclDeclaration {
        let entry = |text: &str| {
            let text = text.trim();
            let (text, negated) = text.strip_prefix('!').map_or((text, false), |rest| (rest.trim(), true));
            let (text, ignorable) =
                text.strip_prefix('(').map_or((text, false), |rest| (rest.trim_end_matches(')'), true));
            let (addr, rest) = text[1..].split_once('"').expect("quotes");
            let mask = rest.trim().strip_prefix('/').map(|mask| mask.trim().parse().expect("a mask"));
            DeclaredEntry { negated, ignorable, addr: addr.into(), mask }
        };
        AclDeclaration { name: "a".into(), flags, entries: entries.split(';').map(entry).collect() }
    }

    fn build(flags: AclFlags, entries: &str) -> Result<Acl, AclError> {
        let mut resolve = |name: &str| match name {
            "both.example" => Ok(vec!["192.0.2.1".parse().expect("v4"), "2001:db8::1".parse().expect("v6")]),
            _ => Err("Name or service not known".to_owned()),
        };
        Acl::build(&decl(flags, entries), &mut resolve, &mut Vec::new())
    }

    const LOG: AclFlags = AclFlags { log: true, pedantic: true, table: false, fold: false };

    fn check(acl: &Acl, ip: &str, allowed: bool, log: &str) {
        let want = AclVerdict { allowed, log: Some(log) };
        assert_eq!(acl.matches(ip.parse().expect("an address")), want, "{ip}");
    }

    #[test]
    fn the_longest_prefix_decides_and_is_logged() {
        let text = r#""10.0.0.0"/24; ! "10.0.0.5"; "10.1.0.0/16"; "192.168"/16; "::1"; "10.2.3.4""#;
        let acl = build(LOG, text).expect("good");
        check(&acl, "10.0.0.1", true, r#"MATCH a "10.0.0.0"/24"#);
        check(&acl, "10.0.0.5", false, r#"NEG_MATCH a "10.0.0.5""#);
        check(&acl, "10.1.0.5", true, r#"MATCH a "10.1.0.0""#);
        check(&acl, "192.168.0.5", true, r#"MATCH a "192.168"/16"#);
        check(&acl, "::1", true, r#"MATCH a "::1""#);
        check(&acl, "::2", false, "NO_MATCH a");
        check(&acl, "10.2.3.4", true, r#"MATCH a "10.2.3.4""#);
    }

    #[test]
    fn without_pedantic_host_bits_are_cleared() {
        let acl = build(AclFlags { pedantic: false, ..LOG }, r#""10.0.0.7"/24"#).expect("good");
        check(&acl, "10.0.0.1", true, r#"MATCH a "10.0.0.7"/24 fixed: 10.0.0.0/24"#);
        check(&acl, "10.0.1.1", false, "NO_MATCH a");
    }

    #[test]
    fn tables_say_no_match_in_two_words() {
        let flags = AclFlags { table: true, ..LOG };
        let acl = build(flags, r#""10.0.0.0"/24; "10.1.0.0/16""#).expect("good");
        check(&acl, "10.3.0.1", false, "NO MATCH a");
        let acl = build(flags, r#""10.0.0.0"/24; !"10.0.0.1""#).expect("good");
        check(&acl, "10.3.0.1", false, "NO_MATCH a");
    }

    #[test]
    fn folded_entries_are_logged_as_such() {
        let flags = AclFlags { fold: true, ..LOG };
        let text = r#""10.0.0.128"/25; "10.0.0.0"/25; "10.0.1.0/24"; "10.1.0.0"/16; "10.1.2.3"; ! "10.1.4.4"; "192.0.2.2"; "192.0.2.3""#;
        let acl = build(flags, text).expect("good");
        check(&acl, "10.0.0.200", true, r#"MATCH a "10.0.0.0"/23 fixed: folded"#);
        check(&acl, "10.0.1.1", true, r#"MATCH a "10.0.0.0"/23 fixed: folded"#);
        check(&acl, "10.1.2.3", true, r#"MATCH a "10.1.0.0"/16"#);
        check(&acl, "10.1.4.4", false, r#"NEG_MATCH a "10.1.4.4""#);
        check(&acl, "192.0.2.3", true, r#"MATCH a "192.0.2.2" fixed: folded"#);
        check(&acl, "192.0.2.1", false, "NO_MATCH a");
    }

    #[test]
    fn zero_masks_and_both_families() {
        let acl = build(LOG, r#""0.0.0.0"/0; "both.example""#).expect("good");
        check(&acl, "1.2.3.4", true, r#"MATCH a "0.0.0.0"/0"#);
        check(&acl, "192.0.2.1", true, r#"MATCH a "both.example""#);
        check(&acl, "2001:db8::1", true, r#"MATCH a "both.example""#);
        check(&acl, "2001:db8::2", false, "NO_MATCH a");
        assert_eq!(
            build(AclFlags::default(), r#""1.2.3.4""#).expect("good").matches(Ipv4Addr::LOCALHOST.into()).log,
            None
        );
    }

    #[test]
    fn errors_say_what_varnish_says() {
        let text = |entries: &str| build(LOG, entries).expect_err("bad").text;
        assert_eq!(text(r#""1.2.3.4"/33"#), "Too wide mask (/33) for IPv4 address\n");
        assert_eq!(text(r#""::1"/129"#), "Too wide mask (/129) for IPv6 address\n");
        assert_eq!(text(r#""10.0.0.7"/24"#), "Non-zero bits in masked part, (maybe use 10.0.0.0/24 ?)\n");
        assert_eq!(text(r#""1.2.3.0/24"/24"#), "/mask only allowed once.\n");
        assert_eq!(text(r#""1.2.3.0/2x""#), ".../mask is not numeric.\n");
        assert_eq!(text(r#""nowhere.example""#), "DNS lookup(nowhere.example): Name or service not known\n");
        let mixed = "Mask (/24) specified, but string resolves to both IPv4 and IPv6 addresses.\n";
        assert_eq!(text(r#""both.example"/24"#), mixed);
        let conflict = build(LOG, r#""1.2.3.4"; !"1.2.3.4""#).expect_err("bad");
        assert_eq!((conflict.entry, conflict.other), (1, Some(0)));
    }

    #[test]
    fn names_in_parentheses_may_fail() {
        let mut warnings = Vec::new();
        let acl = Acl::build(
            &decl(LOG, r#"("nowhere.example"); "1.2.3.4""#),
            &mut |_| Err("Name or service not known".into()),
            &mut warnings,
        )
        .expect("good");
        assert_eq!(warnings, ["Warning: nowhere.example ignored\n  -- Name or service not known\n"]);
        check(&acl, "1.2.3.4", true, r#"MATCH a "1.2.3.4""#);
    }
}
