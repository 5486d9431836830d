// SPDX-License-Identifier: BSD-2-Clause
//! A journal's bytes: two heads, of which the newer one counts, and a log of frames that it points to.
//!
//! ```text
//! 0     head of even generations   magic, version, state, generation, where the log begins, checksum
//! 4096  head of odd generations
//! 8192  logs: frame, frame, ...    each: magic, length, generation, checksum, entries; on 8 bytes
//! ```
//!
//! A frame is written and synced before the next one is, so only the last can be torn: it is left out. One that can't be
//! read although a later one can was damaged, and then nothing is believed. A log is replaced by writing the new one
//! elsewhere, then the other head, then zeros over the old log.

use std::io;

use super::medium::Medium;

const MAGIC: &[u8; 8] = b"LQJOURNL";
/// Version of heads, frames and entries; any change counts it up.
const VERSION: u32 = 2;
/// Offset of the second head.
const PAGE: u64 = 4096;
/// Offset of the logs.
const FIRST: u64 = 2 * PAGE;
const HEAD: usize = 40;

const FRAME_MAGIC: u32 = 0x4c51_4a46;
const FRAME_HEAD: usize = 24;
const ALIGN: usize = 8;

/// The longest log. Who reads one holds it in memory.
pub(super) const LONGEST: u64 = 256 << 20;
/// Looking for frames behind one that can't be read, so many times the log's bytes are summed at most.
const PATIENCE: u64 = 4;

/// Castagnoli's polynomial, for which processors have an instruction.
const SUM: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);

/// Reasons why a journal can't be used.
#[derive(Debug)]
pub enum JournalError {
    /// The file isn't a journal.
    Foreign,
    /// The journal is another version's.
    Version(u32),
    /// Something in its middle can't be read.
    Damaged,
    /// An invalidation could not be written into it.
    Incomplete,
    /// An error of the system.
    Io(io::Error),
}

impl std::fmt::Display for JournalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => write!(f, "not a journal"),
            Self::Version(version) => write!(f, "a journal of version {version}, not {VERSION}"),
            Self::Damaged => write!(f, "the journal is damaged"),
            Self::Incomplete => write!(f, "the journal is incomplete: it could not be written"),
            Self::Io(error) => write!(f, "the journal: {error}"),
        }
    }
}

impl std::error::Error for JournalError {}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// True if there is something that no journal was ever written to.
///
/// # Errors
/// The system's.
pub fn is_foreign(medium: &dyn Medium) -> io::Result<bool> {
    let len = medium.len()?;
    let mut start = vec![0; len.min(PAGE + HEAD as u64) as usize];
    medium.read_at(0, &mut start)?;
    let is_ours = |at: usize| start.get(at..at + MAGIC.len()).is_some_and(|magic| magic == MAGIC);
    Ok(start.iter().any(|&byte| byte != 0) && !is_ours(0) && !is_ours(PAGE as usize))
}

#[derive(Debug)]
pub(super) struct Log {
    medium: Box<dyn Medium>,
    generation: u64,
    begin: u64,
    end: u64,
    /// Length of the log when it was begun.
    base: u64,
}

impl Log {
    /// A journal that begins with `payload`, in place of whatever is there.
    pub fn format(medium: Box<dyn Medium>, payload: &[u8]) -> io::Result<Log> {
        let len = medium.len()?;
        medium.clear(0, len)?;
        medium.write_at(0, &[0; FIRST as usize])?;
        let mut log = Log { medium, generation: 0, begin: FIRST, end: FIRST, base: 0 };
        log.replace(payload)?;
        Ok(log)
    }

    pub fn read(medium: Box<dyn Medium>) -> Result<(Log, Vec<u8>), JournalError> {
        let head = newest_head(&*medium)?;
        let mut bytes = vec![0; log_bytes(medium.len()?, head.begin)?];
        medium.read_at(head.begin, &mut bytes)?;
        let (payload, used) = read_frames(&bytes, head.generation)?;
        let end = head.begin + used as u64;
        Ok((Log { medium, generation: head.generation, begin: head.begin, end, base: used as u64 }, payload))
    }

    /// Another process has written here and is gone: goes on behind what it has left.
    pub fn read_again(&mut self) -> Result<(), JournalError> {
        let head = newest_head(&*self.medium)?;
        let mut bytes = vec![0; log_bytes(self.medium.len()?, head.begin)?];
        self.medium.read_at(head.begin, &mut bytes)?;
        let (_, used) = read_frames(&bytes, head.generation)?;
        (self.generation, self.begin, self.end) = (head.generation, head.begin, head.begin + used as u64);
        self.base = used as u64;
        Ok(())
    }

    /// Bytes of the log, and how many it had when it was begun.
    pub fn sizes(&self) -> (u64, u64) {
        (self.end - self.begin, self.base)
    }

    pub fn takes_time(&self) -> bool {
        self.medium.takes_time()
    }

