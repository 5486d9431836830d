// SPDX-License-Identifier: BSD-2-Clause
//! How running VCL reaches its transaction. `engine` implements [`Ctx`] for the client side and the backend side;
//! `load` uses a minimal one for `vcl_init` and `vcl_fini`.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use base::Clock;
use message::Head;
use shm::vsl::TxnLog;
use tables::Compat;
use tables::counters::Main;
use tables::tags::Tag;
use tables::vclvars::{HeadId, Var};

use crate::value::{BackendRef, Value};

/// A failure of VCL: the text of the `VCL_Error` record. The transaction then goes on as after `return (fail)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VclFailure(pub Cow<'static, str>);

impl VclFailure {
    /// A failure with this text.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        VclFailure(text.into())
    }
}

impl From<&'static str> for VclFailure {
    fn from(text: &'static str) -> Self {
        VclFailure(Cow::Borrowed(text))
    }
}

impl From<String> for VclFailure {
    fn from(text: String) -> Self {
        VclFailure(Cow::Owned(text))
    }
}

/// Something VCL waits for.
pub type VclWait<T> = Pin<Box<dyn Future<Output = T>>>;

/// The limit of rapid resets of a client's HTTP/2 connection. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RapidResets {
    /// A reset in this time after the stream's begin counts.
    pub within: f64,
    /// Number of them in a period. 0: no limit.
    pub most: u32,
    /// Time in which what was spent comes back.
    pub period: f64,
    /// How many more there may be now.
    pub left: f64,
}

/// The transaction as VCL sees it.  Lines of heads, and the parts of start lines (`req.url`, `resp.status`, ...), are
/// read and written by the machine itself through [`Ctx::head`] and [`Ctx::edit`], logging included. All other
/// variables go through [`Ctx::get`] and [`Ctx::set`].
pub trait Ctx {
    /// The head, when this transaction has it now. `ReqTop` is the request's own when there is no parent.
    fn head(&mut self, id: HeadId) -> Option<&Head>;

    /// The head to change, and the log to write the change to. `None` when it can't be changed here.
    fn edit(&mut self, id: HeadId) -> Option<(&mut Head, &mut TxnLog)>;

    /// A variable that isn't part of a head. Never asked for those, nor for `now`.
    fn get(&mut self, var: Var) -> Value;

    /// Checks that the response's filters still follow from `do_esi` and its like: VCL asks before it reads or sets
    /// one.
    ///
    /// # Errors
    /// VCL has set the filters themselves, and fails with that text.
    fn filters_open(&self, var: Var) -> Result<(), VclFailure> {
        let _ = var;
        Ok(())
    }

    /// Sets a variable that isn't part of a head; the value has the variable's type.
    ///
    /// # Errors
    /// A value the variable can't take; VCL fails with that text.
    fn set(&mut self, var: Var, value: Value) -> Result<(), VclFailure>;

    /// Unsets a variable, which then has its default again.
    ///
    /// # Errors
    /// VCL fails with that text.
    fn unset(&mut self, var: Var) -> Result<(), VclFailure>;

    /// `set resp.body`, `set beresp.body`, `synthetic()`; `append` for `+=`.
    ///
    /// # Errors
    /// VCL fails with that text.
    fn body(&mut self, data: &[u8], append: bool) -> Result<(), VclFailure>;

    /// Log of the transaction.
    fn log(&mut self) -> &mut TxnLog;

    /// `hash_data()`: a piece is added to the hash as it is and logged as `Hash`; `None` adds a single NUL and logs
    /// nothing (an unset piece, and the end of each `hash_data`).
    fn hash_data(&mut self, data: Option<&[u8]>);

    /// `return (pass(DURATION))`: how long the object says so, in seconds. Called before the return is logged.
    fn pass_for(&mut self, seconds: f64) {
        let _ = seconds;
    }

    /// In a trial (`lacquer explain`) the list of what VCL would have done outside of its transaction, as `call vsthrottle.is_denied("a")`;
    /// nothing of that is done. `None`: this is no trial.
    fn trial(&mut self) -> Option<&mut Vec<String>> {
        None
    }

    /// True if `VCL_trace` is to be logged.
    fn is_traced(&mut self) -> bool {
        !self.compat().is_9() && !self.log().ring().is_masked(Tag::VclTrace)
    }

    /// The release whose manners the server has.
    fn compat(&self) -> Compat {
        Compat::default()
    }

    /// Adds a ban to the list.
    ///
    /// # Errors
    /// What is wrong with the expression.
    fn ban(&mut self, spec: &[u8]) -> Result<(), String>;

