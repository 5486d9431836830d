// SPDX-License-Identifier: BSD-2-Clause
//! A stream that carries TLS: what is read is plaintext, what is written is sealed, and TLS' own messages are its own business.
//!
//! While nothing is to be done it holds keys and no buffer. Records are read into and sealed in two buffers of the thread, which
//! nobody holds across a wait. What stays with the connection is rare and bounded: the beginning of a record, plaintext that its
//! reader had no room for, sealed bytes that the socket didn't take.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

use tls::record::{self, MAX_PLAINTEXT, MAX_RECORD};
use tls::{Leftover, OpenedRecord, Traffic, ktls};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::stream::{IdleState, Stream};

mod pieces;

use pieces::Pieces;

/// Bytes read at once: two long records.
const SCRATCH_IN: usize = 2 * MAX_RECORD;

/// Most records that are sealed for one write.
const RECORDS_OUT: usize = 4;

/// Plaintext of the first records behind something read: the peer can use them before a whole long record is there, and these
/// fill three packets each.
const SHORT: usize = 4096;

/// Number of short records.
const SHORT_RECORDS: u8 = 2;

thread_local! {
    static INCOMING: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTGOING: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub struct SealedStream {
    inner: Stream,
    state: RefCell<SealedState>,
}

#[derive(Debug)]
struct SealedState {
    traffic: Traffic,
    records: Vec<u8>,
    plain: Leftover,
    unsent: Leftover,
    /// End of each record of data in `unsent`, and how much plaintext it has.
    ends: Vec<(usize, usize)>,
    /// Bytes of sent plaintext that their writer hasn't been told of.
    unreported: usize,
    /// Reason why nothing more can be read: for the reader.
    fault: Option<tls::TlsError>,
    write_fault: Option<WriteFault>,
    /// The end follows what is unsent.
    is_ending: bool,
    /// Number of the next records that are short.
    short: u8,
    /// The end came without the peer's word for it.
    was_cut: bool,
}

/// Reasons why nothing more can be written to a stream that carries TLS.
#[derive(Clone, Debug)]
pub enum WriteFault {
    /// Nothing more can be sealed.
    Tls(tls::TlsError),
    /// The operating system's word, and its number for it.
    Os(ErrorKind, Option<i32>),
}

impl std::fmt::Display for WriteFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WriteFault::Tls(error) => error.fmt(f),
            WriteFault::Os(_, Some(number)) => io::Error::from_raw_os_error(*number).fmt(f),
            WriteFault::Os(kind, None) => kind.fmt(f),
        }
    }
}

trait Sink {
    /// Takes the first bytes and says how many.
    fn put(&mut self, bytes: &[u8]) -> usize;

    fn is_full(&self) -> bool;
}

struct Spare<'a>(&'a mut Vec<u8>);

impl Sink for Spare<'_> {
    fn put(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.0.capacity() - self.0.len());
        self.0.extend_from_slice(&bytes[..count]);
        count
    }

    fn is_full(&self) -> bool {
        self.0.len() == self.0.capacity()
    }
}

struct Slice<'a>(&'a mut [u8], usize);

impl Sink for Slice<'_> {
    fn put(&mut self, bytes: &[u8]) -> usize {
        let room = &mut self.0[self.1..];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.1 += count;
        count
    }

    fn is_full(&self) -> bool {
        self.1 == self.0.len()
    }
}

/// Nowhere: it stays with the connection.
struct Nowhere;

impl Sink for Nowhere {
    fn put(&mut self, _: &[u8]) -> usize {
        0
    }

    fn is_full(&self) -> bool {
        true
    }
}

enum Taken {
    /// Plaintext, so many bytes of it; there may be more that the sink had no room for.
    Bytes(usize),
    End,
}

impl SealedStream {
    /// `received` came behind the handshake.
    pub(crate) fn new(inner: Stream, traffic: Traffic, received: Vec<u8>) -> Self {
        let state = SealedState {
            traffic,
            records: received,
            plain: Leftover::default(),
            unsent: Leftover::default(),
            ends: Vec::new(),
            unreported: 0,
            fault: None,
            write_fault: None,
            is_ending: false,
            short: SHORT_RECORDS,
            was_cut: false,
        };
        SealedStream { inner, state: RefCell::new(state) }
    }

    pub(crate) fn inner(&self) -> &Stream {
        &self.inner
    }

    pub(crate) fn move_here(self) -> io::Result<Self> {
        Ok(SealedStream { inner: self.inner.move_here()?, state: self.state })
    }

