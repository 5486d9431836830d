// SPDX-License-Identifier: BSD-2-Clause
//! `esi` and `esi_gzip`: find the ESI tags of a body on its way into the cache and make the program that delivery
//! follows. `esi` stores the body as it is; `esi_gzip` stores it as gzip in pieces: each delivered run is whole deflate
//! blocks that refer to nothing outside of it.

use std::collections::VecDeque;

use esi::{Complaint, EsiInclude, EsiParser, Features, GzipPiece, ParserSink, ProgramBuilder};
use zlib_rs::DeflateFlush;

use crate::gunzip::record;
use crate::gzip::GzipPace;
use crate::packer::{PackProgress, Packer};
use crate::stitch::{self, GzipSum};
use crate::{Filter, FilterError, FilterNote, FilterState, FilterStep, GzipBits, GzipParams, SLICE, UNPACKED_A_MICRO};

/// Bytes that one step parses at most: some 100 microseconds where each tag is one of ESI. Fewer would make blocks that are short to be stored.
const PARSED: usize = SLICE / 2;
/// Bytes that are parsed in about a microsecond.
const PARSED_A_MICRO: u32 = 40;

/// Runs that one step ends at most: a flush of the compressor each.
const ITEMS: usize = 8;
const FLUSH_MICROS: u32 = 8;

/// A last block without anything in it, in RFC 1951's own codes: 10 bits.
const LAST_BLOCK: [u8; 2] = [3, 0];

fn note(complaint: Complaint, after: u64) -> FilterNote {
    FilterNote::Esi(complaint.severity(), complaint.record(after))
}

/// The plain form: bytes pass, the program counts them.
pub(crate) struct Esi {
    parser: EsiParser,
    work: Plain,
    program: Option<Vec<u8>>,
}

struct Plain {
    builder: Option<ProgramBuilder>,
    notes: Vec<FilterNote>,
}

impl Plain {
    fn builder(&mut self) -> &mut ProgramBuilder {
        self.builder.as_mut().expect("taken at the end of the body, after which nothing is parsed")
    }
}

impl ParserSink for Plain {
    fn verbatim(&mut self, bytes: &[u8]) {
        self.builder().verbatim(bytes.len() as u64);
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.builder().skip(bytes.len() as u64);
    }

    fn include(&mut self, include: &EsiInclude) {
        self.builder().include(include);
    }

    fn complaint(&mut self, complaint: Complaint, after: u64) {
        self.notes.push(note(complaint, after));
    }
}

impl Esi {
    /// An ESI filter; `url` is bereq's.
    pub(crate) fn new(url: &[u8], features: Features) -> Self {
        let work = Plain { builder: Some(ProgramBuilder::new(url, false)), notes: Vec::new() };
        Self { parser: EsiParser::new(features), work, program: None }
    }
}

impl Filter for Esi {
    fn name(&self) -> &'static str {
        "esi"
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let n = input.len().min(out.len()).min(PARSED);
        out[..n].copy_from_slice(&input[..n]);
        self.parser.feed(&input[..n], &mut self.work);
        let state = match (n == input.len(), is_last) {
            (false, _) => FilterState::More,
            (true, false) => FilterState::Hungry,
            (true, true) => {
                let found = self.parser.finish(&mut self.work);
                self.program = self.work.builder.take().filter(|_| found).and_then(ProgramBuilder::finish);
                FilterState::End
            }
        };
        Ok(FilterStep { consumed: n, produced: n, state })
    }

    fn micros(&self, step: &FilterStep) -> u32 {
        step.micros_at(PARSED_A_MICRO)
    }

    fn take_notes(&mut self, notes: &mut Vec<FilterNote>) {
        notes.append(&mut self.work.notes);
    }

    fn take_esi(&mut self) -> Option<Vec<u8>> {
        self.program.take()
    }
}

/// The gzip form: text is compressed run by run.
pub(crate) struct EsiGzip {
    parser: EsiParser,
    work: Packing,
    phase: Phase,
    program: Option<Vec<u8>>,
    plain: u64,
    packed: u64,
    /// Header or trailer: what of it isn't written yet.
    frame: VecDeque<u8>,
}

enum Phase {
    Body,
    /// The parser is done; what it left is packed.
    Ending,
    Ended,
}

/// Output of the parser, in order, not yet compressed: at most one slice of body.
enum Item {
    Run { is_verbatim: bool, bytes: Vec<u8>, at: usize },
    Include(EsiInclude),
    Complaint(Complaint),
}