    /// Wall and monotonic clock.
    fn clock(&self) -> &Clock;

    /// State that modules keep until this task (request or fetch) ends: PRIV_TASK.
    fn task(&mut self) -> &mut Privates;

    /// `std.rollback(req | bereq)`: the head as it was at the task's start.
    fn rollback(&mut self, id: HeadId) -> Result<(), VclFailure>;

    /// A random number in `[0, 1)`; where `debug.srandom` matters, from the generator that it seeds.
    fn random(&mut self) -> f64 {
        dice::roll()
    }

    /// `std.late_100_continue(late)`; only called in `vcl_recv`.
    fn late_100_continue(&mut self, late: bool) {
        let _ = late;
    }

    /// Counters of the worker; `None` where no request is served.
    fn main_counters(&self) -> Option<&'static Main> {
        None
    }

    /// `std.set_ip_tos(tos)`: silently nothing on a connection that isn't IP.
    ///
    /// # Errors
    /// VCL fails with that text.
    fn set_ip_tos(&mut self, tos: i64) -> Result<(), VclFailure> {
        let _ = tos;
        Err("std.set_ip_tos() isn't supported by Lacquer".into())
    }

    /// Number of the user and group at the other end of the client's unix socket.
    ///
    /// # Errors
    /// What the `VCL_Error` record says after `vmod unix error: `.
    fn peer_ids(&mut self) -> Result<(u32, u32), String> {
        Err("not listening on a Unix domain socket".into())
    }

    /// The TLVs of the client's PROXY v2 header, as they came.
    fn proxy_tlvs(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Parameters of the TLS handshake: of the client's connection on the client side, of the origin's in
    /// `vcl_backend_response`. `None` without TLS.
    fn tls(&mut self) -> Option<&tls::HandshakeInfo> {
        None
    }

    /// The limit of rapid resets of the client's connection, which is then changed to `limit`, if any. `None`: it isn't
    /// HTTP/2.
    fn rapid_resets(&mut self, limit: Option<RapidResets>) -> Option<RapidResets> {
        let _ = limit;
        None
    }

    /// `std.cache_req_body(limit)`: whether the whole body fits. The future must not borrow from the transaction.
    ///
    /// # Errors
    /// VCL fails with that text (called in the wrong place).
    fn cache_req_body(&mut self, limit: u64) -> Result<VclWait<bool>, VclFailure>;

    /// `purge.hard()` (all zero) and `purge.soft()`: lowers ttl, grace and keep of this request's objects to at most
    /// these seconds (`None` = unchanged). How many objects it reached.
    ///
    /// # Errors
    /// VCL fails with that text (called in the wrong place).
    fn purge(&mut self, ttl: f64, grace: Option<f64>, keep: Option<f64>) -> Result<i64, VclFailure>;

    /// Checks that a ban or a purge counts in this cache.
    ///
    /// # Errors
    /// VCL fails with that text: it doesn't any more, and nobody shall believe that it was done.
    fn may_invalidate(&self) -> Result<(), VclFailure> {
        Ok(())
    }

    /// Purges all objects that bear one of these keys; `soft` takes their ttl only. How many it reached.
    ///
    /// # Errors
    /// VCL fails with that text (called in the wrong place).
    fn purge_tags(&mut self, keys: &[&[u8]], soft: bool) -> Result<VclWait<i64>, VclFailure> {
        let _ = (keys, soft);
        Err("there is no cache here to purge".into())
    }

    /// Gives the object that is being fetched these keys, beside those that it has.
    ///
    /// # Errors
    /// VCL fails with that text (called in the wrong place, too many of them).
    fn add_tags(&mut self, keys: &[&[u8]]) -> Result<(), VclFailure> {
        let _ = keys;
        Err("there is no object here to give keys".into())
    }

    /// `std.rfc_ttl()`: beresp's lives anew, as its fields are now.
    fn rfc_ttl(&mut self) -> Result<(), VclFailure> {
        Err(VclFailure::new("std.rfc_ttl() is for vcl_backend_response"))
    }

    /// `utils.fast_304()`: a 304 leaves the stale object's head as it is. Without a 304 it changes nothing.
    ///
    /// # Errors
    /// VCL fails with that text (called in the wrong place).
    fn fast_304(&mut self) -> Result<(), VclFailure> {
        Err(VclFailure::new("utils.fast_304() is for vcl_backend_response"))
    }

    /// `utils.is_fast_304()`: whether that was said of a 304.
    fn is_fast_304(&mut self) -> bool {
        false
    }

    /// `slicer.enable()`: the object is to be kept in slices; whether it can be.
    ///
    /// # Errors
    /// VCL fails with that text (called in the wrong place).
    fn slice(&mut self) -> Result<bool, VclFailure> {
        Err(VclFailure::new("slicer.enable() is for vcl_backend_fetch and vcl_backend_response"))
    }

    /// The request's body as `std.cache_req_body` kept it, piece by piece. False: it isn't kept.
    fn kept_body(&mut self, piece: &mut dyn FnMut(&[u8])) -> bool {
        let _ = piece;
        false
    }

    /// Filters that modules inject into the chain of the body of this transaction's response: they run on its way into
    /// the cache or to the client. `None` where no response goes through filters.
    fn injected_filters(&mut self) -> Option<&mut filters::InjectedFilters> {
        None
    }

    /// The metadata that the fetch's filter of that name gave the object that is delivered.
    fn object_metadata(&mut self, filter: &str) -> Option<Vec<u8>> {
        let _ = filter;
        None
    }

    /// True if this server makes that coding and undoes it, as far as `vcl_init` can know.
    fn is_coding_made(&mut self, coding: message::Coding) -> bool {
        let _ = coding;
        false
    }

    /// The client's socket. `None` where there is no client.
    fn client_socket(&mut self) -> Option<sys::tcp::SocketNumber> {
        None
    }

    /// True if a backend or director is healthy for this transaction.
    fn healthy(&mut self, director: &BackendRef) -> bool {
        director.healthy(self.clock().real()).ok
    }

    /// A property of a store: `free_space` and `used_space` as BYTES, `happy` as BOOL; what `std` and VCL ask.
    fn store(&mut self, name: &[u8], property: StoreProperty) -> Value;

    /// The director's choice for this transaction now (`.resolve()`).
    fn resolve(&mut self, director: &BackendRef) -> Option<BackendRef>;

    /// True if a store of that name exists (`storage.name`, `set beresp.storage_hint`).
    fn has_store(&mut self, name: &[u8]) -> bool;
}

