// SPDX-License-Identifier: BSD-2-Clause
//! Names and lines of addresses in the running program, from the debug information and the symbols in its own file (ELF, 64 bits). It reads
//! no other file, and no sections that are compressed.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use addr2line::gimli::{Dwarf, EndianSlice, NativeEndian};
use addr2line::{Context, demangle_auto};

/// The running program, whatever lies at its path by now.
const OWN_FILE: &str = "/proc/self/exe";
const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const SYMTAB: u32 = 2;
const DYNSYM: u32 = 11;
const COMPRESSED: u64 = 0x800;
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;

/// Sections of a program's file.
pub struct ProgramFile {
    debug: Vec<(String, Vec<u8>)>,
    symbols: Vec<Symbol>,
    names: Vec<u8>,
}

struct Symbol {
    address: u64,
    bytes: u64,
    name: usize,
}

#[derive(Clone, Copy)]
struct SectionHeader {
    name: usize,
    kind: u32,
    flags: u64,
    offset: u64,
    bytes: u64,
    link: usize,
}

impl ProgramFile {
    /// Reads the running program's file.
    pub fn own() -> io::Result<ProgramFile> {
        ProgramFile::read(&File::open(OWN_FILE)?)
    }

    fn read(file: &File) -> io::Result<ProgramFile> {
        let (sections, texts) = section_headers(file)?;
        let mut read = ProgramFile { debug: Vec::new(), symbols: Vec::new(), names: Vec::new() };
        for section in sections.iter().filter(|section| section.flags & COMPRESSED == 0) {
            let name = text(&texts, section.name);
            if name.starts_with(".debug_") {
                read.debug.push((name.into_owned(), section.data(file)?));
            }
        }
        let of_kind = |kind| sections.iter().find(|section| section.kind == kind && section.bytes > 0);
        if let Some(symbols) = of_kind(SYMTAB).or_else(|| of_kind(DYNSYM)) {
            read.names = sections.get(symbols.link).map(|names| names.data(file)).transpose()?.unwrap_or_default();
            read.symbols = symbols.data(file)?.chunks_exact(SYMBOL_BYTES).filter_map(Symbol::read).collect();
            read.symbols.sort_unstable_by_key(|symbol| symbol.address);
        }
        Ok(read)
    }

    fn section(&self, name: &str) -> &[u8] {
        self.debug.iter().find(|(own, _)| own == name).map_or(&[], |(_, data)| data)
    }

    fn symbol(&self, address: u64) -> Option<Cow<'_, str>> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = &self.symbols[behind.checked_sub(1)?];
        (address - symbol.address <= symbol.bytes).then(|| text(&self.names, symbol.name))
    }
}

impl SectionHeader {
    fn read(header: &[u8]) -> SectionHeader {
        SectionHeader {
            name: number(header, 0, 4) as usize,
            kind: number(header, 4, 4) as u32,
            flags: number(header, 8, 8),
            offset: number(header, 24, 8),
            bytes: number(header, 32, 8),
            link: number(header, 40, 4) as usize,
        }
    }

    fn data(&self, file: &File) -> io::Result<Vec<u8>> {
        bytes_at(file, self.offset, self.bytes)
    }
}

impl Symbol {
    /// A function or an object of this program; no others have an address in it.
    fn read(entry: &[u8]) -> Option<Symbol> {
        let is_defined = number(entry, 6, 2) != 0;
        let symbol =
            Symbol { address: number(entry, 8, 8), bytes: number(entry, 16, 8), name: number(entry, 0, 4) as usize };
        (is_defined && matches!(entry[4] & 0xf, OBJECT | FUNCTION)).then_some(symbol)
    }
}

/// The headers of all sections, and their names.
fn section_headers(file: &File) -> io::Result<(Vec<SectionHeader>, Vec<u8>)> {
    let header = bytes_at(file, 0, HEADER_BYTES as u64)?;
    let is_known = header.starts_with(b"\x7fELF\x02") && number(&header, 58, 2) as usize == SECTION_BYTES;
    if !is_known {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let all = bytes_at(file, number(&header, 40, 8), number(&header, 60, 2) * SECTION_BYTES as u64)?;
    let sections: Vec<_> = all.chunks_exact(SECTION_BYTES).map(SectionHeader::read).collect();
    let names = sections.get(number(&header, 62, 2) as usize).ok_or(io::ErrorKind::InvalidData)?.data(file)?;
    Ok((sections, names))
}

fn bytes_at(file: &File, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    if bytes > file.metadata()?.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut data = vec![0; bytes as usize];
    file.read_exact_at(&mut data, offset)?;
    Ok(data)
}

/// The number of so many bytes at `at`, which must lie within `bytes`.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut octets = [0; 8];
    octets[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(octets)
}

/// The text at `at`, up to its NUL.
fn text(texts: &[u8], at: usize) -> Cow<'_, str> {
    let rest = texts.get(at..).unwrap_or_default();
    String::from_utf8_lossy(rest.split(|octet| *octet == 0).next().unwrap_or_default())
}

