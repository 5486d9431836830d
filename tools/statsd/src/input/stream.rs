// SPDX-License-Identifier: BSD-2-Clause
//! Connections that send lines, over TCP or at a path. What ends in a newline is taken in; what is left when the
//! connection closes is not, as in node. Bytes lose their eighth bit, as node's `ascii` has it.

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{SharedRepeater, SharedShard};
use crate::accept::{self, StatsdListener};
use crate::clock;

/// Connections of one listener.
const CONNECTIONS: usize = 1024;
/// A longer line is a bad line.
const LINE_BYTES: usize = 64 * 1024;
const READ_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub struct StreamSink {
    pub shard: SharedShard,
    pub repeater: SharedRepeater,
}

pub async fn serve(listener: impl StatsdListener, sink: StreamSink) {
    accept::each(listener, CONNECTIONS, |stream| connection(stream, sink.clone())).await;
}

async fn connection(mut stream: impl AsyncRead + Unpin, sink: StreamSink) {
    let mut framer = Framer::default();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(n) => framer.push(&bytes[..n], &mut |event| sink.take_in(event)),
        }
    }
}

impl StreamSink {
    fn take_in(&self, event: Event<'_>) {
        match event {
            Event::Packet(packet) => {
                let mut shard = self.shard.lock();
                shard.seen(clock::seconds());
                shard.packet(packet);
                drop(shard);
                let repeater = self.repeater.lock().clone();
                if let Some(repeater) = repeater {
                    repeater.packets(&mut || Box::new(std::iter::once(packet)));
                }
            }
            Event::Overlong(start) => self.shard.lock().overlong(start),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event<'a> {
    Packet(&'a [u8]),
    /// A line without an end; its start.
    Overlong(&'a [u8]),
}

#[derive(Debug, Default)]
struct Framer {
    buffer: Vec<u8>,
    /// The rest of an overlong line is passed over.
    skipping: bool,
}

impl Framer {
    fn push(&mut self, mut bytes: &[u8], out: &mut dyn FnMut(Event<'_>)) {
        if self.skipping {
            let Some(end) = memchr::memchr(b'\n', bytes) else { return };
            bytes = &bytes[end + 1..];
            self.skipping = false;
        }
        self.buffer.extend(bytes.iter().map(|b| b & 0x7f));
        // The eighth bit's loss may make a newline.
        if let Some(end) = memchr::memrchr(b'\n', &self.buffer) {
            out(Event::Packet(&self.buffer[..=end]));
            self.buffer.drain(..=end);
        }
        if self.buffer.len() > LINE_BYTES {
            out(Event::Overlong(&self.buffer));
            self.buffer = Vec::new();
            self.skipping = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(chunks: &[&[u8]]) -> String {
        let mut framer = Framer::default();
        let mut all = Vec::new();
        for chunk in chunks {
            framer.push(chunk, &mut |event| match event {
                Event::Packet(p) => all.push(String::from_utf8_lossy(p).into_owned()),
                Event::Overlong(start) => all.push(format!("overlong {}", start.len())),
            });
        }
        all.join("|")
    }

    #[test]
    fn packets_end_at_the_last_newline() {
        assert_eq!(frames(&[b"a:1|c\nb:", b"1|c\nc"]), "a:1|c\n|b:1|c\n");
        assert_eq!(frames(&[b"no end"]), "");
        assert_eq!(frames(&[b"\xe1\x8a"]), "a\n");
        let long = vec![b'x'; LINE_BYTES + 1];
        assert_eq!(frames(&[&long, b"rest", b"rest\na:1|c\n"]), format!("overlong {}|a:1|c\n", LINE_BYTES + 1));
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(bytes in proptest::collection::vec(0u8..127, 0..300), cut in 1usize..40) {
            let whole: String = frames(&[&bytes]).replace('|', "");
            let cut: Vec<&[u8]> = bytes.chunks(cut).collect();
            let pieces: String = frames(&cut).replace('|', "");
            prop_assert_eq!(whole, pieces);
        }
    }
}
