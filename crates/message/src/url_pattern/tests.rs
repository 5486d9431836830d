// SPDX-License-Identifier: BSD-2-Clause
//! Patterns and the URLs that they match; the values are those of the URL Pattern standard's algorithm.

use proptest::prelude::*;

use super::*;

const BASE: &[u8] = b"/js/app.v1.js?x=1";

fn parse(pattern: &str) -> Result<UrlPattern, UrlPatternError> {
    UrlPattern::parse(pattern.as_bytes(), b"example.com", BASE)
}

#[track_caller]
fn check(pattern: &str, yes: &[&str], no: &[&str]) {
    let parsed = parse(pattern).unwrap_or_else(|error| panic!("{pattern}: {error:?}"));
    for url in yes {
        assert!(parsed.matches(url.as_bytes()), "{pattern} matches {url}");
    }
    for url in no {
        assert!(!parsed.matches(url.as_bytes()), "{pattern} doesn't match {url}");
    }
}

#[track_caller]
fn refused(pattern: &str, error: UrlPatternError) {
    assert_eq!(parse(pattern).err(), Some(error), "{pattern}");
}

#[test]
fn a_star_is_any_text() {
    check("/app*js", &["/app.v1.js", "/appjs", "/app/a/b.js", "/app.js?q=1"], &["/app.css", "/x/app.js", "/App.js"]);
    check("/app/*/main.js", &["/app/1/main.js", "/app//main.js", "/app/a/b/main.js"], &["/app/main.js"]);
    check("/product/*", &["/product/", "/product/1?x"], &["/product", "/products/1"]);
    check("/*", &["/", "/a?b"], &[]);
    check("/d%C3%BCsseldorf", &["/d%C3%BCsseldorf"], &["/d%c3%bcsseldorf"]);
}

#[test]
fn a_name_is_one_segment() {
    check("/app/:version/main.js", &["/app/1.2/main.js"], &["/app//main.js", "/app/1/2/main.js"]);
    check("/:a-:b", &["/x-y", "/x-y-z"], &["/x", "/x-", "/a/x-y"]);
    check("/a/:id?", &["/a/1", "/a"], &["/a/", "/a/1/2"]);
    check("/a/:id+", &["/a/1", "/a/1/2"], &["/a", "/a/"]);
    check("/a/:id*", &["/a", "/a/1/2/3"], &["/a/", "/a//1"]);
    check("/a/*?", &["/a", "/a/", "/a/b/c"], &["/ab"]);
}

#[test]
fn braces_group_what_may_be_absent_or_recur() {
    check("/app{.min}?.js", &["/app.js", "/app.min.js"], &["/app.min.min.js"]);
    check("/app{-:part}*.js", &["/app.js", "/app-a.js", "/app-a-b.js"], &["/app-.js"]);
    check("/app{.x}+", &["/app.x", "/app.x.x"], &["/app"]);
    check("{/a}{/b*c}", &["/a/bc", "/a/b/x/c"], &["/a/b"]);
    check("/a{}*b", &["/ab"], &["/a"]);
}

#[test]
fn a_query_is_any_unless_the_pattern_has_one() {
    check("/a", &["/a", "/a?", "/a?x=1"], &["/a/"]);
    check("/a?x=*", &["/a?x=", "/a?x=1&y"], &["/a", "/a?y"]);
    check("/a\\?x", &["/a?x"], &["/a", "/ax"]);
    check("/*\\?v=:v", &["/a?v=1/2"], &["/a", "/a?v="]);
    check("?v=*", &["/js/app.v1.js?v=2"], &["/js/app.v1.js", "/js/app.v2.js?v=2"]);
    check("/{a}?b", &["/ab", "/b"], &["/a?b"]);
}

#[test]
fn a_relative_pattern_begins_at_the_directory_of_the_dictionary() {
    check("app*.js", &["/js/app.v2.js"], &["/app.v2.js", "/js/sub/app"]);
    check(":id?", &["/js", "/js/x"], &["/js/"]);
    check("*", &["/js/", "/js/a/b"], &["/css/a"]);
}

