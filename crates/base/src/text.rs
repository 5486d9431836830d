// SPDX-License-Identifier: BSD-2-Clause
//! Text of durations and byte sizes as Varnish's parameters, VCL and options write them.

use std::time::Duration;

/// Seconds in a unit of VCL: `ms s m h d w y`.
pub fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 7.0 * 86_400.0,
        "y" => 365.0 * 86_400.0,
        _ => return None,
    })
}

/// The reason why `text` is no port, in the words of error messages: a number above 65535, or else an unknown
/// service.
pub fn bad_port(text: &str) -> String {
    match text {
        "" => "there is no port behind the colon".to_owned(),
        _ if text.bytes().all(|c| c.is_ascii_digit()) => format!("there is no port {text}: the highest is 65535"),
        _ => format!("there is no port {text:?}: a port is a number up to 65535, or a service's name"),
    }
}

/// The reason why `text` is no address with a port (`127.0.0.1:80`, `[::1]:80`, `name:80`), in the words of error messages.
pub fn bad_address(text: &str) -> String {
    match text.rsplit_once(':') {
        _ if text.starts_with('/') => "a path is no address:port".to_owned(),
        Some((_, port)) if port.parse::<u16>().is_err() => bad_port(port),
        Some(_) => "there is no host of that name".to_owned(),
        None => port_alone(text).unwrap_or_else(|| "no address:port".to_owned()),
    }
}

/// The reason why a number is no address. The system would take it for one: 6081 for 0.0.23.193.
pub fn port_alone(text: &str) -> Option<String> {
    let is_number = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    is_number.then(|| format!("a port alone is no address: write :{text} or 127.0.0.1:{text}"))
}

/// Parses `10s`, `1.5h`, `-3 d`; a number without a unit is `None`. Result in seconds.
pub fn parse_duration(text: &str) -> Option<f64> {
    let text = text.trim();
    let at = text.rfind(|c: char| c.is_ascii_digit() || c == '.').map(|i| i + 1)?;
    let number: f64 = plain_number(text[..at].trim())?;
    Some(number * unit_seconds(text[at..].trim())?)
}

/// Parses a byte size: a number (fraction allowed) and an optional unit of 1024: `k m g t p`, upper or lower case,
/// optionally followed by `b`; a bare `b` is bytes. `None` when it is none or above 2^63.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = plain_number(&text[..at])?;
    let unit = text[at..].trim().to_ascii_lowercase();
    let shift = match unit.strip_suffix('b').unwrap_or(&unit) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return None,
    };
    if shift == 0 && number.fract() != 0.0 {
        return None;
    }
    let bytes = number * (1u64 << shift) as f64;
    (0.0..9.2e18).contains(&bytes).then_some(bytes.round() as u64)
}

/// The reason why `parse_bytes` reads nothing in a text, in varnishd's words.
pub fn bytes_error(text: &str) -> &'static str {
    let text = text.trim();
    let is_half = text.trim_end_matches(['b', 'B']).trim_end().parse().is_ok_and(|n: f64| n.fract() != 0.0);
    match text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        true if is_half => "Fractional BYTES not allowed",
        true => "Unknown BYTES unit of measurement ([KMGTP][B])",
        false => "Invalid number",
    }
}

/// A decimal number with an optional sign and fraction, and nothing else (no exponent, no `inf`).
fn plain_number(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let ok = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') && digits.bytes().any(|b| b.is_ascii_digit());
    if ok { text.parse().ok() } else { None }
}

/// A byte size as Varnish shows it: the largest unit that divides it, `k M G T P`, or `b`.
pub fn show_bytes(bytes: u64) -> String {
    const UNITS: [char; 5] = ['k', 'M', 'G', 'T', 'P'];
    let (mut value, mut unit) = (bytes, 'b');
    for next in UNITS {
        if value == 0 || value & 1023 != 0 {
            break;
        }
        (value, unit) = (value >> 10, next);
    }
    format!("{value}{unit}")
}

/// A text for terminals: control characters, which might steer one, become points; line ends and tabs stay.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { '.' } else { c }).collect()
}

