// SPDX-License-Identifier: BSD-2-Clause
//! Numbers with units, addresses and networks, as squid writes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `5 minutes` in whole seconds; None of what is no time. squid knows units by their beginnings, in any letters; a number alone is seconds, as it
/// was before squid 5.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number beyond the range is its end")]
pub(super) fn seconds(words: &[String]) -> Option<u64> {
    const UNITS: [(&str, f64); 9] = [
        ("second", 1.0),
        ("minute", 60.0),
        ("hour", 3600.0),
        ("day", 86_400.0),
        ("week", 604_800.0),
        ("fortnight", 1_209_600.0),
        ("month", 2_592_000.0),
        ("year", 31_557_790.0),
        ("decade", 315_577_900.0),
    ];
    let number = decimal(words.first()?)?;
    let unit = words.get(1).map_or("second".to_owned(), |unit| unit.to_ascii_lowercase());
    let (_, unit) = UNITS.iter().find(|(name, _)| number == 0.0 || unit.starts_with(name))?;
    Some((number * unit) as u64)
}

fn decimal(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    text.parse().ok().filter(|_| is_plain)
}

/// Entries of VCL's acls.
#[derive(Default)]
pub(super) struct Networks {
    pub entries: Vec<String>,
    /// An address had bits that its mask doesn't have.
    pub is_cut: bool,
}

impl Networks {
    /// An address, a network or a range; None of a range that has a mask, or of any other text. squid looks names of hosts up, the
    /// compiler of a configuration asks no resolver.
    pub(super) fn of(text: &str) -> Option<Networks> {
        let plain = |entries: &[&str]| {
            Some(Networks { entries: entries.iter().map(|entry| (*entry).to_owned()).collect(), is_cut: false })
        };
        match text {
            "all" => return plain(&["\"0.0.0.0\"/0", "\"::\"/0"]),
            "ipv4" => return plain(&["\"0.0.0.0\"/0"]),
            "ipv6" => return plain(&["\"::\"/0"]),
            _ => {}
        }
        match text.split_once('-').map(|(first, last)| (first.parse(), last.parse())) {
            Some((Ok(IpAddr::V4(first)), Ok(IpAddr::V4(last)))) => {
                let entries = range(u32::from(first).into(), u32::from(last).into())?;
                Some(Networks { entries, is_cut: false })
            }
            Some((Ok(_), _) | (_, Ok(_))) => None,
            _ => network(text),
        }
    }
}

pub(super) fn range(mut first: u64, last: u64) -> Option<Vec<String>> {
    let mut all = Vec::new();
    while first <= last {
        // The largest that begins here and doesn't go beyond the end: 62 networks at most.
        let bits = (0..=32).rev().find(|bits| first.is_multiple_of(1 << bits) && first + (1 << bits) - 1 <= last)?;
        let address = Ipv4Addr::from(u32::try_from(first).ok()?);
        all.push(if bits == 0 { format!("\"{address}\"") } else { format!("\"{address}\"/{}", 32 - bits) });
        first += 1 << bits;
    }
    (!all.is_empty()).then_some(all)
}

/// A host, or a network without the bits that its mask doesn't have: VCL takes none with them.
fn network(text: &str) -> Option<Networks> {
    let Some((address, mask)) = text.split_once('/') else {
        let entries = vec![format!("\"{}\"", text.parse::<IpAddr>().ok()?)];
        return Some(Networks { entries, is_cut: false });
    };
    let address: IpAddr = address.parse().ok()?;
    let (value, width) = bits(address);
    let count = match mask.parse::<IpAddr>() {
        Ok(mask) if mask.is_ipv4() == address.is_ipv4() => {
            let (mask, _) = bits(mask);
            // 255.255.255.0 is 24 bits.
            let count = mask.leading_ones();
            (mask.checked_shl(count).unwrap_or(0) == 0).then_some(count)?
        }
        Ok(_) => return None,
        Err(_) => mask.parse().ok().filter(|count| *count <= width)?,
    };
    let kept = value & u128::MAX.checked_shl(128 - count).unwrap_or(0);
    let first = match address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from(u32::try_from(kept >> 96).ok()?)),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from(kept)),
    };
    Some(Networks { entries: vec![format!("\"{first}\"/{count}")], is_cut: kept != value })
}

/// The bits of an address from the top of a number, and their count.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u32, &str); 3] = [(30, "g"), (20, "m"), (10, "k")];
    let whole = UNITS.iter().find(|(shift, _)| bytes.trailing_zeros() >= *shift);
    whole.map_or_else(|| format!("{bytes}b"), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// `4 MB` in bytes; a number alone is itself. None of what is no size.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number beyond the range is its end")]
pub(super) fn bytes(words: &[String]) -> Option<u64> {
    const UNITS: [(&str, f64); 4] = [("bytes", 1.0), ("kb", 1024.0), ("mb", 1_048_576.0), ("gb", 1_073_741_824.0)];
    let number = decimal(words.first()?)?;
    let unit = words.get(1).map_or("bytes".to_owned(), |unit| unit.to_ascii_lowercase());
    let (_, unit) = UNITS.iter().find(|(name, _)| number == 0.0 || unit.starts_with(name))?;
    Some((number * unit) as u64)
}
