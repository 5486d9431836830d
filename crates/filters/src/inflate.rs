// SPDX-License-Identifier: BSD-2-Clause
//! Unpacks one gzip member, checked (RFC 1951, RFC 1952); what gunzip and testgunzip share.
//!
//! Our own and not zlib's because stitching needs to know at which bit the blocks begin and end, and zlib keeps that to
//! itself. The words for what is wrong are zlib's. Resumable at any byte of input and output: a symbol with all its
//! extra bits is at most 48 bits, so it is decoded whole or not at all.

mod bits;
mod header;
mod huffman;
mod window;

pub(crate) use window::trim;

use bits::Bits;
use header::Header;
use huffman::{DIST_BASE, DIST_EXTRA, LEN_BASE, LEN_EXTRA, NextCode, Table, fixed};
use window::{WINDOW, Window};
use zlib_rs::crc32::crc32;

use crate::{FilterError, GzipBits};

/// The order in which the lengths of the code length code come.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const END_OF_BLOCK: u16 = 256;
/// Blocks that one call begins at most: their tables cost more than their few bytes.
const BLOCKS: u32 = 64;

enum Stop {
    Input,
    Output,
    Budget,
    Bad(&'static str),
}

enum Mode {
    Header(Header),
    Block,
    StoredLen,
    Stored(usize),
    /// Counts of the codes; then the lengths of the code length code; then the lengths themselves.
    Counts,
    CodeLens(usize),
    Lens(usize),
    Symbols,
    /// A match being copied: bytes left and distance.
    Copy(usize, usize),
    Crc,
    Length,
    Ended,
}

pub(crate) struct Unzip {
    mode: Mode,
    bits: Bits,
    lens: [u8; 320],
    counts: (usize, usize, usize),
    codes: Box<Table>,
    dists: Box<Table>,
    /// The block uses RFC 1951's own codes, not those two.
    is_fixed: bool,
    is_last: bool,
    window: Window,
    total_out: u64,
    crc: u32,
    marks: GzipBits,
    note: Option<String>,
}

#[derive(Debug)]
pub(crate) struct UnzipProgress {
    pub(crate) consumed: usize,
    pub(crate) produced: usize,
}

impl Unzip {
    pub(crate) fn new() -> Self {
        Self {
            mode: Mode::Header(Header::new()),
            bits: Bits::default(),
            lens: [0; 320],
            counts: (0, 0, 0),
            codes: Box::new(Table::empty()),
            dists: Box::new(Table::empty()),
            is_fixed: false,
            is_last: false,
            window: Window::default(),
            total_out: 0,
            crc: 0,
            marks: GzipBits::default(),
            note: None,
        }
    }

    /// Unpacks until `input` is used, `out` is full, or the member ends; what stands behind it isn't consumed.
    ///
    /// # Errors
    /// Not gzip, or damaged.
    pub(crate) fn run(&mut self, input: &[u8], out: &mut [u8]) -> Result<UnzipProgress, FilterError> {
        let mut run = Run { rest: input, out, made: 0, blocks: BLOCKS };
        let stop = loop {
            if let Mode::Ended = self.mode {
                break Stop::Output;
            }
            if let Err(stop) = self.advance(&mut run) {
                break stop;
            }
        };
        let made = run.made;
        let consumed = input.len() - run.rest.len();
        let back = match stop {
            Stop::Input => {
                debug_assert!(run.rest.is_empty(), "all input is looked at before more is asked for");
                0
            }
            Stop::Output | Stop::Budget | Stop::Bad(_) => self.bits.give_back(consumed),
        };
        if let Stop::Bad(reason) = stop {
            self.note = Some(format!("Gunzip error: -3 ({reason})"));
            return Err(FilterError::InvalidGzip(reason));
        }
        if matches!(self.mode, Mode::Ended) && self.bits.whole_bytes() > 0 {
            return Err(FilterError::JunkAfterGzip);
        }
        self.remember(&out[..made]);
        Ok(UnzipProgress { consumed: consumed - back, produced: made })
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.mode, Mode::Ended)
    }

