// SPDX-License-Identifier: BSD-2-Clause
//! Address ranges as operators of bots publish them: `{"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}, {"ipv6Prefix": "2001:db8::/32"}]}`.

use std::net::IpAddr;

use serde_json::Value;

use crate::ranges::{AddressRange, Ranges, number_of, prefix};

const MOST_PREFIXES: usize = 100_000;
/// The shortest prefixes that a bot may have. A shorter one would make a bot of a large part of the internet.
const SHORTEST: (u32, u32) = (8, 19);
/// The first and the last IPv6 address that stands for one of IPv4.
const MAPPED: (u128, u128) = (0xffff << 32, 0xffff << 32 | 0xffff_ffff);

#[derive(Debug)]
pub struct PublishedRanges {
    ranges: Ranges,
    prefixes: usize,
}

impl PublishedRanges {
    /// Reads a file.
    ///
    /// # Errors
    /// The text isn't JSON of that form, has no prefix, or a malformed one.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let file: Value = serde_json::from_slice(json).map_err(|error| format!("not JSON: {error}"))?;
        let prefixes = file.get("prefixes").and_then(Value::as_array).ok_or("no array \"prefixes\"")?;
        if prefixes.is_empty() || prefixes.len() > MOST_PREFIXES {
            return Err(format!("{} prefixes; there may be 1 to {MOST_PREFIXES}", prefixes.len()));
        }
        let ranges = prefixes
            .iter()
            .enumerate()
            .map(|(at, entry)| range(entry).map_err(|why| format!("prefix {}: {why}", at + 1)));
        let ranges = Ranges::of(ranges.collect::<Result<_, _>>()?);
        Ok(PublishedRanges { ranges, prefixes: prefixes.len() })
    }

    pub fn has(&self, address: IpAddr) -> bool {
        self.ranges.owner(number_of(address.to_canonical())).is_some()
    }

    pub fn prefixes(&self) -> usize {
        self.prefixes
    }
}

fn range(entry: &Value) -> Result<AddressRange, String> {
    let text = match (entry.get("ipv4Prefix"), entry.get("ipv6Prefix")) {
        (Some(text), None) | (None, Some(text)) => text.as_str().ok_or("the prefix isn't a text")?,
        (Some(_), Some(_)) => return Err("both ipv4Prefix and ipv6Prefix".into()),
        (None, None) => return Err("neither ipv4Prefix nor ipv6Prefix".into()),
    };
    let wrong = || format!("\"{}\" is no prefix", text.escape_debug());
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let (address, length): (IpAddr, u32) =
        (address.parse().map_err(|_| wrong())?, length.parse().map_err(|_| wrong())?);
    if address.is_ipv4() != entry.get("ipv4Prefix").is_some() {
        return Err(format!("\"{text}\" is of the other family"));
    }
    let (first, last) = prefix(address, length).ok_or_else(wrong)?;
    // A length means something in its own family only, and IPv4 lies within IPv6.
    if address.is_ipv6() && first <= MAPPED.1 && MAPPED.0 <= last {
        return Err(format!("\"{text}\" has addresses of IPv4"));
    }
    if length < if address.is_ipv4() { SHORTEST.0 } else { SHORTEST.1 } {
        return Err(format!("\"{text}\" is too short"));
    }
    Ok(AddressRange { first, last, owner: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(json: &str) -> Result<PublishedRanges, String> {
        PublishedRanges::parse(json.as_bytes())
    }

    #[test]
    fn a_file_as_search_engines_publish_it() {
        let ranges = parse(
            "{\"creationTime\":\"2026-01-01\",\"prefixes\":[{\"ipv6Prefix\":\"2001:db8:7::/48\"},{\"ipv4Prefix\":\"192.0.2.64/27\"}]}",
        )
        .expect("valid");
        assert_eq!(ranges.prefixes(), 2);
        for (address, is_in) in [
            ("192.0.2.64", true),
            ("192.0.2.95", true),
            ("192.0.2.96", false),
            ("::ffff:192.0.2.70", true),
            ("2001:db8:7:ffff::1", true),
            ("2001:db8:8::1", false),
        ] {
            assert_eq!(ranges.has(address.parse().expect("an address")), is_in, "{address}");
        }
    }

    #[test]
    fn malformed_files_are_refused_with_the_place() {
        for (json, why) in [
            ("", "not JSON"),
            ("[]", "no array \"prefixes\""),
            ("{\"prefixes\":[]}", "0 prefixes"),
            ("{\"prefixes\":[{\"ipv4Prefix\":\"192.0.2.0/24\"},{}]}", "prefix 2: neither"),
            ("{\"prefixes\":[{\"ipv4Prefix\":\"192.0.2.0\"}]}", "prefix 1: \"192.0.2.0\" is no prefix"),
            ("{\"prefixes\":[{\"ipv4Prefix\":\"192.0.2.0/33\"}]}", "is no prefix"),
            ("{\"prefixes\":[{\"ipv4Prefix\":\"0.0.0.0/0\"}]}", "is too short"),
            ("{\"prefixes\":[{\"ipv6Prefix\":\"2000::/18\"}]}", "is too short"),
            ("{\"prefixes\":[{\"ipv6Prefix\":\"::/0\"}]}", "has addresses of IPv4"),
            ("{\"prefixes\":[{\"ipv6Prefix\":\"::/19\"}]}", "has addresses of IPv4"),
            ("{\"prefixes\":[{\"ipv6Prefix\":\"::ffff:0:0/96\"}]}", "has addresses of IPv4"),
            ("{\"prefixes\":[{\"ipv6Prefix\":\"::ffff:192.0.2.0/120\"}]}", "has addresses of IPv4"),
            ("{\"prefixes\":[{\"ipv4Prefix\":\"192.0.2.0/24\",\"ipv6Prefix\":\"2001:db8::/32\"}]}", "both"),
            ("{\"prefixes\":[{\"ipv6Prefix\":\"192.0.2.0/24\"}]}", "is of the other family"),
            ("{\"prefixes\":[{\"ipv4Prefix\":\"2001:db8::/32\"}]}", "is of the other family"),
            ("{\"prefixes\":[{\"ipv4Prefix\":7}]}", "isn't a text"),
            ("{\"prefixes\":[{\"ipv4Prefix\":7,\"ipv6Prefix\":\"2001:db8::/32\"}]}", "both"),
        ] {
            let refused = parse(json).expect_err(json);
            assert!(refused.contains(why), "{json}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,40}") {
            let _ = PublishedRanges::parse(&bytes);
            let json = serde_json::json!({ "prefixes": [{ "ipv4Prefix": text }] }).to_string();
            let _ = PublishedRanges::parse(json.as_bytes());
        }

        #[test]
        fn each_address_of_a_prefix_is_in_it_and_its_neighbours_are_not(number in any::<u32>(), length in 8u32..=32) {
            let address = IpAddr::V4(number.into());
            let ranges = parse(&format!("{{\"prefixes\":[{{\"ipv4Prefix\":\"{address}/{length}\"}}]}}")).expect("valid");
            let size = 1u64 << (32 - length);
            let first = u64::from(number) / size * size;
            let has = |n: u64| u32::try_from(n).is_ok_and(|n| ranges.has(IpAddr::V4(n.into())));
            prop_assert!(has(first) && has(first + size - 1) && !has(first + size));
            prop_assert!(first == 0 || !has(first - 1));
        }
    }
}
