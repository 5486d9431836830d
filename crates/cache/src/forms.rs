// SPDX-License-Identifier: BSD-2-Clause
//! Forms of objects: a stored body in another encoding, kept beside the object while it is asked for.
//!
//! A form belongs to its objcore. It is found through the objcore and freed with it, so a purge, ban, eviction or
//! replacement of an object also ends its forms. Its bytes are in the object's store, charged to that store, and
//! bounded twice: by a share of each store, and by [`crate::CacheParams::form_space`] in all. The form to be dropped is the
//! first one that wasn't used since it was last looked at; a form that nobody has used for a while goes before any
//! object.
//!
//! [`Demand`] decides which forms are worthwhile. Making one needs a [`FormRight`], of which there are few at a time.
//! This module doesn't know how a form is made.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use base::Mono;
use base::critical::Lock;
use message::Coding;
use message::dictionary::DictionaryHash;
use storage::{Buf, Store, StoreId};
use tables::counters::Main;

use crate::cache::{Cache, CacheShared};
use crate::events::CacheEvent;
use crate::objcore::{NotWhole, Objcore};
use crate::objref::ObjRef;

/// Divisor: forms may take one part in `SHARE` of their store's limit.
const SHARE: u64 = 4;
/// Divisor: one form may take one part in `LARGEST` of the bytes that all may take.
const LARGEST: u64 = 4;
/// Bytes of a form that are put together before they are stored: its blocks.
const PIECE: usize = 256 << 10;
/// Forms that may be in the making at a time; half of them against dictionaries.
const MAKERS: usize = 8;
/// Seconds after which an unused form is evicted before any object.
const IDLE: u32 = 30;
/// Forms that are looked at to make room for one.
const LOOKS: usize = 32;
/// Forms of one object that were compressed against dictionaries, and refusals of such forms that are remembered.
const AGAINST: usize = 8;
/// Seconds in which an object gets at most `AGAINST` such forms or refusals: more hashes than that in turn don't have forms
/// made for ever.
const AGAINST_SECONDS: u32 = 600;
/// Uses that count, until its next look.
const MAX_FREQ: u8 = 3;
/// Deliveries that wanted a form before it is made.
const DEMAND: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormCoding {
    /// One that any client may take that accepts it.
    Plain(Coding),
    /// `dcz`: compressed against the dictionary with this hash.
    Against(DictionaryHash),
}

impl FormCoding {
    fn is_against(self) -> bool {
        matches!(self, FormCoding::Against(..))
    }
}

impl From<DictionaryHash> for FormCoding {
    fn from(hash: DictionaryHash) -> Self {
        FormCoding::Against(hash)
    }
}

impl From<Coding> for FormCoding {
    fn from(coding: Coding) -> Self {
        FormCoding::Plain(coding)
    }
}

/// A body in another encoding than the stored one, or in the same one but compressed harder.
pub struct Form {
    coding: FormCoding,
    is_hard: bool,
    pieces: Box<[Buf]>,
    bytes: u64,
    freq: AtomicU8,
    uses: AtomicU32,
    used_at: AtomicU32,
    _charge: SpaceCharge,
}

impl Form {
    pub fn coding(&self) -> FormCoding {
        self.coding
    }

    pub fn is_hard(&self) -> bool {
        self.is_hard
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn pieces(&self) -> &[Buf] {
        &self.pieces
    }

    pub fn uses(&self) -> u32 {
        self.uses.load(Relaxed)
    }

    fn note_use(&self, second: u32) {
        self.uses.store(self.uses().wrapping_add(1), Relaxed);
        self.used_at.store(second, Relaxed);
        let freq = self.freq.load(Relaxed);
        if freq < MAX_FREQ {
            self.freq.store(freq + 1, Relaxed);
        }
    }
}

impl std::fmt::Debug for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Form({:?}, {} bytes)", self.coding, self.bytes)
    }
}

/// The forms of one object; another one takes its place whenever that changes.
#[derive(Clone, Default)]
pub(crate) struct Forms {
    kept: Vec<Arc<Form>>,
    /// Encodings for which a form isn't possible or worthwhile: one bit for each, for normal and for hard compression.
    refused: u8,
    /// The same for compression against dictionaries, the latest ones.
    refused_against: VecDeque<(FormCoding, bool)>,
    /// Such forms and refusals since that second.
    against: usize,
    against_since: u32,
}

