// SPDX-License-Identifier: BSD-2-Clause
//! VCL's types as types of Rust, and which values of Rust each takes and gives: a function whose body takes or gives anything
//! else than its signature says doesn't compile.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::slice::Iter;
use std::sync::Arc;
use std::time::Duration;

use backend::Director;
use tables::vclvars::{HeadId, Type};
use tables::vmods::VmodArg;
use vcl_regex::Regex;

use super::{ReturnValue, Returned, VmodObject};
use crate::acl::Acl;
use crate::ctx::{VclFailure, VclWait};
use crate::value::{BackendRef, Blob, Text, Value};

/// A type of VCL.
pub trait VclType {
    /// The type in VCL.
    const TYPE: Type;
    /// The words of an `ENUM`.
    const WORDS: &'static [&'static str] = &[];
}

macro_rules! kinds {
    ($($kind:ident = $ty:ident),*) => { $(
        #[doc = concat!("`", stringify!($kind), "`")]
        #[derive(Debug)]
        #[allow(clippy::upper_case_acronyms)]
        pub enum $kind {}

        impl VclType for $kind {
            const TYPE: Type = Type::$ty;
        }
    )* };
}

kinds!(
    VOID = Void,
    BOOL = Bool,
    INT = Int,
    BYTES = Bytes,
    REAL = Real,
    DURATION = Duration,
    TIME = Time,
    STRING = String,
    STRANDS = Strands,
    IP = Ip,
    BLOB = Blob,
    BACKEND = Backend,
    HEADER = Header,
    HTTP = Http,
    REGEX = Regex,
    ACL = Acl,
    STEVEDORE = Stevedore,
    PROBE = Probe,
    SUB = Sub
);

/// `[STRING]`: an argument that may be left out, and whose function sees that it was.
#[derive(Debug)]
pub struct OptionalArg<K>(PhantomData<K>);

/// Rust types that a body may take for an argument of the kind `K`.
pub trait TakeArg<'a, K>: Sized {
    /// From the value that the machine has, which the compiler has made one of this kind.
    fn take(value: &'a Value) -> Self;
}

/// The compiler gave a value that the signature forbids: a bug of ours.
#[cold]
pub fn forbidden(value: Option<&Value>) -> ! {
    panic!("an argument is {value:?}, which its signature forbids")
}

/// Takes the next argument.
#[inline]
pub fn next<'a, K, T: TakeArg<'a, K>>(values: &mut Iter<'a, Value>) -> T {
    match values.next() {
        Some(value) => T::take(value),
        None => forbidden(None),
    }
}

macro_rules! takes {
    ($($kind:ident as $ty:ty: $pattern:pat => $taken:expr;)*) => { $(
        impl<'a> TakeArg<'a, $kind> for $ty {
            #[inline]
            fn take(value: &'a Value) -> Self {
                match value {
                    $pattern => $taken,
                    other => forbidden(Some(other)),
                }
            }
        }
    )* };
}