/// The names of a program's addresses.
pub struct Symbols<'a> {
    file: &'a ProgramFile,
    lines: Option<Context<EndianSlice<'a, NativeEndian>>>,
}

impl<'a> Symbols<'a> {
    pub fn new(file: &'a ProgramFile) -> Symbols<'a> {
        let dwarf =
            Dwarf::load(|id| Ok::<_, addr2line::gimli::Error>(EndianSlice::new(file.section(id.name()), NativeEndian)));
        Symbols { file, lines: dwarf.and_then(Context::from_dwarf).ok() }
    }

    /// Writes the function that `address` is in, below it those that it was inlined into, and their lines as far as they
    /// are known. False if it is in none. Addresses count from the beginning of the program in memory.
    pub fn write(&self, address: u64, out: &mut String) -> bool {
        let before = out.len();
        let frames = self.lines.as_ref().and_then(|lines| lines.find_frames(address).skip_all_loads().ok());
        if let Some(mut frames) = frames {
            while let Ok(Some(frame)) = frames.next() {
                let name = match &frame.function {
                    Some(function) => function.demangle().ok().map(Cow::into_owned),
                    None => self.symbol(address),
                };
                let Some(name) = name else { continue };
                let indent = if out.len() > before { "      " } else { "" };
                // Writing to a String can't fail.
                let _ = writeln!(out, "{indent}{name}");
                if let Some(place) = frame.location
                    && let (Some(file), Some(line)) = (place.file, place.line)
                {
                    let column = place.column.map(|column| format!(":{column}")).unwrap_or_default();
                    let _ = writeln!(out, "             at {file}:{line}{column}");
                }
            }
        }
        if out.len() == before
            && let Some(name) = self.symbol(address)
        {
            let _ = writeln!(out, "{name}");
        }
        out.len() > before
    }

    fn symbol(&self, address: u64) -> Option<String> {
        self.file.symbol(address).map(|name| demangle_auto(name, None).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_of_this_test() -> u64 {
        // An address behind its first instruction, as return addresses are.
        a_function_of_this_test as fn() -> u64 as usize as u64 - sys::fault::load_address() as u64 + 1
    }

    #[test]
    fn a_function_has_its_name_and_line() {
        let file = ProgramFile::own().unwrap();
        let mut out = String::new();
        assert!(Symbols::new(&file).write(a_function_of_this_test(), &mut out));
        let (name, place) = out.trim_end().split_once("\n             at ").expect("a place");
        assert!(name.ends_with("symbols::tests::a_function_of_this_test"), "{out}");
        let (path, line) = place.rsplit_once("symbols.rs:").expect("a line");
        let line: u32 = line.split(':').next().unwrap().parse().unwrap();
        let at =
            include_str!("symbols.rs").lines().position(|line| line.contains("fn a_function_of_this_test")).unwrap();
        assert!((at as u32 + 1..at as u32 + 4).contains(&line), "{path} {line} {at}");
    }

    #[test]
    fn a_program_without_debug_information_has_names_alone() {
        let mut file = ProgramFile::own().unwrap();
        file.debug.clear();
        let mut out = String::new();
        assert!(Symbols::new(&file).write(a_function_of_this_test(), &mut out));
        assert!(out.ends_with("symbols::tests::a_function_of_this_test\n") && out.lines().count() == 1, "{out}");
        file.symbols.clear();
        out.clear();
        assert!(!Symbols::new(&file).write(a_function_of_this_test(), &mut out) && out.is_empty());
    }

    #[test]
    fn damaged_files_are_errors_or_have_no_names() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let of = |octets: &[u8]| {
            let mut file = sys::fd::memfd("lacquer test").unwrap();
            io::Write::write_all(&mut file, octets).unwrap();
            ProgramFile::read(&file)
        };
        assert!(of(b"").is_err() && of(b"#!/bin/sh\n").is_err() && of(&whole[..HEADER_BYTES]).is_err());
        // The number and place of the section headers, and which of them has the names.
        for (at, len) in [(40, 8), (60, 2), (62, 2)] {
            let mut header = whole[..HEADER_BYTES].to_vec();
            header[at..at + len].fill(0xff);
            assert!(of(&header).is_err(), "{at}");
        }
        let nowhere = Symbol { address: 1, bytes: 1, name: usize::MAX };
        let file = ProgramFile { debug: Vec::new(), symbols: vec![nowhere], names: vec![b'x'] };
        assert_eq!((file.symbol(0), file.symbol(1).as_deref(), file.symbol(3)), (None, Some(""), None));
    }
}
