// SPDX-License-Identifier: BSD-2-Clause
//! The Huffman code of HPACK and QPACK (RFC 7541 5.2, Appendix B).
//!
//! The code is canonical: codes of a length follow each other in the order of their symbols. So the lengths say it all, and both
//! tables are made of them when this is compiled.

/// Length of each symbol's code; the last is the end of string, which never stands in one.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];

const COUNT: usize = LENGTHS.len();
const EOS: u16 = 256;
const SHORTEST: usize = 5;
const MAX_BITS: usize = 30;
/// Codes of so many bits are found by one look.
const QUICK_BITS: u32 = 11;

/// The codes in order of their length, and within it of their symbol.
struct Code {
    codes: [u32; COUNT],
    symbols: [u16; COUNT],
    /// For each length: the first code, how many there are, and where in `symbols` the first of them is.
    lengths: [(u32, u32, u32); MAX_BITS + 1],
    /// For each beginning of [`QUICK_BITS`]: symbol and length, `0` where the code is longer.
    quick: [(u8, u8); 1 << QUICK_BITS],
}

static CODE: Code = Code::make();

impl Code {
    const fn make() -> Code {
        let mut made = Code {
            codes: [0; COUNT],
            symbols: [0; COUNT],
            lengths: [(0, 0, 0); MAX_BITS + 1],
            quick: [(0, 0); 1 << QUICK_BITS],
        };
        let (mut code, mut at, mut bits) = (0u32, 0, 1);
        while bits <= MAX_BITS {
            code <<= 1;
            made.lengths[bits] = (code, 0, at as u32);
            let mut symbol = 0;
            while symbol < COUNT {
                if LENGTHS[symbol] as usize == bits {
                    made.codes[symbol] = code;
                    made.symbols[at] = symbol as u16;
                    made.fill_quick(code, bits as u32, symbol as u8);
                    made.lengths[bits].1 += 1;
                    (code, at) = (code + 1, at + 1);
                }
                symbol += 1;
            }
            bits += 1;
        }
        assert!(at == COUNT && code == 1 << MAX_BITS, "the lengths are those of a complete code");
        made
    }

    const fn fill_quick(&mut self, code: u32, bits: u32, symbol: u8) {
        if bits > QUICK_BITS {
            return;
        }
        let spare = QUICK_BITS - bits;
        let mut i = code << spare;
        while i < (code + 1) << spare {
            self.quick[i as usize] = (symbol, bits as u8);
            i += 1;
        }
    }

    /// The symbol that the 32 bits begin with, when its code is a long one.
    fn long(&self, window: u32) -> Option<(u16, u32)> {
        for bits in QUICK_BITS + 1..=MAX_BITS as u32 {
            let (first, count, at) = self.lengths[bits as usize];
            let code = window >> (32 - bits);
            if code.wrapping_sub(first) < count {
                return Some((self.symbols[(at + code - first) as usize], bits));
            }
        }
        None
    }
}

/// Not what the code makes of any text: the end of string in it, or padding that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHuffman;

/// Appends what `input` is the code of: at most 8/5 of its length.
///
/// # Errors
/// [`BadHuffman`]; nothing is appended.
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), BadHuffman> {
    let begin = out.len();
    out.resize(begin + input.len() * 8 / SHORTEST + 1, 0);
    let decoded = Decoding { bits: 0, held: 0, rest: input, out: &mut out[begin..], len: 0 }.run();
    out.truncate(begin + decoded.unwrap_or(0));
    decoded.map(|_| ())
}

struct Decoding<'a> {
    /// The next bits, from the top; `held` of them count. Others may be there already, as they will come.
    bits: u64,
    held: u32,
    rest: &'a [u8],
    out: &'a mut [u8],
    len: usize,
}