    pub(crate) fn total_in(&self) -> u64 {
        self.bits.bytes_in()
    }

    pub(crate) fn total_out(&self) -> u64 {
        self.total_out
    }

    pub(crate) fn bits(&self) -> GzipBits {
        GzipBits { plain_bytes: self.total_out, ..self.marks }
    }

    /// Something stands behind the end: varnishd logs that on delivery alone.
    pub(crate) fn junk(&mut self, id: &str) {
        if id.starts_with("U D") {
            self.note = Some("G(un)zip error: 1 (junk after VGZ_END)".into());
        }
    }

    pub(crate) fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    fn advance(&mut self, run: &mut Run<'_, '_>) -> Result<(), Stop> {
        match &mut self.mode {
            Mode::Header(header) => {
                while !header.take(self.bits.byte(&mut run.rest)?).map_err(Stop::Bad)? {}
                self.marks.start = self.bits.position();
                self.mode = Mode::Block;
            }
            Mode::Block => self.block(run)?,
            Mode::StoredLen => {
                self.bits.align();
                let word = self.bits.take(32, &mut run.rest)?;
                if word & 0xffff != !word >> 16 & 0xffff {
                    return Err(Stop::Bad("invalid stored block lengths"));
                }
                self.mode = Mode::Stored((word & 0xffff) as usize);
            }
            Mode::Stored(0) => self.end_block(),
            Mode::Stored(left) => {
                // The bit buffer holds whole bytes here; what it has comes first.
                let slot = run.out.get_mut(run.made).ok_or(Stop::Output)?;
                if self.bits.whole_bytes() > 0 {
                    *slot = self.bits.byte(&mut run.rest)?;
                    (run.made, *left) = (run.made + 1, *left - 1);
                } else {
                    let n = (*left).min(run.rest.len()).min(run.out.len() - run.made);
                    if n == 0 {
                        return Err(Stop::Input);
                    }
                    run.out[run.made..run.made + n].copy_from_slice(&run.rest[..n]);
                    run.rest = &run.rest[n..];
                    self.bits.count_bytes(n);
                    (run.made, *left) = (run.made + n, *left - n);
                }
            }
            Mode::Counts => self.read_counts(run)?,
            Mode::CodeLens(_) => self.read_code_lens(run)?,
            Mode::Lens(_) => self.read_lens(run)?,
            Mode::Symbols => self.symbols(run)?,
            Mode::Copy(left, distance) => {
                let (left, distance) = (*left, *distance);
                let n = self.copy(run, left, distance);
                self.mode = if n == left { Mode::Symbols } else { Mode::Copy(left - n, distance) };
                if n < left {
                    return Err(Stop::Output);
                }
            }
            Mode::Crc => self.check_crc(run)?,
            Mode::Length => self.check_length(run)?,
            Mode::Ended => {}
        }
        Ok(())
    }

    fn block(&mut self, run: &mut Run<'_, '_>) -> Result<(), Stop> {
        run.blocks = run.blocks.checked_sub(1).ok_or(Stop::Budget)?;
        let at = self.bits.position();
        let head = self.bits.take(3, &mut run.rest)?;
        self.is_last = head & 1 == 1;
        if self.is_last {
            self.marks.last = at;
        }
        self.mode = match head >> 1 {
            0 => Mode::StoredLen,
            1 => {
                self.is_fixed = true;
                Mode::Symbols
            }
            2 => {
                self.is_fixed = false;
                Mode::Counts
            }
            _ => return Err(Stop::Bad("invalid block type")),
        };
        Ok(())
    }

    fn end_block(&mut self) {
        self.mode = Mode::Block;
        if self.is_last {
            self.marks.stop = self.bits.position();
            self.bits.align();
            self.mode = Mode::Crc;
        }
    }