impl Forms {
    fn has_many_against(&self, second: u32) -> bool {
        self.against >= AGAINST && second.saturating_sub(self.against_since) < AGAINST_SECONDS
    }

    fn count(&mut self, coding: FormCoding, second: u32) {
        if !coding.is_against() {
            return;
        }
        if self.against == 0 || second.saturating_sub(self.against_since) >= AGAINST_SECONDS {
            (self.against, self.against_since) = (0, second);
        }
        self.against += 1;
    }

    fn find(&self, coding: FormCoding) -> Option<&Arc<Form>> {
        self.kept.iter().find(|form| form.coding == coding)
    }

    fn refusal(coding: Coding, is_hard: bool) -> u8 {
        1 << (coding as u8 + if is_hard { Coding::ALL.len() as u8 } else { 0 })
    }

    fn is_refused(&self, coding: FormCoding, is_hard: bool) -> bool {
        match coding {
            FormCoding::Plain(coding) => self.refused & Forms::refusal(coding, is_hard) != 0,
            FormCoding::Against(..) => self.refused_against.contains(&(coding, is_hard)),
        }
    }

    fn refuse(&mut self, coding: FormCoding, is_hard: bool) {
        match coding {
            FormCoding::Plain(coding) => self.refused |= Forms::refusal(coding, is_hard),
            FormCoding::Against(..) => {
                self.refused_against.truncate(AGAINST - 1);
                self.refused_against.push_front((coding, is_hard));
            }
        }
    }

    fn keep(&mut self, form: Arc<Form>) {
        self.kept.retain(|other| other.coding != form.coding);
        let is_full = self.kept.iter().filter(|other| other.coding.is_against()).count() == AGAINST;
        if is_full && form.coding.is_against() {
            let oldest = self.kept.iter().position(|other| other.coding.is_against());
            oldest.map(|oldest| self.kept.remove(oldest));
        }
        self.kept.push(form);
    }

    pub fn charged_bytes(&self) -> u64 {
        self.kept.iter().flat_map(|form| form.pieces()).map(Buf::charged_bytes).sum()
    }
}

/// Bytes of a store's budget that one form takes. Gives them back when dropped.
struct SpaceCharge {
    bytes: u64,
    of_store: Arc<AtomicU64>,
    main: &'static Main,
    is_kept: bool,
}

impl SpaceCharge {
    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.of_store.fetch_add(bytes, Relaxed);
        self.main.form_bytes.add(bytes);
    }
}

impl Drop for SpaceCharge {
    fn drop(&mut self) {
        self.of_store.fetch_sub(self.bytes, Relaxed);
        self.main.form_bytes.untally(self.bytes);
        if self.is_kept {
            self.main.n_form.untally(1);
        }
    }
}

pub(crate) struct FormKeeper {
    /// Bytes that they may take in all; 0: there are none.
    space: AtomicU64,
    /// Bytes that they take of each store.
    held: Vec<Arc<AtomicU64>>,
    demand: Demand,
    inner: Lock<Inner>,
    main: &'static Main,
}

#[derive(Default)]
struct Inner {
    /// All forms, the one looked at longest ago first. Includes some that have been dropped.
    clock: VecDeque<(Weak<Objcore>, Weak<Form>)>,
    /// Forms that are being made: the objcore's address (the maker of a form holds the objcore) and the encoding.
    making: Vec<(usize, FormCoding)>,
}

impl Inner {
    /// Adds a form, and removes up to two dropped ones from the front. So the dropped ones never outnumber the others.
    fn enter(&mut self, oc: &Arc<Objcore>, form: &Arc<Form>) {
        self.clock.push_back((Arc::downgrade(oc), Arc::downgrade(form)));
        for _ in 0..2 {
            let Some(next) = self.clock.pop_front() else { return };
            if next.1.strong_count() > 0 {
                self.clock.push_back(next);
            }
        }
    }
}

impl FormKeeper {
    pub fn new(main: &'static Main, stores: usize, space: u64) -> Self {
        Self {
            space: AtomicU64::new(space),
            held: (0..stores).map(|_| Arc::default()).collect(),
            demand: Demand::default(),
            inner: Lock::default(),
            main,
        }
    }

    pub fn set_space(&self, space: u64) {
        self.space.store(space, Relaxed);
    }

    fn bound(&self, store: &Store) -> u64 {
        let share = store.limit_bytes().map_or(u64::MAX, |limit| limit / SHARE);
        share.min(self.space.load(Relaxed))
    }

