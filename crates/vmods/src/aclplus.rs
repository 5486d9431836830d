// SPDX-License-Identifier: BSD-2-Clause
//! vmod_aclplus: access lists that are texts. A place in the source keeps the last few that it used, ready to match.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tables::Tag;
use vrt::Text;
use vrt::acl::{Acl, AclDeclaration, AclFlags, DeclaredEntry};
use vrt::vmod::VmodCall;

/// Lists that one place keeps.
const FEW: usize = 16;
/// Rules of one list; a longer one matches nothing.
const RULES: usize = 10_000;
/// Most faults of a list that are logged.
const FAULTS: usize = 10;

vrt::vmod! {
    /// Access lists as strings: IPv4 and IPv6 addresses and networks (ADDRESS/BITS), separated by commas. A rule with a
    /// leading ! denies, wherever it is in the list. An invalid rule matches nothing, and is logged as VCL_Error unless the
    /// whole string is a word
    pub(crate) static VMOD = aclplus;

    functions {
        /// Returns whether a rule matches the address and no denying rule does
        fn match(ip: IP, acl: STRING) -> BOOL, local
            = |call: &mut VmodCall<'_>, ip: Option<SocketAddr>, acl: Option<&Text>| find(call, ip, acl).is_some();

        /// Returns the matching rule as written; unset if match() is false
        fn find(ip: IP, acl: STRING) -> STRING, local = find;
    }
}

#[derive(Default)]
struct ListCache(Mutex<Vec<(Text, Arc<List>)>>);

struct List {
    allow: Option<Acl>,
    deny: Option<Acl>,
    rules: Vec<Text>,
    faults: Vec<String>,
}

fn find(call: &mut VmodCall<'_>, ip: Option<SocketAddr>, acl: Option<&Text>) -> Option<Text> {
    let ip = ip?.ip();
    let list = kept(call, acl?);
    for fault in &list.faults {
        call.ctx.log().putf(Tag::VclError, format_args!("aclplus: {fault}"));
    }
    list.find(ip)
}

fn kept(call: &VmodCall<'_>, text: &Text) -> Arc<List> {
    let kept = call.site.get_or(ListCache::default);
    if let Some((_, list)) = kept.0.lock().iter().find(|(known, _)| known == text) {
        return list.clone();
    }
    let list = Arc::new(List::read(text));
    let mut kept = kept.0.lock();
    if kept.len() >= FEW {
        kept.remove(0);
    }
    kept.push((text.clone(), list.clone()));
    list
}

struct Rule<'a> {
    text: &'a str,
    addr: IpAddr,
    bits: u32,
}

fn network(rule: &str) -> Option<(IpAddr, u32)> {
    let (addr, bits) = match rule.split_once('/') {
        Some((addr, bits)) => (addr.trim_end(), Some(bits.trim_start())),
        None => (rule, None),
    };
    let addr: IpAddr = addr.parse().ok()?;
    let width = if addr.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) if bits.bytes().all(|b| b.is_ascii_digit()) => bits.parse().ok()?,
        Some(_) => return None,
        None => width,
    };
    (bits <= width).then_some((addr, bits))
}

/// The rules as one of VCL's lists, and their texts in its order.
fn acl(mut rules: Vec<Rule<'_>>) -> (Option<Acl>, Vec<Text>) {
    // In this order each is added behind the others of its length.
    rules.sort_by_key(|rule| (rule.bits, rule.addr));
    let entry = |rule: &Rule<'_>| DeclaredEntry {
        addr: rule.addr.to_string(),
        mask: Some(rule.bits),
        ..DeclaredEntry::default()
    };
    let flags = AclFlags { pedantic: false, ..AclFlags::default() };
    let decl = AclDeclaration { name: "aclplus".into(), flags, entries: rules.iter().map(entry).collect() };
    let built = Acl::build(&decl, &mut |_| Err("not an address".into()), &mut Vec::new());
    (built.ok(), rules.iter().map(|rule| Text::copy(rule.text.as_bytes())).collect())
}

