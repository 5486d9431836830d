// SPDX-License-Identifier: BSD-2-Clause
//! Numbers with units, addresses and networks, as squid writes them.

/// `5 minutes` in seconds; squid knows units by their beginnings.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number beyond the range is its end")]
pub(super) fn seconds(words: &[String]) -> u64 {
    const UNITS: [(&str, f64); 8] = [
        ("minute", 60.0),
        ("hour", 3600.0),
        ("day", 86_400.0),
        ("week", 604_800.0),
        ("fortnight", 1_209_600.0),
        ("month", 2_592_000.0),
        ("year", 31_557_790.0),
        ("decade", 315_577_900.0),
    ];
    let number: f64 = words.first().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let unit = words.get(1).map_or("", String::as_str);
    let unit = UNITS.iter().find(|(name, _)| unit.starts_with(name)).map_or(1.0, |(_, seconds)| *seconds);
    (number * unit) as u64
}

/// An address, network or range as entries of VCL's acls; None of a range that has a mask or is none.
pub(super) fn networks(text: &str) -> Option<Vec<String>> {
    match text.split_once('-').map(|(first, last)| (first.parse(), last.parse())) {
        Some((Ok(std::net::IpAddr::V4(first)), Ok(std::net::IpAddr::V4(last)))) => {
            range(u32::from(first).into(), u32::from(last).into())
        }
        Some((Ok(_), _) | (_, Ok(_))) => None,
        _ => Some(vec![network(text)]),
    }
}

pub(super) fn range(mut first: u64, last: u64) -> Option<Vec<String>> {
    let mut all = Vec::new();
    while first <= last {
        // The largest that begins here and doesn't go beyond the end: 62 networks at most.
        let bits = (0..=32).rev().find(|bits| first.is_multiple_of(1 << bits) && first + (1 << bits) - 1 <= last)?;
        let address = std::net::Ipv4Addr::from(u32::try_from(first).ok()?);
        all.push(if bits == 0 { format!("\"{address}\"") } else { format!("\"{address}\"/{}", 32 - bits) });
        first += 1 << bits;
    }
    (!all.is_empty()).then_some(all)
}

pub(super) fn network(text: &str) -> String {
    let (address, bits) = text.split_once('/').unwrap_or((text, ""));
    // 255.255.255.0 is 24 bits.
    let bits = match bits.parse::<std::net::Ipv4Addr>() {
        Ok(mask) => u32::from(mask).leading_ones().to_string(),
        Err(_) => bits.to_owned(),
    };
    if bits.is_empty() { format!("\"{address}\"") } else { format!("\"{address}\"/{bits}") }
}

/// `256 MB` as `-s` has it.
pub(super) fn size(words: &[String]) -> String {
    let number = words.first().map_or("256", String::as_str);
    let unit = words.get(1).map_or("MB", String::as_str);
    format!("{number}{}", unit.to_ascii_lowercase().chars().next().filter(|c| "kmgt".contains(*c)).unwrap_or('b'))
}

/// `4 MB` in bytes; a number alone is itself.
pub(super) fn bytes(words: &[String]) -> u64 {
    let number: u64 = words.first().and_then(|w| w.parse().ok()).unwrap_or(0);
    let unit = words.get(1).map_or("", String::as_str).to_ascii_lowercase();
    number
        << if unit.starts_with('k') {
            10
        } else if unit.starts_with('m') {
            20
        } else if unit.starts_with('g') {
            30
        } else {
            0
        }
}
