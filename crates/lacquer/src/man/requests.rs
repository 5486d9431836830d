// SPDX-License-Identifier: BSD-2-Clause
//! Reads the roff that the pages here are made of: the requests that they use, and no others. What a page says goes to a `ManualWriter`: plain text
//! (`render`) or Markdown (`markdown`).

/// Takes what a page says, in its order. Texts come without roff's escapes.
pub trait ManualWriter {
    /// The page's name and the section of the manual, as `.TH` has them.
    fn title(&mut self, name: &str, section: &str);
    /// The request `.SH`: a heading.
    fn heading(&mut self, text: &str);
    /// The request `.SS`: a heading below another.
    fn subheading(&mut self, text: &str);
    fn paragraph(&mut self);
    /// An entry of a list begins; its text follows.
    fn term(&mut self, text: &str);
    fn text(&mut self, line: &str);
    /// Moves the text until `outdent` further right.
    fn indent(&mut self);
    fn outdent(&mut self);
    /// Lines are shown as they are from here on.
    fn begin_literal(&mut self);
    fn literal(&mut self, line: &str);
    fn end_literal(&mut self);
}

/// Reads a page. What is no request that is known here is text.
pub fn read(roff: &str, writer: &mut impl ManualWriter) {
    let (mut is_literal, mut is_term) = (false, false);
    for line in roff.lines() {
        let (request, rest) = line.split_once(' ').unwrap_or((line, ""));
        match request {
            ".TH" => {
                let mut words = rest.split(' ');
                let (name, section) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                writer.title(&plain(name), section);
            }
            ".SH" => writer.heading(&plain(rest)),
            ".SS" => writer.subheading(&plain(rest)),
            ".PP" => writer.paragraph(),
            ".TP" => is_term = true,
            ".RS" => writer.indent(),
            ".RE" => writer.outdent(),
            ".nf" => {
                is_literal = true;
                writer.begin_literal();
            }
            ".fi" => {
                is_literal = false;
                writer.end_literal();
            }
            _ if is_literal => writer.literal(&plain(line)),
            _ if std::mem::take(&mut is_term) => writer.term(&plain(line)),
            _ => writer.text(&plain(line)),
        }
    }
}

fn plain(text: &str) -> String {
    text.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")
}

#[cfg(test)]
pub fn is_known(line: &str) -> bool {
    let request = line.split(' ').next().unwrap_or_default();
    [".TH", ".SH", ".SS", ".PP", ".TP", ".RS", ".RE", ".nf", ".fi"].contains(&request)
}
