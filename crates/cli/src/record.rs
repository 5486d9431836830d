// SPDX-License-Identifier: BSD-2-Clause
//! Records that one process writes for another: lines of a key and words, which are quoted as those of the CLI. A reader
//! refuses a line that it doesn't know and a word that it can't read: better nothing than half of it.
//!
//! [`record!`](crate::record!) declares a record with the keys of its fields, [`words!`](crate::words!) the order of the
//! words of a line. Writing, reading, and the descriptors that are named in it follow from that.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use base::clock::{Mono, Real};

use crate::client::quote;
use crate::words::split;

/// A value that takes a number of words in a line.
pub trait Line: Sized {
    fn put(&self, out: &mut Vec<Vec<u8>>);

    /// `None`: there are no such words.
    fn take(words: &mut Words<'_>) -> Option<Self>;

    /// Calls `each` with the number of each descriptor.
    fn descriptors(&self, _each: &mut dyn FnMut(i32)) {}
}

pub trait Record: Default {
    fn write(&self, out: &mut RecordWriter);

    /// Takes over a line if the key is one of its own. `None`: the words make no sense.
    fn take_line(&mut self, key: &[u8], words: &mut Words<'_>) -> Option<bool>;

    /// Calls `each` with the number of each descriptor.
    fn descriptors(&self, each: &mut dyn FnMut(i32));

    fn encode(&self) -> Vec<u8> {
        let mut out = RecordWriter(Vec::new());
        self.write(&mut out);
        out.0
    }

    /// # Errors
    /// The line that can't be read, printable.
    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut record = Self::default();
        for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            let taken = split(line).ok().and_then(|words| {
                let (key, values) = words.split_first()?;
                let mut values = Words(values.iter());
                let is_known = record.take_line(key, &mut values)?;
                (is_known && values.0.next().is_none()).then_some(())
            });
            taken.ok_or_else(|| line[..line.len().min(200)].escape_ascii().to_string())?;
        }
        Ok(record)
    }
}

pub struct RecordWriter(Vec<u8>);

impl RecordWriter {
    pub fn line(&mut self, key: &str, value: &impl Line) {
        let mut words = Vec::new();
        value.put(&mut words);
        self.0.extend_from_slice(key.as_bytes());
        for word in words {
            self.0.push(b' ');
            self.0.extend_from_slice(&quote(&word));
        }
        self.0.push(b'\n');
    }
}

/// The words of a line that nobody has taken yet.
pub struct Words<'a>(std::slice::Iter<'a, Vec<u8>>);

impl<'a> Words<'a> {
    pub fn word(&mut self) -> Option<&'a [u8]> {
        self.0.next().map(Vec::as_slice)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fd(pub i32);

impl Fd {
    pub fn of(open: &impl AsFd) -> Fd {
        Fd(open.as_fd().as_raw_fd())
    }
}

impl Line for Fd {
    fn put(&self, out: &mut Vec<Vec<u8>>) {
        self.0.put(out);
    }

    fn take(words: &mut Words<'_>) -> Option<Self> {
        i32::take(words).map(Fd)
    }

