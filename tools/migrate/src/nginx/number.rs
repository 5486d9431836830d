// SPDX-License-Identifier: BSD-2-Clause
//! Numbers, times, sizes and switches, as nginx reads them. nginx doesn't start with a value that it can't read, and so such a value is an error: no
//! default takes its place.

use super::config::Directive;
use super::scope::KINDS;

/// The words that a directive takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ValueKind {
    /// One time, to the millisecond; without years and months.
    Millis,
    /// One time in whole seconds.
    Seconds,
    /// One or two times, the second of them in seconds.
    Keepalive,
    /// One size, at most in `m`.
    Size,
    /// One size or position in a file, also in `g`.
    Offset,
    /// A number, then a size.
    Buffers,
    /// One whole number.
    Number,
    /// One whole number above 0.
    Count,
    /// `on` or `off`, in any letters.
    Switch,
}

use ValueKind::{Buffers, Count, Keepalive, Millis, Number, Offset, Seconds, Size, Switch};

/// Names of directives. Those of `proxy_` are those of the other handlers, too.
#[rustfmt::skip]
const VALUES: &[(ValueKind, &[&str])] = &[
    (Millis, &[
        "proxy_connect_timeout", "proxy_read_timeout", "proxy_send_timeout", "proxy_next_upstream_timeout", "proxy_cache_lock_timeout", "proxy_cache_lock_age",
        "client_body_timeout", "client_header_timeout", "send_timeout", "lingering_time", "lingering_timeout", "keepalive_time", "resolver_timeout", "auth_delay",
    ]),
    (Seconds, &["ssl_session_timeout", "open_file_cache_valid"]),
    (Keepalive, &["keepalive_timeout"]),
    (Size, &[
        "proxy_buffer_size", "proxy_busy_buffers_size", "proxy_max_temp_file_size", "proxy_temp_file_write_size", "client_body_buffer_size",
        "client_header_buffer_size", "slice", "gzip_min_length", "sendfile_max_chunk", "postpone_output", "ssl_buffer_size", "limit_rate", "limit_rate_after",
        "proxy_limit_rate",
    ]),
    (Offset, &["client_max_body_size", "proxy_cache_max_range_offset"]),
    (Buffers, &["proxy_buffers", "gzip_buffers", "gunzip_buffers", "large_client_header_buffers", "output_buffers"]),
    (Number, &["keepalive_requests", "max_ranges", "proxy_next_upstream_tries", "gzip_comp_level", "open_file_cache_min_uses", "proxy_cache_min_uses"]),
    (Switch, &[
        "proxy_buffering", "proxy_request_buffering", "proxy_intercept_errors", "proxy_cache_lock", "proxy_cache_revalidate", "proxy_cache_background_update",
        "proxy_cache_convert_head", "proxy_force_ranges", "proxy_ignore_client_abort", "proxy_pass_request_headers", "proxy_pass_request_body",
        "proxy_socket_keepalive", "proxy_ssl_server_name", "proxy_ssl_session_reuse", "proxy_ssl_verify", "gzip", "gzip_vary", "gunzip", "merge_slashes",
        "recursive_error_pages", "real_ip_recursive", "underscores_in_headers", "ignore_invalid_headers", "port_in_redirect", "absolute_redirect",
        "server_name_in_redirect", "etag", "log_not_found", "log_subrequest", "rewrite_log", "uninitialized_variable_warn", "chunked_transfer_encoding",
        "reset_timedout_connection", "tcp_nopush", "tcp_nodelay", "sendfile", "msie_padding", "msie_refresh", "autoindex", "ssi", "sub_filter_once",
        "override_charset", "http2", "http3", "ssl", "ssl_prefer_server_ciphers", "ssl_session_tickets", "ssl_stapling", "ssl_stapling_verify", "ssl_early_data",
    ]),
];

/// Those whose values may have variables (the last one: since nginx 1.27.0). In all others nginx takes `$` for a wrong character.
const WITH_VARIABLES: [&str; 3] = ["limit_rate", "limit_rate_after", "proxy_limit_rate"];

