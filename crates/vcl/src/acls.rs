// SPDX-License-Identifier: BSD-2-Clause
//! `acl` declarations.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tables::vclvars::Type;

use crate::code::DiagnosticCode;
use crate::diag::{DiagnosticDraft, DiagnosticSeverity};
use crate::fold::{AclNetwork, Folding, fold};
use crate::lint::MAX_REMARKS;
use crate::program::{AclDecl, AclEntry};
use crate::symbols::SymbolMeaning;
use crate::token::{Tok, Token};
use crate::vcc::{CompileStopped, Vcc, VccResult};

struct Flags {
    log: bool,
    pedantic: bool,
    table: bool,
    fold: bool,
    report: bool,
}

struct EntrySource {
    negated: bool,
    in_parentheses: bool,
    addr: Token,
    host: String,
    mask: Option<(u32, Token)>,
    /// The mask, if it stood after the quotes: `"10.0.0.0" / 8`.
    mask_after: Option<u32>,
}

struct AclSoFar {
    decl: AclDecl,
    seen: HashMap<(IpAddr, u8), (bool, Token)>,
    networks: Vec<AclNetwork>,
}

impl Vcc<'_> {
    pub fn acl(&mut self) -> VccResult {
        self.next();
        self.expect_name("ACL")?;
        let id = self.declare(Type::Acl)?;
        let flags = self.acl_flags()?;
        let name = self.syms.get(id).name.clone();
        let Flags { log, pedantic, table, fold, report } = flags;
        let decl = AclDecl { name, log, pedantic, table, fold, entries: Vec::new() };
        let mut acl = AclSoFar { decl, seen: HashMap::new(), networks: Vec::new() };
        self.skip_c(b'{')?;
        while !self.is_c(b'}') {
            let entry = self.acl_entry()?;
            self.acl_add(entry, &mut acl)?;
            self.skip_c(b';')?;
        }
        self.next();
        if fold && report {
            self.report_folding(&acl);
        }
        let mut decl = acl.decl;
        // An entry that only got a warning is accepted.
        decl.pedantic &= self.syntax > 40;
        let index = self.program.acls.len() as u32;
        self.program.acls.push(decl);
        self.syms.get_mut(id).what = SymbolMeaning::Global(Some(index));
        Ok(())
    }

    fn acl_flags(&mut self) -> VccResult<Flags> {
        let fold = self.options.compat.is_9();
        let mut flags = Flags { log: false, pedantic: true, table: false, fold, report: true };
        while let Tok::C(sign @ (b'+' | b'-')) = self.tok() {
            let on = sign == b'+';
            let flag = self.peek(1);
            if flag.start != self.token().end || flag.src != self.token().src {
                self.begin(DiagnosticCode::AclEntry, "Expected a flag at:\n");
                self.show(&self.token());
                self.say("Valid ACL flags are `log` and `table`:\n");
                return Err(CompileStopped);
            }
            self.next();
            if self.here_is("log") {
                flags.log = on;
            } else if self.here_is("pedantic") {
                flags.pedantic = on;
            } else if self.here_is("table") {
                flags.table = on;
            } else if self.here_is("fold") {
                (flags.fold, flags.report) = (on, self.fold_options(on)?);
            } else {
                return self.fail(DiagnosticCode::AclEntry, "Unknown ACL flag:\n");
            }
            self.next();
        }
        Ok(flags)
    }

    /// Takes the rest of `+fold(-report)`, up to its last token. True: entries that are folded are reported.
    fn fold_options(&mut self, on: bool) -> VccResult<bool> {
        if self.peek(1).tok != Tok::C(b'(') {
            return Ok(true);
        }
        self.next();
        if !on {
            return self.fail(DiagnosticCode::AclEntry, "-fold(...) is invalid, use -fold:\n");
        }
        self.next();
        let reports = self.is_c(b'+');
        if !matches!(self.tok(), Tok::C(b'+' | b'-')) || !self.is_word(&self.peek(1), "report") {
            return self.fail(DiagnosticCode::AclEntry, "Expected +report or -report at:\n");
        }
        self.next();
        self.next();
        self.expect(Tok::C(b')'))?;
        Ok(reports)
    }

    fn report_folding(&mut self, acl: &AclSoFar) {
        let (mut changes, mut more) = (Vec::new(), 0);
        fold(&acl.networks, &mut |change| match changes.len() < MAX_REMARKS {
            true => changes.push(change),
            false => more += 1,
        });
        // A network that is wider than its entry has the entry's token.
        let tokens: HashMap<usize, Token> =
            acl.networks.iter().map(|net| (net.entry, acl.seen[&(net.ip, net.bits)].1)).collect();
        for change in changes {
            let (first, between, second, last) = match change {
                Folding::Contained { inner, outer } => (outer, "supersedes / removes:\n", inner, String::new()),
                Folding::Halves { left, right } => {
                    let removing = "removing the latter and expanding mask of the former by one to";
                    (left, "left of:\n", right, format!("{removing} /{}\n", left.bits - 1))
                }
            };
            self.begin(DiagnosticCode::AclEntry, "ACL entry:\n");
            self.show(&tokens[&first.entry]);
            self.say(between);
            self.show(&tokens[&second.entry]);
            self.say(&last);
            self.warn();
        }
        if more > 0 {
            self.begin(DiagnosticCode::AclEntry, &format!("{more} more ACL entries are folded.\n"));
            self.warn();
        }
    }

    fn acl_entry(&mut self) -> VccResult<EntrySource> {
        let (mut negated, mut in_parentheses) = (false, false);
        if self.is_c(b'!') {
            negated = true;
            self.next();
        }
        if self.is_c(b'(') {
            in_parentheses = true;
            self.next();
        }
        if !negated && self.is_c(b'!') {
            negated = true;
            self.next();
        }
        self.expect(Tok::Str)?;
        let addr = self.token();
        self.next();
        let whole = self.content_text(&addr);
        let (mut host, mut mask, mut mask_after) = (whole.clone(), None, None);
        if let Some((before, after)) = whole.split_once('/') {
            let Ok(bits) = after.parse::<u32>() else {
                return self.fail_at(DiagnosticCode::AclEntry, ".../mask is not numeric.\n", &addr);
            };
            mask = Some((bits, addr));
            host = before.to_owned();
            if self.is_c(b'/') {
                return self.fail(DiagnosticCode::AclEntry, "/mask only allowed once.\n");
            }
        } else if self.is_c(b'/') {
            self.next();
            let token = self.token();
            let bits = self.unsigned()?;
            mask = Some((bits, token));
            mask_after = Some(bits);
        }
        if in_parentheses {
            self.skip_c(b')')?;
        }
        Ok(EntrySource { negated, in_parentheses, addr, host, mask, mask_after })
    }

    fn acl_add(&mut self, entry: EntrySource, acl: &mut AclSoFar) -> VccResult {
        if let Some((ip, bits)) = net_notation(&entry.host) {
            let bits = entry.mask.map_or(bits, |(bits, _)| bits);
            self.acl_address(&entry, IpAddr::V4(ip), bits, acl)?;
            self.acl_push(&entry, Vec::new(), &mut acl.decl);
            return Ok(());
        }
        let found = match self.addresses(&entry.host) {
            Ok(found) => found,
            Err(reason) if entry.in_parentheses => {
                let text = format!("Warning: {} ignored\n  -- {reason}\n", entry.host);
                let ignored = DiagnosticDraft::new(DiagnosticCode::Address, text).finish(
                    DiagnosticSeverity::Warning,
                    "",
                    &self.sources,
                );
                self.found.push(ignored);
                return Ok(());
            }
            Err(reason) => {
                return self.fail_at(
                    DiagnosticCode::Address,
                    &format!("DNS lookup({}): {reason}\n", entry.host),
                    &entry.addr,
                );
            }
        };
        let both = found.iter().any(|ip| ip.is_ipv4()) && found.iter().any(|ip| ip.is_ipv6());
        if let (Some((bits, token)), true) = (entry.mask, both) {
            let text = format!("Mask (/{bits}) specified, but string resolves to both IPv4 and IPv6 addresses.\n");
            return self.fail_at(DiagnosticCode::AclEntry, &text, &token);
        }
        for ip in &found {
            let bits = entry.mask.map_or(if ip.is_ipv4() { 32 } else { 128 }, |(bits, _)| bits);
            self.acl_address(&entry, *ip, bits, acl)?;
        }
        self.acl_push(&entry, found, &mut acl.decl);
        Ok(())
    }

    fn acl_push(&self, entry: &EntrySource, resolved: Vec<IpAddr>, decl: &mut AclDecl) {
        decl.entries.push(AclEntry {
            negated: entry.negated,
            ignorable: entry.in_parentheses,
            addr: self.content_text(&entry.addr),
            mask: entry.mask_after,
            resolved,
        });
    }

    fn acl_address(&mut self, entry: &EntrySource, ip: IpAddr, bits: u32, acl: &mut AclSoFar) -> VccResult {
        let (most, family) = if ip.is_ipv4() { (32, "IPv4") } else { (128, "IPv6") };
        if bits > most {
            let at = entry.mask.map_or(entry.addr, |(_, token)| token);
            return self.fail_at(
                DiagnosticCode::AclEntry,
                &format!("Too wide mask (/{bits}) for {family} address\n"),
                &at,
            );
        }
        let net = masked(ip, bits);
        if net != ip && acl.decl.pedantic {
            let say = format!("Non-zero bits in masked part, (maybe use {net}/{bits} ?)\n");
            // Varnish before 7.0 accepted host bits beyond the mask silently, and files of that time declare `vcl
            // 4.0;`.
            if self.syntax > 40 {
                self.hint(
                    "`acl NAME -pedantic { ... }` takes it as that network, as `vcl 4.0;` and releases before 7.0 do.",
                );
                return self.fail_at(DiagnosticCode::AclHostBits, &say, &entry.addr);
            }
            self.begin(DiagnosticCode::AclHostBits, &say);
            self.show(&entry.addr);
            self.warn();
        }
        let (bits, is_negated, index) = (bits as u8, entry.negated, acl.decl.entries.len());
        match acl.seen.get(&(net, bits)) {
            Some((negated, first)) if *negated != is_negated => {
                let first = *first;
                self.begin(DiagnosticCode::AclEntry, "Conflicting ACL entries:\n");
                self.show(&first);
                self.fail_at(DiagnosticCode::AclEntry, "vs:\n", &entry.addr)
            }
            Some(_) => Ok(()),
            None => {
                acl.seen.insert((net, bits), (is_negated, entry.addr));
                acl.networks.push(AclNetwork { ip: net, bits, is_negated, entry: index, is_folded: false });
                Ok(())
            }
        }
    }
}

/// Reads `192.168` as a network, not as a short host address. Returns its bytes and 8 bits of mask for each.
fn net_notation(text: &str) -> Option<(Ipv4Addr, u32)> {
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    let mut bytes = [0u8; 4];
    for (byte, part) in bytes.iter_mut().zip(&parts) {
        if part.is_empty() || !part.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        *byte = part.parse().ok()?;
    }
    Some((Ipv4Addr::from(bytes), 8 * parts.len() as u32))
}

pub(crate) fn masked(ip: IpAddr, bits: u32) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip) & u32::MAX.checked_shl(32 - bits).unwrap_or(0)).into(),
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) & u128::MAX.checked_shl(128 - bits).unwrap_or(0)).into(),
    }
}
