// SPDX-License-Identifier: BSD-2-Clause
//! TLS over whatever reads and writes, for programs that do their own I/O, waiting or not: load generators, probes. What a server
//! carries goes through `net`.
//!
//! Below may answer `WouldBlock` at any time; so does this then, and goes on where it was.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use crate::record::{self, MAX_PLAINTEXT, MAX_RECORD};
use crate::{Handshake, HandshakeInfo, HandshakeProgress, Leftover, OpenedRecord, TlsClient, TlsError, Traffic};

const MOST_AT_ONCE: usize = 4 * MAX_PLAINTEXT;
const READ: usize = 2 * MAX_RECORD;

#[derive(Debug)]
pub struct Over<S> {
    below: S,
    state: OverState,
    info: Option<HandshakeInfo>,
    received: Vec<u8>,
    plain: Leftover,
    sealed: Leftover,
    was_cut: bool,
}

#[derive(Debug)]
enum OverState {
    Shaking(Box<Handshake>),
    Open(Box<Traffic>),
    Failed,
}

impl<S: Read + Write> Over<S> {
    /// One that is to speak with the server `name`. Nothing is sent yet.
    ///
    /// # Errors
    /// That is no name.
    pub fn client(below: S, client: &Arc<TlsClient>, name: &str) -> Result<Over<S>, TlsError> {
        Ok(Over::new(below, Handshake::client(client, name)?))
    }

    /// One that begins with this handshake, of either role.
    pub fn new(below: S, handshake: Handshake) -> Over<S> {
        Over {
            below,
            state: OverState::Shaking(Box::new(handshake)),
            info: None,
            received: Vec::new(),
            plain: Leftover::default(),
            sealed: Leftover::default(),
            was_cut: false,
        }
    }

    pub fn below(&self) -> &S {
        &self.below
    }

    pub fn below_mut(&mut self) -> &mut S {
        &mut self.below
    }

    pub fn info(&self) -> Option<&HandshakeInfo> {
        self.info.as_ref()
    }

    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Goes on with the handshake, by one read from below at most; whether it is done.
    ///
    /// # Errors
    /// Those from below; [`TlsError`] in an [`io::Error`]: the handshake failed.
    pub fn shake(&mut self) -> io::Result<bool> {
        let OverState::Shaking(handshake) = &mut self.state else { return Ok(true) };
        let advanced = handshake.advance(&mut self.received, &mut self.sealed.bytes);
        let flushed = self.flush();
        match advanced {
            Err(error) => return Err(self.fail(error)),
            Ok(HandshakeProgress::Done) => {
                let OverState::Shaking(handshake) = std::mem::replace(&mut self.state, OverState::Failed) else {
                    return Ok(true);
                };
                let (traffic, info) = handshake.finish().map_err(io::Error::other)?;
                (self.state, self.info) = (OverState::Open(Box::new(traffic)), Some(info));
                return Ok(true);
            }
            Ok(HandshakeProgress::Waits) => flushed?,
        }
        match self.fill()? {
            0 => Err(self.fail(TlsError::new(crate::ErrorKind::Closed, "the peer closed during the handshake"))),
            _ => Ok(false),
        }
    }

    /// Says that nothing more comes; what was sealed before goes out as far as that can be done at once.
    pub fn close(&mut self) {
        if let OverState::Open(traffic) = &mut self.state {
            traffic.close(&mut self.sealed.bytes);
            let _ = self.flush();
        }
    }

    fn fail(&mut self, error: TlsError) -> io::Error {
        self.state = OverState::Failed;
        io::Error::other(error)
    }

    fn fill(&mut self) -> io::Result<usize> {
        let begin = self.received.len();
        self.received.resize(begin + READ, 0);
        let read = self.below.read(&mut self.received[begin..]);
        self.received.truncate(begin + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Opens the next record if it is all there: none, if it isn't; else how many bytes of plaintext went to `buffer`.
    fn open(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let OverState::Open(traffic) = &mut self.state else { return Err(ErrorKind::NotConnected.into()) };
        let length = match record::whole(&self.received) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(None),
            Err(error) => {
                traffic.fail(&error, &mut self.sealed.bytes);
                let _ = self.flush();
                return Err(self.fail(error));
            }
        };
        let opened = traffic.open(&mut self.received[..length], &mut self.sealed.bytes).map(|opened| match opened {
            OpenedRecord::Data(plain) => {
                let count = plain.len().min(buffer.len());
                buffer[..count].copy_from_slice(&plain[..count]);
                self.plain.push(&plain[count..]);
                count
            }
            OpenedRecord::Nothing | OpenedRecord::Closed => 0,
        });
        self.received.drain(..length);
        // An answer to what the peer wants of TLS may wait: it goes out with what is sent next.
        let _ = self.flush();
        opened.map(Some).map_err(|error| self.fail(error))
    }

    fn is_ended(&self) -> bool {
        matches!(&self.state, OverState::Open(traffic) if traffic.peer_closed())
    }
}

impl<S: Read + Write> Read for Over<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.shake()? {}
        if buffer.is_empty() {
            return Ok(0);
        }
        let rest = self.plain.rest();
        if !rest.is_empty() {
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            self.plain.use_up(count);
            return Ok(count);
        }
        loop {
            match self.open(buffer)? {
                Some(0) if self.is_ended() => return Ok(0),
                Some(0) => {}
                Some(count) => return Ok(count),
                None if self.is_ended() => return Ok(0),
                None => {
                    if self.fill()? == 0 {
                        self.was_cut = true;
                        return Ok(0);
                    }
                }
            }
        }
    }
}

