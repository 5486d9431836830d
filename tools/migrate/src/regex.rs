// SPDX-License-Identifier: BSD-2-Clause
//! Regexes of a configuration: whether VCL takes them. Time and memory of the check are bounded.

use crate::source::SourcePlace;

/// Checks a regex.
///
/// # Errors
/// VCL doesn't take it; the text says where, and why.
pub fn check(place: &SourcePlace, directive: &str, text: &str) -> Result<(), String> {
    const SHOWN: usize = 40;
    let reason = match vcl_regex::check(text.as_bytes()) {
        Ok(_) => return Ok(()),
        Err(reason) => reason,
    };
    let more = if text.chars().count() > SHOWN { "..." } else { "" };
    let begin: String = text.chars().take(SHOWN).collect();
    Err(format!("{place}: {directive}: the regex {begin}{more} isn't taken: {reason}"))
}
