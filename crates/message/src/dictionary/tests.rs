// SPDX-License-Identifier: BSD-2-Clause
//! Fields about dictionaries.

use proptest::prelude::*;

use super::*;

const EMPTY: DictionaryHash = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];
const EMPTY_FIELD: &str = ":47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";

fn head(fields: &[(&str, &str)]) -> Head {
    let mut head = Head::new();
    for (name, value) in fields {
        head.append(name, value).unwrap();
    }
    head
}

fn offer(accept_encoding: &str, available: &str) -> Result<Option<DictionaryHash>, MalformedHash> {
    offered(&head(&[("Accept-Encoding", accept_encoding), (AVAILABLE_DICTIONARY, available)]))
}

#[track_caller]
fn check_liked(accept_encoding: &str, is_liked: bool) {
    assert_eq!(offer(accept_encoding, EMPTY_FIELD), Ok(is_liked.then_some(EMPTY)), "{accept_encoding}");
}

#[track_caller]
fn check_rule(field: &str, expected: Result<(), DictionaryRuleError>) {
    assert_eq!(DictionaryRule::parse(field.as_bytes(), b"a", b"/x").map(drop), expected, "{field}");
}

#[test]
fn an_offer_is_a_hash() {
    assert_eq!(offer("gzip, br, zstd, dcb, dcz", EMPTY_FIELD), Ok(Some(EMPTY)));
    let unpadded = EMPTY_FIELD.replace('=', "");
    assert_eq!(offer("dcz", &unpadded), Ok(Some(EMPTY)), "RFC 9651 4.2.7 doesn't require padding");
    assert_eq!(offered(&head(&[("Accept-Encoding", "dcz")])), Ok(None));
}

#[test]
fn dcz_counts_where_no_other_coding_outweighs_it() {
    for yes in
        ["gzip, br, zstd, dcb, dcz", "DCZ", "dcz;q=0.5, br;q=0.5", "dcb, dcz;q=0.1", "*;q=1, dcz;q=0.1", "dcz, dcz;q=0"]
    {
        check_liked(yes, true);
    }
    for no in ["br, dcz;q=0.9", "dcz;q=0", "dcz;q=0.000", "dcb", "*", "gzip, br", "", "dcz;q=0, dcz", "dczz"] {
        check_liked(no, false);
    }
}

