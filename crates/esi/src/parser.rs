// SPDX-License-Identifier: BSD-2-Clause
//! The parser: a state machine that is fed slices of any size and classifies every byte.
//!
//! ```text
//! Start -> Bom -> TestXml -> NotXml                    no '<' first: all verbatim
//!             '-> Text <-> Tag ('<' and a few bytes) -> OtherTag, Comment, Cdata -> Text
//!                               '-> Element -> InTag <-> AttrName, SkipAttr, AttrDelim, AttrVal
//!                                     '---------'-> TagError -> Text
//! ```
//! At most [`HELD`] bytes are undecided at any time, and one attribute's value is kept.

use crate::tag::{AFTER_LT, ATTRIBUTES, ELEMENTS, LONGEST, TagMatch, Word, find, in_name, is_space, starts_name};
use crate::{Complaint, EsiInclude, Features};

/// Longest src; beyond it no request line would fit.
const MAX_SRC: usize = 64 * 1024;
/// Complaints about one body; further ones are dropped.
const MAX_COMPLAINTS: u32 = 1000;
/// `<` and the longest word.
const HELD: usize = LONGEST + 1;

/// The receiver of a parser's finds. The bytes of all calls, in order, are the body.
pub trait ParserSink {
    fn verbatim(&mut self, bytes: &[u8]);
    fn skip(&mut self, bytes: &[u8]);
    /// A fragment comes after what was delivered so far.
    fn include(&mut self, include: &EsiInclude);
    /// Something is wrong, in the run of delivered or skipped bytes that began at `after`.
    fn complaint(&mut self, complaint: Complaint, after: u64);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParserState {
    Start,
    Bom,
    TestXml,
    NotXml,
    Text,
    Tag,
    OtherTag,
    /// Number of `-` or `]` of the end that were just seen.
    Comment(u8),
    Cdata(u8),
    Element,
    InTag,
    TagError,
    AttrName,
    SkipAttr,
    AttrDelim,
    AttrVal,
}

impl ParserState {
    fn is_in_esi_tag(self) -> bool {
        match self {
            ParserState::Element | ParserState::InTag | ParserState::TagError => true,
            ParserState::AttrName | ParserState::SkipAttr | ParserState::AttrDelim | ParserState::AttrVal => true,
            ParserState::Start | ParserState::Bom | ParserState::TestXml | ParserState::NotXml | ParserState::Text => {
                false
            }
            ParserState::Tag | ParserState::OtherTag | ParserState::Comment(_) | ParserState::Cdata(_) => false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct PendingBytes {
    bytes: [u8; HELD],
    len: usize,
}

impl PendingBytes {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn take(&mut self) -> PendingBytes {
        std::mem::take(self)
    }
}

#[derive(Debug, Default)]
struct Tag {
    element: Option<Word>,
    is_end: bool,
    is_empty: bool,
    can_have_attribute: bool,
    src: Option<Vec<u8>>,
    continue_on_error: bool,
    attribute: Option<Word>,
    delimiter: u8,
    value: Vec<u8>,
}

/// Offset at which the current run of delivered or skipped bytes began.
#[derive(Debug, Default)]
struct CurrentRun {
    is_verbatim: bool,
    start: u64,
    total: u64,
}

impl CurrentRun {
    fn add(&mut self, is_verbatim: bool, bytes: &[u8]) {
        if is_verbatim != self.is_verbatim {
            (self.is_verbatim, self.start) = (is_verbatim, self.total);
        }
        self.total += bytes.len() as u64;
    }
}

#[derive(Debug)]
pub struct EsiParser {
    features: Features,
    state: ParserState,
    held: PendingBytes,
    /// In `<!--esi`: its `-->` is to be left out.
    in_comment: bool,
    /// `-` of that end seen and not yet classified.
    dashes: u8,
    in_remove: bool,
    found: bool,
    tag: Tag,
    runs: CurrentRun,
    complaints: u32,
}

impl EsiParser {
    pub fn new(features: Features) -> Self {
        Self {
            features,
            state: ParserState::Start,
            held: PendingBytes::default(),
            in_comment: false,
            dashes: 0,
            in_remove: false,
            found: false,
            tag: Tag::default(),
            runs: CurrentRun::default(),
            complaints: 0,
        }
    }

    pub fn feed(&mut self, mut input: &[u8], sink: &mut dyn ParserSink) {
        while let Some(&byte) = input.first() {
            let plain = self.plain_bytes(input);
            if plain > 0 {
                self.text(&input[..plain], sink);
                input = &input[plain..];
            } else {
                self.byte(byte, sink);
                input = &input[1..];
            }
        }
    }

    /// The body's end. Whether there was any ESI in it: if not, the object needs no program.
    pub fn finish(&mut self, sink: &mut dyn ParserSink) -> bool {
        match self.state {
            ParserState::Start | ParserState::Bom | ParserState::TestXml | ParserState::NotXml | ParserState::Text => {}
            ParserState::Tag | ParserState::OtherTag | ParserState::Comment(_) | ParserState::Cdata(_) => {
                self.complain(Complaint::EndedInTag, sink)
            }
            ParserState::Element | ParserState::InTag | ParserState::TagError | ParserState::AttrName => {
                self.complain(Complaint::EndedInTag, sink)
            }
            ParserState::SkipAttr | ParserState::AttrDelim | ParserState::AttrVal => {
                self.complain(Complaint::EndedInTag, sink)
            }
        }
        if matches!(self.state, ParserState::Bom | ParserState::Tag) {
            let held = self.held.take();
            self.text(held.as_slice(), sink);
        }
        self.give_back_dashes(sink);
        self.found
    }

    /// Number of bytes at the start of `input` that are text without any meaning: the fast path.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only these states have a fast path")]
    fn plain_bytes(&self, input: &[u8]) -> usize {
        let until = |found: Option<usize>| found.unwrap_or(input.len());
        match self.state {
            ParserState::NotXml => input.len(),
            ParserState::Text if self.dashes > 0 => 0,
            ParserState::Text if self.in_comment => until(memchr::memchr2(b'<', b'-', input)),
            ParserState::Text => until(memchr::memchr(b'<', input)),
            ParserState::OtherTag => until(memchr::memchr(b'>', input)),
            ParserState::Comment(0) => until(memchr::memchr(b'-', input)),
            ParserState::Cdata(0) => until(memchr::memchr(b']', input)),
            _ => 0,
        }
    }

    fn byte(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        if self.state.is_in_esi_tag() {
            self.classify(false, &[byte], sink);
            self.in_tag(byte, sink);
        } else {
            self.in_text(byte, sink);
        }
    }

    fn again(&mut self, bytes: &[u8], sink: &mut dyn ParserSink) {
        bytes.iter().for_each(|&byte| self.byte(byte, sink));
    }

    fn classify(&mut self, is_verbatim: bool, bytes: &[u8], sink: &mut dyn ParserSink) {
        if bytes.is_empty() {
            return;
        }
        self.runs.add(is_verbatim, bytes);
        if is_verbatim { sink.verbatim(bytes) } else { sink.skip(bytes) }
    }

    /// Bytes of the page: delivered unless in `<esi:remove>`.
    fn text(&mut self, bytes: &[u8], sink: &mut dyn ParserSink) {
        self.classify(!self.in_remove, bytes, sink);
    }

    fn complain(&mut self, complaint: Complaint, sink: &mut dyn ParserSink) {
        self.complaints += 1;
        if self.complaints <= MAX_COMPLAINTS {
            sink.complaint(complaint, self.runs.start);
        }
    }

    fn give_back_dashes(&mut self, sink: &mut dyn ParserSink) {
        let dashes = std::mem::take(&mut self.dashes);
        self.text(&b"--"[..usize::from(dashes)], sink);
    }

    // Outside of ESI tags: each byte is classified here, or held.

    fn in_text(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        match self.state {
            ParserState::Start if self.features.remove_bom && is_bom_start(byte) => {
                self.state = ParserState::Bom;
                self.held.push(byte);
            }
            ParserState::Start => {
                self.state = self.after_bom();
                self.byte(byte, sink);
            }
            ParserState::Bom => self.in_bom(byte, sink),
            ParserState::TestXml => self.test_xml(byte, sink),
            ParserState::Text => self.in_page(byte, sink),
            ParserState::Tag => self.after_lt(byte, sink),
            ParserState::OtherTag => {
                self.text(&[byte], sink);
                if byte == b'>' {
                    self.state = ParserState::Text;
                }
            }
            ParserState::Comment(seen) => {
                self.state = self.until(byte, b'-', seen, sink).map_or(ParserState::Text, ParserState::Comment)
            }
            ParserState::Cdata(seen) => {
                self.state = self.until(byte, b']', seen, sink).map_or(ParserState::Text, ParserState::Cdata)
            }
            ParserState::NotXml => self.text(&[byte], sink),
            ParserState::Element | ParserState::InTag | ParserState::TagError | ParserState::AttrName => {
                unreachable!("{:?}", self.state)
            }
            ParserState::SkipAttr | ParserState::AttrDelim | ParserState::AttrVal => unreachable!("{:?}", self.state),
        }
    }

    fn after_bom(&self) -> ParserState {
        if self.features.disable_xml_check { ParserState::Text } else { ParserState::TestXml }
    }

    fn in_bom(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        self.held.push(byte);
        let held = self.held;
        if held.as_slice()[1..] == [0xbb, 0xbf] {
            self.held.take();
            self.classify(false, held.as_slice(), sink);
            self.state = ParserState::Start;
        } else if held.as_slice()[1..] != [0xbb] {
            self.held.take();
            self.state = self.after_bom();
            self.again(held.as_slice(), sink);
        }
    }

    fn test_xml(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        match byte {
            b'<' => self.open_tag(),
            c if is_space(c) => self.text(&[byte], sink),
            c => {
                let reason = if is_bom_start(c) { Complaint::NotXmlBom } else { Complaint::NotXml };
                self.complain(reason, sink);
                self.state = ParserState::NotXml;
                self.text(&[byte], sink);
            }
        }
    }

    fn in_page(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        match byte {
            b'-' if self.in_comment && self.dashes < 2 => self.dashes += 1,
            b'-' if self.in_comment => self.text(b"-", sink),
            b'>' if self.dashes == 2 => {
                (self.dashes, self.in_comment, self.found) = (0, false, true);
                self.classify(false, b"-->", sink);
            }
            b'<' => {
                self.give_back_dashes(sink);
                self.open_tag();
            }
            _ => {
                self.give_back_dashes(sink);
                self.text(&[byte], sink);
            }
        }
    }

    fn open_tag(&mut self) {
        // What may be a tag begins a run, also when no text stands between it and the last one.
        self.runs.add(!self.in_remove, &[]);
        self.state = ParserState::Tag;
        self.held.push(b'<');
    }

    /// Text up to three bytes: two of `mark` and a `>`. `None` when they are through, else the marks just seen.
    fn until(&mut self, byte: u8, mark: u8, seen: u8, sink: &mut dyn ParserSink) -> Option<u8> {
        self.text(&[byte], sink);
        match byte {
            b'>' if seen == 2 => None,
            c if c == mark => Some((seen + 1).min(2)),
            _ => Some(0),
        }
    }

    fn after_lt(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        self.held.push(byte);
        let (word, len) = match find(AFTER_LT, &self.held.as_slice()[1..]) {
            TagMatch::Partial => return,
            TagMatch::Word(word, len) => (Some(word), len + 1),
            TagMatch::Nothing => (None, 1),
        };
        let held = self.held.take();
        let (seen, rest) = held.as_slice().split_at(len);
        match word {
            Some(Word::CommentEsi) => {
                if self.in_remove {
                    self.complain(Complaint::NestedComment, sink);
                }
                self.in_comment = true;
                self.state = ParserState::Text;
                self.classify(false, seen, sink);
            }
            Some(Word::Esi | Word::EsiEnd) => {
                self.found = true;
                self.tag = Tag { is_end: word == Some(Word::EsiEnd), ..Tag::default() };
                self.state = ParserState::Element;
                self.classify(false, seen, sink);
            }
            Some(Word::Comment) => {
                self.in_comment = false;
                self.state = ParserState::Comment(0);
                self.text(seen, sink);
            }
            Some(Word::Cdata) => {
                self.state = ParserState::Cdata(0);
                self.text(seen, sink);
            }
            Some(Word::EmptyComment) => {
                self.state = ParserState::Text;
                self.text(seen, sink);
            }
            _ => {
                self.state =
                    if self.features.ignore_other_elements { ParserState::Text } else { ParserState::OtherTag };
                self.text(seen, sink);
            }
        }
        self.again(rest, sink);
    }

    // In ESI tags: the bytes are already classified as left out.

    fn in_tag(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        match self.state {
            ParserState::Element => self.element(byte, sink),
            ParserState::InTag => self.between_attributes(byte, sink),
            ParserState::TagError if byte == b'>' => self.state = ParserState::Text,
            ParserState::TagError => {}
            ParserState::AttrName => self.attribute_name(byte, sink),
            ParserState::SkipAttr => self.skip_attribute(byte, sink),
            ParserState::AttrDelim => self.attribute_delimiter(byte, sink),
            ParserState::AttrVal => self.attribute_value(byte, sink),
            ParserState::Start | ParserState::Bom | ParserState::TestXml | ParserState::NotXml => {
                unreachable!("{:?}", self.state)
            }
            ParserState::Text | ParserState::Tag | ParserState::OtherTag => unreachable!("{:?}", self.state),
            ParserState::Comment(_) | ParserState::Cdata(_) => unreachable!("{:?}", self.state),
        }
    }

    fn tag_again(&mut self, bytes: &[u8], sink: &mut dyn ParserSink) {
        bytes.iter().for_each(|&byte| self.in_tag(byte, sink));
    }

    fn bad_tag(&mut self, complaint: Complaint, sink: &mut dyn ParserSink) {
        self.complain(complaint, sink);
        self.state = ParserState::TagError;
    }

    fn element(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        self.held.push(byte);
        let word = match find(ELEMENTS, self.held.as_slice()) {
            TagMatch::Partial => return,
            TagMatch::Word(word, _) => Some(word),
            TagMatch::Nothing => None,
        };
        let held = self.held.take();
        self.tag.element = word;
        self.state = ParserState::InTag;
        match word {
            Some(Word::Include) if self.in_remove => self.bad_tag(Complaint::IncludeInRemove, sink),
            Some(Word::Include) if self.tag.is_end => self.bad_tag(Complaint::IncludeEndTag, sink),
            Some(Word::EsiComment) if self.in_remove => self.bad_tag(Complaint::CommentInRemove, sink),
            Some(Word::EsiComment) if self.tag.is_end => self.bad_tag(Complaint::CommentEndTag, sink),
            Some(_) => {}
            None => {
                self.bad_tag(Complaint::Bogus, sink);
                self.tag_again(held.as_slice(), sink);
            }
        }
    }

    fn between_attributes(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        match byte {
            b'>' => {
                self.state = ParserState::Text;
                self.end_of_tag(sink);
            }
            _ if self.tag.is_empty => self.bad_tag(Complaint::EmptyNotClosed, sink),
            b'/' => (self.tag.is_empty, self.tag.can_have_attribute) = (true, false),
            c if is_space(c) => self.tag.can_have_attribute = true,
            c if self.tag.can_have_attribute && starts_name(c) => {
                self.tag.attribute = None;
                if self.tag.element == Some(Word::Include) {
                    self.state = ParserState::AttrName;
                    self.in_tag(byte, sink);
                } else {
                    self.state = ParserState::SkipAttr;
                }
            }
            _ => self.bad_tag(Complaint::BadAttributeStart, sink),
        }
    }

    fn attribute_name(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        self.held.push(byte);
        match find(ATTRIBUTES, self.held.as_slice()) {
            TagMatch::Partial => {}
            TagMatch::Word(word, _) => {
                self.held.take();
                self.tag.attribute = Some(word);
                self.state = ParserState::AttrDelim;
            }
            TagMatch::Nothing => {
                let held = self.held.take();
                self.state = ParserState::SkipAttr;
                self.tag_again(held.as_slice(), sink);
            }
        }
    }

    fn skip_attribute(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        match byte {
            c if in_name(c) => {}
            b'=' => self.state = ParserState::AttrDelim,
            b'>' | b'/' | b' ' | b'\t' => {
                self.state = ParserState::InTag;
                self.in_tag(byte, sink);
            }
            _ => self.bad_tag(Complaint::BadAttributeChar, sink),
        }
    }

    fn attribute_delimiter(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        self.tag.value.clear();
        match byte {
            b'"' | b'\'' => (self.tag.delimiter, self.state) = (byte, ParserState::AttrVal),
            b' ' | b'\t' => self.bad_tag(Complaint::BadDelimiter, sink),
            _ => {
                (self.tag.delimiter, self.state) = (b' ', ParserState::AttrVal);
                self.in_tag(byte, sink);
            }
        }
    }

    fn attribute_value(&mut self, byte: u8, sink: &mut dyn ParserSink) {
        if byte == b'>' {
            self.bad_tag(Complaint::NoEndDelimiter, sink);
            self.state = ParserState::Text;
        } else if byte == self.tag.delimiter || (self.tag.delimiter == b' ' && byte == b'\t') {
            self.state = ParserState::InTag;
            self.end_of_attribute(sink);
        } else if self.tag.attribute.is_some() {
            self.tag.value.push(byte);
            if self.tag.value.len() > MAX_SRC {
                self.bad_tag(Complaint::SrcTooLong, sink);
            }
        }
    }

    fn end_of_attribute(&mut self, sink: &mut dyn ParserSink) {
        match self.tag.attribute {
            Some(Word::Src) if self.tag.src.is_some() => self.bad_tag(Complaint::MultipleSrc, sink),
            Some(Word::Src) if self.tag.value.iter().any(|&c| is_space(c)) => self.bad_tag(Complaint::SpaceInSrc, sink),
            Some(Word::Src) => self.tag.src = Some(std::mem::take(&mut self.tag.value)),
            Some(Word::OnError) => self.tag.continue_on_error = self.tag.value == b"continue",
            _ => {}
        }
    }

    fn end_of_tag(&mut self, sink: &mut dyn ParserSink) {
        match self.tag.element {
            Some(Word::Include) => self.end_of_include(sink),
            Some(Word::Remove) if self.tag.is_empty => self.complain(Complaint::RemoveEmpty, sink),
            Some(Word::Remove) if self.in_remove && !self.tag.is_end => self.complain(Complaint::RemoveOpen, sink),
            Some(Word::Remove) if !self.in_remove && self.tag.is_end => self.complain(Complaint::RemoveNotOpen, sink),
            Some(Word::Remove) => self.in_remove = !self.tag.is_end,
            Some(_) if !self.tag.is_empty => self.complain(Complaint::CommentNotEmpty, sink),
            Some(_) | None => {}
        }
    }

    fn end_of_include(&mut self, sink: &mut dyn ParserSink) {
        if !self.tag.is_empty {
            self.complain(Complaint::NoSlash, sink);
        }
        let Some(src) = self.tag.src.take() else { return self.complain(Complaint::NoSrc, sink) };
        let (include, warning) = EsiInclude::from_src(&src, self.tag.continue_on_error, self.features);
        if let Some(warning) = warning {
            self.complain(warning, sink);
        }
        match include {
            Ok(include) => sink.include(&include),
            Err(complaint) => self.complain(complaint, sink),
        }
    }
}

/// UTF-8's mark begins with EF; EB is what varnishd looks for.
fn is_bom_start(byte: u8) -> bool {
    matches!(byte, 0xef | 0xeb)
}

#[cfg(test)]
mod tests;
