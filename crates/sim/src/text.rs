// SPDX-License-Identifier: BSD-2-Clause
//! Bodies that tell where they come from: each line has the URL, the variant, the number of the answer, and its own number,
//! so that a byte of another object, or of another place, is seen.

pub(crate) const LINE: usize = 32;
/// Position of a line's own number.
const NUMBER_AT: usize = 23;
const DIGITS: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptSource {
    pub url: String,
    /// The value that the answer varies on; `-` where it doesn't.
    pub variant: String,
    /// Number of the origin's answer that brought it.
    pub number: u64,
    pub lines: u64,
}

impl ScriptSource {
    fn lines(&self, numbers: std::ops::Range<u64>) -> Vec<u8> {
        let mut line = format!("{:<10} {:<4} {:>6} ", self.url, self.variant, self.number).into_bytes();
        assert_eq!(line.len(), NUMBER_AT, "names in scenarios are short");
        line.resize(LINE - 1, b' ');
        line.push(b'\n');
        let mut lines = Vec::with_capacity(LINE * (numbers.end - numbers.start) as usize);
        for number in numbers {
            put_number(&mut line, number);
            lines.extend_from_slice(&line);
        }
        lines
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.lines(0..self.lines)
    }

    /// A page: its lines, the includes, its lines once more, counted on.
    pub fn page(&self, includes: &[String]) -> Vec<u8> {
        let mut bytes = self.bytes();
        for url in includes {
            bytes.extend_from_slice(format!("<esi:include src=\"{url}\"/>").as_bytes());
        }
        bytes.extend(self.lines(self.lines..self.lines * 2));
        bytes
    }
}

fn put_number(line: &mut [u8], mut number: u64) {
    let mut at = NUMBER_AT + DIGITS;
    while at > NUMBER_AT {
        at -= 1;
        line[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub url: String,
    pub variant: String,
    pub number: u64,
    pub first: u64,
    pub count: u64,
}

/// The runs that a whole page is made of.
///
/// # Errors
/// What isn't a line, in words.
pub(crate) fn runs(body: &[u8]) -> Result<Vec<Run>, String> {
    let mut runs: Vec<Run> = Vec::new();
    // The line that would go on with the last run.
    let mut next = Vec::new();
    for line in body.chunks(LINE) {
        if let Some(run) = runs.last_mut().filter(|_| line == next) {
            run.count += 1;
            put_number(&mut next, run.first + run.count);
            continue;
        }
        let text = String::from_utf8_lossy(line);
        let words: Vec<&str> = text.split_whitespace().collect();
        let read = match words[..] {
            [url, variant, number, at] if line.len() == LINE && line.ends_with(b"\n") => {
                number.parse().ok().zip(at.parse().ok()).map(|(number, at)| (url, variant, number, at))
            }
            _ => None,
        };
        let Some((url, variant, number, at)) = read else { return Err(format!("`{text}` is no line of anybody's")) };
        let (url, variant) = (url.to_owned(), variant.to_owned());
        runs.push(Run { url, variant, number, first: at, count: 1 });
        next = line.to_vec();
        put_number(&mut next, at + 1);
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_its_runs() {
        let source = ScriptSource { url: "/a".into(), variant: "de".into(), number: 7, lines: 3 };
        let mut bytes = source.bytes();
        assert_eq!(bytes.len(), 3 * LINE);
        bytes.extend(ScriptSource { number: 8, ..source }.lines(3..4));
        let seen: Vec<_> = runs(&bytes).unwrap().into_iter().map(|run| (run.number, run.first, run.count)).collect();
        assert_eq!(seen, [(7, 0, 3), (8, 3, 1)]);
        assert!(runs(&bytes[..40]).is_err());
    }
}
