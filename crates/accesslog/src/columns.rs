// SPDX-License-Identifier: BSD-2-Clause
//! The words before a line's time: host and client, where it is certain which is which.
//!
//! `%h %l %u` (common, combined) and `%v %h %l %u` (vhost_combined) are told apart by the words themselves: an address, a name,
//! a port. Words that fit two formats are refused, since each reading would give another client or host.

use std::borrow::Cow;
use std::net::IpAddr;

use crate::entry::{AccessEntry, LineReading, Skip};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    Nothing,
    /// A bare address: of a client, or a host that was asked for by its address.
    Address,
    /// An address and a port: of a client as HAProxy logs it, or of a host.
    AddressPort,
    /// An address in brackets, or a name with a port: a host, since no client is logged like that.
    Host,
    DottedName,
    Word,
    /// Ends in a comma, as one of X-Forwarded-For.
    OfList,
}

fn address_of(word: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn column(word: &[u8]) -> Column {
    if matches!(word, b"-" | b"\"\"" | b"") {
        return Column::Nothing;
    }
    if word.ends_with(b",") {
        return Column::OfList;
    }
    if address_of(word).is_some() {
        return Column::Address;
    }
    if word.starts_with(b"[") {
        return Column::Host;
    }
    let port_at = word.iter().rposition(|&b| b == b':');
    if let Some((name, port)) = port_at.and_then(|at| word.split_at_checked(at))
        && port.len() > 1
        && port[1..].iter().all(u8::is_ascii_digit)
    {
        return if address_of(name).is_some() { Column::AddressPort } else { Column::Host };
    }
    if word.contains(&b'.') { Column::DottedName } else { Column::Word }
}

/// Sets the host and the client of `entry` by the words before the time.
///
/// # Errors
/// [`Skip::Ambiguous`].
pub fn read<'a>(before: &[&'a [u8]], entry: &mut AccessEntry<'a>) -> Result<(), Skip> {
    let word = |at: usize| before.get(at).copied().unwrap_or_default();
    let [first, second] = [0, 1].map(|at| column(word(at)));
    // A host before client, ident and user: the ident is a dash, since no server asks for it any more.
    let has_room = before.len() > 3 && word(2) == b"-";
    let (host, client, reading) = match (first, second) {
        (Column::OfList, _) | (_, Column::OfList) => return Err(Skip::Ambiguous),
        (Column::Nothing, Column::Address | Column::AddressPort) => (None, Some(1), None),
        (Column::Nothing, _) => (None, None, None),
        (Column::Host, Column::Nothing) => (Some(0), None, None),
        (Column::DottedName, Column::Nothing) => (None, Some(0), Some(LineReading::NamedClient)),
        (Column::Address | Column::AddressPort | Column::Word, Column::Nothing) => (None, Some(0), None),
        (Column::Host, Column::Address | Column::AddressPort | Column::DottedName | Column::Word)
        | (Column::DottedName | Column::Word | Column::AddressPort, Column::Address) => {
            (Some(0), Some(1), Some(LineReading::HostFirst))
        }
        (Column::Address | Column::DottedName | Column::Word, Column::Host) => {
            (Some(1), Some(0), Some(LineReading::HostSecond))
        }
        (Column::Address | Column::AddressPort | Column::DottedName | Column::Word, Column::Word) if !has_room => {
            (None, Some(0), (first == Column::DottedName).then_some(LineReading::NamedClient))
        }
        _ => return Err(Skip::Ambiguous),
    };
    entry.host = host.map(|at| Cow::Borrowed(without_usual_port(word(at))));
    entry.client = client.map(|at| Cow::Borrowed(word(at)));
    if let Some(reading) = reading {
        entry.assume(reading);
    }
    Ok(())
}

fn without_usual_port(host: &[u8]) -> &[u8] {
    host.strip_suffix(b":80").or_else(|| host.strip_suffix(b":443")).unwrap_or(host)
}

