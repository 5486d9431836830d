// SPDX-License-Identifier: BSD-2-Clause
//! Folding of an ACL's networks, the flag `+fold` of Varnish 7.5 and later: a network within another one goes, and the two
//! halves of a network become one. Results of matches stay the same; the logged entries don't.
//!
//! Networks are added in the order of the declaration, as the log's entries depend on it. Excluded ones (`!`) are never folded,
//! and a network within one of them stays, too. Varnish doesn't look ahead: there an exclusion that comes last takes addresses
//! of an entry that was folded before.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

/// One network of an ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AclNetwork {
    /// The address. Bits beyond the mask are zero.
    pub ip: IpAddr,
    /// Length of the mask in bits.
    pub bits: u8,
    /// `!`: excludes the addresses.
    pub is_negated: bool,
    /// Index of the entry in the declaration.
    pub entry: usize,
    /// The network is wider than its entry says.
    pub is_folded: bool,
}

/// A change by folding, with the networks as they were before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folding {
    Contained { inner: AclNetwork, outer: AclNetwork },
    Halves { left: AclNetwork, right: AclNetwork },
}

/// Folds networks that are given in the order of the declaration, and calls `tell` for each change.
pub fn fold(networks: &[AclNetwork], tell: &mut dyn FnMut(Folding)) -> Vec<AclNetwork> {
    let excluded = networks.iter().filter(|net| net.is_negated).map(Key::of).collect();
    let mut folder = Folder { networks: BTreeMap::new(), excluded, tell };
    networks.iter().for_each(|net| folder.add(*net));
    folder.networks.into_values().collect()
}

/// Order of networks: by family, then by the last address, and the smaller one first where two end alike, so a network
/// stands behind all that it contains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    is_v6: bool,
    last: u128,
    host_bits: u32,
}

impl Key {
    fn of(net: &AclNetwork) -> Key {
        let host_bits = width(net.ip) - u32::from(net.bits);
        Key { is_v6: net.ip.is_ipv6(), last: number(net.ip) | hosts(host_bits), host_bits }
    }

    /// The network with so many host bits that contains this one.
    fn widened(self, host_bits: u32) -> Key {
        Key { last: self.last | hosts(host_bits), host_bits, ..self }
    }

    fn contains(self, other: Key) -> bool {
        let first = self.last & !hosts(self.host_bits);
        self.is_v6 == other.is_v6 && self.host_bits > other.host_bits && (first..=self.last).contains(&other.last)
    }

    /// The network of which this one and `right` are the halves.
    fn joined(self, right: Key) -> Option<Key> {
        let joined = Key { host_bits: self.host_bits + 1, ..right };
        let is_half = self.is_v6 == right.is_v6
            && self.host_bits == right.host_bits
            && joined.contains(self)
            && self.last < right.last
            && right.last == right.last | hosts(joined.host_bits);
        is_half.then_some(joined)
    }
}

struct Folder<'a> {
    networks: BTreeMap<Key, AclNetwork>,
    excluded: HashSet<Key>,
    tell: &'a mut dyn FnMut(Folding),
}

impl Folder<'_> {
    fn add(&mut self, net: AclNetwork) {
        let key = Key::of(&net);
        if self.networks.contains_key(&key) {
            return;
        }
        self.networks.insert(key, net);
        if net.is_negated {
            return;
        }
        while let Some((before, inner)) = self.before(key) {
            if !self.may_contain(key, before) {
                break;
            }
            (self.tell)(Folding::Contained { inner, outer: net });
            self.networks.remove(&before);
        }
        if let Some((before, left)) = self.before(key)
            && self.join((before, left), (key, net))
        {
            return;
        }
        let Some((after, next)) = self.after(key) else { return };
        if self.may_contain(after, key) {
            (self.tell)(Folding::Contained { inner: net, outer: next });
            self.networks.remove(&key);
        } else {
            self.join((key, net), (after, next));
        }
    }

    /// True if `outer` contains `inner`, and no exclusion is within the one and contains the other.
    fn may_contain(&self, outer: Key, inner: Key) -> bool {
        let mut between = (inner.host_bits..outer.host_bits).map(|host_bits| inner.widened(host_bits));
        outer.contains(inner) && !between.any(|net| self.excluded.contains(&net))
    }

    /// The allowed network just before `key`.
    fn before(&self, key: Key) -> Option<(Key, AclNetwork)> {
        let (before, net) = self.networks.range(..key).next_back()?;
        (!net.is_negated).then_some((*before, *net))
    }

    fn after(&self, key: Key) -> Option<(Key, AclNetwork)> {
        let mut behind = self.networks.range(key..).skip(1);
        let (after, net) = behind.next()?;
        (!net.is_negated).then_some((*after, *net))
    }

    /// Makes one of two halves, unless just that network is excluded. False: they aren't halves.
    fn join(&mut self, (left_key, left): (Key, AclNetwork), (right_key, right): (Key, AclNetwork)) -> bool {
        let joined = left_key.joined(right_key);
        let Some(_) = joined.filter(|key| !self.excluded.contains(key)) else { return false };
        (self.tell)(Folding::Halves { left, right });
        self.networks.remove(&left_key);
        self.networks.remove(&right_key);
        self.add(AclNetwork { bits: left.bits - 1, is_folded: true, ..left });
        true
    }
}

