// SPDX-License-Identifier: BSD-2-Clause
//! A page: from Markdown to HTML, with what it links to, its headings and the text below each.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use std::path::Path;

use super::links::joined;
use super::summary::SummaryEntry;

/// The version that the site is for.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A page with fewer sections than this has no list of them.
const LEAST_CONTENTS: usize = 3;

/// A heading and the text up to the next one.
#[derive(Debug)]
pub struct BookSection {
    pub level: HeadingLevel,
    pub anchor: String,
    pub heading: String,
    pub text: String,
}

#[derive(Debug)]
pub struct BookPage {
    path: String,
    /// The first heading's text.
    pub title: String,
    /// Links within the book, as they are written.
    pub links: Vec<String>,
    pub pictures: Vec<String>,
    pub anchors: Vec<String>,
    pub sections: Vec<BookSection>,
    body: String,
}

impl BookPage {
    /// Reads a page of the book, whose path is that within `docs`.
    ///
    /// # Errors
    /// A picture that is to be drawn within the page can't be read.
    pub fn read(path: &str, text: &str, docs: &Path) -> Result<BookPage, String> {
        let mut page = BookPage {
            path: path.to_owned(),
            title: String::new(),
            links: Vec::new(),
            pictures: Vec::new(),
            anchors: Vec::new(),
            sections: Vec::new(),
            body: String::new(),
        };
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let events: Vec<Event<'_>> = Parser::new_ext(text, options).collect();
        let mut out = Vec::new();
        let mut at = 0;
        while at < events.len() {
            at = page.event(&events, at, &mut out, docs)?;
        }
        html::push_html(&mut page.body, out.into_iter());
        page.body = page.body.replace("<table>", "<div class=\"wide\"><table>").replace("</table>", "</table></div>");
        Ok(page)
    }

