// SPDX-License-Identifier: BSD-2-Clause
//! The encodings of vmod_blob(3): base64 in four alphabets (RFC 4648 sections 4 and 5), hex, percent-encoding (RFC
//! 3986 section 2.1), identity.

use base::hex;

/// The code in which bytes are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteEncoding {
    /// Bytes as they are.
    Identity,
    /// Base64 in that alphabet.
    Base64(&'static Alphabet),
    /// Two digits a byte.
    Hex,
    /// The percent-encoding of URLs.
    Url,
}

/// A variant of base64.
#[derive(PartialEq, Eq, Debug)]
pub struct Alphabet {
    last: [u8; 2],
    pad: Option<u8>,
}

const STANDARD: Alphabet = Alphabet { last: *b"+/", pad: Some(b'=') };
const URL: Alphabet = Alphabet { last: *b"-_", pad: Some(b'=') };
const URL_NO_PAD: Alphabet = Alphabet { last: *b"-_", pad: None };
/// The alphabet of Amazon CloudFront.
const CLOUDFRONT: Alphabet = Alphabet { last: *b"-~", pad: Some(b'_') };

impl Alphabet {
    fn digit(&self, value: u32) -> u8 {
        match (value & 63) as u8 {
            v @ 0..26 => b'A' + v,
            v @ 26..52 => b'a' + v - 26,
            v @ 52..62 => b'0' + v - 52,
            v => self.last[v as usize - 62],
        }
    }

    fn value(&self, digit: u8) -> Option<u32> {
        Some(
            match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                d if d == self.last[0] => 62,
                d if d == self.last[1] => 63,
                _ => return None,
            }
            .into(),
        )
    }
}

impl ByteEncoding {
    /// The code for the word in VCL.
    pub fn parse(word: &str) -> ByteEncoding {
        match word {
            "IDENTITY" => ByteEncoding::Identity,
            "BASE64" => ByteEncoding::Base64(&STANDARD),
            "BASE64URL" => ByteEncoding::Base64(&URL),
            "BASE64URLNOPAD" => ByteEncoding::Base64(&URL_NO_PAD),
            "BASE64CF" => ByteEncoding::Base64(&CLOUDFRONT),
            "HEX" => ByteEncoding::Hex,
            "URL" => ByteEncoding::Url,
            other => panic!("no encoding {other} in the signature"),
        }
    }

    /// True if upper and lower case are a choice.
    pub fn has_case(self) -> bool {
        matches!(self, ByteEncoding::Hex | ByteEncoding::Url)
    }

    /// The bytes as text; `upper`: digits of hex in capitals.
    pub fn encode(self, bytes: &[u8], upper: bool) -> Vec<u8> {
        match self {
            ByteEncoding::Identity => bytes.to_vec(),
            ByteEncoding::Base64(alphabet) => encode_base64(alphabet, bytes),
            ByteEncoding::Hex => bytes.iter().flat_map(|&b| digits_of(b, upper)).collect(),
            ByteEncoding::Url => {
                let mut out = Vec::with_capacity(bytes.len());
                for &b in bytes {
                    if b.is_ascii_alphanumeric() || b"-._~".contains(&b) {
                        out.push(b);
                    } else {
                        out.push(b'%');
                        out.extend(digits_of(b, upper));
                    }
                }
                out
            }
        }
    }

    /// `None`: not this encoding. `most` bytes of the text count; of hex the whole text must be right.
    pub fn decode(self, text: &[u8], most: Option<usize>) -> Option<Vec<u8>> {
        let cut = &text[..most.map_or(text.len(), |most| most.min(text.len()))];
        match self {
            ByteEncoding::Identity => Some(cut.to_vec()),
            ByteEncoding::Base64(alphabet) => decode_base64(alphabet, cut),
            ByteEncoding::Hex => text.iter().all(u8::is_ascii_hexdigit).then(|| decode_hex(cut)),
            ByteEncoding::Url => hex::unescape(cut, b'%'),
        }
    }
}

fn digits_of(byte: u8, upper: bool) -> [u8; 2] {
    let digit = |nibble: u8| hex::DIGITS[usize::from(nibble)];
    let digits = [digit(byte >> 4), digit(byte & 15)];
    if upper { digits.map(|digit| digit.to_ascii_uppercase()) } else { digits }
}

fn encode_base64(alphabet: &Alphabet, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, &b| word << 8 | u32::from(b)) << (8 * (3 - chunk.len()));
        out.extend((0..=chunk.len()).map(|i| alphabet.digit(word >> (18 - 6 * i))));
        out.extend(alphabet.pad.into_iter().flat_map(|pad| std::iter::repeat_n(pad, 3 - chunk.len())));
    }
    out
}

