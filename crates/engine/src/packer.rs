// SPDX-License-Identifier: BSD-2-Clause
//! Compresses bodies in a thread of its own, which has the least share of the processor and rests as long as it has
//! worked. Hard compression takes a second for a megabyte; no request waits for it.
//!
//! The queue is bounded. A body for which there is no room isn't compressed now; a later request asks for it again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use base::clock;
use cache::{Dictionary, FormCoding, FormRight};
use filters::{Chain, FilterState, Gzip, GzipParams, Pack, PackParams, Packed, RawDictionary, pack_against};
use message::Coding;
use storage::Buf;

use crate::contain::Panic;
use crate::engine::Engine;
use crate::forms::{FormFailure, pack_params, undoing};

const QUEUE: usize = 16;
/// A form in another encoding must be smaller than the stored body by one part in `GAIN`.
const GAIN: u64 = 50;

pub(crate) struct PackJob {
    pub engine: Arc<Engine>,
    pub right: FormRight,
    /// The body in stored form.
    pub pieces: Vec<Buf>,
    pub dictionary: Option<Arc<Dictionary>>,
}

pub(crate) fn pack(job: PackJob) {
    static QUEUE_IN: OnceLock<Option<SyncSender<PackJob>>> = OnceLock::new();
    let begin = || {
        let (jobs_in, jobs) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("packer".into()).spawn(move || work(&jobs));
        thread.ok().map(|_| jobs_in)
    };
    if let Some(queue) = QUEUE_IN.get_or_init(begin) {
        let _ = queue.try_send(job);
    }
}

fn work(jobs: &Receiver<PackJob>) {
    sys::limits::take_least_share();
    while let Ok(PackJob { engine, mut right, pieces, dictionary }) = jobs.recv() {
        let began = clock::now();
        let made = {
            let _contained = base::critical::contain();
            catch_unwind(AssertUnwindSafe(|| run(&engine, &mut right, &pieces, dictionary.as_deref())))
        };
        engine.end_form(right, made.map_err(|_| Panic));
        drop((pieces, dictionary));
        tables::counters::flush();
        std::thread::sleep(began.elapsed());
    }
}

fn run(
    engine: &Engine,
    right: &mut FormRight,
    pieces: &[Buf],
    dictionary: Option<&Dictionary>,
) -> Result<(), FormFailure> {
    let stored: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
    let plain = unpacked(engine, right.object().flags().coding, pieces)?;
    let params = engine.params.load();
    let pack = if right.is_hard() { PackParams::HARD } else { pack_params(&params) };
    let pack = PackParams { bytes: Some(plain.len() as u64), ..pack };
    let level = if right.is_hard() { 9 } else { params.gzip_level as u8 };
    let mut chain = Chain::new();
    let coding = match (right.coding(), dictionary) {
        (FormCoding::Plain(coding), _) => coding,
        (FormCoding::Against(_), Some(dictionary)) => {
            let began = clock::now();
            let most = stored - stored / GAIN;
            let dictionary = RawDictionary { hash: &dictionary.hash, bytes: &dictionary.bytes };
            let made = pack_against(dictionary, &plain, pack, |piece| add_below(right, piece, most));
            engine.main.form_work.add(began.elapsed().as_micros() as u64);
            return made;
        }
        (FormCoding::Against(_), None) => return Err(FormFailure::Gone),
    };
    let most = match coding {
        Coding::Identity => return Err(FormFailure::Refused),
        // For those that take nothing else.
        Coding::Gzip => {
            chain.push(Gzip::new(GzipParams { level, memlevel: params.gzip_memlevel as u8 }));
            plain.len() as u64
        }
        Coding::Brotli => {
            chain.push(Pack::new(Packed::Brotli, pack));
            stored - stored / GAIN
        }
        Coding::Zstd => {
            chain.push(Pack::new(Packed::Zstd, pack));
            stored - stored / GAIN
        }
    };
    engine.count_form(&chain);
    let mut rest = &plain[..];
    loop {
        let step = engine.step(&mut chain, rest, true, &mut |piece| add_below(right, piece, most))?;
        rest = &rest[step.consumed..];
        if step.state == FilterState::End {
            return Ok(());
        }
    }
}

/// Appends to a form that is of use only below `most` bytes.
fn add_below(right: &mut FormRight, piece: &[u8], most: u64) -> Result<(), FormFailure> {
    right.add(piece)?;
    if right.bytes() > most || right.object().is_dying() { Err(FormFailure::Refused) } else { Ok(()) }
}

/// The longest body that is compressed, by its decompressed bytes.
const MOST_PLAIN: usize = 64 << 20;

/// The whole decompressed body. This thread holds one at a time.
fn unpacked(engine: &Engine, coding: Coding, pieces: &[Buf]) -> Result<Vec<u8>, FormFailure> {
    let began = clock::now();
    let Some(mut chain) = undoing(coding) else {
        return Ok(pieces.iter().flat_map(|piece| piece.iter().copied()).collect());
    };
    let mut plain = Vec::new();
    let mut ended = false;
    for (at, piece) in pieces.iter().enumerate() {
        let (mut rest, is_last) = (&piece[..], at + 1 == pieces.len());
        loop {
            let step = filters::with_room(|room| {
                let step = chain.step(rest, is_last, room)?;
                plain.extend_from_slice(&room[..step.produced]);
                Ok::<_, filters::FilterError>(step)
            });
            let step = step.map_err(|_| FormFailure::Refused)?;
            rest = &rest[step.consumed..];
            if plain.len() > MOST_PLAIN {
                return Err(FormFailure::Refused);
            }
            match step.state {
                FilterState::More => {}
                FilterState::Hungry => break,
                FilterState::End => {
                    ended = true;
                    break;
                }
            }
        }
    }
    engine.main.form_work.add(began.elapsed().as_micros() as u64);
    if ended { Ok(plain) } else { Err(FormFailure::Refused) }
}