    fn has_input(&self) -> bool {
        let state = self.state.borrow();
        !state.plain.is_empty()
            || state.fault.is_some()
            || state.traffic.peer_closed()
            || !matches!(record::whole(&state.records), Ok(None))
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_readable(cx)).await
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        poll_fn(|cx| self.inner.poll_writable(cx)).await
    }

    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_input() {
            return Poll::Ready(Ok(()));
        }
        self.inner.poll_readable(cx)
    }

    pub(crate) fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.read(&mut Slice(into, 0), |scratch| self.inner.try_read_buf(scratch))
    }

    pub(crate) fn try_read_buf(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        self.read(&mut Spare(into), |scratch| self.inner.try_read_buf(scratch))
    }

    pub(crate) fn poll_read_buf(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let SealedStream { inner, state } = self;
        let read = read(&mut state.borrow_mut(), &mut Spare(into), |scratch| match inner.poll_read_buf(cx, scratch) {
            Poll::Ready(read) => read,
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        });
        self.flush_replies();
        match read {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            read => Poll::Ready(read.map(Taken::count)),
        }
    }

    /// The state of waiting input. Tickets and new keys that came are dealt with, and count as nothing.
    pub(crate) fn pending(&self) -> IdleState {
        self.look(|scratch| match self.inner.socket() {
            Some(socket) => read_socket(&mut &*socket, scratch),
            None => self.inner.try_read_buf(scratch),
        })
    }

    /// The same as far as the runtime has heard.
    pub(crate) fn heard(&self) -> IdleState {
        self.look(|scratch| self.inner.try_read_buf(scratch))
    }

    fn look(&self, more: impl FnMut(&mut Vec<u8>) -> io::Result<usize>) -> IdleState {
        if !self.state.borrow().plain.is_empty() {
            return IdleState::Data;
        }
        let taken = read(&mut self.state.borrow_mut(), &mut Nowhere, more);
        self.flush_replies();
        match taken {
            Ok(Taken::Bytes(_)) => IdleState::Data,
            Ok(Taken::End) => IdleState::Closed,
            // The beginning of a record was asked for by nobody, whatever it is going to be.
            Err(error) if error.kind() == ErrorKind::WouldBlock => match self.state.borrow().records.is_empty() {
                true => IdleState::Nothing,
                false => IdleState::Data,
            },
            Err(_) => IdleState::Closed,
        }
    }

    fn read(&self, into: &mut impl Sink, more: impl FnMut(&mut Vec<u8>) -> io::Result<usize>) -> io::Result<usize> {
        let taken = read(&mut self.state.borrow_mut(), into, more);
        self.flush_replies();
        taken.map(Taken::count)
    }

    /// Sends what TLS itself had to say; what the socket doesn't take goes before the next record.
    fn flush_replies(&self) {
        let mut state = self.state.borrow_mut();
        if !state.unsent.is_empty() {
            // A connection in error says so to the next who reads or writes.
            let _ = flush(&self.inner, &mut state);
        }
    }

    /// Seals and writes what fits. When the socket takes only a part, the rest stays here and nothing is reported of the record that
    /// it begins in: the next call, which begins with the same plaintext, sends it and reports it.
    pub(crate) fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.state.borrow_mut();
        if state.traffic.is_sealed_by_kernel() {
            drop(state);
            return self.give(|| self.inner.try_write_vectored(pieces), |sent| *sent);
        }
        let mut pieces = Pieces::new(pieces);
        let written = self.write(&mut state, &mut pieces);
        state.note_fault(&written);
        written
    }

    /// The socket, where the kernel seals what is written to it.
    pub(crate) fn kernel_socket(&self) -> Option<&TcpStream> {
        self.inner.tcp().filter(|_| self.state.borrow().traffic.is_sealed_by_kernel())
    }

    /// Sends data that the kernel seals, behind what TLS has to say. `sent`: how many bytes went.
    pub(crate) fn give<T>(
        &self,
        send: impl FnOnce() -> io::Result<T>,
        sent: impl FnOnce(&T) -> usize,
    ) -> io::Result<T> {
        let mut state = self.state.borrow_mut();
        let given = flush(&self.inner, &mut state).and_then(|()| {
            let SealedState { traffic, unsent, .. } = &mut *state;
            traffic.prepare_data(&mut unsent.bytes).map_err(io_error)?;
            flush(&self.inner, &mut state)?;
            send()
        });
        match &given {
            Ok(done) => state.traffic.note_given(sent(done)),
            Err(_) => state.note_fault(&given),
        }
        given
    }

    fn write(&self, state: &mut SealedState, pieces: &mut Pieces<'_>) -> io::Result<usize> {
        let flushed = flush(&self.inner, state);
        if state.unreported > 0 {
            let reported = state.unreported.min(pieces.left());
            state.unreported -= reported;
            return Ok(reported);
        }
        flushed?;
        if pieces.left() == 0 {
            return Ok(0);
        }
        OUTGOING.with_borrow_mut(|scratch| write(&self.inner, state, pieces, scratch))
    }

    /// Says that nothing more will be written: by TLS, then by the socket. Where the socket doesn't take all of it at once the rest goes with
    /// [`SealedStream::poll_ended`], or with any read or write.
    pub(crate) fn shutdown_write(&self) {
        let mut state = self.state.borrow_mut();
        let SealedState { traffic, unsent, .. } = &mut *state;
        traffic.close(&mut unsent.bytes);
        match flush(&self.inner, &mut state) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => state.is_ending = true,
            _ => self.inner.shutdown_write(),
        }
    }

    /// Waits until the end is told as far as the system is concerned, or can't be.
    pub(crate) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        loop {
            match flush(&self.inner, &mut state) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if ready!(self.inner.poll_writable(cx)).is_err() {
                        return Poll::Ready(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return Poll::Ready(()),
            }
        }
    }

    pub(crate) fn fault(&self) -> Option<tls::TlsError> {
        self.state.borrow().fault.clone()
    }

    pub(crate) fn write_fault(&self) -> Option<WriteFault> {
        self.state.borrow().write_fault.clone()
    }

    /// True if the end came without the peer's close_notify, so that more may have been meant to come.
    pub(crate) fn was_cut(&self) -> bool {
        self.state.borrow().was_cut
    }
}