/// `ban()` and `std.ban()`: adds a ban, or says in the log what is wrong with it.
///
/// # Errors
/// What is wrong.
pub fn ban(ctx: &mut dyn Ctx, spec: Option<&[u8]>) -> Result<(), String> {
    let done = match spec {
        Some(spec) => ctx.ban(spec),
        None => Err("Null argument".to_owned()),
    };
    if let Err(reason) = &done {
        ctx.log().putf(Tag::VclError, format_args!("ban(): {reason}"));
    }
    done
}

/// Random numbers where nobody needs to foresee or repeat them.
mod dice {
    use std::cell::Cell;
    use std::hash::{BuildHasher, RandomState};

    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0u8) | 1);
    }

    /// A step of xorshift64*: spreads load, protects nothing.
    pub(super) fn roll() -> f64 {
        let mut x = STATE.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        STATE.set(x);
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum StoreProperty {
    FreeSpace,
    UsedSpace,
    Happy,
}

/// Values that modules keep for the life of something: one value per type and key. Dropped in the order they were made.
#[derive(Default)]
pub struct Privates(Vec<(TypeId, usize, Box<dyn Any>)>);

impl std::fmt::Debug for Privates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Privates({})", self.0.len())
    }
}

impl Privates {
    /// The value of that type, made when there is none. Modules with one value per object use [`Privates::keyed`].
    pub fn get<T: Default + 'static>(&mut self) -> &mut T {
        self.keyed(0, T::default)
    }

    /// The value of that type for `key` (the address of an object, for example), made when there is none.
    pub fn keyed<T: 'static>(&mut self, key: usize, make: impl FnOnce() -> T) -> &mut T {
        let id = TypeId::of::<T>();
        let at = match self.0.iter().position(|(t, k, _)| (*t, *k) == (id, key)) {
            Some(at) => at,
            None => {
                self.0.push((id, key, Box::new(make())));
                self.0.len() - 1
            }
        };
        self.0[at].2.downcast_mut().expect("found by its type")
    }

    /// The value of the type `id` for `key`, when there is one.
    pub fn peek(&self, id: TypeId, key: usize) -> Option<&dyn Any> {
        self.0.iter().find(|(t, k, _)| (*t, *k) == (id, key)).map(|(_, _, value)| &**value)
    }

    /// The value of that type for `key`, when there is one.
    pub fn find<T: 'static>(&mut self, key: usize) -> Option<&mut T> {
        let id = TypeId::of::<T>();
        self.0.iter_mut().find(|(t, k, _)| (*t, *k) == (id, key)).and_then(|(_, _, v)| v.downcast_mut())
    }

    /// True if nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops everything; capacity stays.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
