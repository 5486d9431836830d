// SPDX-License-Identifier: BSD-2-Clause
//! Constants of a program. Texts, names of headers and patterns are stored once each.

use std::collections::HashMap;

#[derive(Debug, Clone, Default)]
pub struct Constants {
    pub strings: Vec<Box<[u8]>>,
    /// Names of headers, as first written.
    pub headers: Vec<Box<[u8]>>,
    /// INT and BYTES constants.
    pub ints: Vec<i64>,
    /// REAL, DURATION and TIME constants.
    pub reals: Vec<f64>,
    /// Words of ENUM arguments, in the signatures' spelling.
    pub words: Vec<&'static str>,
    pub blobs: Vec<Box<[u8]>>,
    pub regexes: Vec<Box<[u8]>>,
}

/// The constants of a program that is being compiled.
#[derive(Debug, Default)]
pub(crate) struct ConstantPool {
    all: Constants,
    strings: HashMap<Box<[u8]>, u32>,
    headers: HashMap<Vec<u8>, u16>,
    regexes: HashMap<Box<[u8]>, u32>,
}

impl ConstantPool {
    pub fn finish(self) -> Constants {
        self.all
    }

    pub fn string(&mut self, bytes: &[u8]) -> u32 {
        if let Some(index) = self.strings.get(bytes) {
            return *index;
        }
        let index = push(&mut self.all.strings, bytes.into());
        self.strings.insert(bytes.into(), index);
        index
    }

    pub fn text(&self, string: u32) -> &[u8] {
        &self.all.strings[string as usize]
    }

    pub fn real(&mut self, value: f64) -> u32 {
        push(&mut self.all.reals, value)
    }

    pub fn int(&mut self, value: i64) -> u32 {
        push(&mut self.all.ints, value)
    }

    pub fn int_at(&self, index: u32) -> i64 {
        self.all.ints[index as usize]
    }

    pub fn word(&mut self, word: &'static str) -> u32 {
        push(&mut self.all.words, word)
    }

    /// The index of a header's name; `None` if there are too many.
    pub fn header(&mut self, name: &[u8]) -> Option<u16> {
        if let Some(index) = self.headers.get(name) {
            return Some(*index);
        }
        let index = u16::try_from(self.all.headers.len()).ok()?;
        self.all.headers.push(name.into());
        self.headers.insert(name.to_vec(), index);
        Some(index)
    }

    pub fn header_name(&self, header: u16) -> &[u8] {
        &self.all.headers[header as usize]
    }

    pub fn known_regex(&self, pattern: &[u8]) -> Option<u32> {
        self.regexes.get(pattern).copied()
    }

    pub fn regex(&mut self, pattern: &[u8]) -> u32 {
        let index = push(&mut self.all.regexes, pattern.into());
        self.regexes.insert(pattern.into(), index);
        index
    }

    pub fn pattern(&self, regex: u32) -> &[u8] {
        &self.all.regexes[regex as usize]
    }

    pub fn blob(&self, index: usize) -> &[u8] {
        &self.all.blobs[index]
    }

    pub fn blobs(&mut self) -> &mut Vec<Box<[u8]>> {
        &mut self.all.blobs
    }
}

fn push<T>(list: &mut Vec<T>, value: T) -> u32 {
    list.push(value);
    list.len() as u32 - 1
}