    fn read_counts(&mut self, run: &mut Run<'_, '_>) -> Result<(), Stop> {
        let word = self.bits.take(14, &mut run.rest)? as usize;
        self.counts = ((word & 31) + 257, (word >> 5 & 31) + 1, (word >> 10) + 4);
        if self.counts.0 > 286 || self.counts.1 > 30 {
            return Err(Stop::Bad("too many length or distance symbols"));
        }
        self.lens = [0; 320];
        self.mode = Mode::CodeLens(0);
        Ok(())
    }

    fn read_code_lens(&mut self, run: &mut Run<'_, '_>) -> Result<(), Stop> {
        let Mode::CodeLens(at) = &mut self.mode else { return Ok(()) };
        while *at < self.counts.2 {
            self.lens[ORDER[*at]] = self.bits.take(3, &mut run.rest)? as u8;
            *at += 1;
        }
        if !self.codes.build(&self.lens[..19], true) {
            return Err(Stop::Bad("invalid code lengths set"));
        }
        self.lens = [0; 320];
        self.mode = Mode::Lens(0);
        Ok(())
    }

    fn read_lens(&mut self, run: &mut Run<'_, '_>) -> Result<(), Stop> {
        let Mode::Lens(at) = &mut self.mode else { return Ok(()) };
        let (codes, dists, _) = self.counts;
        while *at < codes + dists {
            self.bits.fill(&mut run.rest);
            let (symbol, used) = match self.codes.find(self.bits.peek(), self.bits.len()) {
                NextCode::Symbol(symbol, used) => (symbol, used),
                NextCode::Short => return Err(Stop::Input),
                NextCode::Bad => return Err(Stop::Bad("invalid code lengths set")),
            };
            let (extra, base) = match symbol {
                0..=15 => (0, 1),
                16 => (2, 3),
                17 => (3, 3),
                _ => (7, 11),
            };
            if used + extra > self.bits.len() {
                return Err(Stop::Input);
            }
            let repeat = base + (self.bits.peek() >> used & ((1 << extra) - 1)) as usize;
            self.bits.drop_bits(used + extra);
            let len = match symbol {
                0..=15 => symbol as u8,
                16 if *at == 0 => return Err(Stop::Bad("invalid bit length repeat")),
                16 => self.lens[*at - 1],
                _ => 0,
            };
            if *at + repeat > codes + dists {
                return Err(Stop::Bad("invalid bit length repeat"));
            }
            self.lens[*at..*at + repeat].fill(len);
            *at += repeat;
        }
        if self.lens[usize::from(END_OF_BLOCK)] == 0 {
            return Err(Stop::Bad("invalid code -- missing end-of-block"));
        }
        if !self.codes.build(&self.lens[..codes], false) {
            return Err(Stop::Bad("invalid literal/lengths set"));
        }
        if !self.dists.build(&self.lens[codes..codes + dists], false) {
            return Err(Stop::Bad("invalid distances set"));
        }
        self.mode = Mode::Symbols;
        Ok(())
    }

    /// Literals and matches until something is missing or the block ends.
    fn symbols(&mut self, run: &mut Run<'_, '_>) -> Result<(), Stop> {
        let (codes, dists) = if self.is_fixed { fixed() } else { (&*self.codes, &*self.dists) };
        loop {
            self.bits.fill(&mut run.rest);
            let (symbol, used) = match codes.find(self.bits.peek(), self.bits.len()) {
                NextCode::Symbol(symbol, used) => (symbol, used),
                NextCode::Short => return Err(Stop::Input),
                NextCode::Bad => return Err(Stop::Bad("invalid literal/length code")),
            };
            if symbol < END_OF_BLOCK {
                let slot = run.out.get_mut(run.made).ok_or(Stop::Output)?;
                *slot = symbol as u8;
                run.made += 1;
                self.bits.drop_bits(used);
                continue;
            }
            if symbol == END_OF_BLOCK {
                self.bits.drop_bits(used);
                self.end_block();
                return Ok(());
            }
            let (len, distance, used) = one_match(&self.bits, dists, symbol, used)?;
            if distance as u64 > self.total_out + run.made as u64 || distance > WINDOW {
                return Err(Stop::Bad("invalid distance too far back"));
            }
            self.bits.drop_bits(used);
            let n = self.copy(run, len, distance);
            if n < len {
                self.mode = Mode::Copy(len - n, distance);
                return Err(Stop::Output);
            }
        }
    }

