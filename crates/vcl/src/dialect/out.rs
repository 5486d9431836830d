// SPDX-License-Identifier: BSD-2-Clause
//! Translated text with a map to its sources.

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Start in the translated text.
    out: u32,
    /// The source; `None` for text added by the translation.
    src: Option<u32>,
    /// Start and length in the source.
    at: u32,
    len: u32,
    verbatim: bool,
}

/// Maps ranges of translated text to ranges of the sources.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceMap {
    segs: Vec<Segment>,
}

impl SourceMap {
    /// The source, start and end that `start..end` of the translated text comes from.
    pub fn origin(&self, start: u32, end: u32) -> Option<(u32, u32, u32)> {
        let (src, from, first_end) = self.byte(start)?;
        let to = match self.byte(end.saturating_sub(1).max(start)) {
            Some((other, _, to)) if other == src && to > from => to,
            _ => first_end,
        };
        Some((src, from, to))
    }

    fn byte(&self, at: u32) -> Option<(u32, u32, u32)> {
        let n = self.segs.partition_point(|s| s.out <= at).checked_sub(1)?;
        let seg = self.segs[n];
        let src = seg.src?;
        if !seg.verbatim {
            return Some((src, seg.at, seg.at + seg.len));
        }
        let from = seg.at + (at - seg.out).min(seg.len.saturating_sub(1));
        Some((src, from, from + 1))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Out {
    pub text: Vec<u8>,
    segs: Vec<Segment>,
}

/// A length of the output to return to.
#[derive(Clone, Copy)]
pub(crate) struct Mark(usize, usize);

impl Out {
    pub fn verbatim(&mut self, src: u32, text: &[u8], from: u32, to: u32) {
        if from < to {
            self.segs.push(Segment {
                out: self.text.len() as u32,
                src: Some(src),
                at: from,
                len: to - from,
                verbatim: true,
            });
            self.text.extend_from_slice(&text[from as usize..to as usize]);
        }
    }

    pub fn instead(&mut self, src: u32, from: u32, to: u32, new: &str) {
        self.segs.push(Segment {
            out: self.text.len() as u32,
            src: Some(src),
            at: from,
            len: to.saturating_sub(from).max(1),
            verbatim: false,
        });
        self.text.extend_from_slice(new.as_bytes());
    }

    /// Appends text without a counterpart in the sources.
    pub fn own(&mut self, new: &str) {
        self.segs.push(Segment { out: self.text.len() as u32, src: None, at: 0, len: 0, verbatim: false });
        self.text.extend_from_slice(new.as_bytes());
    }

    pub fn append(&mut self, other: &Out) {
        let by = self.text.len() as u32;
        self.segs.extend(other.segs.iter().map(|s| Segment { out: s.out + by, ..*s }));
        self.text.extend_from_slice(&other.text);
    }

    pub fn mark(&self) -> Mark {
        Mark(self.text.len(), self.segs.len())
    }

    pub fn rollback(&mut self, mark: Mark) {
        self.text.truncate(mark.0);
        self.segs.truncate(mark.1);
    }

    pub fn since(&self, mark: Mark) -> &[u8] {
        &self.text[mark.0..]
    }

    pub fn finish(self) -> (Vec<u8>, SourceMap) {
        (self.text, SourceMap { segs: self.segs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lead_back_to_what_was_written() {
        let mut out = Out::default();
        out.own("vcl 4.1;\n");
        out.verbatim(0, b"set req.request", 0, 4);
        out.instead(0, 4, 15, "req.method");
        let (text, map) = out.finish();
        assert_eq!(text, b"vcl 4.1;\nset req.method");
        assert_eq!(map.origin(0, 3), None);
        assert_eq!(map.origin(9, 12), Some((0, 0, 3)));
        assert_eq!(map.origin(13, 23), Some((0, 4, 15)));
        assert_eq!(map.origin(9, 23), Some((0, 0, 15)));
    }
}