/// A text as one line for terminals: `odd` stands for each control character, line ends and tabs included.
pub fn one_line(text: &str, odd: char) -> String {
    text.chars().map(|c| if c.is_control() { odd } else { c }).collect()
}

/// An amount as people read it, by thousands, as what is sent and what lies on disks is counted: `999 B`, `1.2 kB`.
pub fn decimal_bytes(bytes: u64) -> String {
    scaled(bytes, 1000.0, ["kB", "MB", "GB", "TB", "PB"])
}

/// The same by 1024, as memory and options are counted: `999 B`, `1.2 KiB`.
pub fn binary_bytes(bytes: u64) -> String {
    scaled(bytes, 1024.0, ["KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// With one digit after the point, which never shows a whole next unit.
fn scaled(bytes: u64, step: f64, units: [&str; 5]) -> String {
    let mut value = bytes as f64;
    let mut fitting = "B";
    for unit in units {
        if value < step - if fitting == "B" { 0.0 } else { 0.05 } {
            break;
        }
        (value, fitting) = (value / step, unit);
    }
    if fitting == "B" { format!("{bytes} B") } else { format!("{value:.1} {fitting}") }
}

/// A time in the largest unit that divides it: `500ms`, `90s`, `1d`. What is below a millisecond is dropped.
pub fn show_duration(time: Duration) -> String {
    const UNITS: [(&str, u128); 5] =
        [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    match time.as_millis() {
        0 => "0s".to_owned(),
        ms => {
            let (unit, size) = UNITS.into_iter().find(|(_, size)| ms % size == 0).unwrap_or(("ms", 1));
            format!("{}{unit}", ms / size)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("10s"), Some(10.0));
        assert_eq!(parse_duration("1.5 h"), Some(5400.0));
        assert_eq!(parse_duration("250ms"), Some(0.25));
        assert_eq!(parse_duration("-3d"), Some(-259_200.0));
        assert_eq!((parse_duration("10"), parse_duration("s"), parse_duration("infs")), (None, None, None));
    }

    #[test]
    fn shown_durations_come_back() {
        for text in ["1ms", "1500ms", "90s", "1m", "25h", "1d", "3w", "0s"] {
            let time = Duration::from_secs_f64(parse_duration(text).unwrap());
            assert_eq!(show_duration(time), text);
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_bytes("256m"), Some(256 << 20));
        assert_eq!(parse_bytes("1.5G"), Some(3 << 29));
        assert_eq!((parse_bytes("0"), parse_bytes("12kb"), parse_bytes("7b")), (Some(0), Some(12 << 10), Some(7)));
        assert_eq!((parse_bytes("-1k"), parse_bytes("12q"), parse_bytes("")), (None, None, None));
    }

    #[test]
    fn what_steers_a_terminal_is_no_text() {
        let text = "a\tb\n\x1b[2J\r\u{9b}5n\x07\x7f \u{fc}";
        assert_eq!(printable(text), "a\tb\n.[2J..5n.. \u{fc}");
        assert_eq!(one_line(text, '?'), "a?b??[2J??5n?? \u{fc}");
    }

    #[test]
    fn amounts_have_a_unit_that_fits() {
        let amounts = [0, 999, 1000, 1023, 1024, 999_949, 999_950, 5_000_000_000, u64::MAX];
        assert_eq!(
            amounts.map(decimal_bytes),
            ["0 B", "999 B", "1.0 kB", "1.0 kB", "1.0 kB", "999.9 kB", "1.0 MB", "5.0 GB", "18446.7 PB"]
        );
        let amounts = [0, 1000, 1023, 1024, 1536, (1 << 20) - 1, 1 << 20, 3 << 29, u64::MAX];
        assert_eq!(
            amounts.map(binary_bytes),
            ["0 B", "1000 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "1.5 GiB", "16384.0 PiB"]
        );
    }

    #[test]
    fn shown_sizes_come_back() {
        for n in [0, 1, 1024, 1536, 1 << 20, 65 << 20, (1 << 30) + 1] {
            assert_eq!(parse_bytes(&show_bytes(n)), Some(n));
        }
    }
}