impl List {
    fn read(text: &[u8]) -> List {
        let text = String::from_utf8_lossy(text);
        let (mut allow, mut deny, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for (n, text) in text.split(',').map(str::trim).filter(|rule| !rule.is_empty()).enumerate() {
            if n >= RULES {
                let faults = vec![format!("more than {RULES} rules: none matches")];
                return List { allow: None, deny: None, rules: Vec::new(), faults };
            }
            let (list, rest) = match text.strip_prefix('!') {
                Some(rest) => (&mut deny, rest.trim_start()),
                None => (&mut allow, text),
            };
            match network(rest) {
                Some((addr, bits)) => list.push(Rule { text, addr, bits }),
                None if faults.len() < FAULTS => {
                    faults.push(format!("\"{}\" is neither an address nor a network", text.escape_debug()));
                }
                None => {}
            }
        }
        // A word like "none" is how files say that there is no list: the documentation's own example does.
        if text.bytes().all(|b| b.is_ascii_alphabetic()) {
            faults.clear();
        }
        let (allow, rules) = acl(allow);
        List { allow, deny: acl(deny).0, rules, faults }
    }

    fn find(&self, ip: IpAddr) -> Option<Text> {
        if self.deny.as_ref()?.entry_of(ip).is_some() {
            return None;
        }
        self.rules.get(self.allow.as_ref()?.entry_of(ip)?).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, ip: &str, wanted: Option<&str>) {
        let found = List::read(list.as_bytes()).find(ip.parse().expect("an address"));
        assert_eq!(found.map(|text| text.lossy().into_owned()).as_deref(), wanted, "{ip} in {list}");
    }

    #[test]
    fn rules() {
        let list = "127.0.0.1, !192.168.0.1, 192.168.0.0/16,::1, !::2, fe00::1/16,,";
        for (ip, wanted) in [
            ("127.0.0.1", Some("127.0.0.1")),
            ("127.0.0.2", None),
            ("192.168.0.1", None),
            ("192.168.200.1", Some("192.168.0.0/16")),
            ("::1", Some("::1")),
            ("::2", None),
            ("fe00:1::", Some("fe00::1/16")),
            ("fe01::", None),
        ] {
            check(list, ip, wanted);
        }
        // Denied wherever it stands, and however short the rule.
        check("10.1.0.0/16, !10.0.0.0/8", "10.1.2.3", None);
        check("!10.1.0.0/16, 10.0.0.0/8", "10.1.2.3", None);
        check("! 10.1.0.0 / 16, 10.0.0.0/8", "10.1.2.3", None);
        check("10.0.0.0/8, 10.1.0.0/16, 0.0.0.0/0", "10.1.2.3", Some("10.1.0.0/16"));
        check("0.0.0.0/0, ::/0", "10.1.2.3", Some("0.0.0.0/0"));
        check("", "10.1.2.3", None);
        check("!10.0.0.0/8", "11.1.2.3", None);
    }

    #[test]
    fn what_is_no_rule_matches_nothing() {
        for bad in [
            "error.",
            "10.1",
            "10.0.0.0/33",
            "::/129",
            "1.2.3.4/",
            "1.2.3.4/-1",
            "1.2.3.4/99999999999",
            "!",
            "a.example",
        ] {
            let list = List::read(format!("{bad},1.2.3.4").as_bytes());
            assert_eq!(list.faults.len(), 1, "{bad}");
            assert!(list.find([1, 2, 3, 4].into()).is_some() && list.find([10, 1, 0, 0].into()).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_word_is_no_fault() {
        let list = List::read(b"none");
        assert!(list.faults.is_empty() && list.find([1, 2, 3, 4].into()).is_none());
    }

    #[test]
    fn long_lists() {
        let rules = |count: u32| {
            (0..count)
                .rev()
                .map(|n| std::net::Ipv4Addr::from_bits(n << 8).to_string() + "/24")
                .collect::<Vec<_>>()
                .join(",")
        };
        let list = List::read(rules(10_000).as_bytes());
        assert_eq!(list.find([0, 0, 7, 9].into()), Some(Text::from("0.0.7.0/24")));
        let list = List::read(rules(10_001).as_bytes());
        assert!(list.find([0, 0, 7, 9].into()).is_none() && list.faults.len() == 1);
    }

    proptest::proptest! {
        #[test]
        fn any_text(text in "[0-9a-f:./!, ]{0,40}") {
            List::read(text.as_bytes()).find([1, 2, 3, 4].into());
        }
    }
}
