// SPDX-License-Identifier: BSD-2-Clause
//! `SUMMARY.md`: the parts of the book and their pages, in order.

#[derive(Debug, PartialEq, Eq)]
pub enum SummaryEntry {
    /// `# TITLE` or `## TITLE`: a part begins.
    Part(String),
    /// `- [TITLE](PATH)`, set in by two spaces for each level.
    Page {
        title: String,
        /// The path within `docs`.
        path: String,
        /// The level, from 0 on.
        level: usize,
    },
}

impl SummaryEntry {
    pub fn path(&self) -> Option<&str> {
        match self {
            SummaryEntry::Page { path, .. } => Some(path),
            SummaryEntry::Part(_) => None,
        }
    }
}

/// Reads the list.
///
/// # Errors
/// A line is neither a heading nor a page.
pub fn read(text: &str) -> Result<Vec<SummaryEntry>, String> {
    let mut out = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words = line.trim_start();
        if words.is_empty() || words.starts_with("<!--") {
            continue;
        }
        if let Some(title) = words.strip_prefix('#') {
            out.push(SummaryEntry::Part(title.trim_start_matches('#').trim().to_owned()));
            continue;
        }
        let page = words.strip_prefix(['-', '*']).map(str::trim_start).and_then(|rest| {
            let (title, path) = rest.strip_prefix('[')?.split_once("](")?;
            Some((title, path.strip_suffix(')')?))
        });
        let Some((title, path)) = page else { return Err(format!("SUMMARY.md:{}: {line}", at + 1)) };
        let level = (line.len() - words.len()) / 2;
        out.push(SummaryEntry::Page { title: title.to_owned(), path: path.to_owned(), level });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list() {
        let page =
            |title: &str, path: &str, level| SummaryEntry::Page { title: title.into(), path: path.into(), level };
        assert_eq!(
            read("# Book\n\n- [A](a.md)\n  - [B](x/b.md)\n"),
            Ok(vec![SummaryEntry::Part("Book".into()), page("A", "a.md", 0), page("B", "x/b.md", 1)])
        );
        assert_eq!(read("text\n"), Err("SUMMARY.md:1: text".into()));
    }
}
