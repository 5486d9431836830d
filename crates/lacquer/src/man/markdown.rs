// SPDX-License-Identifier: BSD-2-Clause
//! A page in Markdown, for the book. Each entry of a list becomes a heading, so that it can be linked to and is found by its name.

use super::requests::{self, ManualWriter};

pub fn render(roff: &str) -> String {
    let mut page = Page { out: String::new() };
    requests::read(roff, &mut page);
    page.end_paragraph();
    page.out.truncate(page.out.trim_end().len());
    page.out.push('\n');
    page.out
}

struct Page {
    out: String,
}

impl ManualWriter for Page {
    fn title(&mut self, name: &str, section: &str) {
        self.headed("#", &format!("{}({section})", name.to_lowercase()));
    }

    fn heading(&mut self, text: &str) {
        self.headed("##", &capital(text));
    }

    fn subheading(&mut self, text: &str) {
        self.headed("###", text);
    }

    fn paragraph(&mut self) {
        self.end_paragraph();
    }

    fn term(&mut self, text: &str) {
        self.end_paragraph();
        self.out.push_str(&format!("#### `{}`\n\n", text.replace('`', "'")));
    }

    fn text(&mut self, line: &str) {
        self.out.push_str(&format!("{}\n", escape(line.trim())));
    }

    // Markdown has no levels of paragraphs.
    fn indent(&mut self) {
        self.end_paragraph();
    }

    fn outdent(&mut self) {
        self.end_paragraph();
    }

    fn begin_literal(&mut self) {
        self.end_paragraph();
        self.out.push_str("```text\n");
    }

    fn literal(&mut self, line: &str) {
        self.out.push_str(&format!("{line}\n"));
    }

    fn end_literal(&mut self) {
        self.out.push_str("```\n\n");
    }
}

impl Page {
    fn headed(&mut self, level: &str, text: &str) {
        self.end_paragraph();
        self.out.push_str(&format!("{level} {}\n\n", escape(text)));
    }

    fn end_paragraph(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }
}

/// `SEE ALSO` as a heading of a book has it: `See also`. Names that are in capitals for a reason (counters' sets) are one word, and stay.
fn capital(text: &str) -> String {
    let is_name = !text.contains(' ') && (text.len() <= 5 && text != "NAME" || text.contains('_'));
    match text.chars().next() {
        Some(first) if !is_name && text.chars().all(|c| !c.is_lowercase()) => {
            first.to_string() + &text[first.len_utf8()..].to_lowercase()
        }
        _ => text.to_owned(),
    }
}

/// Text, with escapes where Markdown would read marks. Text between backquotes is code already.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let is_paired = text.matches('`').count().is_multiple_of(2);
    let mut is_code = false;
    for (at, c) in text.char_indices() {
        is_code ^= c == '`' && is_paired;
        let is_mark = "\\*_<>[]|".contains(c) || c == '`' && !is_paired || at == 0 && "#-+=~".contains(c);
        if is_mark && !is_code {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_of_our_pages() {
        let roff = ".TH A\\-B 1 \"\" \"x\"\n.SH SEE ALSO\na \\- b_c\n.SH MAIN\n.PP\none <two>\n.TP\n\\fB\\-x\\fR\ntext\n.PP\n.RS 4\n.nf\n  a  *\\e\n.fi\n.RE\n";
        let text = "# a-b(1)\n\n## See also\n\na - b\\_c\n\n## MAIN\n\none \\<two\\>\n\n#### `-x`\n\ntext\n\n```text\n  a  *\\\n```\n";
        assert_eq!(render(roff), text);
    }

    #[test]
    fn code_stays_code() {
        assert_eq!(escape("`a_b` and c_d"), "`a_b` and c\\_d");
        assert_eq!(escape("one ` alone_"), "one \\` alone\\_");
        assert_eq!(escape("-x begins"), "\\-x begins");
    }
}
