// SPDX-License-Identifier: BSD-2-Clause
//! Files and standard input as bytes: unpacked when gzip, told apart by their first bytes, read in lines of bounded length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use logq::source::{RecordFile, strerror};
use shm::vsl::LogFormat;
use shm::vsl::format::FILE_HEADS;

/// Longest line that is read; the rest of a longer one is passed over.
pub const MAX_LINE_BYTES: usize = 64 << 10;

const BUFFER_BYTES: usize = 128 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];

pub enum AccessInput {
    Lines(BufReader<Box<dyn Read>>),
    /// Records of a varnishlog.
    Records(RecordFile),
}

/// Opens a file, or standard input for `-`; `read` counts its bytes as they lie on the disk.
///
/// # Errors
/// It can't be read.
pub fn open(name: &str, read: &Arc<AtomicU64>) -> Result<AccessInput, String> {
    let file: Box<dyn Read> = match name {
        "-" => Box::new(io::stdin()),
        _ => Box::new(File::open(name).map_err(|e| format!("{name}: {}", strerror(&e)))?),
    };
    kind_of(Box::new(CountingReader { from: file, read: read.clone() }))
        .map_err(|e| format!("{name}: {}", strerror(&e)))
}

fn kind_of(mut from: Box<dyn Read>) -> io::Result<AccessInput> {
    let (mut head, mut was_packed) = (begin(&mut from)?, false);
    loop {
        if head.starts_with(GZIP) && !was_packed {
            let packed = Cursor::new(head).chain(from);
            from = Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, packed)));
            (head, was_packed) = (begin(&mut from)?, true);
            continue;
        }
        return Ok(match LogFormat::of_file(&head) {
            Some(format) => AccessInput::Records(RecordFile::behind_head(from, format)),
            None => AccessInput::Lines(BufReader::with_capacity(BUFFER_BYTES, Box::new(Cursor::new(head).chain(from)))),
        });
    }
}

/// The first bytes, no more than it takes to tell: a log that comes slowly may have nothing else yet.
fn begin(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let magics = || FILE_HEADS.iter().map(|magic| magic.as_slice()).chain([GZIP]);
    let is_open = |head: &[u8]| magics().any(|magic| magic.starts_with(head) && magic.len() > head.len());
    while is_open(&head) && (&mut *from).take(1).read_to_end(&mut head)? > 0 {}
    Ok(head)
}

struct CountingReader {
    from: Box<dyn Read>,
    read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buffer)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputLine {
    /// The line is in the buffer, without its end.
    Whole,
    TooLong,
    End,
}

/// Reads the next line into `line` (emptied first).
///
/// # Errors
/// The file can't be read further, or what is packed is damaged.
pub fn next_line(from: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<InputLine> {
    line.clear();
    let mut is_long = false;
    loop {
        let there = match from.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if there.is_empty() {
            return Ok(match (is_long, line.is_empty()) {
                (true, _) => InputLine::TooLong,
                (false, true) => InputLine::End,
                (false, false) => InputLine::Whole,
            });
        }
        let end = memchr::memchr(b'\n', there);
        let text = &there[..end.unwrap_or(there.len())];
        is_long |= line.len() + text.len() > MAX_LINE_BYTES;
        if !is_long {
            line.extend_from_slice(text);
        }
        let used = end.map_or(there.len(), |at| at + 1);
        from.consume(used);
        if end.is_some() {
            return Ok(if is_long { InputLine::TooLong } else { InputLine::Whole });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(bytes: Vec<u8>) -> Vec<String> {
        let AccessInput::Lines(mut from) = kind_of(Box::new(Cursor::new(bytes))).unwrap() else {
            return vec!["records".into()];
        };
        let (mut line, mut all) = (Vec::new(), Vec::new());
        loop {
            match next_line(&mut from, &mut line) {
                Ok(InputLine::End) => return all,
                Ok(InputLine::Whole) => all.push(String::from_utf8_lossy(&line).into_owned()),
                Ok(InputLine::TooLong) => all.push("too long".into()),
                Err(error) => {
                    all.push(format!("{:?}", error.kind()));
                    return all;
                }
            }
        }
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn lines_of_any_kind_of_file() {
        assert_eq!(lines(b"a\n\nb".to_vec()), ["a", "", "b"]);
        assert_eq!(lines(vec![]), Vec::<String>::new());
        assert_eq!(lines([packed(b"a\nb"), packed(b"c\n")].concat()), ["a", "bc"]);
        assert_eq!(lines(packed(b"VSL\0....")), ["records"]);
        assert_eq!(lines(b"VSL2....".to_vec()), ["records"]);
        assert_eq!(lines(b"VSL3....".to_vec()), ["VSL3...."]);
        let long = [vec![b'x'; 1 << 20], b"\nb\n".to_vec()].concat();
        assert_eq!(lines(long), ["too long", "b"]);
        assert_eq!(lines(vec![b'x'; MAX_LINE_BYTES + 1]), ["too long"]);
    }

    #[test]
    fn a_cut_file_gives_what_is_there_and_an_error() {
        let whole = packed(b"first\nsecond\nthird\n");
        let got = lines(whole[..whole.len() - 6].to_vec());
        assert_eq!(got.last().map(String::as_str), Some("UnexpectedEof"), "{got:?}");
        assert_eq!(got[0], "first");
    }
}