impl Taken {
    fn count(self) -> usize {
        match self {
            Taken::Bytes(count) => count,
            Taken::End => 0,
        }
    }
}

/// Opens records until there is plaintext; `more` appends what the socket has to them.
fn read(
    state: &mut SealedState,
    into: &mut impl Sink,
    more: impl FnMut(&mut Vec<u8>) -> io::Result<usize>,
) -> io::Result<Taken> {
    if !state.plain.is_empty() {
        let count = into.put(state.plain.rest());
        state.plain.use_up(count);
        return Ok(Taken::Bytes(count));
    }
    if let Some(fault) = &state.fault {
        return Err(io_error(fault.clone()));
    }
    if state.traffic.peer_closed() {
        return Ok(Taken::End);
    }
    INCOMING.with_borrow_mut(|scratch| {
        scratch.clear();
        scratch.reserve(SCRATCH_IN);
        scratch.append(&mut state.records);
        state.records = Vec::new();
        let mut opened = 0;
        let taken = open(state, scratch, &mut opened, into, more);
        if opened < scratch.len() {
            state.records = scratch[opened..].to_vec();
        }
        taken
    })
}

/// `opened`: how many bytes of the records in `scratch` are done with.
fn open(
    state: &mut SealedState,
    scratch: &mut Vec<u8>,
    opened: &mut usize,
    into: &mut impl Sink,
    mut more: impl FnMut(&mut Vec<u8>) -> io::Result<usize>,
) -> io::Result<Taken> {
    let mut count = 0;
    loop {
        match next(state, scratch, opened) {
            Ok(Some(OpenedRecord::Data(plain))) => {
                let taken = into.put(plain);
                count += taken;
                state.plain.push(&plain[taken..]);
                state.short = SHORT_RECORDS;
                if into.is_full() {
                    return Ok(Taken::Bytes(count));
                }
            }
            Ok(Some(OpenedRecord::Nothing)) => {}
            Ok(Some(OpenedRecord::Closed)) => return Ok(if count == 0 { Taken::End } else { Taken::Bytes(count) }),
            Ok(None) if count > 0 => return Ok(Taken::Bytes(count)),
            Ok(None) => {
                scratch.drain(..std::mem::take(opened));
                if more(scratch)? == 0 {
                    state.was_cut = true;
                    return Ok(Taken::End);
                }
            }
            Err(fault) => {
                (state.fault, state.was_cut) = (Some(fault.clone()), true);
                return if count > 0 { Ok(Taken::Bytes(count)) } else { Err(io_error(fault)) };
            }
        }
    }
}

/// Opens the next record, if it is whole. What TLS wants to be said goes to what is to be sent.
fn next<'a>(
    SealedState { traffic, unsent, .. }: &mut SealedState,
    scratch: &'a mut [u8],
    opened: &mut usize,
) -> Result<Option<OpenedRecord<'a>>, tls::TlsError> {
    let records = &mut scratch[*opened..];
    let whole = record::whole(records).inspect_err(|error| traffic.fail(error, &mut unsent.bytes))?;
    let Some(length) = whole else { return Ok(None) };
    *opened += length;
    traffic.open(&mut records[..length], &mut unsent.bytes).map(Some)
}

