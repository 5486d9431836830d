// SPDX-License-Identifier: BSD-2-Clause
//! vmod_str(3) of varnish-modules: texts as bytes.

use std::collections::HashSet;

use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Text, Value};

use crate::args::{Args, give};

/// vmod_str(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "str",
    classes: &[],
    functions: &[
        ("count", |_, args| give(Value::Int(Args(args).text(0).map_or(-1, |text| text.len() as i64)))),
        ("len", |_, args| give(Value::Int(Args(args).bytes_of(0).len() as i64))),
        ("substr", cut),
        ("startswith", |_, args| both(args, |a, b| a.starts_with(b))),
        ("endswith", |_, args| both(args, |a, b| a.ends_with(b))),
        ("contains", |_, args| both(args, |a, b| memchr::memmem::find(a, b).is_some())),
        ("take", cut),
        ("reverse", |_, args| {
            let reversed = |text: &Text| text.iter().rev().copied().collect::<Vec<u8>>();
            give(Value::String(Args(args).text(0).map(reversed).map(Text::from)))
        }),
        ("split", |_, args| {
            let args = Args(args);
            let texts = args.text(0).zip(args.text(2));
            let word = texts.and_then(|(text, separators)| word(text, args.int(1), separators));
            give(Value::String(word.map(Text::copy)))
        }),
        ("token_intersect", |_, args| {
            let args = Args(args);
            let separators = args.text(2).map_or(&b" ,"[..], |text| text);
            let tokens =
                |at: usize| args.text(at).map_or(&b""[..], |text| text).split(|byte| separators.contains(byte));
            let known: HashSet<&[u8]> = tokens(1).filter(|token| !token.is_empty()).collect();
            give(Value::Bool(tokens(0).any(|token| known.contains(token))))
        }),
    ],
};

fn cut(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    give(Value::String(args.text(0).map(|text| Text::copy(take(text, args.int(1), args.int(2))))))
}

fn both(args: &[Value], test: impl Fn(&[u8], &[u8]) -> bool) -> CallResult {
    let (a, b) = (Args(args).text(0), Args(args).text(1));
    give(Value::Bool(a.zip(b).is_some_and(|(a, b)| test(a, b))))
}

/// What of the text lies between `offset` and `n` bytes on (or back).
fn take(text: &[u8], n: i64, offset: i64) -> &[u8] {
    let len = text.len() as i64;
    // Left of the beginning is the end.
    let offset = if offset < 0 || offset == 0 && n < 0 { offset.saturating_add(len) } else { offset };
    let other = offset.saturating_add(n);
    let (begin, end) = (offset.min(other).clamp(0, len), offset.max(other).clamp(0, len));
    &text[begin as usize..end as usize]
}

fn word<'t>(text: &'t [u8], n: i64, separators: &[u8]) -> Option<&'t [u8]> {
    let mut words = text.split(|byte| separators.contains(byte)).filter(|word| !word.is_empty());
    let steps = usize::try_from(n.unsigned_abs()).ok()?.checked_sub(1)?;
    if n > 0 { words.nth(steps) } else { words.rev().nth(steps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_as_varnish_modules_does() {
        let all =
            [(3, 0), (10, 0), (3, 2), (3, -2), (-3, -2), (-3, 0), (-3, 4), (-9, 4), (3, 9), (3, -9), (0, 2), (12, -9)];
        let taken = all.map(|(n, offset)| String::from_utf8_lossy(take(b"abcdef", n, offset)).into_owned());
        assert_eq!(taken, ["abc", "abcdef", "cde", "ef", "bcd", "def", "bcd", "abcd", "", "", "", "abcdef"]);
        assert_eq!(take(b"abc", i64::MAX, 1), b"bc");
        assert_eq!(take(b"abc", i64::MIN, i64::MIN), b"");
    }

    #[test]
    fn words_from_both_ends() {
        assert_eq!([1, 2, -1, -2].map(|n| word(b" a\tb  c ", n, b" \t")), [&b"a"[..], b"b", b"c", b"b"].map(Some));
        assert_eq!([0, 4, -4, i64::MIN].map(|n| word(b"a b c", n, b" ")), [None; 4]);
        assert_eq!(word(b"abc", 1, b""), Some(&b"abc"[..]));
    }
}