impl<S: Read + Write> Write for Over<S> {
    /// Takes some of it, and sends as much as below takes; the rest goes with the next write or flush.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while !self.shake()? {}
        self.flush()?;
        let OverState::Open(traffic) = &mut self.state else { return Err(ErrorKind::NotConnected.into()) };
        let taken = &bytes[..bytes.len().min(MOST_AT_ONCE)];
        for piece in taken.chunks(MAX_PLAINTEXT) {
            traffic.seal(&mut self.sealed.bytes, |out| out.extend_from_slice(piece)).map_err(io::Error::other)?;
        }
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.sealed.rest().is_empty() {
            match self.below.write(self.sealed.rest()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sealed.use_up(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.below.flush()
    }
}

pub fn reason(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::TlsWorld;

    /// One end of a pipe; takes and gives a few bytes at a time, as told, and then would have to wait once.
    #[derive(Clone, Default)]
    struct End {
        from: Rc<RefCell<VecDeque<u8>>>,
        to: Rc<RefCell<VecDeque<u8>>>,
        sizes: Rc<RefCell<VecDeque<usize>>>,
        is_closed: Rc<RefCell<bool>>,
    }

    impl End {
        fn pair(sizes: &[usize]) -> (End, End) {
            let end = |sizes: &[usize]| End {
                sizes: Rc::new(RefCell::new(sizes.iter().copied().collect())),
                ..End::default()
            };
            let (one, mut other) = (end(sizes), end(sizes));
            (other.from, other.to, other.is_closed) = (one.to.clone(), one.from.clone(), one.is_closed.clone());
            (one, other)
        }

        fn next_size(&self) -> io::Result<usize> {
            match self.sizes.borrow_mut().pop_front() {
                Some(0) => Err(ErrorKind::WouldBlock.into()),
                Some(size) => Ok(size),
                None => Ok(usize::MAX),
            }
        }
    }

    impl Read for End {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = self.next_size()?.min(buffer.len());
            let mut from = self.from.borrow_mut();
            if from.is_empty() {
                return if *self.is_closed.borrow() { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
            }
            let count = most.min(from.len());
            from.drain(..count).zip(buffer).for_each(|(byte, to)| *to = byte);
            Ok(count)
        }
    }

    impl Write for End {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = self.next_size()?.min(bytes.len());
            self.to.borrow_mut().extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn both(sizes: &[usize]) -> (Over<End>, Over<End>) {
        let (server, client) = TlsWorld::new().both();
        let (one, other) = End::pair(sizes);
        (Over::new(one, server.unwrap()), Over::new(other, client.unwrap()))
    }

    /// The result of a call that needn't wait; `None` for `WouldBlock`.
    fn now<T>(result: io::Result<T>) -> Option<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            other => Some(other.unwrap()),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn cuts_and_waits_change_nothing(sizes in proptest::collection::vec(0usize..900, 0..120), length in 0usize..100_000, room in 1usize..40_000) {
            let (mut server, mut client) = both(&sizes);
            let text: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let (mut sent, mut got, mut is_closed) = (0, Vec::new(), false);
            let mut buffer = vec![0; room];
            for _ in 0..100_000 {
                if sent < text.len() {
                    sent += now(client.write(&text[sent..])).unwrap_or(0);
                } else if !is_closed && now(client.flush()).is_some() && client.info().is_some() {
                    client.close();
                    is_closed = true;
                } else {
                    let _ = now(client.shake());
                    let _ = now(client.flush());
                }
                match now(server.read(&mut buffer)) {
                    Some(0) => break,
                    Some(count) => got.extend_from_slice(&buffer[..count]),
                    None => {}
                }
            }
            prop_assert!(got == text, "{} of {} bytes", got.len(), text.len());
            prop_assert!(!server.was_cut() && server.info().is_some());
        }
    }

    #[test]
    fn an_end_without_a_word_is_a_cut() {
        let (mut server, mut client) = both(&[]);
        while now(client.write(b"half")).is_none() {
            let _ = now(server.shake());
        }
        *client.below().is_closed.borrow_mut() = true;
        let mut text = Vec::new();
        server.read_to_end(&mut text).unwrap();
        assert_eq!((&text[..], server.was_cut()), (&b"half"[..], true));
    }

    #[test]
    fn why_it_failed_is_told() {
        let (server, _) = TlsWorld::new().both();
        let (one, mut other) = End::pair(&[]);
        let mut server = Over::new(one, server.unwrap());
        other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let error = server.read(&mut [0; 10]).unwrap_err();
        assert_eq!(reason(&error).map(TlsError::kind), Some(crate::ErrorKind::NotTls));
        assert!(!server.below().to.borrow().is_empty(), "the alert");
        assert_eq!(server.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::NotConnected);
    }
}
