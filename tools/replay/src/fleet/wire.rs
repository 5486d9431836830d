// SPDX-License-Identifier: BSD-2-Clause
//! Frames between a coordinator and its workers: a letter, the length of what follows, and that: JSON, text, or a batch.

use std::io::{self, Read, Write};

use serde_json::Value;

use crate::reader::{PlannedRequest, ReplayBatch};

/// Version of the protocol; both ends must have the same.
pub const PROTOCOL: u64 = 2;
/// Longest frame before the other end has shown that it knows the secret.
pub const MAX_STRANGER: usize = 1 << 10;
pub const MAX_FRAME: usize = 16 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayFrameKind {
    Hello,
    /// A coordinator shows that it knows the secret.
    Proof,
    /// A worker does, and is ready.
    Welcome,
    /// A worker refuses, and says why.
    No,
    Open,
    /// The source begins anew.
    Refill,
    /// One more address; requests name it by its number.
    Address,
    Batch,
    /// No more requests of a stream.
    End,
    Part,
    Stop,
    /// A batch was begun: there is room for one more.
    Credit,
    Tick,
    /// Figures of a part that is over.
    Report,
}

const LETTERS: [(ReplayFrameKind, u8); 14] = [
    (ReplayFrameKind::Hello, b'H'),
    (ReplayFrameKind::Proof, b'K'),
    (ReplayFrameKind::Welcome, b'W'),
    (ReplayFrameKind::No, b'N'),
    (ReplayFrameKind::Open, b'O'),
    (ReplayFrameKind::Refill, b'F'),
    (ReplayFrameKind::Address, b'A'),
    (ReplayFrameKind::Batch, b'B'),
    (ReplayFrameKind::End, b'E'),
    (ReplayFrameKind::Part, b'P'),
    (ReplayFrameKind::Stop, b'S'),
    (ReplayFrameKind::Credit, b'C'),
    (ReplayFrameKind::Tick, b'T'),
    (ReplayFrameKind::Report, b'R'),
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    pub kind: ReplayFrameKind,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn empty(kind: ReplayFrameKind) -> Frame {
        Frame { kind, payload: Vec::new() }
    }

    pub fn json(kind: ReplayFrameKind, value: &Value) -> Frame {
        Frame { kind, payload: value.to_string().into_bytes() }
    }

    pub fn text(kind: ReplayFrameKind, text: &str) -> Frame {
        Frame { kind, payload: text.as_bytes().to_vec() }
    }

    /// One that speaks of a stream in its present generation.
    pub fn of_stream(kind: ReplayFrameKind, stream: usize, generation: u32) -> Frame {
        let mut payload = vec![stream as u8];
        payload.extend_from_slice(&generation.to_be_bytes());
        Frame { kind, payload }
    }

    /// The stream and the generation that it speaks of.
    ///
    /// # Errors
    /// It is none of that kind.
    pub fn stream(&self) -> io::Result<(usize, u32)> {
        let mut fields = Fields(&self.payload);
        Ok((usize::from(fields.array::<1>()?[0]), fields.u32()?))
    }

    pub fn value(&self) -> io::Result<Value> {
        serde_json::from_slice(&self.payload).map_err(|_| broken())
    }

    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let letter = LETTERS.iter().find(|(kind, _)| *kind == self.kind).map_or(b'?', |(_, letter)| *letter);
        let mut bytes = Vec::with_capacity(self.payload.len() + 5);
        bytes.push(letter);
        bytes.extend_from_slice(&(self.payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&self.payload);
        to.write_all(&bytes)
    }

    /// Reads one of at most so many bytes.
    ///
    /// # Errors
    /// The connection has ended, or what comes is no frame.
    pub fn read(from: &mut impl Read, most: usize) -> io::Result<Frame> {
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let kind = LETTERS.iter().find(|(_, letter)| *letter == head[0]).ok_or_else(broken)?.0;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > most {
            return Err(broken());
        }
        let mut payload = Vec::new();
        // Memory is taken as bytes come, not as the head promises.
        from.take(length as u64).read_to_end(&mut payload)?;
        if payload.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Frame { kind, payload })
    }
}

pub fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what comes is not of this protocol")
}

