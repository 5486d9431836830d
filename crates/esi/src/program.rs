// SPDX-License-Identifier: BSD-2-Clause
//! What delivery does with an object that has ESI: opaque bytes stored with it.
//!
//! ```text
//! program   = format dir_len dir *step            format: 1 plain, 2 gzip
//! step      = 'v' len [crc32 plain_len]           deliver len stored bytes; the bracket only for gzip
//!           | 's' len                             leave len stored bytes out
//!           | 'i' flags [host_len host] url_len url
//! ```
//! Numbers are LEB128, crc32 is 4 bytes little-endian. Flags: 1 continue on error, 2 has host, 4 relative. Relative URLs
//! are stored without the parent's directory, which many includes share.

use crate::EsiInclude;
use crate::include::{directory, without_dot_segments};

const PLAIN: u8 = 1;
const GZIP: u8 = 2;

const CONTINUE: u8 = 1;
const HAS_HOST: u8 = 2;
const RELATIVE: u8 = 4;

/// Checksum and length of the plain bytes of a gzip piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GzipPiece {
    pub crc: u32,
    pub plain_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EsiStep {
    /// Deliver so many stored bytes. For a gzip program they are whole deflate blocks that end on a byte boundary and
    /// refer to nothing before them that is left out.
    Verbatim {
        bytes: u64,
        /// The data that they unpack to; gzip programs only.
        piece: Option<GzipPiece>,
    },
    Skip {
        bytes: u64,
    },
    Include(EsiInclude),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// Builds a program: runs of the same kind join.
#[derive(Debug)]
pub struct ProgramBuilder {
    bytes: Vec<u8>,
    page: Box<[u8]>,
    is_gzip: bool,
    run: Run,
    steps: usize,
}

#[derive(Debug)]
enum Run {
    Verbatim(u64),
    Skip(u64),
}

impl ProgramBuilder {
    /// `url` is the page's: relative includes are resolved against it.
    pub fn new(url: &[u8], is_gzip: bool) -> Self {
        let mut bytes = vec![if is_gzip { GZIP } else { PLAIN }];
        let dir = directory(url);
        put(&mut bytes, dir.len() as u64);
        bytes.extend_from_slice(dir);
        Self { bytes, page: url.into(), is_gzip, run: Run::Skip(0), steps: 0 }
    }

    /// Notes that so many bytes are delivered; for plain programs.
    pub fn verbatim(&mut self, bytes: u64) {
        assert!(!self.is_gzip, "a gzip program needs the checksum of each run");
        match &mut self.run {
            Run::Verbatim(run) => *run += bytes,
            Run::Skip(_) if bytes > 0 => {
                self.end_run();
                self.run = Run::Verbatim(bytes);
            }
            Run::Skip(_) => {}
        }
    }

    /// Notes that so many stored bytes, whole deflate blocks, are delivered; for gzip programs.
    pub fn gzip_piece(&mut self, bytes: u64, piece: GzipPiece) {
        assert!(self.is_gzip, "a plain program has no gzip pieces");
        self.end_run();
        if bytes > 0 {
            self.step(b'v', bytes);
            self.bytes.extend_from_slice(&piece.crc.to_le_bytes());
            put(&mut self.bytes, piece.plain_bytes);
        }
    }

    pub fn skip(&mut self, bytes: u64) {
        match &mut self.run {
            Run::Skip(run) => *run += bytes,
            Run::Verbatim(_) if bytes > 0 => {
                self.end_run();
                self.run = Run::Skip(bytes);
            }
            Run::Verbatim(_) => {}
        }
    }

    /// A fragment comes here: after what was delivered so far. Bytes being left out may still join behind it.
    pub fn include(&mut self, include: &EsiInclude) {
        if let Run::Verbatim(_) = self.run {
            self.end_run();
        }
        let same_path = include.of_same_path(&self.page);
        let relative = same_path.is_none() && include.is_relative();
        let url = same_path.as_deref().unwrap_or(&include.url);
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        self.bytes.push(b'i');
        self.bytes.push(
            flag(include.continue_on_error, CONTINUE)
                | flag(include.host.is_some(), HAS_HOST)
                | flag(relative, RELATIVE),
        );
        for text in [include.host.as_deref(), Some(url)].into_iter().flatten() {
            put(&mut self.bytes, text.len() as u64);
            self.bytes.extend_from_slice(text);
        }
        self.steps += 1;
    }

    fn step(&mut self, tag: u8, bytes: u64) {
        self.bytes.push(tag);
        put(&mut self.bytes, bytes);
        self.steps += 1;
    }

    fn end_run(&mut self) {
        match self.run {
            Run::Verbatim(0) | Run::Skip(0) => {}
            Run::Verbatim(bytes) => self.step(b'v', bytes),
            Run::Skip(bytes) => self.step(b's', bytes),
        }
        self.run = Run::Skip(0);
    }

    /// The program; `None` when it has no step.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        self.end_run();
        (self.steps > 0).then_some(self.bytes)
    }
}

fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

#[derive(Clone, Copy, Debug)]
pub struct EsiProgram<'a> {
    dir: &'a [u8],
    rest: &'a [u8],
    is_gzip: bool,
}

impl<'a> EsiProgram<'a> {
    /// Reads the head of a program.
    ///
    /// # Errors
    /// These bytes were not made by [`ProgramBuilder`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let (&format, mut rest) = bytes.split_first().ok_or(Corrupt)?;
        let dir = text(&mut rest)?;
        match format {
            PLAIN | GZIP => Ok(Self { dir, rest, is_gzip: format == GZIP }),
            _ => Err(Corrupt),
        }
    }

    /// True if the stored body is gzip in pieces: header and trailer aren't part of any.
    pub fn is_gzip(&self) -> bool {
        self.is_gzip
    }

    /// Number of bytes of the program that are still ahead: [`EsiProgram::at`] goes on there.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The program with only the last `remaining` bytes ahead; for a delivery that doesn't keep the program borrowed.
    ///
    /// # Errors
    /// There are fewer.
    pub fn at(mut self, remaining: usize) -> Result<Self, Corrupt> {
        let skip = self.rest.len().checked_sub(remaining).ok_or(Corrupt)?;
        self.rest = &self.rest[skip..];
        Ok(self)
    }

    pub fn next_step(&mut self) -> Result<Option<EsiStep>, Corrupt> {
        let Some((&tag, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        Ok(Some(match tag {
            b's' => EsiStep::Skip { bytes: number(&mut self.rest)? },
            b'v' => {
                let bytes = number(&mut self.rest)?;
                EsiStep::Verbatim { bytes, piece: if self.is_gzip { Some(self.piece()?) } else { None } }
            }
            b'i' => EsiStep::Include(self.include()?),
            _ => return Err(Corrupt),
        }))
    }

    pub fn steps(mut self) -> Result<Vec<EsiStep>, Corrupt> {
        std::iter::from_fn(|| self.next_step().transpose()).collect()
    }

    fn piece(&mut self) -> Result<GzipPiece, Corrupt> {
        let (crc, rest) = self.rest.split_first_chunk().ok_or(Corrupt)?;
        self.rest = rest;
        Ok(GzipPiece { crc: u32::from_le_bytes(*crc), plain_bytes: number(&mut self.rest)? })
    }

    fn include(&mut self) -> Result<EsiInclude, Corrupt> {
        let (&flags, rest) = self.rest.split_first().ok_or(Corrupt)?;
        self.rest = rest;
        let host = if flags & HAS_HOST != 0 { Some(text(&mut self.rest)?.to_vec()) } else { None };
        let path = text(&mut self.rest)?;
        let url = match flags & RELATIVE {
            0 => path.to_vec(),
            _ => without_dot_segments(&[self.dir, b"/", path].concat()),
        };
        Ok(EsiInclude { host, url, continue_on_error: flags & CONTINUE != 0 })
    }
}

fn number(from: &mut &[u8]) -> Result<u64, Corrupt> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first().ok_or(Corrupt)?;
        *from = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(n);
        }
    }
    Err(Corrupt)
}

fn text<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], Corrupt> {
    let len = usize::try_from(number(from)?).map_err(|_| Corrupt)?;
    let (text, rest) = from.split_at_checked(len).ok_or(Corrupt)?;
    *from = rest;
    Ok(text)
}