fn width(ip: IpAddr) -> u32 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// A number of which the lowest `bits` are set.
fn hosts(bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(text: &str) -> Vec<AclNetwork> {
        let network = |(entry, word): (usize, &str)| {
            let (ip, bits) = word.trim_start_matches('!').split_once('/').expect("a mask");
            let (ip, bits) = (ip.parse().expect("an address"), bits.parse().expect("a number"));
            AclNetwork { ip, bits, is_negated: word.starts_with('!'), entry, is_folded: false }
        };
        text.split_whitespace().enumerate().map(network).collect()
    }

    fn folded(text: &str) -> (String, usize) {
        let mut changes = 0;
        let nets = fold(&networks(text), &mut |_| changes += 1);
        let word = |net: &AclNetwork| {
            let (no, mark) = (if net.is_negated { "!" } else { "" }, if net.is_folded { "*" } else { "" });
            format!("{no}{}/{}{mark}", net.ip, net.bits)
        };
        (nets.iter().map(word).collect::<Vec<_>>().join(" "), changes)
    }

    fn check(text: &str, want: &str, changes: usize) {
        assert_eq!(folded(text), (want.to_owned(), changes), "{text}");
    }

    #[test]
    fn what_is_within_another_goes() {
        check("10.0.0.0/8 10.1.0.0/16 10.1.2.3/32", "10.0.0.0/8", 2);
        check("10.1.2.3/32 10.1.0.0/16 10.0.0.0/8", "10.0.0.0/8", 2);
        check("10.1.2.3/32 0.0.0.0/0 ::1/128 ::/0", "0.0.0.0/0 ::/0", 2);
    }

    #[test]
    fn halves_become_one() {
        check("10.0.0.0/25 10.0.0.128/25", "10.0.0.0/24*", 1);
        check("10.0.0.128/25 10.0.0.0/25 10.0.1.0/24", "10.0.0.0/23*", 2);
        check("2001:db8::/33 2001:db8:8000::/33", "2001:db8::/32*", 1);
        check("0.0.0.0/1 128.0.0.0/1", "0.0.0.0/0*", 1);
        check("10.0.0.1/32 10.0.0.2/32", "10.0.0.1/32 10.0.0.2/32", 0);
        check("10.0.0.128/25 10.0.1.0/25", "10.0.0.128/25 10.0.1.0/25", 0);
        check("0.0.0.0/0 ::/0", "0.0.0.0/0 ::/0", 0);
    }

    #[test]
    fn one_network_twice_is_one() {
        check("127.0.0.1/32 127.0.0.1/32", "127.0.0.1/32", 0);
    }

    #[test]
    fn exclusions_keep_their_place() {
        check("!10.0.0.0/23 10.0.3.0/24 10.0.2.0/23", "!10.0.0.0/23 10.0.2.0/23", 1);
        check("!10.1.0.0/23 10.1.3.0/24 10.1.0.0/22", "!10.1.0.0/23 10.1.0.0/22", 1);
        check("10.1.0.0/16 10.1.2.3/32 !10.1.4.4/32", "!10.1.4.4/32 10.1.0.0/16", 1);
        check("!10.1.4.4/32 10.1.0.0/16 10.1.2.3/32", "10.1.2.3/32 !10.1.4.4/32 10.1.0.0/16", 0);
        check("10.0.0.0/16 10.0.0.0/25 !10.0.0.0/24", "10.0.0.0/25 !10.0.0.0/24 10.0.0.0/16", 0);
        check("10.0.0.0/25 10.0.0.128/25 !10.0.0.0/24", "10.0.0.0/25 10.0.0.128/25 !10.0.0.0/24", 0);
    }

    mod drawn {
        use proptest::prelude::*;

        use super::*;

        /// The verdict of the longest network that has the address.
        fn verdict(nets: &[AclNetwork], ip: u8) -> Option<bool> {
            let holds = |net: &&AclNetwork| {
                let of = number(net.ip) as u8;
                of == ip & u8::MAX.checked_shl(32 - u32::from(net.bits)).unwrap_or(0)
            };
            nets.iter().filter(holds).max_by_key(|net| net.bits).map(|net| !net.is_negated)
        }

        proptest! {
            #[test]
            fn no_result_changes(drawn in proptest::collection::vec((any::<u8>(), 24u8..=32, 0u8..5), 1..20)) {
                let mut nets: Vec<AclNetwork> = Vec::new();
                for (entry, (last, bits, negated)) in drawn.into_iter().enumerate() {
                    let last = last & u8::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                    let ip = IpAddr::from([10, 0, 0, last]);
                    if nets.iter().all(|net| (net.ip, net.bits) != (ip, bits)) {
                        nets.push(AclNetwork { ip, bits, is_negated: negated == 0, entry, is_folded: false });
                    }
                }
                let folded = fold(&nets, &mut |_| {});
                for ip in 0..=255 {
                    prop_assert_eq!(verdict(&folded, ip), verdict(&nets, ip), "10.0.0.{} {:?} {:?}", ip, nets, folded);
                }
            }
        }
    }
}
