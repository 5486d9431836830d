// SPDX-License-Identifier: BSD-2-Clause
//! What the search of the site looks in: one entry for each heading, with the text below it.

use serde_json::json;

use super::page::BookPage;

/// More text than this of one heading isn't kept, in characters.
const MOST_TEXT: usize = 1500;

/// A script that sets `INDEX`: it works from files, too, where a page may not fetch.
pub fn index<'p>(pages: impl Iterator<Item = &'p BookPage>) -> String {
    let entries: Vec<serde_json::Value> = pages
        .flat_map(|page| {
            page.sections.iter().map(|section| {
                let url = format!("{}#{}", page.html_path(), section.anchor);
                let text: String = section.text.chars().take(MOST_TEXT).collect();
                json!([url, page.title, section.heading, text.trim()])
            })
        })
        .collect();
    format!("window.INDEX = {};\n", serde_json::Value::from(entries))
}