/// Words of the form `KEY=VALUE`, by directive.
#[rustfmt::skip]
const OPTIONS: &[(&str, &str, ValueKind)] = &[
    ("proxy_cache_path", "inactive=", Seconds), ("proxy_cache_path", "max_size=", Offset), ("proxy_cache_path", "min_free=", Offset),
    ("proxy_cache_path", "manager_files=", Number), ("proxy_cache_path", "manager_sleep=", Millis), ("proxy_cache_path", "manager_threshold=", Millis),
    ("proxy_cache_path", "loader_files=", Number), ("proxy_cache_path", "loader_sleep=", Millis), ("proxy_cache_path", "loader_threshold=", Millis),
    ("server", "weight=", Count), ("server", "max_conns=", Number), ("server", "max_fails=", Number), ("server", "fail_timeout=", Seconds),
    ("open_file_cache", "inactive=", Seconds), ("resolver", "valid=", Seconds), ("limit_req", "burst=", Count),
];

/// Checks the values of directives and of all in them, and writes their switches in small letters.
///
/// # Errors
/// nginx doesn't take a value; the text says where.
pub fn check(all: &mut [Directive]) -> Result<(), String> {
    for directive in all.iter_mut().filter(|d| !matches!(d.name.as_str(), "stream" | "mail")) {
        own(directive).map_err(|reason| format!("{}: {}: {reason}", directive.place, directive.name))?;
        if !directive.is_table() {
            check(directive.block.as_deref_mut().unwrap_or_default())?;
        }
    }
    Ok(())
}

fn own(directive: &mut Directive) -> Result<(), String> {
    let own = KINDS.iter().find_map(|kind| directive.name.strip_prefix(kind)?.strip_prefix('_'));
    let name = own.map_or_else(|| directive.name.clone(), |own| format!("proxy_{own}"));
    for (of, key, kind) in OPTIONS.iter().filter(|(of, ..)| *of == name) {
        for word in &directive.words {
            let value = word.strip_prefix(key);
            value.map_or(Ok(()), |value| one(*kind, value)).map_err(|reason| format!("{key} of {of}: {reason}"))?;
        }
    }
    if name == "proxy_cache_path" {
        directive.words.iter().filter_map(|word| word.strip_prefix("keys_zone=")).try_for_each(zone)?;
    }
    match VALUES.iter().find(|(_, names)| names.contains(&name.as_str())) {
        Some(_) if WITH_VARIABLES.contains(&name.as_str()) && directive.words.iter().any(|word| word.contains('$')) => {
            Ok(())
        }
        Some((kind, _)) => words(*kind, directive),
        None => Ok(()),
    }
}

fn words(kind: ValueKind, directive: &mut Directive) -> Result<(), String> {
    let (least, most) = match kind {
        Keepalive => (1, 2),
        Buffers => (2, 2),
        _ => (1, 1),
    };
    if !(least..=most).contains(&directive.words.len()) {
        return Err(format!(
            "it takes {most} {}, not {}",
            if most == 1 { "word" } else { "words" },
            directive.words.len()
        ));
    }
    for (i, word) in directive.words.iter_mut().enumerate() {
        let kind = match (kind, i) {
            (Keepalive, 0) => Millis,
            (Keepalive, _) => Seconds,
            (Buffers, 0) => Count,
            (Buffers, _) => Size,
            _ => kind,
        };
        one(kind, word)?;
        if kind == Switch {
            word.make_ascii_lowercase();
        }
    }
    Ok(())
}

fn one(kind: ValueKind, word: &str) -> Result<(), String> {
    let (is_good, wanted) = match kind {
        Millis => (millis(word).is_some(), "is no time: write `500ms`, `10s`, `1h30m`"),
        Seconds => (seconds(word).is_some(), "is no time: write `10s`, `1h30m`, `7d`"),
        Size => (size(word).is_some() && !is_of_g(word), "is no size: write `1000`, `16k`, `1m`"),
        Offset => (size(word).is_some(), "is no size: write `1000`, `16k`, `1m`, `2g`"),
        Number => (number(word).is_some(), "is no number"),
        Count => (number(word).is_some_and(|number| number > 0), "is no number above 0"),
        Switch => (word.eq_ignore_ascii_case("on") || word.eq_ignore_ascii_case("off"), "is neither `on` nor `off`"),
        Keepalive | Buffers => unreachable!("a word has a kind of its own"),
    };
    is_good.then_some(()).ok_or_else(|| format!("{word:?} {wanted}"))
}