#[test]
fn a_malformed_hash_is_reported() {
    for bad in ["", ":", "::", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", ":abc=:", &EMPTY_FIELD.replace('+', "-")]
    {
        assert_eq!(offer("dcz", bad), Err(MalformedHash), "{bad}");
    }
    let twice = [(AVAILABLE_DICTIONARY, EMPTY_FIELD), (AVAILABLE_DICTIONARY, EMPTY_FIELD), ("Accept-Encoding", "dcz")];
    assert_eq!(offered(&head(&twice)), Err(MalformedHash));
}

#[test]
fn a_rule_has_a_match() {
    check_rule("match=\"/app*js\"", Ok(()));
    check_rule("match=\"/app/*\", match-dest=(\"document\" \"script\"), id=\"v1\", type=raw, ttl=5, new=?1", Ok(()));
    check_rule("id=\"v1\"", Err(DictionaryRuleError::NoMatch));
    check_rule("", Err(DictionaryRuleError::NoMatch));
    check_rule("match=\"/a\", type=zstd", Err(DictionaryRuleError::UnknownType));
    for bad in [
        "match=/a",
        "match=\"/a",
        "match=\"/a\", match-dest=document",
        "match=\"/a\", type=\"raw\"",
        "match=\"/a\",",
        "match=\"/\u{e4}\"",
    ] {
        check_rule(bad, Err(DictionaryRuleError::Malformed));
    }
    check_rule(&format!("match=\"/a\", id=\"{}\"", "x".repeat(1025)), Err(DictionaryRuleError::Malformed));
    check_rule("match=\"/(\\\\d)\"", Err(DictionaryRuleError::Pattern(UrlPatternError::Regexp)));
    check_rule("match=\"https://b/\"", Err(DictionaryRuleError::Pattern(UrlPatternError::OtherOrigin)));
}

#[test]
fn a_rule_may_be_for_some_destinations() {
    let rule = DictionaryRule::parse(b"match=\"/a*\", match-dest=(\"script\")", b"a", b"/").unwrap();
    assert!(rule.matches(b"/a1", Some(b"script")) && rule.matches(b"/a1", None));
    assert!(!rule.matches(b"/a1", Some(b"document")) && !rule.matches(b"/b", Some(b"script")));
    let fetched = DictionaryRule::parse(b"match=\"/a*\", match-dest=(\"\")", b"a", b"/").unwrap();
    assert!(fetched.matches(b"/a1", Some(b"empty")) && !fetched.matches(b"/a1", Some(b"script")), "RFC 9842 2.1.2");
    let any = DictionaryRule::parse(b"match=\"/a*\", match-dest=()", b"a", b"/").unwrap();
    assert!(any.matches(b"/a1", Some(b"document")));
}

#[test]
fn a_page_of_another_origin_gets_what_it_may_read() {
    let check = |request: &[(&str, &str)], response: &[(&str, &str)], expected: bool| {
        assert_eq!(is_readable(&head(request), &head(response)), expected, "{request:?} {response:?}");
    };
    let (cross, cors) = (("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "cors"));
    let (origin, all) = (("Origin", "https://b"), ("Access-Control-Allow-Origin", "*"));
    check(&[], &[], true);
    check(&[("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "no-cors")], &[], true);
    check(&[cross], &[], true);
    check(&[cross, ("Sec-Fetch-Mode", "navigate")], &[], true);
    check(&[cross, ("Sec-Fetch-Mode", "same-origin")], &[], true);
    check(&[cross, ("Sec-Fetch-Mode", "no-cors")], &[all], false);
    check(&[("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "no-cors")], &[], false);
    check(&[cross, cors], &[all], false);
    check(&[cross, cors, origin], &[], false);
    check(&[cross, cors, origin], &[all], true);
    check(&[cross, cors, origin], &[("Access-Control-Allow-Origin", "https://b")], true);
    check(&[cross, cors, origin], &[("Access-Control-Allow-Origin", "https://c")], false);
}

#[test]
fn vary_names_both_fields_once() {
    let both = Some(b"Accept-Encoding, Available-Dictionary".to_vec());
    assert_eq!(vary_on_dictionary(None), both);
    assert_eq!(vary_on_dictionary(Some(b"accept-encoding")), Some(b"accept-encoding, Available-Dictionary".to_vec()));
    assert_eq!(vary_on_dictionary(both.as_deref()), None);
    assert_eq!(vary_on_dictionary(Some(b"*")), None);
    assert!(varies_by_dictionary(b"Available-Dictionary,accept-encoding") && !varies_by_dictionary(b"Accept-Encoding"));
}

#[test]
fn content_codings_with_a_dictionary_are_found_in_a_list() {
    assert!(needs_dictionary(b"dcb") && needs_dictionary(b"gzip, DCZ"));
    assert!(!needs_dictionary(b"br") && !needs_dictionary(b"dcbx"));
}

proptest! {
    #[test]
    fn any_field_is_read_or_refused(field in proptest::collection::vec(any::<u8>(), 0..80), url in "/[a-c?/]{0,8}") {
        if let Ok(rule) = DictionaryRule::parse(&field, b"a", url.as_bytes()) {
            rule.matches(url.as_bytes(), None);
        }
        hash_of(&field);
    }

    #[test]
    fn a_hash_is_read_as_it_was_written(hash in proptest::array::uniform32(any::<u8>())) {
        prop_assert_eq!(hash_of(format!(":{}:", base::base64::encode(&hash)).as_bytes()), Some(hash));
    }
}