    /// Takes one event, or a heading or picture whole; gives the index of the next one.
    fn event<'e>(
        &mut self,
        events: &[Event<'e>],
        at: usize,
        out: &mut Vec<Event<'e>>,
        docs: &Path,
    ) -> Result<usize, String> {
        match &events[at] {
            Event::Start(Tag::Heading { level, .. }) => {
                let end = closing(events, at);
                let heading = plain(&events[at + 1..end]);
                let anchor = anchor(&heading, &self.anchors);
                self.anchors.push(anchor.clone());
                out.push(Event::Html(format!("<{level} id=\"{anchor}\">").into()));
                out.extend(events[at + 1..end].iter().cloned());
                out.push(Event::Html(
                    format!("<a class=\"anchor\" href=\"#{anchor}\" aria-label=\"link\">#</a></{level}>\n").into(),
                ));
                if self.title.is_empty() {
                    self.title.clone_from(&heading);
                }
                self.sections.push(BookSection { level: *level, anchor, heading, text: String::new() });
                return Ok(end + 1);
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                let end = closing(events, at);
                self.picture(dest_url, &plain(&events[at + 1..end]), out, docs)?;
                return Ok(end + 1);
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = self.link(dest_url);
                let (link_type, title, id) = (*link_type, title.clone(), id.clone());
                out.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            Event::Code(code) => {
                self.keep_text(&events[at]);
                match code.strip_prefix("lacquer man ").filter(|page| is_page(page)) {
                    Some(page) => out.push(Event::InlineHtml(self.manual(code, page).into())),
                    None => out.push(events[at].clone()),
                }
            }
            // The licence line, and nothing else, is HTML in our pages.
            Event::Html(_) | Event::InlineHtml(_) => {}
            other => {
                self.keep_text(other);
                out.push(other.clone());
            }
        }
        Ok(at + 1)
    }

    fn keep_text(&mut self, event: &Event<'_>) {
        let Some(section) = self.sections.last_mut() else { return };
        match event {
            Event::Text(text) | Event::Code(text) => section.text.push_str(text),
            Event::SoftBreak | Event::HardBreak | Event::End(TagEnd::Paragraph | TagEnd::TableCell | TagEnd::Item) => {
                section.text.push(' ');
            }
            _ => {}
        }
    }

    /// The place on the site that a link leads to.
    fn link<'e>(&mut self, url: &CowStr<'e>) -> CowStr<'e> {
        if url.contains("://") || url.starts_with("mailto:") {
            return url.clone();
        }
        self.links.push(url.to_string());
        let (target, anchor) = url.split_once('#').unwrap_or((url, ""));
        let Some(stem) = target.strip_suffix(".md") else { return url.clone() };
        let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
        format!("{stem}.html{anchor}").into()
    }

    /// The command that shows a page of the manual, as a link to that page in the reference. In the repository, where there is
    /// no reference, it is the command.
    fn manual(&mut self, code: &str, page: &str) -> String {
        let up = "../".repeat(self.path.matches('/').count());
        self.links.push(format!("{up}reference/{page}.md"));
        format!("<a href=\"{up}reference/{page}.html\"><code>{}</code></a>", escaped(code))
    }

    /// A drawing becomes part of the page, so that it has the page's colours; other pictures are linked.
    fn picture<'e>(&mut self, url: &str, says: &str, out: &mut Vec<Event<'e>>, docs: &Path) -> Result<(), String> {
        let path = joined(&self.path, url);
        let escaped = says.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
        if url.ends_with(".svg") {
            let text = std::fs::read_to_string(docs.join(&path)).unwrap_or_default();
            if let Some(at) = text.find("class=\"figure\"") {
                let begin = text[..at].rfind("<svg").unwrap_or(0);
                let drawing = without_style(&text[begin..]);
                out.push(Event::Html(format!("<span role=\"img\" aria-label=\"{escaped}\">{drawing}</span>").into()));
                return Ok(());
            }
        }
        self.pictures.push(path);
        out.push(Event::Html(format!("<img src=\"{url}\" alt=\"{escaped}\" loading=\"lazy\">").into()));
        Ok(())
    }

    pub fn html_path(&self) -> String {
        format!("{}.html", self.path.strip_suffix(".md").unwrap_or(&self.path))
    }

    pub fn html(&self, entries: &[SummaryEntry]) -> String {
        let up = "../".repeat(self.path.matches('/').count());
        let mut list = String::new();
        let mut is_open = false;
        for entry in entries {
            match entry {
                SummaryEntry::Part(title) => {
                    list.push_str(if is_open { "</ul>\n" } else { "" });
                    list.push_str(&format!("<p>{}</p>\n<ul>\n", escaped(title)));
                    is_open = true;
                }
                SummaryEntry::Page { title, path, level } => {
                    let here = if *path == self.path { " aria-current=\"page\"" } else { "" };
                    let path = path.strip_suffix(".md").unwrap_or(path);
                    list.push_str(&format!(
                        "<li class=\"level{level}\"><a href=\"{up}{path}.html\"{here}>{}</a></li>\n",
                        escaped(title)
                    ));
                }
            }
        }
        list.push_str(if is_open { "</ul>\n" } else { "" });
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\" data-up=\"{up}\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{} - Lacquer</title>\n<link rel=\"stylesheet\" href=\"{up}book.css\">\n<script src=\"{up}index.js\" defer></script>\n<script src=\"{up}book.js\"></script>\n</head>\n<body>\n\
             <header><button id=\"menu\" aria-label=\"pages\" aria-expanded=\"false\">&#9776;</button><a class=\"home\" href=\"{up}index.html\">Lacquer <small>{VERSION}</small></a>\
             <input id=\"search\" type=\"search\" placeholder=\"Search ( / )\" aria-label=\"search\" autocomplete=\"off\">\
             <button id=\"theme\" aria-label=\"colours\">&#9680;</button></header>\n<ol id=\"found\" hidden></ol>\n<div class=\"columns\">\n<nav id=\"pages\">\n{list}</nav>\n<div class=\"page\">\n{}<main>\n{}\n{}</main>\n</div>\n</div>\n</body>\n</html>\n",
            escaped(&self.title),
            self.contents(),
            self.body,
            self.neighbours(entries, &up),
        )
    }

    /// The list of the page's sections; empty for a page that has few.
    fn contents(&self) -> String {
        let sections: Vec<&BookSection> =
            self.sections.iter().filter(|section| section.level == HeadingLevel::H2).collect();
        if sections.len() < LEAST_CONTENTS {
            return String::new();
        }
        let links: String = sections
            .iter()
            .map(|section| format!("<li><a href=\"#{}\">{}</a></li>\n", section.anchor, escaped(&section.heading)))
            .collect();
        format!("<details class=\"contents\">\n<summary>On this page</summary>\n<ul>\n{links}</ul>\n</details>\n")
    }

    fn neighbours(&self, entries: &[SummaryEntry], up: &str) -> String {
        let all: Vec<(&str, &str)> = entries
            .iter()
            .filter_map(|entry| match entry {
                SummaryEntry::Page { title, path, .. } => Some((title.as_str(), path.as_str())),
                SummaryEntry::Part(_) => None,
            })
            .collect();
        let Some(at) = all.iter().position(|(_, path)| *path == self.path) else { return String::new() };
        let link = |class: &str, (title, path): (&str, &str)| {
            let path = path.strip_suffix(".md").unwrap_or(path);
            format!("<a class=\"{class}\" href=\"{up}{path}.html\">{}</a>", escaped(title))
        };
        let before = at.checked_sub(1).map(|i| link("before", all[i])).unwrap_or_default();
        let next = all.get(at + 1).map(|page| link("next", *page)).unwrap_or_default();
        format!("<footer>{before}{next}</footer>\n")
    }
}

