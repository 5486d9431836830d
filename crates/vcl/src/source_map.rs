// SPDX-License-Identifier: BSD-2-Clause
//! The sources of a program, and the place of each op in them.

/// The origin of each op in the sources.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    /// The files that were read, in order; the first is the one compiled, the last the built-in VCL.
    pub sources: Vec<SourceInfo>,
    pub places: Vec<SourceLocation>,
    /// For each op, an index into `places`.
    pub op_places: Vec<u32>,
}

impl SourceMap {
    pub fn place(&self, pc: usize) -> Option<SourceLocation> {
        self.places.get(*self.op_places.get(pc)? as usize).copied()
    }

    pub fn source(&self, place: SourceLocation) -> Option<&SourceInfo> {
        self.sources.get(place.source as usize)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceLocation {
    /// An index into [`SourceMap::sources`].
    pub source: u32,
    pub line: u32,
    /// Column in bytes, from 1.
    pub pos: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceInfo {
    /// The file's name; `<vcl.inline>` for text given on the CLI, `<builtin>` for the built-in VCL.
    pub name: String,
    pub text: Vec<u8>,
}
