// SPDX-License-Identifier: BSD-2-Clause
//! Makes forms of stored bodies in the background. A body that is delivered decompressed again and again is
//! decompressed once, and a body that many clients prefer in another encoding is compressed in that.
//!
//! A task of the thread whose delivery wanted the form decompresses the body, in the same bounded steps as a delivery.
//! Bodies to be compressed go to `packer`. `cache::forms` decides when a form is worthwhile and how large it may be.

use std::pin::pin;
use std::sync::Arc;

use base::clock;
use cache::{CacheEvent, Dictionary, FormCoding, FormRight, NoForm, ObjRef};
use filters::{Chain, FilterError, FilterName, FilterState, FilterStep, PackParams, Packed, Unpack};
use message::Coding;
use params::Params;
use storage::Buf;

use crate::contain::{Panic, contained};
use crate::engine::Engine;
use crate::packer;

/// The shortest body that is compressed.
const LEAST_BYTES: u64 = 128;
/// The longest one, stored: the packer shan't be one object's for long.
const MOST_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormFailure {
    /// Another attempt is of no use.
    Refused,
    /// The object has gone, or its body can't be read now.
    Gone,
}

impl From<NoForm> for FormFailure {
    fn from(reason: NoForm) -> Self {
        match reason {
            NoForm::NoRoom => FormFailure::Refused,
            NoForm::Gone => FormFailure::Gone,
        }
    }
}

/// A body that can't be decoded or encoded won't be so later.
impl From<FilterError> for FormFailure {
    fn from(_: FilterError) -> Self {
        FormFailure::Refused
    }
}

pub(crate) type Sink<'s> = &'s mut dyn FnMut(&[u8]) -> Result<(), FormFailure>;

pub fn apply(params: &Params) {
    filters::set_memory_limit(params.coding_memory);
}

pub(crate) fn pack_params(params: &Params) -> PackParams {
    PackParams { brotli_quality: params.brotli_quality as u8, zstd_level: params.zstd_level as u8, bytes: None }
}

/// The filters that decode an encoding; `None` if there is nothing to decode.
pub(crate) fn undoing(coding: Coding) -> Option<Chain> {
    let mut chain = Chain::new();
    match coding {
        Coding::Identity => return None,
        Coding::Gzip => chain.push(filters::Gunzip::deliver()),
        Coding::Brotli => chain.push(Unpack::new(Packed::Brotli)),
        Coding::Zstd => chain.push(Unpack::new(Packed::Zstd)),
    }
    Some(chain)
}

impl Engine {
    /// Updates, once a second, the count of memory that encoders hold.
    pub fn count_coders(&self) {
        self.main.coding_bytes.set(filters::memory_held());
        self.main.coding_refused.set(filters::memory_refused());
    }

    pub(crate) fn make_form(self: &Arc<Self>, right: FormRight) {
        let engine = self.clone();
        rt::spawn(async move {
            let mut right = right;
            if right.coding() != FormCoding::Plain(Coding::Identity) {
                return engine.pack(right, None).await;
            }
            let obj = right.object().clone();
            let made = contained(pin!(engine.unpack(&obj, &mut |bytes| Ok(right.add(bytes)?)))).await;
            engine.end_form(right, made);
        });
    }

    pub(crate) fn make_form_against(self: &Arc<Self>, right: FormRight, dictionary: Arc<Dictionary>) {
        let engine = self.clone();
        rt::spawn(async move { engine.pack(right, Some(dictionary)).await });
    }

    pub(crate) fn end_form(&self, mut right: FormRight, made: Result<Result<(), FormFailure>, Panic>) {
        self.log_evicted(&right.take_events());
        match made {
            Ok(Ok(())) if right.bytes() > 0 => {
                let (_kept, events) = right.keep();
                self.log_evicted(&events);
            }
            Ok(Ok(()) | Err(FormFailure::Refused)) => right.refuse(),
            Ok(Err(FormFailure::Gone)) => {}
            Err(Panic) => {
                self.main.req_panic.inc();
                right.refuse();
            }
        }
    }

    fn log_evicted(&self, events: &[CacheEvent]) {
        events.iter().for_each(|event| self.log_event(*event));
    }

    /// Gives `sink` the decoded body of an object that is stored in an encoding.
    pub(crate) async fn unpack(&self, obj: &ObjRef, sink: Sink<'_>) -> Result<(), FormFailure> {
        let mut chain = undoing(obj.flags().coding).ok_or(FormFailure::Refused)?;
        let mut reader = obj.reader(0);
        loop {
            let piece = reader.next().await.map_err(|_| FormFailure::Gone)?;
            let (mut bytes, is_last) = (piece.as_deref().unwrap_or_default(), piece.is_none());
            loop {
                let step = self.step(&mut chain, bytes, is_last, sink)?;
                bytes = &bytes[step.consumed..];
                rt::spent_guess(chain.take_micros()).await;
                match step.state {
                    FilterState::End => return Ok(()),
                    FilterState::Hungry => break,
                    FilterState::More => {}
                }
            }
        }
    }

    pub(crate) fn step(
        &self,
        chain: &mut Chain,
        bytes: &[u8],
        is_last: bool,
        sink: Sink<'_>,
    ) -> Result<FilterStep, FormFailure> {
        let began = clock::now();
        let stepped = filters::with_room(|room| {
            let step = chain.step(bytes, is_last, room)?;
            sink(&room[..step.produced])?;
            Ok(step)
        });
        self.main.form_work.add(began.elapsed().as_micros() as u64);
        stepped
    }

    async fn pack(self: &Arc<Self>, right: FormRight, dictionary: Option<Arc<Dictionary>>) {
        let bytes = right.object().body_len().unwrap_or(0);
        if !(LEAST_BYTES..=MOST_BYTES).contains(&bytes) {
            return right.refuse();
        }
        let mut reader = right.object().reader(0);
        let mut pieces: Vec<Buf> = Vec::new();
        loop {
            match reader.next().await {
                Ok(Some(piece)) => pieces.push(piece),
                Ok(None) => break,
                Err(_) => return,
            }
        }
        packer::pack(packer::PackJob { engine: self.clone(), right, pieces, dictionary });
    }

    pub(crate) fn count_form(&self, chain: &Chain) {
        debug_assert!(chain.names().all(|name| FilterName::from(name.as_bytes()) != FilterName::Range), "a whole body");
        self.count_gzip(chain);
    }
}