    fn descriptors(&self, each: &mut dyn FnMut(i32)) {
        each(self.0);
    }
}

/// Gives types the form of one word: how they are written, and read.
#[macro_export]
macro_rules! one_word {
    ($($type:ty: |$value:ident| $to:expr, |$word:ident| $from:expr;)*) => {
        $(impl $crate::record::Line for $type {
            fn put(&self, out: &mut Vec<Vec<u8>>) {
                let $value = self;
                out.push($to);
            }

            fn take(words: &mut $crate::record::Words<'_>) -> Option<Self> {
                let $word = words.word()?;
                $from
            }
        })*
    };
}

one_word! {
    u16: |n| n.to_string().into_bytes(), |word| number(word);
    u32: |n| n.to_string().into_bytes(), |word| number(word);
    u64: |n| n.to_string().into_bytes(), |word| number(word);
    i32: |n| n.to_string().into_bytes(), |word| number(word);
    bool: |on| vec![b'0' + u8::from(*on)], |word| match word {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    };
    String: |text| text.clone().into_bytes(), |word| String::from_utf8(word.to_vec()).ok();
    OsString: |text| text.as_bytes().to_vec(), |word| Some(OsString::from_vec(word.to_vec()));
    PathBuf: |path| path.as_os_str().as_bytes().to_vec(), |word| Some(OsString::from_vec(word.to_vec()).into());
    Vec<u8>: |bytes| bytes.clone(), |word| Some(word.to_vec());
    [u8; 32]: |key| key.to_vec(), |word| word.try_into().ok();
    Mono: |at| at.0.to_string().into_bytes(), |word| seconds(word).map(Mono);
    Real: |at| at.0.to_string().into_bytes(), |word| seconds(word).map(Real);
    // A time that is too long, or a beginning in the future, has a bound as well.
    Duration: |time| time.as_secs_f64().to_string().into_bytes(), |word| {
        seconds(word).map(|s| Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(Duration::MAX))
    };
}

fn number<N: std::str::FromStr>(word: &[u8]) -> Option<N> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn seconds(word: &[u8]) -> Option<f64> {
    number::<f64>(word).filter(|seconds| seconds.is_finite())
}

/// An empty word stands for none: the first word of a `T` isn't empty.
impl<T: Line> Line for Option<T> {
    fn put(&self, out: &mut Vec<Vec<u8>>) {
        match self {
            Some(value) => value.put(out),
            None => out.push(Vec::new()),
        }
    }

    fn take(words: &mut Words<'_>) -> Option<Self> {
        if words.0.as_slice().first()?.is_empty() {
            words.word();
            return Some(None);
        }
        T::take(words).map(Some)
    }

    fn descriptors(&self, each: &mut dyn FnMut(i32)) {
        self.iter().for_each(|value| value.descriptors(each));
    }
}

/// All words that are left. (A `Vec<u8>` is one word.)
impl<T: Line> Line for Vec<T> {
    fn put(&self, out: &mut Vec<Vec<u8>>) {
        self.iter().for_each(|value| value.put(out));
    }

    fn take(words: &mut Words<'_>) -> Option<Self> {
        let mut all = Vec::new();
        while !words.0.as_slice().is_empty() {
            all.push(T::take(words)?);
        }
        Some(all)
    }

