// SPDX-License-Identifier: BSD-2-Clause
//! Bytes to lines, for output that is relayed. A line that never ends is cut.

/// The longest line that is relayed in one piece, in bytes.
const LONGEST: usize = 4096;

#[derive(Debug, Default)]
pub struct LineCollector {
    open: Vec<u8>,
    last: Vec<u8>,
}

impl LineCollector {
    /// Adds bytes and gives every line they complete, without its end.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let complete = piece.ends_with(b"\n");
            self.open.extend_from_slice(piece.strip_suffix(b"\n").unwrap_or(piece));
            while self.open.len() > LONGEST {
                let rest = self.open.split_off(LONGEST);
                each(&self.open);
                self.open = rest;
            }
            if complete {
                each(&self.open);
                self.last = std::mem::take(&mut self.open);
            }
        }
    }

    pub fn last(&self) -> &[u8] {
        &self.last
    }

    /// Gives what is left as a line.
    pub fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.open.is_empty() {
            each(&self.open);
            self.open.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], lines: &[&str]) {
        let (mut collected, mut reader) = (Vec::new(), LineCollector::default());
        let mut keep = |line: &[u8]| collected.push(String::from_utf8(line.to_vec()).unwrap());
        for piece in pieces {
            reader.feed(piece.as_bytes(), &mut keep);
        }
        reader.finish(&mut keep);
        assert_eq!(collected, lines);
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        check(&["a\nb", "c\n", "\nd"], &["a", "bc", "", "d"]);
        check(&[&"x".repeat(LONGEST + 1)], &[&"x".repeat(LONGEST), "x"]);
    }
}