/// Name of a heading in links, as GitHub makes it: one that isn't among those of the headings before it.
pub fn anchor(heading: &str, taken: &[String]) -> String {
    let mut slug: String = heading
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            c if c.is_alphanumeric() || c == '_' => Some(c),
            ' ' | '-' => Some('-'),
            _ => None,
        })
        .collect();
    if slug.is_empty() {
        slug.push('s');
    }
    let mut anchor = slug.clone();
    let mut number = 1;
    while taken.contains(&anchor) {
        anchor = format!("{slug}-{number}");
        number += 1;
    }
    anchor
}

fn is_page(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|c| c.is_ascii_lowercase() || matches!(c, b'-' | b'_'))
}

/// The index at which the element that begins at `at` ends.
fn closing(events: &[Event<'_>], at: usize) -> usize {
    let mut depth = 0;
    for (i, event) in events.iter().enumerate().skip(at) {
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    events.len() - 1
}

fn plain(events: &[Event<'_>]) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            Event::Text(t) | Event::Code(t) => text.push_str(t),
            Event::SoftBreak => text.push(' '),
            _ => {}
        }
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A drawing without colours of its own: those of the site's style are for the same classes.
fn without_style(svg: &str) -> String {
    match (svg.find("<style>"), svg.find("</style>")) {
        (Some(begin), Some(end)) if begin < end => format!("{}{}", &svg[..begin], &svg[end + "</style>".len()..]),
        _ => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> BookPage {
        BookPage::read("a/b.md", text, Path::new("/nonexistent")).expect("a page")
    }

    #[test]
    fn headings_have_names() {
        let page = page("<!-- x -->\n# What `-s` is\n\ntext\n\n## Two words\n\n## Two words\n");
        assert_eq!(
            (page.title.as_str(), page.anchors.join(" ")),
            ("What -s is", "what--s-is two-words two-words-1".to_owned())
        );
        assert_eq!(page.sections[0].text.trim(), "text");
        assert!(!page.body.contains("<!--"), "{}", page.body);
    }

    #[test]
    fn links_lead_to_pages_of_the_site() {
        let page = page("# A\n\n[x](../c.md#d) [y](https://example.org/a.md)\n");
        assert!(
            page.body.contains("href=\"../c.html#d\"") && page.body.contains("href=\"https://example.org/a.md\""),
            "{}",
            page.body
        );
        assert_eq!(page.links, ["../c.md#d"]);
    }

    #[test]
    fn the_manuals_command_leads_to_the_reference() {
        let page = page("# A\n\n`lacquer man vcl` or `lacquer man -d DIR`\n");
        let link =
            "<a href=\"../reference/vcl.html\"><code>lacquer man vcl</code></a> or <code>lacquer man -d DIR</code>";
        assert!(page.body.contains(link), "{}", page.body);
        assert_eq!(page.links, ["../reference/vcl.md"]);
        assert!(page.sections[0].text.contains("lacquer man vcl"));
    }

    #[test]
    fn a_long_page_lists_its_sections() {
        let html = page("# A\n\n## One & two\n\n### Below\n\n## Two\n\n## Three\n").html(&[]);
        let list = html.split("<details class=\"contents\">").nth(1).and_then(|rest| rest.split("</details>").next());
        let links: Vec<&str> = list.expect("a list").lines().filter(|line| line.starts_with("<li>")).collect();
        assert_eq!(
            links,
            [
                "<li><a href=\"#one--two\">One &amp; two</a></li>",
                "<li><a href=\"#two\">Two</a></li>",
                "<li><a href=\"#three\">Three</a></li>"
            ]
        );
        assert!(!page("# A\n\n## One\n\n## Two\n").html(&[]).contains("class=\"contents\""));
    }

    #[test]
    fn a_page_names_its_version() {
        let html = page("# A\n").html(&[]);
        assert!(html.contains(&format!("Lacquer <small>{}</small>", env!("CARGO_PKG_VERSION"))), "{html}");
    }

    #[test]
    fn the_list_says_where_one_is() {
        let entries = [
            SummaryEntry::Part("P".into()),
            SummaryEntry::Page { title: "A".into(), path: "a/b.md".into(), level: 0 },
            SummaryEntry::Page { title: "C".into(), path: "c.md".into(), level: 0 },
        ];
        let html = page("# A\n").html(&entries);
        assert!(html.contains("href=\"../a/b.html\" aria-current=\"page\""), "{html}");
        assert!(html.contains("<a class=\"next\" href=\"../c.html\">C</a>"), "{html}");
    }
}