    fn descriptors(&self, each: &mut dyn FnMut(i32)) {
        self.iter().for_each(|value| value.descriptors(each));
    }
}

impl<A: Line, B: Line> Line for (A, B) {
    fn put(&self, out: &mut Vec<Vec<u8>>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(words: &mut Words<'_>) -> Option<Self> {
        Some((A::take(words)?, B::take(words)?))
    }

    fn descriptors(&self, each: &mut dyn FnMut(i32)) {
        self.0.descriptors(each);
        self.1.descriptors(each);
    }
}

/// Gives a struct the form of a line: its fields, all of them, in the order of their words.
#[macro_export]
macro_rules! words {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::record::Line for $name {
            fn put(&self, out: &mut Vec<Vec<u8>>) {
                $($crate::record::Line::put(&self.$field, out);)*
            }

            fn take(words: &mut $crate::record::Words<'_>) -> Option<Self> {
                $(let $field = $crate::record::Line::take(words)?;)*
                Some($name { $($field),* })
            }

            fn descriptors(&self, each: &mut dyn FnMut(i32)) {
                $($crate::record::Line::descriptors(&self.$field, each);)*
            }
        }
    };
}

/// Declares a struct whose fields are lines. Before each field stands the number of its lines and the key: `one`, `maybe`
/// (an `Option`) or `each` (a `Vec`); `part` is another record.
#[macro_export]
macro_rules! record {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$about:meta])* $count:ident $($key:literal)? $field_vis:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$about])* $field_vis $field: $type,)*
        }

        impl $crate::record::Record for $name {
            fn write(&self, out: &mut $crate::record::RecordWriter) {
                $($crate::record!(@write $count $($key)? self.$field, out);)*
            }

            fn take_line(&mut self, key: &[u8], words: &mut $crate::record::Words<'_>) -> Option<bool> {
                $($crate::record!(@take $count $($key)? self.$field, key, words);)*
                Some(false)
            }

            fn descriptors(&self, each: &mut dyn FnMut(i32)) {
                $($crate::record!(@descriptors $count self.$field, each);)*
            }
        }
    };
    (@write one $key:literal $field:expr, $out:ident) => { $out.line($key, &$field) };
    (@write part $field:expr, $out:ident) => { $crate::record::Record::write(&$field, $out) };
    (@write $many:ident $key:literal $field:expr, $out:ident) => {
        $field.iter().for_each(|value| $out.line($key, value))
    };
    (@take part $field:expr, $their:ident, $words:ident) => {
        if $crate::record::Record::take_line(&mut $field, $their, $words)? {
            return Some(true);
        }
    };
    (@take $count:ident $key:literal $field:expr, $their:ident, $words:ident) => {
        if $their == $key.as_bytes() {
            $crate::record!(@value $count $field, $words);
            return Some(true);
        }
    };
    (@value one $field:expr, $words:ident) => { $field = $crate::record::Line::take($words)? };
    (@value maybe $field:expr, $words:ident) => { $field = Some($crate::record::Line::take($words)?) };
    (@value each $field:expr, $words:ident) => { $field.push($crate::record::Line::take($words)?) };
    (@descriptors part $field:expr, $each:ident) => { $crate::record::Record::descriptors(&$field, $each) };
    (@descriptors one $field:expr, $each:ident) => { $crate::record::Line::descriptors(&$field, $each) };
    (@descriptors $many:ident $field:expr, $each:ident) => {
        $field.iter().for_each(|value| $crate::record::Line::descriptors(value, $each))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Door {
        name: String,
        limit: Option<u32>,
        sockets: Vec<Fd>,
    }

    words!(Door { name, limit, sockets });

    record! {
        #[derive(Debug, Default, PartialEq)]
        struct Inner {
            maybe "lock" lock: Option<Fd>,
        }
    }

    record! {
        #[derive(Debug, Default, PartialEq)]
        struct House {
            one "args" args: Vec<OsString>,
            each "door" doors: Vec<Door>,
            one "age" age: Duration,
            part inner: Inner,
        }
    }

    fn house() -> House {
        House {
            args: vec!["a b".into(), OsString::from_vec(vec![b'"', 0xff, b'\n'])],
            doors: vec![
                Door { name: "a".into(), limit: None, sockets: vec![Fd(3), Fd(4)] },
                Door { limit: Some(7), ..Door::default() },
            ],
            age: Duration::from_millis(1500),
            inner: Inner { lock: Some(Fd(5)) },
        }
    }

    #[test]
    fn a_record_comes_back_with_its_descriptors() {
        let bytes = house().encode();
        let text =
            "args \"a b\" \"\\\"\u{fffd}\\n\"\ndoor \"a\" \"\" \"3\" \"4\"\ndoor \"\" \"7\"\nage \"1.5\"\nlock \"5\"\n";
        assert_eq!(String::from_utf8_lossy(&bytes), text);
        assert_eq!(House::decode(&bytes), Ok(house()));
        let mut numbers = Vec::new();
        house().descriptors(&mut |fd| numbers.push(fd));
        assert_eq!(numbers, [3, 4, 5]);
    }

    #[test]
    fn lines_that_are_unknown_or_make_no_sense_are_refused() {
        for line in ["new \"1\"", "lock", "lock \"x\"", "lock \"1\" \"2\"", "age \"inf\"", "door \"a\"", "lock \"1"] {
            assert!(House::decode(line.as_bytes()).is_err(), "{line}");
        }
        assert_eq!(House::decode(b"age \"-1\"\n").unwrap().age, Duration::ZERO);
        assert_eq!(House::decode(b"age \"1e300\"\n").unwrap().age, Duration::MAX);
    }
}
