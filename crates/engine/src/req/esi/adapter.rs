// SPDX-License-Identifier: BSD-2-Clause
//! Makes the bytes of a fragment fit into the body of the page that includes it.

use cache::ObjRef;
use filters::stitch::{self, Blocks, GzipSum};
use filters::{FilterError, GzipScan};
use message::{Coding, names};
use storage::Buf;

use crate::aux_attrs::AuxAttrs;
use crate::req::Req;
use crate::transport::Transport;

/// Ways in which a fragment's bytes go into its parent's body.
pub(in crate::req) enum Adapter {
    /// Unchanged: nothing is joined, or both are plain, or the fragment made itself fit.
    Through,
    /// Plain bytes in a gzip body: stored blocks.
    Stored(GzipSum),
    /// A gzip body in a gzip body: its blocks.
    Blocks(Blocks),
    /// The same, and where the blocks are isn't known.
    Scan(Box<GzipScan>),
}

impl Adapter {
    pub fn is_immediate(&self) -> bool {
        matches!(self, Adapter::Through | Adapter::Stored(_))
    }

    /// Varnish's name of it, for VdpAcct.
    pub fn name(&self, is_fragment: bool) -> &'static str {
        match self {
            Adapter::Through if is_fragment => "VED",
            Adapter::Through => "V1B",
            Adapter::Stored(_) => "PGZ",
            Adapter::Blocks(_) | Adapter::Scan(_) => "VZZ",
        }
    }

    /// Checksum and length of the bytes joined to the parent's gzip body, after `bytes` came in.
    ///
    /// # Errors
    /// The fragment's gzip ended early.
    pub fn sum(&self, bytes: u64) -> Result<GzipSum, FilterError> {
        match self {
            Adapter::Through => Ok(GzipSum::default()),
            Adapter::Stored(sum) => Ok(*sum),
            Adapter::Blocks(blocks) => blocks.sum().ok_or(FilterError::GunzipTruncated),
            // Nothing at all is no gzip, but nothing was joined either.
            Adapter::Scan(_) if bytes == 0 => Ok(GzipSum::default()),
            Adapter::Scan(scan) => scan.finish(),
        }
    }

    /// Sends bytes as the parent can take them; how many were taken.
    ///
    /// # Errors
    /// The fragment's gzip is broken.
    pub fn send(&mut self, piece: Buf, out: &mut dyn Transport) -> Result<usize, FilterError> {
        let bytes = piece.len();
        match self {
            _ if piece.is_empty() => {}
            Adapter::Through => out.send_data(piece),
            Adapter::Stored(sum) => {
                sum.add(&piece);
                for start in (0..bytes).step_by(stitch::STORED_MAX) {
                    let part = piece.slice(start..bytes.min(start + stitch::STORED_MAX));
                    out.send_data(Buf::unaccounted(stitch::stored_header(part.len() as u16).to_vec()));
                    out.send_data(part);
                }
            }
            Adapter::Blocks(blocks) => {
                let mut fit = Vec::with_capacity(bytes + 16);
                blocks.push(&piece, &mut fit);
                out.send_data(Buf::unaccounted(fit));
            }
            Adapter::Scan(scan) => {
                let mut fit = Vec::new();
                let taken = scan.step(&piece, &mut fit)?;
                out.send_data(Buf::unaccounted(fit));
                return Ok(taken);
            }
        }
        Ok(bytes)
    }
}

impl Req {
    /// The way of this response's body into the page that includes it. `None` if there is no such fragment.
    pub(in crate::req) async fn adapter(
        &mut self,
        obj: Option<&ObjRef>,
        do_esi: bool,
        transport: &mut dyn Transport,
    ) -> Option<Adapter> {
        if !self.esi.parent().is_some_and(|parent| parent.is_gzip) {
            return Some(Adapter::Through);
        }
        let says_gzip =
            Coding::of_content(self.resp.head.joined(names::CONTENT_ENCODING).as_deref()) == Some(Coding::Gzip);
        let gzip = obj.filter(|obj| says_gzip && obj.flags().coding == Coding::Gzip);
        let Some(packed) = gzip else { return Some(Adapter::Stored(GzipSum::default())) };
        if do_esi {
            return Some(Adapter::Through);
        }
        let passes = packed.flags().is_passed();
        if !passes {
            // Blocks can't be taken back: better no fragment than half of one.
            self.drive(transport, packed.finished()).await.ok()?;
        }
        let bits = AuxAttrs::read(packed.aux_attrs()).gzip_bits;
        let blocks = bits.zip(packed.body_len()).and_then(|(bits, len)| Blocks::new(bits, len));
        Some(match blocks {
            Some(blocks) => Adapter::Blocks(blocks),
            None => Adapter::Scan(Box::default()),
        })
    }
}
