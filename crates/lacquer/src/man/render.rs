// SPDX-License-Identifier: BSD-2-Clause
//! A page as plain text, where there is no man(1): what the requests mean that the pages here use, and no others.

/// Columns that a heading's text is set in, an entry's text more than its term, and an example more than what is around it.
const INDENT: usize = 4;

/// Renders `roff`, lines no longer than `width` where words allow.
pub fn render(roff: &str, width: usize) -> String {
    let mut page = Page { out: String::new(), words: String::new(), indent: 0, width, literal: false, term: false };
    roff.lines().for_each(|line| page.line(line));
    page.flush();
    page.out
}

struct Page {
    out: String,
    /// Of the paragraph that is being filled.
    words: String,
    indent: usize,
    width: usize,
    literal: bool,
    /// The next line is an entry's term.
    term: bool,
}

impl Page {
    fn line(&mut self, line: &str) {
        let (request, rest) = line.split_once(' ').unwrap_or((line, ""));
        match request {
            ".TH" => {
                let mut words = rest.split(' ');
                let (name, section) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                self.out.push_str(&format!("{}({section})\n", plain(name)));
            }
            ".SH" => {
                self.paragraph();
                self.out.push_str(&format!("{}\n", plain(rest)));
                self.indent = INDENT;
            }
            ".PP" => {
                self.paragraph();
                self.indent = INDENT;
            }
            ".TP" => {
                self.paragraph();
                self.indent = INDENT;
                self.term = true;
            }
            ".RS" => {
                self.flush();
                self.indent += INDENT;
            }
            ".RE" => {
                self.flush();
                self.indent = self.indent.saturating_sub(INDENT);
            }
            ".nf" => {
                self.flush();
                self.literal = true;
            }
            ".fi" => self.literal = false,
            _ => self.text(&plain(line)),
        }
    }

    fn text(&mut self, text: &str) {
        if self.literal || self.term {
            let indent = if text.is_empty() { 0 } else { self.indent };
            self.out.push_str(&format!("{:indent$}{text}\n", ""));
            if std::mem::take(&mut self.term) {
                self.indent += INDENT;
            }
        } else {
            self.words.push_str(text);
            self.words.push(' ');
        }
    }

    /// Ends the paragraph, with an empty line behind it.
    fn paragraph(&mut self) {
        self.flush();
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn flush(&mut self) {
        let words = std::mem::take(&mut self.words);
        let mut column = 0;
        for word in words.split_whitespace() {
            let length = word.chars().count();
            if column == 0 {
                self.out.push_str(&" ".repeat(self.indent));
                column = self.indent;
            } else if column + 1 + length > self.width {
                self.out.push_str(&format!("\n{}", " ".repeat(self.indent)));
                column = self.indent;
            } else {
                self.out.push(' ');
                column += 1;
            }
            self.out.push_str(word);
            column += length;
        }
        if column > 0 {
            self.out.push('\n');
        }
    }
}

/// Without escapes.
fn plain(text: &str) -> String {
    text.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_of_our_pages() {
        let roff = ".TH A 1 \"\" \"x\"\n.SH NAME\na \\- b\n.PP\none two\nthree\n.TP\n\\fB\\-x\\fR\ntext\n.PP\n.RS 4\n.nf\n  a  b\\e\n.fi\n.RE\n";
        let text =
            "A(1)\n\nNAME\n    a - b\n\n    one\n    two\n    three\n\n    -x\n        text\n\n          a  b\\\n";
        assert_eq!(render(roff, 10), text);
    }
}
