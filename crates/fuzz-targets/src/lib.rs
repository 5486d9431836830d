// SPDX-License-Identifier: BSD-2-Clause
//! Entry functions of the fuzz targets in `fuzz/`: each takes any octets, and panics where a parser breaks its word. The tests run the seeds, and
//! mutations of them. Linked into nothing.

#![allow(clippy::unwrap_used, reason = "a panic is a finding")]

mod http;
mod stored;
mod texts;
mod wire;

/// Name of a target, of its binary in `fuzz/` and of its directory in `seeds/`, and its entry function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

pub const TARGETS: &[FuzzTarget] = &[
    ("h1_request", http::request),
    ("h1_response", http::response),
    ("h1_body", http::body),
    ("h2_connection", wire::h2_connection),
    ("h2_upstream", wire::h2_upstream),
    ("hpack", wire::hpack),
    ("h3_request", wire::h3_request),
    ("h3_control", wire::h3_control),
    ("qpack", wire::qpack),
    ("proxy", wire::proxy),
    ("nats", wire::nats),
    ("resp", wire::resp),
    ("fields", http::fields),
    ("ranges", http::ranges),
    ("signatures", http::signatures),
    ("esi", texts::esi),
    ("vcl", texts::vcl),
    ("regex", texts::regex),
    ("hitch", texts::hitch),
    ("pem", texts::pem),
    ("access_log", texts::access_log),
    ("statsd", texts::statsd),
    ("vsl_query", texts::vsl_query),
    ("migrate", texts::migrate),
    ("vsl", stored::vsl),
    ("store", stored::store),
    ("journal", stored::journal),
    ("fleet_entry", stored::fleet_entry),
];

/// Runs the target of this name. Panics if there is none.
pub fn run(name: &str, octets: &[u8]) {
    let (_, entry) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of this name");
    entry(octets);
}

/// Splits the octet off that says how a target is to read the rest.
fn choice(octets: &[u8]) -> (u8, &[u8]) {
    octets.split_first().map_or((0, octets), |(first, rest)| (*first, rest))
}

/// Takes a result of which any is right: that it came is all.
fn ended<T>(_: T) {}

#[cfg(test)]
mod tests;