    fn held_in(&self, store: StoreId) -> u64 {
        self.held[store as usize].load(Relaxed)
    }

    fn held(&self) -> u64 {
        self.held.iter().map(|held| held.load(Relaxed)).sum()
    }

    /// Evicts other forms until `bytes` more fit into the store's budget for forms. Returns `false` if they can't.
    fn make_way(&self, store: &Store, bytes: u64) -> bool {
        let bound = self.bound(store);
        let fits = || {
            let space = self.space.load(Relaxed);
            self.held_in(store.id()).saturating_add(bytes) <= bound && self.held().saturating_add(bytes) <= space
        };
        if bytes > bound / LARGEST {
            return false;
        }
        for _ in 0..LOOKS {
            if fits() {
                return true;
            }
            if !self.look_at_one(|form| form.freq.swap(form.freq.load(Relaxed).saturating_sub(1), Relaxed) == 0) {
                break;
            }
        }
        fits()
    }

    /// Drops one form of that store that nobody has used for a while. Returns `false` if none was found in a few looks.
    pub fn give_up_idle(&self, store: StoreId, now: Mono) -> bool {
        let second = second_of(now);
        let before = self.held_in(store);
        for _ in 0..4 {
            if before == 0 || !self.look_at_one(|form| second.saturating_sub(form.used_at.load(Relaxed)) > IDLE) {
                return false;
            }
            if self.held_in(store) < before {
                return true;
            }
        }
        false
    }

    /// Looks at the next form in turn, and drops it if `goes` says so. Returns `false` if there is none.
    fn look_at_one(&self, goes: impl FnOnce(&Form) -> bool) -> bool {
        let next = {
            let mut inner = self.inner.lock();
            let mut looks = inner.clock.len().min(LOOKS);
            loop {
                let Some((oc, form)) = inner.clock.pop_front() else { return false };
                if let (Some(of), Some(it)) = (oc.upgrade(), form.upgrade()) {
                    inner.clock.push_back((oc, form));
                    break (of, it);
                }
                looks -= 1;
                if looks == 0 {
                    return true;
                }
            }
        };
        let (oc, form) = next;
        if goes(&form) && self.change(&oc, |forms| forms.kept.retain(|other| !Arc::ptr_eq(other, &form))) {
            self.main.form_evicted.inc();
        }
        true
    }

    /// Changes the forms of an object. False: it isn't whole.
    fn change(&self, oc: &Objcore, change: impl FnOnce(&mut Forms)) -> bool {
        // One after the other; what they free is freed after the unlock.
        let (done, _former) = {
            let _inner = self.inner.lock();
            let mut forms = oc.forms().as_deref().cloned().unwrap_or_default();
            change(&mut forms);
            match oc.set_forms(forms) {
                Ok(former) => (true, former),
                Err(NotWhole) => (false, None),
            }
        };
        done
    }

    fn begin(&self, oc: &Objcore, coding: FormCoding) -> bool {
        let address = std::ptr::from_ref(oc).addr();
        let mut inner = self.inner.lock();
        let against = inner.making.iter().filter(|(_, other)| other.is_against()).count();
        let has_room = inner.making.len() < MAKERS && !(coding.is_against() && against >= MAKERS / 2);
        let may = has_room && !inner.making.contains(&(address, coding));
        if may {
            inner.making.push((address, coding));
        }
        may
    }

    fn end(&self, oc: &Objcore, coding: FormCoding) {
        let address = std::ptr::from_ref(oc).addr();
        self.inner.lock().making.retain(|making| *making != (address, coding));
    }
}

fn second_of(now: Mono) -> u32 {
    now.0 as u32
}

impl Cache {
    /// The form of an object in that encoding, if there is one. Call it for a form that is about to be delivered.
    pub fn form(&self, obj: &ObjRef, coding: impl Into<FormCoding>, now: Mono) -> Option<Arc<Form>> {
        let form = obj.objcore().forms()?.find(coding.into())?.clone();
        form.note_use(second_of(now));
        self.shared().main.form_hit.tally();
        Some(form)
    }

    /// Notes that a delivery could use a form that a complete object doesn't have. Returns the right to make it once
    /// that has happened a few times in a while.
    pub fn wants_form(&self, obj: &ObjRef, coding: Coding) -> Option<FormRight> {
        let keeper = &self.shared().forms;
        if keeper.space.load(Relaxed) == 0 || !keeper.demand.note(obj.objcore(), coding) {
            return None;
        }
        self.right_to_form(obj, coding.into(), false)
    }

