// SPDX-License-Identifier: BSD-2-Clause
//! The page about reasons: what each one means, with causes and fixes from the book's page on troubleshooting. It is part of the program,
//! since a server's operators may have no access to the web.

use tables::no_hit::NoHit;

/// The book's page. The rows that begin with a reason's word are shown.
const TROUBLESHOOTING: &str = include_str!("../../../docs/book/troubleshooting.md");

/// The reasons' words, which are the page's anchors.
pub fn words() -> Vec<&'static str> {
    NoHit::ALL.iter().map(|reason| reason.word()).collect()
}

/// The page as HTML. Each row has the reason's word as its anchor.
pub fn page() -> String {
    let mut rows = String::new();
    for reason in NoHit::ALL {
        let word = reason.word();
        let advice: Vec<String> =
            advice(word).map(|(sign, cause, fix)| format!("<p>{sign}{cause}: {fix}</p>")).collect();
        rows.push_str(&format!(
            "<tr id=\"{word}\"><th scope=\"row\"><code>{word}</code></th><td>{}</td><td>{}</td></tr>\n",
            inline(reason.text()),
            advice.concat()
        ));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Why a request was not a hit</title>\n<link rel=\"stylesheet\" href=\"watch.css\">\n<link rel=\"icon\" href=\"icon.svg\">\n\
         </head>\n<body>\n<main class=\"book\">\n<p><a href=\"./\">Back to the server</a></p>\n<h1>Why a request was not a hit</h1>\n\
         <p><code>lacquer explain URL</code> says for one URL whether it would be a hit, and if not, which of these is the reason. More is in the \
         book's page <em>Troubleshooting by symptom</em>.</p>\n\
         <div class=\"card\"><table><thead><tr><th scope=\"col\">Reason</th><th scope=\"col\">Meaning</th>\
         <th scope=\"col\">Usual cause and its fix</th></tr></thead><tbody>\n{rows}</tbody></table></div>\n</main>\n</body>\n</html>\n"
    )
}

/// The book's rows about a reason: the text beside the word, cause, fix.
fn advice(word: &str) -> impl Iterator<Item = (String, String, String)> {
    let first = format!("| `{word}`");
    TROUBLESHOOTING.lines().filter_map(move |line| {
        let rest = line.strip_prefix(&first)?;
        let mut cells = rest.split(" | ").map(|cell| cell.trim().trim_end_matches('|').trim());
        let sign = cells.next()?.trim_start_matches([',', ' ']);
        let sign = if sign.is_empty() { String::new() } else { format!("<em>{}</em>: ", inline(sign)) };
        Some((sign, inline(cells.next()?), inline(cells.next()?)))
    })
}

/// Converts Markdown text with `code` and links to HTML. The links' targets aren't here, so only their texts are kept.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for (n, part) in text.split('`').enumerate() {
        let safe = part.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if n % 2 == 1 { out.push_str(&format!("<code>{safe}</code>")) } else { out.push_str(&unlinked(&safe)) }
    }
    out
}

fn unlinked(text: &str) -> String {
    let Some((before, rest)) = text.split_once('[') else { return text.to_owned() };
    match rest.split_once("](").and_then(|(name, rest)| Some((name, rest.split_once(')')?.1))) {
        Some((name, after)) => format!("{before}{name}{}", unlinked(after)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_row_with_the_books_advice() {
        let page = page();
        for reason in NoHit::ALL {
            assert_eq!(page.matches(&format!("<tr id=\"{}\">", reason.word())).count(), 1, "{}", reason.word());
        }
        let row = |word: &str| page.lines().find(|line| line.starts_with(&format!("<tr id=\"{word}\">"))).unwrap();
        assert!(row("pass-cookie").contains("<code>cookie_drop</code>"), "{}", row("pass-cookie"));
        assert!(
            row("hit-for-miss").matches("<p>").count() >= 2 && row("hit-for-miss").contains("<em>set-cookie</em>: ")
        );
        assert!(row("evicted").contains("sizing") && !row("evicted").contains(".md"), "{}", row("evicted"));
    }

    #[test]
    fn every_row_of_the_book_about_a_reason_has_its_place() {
        let table = TROUBLESHOOTING.split("## ").find(|part| part.starts_with("Nothing is a hit")).unwrap();
        let rows = table.lines().skip_while(|line| !line.starts_with("| ---"));
        let words: Vec<&str> = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        assert!(words.len() >= 5);
        for word in words {
            assert!(NoHit::ALL.iter().any(|reason| reason.word() == word), "{word} is no reason");
        }
    }

    #[test]
    fn markdown_becomes_html() {
        assert_eq!(inline("a `<b>` & [sizing](x.md), [y]"), "a <code>&lt;b&gt;</code> &amp; sizing, [y]");
    }
}