/// `NAME:SIZE`; a name alone is that of a zone that another directive makes.
fn zone(zone: &str) -> Result<(), String> {
    match zone.split_once(':') {
        Some((_, size)) => one(Size, size).map_err(|reason| format!("keys_zone={zone}: {reason}")),
        None => Ok(()),
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= MOST)
}

const MOST: u64 = i64::MAX as u64;

/// A size in bytes: a number alone, or one in `k`, `m` or `g`.
pub fn size(text: &str) -> Option<u64> {
    let shift = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        _ => return number(text),
    };
    number(&text[..text.len() - 1])?.checked_mul(1 << shift).filter(|bytes| *bytes <= MOST)
}

fn is_of_g(text: &str) -> bool {
    text.ends_with(['g', 'G'])
}

/// Units of a time by the letters behind a number, the largest first, with their milliseconds.
const UNITS: [(&str, u64); 8] = [
    ("y", 365 * DAY),
    ("M", 30 * DAY),
    ("w", 7 * DAY),
    ("d", DAY),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

const DAY: u64 = 86_400_000;

/// A time in seconds: `10m`, `1h 30m`, `1h30` (the last number without a unit is in seconds), `7`.
pub fn seconds(text: &str) -> Option<f64> {
    time(text, 0, "s").map(|millis| millis as f64 / 1000.0)
}

/// The same of a directive that heeds milliseconds: it takes `500ms`, and neither years nor months.
pub fn millis(text: &str) -> Option<f64> {
    time(text, 2, "ms").map(|millis| millis as f64 / 1000.0)
}

/// The milliseconds of a time in units from the one at `first` to `last`; each may come once, after larger ones.
fn time(text: &str, first: usize, last: &str) -> Option<u64> {
    let after_last = UNITS.iter().position(|(unit, _)| *unit == last)? + 1;
    let (mut sum, mut next, mut rest) = (0_u64, first, text);
    while !rest.is_empty() {
        let (value, behind) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        let unit = if behind.starts_with("ms") { 2 } else { behind.chars().next().map_or(0, char::len_utf8) };
        let (unit, behind) = behind.split_at(unit);
        let unit = if matches!(unit, "" | " ") { "s" } else { unit };
        let at = UNITS[..after_last].iter().position(|(name, _)| *name == unit).filter(|at| *at >= next)?;
        sum = number(value)?.checked_mul(UNITS[at].1)?.checked_add(sum).filter(|sum| *sum <= MOST)?;
        next = at + 1;
        rest = behind.trim_start_matches(' ');
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::super::config;
    use super::*;
    use crate::source::Given;

    #[test]
    fn times_and_sizes() {
        for (text, of_seconds, of_millis) in [
            ("10m", Some(600.0), Some(600.0)),
            ("1h30m", Some(5400.0), Some(5400.0)),
            ("1h 30m", Some(5400.0), Some(5400.0)),
            ("1h30", Some(3630.0), Some(3630.0)),
            ("500ms", None, Some(0.5)),
            ("1s500ms", None, Some(1.5)),
            ("7", Some(7.0), Some(7.0)),
            ("1y", Some(31_536_000.0), None),
            ("2M", Some(5_184_000.0), None),
            ("1w1d", Some(691_200.0), Some(691_200.0)),
            ("1m1h", None, None),
            ("1s1", None, None),
            ("1m1m", None, None),
            ("x", None, None),
            ("10x", None, None),
            ("-1", None, None),
            ("1.5h", None, None),
            ("9223372036854775807s", None, None),
            ("", None, None),
            ("ä", None, None),
        ] {
            assert_eq!((seconds(text), millis(text)), (of_seconds, of_millis), "{text}");
        }
        for (text, expect) in [
            ("10", Some(10)),
            ("1k", Some(1024)),
            ("2G", Some(2 << 30)),
            ("", None),
            ("k", None),
            ("+1", None),
            ("1t", None),
            ("1 k", None),
            ("9999999999g", None),
        ] {
            assert_eq!(size(text), expect, "{text}");
        }
    }

    fn checked(text: &str) -> Result<Vec<Directive>, String> {
        let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("f", text)]));
        let mut all = config::read("f", &Given(files)).expect("nginx's language");
        check(&mut all).map(|()| all)
    }

    /// Each of these keeps nginx from starting, too.
    #[test]
    fn values_that_nginx_does_not_take() {
        for (text, error) in [
            (
                "\nproxy_cache_path /c keys_zone=z:1m inactive=xyz;",
                "f:2: proxy_cache_path: inactive= of proxy_cache_path: \"xyz\" is no time: write `10s`, `1h30m`, `7d`",
            ),
            (
                "fastcgi_cache_path /c keys_zone=z:1x;",
                "f:1: fastcgi_cache_path: keys_zone=z:1x: \"1x\" is no size: write `1000`, `16k`, `1m`",
            ),
            (
                "proxy_cache_path /c keys_zone=z:1m max_size=big;",
                "f:1: proxy_cache_path: max_size= of proxy_cache_path: \"big\" is no size: write `1000`, `16k`, `1m`, `2g`",
            ),
            ("proxy_read_timeout 1y;", "f:1: proxy_read_timeout: \"1y\" is no time: write `500ms`, `10s`, `1h30m`"),
            ("uwsgi_read_timeout soon;", "f:1: uwsgi_read_timeout: \"soon\" is no time: write `500ms`, `10s`, `1h30m`"),
            (
                "server { location / { client_max_body_size 1t; } }",
                "f:1: client_max_body_size: \"1t\" is no size: write `1000`, `16k`, `1m`, `2g`",
            ),
            ("slice 1g;", "f:1: slice: \"1g\" is no size: write `1000`, `16k`, `1m`"),
            ("proxy_buffers 8;", "f:1: proxy_buffers: it takes 2 words, not 1"),
            ("proxy_buffers 0 4k;", "f:1: proxy_buffers: \"0\" is no number above 0"),
            (
                "keepalive_timeout 75s 500ms;",
                "f:1: keepalive_timeout: \"500ms\" is no time: write `10s`, `1h30m`, `7d`",
            ),
            ("keepalive_requests many;", "f:1: keepalive_requests: \"many\" is no number"),
            ("proxy_buffering no;", "f:1: proxy_buffering: \"no\" is neither `on` nor `off`"),
            ("gzip;", "f:1: gzip: it takes 1 word, not 0"),
            ("gzip $on;", "f:1: gzip: \"$on\" is neither `on` nor `off`"),
            ("upstream a { server b:1 max_conns=1$n; }", "f:1: server: max_conns= of server: \"1$n\" is no number"),
            ("upstream a { server b:1 weight=0; }", "f:1: server: weight= of server: \"0\" is no number above 0"),
            (
                "upstream a { server b:1 fail_timeout=1ms; }",
                "f:1: server: fail_timeout= of server: \"1ms\" is no time: write `10s`, `1h30m`, `7d`",
            ),
        ] {
            assert_eq!(checked(text).map(|_| ()), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn values_that_nginx_takes() {
        for text in [
            "proxy_cache_path /c levels=1:2 keys_zone=z:10m inactive=1y max_size=2g; proxy_read_timeout '1h 30m'; keepalive_timeout 0;",
            "limit_rate $rate; limit_rate_after 1$k; proxy_limit_rate 0; proxy_buffers 8 4k; client_max_body_size 0; gzip_comp_level 9;",
            "map $a $b { gzip x; slice y; } geo $g { default x; } types { text/x gzip; } stream { proxy_read_timeout x; }",
        ] {
            assert_eq!(checked(text).map(|_| ()), Ok(()), "{text}");
        }
        let all = checked("server { proxy_buffering OFF; }").expect("a switch");
        assert_eq!(all[0].inside()[0].words, ["off"]);
    }
}