pub fn batch(stream: usize, generation: u32, batch: &ReplayBatch) -> Frame {
    let mut frame = Frame::of_stream(ReplayFrameKind::Batch, stream, generation);
    let out = &mut frame.payload;
    out.extend_from_slice(&(batch.asks.len() as u32).to_be_bytes());
    for ask in &batch.asks {
        out.extend_from_slice(&(batch.head(ask).len() as u32).to_be_bytes());
        out.extend_from_slice(&ask.address.to_be_bytes());
        out.extend_from_slice(&ask.due.to_be_bytes());
        out.push(u8::from(ask.is_head) | u8::from(ask.is_safe) << 1);
    }
    batch.asks.iter().for_each(|ask| out.extend_from_slice(batch.head(ask)));
    frame
}

/// Reads the requests of a batch; `addresses`: so many are known.
///
/// # Errors
/// The frame holds no batch.
pub fn read_batch(frame: &Frame, addresses: usize) -> io::Result<ReplayBatch> {
    let mut fields = Fields(&frame.payload);
    fields.array::<5>()?;
    let count = fields.u32()? as usize;
    // 17 bytes for each: what is promised must be there.
    if count.saturating_mul(17) > fields.0.len() {
        return Err(broken());
    }
    let mut asks = Vec::with_capacity(count);
    let mut at = 0u32;
    for _ in 0..count {
        let length = fields.u32()?;
        let (address, due) = (fields.u32()?, u64::from_be_bytes(fields.array()?));
        let [flags] = fields.array()?;
        let end = at.checked_add(length).ok_or_else(broken)?;
        if address as usize >= addresses {
            return Err(broken());
        }
        asks.push(PlannedRequest { begin: at, end, address, due, is_head: flags & 1 != 0, is_safe: flags & 2 != 0 });
        at = end;
    }
    if fields.0.len() != at as usize {
        return Err(broken());
    }
    Ok(ReplayBatch { bytes: fields.0.to_vec(), asks })
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(broken)?;
        self.0 = rest;
        Ok(*array)
    }

    fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn over_the_wire(frame: &Frame) -> Frame {
        let mut bytes = Vec::new();
        frame.write(&mut bytes).unwrap();
        Frame::read(&mut &bytes[..], MAX_FRAME).unwrap()
    }

    #[test]
    fn every_kind_has_a_letter_of_its_own() {
        for (i, (kind, letter)) in LETTERS.iter().enumerate() {
            assert!(LETTERS[..i].iter().all(|(k, l)| k != kind && l != letter));
            assert_eq!(over_the_wire(&Frame::empty(*kind)), Frame::empty(*kind));
        }
    }

    #[test]
    fn what_is_too_long_or_cut_is_refused() {
        let mut bytes = Vec::new();
        Frame::text(ReplayFrameKind::No, "0123456789").write(&mut bytes).unwrap();
        assert!(Frame::read(&mut &bytes[..], 9).is_err());
        assert!(Frame::read(&mut &bytes[..12], 99).is_err());
        bytes[0] = b'x';
        assert!(Frame::read(&mut &bytes[..], 99).is_err());
    }

    proptest! {
        #[test]
        fn a_batch_comes_as_it_went(heads in proptest::collection::vec((any::<Vec<u8>>(), 0u32..5, any::<u64>(), any::<bool>(), any::<bool>()), 0..20), generation: u32) {
            let mut sent = ReplayBatch::default();
            for (head, address, due, is_head, is_safe) in &heads {
                let (address, due, is_head, is_safe) = (*address, *due, *is_head, *is_safe);
                sent.push(head, PlannedRequest { begin: 0, end: 0, address, due, is_head, is_safe });
            }
            let frame = over_the_wire(&batch(1, generation, &sent));
            prop_assert_eq!(frame.stream().unwrap(), (1, generation));
            let got = read_batch(&frame, 5).unwrap();
            prop_assert_eq!(&got.asks, &sent.asks);
            prop_assert_eq!(got.bytes, sent.bytes);
            prop_assert_eq!(read_batch(&frame, 0).is_ok(), heads.is_empty());
        }

        #[test]
        fn no_bytes_can_hurt(bytes: Vec<u8>, payload: Vec<u8>) {
            let _ = Frame::read(&mut &bytes[..], MAX_FRAME);
            let _ = read_batch(&Frame { kind: ReplayFrameKind::Batch, payload }, 3);
        }
    }
}
