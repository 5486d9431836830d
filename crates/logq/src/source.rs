// SPDX-License-Identifier: BSD-2-Clause
//! Where records come from: the ring of a workdir, or a file that `-w` wrote (`VSL`, a NUL, then records as they stand
//! in the log).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use shm::reader::log::{LogCursor, RingStep};

use crate::record;

pub const FILE_HEAD: &[u8; 4] = b"VSL\0";

pub struct RecordFile {
    from: BufReader<Box<dyn Read>>,
    buffer: Vec<u8>,
    is_cut: bool,
}

impl std::fmt::Debug for RecordFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordFile").finish_non_exhaustive()
    }
}

/// The text of an error without its number, as C programs show it.
pub fn strerror(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

impl RecordFile {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// It can't be read, or is no such file.
    pub fn open(name: &str) -> Result<RecordFile, String> {
        let from: Box<dyn Read> = match name {
            "-" => Box::new(io::stdin()),
            _ => Box::new(File::open(name).map_err(|e| format!("Cannot open {name}: {}", strerror(&e)))?),
        };
        let mut from = BufReader::with_capacity(64 << 10, from);
        let mut head = [0; FILE_HEAD.len()];
        match from.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err("VSL file read error: EOF".into()),
            Err(error) => return Err(format!("VSL file read error: {}", strerror(&error))),
            Ok(()) if head != *FILE_HEAD => return Err(format!("Not a VSL file: {name}")),
            Ok(()) => {}
        }
        Ok(RecordFile { from, buffer: Vec::new(), is_cut: false })
    }

    /// True if the file has ended within a record, or couldn't be read any further.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn next(&mut self) -> Option<&[u8]> {
        match self.read() {
            Ok(true) => Some(&self.buffer),
            Ok(false) => None,
            Err(_) => {
                self.is_cut = true;
                None
            }
        }
    }

    fn read(&mut self) -> io::Result<bool> {
        if self.from.fill_buf()?.is_empty() {
            return Ok(false);
        }
        self.buffer.resize(record::HEAD, 0);
        self.from.read_exact(&mut self.buffer)?;
        let first = [self.buffer[0], self.buffer[1], self.buffer[2], self.buffer[3]];
        self.buffer.resize(record::length(u32::from_ne_bytes(first)), 0);
        self.from.read_exact(&mut self.buffer[record::HEAD..])?;
        Ok(true)
    }
}

#[derive(Debug)]
pub enum LogSource {
    Ring(Box<LogCursor>),
    File(RecordFile),
}

impl LogSource {
    /// The next records of one transaction, or why there are none.
    pub fn step(&mut self) -> RingStep<'_> {
        match self {
            LogSource::Ring(ring) => ring.step(),
            LogSource::File(file) => file.next().map_or(RingStep::Eof, RingStep::Records),
        }
    }
}
