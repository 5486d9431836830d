// SPDX-License-Identifier: BSD-2-Clause
//! Where records come from: the ring of a workdir, or a file that `-w` wrote (a head that names the format, then records as they
//! stand in the log).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use shm::reader::log::{LogCursor, RingStep};
use shm::vsl::format::FILE_HEAD_BYTES;
use shm::vsl::{FormatStamp, LogFormat, LogNote};

const BUFFER_BYTES: usize = 64 << 10;

/// Reads the records of a file, those of several releases behind each other too.
pub struct RecordFile {
    from: BufReader<Box<dyn Read>>,
    buffer: Vec<u8>,
    stamp: FormatStamp,
    /// False where the format was just named, and nothing is known of what follows.
    has_begun: bool,
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
        let mut from = BufReader::with_capacity(BUFFER_BYTES, from);
        let mut head = [0; FILE_HEAD_BYTES];
        match from.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err("VSL file read error: EOF".into()),
            Err(error) => Err(format!("VSL file read error: {}", strerror(&error))),
            Ok(()) => match LogFormat::of_file(&head) {
                Some(format) => Ok(RecordFile::of(from, format)),
                None => Err(format!("Not a VSL file: {name}")),
            },
        }
    }

    /// Reads records whose head, which named this format, was taken off.
    pub fn behind_head(from: Box<dyn Read>, format: LogFormat) -> RecordFile {
        RecordFile::of(BufReader::with_capacity(BUFFER_BYTES, from), format)
    }

    fn of(from: BufReader<Box<dyn Read>>, format: LogFormat) -> RecordFile {
        RecordFile { from, buffer: Vec::new(), stamp: FormatStamp::new(format), has_begun: false, is_cut: false }
    }

    pub fn format(&self) -> LogFormat {
        self.stamp.format()
    }

    pub const fn has_notes(&self) -> bool {
        self.stamp.has_notes()
    }

    pub fn notes(&mut self) -> impl Iterator<Item = LogNote> + '_ {
        self.stamp.notes()
    }

    fn step(&mut self) -> RingStep<'_> {
        match self.record() {
            Ok(Some(_)) => RingStep::Records(&self.buffer),
            Ok(None) => RingStep::Eof,
            Err(_) => {
                self.is_cut = true;
                RingStep::Eof
            }
        }
    }

    /// True if the file has ended within a record, or couldn't be read any further.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// True at the end of the file. A read that is interrupted is repeated, as `read_exact` does.
    fn is_at_end(&mut self) -> io::Result<bool> {
        loop {
            match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                filled => return Ok(filled?.is_empty()),
            }
        }
    }

    /// Reads the next record; `None` at the end.
    ///
    /// # Errors
    /// The file can't be read, or ends within a record.
    pub fn record(&mut self) -> io::Result<Option<&[u8]>> {
        let first = loop {
            if self.is_at_end()? {
                return Ok(None);
            }
            if !std::mem::replace(&mut self.has_begun, true) {
                self.stamp.look_ahead(self.from.buffer());
            }
            let mut word = [0; 4];
            self.from.read_exact(&mut word)?;
            if !self.stamp.is_file_head(&word) {
                break word;
            }
            self.has_begun = false;
        };
        let word = u32::from_ne_bytes(first);
        self.stamp.heed(word);
        self.buffer.resize(self.format().record_bytes(word), 0);
        self.buffer[..4].copy_from_slice(&first);
        self.from.read_exact(&mut self.buffer[4..])?;
        self.stamp.stamp(&mut self.buffer);
        Ok(Some(&self.buffer))
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
            LogSource::File(file) => file.step(),
        }
    }

    pub fn format(&self) -> LogFormat {
        match self {
            LogSource::Ring(ring) => ring.format(),
            LogSource::File(file) => file.format(),
        }
    }

    pub const fn has_notes(&self) -> bool {
        match self {
            LogSource::Ring(ring) => ring.has_notes(),
            LogSource::File(file) => file.has_notes(),
        }
    }

    pub fn notes(&mut self) -> Vec<LogNote> {
        match self {
            LogSource::Ring(ring) => ring.notes().collect(),
            LogSource::File(file) => file.notes().collect(),
        }
    }
}

#[cfg(test)]
mod tests;
