// SPDX-License-Identifier: BSD-2-Clause
//! Directives that stay with Apache, and what there is to say of them.

use super::reader::Line;
use super::section::Sections;
use super::stays::{ApacheFate, fate};
use crate::migrated::Migrated;

/// Says what there is to say of other directives; most are Apache's own affair, as it goes on being the origin. False of one that isn't known.
pub(super) fn known(name: &str, line: &Line, sections: &Sections, migrated: &mut Migrated) -> bool {
    let asks_scheme = line.words.iter().any(|word| word.contains("HTTPS")) && !sections.has_one_scheme();
    let text = match name {
        "cacheignoreurlsessionidentifiers" | "cachekeybaseurl" => {
            "`set req.url = regsub(...)` in vcl_recv, or the parameter query_drop; until then each of these URLs is kept apart"
        }
        "rewritecond" | "setenvif" | "setenvifnocase" | "browsermatch" | "browsermatchnocase" if names_client(line) => {
            "hits don't reach Apache, so this rule holds for misses only: say it in vcl_recv, as `if (req.url ~ \"URLS\" && \
             req.http.Referer && req.http.Referer !~ \"OWN HOSTS\") { return (synth(403)); }` (recipes/images.md)"
        }
        "rewritecond" | "rewriterule" if asks_scheme => {
            "Apache no longer sees TLS: ask for the field X-Forwarded-Proto (%{HTTP:X-Forwarded-Proto})"
        }
        // Seen beside Apache 2.4: the client's max-age takes the place of Expires.
        "cachestoreexpired" if line.word(1).eq_ignore_ascii_case("on") => {
            "a response that has expired is fetched anew here; mod_cache serves it to a client that sends `Cache-Control: max-age=N` with an N above its age"
        }
        "cachequickhandler" => "requests with rules of access are always passed to Apache here",
        _ => "",
    };
    match name {
        _ if text.is_empty() => match fate(name) {
            Some(ApacheFate::Stays(reason)) => migrated.without_meaning(&line.place, &line.words[0], reason),
            Some(ApacheFate::Refused(text)) => migrated.refuse(&line.place, &line.words[0], text),
            None => {
                migrated.refuse(&line.place, &line.words[0], "nothing is known of it here");
                return false;
            }
        },
        "setenvif"
        | "setenvifnocase"
        | "browsermatch"
        | "browsermatchnocase"
        | "cacheignoreurlsessionidentifiers"
        | "cachekeybaseurl" => {
            migrated.refuse(&line.place, &line.words[0], text);
        }
        "rewritecond" | "rewriterule" if asks_scheme && !migrated.tls.is_empty() => {
            migrated.refuse(&line.place, &line.words[0], text);
        }
        "rewritecond" if names_client(line) => migrated.refuse(&line.place, &line.words[0], text),
        _ => {
            migrated.note(&line.place, &line.words[0], text);
            migrated.without_meaning(&line.place, &line.words[0], text);
        }
    }
    true
}

/// Says of a header that tells whether Apache speaks TLS that it no longer does.
pub(super) fn note_scheme(name: &str, line: &Line, migrated: &mut Migrated) {
    let tells = |word: &String| ["{HTTPS}", "REQUEST_SCHEME", "SSL_"].iter().any(|name| word.contains(name));
    if !migrated.tls.is_empty() && matches!(name, "requestheader" | "header") && line.words.iter().any(tells) {
        let text = "Apache no longer sees TLS: %{HTTP:X-Forwarded-Proto} is the client's scheme";
        migrated.note(&line.place, &line.words[0], text);
    }
}

/// True if a rule depends on what a client's request says beside its URL: an object in the cache is the same for all of
/// them.
pub(super) fn names_client(line: &Line) -> bool {
    const OF_CLIENTS: [&str; 6] =
        ["HTTP_REFERER", "HTTP_USER_AGENT", "HTTP_COOKIE", "REMOTE_ADDR", "HTTP:REFERER", "HTTP:USER-AGENT"];
    let first = line.words.get(1).map_or(String::new(), |word| word.to_ascii_uppercase());
    match line.words[0].to_ascii_lowercase().as_str() {
        "rewritecond" => OF_CLIENTS.iter().any(|name| first.contains(name)),
        // Stock configurations work around old browsers with these two; nothing is denied by that.
        "browsermatch" | "browsermatchnocase" => is_denied(line),
        _ => ["REFERER", "USER-AGENT", "COOKIE", "REMOTE_ADDR"].contains(&first.as_str()),
    }
}

/// True if the variable that a line sets has the name of something that is kept out.
fn is_denied(line: &Line) -> bool {
    const OWN: [&str; 6] =
        ["nokeepalive", "downgrade-1.0", "force-response-1.0", "redirect-carefully", "gzip-only-text/html", "no-gzip"];
    line.words.iter().skip(2).any(|word| {
        let name = word.trim_start_matches('!').split('=').next().unwrap_or_default();
        !OWN.contains(&name) && !name.starts_with("ssl-")
    })
}
