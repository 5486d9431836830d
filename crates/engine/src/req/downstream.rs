// SPDX-License-Identifier: BSD-2-Clause
//! What the bytes of a response pass on their way out, behind the ESI program: the filters, and for a fragment the joint
//! that makes them fit into their parent's body.

use filters::stitch::{self, Blocks, Sum};
use filters::{Chain, FilterError, Note, SLICE, Scan, State, Step};
use message::{Coding, names};
use storage::Buf;

use super::Req;
use crate::extra::Extra;
use crate::transport::Transport;

/// How a fragment's bytes go into its parent's body.
pub(super) enum Joint {
    /// As they are: nothing is joined, or both are plain, or the fragment made itself fit.
    Through,
    /// Plain bytes in a gzip body: stored blocks.
    Stored(Sum),
    /// A gzip body in a gzip body: its blocks.
    Blocks(Blocks),
    /// The same, and where the blocks are isn't known.
    Scan(Box<Scan>),
}

/// See the module.
pub(super) struct Downstream {
    pub chain: Chain,
    pub joint: Joint,
    /// Bytes that came to the joint: the length of the body for the accounting.
    pub bytes: u64,
    /// How often.
    pub calls: u64,
    /// Bytes that came to the filters.
    pub given: u64,
    /// Steps of the ESI program, and stored bytes that they delivered.
    pub steps: u64,
    pub stored: u64,
}

impl Downstream {
    pub fn new(chain: Chain, joint: Joint) -> Self {
        Downstream { chain, joint, bytes: 0, calls: 0, given: 0, steps: 0, stored: 0 }
    }

    /// One bounded step: takes from `piece` and hands out what comes of it. `is_last`: nothing follows the piece.
    ///
    /// # Errors
    /// A filter can't go on.
    pub fn step(&mut self, piece: &mut Buf, is_last: bool, out: &mut dyn Transport) -> Result<Step, FilterError> {
        if self.chain.is_empty() {
            let taken = self.join(piece.clone(), out)?;
            *piece = piece.slice(taken..piece.len());
            let state = match (piece.is_empty(), is_last) {
                (false, _) => State::More,
                (true, false) => State::Hungry,
                (true, true) => State::End,
            };
            return Ok(Step { consumed: taken, produced: taken, state });
        }
        let chain = &mut self.chain;
        let (step, made) = filters::with_room(|room| {
            let step = chain.step(piece, is_last, &mut room[..SLICE])?;
            Ok((step, Buf::unaccounted(room[..step.produced].to_vec())))
        })?;
        *piece = piece.slice(step.consumed..piece.len());
        self.given += step.consumed as u64;
        let mut at = 0;
        while at < made.len() {
            // At most one slice of gzip, which no filter makes in front of a joint that unpacks it.
            at += self.join(made.slice(at..made.len()), out)?;
        }
        Ok(step)
    }

    /// What the filters say of broken gzip.
    pub fn take_gzip_notes(&mut self) -> Vec<String> {
        let text = |note| if let Note::Gzip(text) = note { Some(text) } else { None };
        self.chain.take_notes().into_iter().filter_map(text).collect()
    }

    /// Whether pieces go out at once, without a step.
    pub fn is_immediate(&self) -> bool {
        self.chain.is_empty() && matches!(self.joint, Joint::Through | Joint::Stored(_))
    }

    /// Hands out a piece where no step is needed.
    pub fn pass(&mut self, piece: Buf, out: &mut dyn Transport) {
        debug_assert!(self.is_immediate(), "what takes work is done in steps");
        let bytes = piece.len();
        let taken = self.join(piece, out);
        debug_assert_eq!(taken, Ok(bytes), "joints without state take all");
    }

    /// Varnish's name of the last step, for VdpAcct.
    pub fn joint_name(&self, is_nested: bool) -> &'static str {
        match &self.joint {
            Joint::Through if is_nested => "VED",
            Joint::Through => "V1B",
            Joint::Stored(_) => "PGZ",
            Joint::Blocks(_) | Joint::Scan(_) => "VZZ",
        }
    }

    /// What was joined to the parent's gzip body, at the end of the fragment's.
    ///
    /// # Errors
    /// The fragment's gzip ended early.
    pub fn sum(&self) -> Result<Sum, FilterError> {
        match &self.joint {
            Joint::Through => Ok(Sum::default()),
            Joint::Stored(sum) => Ok(*sum),
            Joint::Blocks(blocks) => blocks.sum().ok_or(FilterError::GunzipTruncated),
            // Nothing at all is no gzip, but nothing was joined either.
            Joint::Scan(_) if self.bytes == 0 => Ok(Sum::default()),
            Joint::Scan(scan) => scan.finish(),
        }
    }

    /// Hands out bytes as the parent can take them; how many were taken.
    fn join(&mut self, piece: Buf, out: &mut dyn Transport) -> Result<usize, FilterError> {
        let mut taken = piece.len();
        match &mut self.joint {
            _ if piece.is_empty() => {}
            Joint::Through => out.send_data(piece),
            Joint::Stored(sum) => {
                sum.add(&piece);
                for start in (0..piece.len()).step_by(stitch::STORED_MAX) {
                    let part = piece.slice(start..piece.len().min(start + stitch::STORED_MAX));
                    out.send_data(Buf::unaccounted(stitch::stored_header(part.len() as u16).to_vec()));
                    out.send_data(part);
                }
            }
            Joint::Blocks(blocks) => {
                let mut fit = Vec::with_capacity(piece.len() + 16);
                blocks.push(&piece, &mut fit);
                out.send_data(Buf::unaccounted(fit));
            }
            Joint::Scan(scan) => {
                let mut fit = Vec::new();
                taken = scan.step(&piece, &mut fit)?;
                out.send_data(Buf::unaccounted(fit));
            }
        }
        self.bytes += taken as u64;
        self.calls += 1;
        Ok(taken)
    }
}

impl Req {
    /// How this response's body goes into the body of the page that includes it. `None`: the fragment isn't there.
    pub(super) async fn joint(&mut self, do_esi: bool, transport: &mut dyn Transport) -> Option<Joint> {
        let is_nested_in_gzip = self.nest.as_ref().is_some_and(|nest| nest.is_gzip);
        if !is_nested_in_gzip {
            return Some(Joint::Through);
        }
        let says_gzip = Coding::of_content(self.resp.get(names::CONTENT_ENCODING)) == Some(Coding::Gzip);
        let gzip = self.obj.clone().filter(|obj| says_gzip && obj.flags().coding == Coding::Gzip);
        let Some(obj) = gzip else { return Some(Joint::Stored(Sum::default())) };
        if do_esi {
            return Some(Joint::Through);
        }
        let passes = obj.flags().is_passed();
        if !passes {
            // Blocks can't be taken back: better no fragment than half of one.
            self.drive(transport, obj.finished()).await.ok()?;
        }
        let bits = Extra::of(obj.extra()).gzip_bits;
        let blocks = bits.zip(obj.body_len()).and_then(|(bits, len)| Blocks::new(bits, len));
        Some(match blocks {
            Some(blocks) => Joint::Blocks(blocks),
            None => Joint::Scan(Box::default()),
        })
    }
}
