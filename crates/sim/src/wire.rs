// SPDX-License-Identifier: BSD-2-Clause
//! As much of HTTP/1.1 as scripted clients and origins speak: heads, lengths, chunks. Written apart from `http1`, which it
//! is to judge.

use std::io::ErrorKind;
use std::time::Duration;

use testkit_net::memory::MemoryEnd;

#[derive(Clone, Debug, Default)]
pub(crate) struct SimHead {
    pub first: String,
    pub headers: Vec<(String, String)>,
}

impl SimHead {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn word(&self, at: usize) -> &str {
        self.first.split(' ').nth(at).unwrap_or("")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimBody {
    None,
    Length(usize),
    Chunked,
    /// The body ends with the connection.
    Eof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Ended,
    Reset,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SimPace(pub Option<(usize, Duration)>);

pub(crate) struct SimWire {
    pub end: MemoryEnd,
    input: Vec<u8>,
    pace: SimPace,
}

impl SimWire {
    pub fn new(end: MemoryEnd) -> Self {
        SimWire { end, input: Vec::new(), pace: SimPace::default() }
    }

    pub fn set_pace(&mut self, pace: SimPace) {
        let window = pace.0.map_or(testkit_net::memory::WINDOW_BYTES, |(bytes, _)| bytes);
        self.pace = pace;
        self.end.set_window(window);
    }

    /// A head; `None` when the connection ends before its first byte.
    pub async fn head(&mut self) -> Result<Option<SimHead>, Broken> {
        loop {
            if let Some(at) = self.input.windows(4).position(|four| four == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&self.input[..at]).into_owned();
                self.input.drain(..at + 4);
                let mut lines = text.split("\r\n");
                let first = lines.next().unwrap_or("").to_owned();
                let fields = lines.filter_map(|line| line.split_once(':'));
                let headers = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
                return Ok(Some(SimHead { first, headers }));
            }
            match self.more().await {
                Err(Broken::Ended) if self.input.is_empty() => return Ok(None),
                more => more?,
            }
        }
    }

    pub async fn body(&mut self, framing: SimBody, body: &mut Vec<u8>) -> Result<(), Broken> {
        match framing {
            SimBody::None => Ok(()),
            SimBody::Length(length) => self.exactly(length, body).await,
            SimBody::Chunked => loop {
                let size = self.line().await?;
                let size =
                    usize::from_str_radix(size.split(';').next().unwrap_or(""), 16).map_err(|_| Broken::Reset)?;
                self.exactly(size, body).await?;
                if !self.line().await?.is_empty() {
                    return Err(Broken::Reset);
                }
                if size == 0 {
                    return Ok(());
                }
            },
            SimBody::Eof => loop {
                body.append(&mut self.input);
                match self.more().await {
                    Err(Broken::Ended) => return Ok(()),
                    more => more?,
                }
            },
        }
    }

    async fn exactly(&mut self, length: usize, body: &mut Vec<u8>) -> Result<(), Broken> {
        let mut left = length;
        loop {
            let count = left.min(self.input.len());
            body.extend_from_slice(&self.input[..count]);
            self.input.drain(..count);
            left -= count;
            if left == 0 {
                return Ok(());
            }
            self.more().await?;
        }
    }

    async fn line(&mut self) -> Result<String, Broken> {
        loop {
            if let Some(at) = self.input.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&self.input[..at]).into_owned();
                self.input.drain(..at + 2);
                return Ok(line);
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Result<(), Broken> {
        let most = match self.pace.0 {
            Some((bytes, pause)) => {
                rt::sleep(pause).await;
                bytes
            }
            None => 16 * 1024,
        };
        let mut piece = vec![0; most];
        loop {
            match self.end.try_read(&mut piece) {
                Ok(0) => return Err(Broken::Ended),
                Ok(count) => {
                    self.input.extend_from_slice(&piece[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.end.readable().await.map_err(|_| Broken::Reset)?;
                }
                Err(_) => return Err(Broken::Reset),
            }
        }
    }

    pub fn is_clean(&self) -> bool {
        self.input.is_empty()
    }

    pub async fn write(&self, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            match self.end.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.end.writable().await.map_err(|_| Broken::Reset)?;
                }
                Err(_) => return Err(Broken::Reset),
            }
        }
        Ok(())
    }
}