    /// Counts up with each [`Log::replace`] that has come so far that the new log may count.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Adds a frame, which lasts from then on.
    pub fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        let frame = frame(payload, self.generation)?;
        let end = self.end + frame.len() as u64;
        if end - self.begin > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.medium.write_at(self.end, &frame)?;
        self.medium.sync()?;
        self.end = end;
        Ok(())
    }

    /// Begins the log anew with `payload`. The old one counts until the new one lasts.
    pub fn replace(&mut self, payload: &[u8]) -> io::Result<()> {
        let generation = self.generation + 1;
        let frame = frame(payload, generation)?;
        let len = frame.len() as u64;
        let fits_below = FIRST + len <= self.begin;
        let begin = if fits_below { FIRST } else { self.end.next_multiple_of(PAGE) };
        self.medium.write_at(begin, &frame)?;
        self.medium.sync()?;
        let old = (self.begin, self.end);
        (self.generation, self.begin, self.end, self.base) = (generation, begin, begin + len, len);
        // If this fails, nobody knows which head a reader will find. Entries must not go into either log then.
        self.write_head(Head { generation, begin, is_complete: true })?;
        // A head that goes bad must not bring the old log back.
        self.medium.clear(old.0, old.1)?;
        self.medium.sync()
    }

    /// Says that something is missing. No room is needed for that: both heads are there.
    pub fn renounce(&mut self) -> io::Result<()> {
        self.write_head(Head { generation: self.generation + 1, begin: self.begin, is_complete: false })
    }

    fn write_head(&self, head: Head) -> io::Result<()> {
        self.medium.write_at(head.generation % 2 * PAGE, &head.encode())?;
        self.medium.sync()
    }
}

struct Head {
    generation: u64,
    begin: u64,
    is_complete: bool,
}

impl Head {
    fn encode(&self) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&u32::from(self.is_complete).to_le_bytes());
        out[16..24].copy_from_slice(&self.generation.to_le_bytes());
        out[24..32].copy_from_slice(&self.begin.to_le_bytes());
        let sum = SUM.checksum(&out[..HEAD - 8]);
        out[HEAD - 8..HEAD - 4].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; HEAD]) -> Result<Head, JournalError> {
        if bytes[..8] != *MAGIC {
            return Err(JournalError::Foreign);
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(JournalError::Version(version));
        }
        if SUM.checksum(&bytes[..HEAD - 8]) != u32_at(bytes, HEAD - 8) {
            return Err(JournalError::Damaged);
        }
        Ok(Head { generation: u64_at(bytes, 16), begin: u64_at(bytes, 24), is_complete: u32_at(bytes, 12) == 1 })
    }
}

fn newest_head(medium: &dyn Medium) -> Result<Head, JournalError> {
    if medium.len()? < FIRST {
        return Err(JournalError::Foreign);
    }
    let read = |at| -> Result<Head, JournalError> {
        let mut bytes = [0; HEAD];
        medium.read_at(at, &mut bytes)?;
        Head::decode(&bytes)
    };
    let head = match (read(0), read(PAGE)) {
        (Ok(a), Ok(b)) => {
            if a.generation > b.generation {
                a
            } else {
                b
            }
        }
        (Ok(head), Err(JournalError::Foreign | JournalError::Damaged)) => head,
        (Err(JournalError::Foreign | JournalError::Damaged), Ok(head)) => head,
        (Err(JournalError::Foreign), Err(error)) | (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    if head.is_complete { Ok(head) } else { Err(JournalError::Incomplete) }
}

fn log_bytes(len: u64, begin: u64) -> Result<usize, JournalError> {
    let bytes = len.checked_sub(begin).filter(|_| begin >= FIRST);
    bytes.map(|bytes| bytes.min(LONGEST) as usize).ok_or(JournalError::Damaged)
}

fn frame(payload: &[u8], generation: u64) -> io::Result<Vec<u8>> {
    let too_long = || io::Error::from(io::ErrorKind::FileTooLarge);
    if payload.len() as u64 > LONGEST - (FRAME_HEAD + ALIGN) as u64 {
        return Err(too_long());
    }
    let mut out = Vec::with_capacity(FRAME_HEAD + payload.len() + ALIGN);
    out.extend_from_slice(&FRAME_MAGIC.to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&generation.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(payload);
    let sum = frame_sum(&out);
    out[16..20].copy_from_slice(&sum.to_le_bytes());
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    Ok(out)
}

fn frame_sum(frame: &[u8]) -> u32 {
    let mut digest = SUM.digest();
    digest.update(&frame[..16]);
    digest.update(&frame[FRAME_HEAD..]);
    digest.finalize()
}

/// The payload of the frame that begins `bytes`, if there is one of this generation; `summed` counts the work.
fn read_frame<'a>(bytes: &'a [u8], generation: u64, summed: &mut u64) -> Option<&'a [u8]> {
    if bytes.len() < FRAME_HEAD || u32_at(bytes, 0) != FRAME_MAGIC || u64_at(bytes, 8) != generation {
        return None;
    }
    let frame = bytes.get(..FRAME_HEAD.checked_add(u32_at(bytes, 4) as usize)?)?;
    *summed += frame.len() as u64;
    (frame_sum(frame) == u32_at(frame, 16)).then_some(&frame[FRAME_HEAD..])
}

fn read_frames(bytes: &[u8], generation: u64) -> Result<(Vec<u8>, usize), JournalError> {
    let (mut payload, mut at, mut summed) = (Vec::new(), 0, 0);
    while let Some(some) = bytes.get(at..).and_then(|rest| read_frame(rest, generation, &mut summed)) {
        payload.extend_from_slice(some);
        at += (FRAME_HEAD + some.len()).next_multiple_of(ALIGN);
    }
    // The first frame lasted before the head that points to it was written.
    let is_whole = at > 0 && is_last(bytes, at, generation);
    if is_whole { Ok((payload, at)) } else { Err(JournalError::Damaged) }
}

fn is_last(bytes: &[u8], at: usize, generation: u64) -> bool {
    let mut summed = 0;
    let mut rest = (at..bytes.len()).step_by(ALIGN);
    !rest.any(|here| {
        read_frame(&bytes[here..], generation, &mut summed).is_some() || summed > PATIENCE * bytes.len() as u64
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("the caller has looked at the length"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("the caller has looked at the length"))
}