impl Decoding<'_> {
    fn run(mut self) -> Result<usize, BadHuffman> {
        while let Some(eight) = self.rest.first_chunk::<8>() {
            self.bits |= u64::from_be_bytes(*eight) >> self.held;
            self.rest = &self.rest[((63 - self.held) / 8) as usize..];
            // At least 56 of them.
            self.held |= 56;
            if (0..56 / QUICK_BITS).all(|_| self.quick()) {
                continue;
            }
            if self.held >= MAX_BITS as u32 {
                self.long()?;
            }
        }
        // What is there beyond `held` comes again.
        self.bits &= !(u64::MAX >> self.held);
        loop {
            self.refill();
            if self.held < QUICK_BITS && self.rest.is_empty() {
                return self.end();
            }
            if !self.quick() {
                self.long()?;
            }
        }
    }

    #[inline]
    fn quick(&mut self) -> bool {
        let (symbol, length) = CODE.quick[(self.bits >> (64 - QUICK_BITS)) as usize];
        if length == 0 {
            return false;
        }
        self.put(symbol, u32::from(length));
        true
    }

    fn long(&mut self) -> Result<(), BadHuffman> {
        // No code begins so, or the input ends inside one: more than padding may be.
        let found = CODE.long((self.bits >> 32) as u32).filter(|&(_, length)| length <= self.held);
        let (symbol, length) = found.filter(|&(symbol, _)| symbol != EOS).ok_or(BadHuffman)?;
        self.put(symbol as u8, length);
        Ok(())
    }

    #[inline]
    fn put(&mut self, symbol: u8, length: u32) {
        self.out[self.len] = symbol;
        self.len += 1;
        (self.bits, self.held) = (self.bits << length, self.held - length);
    }

    fn refill(&mut self) {
        while self.held <= 56
            && let Some((&byte, after)) = self.rest.split_first()
        {
            self.bits |= u64::from(byte) << (56 - self.held);
            (self.held, self.rest) = (self.held + 8, after);
        }
    }

    /// The last few bits: short codes, and less than a byte of padding, all ones (RFC 7541 5.2).
    fn end(mut self) -> Result<usize, BadHuffman> {
        while self.held > 0 {
            let (symbol, length) = CODE.quick[(self.bits >> (64 - QUICK_BITS)) as usize];
            if length == 0 || u32::from(length) > self.held {
                break;
            }
            self.put(symbol, u32::from(length));
        }
        let padding = if self.held == 0 { 0 } else { !0u64 << (64 - self.held) };
        if self.held < 8 && self.bits & padding == padding { Ok(self.len) } else { Err(BadHuffman) }
    }
}

/// Bytes that [`encode`] makes of a text.
pub fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&c| usize::from(LENGTHS[usize::from(c)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of a text.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut held) = (0u64, 0u32);
    for &c in text {
        let length = u32::from(LENGTHS[usize::from(c)]);
        bits |= u64::from(CODE.codes[usize::from(c)]) << (64 - held - length);
        held += length;
        while held >= 8 {
            out.push((bits >> 56) as u8);
            (bits, held) = (bits << 8, held - 8);
        }
    }
    if held > 0 {
        out.push((bits >> 56) as u8 | 0xff >> held);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, code: &[u8]) {
        let mut out = Vec::new();
        encode(text.as_bytes(), &mut out);
        assert_eq!(out, code, "{text}");
        assert_eq!(encoded_len(text.as_bytes()), code.len());
        let mut back = Vec::new();
        decode(code, &mut back).unwrap();
        assert_eq!(back, text.as_bytes());
    }

    #[test]
    fn examples_of_the_rfc() {
        // RFC 7541 C.4, C.6
        check("www.example.com", &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]);
        check("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]);
        check("302", &[0x64, 0x02]);
        check("", &[]);
    }

    #[test]
    fn what_is_no_code() {
        let bad = |code: &[u8]| assert_eq!(decode(code, &mut Vec::new()), Err(BadHuffman), "{code:x?}");
        // A byte of padding, zeros as padding, the end of string.
        bad(&[0xff]);
        bad(&[0x64, 0x02, 0xff]);
        bad(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xb0]);
        bad(&[0xff, 0xff, 0xff, 0xff]);
        bad(&[0xff, 0xff, 0xff, 0xfc]);
        bad(&[0xff; 40]);
    }

    #[test]
    fn each_symbol_alone_and_cut() {
        for c in 0..=255u8 {
            let mut out = Vec::new();
            encode(&[c], &mut out);
            let mut back = Vec::new();
            assert_eq!((decode(&out, &mut back), &back[..]), (Ok(()), &[c][..]));
            for cut in 1..out.len() {
                assert_eq!(decode(&out[..cut], &mut Vec::new()), Err(BadHuffman), "{c} cut at {cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(text in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..80),
            "[ -~]{0,80}".prop_map(String::into_bytes),
        ]) {
            let (mut code, mut back) = (Vec::new(), Vec::new());
            encode(&text, &mut code);
            prop_assert_eq!(code.len(), encoded_len(&text));
            prop_assert_eq!(decode(&code, &mut back), Ok(()));
            prop_assert_eq!(back, text);
        }

        #[test]
        fn any_bytes(code in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut text = Vec::new();
            if decode(&code, &mut text).is_ok() {
                let mut again = Vec::new();
                encode(&text, &mut again);
                prop_assert_eq!(&again, &code);
            }
            prop_assert!(text.len() <= code.len() * 8 / 5);
        }
    }
}