/// Sends what was sealed before, or is for the kernel to seal. `WouldBlock` until all of it is gone.
fn flush(inner: &Stream, state: &mut SealedState) -> io::Result<()> {
    if state.unsent.is_empty() {
        return Ok(());
    }
    match state.traffic.is_sealed_by_kernel() {
        true => flush_to_kernel(inner, state)?,
        false => flush_sealed(inner, state)?,
    }
    state.traffic.replies_are_sent();
    if std::mem::take(&mut state.is_ending) {
        inner.shutdown_write();
    }
    Ok(())
}

fn flush_sealed(inner: &Stream, state: &mut SealedState) -> io::Result<()> {
    while !state.unsent.is_empty() {
        let sent = inner.try_write(state.unsent.rest())?;
        if sent == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        state.unsent.use_up(sent);
        let sent_to = if state.unsent.is_empty() { usize::MAX } else { state.unsent.used() };
        let done = state.ends.iter().take_while(|(end, _)| *end <= sent_to).count();
        state.unreported += state.ends.drain(..done).map(|(_, plain)| plain).sum::<usize>();
    }
    state.ends = Vec::new();
    Ok(())
}

/// Record by record; behind one that says so the kernel gets its next key.
fn flush_to_kernel(inner: &Stream, state: &mut SealedState) -> io::Result<()> {
    // Without the key that it was to have it seals what nobody can open.
    if state.write_fault.is_some() {
        return Err(ErrorKind::BrokenPipe.into());
    }
    let socket = inner.tcp().ok_or(ErrorKind::Unsupported)?;
    while !state.unsent.is_empty() {
        let (kind, bytes) = ktls::record(state.unsent.rest());
        socket.try_io(Interest::WRITABLE, || sys::ktls::send_record(socket.as_fd(), kind, bytes))?;
        let length = ktls::RECORD_HEADER + bytes.len();
        state.unsent.use_up(length);
        let next = if ktls::is_key_update(kind) { state.traffic.take_kernel_key() } else { None };
        if let Some(key) = next {
            let set = sys::ktls::set_tx_key(socket.as_fd(), key.bytes());
            state.note_fault(&set);
            set?;
        }
    }
    Ok(())
}

fn write(inner: &Stream, state: &mut SealedState, pieces: &mut Pieces<'_>, scratch: &mut Vec<u8>) -> io::Result<usize> {
    scratch.clear();
    // Where each record ends, and its plaintext.
    let mut ends = [(0, 0); RECORDS_OUT];
    let mut records = 0;
    while records < RECORDS_OUT && pieces.left() > 0 {
        let length = state.record_length().min(pieces.left());
        scratch.reserve(state.traffic.sealed_len(length));
        match state.traffic.seal(scratch, |plain| pieces.copy(length, plain)) {
            Ok(()) => ends[records] = (scratch.len(), length),
            // What is sealed goes out; the next call says why nothing follows.
            Err(_) if records > 0 => break,
            Err(error) => return Err(io_error(error)),
        }
        records += 1;
    }
    let ends = &ends[..records];
    let sent = match inner.try_write(scratch) {
        Ok(sent) => sent,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => return Err(error),
    };
    let done = ends.iter().take_while(|(end, _)| *end <= sent).count();
    let reported = ends[..done].iter().map(|(_, plain)| plain).sum();
    if done < records {
        state.unsent.push(&scratch[sent..]);
        state.ends = ends[done..].iter().map(|(end, plain)| (end - sent, *plain)).collect();
    }
    if reported == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(reported) }
}

impl SealedState {
    fn note_fault<T>(&mut self, written: &io::Result<T>) {
        if let Err(error) = written
            && !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
            && self.write_fault.is_none()
        {
            self.write_fault = Some(WriteFault::of(error));
        }
    }

    fn record_length(&mut self) -> usize {
        if self.short == 0 {
            return MAX_PLAINTEXT;
        }
        self.short -= 1;
        SHORT
    }
}

/// Reads from the socket itself, whatever its runtime has heard of it.
fn read_socket(socket: &mut impl Read, scratch: &mut Vec<u8>) -> io::Result<usize> {
    let mut bytes = [0; 4096];
    let count = socket.read(&mut bytes)?;
    scratch.extend_from_slice(&bytes[..count]);
    Ok(count)
}

impl WriteFault {
    fn of(error: &io::Error) -> Self {
        match error.get_ref().and_then(|error| error.downcast_ref::<tls::TlsError>()) {
            Some(error) => WriteFault::Tls(error.clone()),
            None => WriteFault::Os(error.kind(), error.raw_os_error()),
        }
    }
}

fn io_error(error: tls::TlsError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
