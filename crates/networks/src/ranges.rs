// SPDX-License-Identifier: BSD-2-Clause
//! Address ranges with what they belong to; the narrowest that has an address counts.

use std::net::IpAddr;

/// A range of IPv6 addresses, IPv4 mapped into them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRange {
    pub first: u128,
    pub last: u128,
    pub owner: u32,
}

/// The place of IPv4 addresses among IPv6 ones (RFC 4291 2.5.5.2).
const MAPPED: u128 = 0xffff << 32;

/// An address as a number; an IPv4 address and the IPv6 address that it is mapped to are the same.
pub fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => MAPPED | u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// All addresses of `address/length`. `None`: there is no such length.
pub fn prefix(address: IpAddr, length: u32) -> Option<(u128, u128)> {
    let bits = match address {
        IpAddr::V4(_) if length <= 32 => 32 - length,
        IpAddr::V6(_) if length <= 128 => 128 - length,
        IpAddr::V4(_) | IpAddr::V6(_) => return None,
    };
    let host = 1u128.checked_shl(bits).map_or(u128::MAX, |end| end - 1);
    let number = number_of(address);
    Some((number & !host, number | host))
}

/// Ranges that don't overlap, in order.
#[derive(Default, Debug)]
pub struct Ranges(Vec<AddressRange>);

impl Ranges {
    /// Sorts ranges that come in any order, which may lie within each other. Of two that are the same the later one
    /// counts.
    pub fn of(mut all: Vec<AddressRange>) -> Ranges {
        // Wide ones first, so that narrow ones lie on top of them.
        all.sort_by(|a, b| a.first.cmp(&b.first).then(b.last.cmp(&a.last)));
        let (mut flat, mut open): (Vec<AddressRange>, Vec<AddressRange>) = (Vec::with_capacity(all.len()), Vec::new());
        // Up to here everything is in `flat`; `None`: up to the last address there is.
        let mut next = Some(0u128);
        let mut put = |range: &AddressRange, next: &mut Option<u128>, until: u128| {
            let Some(from) = next.filter(|from| *from <= until) else { return };
            let first = range.first.max(from);
            match flat.last_mut() {
                Some(last) if last.owner == range.owner && last.last.checked_add(1) == Some(first) => last.last = until,
                _ => flat.push(AddressRange { first, last: until, owner: range.owner }),
            }
            *next = until.checked_add(1);
        };
        for range in all {
            while let Some(top) = open.pop_if(|top| top.last < range.first) {
                put(&top, &mut next, top.last);
            }
            if let (Some(top), Some(before)) = (open.last(), range.first.checked_sub(1)) {
                put(top, &mut next, before);
            }
            next = next.map(|next| next.max(range.first));
            open.push(range);
        }
        while let Some(top) = open.pop() {
            put(&top, &mut next, top.last);
        }
        Ranges(flat)
    }

    pub fn owner(&self, address: u128) -> Option<u32> {
        let after = self.0.partition_point(|range| range.first <= address);
        self.0[..after].last().filter(|range| address <= range.last).map(|range| range.owner)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(first: u128, last: u128, owner: u32) -> AddressRange {
        AddressRange { first, last, owner }
    }

    #[test]
    fn prefixes() {
        let ends = |text: &str, length| prefix(text.parse().unwrap(), length).map(|(a, b)| (a as u32, b as u32));
        assert_eq!(ends("10.1.2.3", 8), Some((0x0a00_0000, 0x0aff_ffff)));
        assert_eq!(ends("10.1.2.3", 32), Some((0x0a01_0203, 0x0a01_0203)));
        assert_eq!(ends("10.1.2.3", 33), None);
        assert_eq!(prefix("::".parse().unwrap(), 0), Some((0, u128::MAX)));
        assert_eq!(number_of("::ffff:1.2.3.4".parse().unwrap()), number_of("1.2.3.4".parse().unwrap()));
    }

    #[test]
    fn the_narrowest_counts() {
        let ranges =
            Ranges::of(vec![range(20, 29, 2), range(0, 99, 1), range(22, 23, 3), range(24, 24, 3), range(90, 99, 4)]);
        let owners: Vec<_> =
            [0, 19, 20, 22, 24, 25, 29, 30, 89, 90, 99, 100].iter().map(|&a| ranges.owner(a)).collect();
        let want = [1, 1, 2, 3, 3, 2, 2, 1, 1, 4, 4].map(Some);
        assert_eq!(owners[..11], want);
        assert_eq!(owners[11], None);
        assert_eq!(Ranges::of(vec![range(0, u128::MAX, 7), range(u128::MAX, u128::MAX, 8)]).owner(u128::MAX), Some(8));
    }

    proptest! {
        #[test]
        fn as_a_search_of_all_says(of in proptest::collection::vec((0u32..64, 0u32..7), 1..20)) {
            let all: Vec<AddressRange> = of.iter().enumerate().map(|(n, &(at, bits))| {
                let first = u128::from(at >> bits << bits);
                range(first, first + (1 << bits) - 1, n as u32)
            }).collect();
            let ranges = Ranges::of(all.clone());
            for address in 0..70u128 {
                let narrowest = all.iter().filter(|r| (r.first..=r.last).contains(&address))
                    .min_by_key(|r| (r.last - r.first, std::cmp::Reverse(r.owner))).map(|r| r.owner);
                prop_assert_eq!(ranges.owner(address), narrowest);
            }
        }
    }
}