takes! {
    BOOL as bool: Value::Bool(value) => *value;
    INT as i64: Value::Int(value) => *value;
    BYTES as i64: Value::Bytes(value) => *value;
    REAL as f64: Value::Real(value) => *value;
    DURATION as f64: Value::Duration(value) => *value;
    TIME as f64: Value::Time(value) => *value;
    DURATION as Duration: Value::Duration(value) => Duration::try_from_secs_f64(*value).unwrap_or(Duration::ZERO);
    HEADER as (HeadId, &'a Text): Value::Header(head, name) => (*head, name);
    HTTP as HeadId: Value::Http(head) => *head;
    REGEX as &'a Arc<Regex>: Value::Regex(regex) => regex;
    SUB as u32: Value::Sub(index) => *index;
}

/// Kinds whose value may be unset. Where `null` is the default, one that is left out comes as [`Value::Absent`].
macro_rules! may_be_unset {
    ($($kind:ident as $ty:ty: $variant:ident($value:ident) => $taken:expr;)*) => { $(
        impl<'a> TakeArg<'a, $kind> for Option<$ty> {
            #[inline]
            fn take(value: &'a Value) -> Self {
                match value {
                    Value::$variant($value) => $taken,
                    Value::Absent => None,
                    other => forbidden(Some(other)),
                }
            }
        }

        /// Left out counts as unset.
        impl<'a> TakeArg<'a, OptionalArg<$kind>> for Option<$ty> {
            #[inline]
            fn take(value: &'a Value) -> Self {
                <Self as TakeArg<'a, $kind>>::take(value)
            }
        }
    )* };
}

may_be_unset! {
    STRING as &'a Text: String(value) => value.as_ref();
    STRANDS as &'a Text: String(value) => value.as_ref();
    IP as SocketAddr: Ip(value) => *value;
    BLOB as &'a Blob: Blob(value) => value.as_ref();
    BACKEND as &'a BackendRef: Backend(value) => value.as_ref();
    STEVEDORE as &'a Text: Stevedore(value) => value.as_ref();
    PROBE as u32: Probe(value) => *value;
}

impl<'a> TakeArg<'a, ACL> for Option<&'a Arc<Acl>> {
    #[inline]
    fn take(value: &'a Value) -> Self {
        match value {
            Value::Acl(acl) => Some(acl),
            Value::Absent => None,
            other => forbidden(Some(other)),
        }
    }
}

/// Kinds that are taken as bytes; unset is empty.
macro_rules! as_bytes {
    ($($kind:ty),*) => { $(
        impl<'a> TakeArg<'a, $kind> for &'a [u8] {
            #[inline]
            fn take(value: &'a Value) -> Self {
                <Option<&'a Text> as TakeArg<'a, $kind>>::take(value).map_or(b"", |text| text.as_bytes())
            }
        }
    )* };
}

as_bytes!(STRING, STRANDS, OptionalArg<STRING>, OptionalArg<STRANDS>);

impl<'a, K, T: TakeArg<'a, K>> TakeArg<'a, OptionalArg<K>> for Option<T> {
    #[inline]
    fn take(value: &'a Value) -> Self {
        if matches!(value, Value::Absent) { None } else { Some(T::take(value)) }
    }
}

/// A value that a body may give for a result of the kind `K`.
pub trait Plain<K> {
    /// The value for the machine.
    fn value(self) -> Value;
}

/// Results that a body may give for the kind `K`: a plain value, one that comes later, or a failure of VCL.
pub trait Give<K> {
    /// The result for the machine.
    ///
    /// # Errors
    /// VCL fails.
    fn give(self) -> Returned;
}

macro_rules! gives {
    ($($kind:ident as $ty:ty: $value:ident => $given:expr;)*) => { $(
        impl Plain<$kind> for $ty {
            #[inline]
            fn value(self) -> Value {
                let $value = self;
                $given
            }
        }

        impl Give<$kind> for $ty {
            #[inline]
            fn give(self) -> Returned {
                Ok(ReturnValue::Value(Plain::<$kind>::value(self)))
            }
        }
    )* };
}

gives! {
    VOID as (): _value => Value::Void;
    BOOL as bool: value => Value::Bool(value);
    INT as i64: value => Value::Int(value);
    BYTES as i64: value => Value::Bytes(value);
    REAL as f64: value => Value::Real(value);
    DURATION as f64: value => Value::Duration(value);
    TIME as f64: value => Value::Time(value);
    STRING as Option<Text>: value => Value::String(value);
    STRING as Text: value => Value::String(Some(value));
    STRING as Option<String>: value => Value::String(value.map(Text::from));
    STRING as String: value => Value::text(value);
    STRING as Option<Vec<u8>>: value => Value::String(value.map(Text::from));
    STRING as Vec<u8>: value => Value::text(value);
    STRING as Option<&[u8]>: value => Value::String(value.map(Text::copy));
    STRING as &[u8]: value => Value::text(value);
    STRING as Option<&str>: value => Value::String(value.map(Text::from));
    STRING as &str: value => Value::text(value);
    IP as Option<SocketAddr>: value => Value::Ip(value);
    IP as SocketAddr: value => Value::Ip(Some(value));
    BLOB as Option<Blob>: value => Value::Blob(value);
    BLOB as Blob: value => Value::Blob(Some(value));
    BLOB as Vec<u8>: value => Value::Blob(Some(Blob::new(value)));
    BACKEND as Option<BackendRef>: value => Value::Backend(value);
    BACKEND as BackendRef: value => Value::Backend(Some(value));
    HEADER as (HeadId, Text): value => Value::Header(value.0, value.1);
    HTTP as HeadId: value => Value::Http(value);
    STEVEDORE as Option<Text>: value => Value::Stevedore(value);
}