/// The reason why a line that [`read`] refuses has two readings, and which formats those are.
pub fn doubt(before: &[&[u8]]) -> String {
    let text = String::from_utf8_lossy(&before.join(&b" "[..])).into_owned();
    let is_list = before.iter().any(|word| word.ends_with(b","));
    let is_pair = before.len() > 1 && before[..2].iter().all(|word| column(word) == Column::Address);
    // The host takes the place of the ident, or stands before it.
    let rest = if before.len() > 3 { "%l %u" } else { "%u" };
    let (one, one_means, other, other_means) = if is_list {
        (
            "%{X-Forwarded-For}i %l %u",
            "the first of the list is the client",
            "%{X-Forwarded-For}i %h %l %u",
            "the word behind it",
        )
    } else if is_pair {
        ("%v %h", "a host and its client", "%{X-Forwarded-For}i %h", "a forwarded client and its proxy")
    } else {
        ("%v %h", "a host and its client", "%h %v", "a client and its host")
    };
    let rest = if is_list { String::new() } else { format!(" {rest}") };
    let tail = r#"%t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
    format!(
        "{:?} can be {one_means} or {other_means}: say which by --log-format '{one}{rest} {tail}' or '{other}{rest} {tail}'",
        text.escape_debug().to_string()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, want: &str) {
        let words: Vec<&[u8]> = before.split(' ').map(str::as_bytes).collect();
        let mut entry = AccessEntry::default();
        let shown = |text: &Option<Cow<'_, [u8]>>| {
            text.as_deref().map_or_else(|| "-".to_owned(), |text| String::from_utf8_lossy(text).into_owned())
        };
        let got = match read(&words, &mut entry) {
            Ok(()) => {
                let readings: Vec<String> = entry.readings().map(|reading| format!(" {reading:?}")).collect();
                format!("{} {}{}", shown(&entry.host), shown(&entry.client), readings.concat())
            }
            Err(skip) => format!("{skip:?}"),
        };
        assert_eq!(got, want, "{before}");
    }

    #[test]
    fn what_is_certain() {
        check("192.0.2.1 - -", "- 192.0.2.1");
        check("192.0.2.1 - John Smith", "- 192.0.2.1");
        check("192.0.2.1 ident frank", "- 192.0.2.1");
        check("::1 - -", "- ::1");
        check("- - -", "- -");
        check("- 192.0.2.1 - -", "- 192.0.2.1");
        check("unix: - -", "- unix:");
        check("192.0.2.1:50123", "- 192.0.2.1:50123");
    }

    #[test]
    fn readings_that_are_named() {
        check("site.example 192.0.2.1 - -", "site.example 192.0.2.1 HostFirst");
        check("site.example:80 ::1 - joe", "site.example ::1 HostFirst");
        check("site.example:8080 192.0.2.1 - John Smith", "site.example:8080 192.0.2.1 HostFirst");
        check("site.example:80 client.example - -", "site.example client.example HostFirst");
        check("[2001:db8::1] ::1 - -", "[2001:db8::1] ::1 HostFirst");
        check("[2001:db8::1]:8080 ::1 - -", "[2001:db8::1]:8080 ::1 HostFirst");
        check("192.0.2.9:80 192.0.2.1 - -", "192.0.2.9 192.0.2.1 HostFirst");
        check("localhost 192.0.2.1 -", "localhost 192.0.2.1 HostFirst");
        check("192.0.2.1 site.example:443 -", "site.example 192.0.2.1 HostSecond");
        check("client.example - -", "- client.example NamedClient");
        check("client.example ident frank", "- client.example NamedClient");
    }

    #[test]
    fn two_readings_are_none() {
        for before in [
            // A host that was asked for by its address, or X-Forwarded-For.
            "192.0.2.9 192.0.2.1 - -",
            "192.0.2.7, 198.51.100.9 - -",
            "192.0.2.7, 198.51.100.9 127.0.0.1 - -",
            // lighttpd's `%h %V %u`, or an ident.
            "192.0.2.1 site.example -",
            "192.0.2.1 site.example - -",
            "192.0.2.1 www - -",
            "site.example client.example - -",
            "www client - -",
        ] {
            check(before, "Ambiguous");
        }
    }

    #[test]
    fn doubts_name_both_formats() {
        let doubt = |before: &str| doubt(&before.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let tail = r#"%t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
        assert_eq!(
            doubt("192.0.2.9 192.0.2.1 - -"),
            format!(
                "\"192.0.2.9 192.0.2.1 - -\" can be a host and its client or a forwarded client and its proxy: say which by \
                 --log-format '%v %h %l %u {tail}' or '%{{X-Forwarded-For}}i %h %l %u {tail}'"
            )
        );
        assert!(doubt("192.0.2.1 site.example -").contains(&format!("'%v %h %u {tail}' or '%h %v %u {tail}'")));
        assert!(doubt("a, b - -").contains(&format!("'%{{X-Forwarded-For}}i %l %u {tail}'")));
    }
}