/// Handling of the bytes that the parser classified.
struct Packing {
    deflate: Packer,
    pace: GzipPace,
    /// Microseconds of the last step, roughly.
    micros: u32,
    queue: VecDeque<Item>,
    builder: Option<ProgramBuilder>,
    notes: Vec<FilterNote>,
    /// Sum of the whole body, for the trailer.
    whole: GzipSum,
    run: GzipSum,
    run_is_verbatim: bool,
    run_packed: u64,
    /// Offset of the open run in the stored body.
    run_start: u64,
    is_begun: bool,
    dirty: bool,
}

impl ParserSink for Packing {
    fn verbatim(&mut self, bytes: &[u8]) {
        self.append(true, bytes);
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.append(false, bytes);
    }

    fn include(&mut self, include: &EsiInclude) {
        self.queue.push_back(Item::Include(include.clone()));
    }

    fn complaint(&mut self, complaint: Complaint, _: u64) {
        // Positions are those of the stored body: known when what comes before is packed.
        self.queue.push_back(Item::Complaint(complaint));
    }
}

impl Packing {
    fn append(&mut self, verbatim: bool, more: &[u8]) {
        match self.queue.back_mut() {
            Some(Item::Run { is_verbatim, bytes, .. }) if *is_verbatim == verbatim => bytes.extend_from_slice(more),
            _ => self.queue.push_back(Item::Run { is_verbatim: verbatim, bytes: more.to_vec(), at: 0 }),
        }
    }

    fn builder(&mut self) -> &mut ProgramBuilder {
        self.builder.as_mut().expect("taken at the end of the body, after which nothing is packed")
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum")]
    fn pack(&mut self, input: &[u8], out: &mut [u8], flush: DeflateFlush) -> Result<PackProgress, FilterError> {
        let packed = self.deflate.pack(input, out, flush)?;
        self.micros += match flush {
            DeflateFlush::NoFlush => packed.used as u32 / self.pace.bytes_a_micro,
            _ => FLUSH_MICROS,
        };
        let used = &input[..packed.used];
        self.run.add(used);
        self.whole.add(used);
        self.run_packed += packed.made as u64;
        self.dirty |= !used.is_empty();
        Ok(packed)
    }

    /// Brings the open run to a byte boundary; true when it is there. What follows bytes that are left out refers to
    /// nothing before it: they must not be missed.
    fn end_run(&mut self, out: &mut [u8], made: &mut usize) -> Result<bool, FilterError> {
        if self.dirty {
            let room = out.len() - *made;
            let flush = if self.run_is_verbatim { DeflateFlush::SyncFlush } else { DeflateFlush::FullFlush };
            let n = self.pack(&[], &mut out[*made..], flush)?.made;
            *made += n;
            if n == room {
                return Ok(false);
            }
            self.dirty = false;
        }
        let (sum, packed) = (std::mem::take(&mut self.run), std::mem::take(&mut self.run_packed));
        if self.run_is_verbatim {
            let piece = GzipPiece { crc: sum.crc, plain_bytes: sum.plain_bytes };
            self.builder().gzip_piece(packed, piece);
        } else {
            self.builder().skip(packed);
        }
        self.run_start = stitch::HEADER.len() as u64 + self.deflate.written();
        Ok(true)
    }

    /// Works on the queue until it is empty, `out` is full, or that was enough.
    fn work(&mut self, out: &mut [u8], made: &mut usize) -> Result<(), FilterError> {
        for _ in 0..ITEMS {
            if *made == out.len() {
                break;
            }
            if !self.is_begun {
                // The header's run ends here, as Varnish has it: positions in log records are the same.
                self.is_begun = self.end_run(out, made)?;
                continue;
            }
            match self.queue.pop_front() {
                None => return Ok(()),
                Some(Item::Run { is_verbatim, bytes, mut at }) => {
                    let switches = is_verbatim != self.run_is_verbatim;
                    if switches && !self.end_run(out, made)? {
                        self.queue.push_front(Item::Run { is_verbatim, bytes, at });
                        continue;
                    }
                    self.run_is_verbatim = is_verbatim;
                    let slice = &bytes[at..bytes.len().min(at + self.pace.slice)];
                    let packed = self.pack(slice, &mut out[*made..], DeflateFlush::NoFlush)?;
                    at += packed.used;
                    *made += packed.made;
                    if at < bytes.len() {
                        self.queue.push_front(Item::Run { is_verbatim, bytes, at });
                    }
                }
                Some(Item::Include(include)) => {
                    // What is delivered before it must be in the program before it.
                    if self.run_is_verbatim && !self.end_run(out, made)? {
                        self.queue.push_front(Item::Include(include));
                        continue;
                    }
                    self.run_is_verbatim = false;
                    self.builder().include(&include);
                }
                Some(Item::Complaint(complaint)) => self.notes.push(note(complaint, self.run_start)),
            }
        }
        Ok(())
    }
}

impl EsiGzip {
    pub(crate) fn new(url: &[u8], features: Features, params: GzipParams) -> Self {
        let mut builder = ProgramBuilder::new(url, true);
        builder.skip(stitch::HEADER.len() as u64);
        let work = Packing {
            deflate: Packer::new(params),
            pace: params.pace(),
            micros: 0,
            queue: VecDeque::new(),
            builder: Some(builder),
            notes: Vec::new(),
            whole: GzipSum::default(),
            run: GzipSum::default(),
            run_is_verbatim: false,
            run_packed: 0,
            run_start: 0,
            is_begun: false,
            dirty: true,
        };
        let frame = stitch::HEADER.into();
        Self { parser: EsiParser::new(features), work, phase: Phase::Body, program: None, plain: 0, packed: 0, frame }
    }