#[test]
fn the_origin_has_to_be_the_dictionarys_own() {
    check("https://example.com/app*", &["/app"], &["/"]);
    check("HTTPS://EXAMPLE.com/app*", &["/app"], &["/"]);
    for other in [
        "https://example.org/*",
        "https://*/a",
        "https://example.com:8443/a",
        "ftp://example.com/",
        "*://x/",
        "https://example.com",
    ] {
        refused(other, UrlPatternError::OtherOrigin);
    }
}

#[test]
fn a_backslash_takes_the_meaning() {
    check("/a\\*b\\:c\\{\\}\\\\", &["/a*b:c{}\\"], &["/aab:c{}\\"]);
}

#[test]
fn what_is_no_pattern_is_refused() {
    for pattern in ["/(\\d+)", "/:id(\\d+)", "/([a-z]*)"] {
        refused(pattern, UrlPatternError::Regexp);
    }
    check("/(.*)", &["/", "/a/b"], &[]);
    check("/:rest(.*).js", &["/a/b.js"], &["/a"]);
    check("/:x([^/]+?)", &["/a"], &["/a/b"]);
    for pattern in ["", "/{a", "/a}", "/{a{b}}", "/(a", "/:", "/a:", "/a\\", "/:x/:x", "/a+b", "/{a:b(.*", "/?a?"] {
        refused(pattern, UrlPatternError::Syntax);
    }
    refused("/a#b", UrlPatternError::Fragment);
    refused(&"/a".repeat(600), UrlPatternError::TooLong);
}

fn states(pattern: &UrlPattern) -> usize {
    pattern.path.states() + pattern.query.as_ref().map_or(0, Automaton::states)
}

#[test]
fn hostile_patterns_take_a_step_per_state_and_byte_at_most() {
    let url = b"/aaaaaaaaaa".repeat(180);
    for text in ["{*a}*".repeat(42), "*a".repeat(60), "*{a}?".repeat(45)] {
        let pattern = parse(&format!("/{text}")).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        let mut steps = 0;
        pattern.matches_in(&[&url[..], b"b"].concat(), &mut steps);
        assert!(steps > url.len(), "{text}: {steps}");
        assert!(steps <= (states(&pattern) + 1) * (url.len() + 2), "{text}: {steps}");
    }
}

#[test]
fn a_long_pattern_path_or_url_is_refused() {
    refused(&"{*a}*".repeat(200), UrlPatternError::TooManyStates);
    let long = ["/", &"a".repeat(300), "/app.js"].concat();
    let parse = |pattern: &[u8]| UrlPattern::parse(pattern, b"a", long.as_bytes()).map(drop);
    assert_eq!(parse(b"app*"), Err(UrlPatternError::TooManyStates));
    assert_eq!(parse(b"?x"), Err(UrlPatternError::TooManyStates));
    assert_eq!(parse(b"/app*"), Ok(()));
    let mut url = "/".repeat(2048);
    check("/*", &[&url], &[]);
    url.push('a');
    check("/*", &[], &[&url]);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(pattern in "[/a*:(){}?+\\\\.#-]{0,24}", url in "/[a/?:.]{0,24}") {
        if let Ok(parsed) = parse(&pattern) {
            parsed.matches(url.as_bytes());
        }
    }

    #[test]
    fn stars_match_as_a_naive_search_does(pattern in "/[ab*]{0,8}", url in "/[ab/]{0,12}") {
        // Two stars in a row are a star and a modifier.
        let pattern = pattern.replace("**", "*").replace("**", "*").replace("**", "*");
        // A star behind the first slash takes the slash with it only if it may be absent, which no star is here.
        let matched = parse(&pattern).unwrap().matches(url.as_bytes());
        prop_assert_eq!(matched, naive(pattern.as_bytes(), url.as_bytes()), "{} {}", pattern, url);
    }
}

fn naive(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| naive(rest, &text[at..])),
        Some((c, rest)) => text.first() == Some(c) && naive(rest, &text[1..]),
    }
}