    /// Copies of a match what there is room for; how much.
    fn copy(&self, run: &mut Run<'_, '_>, len: usize, distance: usize) -> usize {
        let n = len.min(run.out.len() - run.made);
        let mut left = n;
        // What lies before this call's output is in the window.
        while left > 0 && distance > run.made {
            let back = (distance - run.made) as u64;
            let from = ((self.total_out - back) % WINDOW as u64) as usize;
            let part = left.min(back as usize).min(WINDOW - from);
            run.out[run.made..run.made + part].copy_from_slice(self.window.get(from, part));
            run.made += part;
            left -= part;
        }
        if left > 0 && distance >= left {
            let from = run.made - distance;
            run.out.copy_within(from..from + left, run.made);
            run.made += left;
        } else {
            for _ in 0..left {
                run.out[run.made] = run.out[run.made - distance];
                run.made += 1;
            }
        }
        n
    }

    /// Keeps the end of the output for later matches, and sums up.
    fn remember(&mut self, made: &[u8]) {
        self.crc = crc32(self.crc, made);
        let tail = &made[made.len().saturating_sub(WINDOW)..];
        if self.is_ended() {
            self.window = Window::default();
        } else if !tail.is_empty() {
            self.window.put(self.total_out + (made.len() - tail.len()) as u64, tail);
        }
        self.total_out += made.len() as u64;
    }

    fn check_crc(&mut self, run: &mut Run<'_, '_>) -> Result<(), Stop> {
        let got = self.bits.take(32, &mut run.rest)? as u32;
        // This call's output isn't in the sum yet.
        if got != crc32(self.crc, &run.out[..run.made]) {
            return Err(Stop::Bad("incorrect data check"));
        }
        self.mode = Mode::Length;
        Ok(())
    }

    fn check_length(&mut self, run: &mut Run<'_, '_>) -> Result<(), Stop> {
        let got = self.bits.take(32, &mut run.rest)? as u32;
        if got != (self.total_out + run.made as u64) as u32 {
            return Err(Stop::Bad("incorrect length check"));
        }
        self.mode = Mode::Ended;
        Ok(())
    }
}

/// The rest of a match whose length symbol took `used` bits: length, distance, bits in all. Nothing is dropped yet.
fn one_match(bits: &Bits, dists: &Table, symbol: u16, used: u32) -> Result<(usize, usize, u32), Stop> {
    let (bits, have) = (bits.peek(), bits.len());
    let index = usize::from(symbol) - 257;
    let extra = *LEN_EXTRA.get(index).ok_or(Stop::Bad("invalid literal/length code"))?;
    let mask = |n: u8| (1u64 << n) - 1;
    let len = usize::from(LEN_BASE[index]) + (bits >> used & mask(extra)) as usize;
    let used = used + u32::from(extra);
    if used > have {
        return Err(Stop::Input);
    }
    let (dist, more) = match dists.find(bits >> used, have - used) {
        NextCode::Symbol(dist, more) => (usize::from(dist), more),
        NextCode::Short => return Err(Stop::Input),
        NextCode::Bad => return Err(Stop::Bad("invalid distance code")),
    };
    let used = used + more;
    let dist_extra = *DIST_EXTRA.get(dist).ok_or(Stop::Bad("invalid distance code"))?;
    let distance = usize::from(DIST_BASE[dist]) + (bits >> used & mask(dist_extra)) as usize;
    let used = used + u32::from(dist_extra);
    if used > have { Err(Stop::Input) } else { Ok((len, distance, used)) }
}

struct Run<'i, 'o> {
    rest: &'i [u8],
    out: &'o mut [u8],
    made: usize,
    blocks: u32,
}

#[cfg(test)]
mod tests;