/// Padding may be missing, but nothing may follow it; a last digit alone makes no byte and is wrong.
fn decode_base64(alphabet: &Alphabet, text: &[u8]) -> Option<Vec<u8>> {
    let digits = match alphabet.pad {
        Some(pad) => {
            let len = text.iter().position(|&b| b == pad).unwrap_or(text.len());
            let pads = &text[len..];
            let fits =
                pads.iter().all(|&b| b == pad) && (pads.is_empty() || (len % 4 > 1 && len % 4 + pads.len() <= 4));
            fits.then_some(&text[..len])?
        }
        None => text,
    };
    if digits.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for chunk in digits.chunks(4) {
        let word = chunk.iter().try_fold(0u32, |word, &digit| Some(word << 6 | alphabet.value(digit)?))?;
        let word = word << (6 * (4 - chunk.len()));
        out.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    Some(out)
}

/// An odd number of digits has a zero before it.
fn decode_hex(text: &[u8]) -> Vec<u8> {
    let digit = |b: u8| hex::digit(b).unwrap_or_default();
    let (odd, rest) = text.split_at(text.len() % 2);
    let pairs = rest.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1]));
    odd.iter().map(|&b| digit(b)).chain(pairs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 7] = ["IDENTITY", "BASE64", "BASE64URL", "BASE64URLNOPAD", "BASE64CF", "HEX", "URL"];

    fn check(word: &str, plain: &[u8], text: &str) {
        assert_eq!(String::from_utf8_lossy(&ByteEncoding::parse(word).encode(plain, false)), text, "{word}");
        assert_eq!(ByteEncoding::parse(word).decode(text.as_bytes(), None).as_deref(), Some(plain), "{word} {text}");
    }

    fn wrong(word: &str, text: &str) {
        assert_eq!(ByteEncoding::parse(word).decode(text.as_bytes(), None), None, "{word} {text}");
    }

    #[test]
    fn examples() {
        for (plain, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            check("BASE64", plain.as_bytes(), text);
        }
        check("BASE64", b"\xfb\xff\xfe", "+//+");
        check("BASE64URL", b"\xfb\xff\xfe\xff", "-__-_w==");
        check("BASE64URLNOPAD", b"\xfb\xff\xfe\xff", "-__-_w");
        check("BASE64CF", b"\xfb\xff\xfe\xff", "-~~-~w__");
        check("HEX", b"\x01\xab", "01ab");
        check("URL", b"a b/\xff~", "a%20b%2f%ff~");
        assert_eq!(ByteEncoding::Url.encode(b"/", true), b"%2F");
    }

    #[test]
    fn tolerance_and_errors() {
        assert_eq!(ByteEncoding::parse("BASE64").decode(b"Zg", None), Some(b"f".to_vec()));
        assert_eq!(ByteEncoding::parse("BASE64").decode(b"Zg=", None), Some(b"f".to_vec()));
        assert_eq!(ByteEncoding::Hex.decode(b"f00", None), Some(vec![0x0f, 0x00]));
        assert_eq!(ByteEncoding::Hex.decode(b"F00d", Some(3)), Some(vec![0x0f, 0x00]));
        assert_eq!(ByteEncoding::Url.decode(b"%2F%2f", Some(3)), Some(b"/".to_vec()));
        assert_eq!(ByteEncoding::Identity.decode(b"abc", Some(9)), Some(b"abc".to_vec()));
        ["Z", "Zg=a", "Zm9v=", "====", "Z===", "-_", "Zg==Zg=="].into_iter().for_each(|text| wrong("BASE64", text));
        wrong("BASE64URLNOPAD", "Zg==");
        wrong("HEX", "0g");
        ["%", "%2", "%g0", "a%0"].into_iter().for_each(|text| wrong("URL", text));
        assert_eq!(ByteEncoding::Hex.decode(b"00zz", Some(2)), None);
    }

    proptest::proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40), upper: bool) {
            for word in WORDS {
                let text = ByteEncoding::parse(word).encode(&bytes, upper);
                proptest::prop_assert_eq!(ByteEncoding::parse(word).decode(&text, None), Some(bytes.clone()), "{}", word);
            }
        }

        #[test]
        fn any_text(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..20), most: u8) {
            for word in WORDS {
                ByteEncoding::parse(word).decode(&text, Some(most.into()));
            }
        }
    }
}