    fn bits(&self) -> GzipBits {
        let last = (self.packed * 8).saturating_sub((LAST_BLOCK.len() as u64 + 8) * 8);
        GzipBits { start: stitch::HEADER.len() as u64 * 8, last, stop: last + 10, plain_bytes: self.plain }
    }

    fn write_frame(&mut self, out: &mut [u8], made: &mut usize) {
        let n = self.frame.len().min(out.len() - *made);
        for (slot, byte) in out[*made..].iter_mut().zip(self.frame.drain(..n)) {
            *slot = byte;
        }
        *made += n;
    }

    /// Parses a slice, once what came before is packed.
    fn parse(&mut self, input: &[u8], is_last: bool) -> usize {
        if !self.work.queue.is_empty() || !matches!(self.phase, Phase::Body) {
            return 0;
        }
        let n = input.len().min(PARSED);
        self.parser.feed(&input[..n], &mut self.work);
        self.plain += n as u64;
        if n == input.len() && is_last {
            let found = self.parser.finish(&mut self.work);
            self.phase = Phase::Ending;
            self.program = found.then(Vec::new);
        }
        n
    }

    fn end(&mut self, out: &mut [u8], made: &mut usize) -> Result<FilterState, FilterError> {
        if matches!(self.phase, Phase::Ending) {
            if !self.work.end_run(out, made)? {
                return Ok(FilterState::More);
            }
            self.frame.extend(LAST_BLOCK);
            self.frame.extend(self.work.whole.crc.to_le_bytes());
            self.frame.extend((self.work.whole.plain_bytes as u32).to_le_bytes());
            self.phase = Phase::Ended;
        }
        self.write_frame(out, made);
        Ok(if self.frame.is_empty() { FilterState::End } else { FilterState::More })
    }
}

impl Filter for EsiGzip {
    fn name(&self) -> &'static str {
        "esi_gzip"
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let mut made = 0;
        self.write_frame(out, &mut made);
        let consumed = self.parse(input, is_last);
        self.work.micros = consumed as u32 / PARSED_A_MICRO;
        self.work.work(out, &mut made)?;
        let mut state = FilterState::More;
        if self.work.queue.is_empty() && made < out.len() {
            state = match self.phase {
                Phase::Body if consumed == input.len() => FilterState::Hungry,
                Phase::Body => FilterState::More,
                Phase::Ending | Phase::Ended => self.end(out, &mut made)?,
            };
        }
        self.packed += made as u64;
        if state == FilterState::End && self.program.is_some() {
            self.program = self.work.builder.take().and_then(ProgramBuilder::finish);
        }
        Ok(FilterStep { consumed, produced: made, state })
    }

    fn micros(&self, step: &FilterStep) -> u32 {
        self.work.micros.max(step.micros_at(UNPACKED_A_MICRO))
    }

    fn take_notes(&mut self, notes: &mut Vec<FilterNote>) {
        notes.append(&mut self.work.notes);
    }

    fn closing_note(&self) -> Option<String> {
        Some(record("G F E", self.plain, self.packed, self.bits()))
    }

    fn gzip_bits(&self) -> Option<GzipBits> {
        Some(self.bits())
    }

    fn take_esi(&mut self) -> Option<Vec<u8>> {
        self.program.take()
    }
}
