// SPDX-License-Identifier: BSD-2-Clause
//! Reading the footer of a segment, part by part: each may be damaged while the others aren't.

use crate::core::Core;
use crate::format::BLOCK;
use crate::format::removal::Removal;
use crate::format::segment::{FooterLine, FooterParts, Trailer};
use crate::task;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Footer {
    pub trailer: Trailer,
    start: u64,
}

pub(crate) async fn read(core: &Core, index: u32, generation: u64) -> Option<Footer> {
    let superblock = core.geometry().superblock;
    let end = superblock.segment_start(index) + superblock.segment_bytes;
    // Both trailers in one read where that is possible: one bad block then costs the other nothing.
    let trailers = FooterParts::of(0, 0).len;
    let both = task::read(&*core.device, end - trailers, trailers as usize).await.ok();
    let blocks = match both {
        Some(pages) => vec![pages],
        None => {
            core.counters.read_errors.count();
            let last = task::read(&*core.device, end - BLOCK as u64, BLOCK).await;
            let first = task::read(&*core.device, end - trailers, BLOCK).await;
            last.into_iter().chain(first).collect()
        }
    };
    let mut blocks = blocks.iter().flat_map(|pages| pages.chunks_exact(BLOCK));
    let trailer = blocks.find_map(|block| Trailer::decode(block, superblock.store_id, generation))?;
    let start = end.checked_sub(trailer.parts().len).filter(|&start| start > superblock.segment_start(index))?;
    Some(Footer { trailer, start })
}

impl Footer {
    pub async fn lines(&self, core: &Core) -> Option<Vec<FooterLine>> {
        let bytes = self.part(core, 0, self.trailer.parts().removals[0]).await?;
        self.trailer.decode_lines(&bytes, core.geometry().superblock.store_id)
    }

    pub async fn removals(&self, core: &Core) -> Option<Vec<Removal>> {
        let parts = self.trailer.parts();
        let ends = [parts.removals[1], parts.trailers[0]];
        for (start, end) in parts.removals.into_iter().zip(ends) {
            let bytes = self.part(core, start, end).await;
            let store_id = core.geometry().superblock.store_id;
            if let Some(found) = bytes.and_then(|bytes| self.trailer.decode_removals(&bytes, store_id)) {
                return Some(found);
            }
        }
        None
    }

    async fn part(&self, core: &Core, start: u64, end: u64) -> Option<Vec<u8>> {
        if start == end {
            return Some(Vec::new());
        }
        let read = task::read(&*core.device, self.start + start, (end - start) as usize).await;
        match read {
            Ok(pages) => Some(pages.to_vec()),
            Err(error) => {
                core.note_error(error, &core.counters.read_errors);
                None
            }
        }
    }
}