    /// Like [`Cache::wants_form`], but at once: a client has the dictionary, and would get most of the body again.
    pub fn wants_form_against(&self, obj: &ObjRef, hash: DictionaryHash) -> Option<FormRight> {
        self.right_to_form(obj, FormCoding::Against(hash), false)
    }

    /// True if the object has had so many forms against dictionaries that it gets no other one for now.
    pub fn has_many_forms_against(&self, obj: &ObjRef) -> bool {
        let second = second_of(self.shared().now());
        obj.objcore().forms().is_some_and(|forms| forms.has_many_against(second))
    }

    /// True if such a form of the object was of no use, or there was no room for it.
    pub fn is_form_refused(&self, obj: &ObjRef, coding: impl Into<FormCoding>) -> bool {
        obj.objcore().forms().is_some_and(|forms| forms.is_refused(coding.into(), false))
    }

    /// Like [`Cache::wants_form`], but at once, and for a form compressed as hard as possible.
    pub fn wants_hard_form(&self, obj: &ObjRef, coding: impl Into<FormCoding>) -> Option<FormRight> {
        self.right_to_form(obj, coding.into(), true)
    }

    fn right_to_form(&self, obj: &ObjRef, coding: FormCoding, is_hard: bool) -> Option<FormRight> {
        let keeper = &self.shared().forms;
        let oc = obj.objcore();
        let forms = oc.forms();
        let is_refused = forms.as_ref().is_some_and(|forms| forms.is_refused(coding, is_hard));
        let is_there = forms.and_then(|forms| forms.find(coding).map(|form| form.is_hard));
        if keeper.space.load(Relaxed) == 0
            || is_refused
            || coding.is_against() && self.has_many_forms_against(obj)
            || is_there.is_some_and(|is_hard_already| is_hard_already || !is_hard)
            || obj.is_dying()
            || obj.body_len().is_none()
            || !keeper.begin(oc, coding)
        {
            return None;
        }
        let store = self.stores().get(oc.store()).clone();
        let charge = SpaceCharge {
            bytes: 0,
            of_store: keeper.held[store.id() as usize].clone(),
            main: self.shared().main,
            is_kept: false,
        };
        let (pieces, pending, bytes) = (Vec::new(), Vec::new(), 0);
        let nukes_left = self.shared().params.load().nuke_limit;
        Some(FormRight {
            cache: self.clone(),
            obj: obj.clone(),
            coding,
            is_hard,
            store,
            pieces,
            pending,
            bytes,
            charge: Some(charge),
            nukes_left,
            events: Vec::new(),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoForm {
    NoRoom,
    Gone,
}

/// The right to make a form of an object, one of few. It ends with [`FormRight::keep`] or [`FormRight::refuse`]; dropped, nothing has happened.
pub struct FormRight {
    cache: Cache,
    obj: ObjRef,
    coding: FormCoding,
    is_hard: bool,
    store: Arc<Store>,
    pieces: Vec<Buf>,
    /// Bytes that aren't stored yet.
    pending: Vec<u8>,
    bytes: u64,
    charge: Option<SpaceCharge>,
    nukes_left: u32,
    events: Vec<CacheEvent>,
}

impl FormRight {
    pub fn object(&self) -> &ObjRef {
        &self.obj
    }

    pub fn coding(&self) -> FormCoding {
        self.coding
    }

    /// True if the form is to be compressed as hard as possible.
    pub fn is_hard(&self) -> bool {
        self.is_hard
    }

    /// True if a form of `bytes` may be kept at all.
    pub fn may_be(&self, bytes: u64) -> bool {
        bytes <= self.cache.shared().forms.bound(&self.store) / LARGEST
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends to it.
    ///
    /// # Errors
    /// [`NoForm`]: give it up.
    pub fn add(&mut self, mut bytes: &[u8]) -> Result<(), NoForm> {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let n = bytes.len().min(PIECE - self.pending.len());
            self.pending.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.pending.len() == PIECE {
                self.store_piece()?;
            }
        }
        Ok(())
    }

    fn store_piece(&mut self) -> Result<(), NoForm> {
        if self.obj.is_dying() {
            return Err(NoForm::Gone);
        }
        let shared = self.cache.shared();
        let most = shared.forms.bound(&self.store) / LARGEST;
        if self.bytes > most || !shared.forms.make_way(&self.store, self.pending.len() as u64) {
            return Err(NoForm::NoRoom);
        }
        let piece = shared
            .block(&self.store, self.obj.objcore().tenant(), &[&self.pending], &mut self.nukes_left, &mut self.events)
            .map_err(|_| NoForm::NoRoom)?;
        self.charge.as_mut().expect("until it is kept").add(piece.charged_bytes());
        self.pieces.push(piece);
        self.pending.clear();
        Ok(())
    }

    /// Keeps the completed form, and replaces an older one in that encoding. Returns the events of evictions.
    pub fn keep(mut self) -> (Result<(), NoForm>, Vec<CacheEvent>) {
        let kept = self.keep_whole();
        (kept, self.take_events())
    }

    fn keep_whole(&mut self) -> Result<(), NoForm> {
        if !self.pending.is_empty() {
            let stored = self.store_piece();
            if stored == Err(NoForm::NoRoom) {
                self.note_refusal();
            }
            stored?;
        }
        let mut charge = self.charge.take().expect("until it is kept");
        charge.is_kept = true;
        charge.main.n_form.add(1);
        let shared = self.cache.shared();
        let form = Arc::new(Form {
            coding: self.coding,
            is_hard: self.is_hard,
            pieces: std::mem::take(&mut self.pieces).into(),
            bytes: self.bytes,
            freq: AtomicU8::new(1),
            uses: AtomicU32::new(0),
            used_at: AtomicU32::new(second_of(shared.now())),
            _charge: charge,
        });
        let oc = self.obj.objcore();
        let kept = shared.forms.change(oc, |forms| {
            forms.count(self.coding, second_of(shared.now()));
            forms.keep(form.clone());
        });
        if !kept {
            return Err(NoForm::Gone);
        }
        shared.forms.inner.lock().enter(oc, &form);
        shared.main.form_made.inc();
        Ok(())
    }

    /// The object is not to be asked for this form again.
    pub fn refuse(self) {
        self.note_refusal();
    }

    fn note_refusal(&self) {
        let shared = self.cache.shared();
        shared.main.form_refused.inc();
        shared.forms.change(self.obj.objcore(), |forms| {
            forms.count(self.coding, second_of(shared.now()));
            forms.refuse(self.coding, self.is_hard);
        });
    }

    pub fn take_events(&mut self) -> Vec<CacheEvent> {
        std::mem::take(&mut self.events)
    }
}

impl Drop for FormRight {
    fn drop(&mut self) {
        self.cache.shared().forms.end(self.obj.objcore(), self.coding);
    }
}

impl CacheShared {
    /// Drops a form of that store to make room for an object, if nobody has used the form for a while.
    pub fn give_up_idle_form(&self, store: &Store) -> bool {
        self.forms.held_in(store.id()) > 0 && self.forms.give_up_idle(store.id(), self.now())
    }
}

/// Recent demand for each form. Forms share the counters by hash, so one counter may stand for several.
struct Demand {
    counts: Box<[AtomicU8]>,
    /// Notes left until all counts are halved.
    left: AtomicU32,
}

const PLACES: usize = 1 << 12;

impl Default for Demand {
    fn default() -> Self {
        Self { counts: sys::zeroed::table(PLACES), left: AtomicU32::new(PLACES as u32) }
    }
}

impl Demand {
    /// Notes one request for a form. Returns `true`, and resets the count, if the form was wanted often enough.
    fn note(&self, oc: &Objcore, coding: Coding) -> bool {
        // Objcores are at multiples of eight: the codings have room between them.
        let which = std::ptr::from_ref(oc).addr() as u64 + coding as u64;
        let hash = which.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let count = &self.counts[hash as usize % PLACES];
        let wanted = count.load(Relaxed) + 1;
        // Threads may lose one of another's: it is wanted a little longer.
        count.store(if wanted >= DEMAND { 0 } else { wanted }, Relaxed);
        self.grow_old();
        wanted >= DEMAND
    }

    fn grow_old(&self) {
        let left = self.left.load(Relaxed);
        self.left.store(left.wrapping_sub(1), Relaxed);
        if left == 0 {
            self.left.store(PLACES as u32, Relaxed);
            self.counts.iter().for_each(|count| count.store(count.load(Relaxed) / 2, Relaxed));
        }
    }
}
