// SPDX-License-Identifier: BSD-2-Clause
//! A page as plain text, where there is no man(1).

use super::requests::{self, ManualWriter};

/// Columns that a heading's text is set in, an entry's text more than its term, and an example more than what is around it.
const INDENT: usize = 4;

pub fn render(roff: &str, width: usize) -> String {
    let mut page = Page { out: String::new(), words: String::new(), indent: 0, width };
    requests::read(roff, &mut page);
    page.flush();
    page.out
}

struct Page {
    out: String,
    words: String,
    indent: usize,
    width: usize,
}

impl ManualWriter for Page {
    fn title(&mut self, name: &str, section: &str) {
        self.out.push_str(&format!("{name}({section})\n"));
    }

    fn heading(&mut self, text: &str) {
        self.end_paragraph();
        self.out.push_str(&format!("{text}\n"));
        self.indent = INDENT;
    }

    fn subheading(&mut self, text: &str) {
        self.end_paragraph();
        self.out.push_str(&format!("{:half$}{text}\n", "", half = INDENT / 2));
        self.indent = INDENT;
    }

    fn paragraph(&mut self) {
        self.end_paragraph();
        self.indent = INDENT;
    }

    fn term(&mut self, text: &str) {
        self.paragraph();
        self.literal(text);
        self.indent += INDENT;
    }

    fn text(&mut self, line: &str) {
        self.words.push_str(line);
        self.words.push(' ');
    }

    fn indent(&mut self) {
        self.flush();
        self.indent += INDENT;
    }

    fn outdent(&mut self) {
        self.flush();
        self.indent = self.indent.saturating_sub(INDENT);
    }

    fn begin_literal(&mut self) {
        self.flush();
    }

    fn literal(&mut self, line: &str) {
        let indent = if line.is_empty() { 0 } else { self.indent };
        self.out.push_str(&format!("{:indent$}{line}\n", ""));
    }

    fn end_literal(&mut self) {}
}

impl Page {
    /// Ends the paragraph, with an empty line behind it.
    fn end_paragraph(&mut self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_of_our_pages() {
        let roff = ".TH A 1 \"\" \"x\"\n.SH NAME\na \\- b\n.PP\none two\nthree\n.TP\n\\fB\\-x\\fR\ntext\n.PP\n.RS 4\n.nf\n  a  b\\e\n.fi\n.RE\n.SS Two \\- three\nfour\n";
        let text = "A(1)\n\nNAME\n    a - b\n\n    one\n    two\n    three\n\n    -x\n        text\n\n          a  b\\\n\n  Two - three\n    four\n";
        assert_eq!(render(roff, 10), text);
    }
}