impl<T: Director + 'static> Plain<BACKEND> for Arc<T> {
    #[inline]
    fn value(self) -> Value {
        Value::Backend(Some(self))
    }
}

impl<T: Director + 'static> Give<BACKEND> for Arc<T> {
    #[inline]
    fn give(self) -> Returned {
        Ok(ReturnValue::Value(Plain::<BACKEND>::value(self)))
    }
}

impl<K, T: Give<K>> Give<K> for Result<T, VclFailure> {
    #[inline]
    fn give(self) -> Returned {
        self?.give()
    }
}

/// A result of the kind `K`, now or later: for bodies that may have to wait.
pub struct Answered<K>(ReturnValue, PhantomData<K>);

/// Result of such a body.
pub type CallResult<K> = Result<Answered<K>, VclFailure>;

impl<K> Give<K> for Answered<K> {
    #[inline]
    fn give(self) -> Returned {
        Ok(self.0)
    }
}

/// A value now.
///
/// # Errors
/// None: it is a body's result.
#[inline]
pub fn give<K, T: Plain<K>>(value: T) -> CallResult<K> {
    Ok(Answered(ReturnValue::Value(value.value()), PhantomData))
}

/// A value later. The future must not borrow from the transaction.
///
/// # Errors
/// None: it is a body's result.
pub fn wait<K, T: Plain<K>>(future: impl Future<Output = Result<T, VclFailure>> + 'static) -> CallResult<K> {
    let boxed: VclWait<Result<Value, VclFailure>> = Box::pin(async { future.await.map(Plain::<K>::value) });
    Ok(Answered(ReturnValue::Wait(boxed), PhantomData))
}

/// The result that a body gave.
///
/// # Errors
/// VCL fails.
#[inline]
pub fn outcome<K, T: Give<K>>(given: T) -> Returned {
    given.give()
}

/// The object that a constructor made.
///
/// # Errors
/// VCL fails.
pub fn made<T: Send + Sync + 'static>(made: Result<T, VclFailure>) -> Result<VmodObject, VclFailure> {
    Ok(Arc::new(made?))
}

/// The object of a method.
#[inline]
pub fn this<T: 'static>(object: &VmodObject) -> &T {
    object.downcast_ref().expect("the constructor of its class made it")
}

/// A list of arguments as a struct, see [`vmod_args!`](crate::vmod_args).
pub trait ArgList<'a>: Sized {
    /// Signature of the list.
    const ARGS: &'static [VmodArg];

    /// Takes the list from the machine's values.
    fn take(values: &'a [Value]) -> Self;
}

/// An `ENUM`, see [`words!`](crate::words).
pub trait EnumWords: VclType {
    /// The word in VCL.
    fn word(self) -> &'static str;
}

/// A doc comment as a text.
pub const fn doc(comment: &'static str) -> &'static str {
    comment.trim_ascii_start()
}

/// A name without the mark of a raw identifier.
pub const fn name(ident: &'static str) -> &'static str {
    match ident.as_bytes() {
        [b'r', b'#', ..] => ident.split_at(2).1,
        _ => ident,
    }
}
