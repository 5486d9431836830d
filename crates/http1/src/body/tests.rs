// SPDX-License-Identifier: BSD-2-Clause
//! Facts about bodies.

use proptest::prelude::*;

use super::*;

/// Data and what was left over; `None`: incomplete.
type Decoded = Option<(Vec<u8>, Vec<u8>)>;

fn run(mut decoder: FramingDecoder, input: &[u8], step: usize) -> Result<Decoded, BodyError> {
    let (mut data, mut pending, mut fed) = (Vec::new(), Vec::new(), 0);
    loop {
        match decoder.decode(&pending)? {
            BodyStep::Data(range) => {
                data.extend_from_slice(&pending[range.clone()]);
                pending.drain(..range.end);
                continue;
            }
            BodyStep::End { consumed } => {
                assert!(decoder.is_complete());
                pending.drain(..consumed);
                pending.extend_from_slice(&input[fed..]);
                return Ok(Some((data, pending)));
            }
            BodyStep::More { consumed } => drop(pending.drain(..consumed)),
        }
        assert!(pending.is_empty(), "a decoder that wants more has taken all");
        if fed == input.len() {
            return Ok(None);
        }
        let end = (fed + step).min(input.len());
        pending.extend_from_slice(&input[fed..end]);
        fed = end;
    }
}

fn check(framing: Framing, lax: bool, input: &str, want: Result<Option<(&str, &str)>, BodyError>) {
    let decoder = FramingDecoder::new(framing, lax);
    let want = want.map(|w| w.map(|(data, rest)| (data.as_bytes().to_vec(), rest.as_bytes().to_vec())));
    for step in [1, 2, 3, 1000] {
        assert_eq!(run(decoder.clone(), input.as_bytes(), step), want, "{input:?} in steps of {step}");
    }
}

fn request(input: &str, want: Result<Option<(&str, &str)>, BodyError>) {
    check(Framing::Chunked, false, input, want);
}

fn response(input: &str, want: Result<Option<(&str, &str)>, BodyError>) {
    check(Framing::Chunked, true, input, want);
}

#[test]
fn what_is_behind_a_body_is_kept() {
    let trailers = |lax: bool, input: &str| {
        let mut decoder = FramingDecoder::new(Framing::Chunked, lax);
        for c in input.bytes() {
            decoder.decode(&[c]).unwrap();
        }
        let head = decoder.trailers(HeadLimits::default())?;
        Some(head.iter().map(|field| String::from_utf8(field.line().to_vec()).unwrap()).collect::<Vec<_>>())
    };
    assert_eq!(trailers(false, "0\r\n\r\n"), None);
    let two = Some(vec!["a: 1".to_owned(), "b:".to_owned()]);
    assert_eq!(trailers(false, "0\r\na: 1\r\nb:\r\n\r\n"), two);
    assert_eq!(trailers(true, "0\na: 1\nb:\n\n"), two);
    assert_eq!(trailers(false, "0\r\na: 1\r\n"), None, "not complete yet");
}

#[test]
fn bodies_of_known_length() {
    check(Framing::Length(5), false, "helloGET", Ok(Some(("hello", "GET"))));
    check(Framing::Length(5), false, "hell", Ok(None));
    check(Framing::None, false, "GET", Ok(Some(("", "GET"))));
}

#[test]
fn chunks() {
    request("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET", Ok(Some(("hello world", "GET"))));
    request("0005\r\nhello\r\n000\r\n\r\n", Ok(Some(("hello", ""))));
    request("5;a=b;c=\"d\\\"e\"\r\nhello\r\n0;x\r\n\r\n", Ok(Some(("hello", ""))));
    request("5 ;a\r\nhello\r\n0\r\nX-T: 1\r\nY:\r\n\r\nZ", Ok(Some(("hello", "Z"))));
    request("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r", Ok(None));
    request("7fffffffffffffff\r\nhello", Ok(None));
}

#[test]
fn broken_chunks_are_never_complete() {
    request("5\nhello\n0\n\n", Err(BodyError::BadSize));
    request("5\rhello", Err(BodyError::BadSize));
    request("5 \r\nhello", Err(BodyError::BadSize));
    request("-5\r\n", Err(BodyError::BadSize));
    request("0x5\r\n", Err(BodyError::BadSize));
    request("5g\r\n", Err(BodyError::BadSize));
    request("\r\n5\r\n", Err(BodyError::BadSize));
    request("5\r\nhello0\r\n", Err(BodyError::NoCrlf));
    request("5\r\nhello\n0\r\n", Err(BodyError::NoCrlf));
    request("5\r\nhelloXX\r\n", Err(BodyError::NoCrlf));
    request("FFFFFFFFFFFFFFED\r\n", Err(BodyError::SizeTooLarge));
    request("8000000000000000\r\n", Err(BodyError::SizeTooLarge));
    request("000000000000000000000005\r\n", Err(BodyError::SizeTooLong));
    request("5;a=\"\r\n\"\r\nhello", Err(BodyError::BadExtension));
    request("5;a\nhello", Err(BodyError::BadExtension));
    request("5;a\rhello", Err(BodyError::BadSize));
    request("0\r\nbad line\r\n\r\n", Err(BodyError::BadTrailer));
    request("0\r\n a: b\r\n\r\n", Err(BodyError::BadTrailer));
    request("0\r\n\nGET", Err(BodyError::BadTrailer));
    request("0\r\na: b\n\r\n", Err(BodyError::BadTrailer));
}

#[test]
fn extensions_keep_to_their_grammar() {
    for good in [
        ";a",
        ";a=b",
        ";a=\"\"",
        ";a=\"b;\tc\\\"\u{e9}\"",
        "  ;\ta",
        ";a = b",
        " ; a = \"b\" ; c",
        ";a;b;c=d",
        ";a=b ;c",
        ";a ;b",
    ] {
        request(&format!("5{good}\r\nhello\r\n0{good}\r\n\r\n"), Ok(Some(("hello", ""))));
        response(&format!("5{good}\r\nhello\r\n0{good}\r\n\r\n"), Ok(Some(("hello", ""))));
    }
    for bad in [
        ";",
        ";;a",
        ";a;",
        ";=b",
        ";a=",
        ";a=;b",
        ";a b",
        ";a=b c",
        ";a=\"b\"c",
        ";a=\"b",
        ";a=\"b\\\"",
        ";a=b=c",
        ";\"a\"",
        ";a ",
        ";a=b ",
        ";a=\"b\" ",
        ";a=b\0",
        ";a\u{7f}",
        ";\u{b}a",
        ";a=\"\0\"",
        ";a=\"\\\0\"",
        ";a,b",
        ";\u{e9}",
        ";a=\n",
    ] {
        request(&format!("5{bad}\r\nhello\r\n0\r\n\r\n"), Err(BodyError::BadExtension));
        request(&format!("5\r\nhello\r\n0{bad}\r\n\r\n"), Err(BodyError::BadExtension));
    }
    response("5;\r\nhello\r\n0; =\r\n\r\n", Ok(Some(("hello", ""))));
    response("5;a=\"\r\nhello\r\n0\r\n\r\n", Err(BodyError::BadExtension));
}

#[test]
fn trailers_of_a_request_say_nothing_about_its_framing() {
    for good in ["X: 1", "Content-Lengths: 5", "Content-Lengt: 5", "X-Transfer-Encoding: chunked", "Hosts: a", "a:"] {
        request(&format!("0\r\n{good}\r\n\r\n"), Ok(Some(("", ""))));
    }
    for bad in ["Content-Length: 5", "content-length:5", "TRANSFER-ENCODING: chunked", "Host: a", "X: 1\r\nhost:"] {
        request(&format!("0\r\n{bad}\r\n\r\n"), Err(BodyError::BadTrailer));
        response(&format!("0\r\n{bad}\r\n\r\n"), Ok(Some(("", ""))));
    }
    for bad in [
        "a",
        "a : b",
        ": b",
        " a: b",
        "\ta: b",
        "a: b\r\n c",
        "a: \0",
        "a\0: b",
        "a: b\rc",
        "\"a\": b",
        "GET / HTTP/1.1",
    ] {
        request(&format!("0\r\n{bad}\r\n\r\n"), Err(BodyError::BadTrailer));
    }
}

#[test]
fn input_can_be_looked_over_and_decoded_afterwards() {
    let skip = |input: &str| FramingDecoder::request(Framing::Chunked).skip(input.as_bytes());
    assert_eq!(skip(""), Ok(false));
    assert_eq!(skip("5\r\nhel"), Ok(false));
    assert_eq!(skip("5\r\nhello\r\n0\r\n\r\nGET"), Ok(true));
    assert_eq!(skip("5\r\nhello\r\nz"), Err(BodyError::BadSize));
    assert_eq!(FramingDecoder::request(Framing::Length(5)).skip(b"hello"), Ok(true));
    let mut scout = FramingDecoder::request(Framing::Chunked);
    assert_eq!(scout.skip(b"5\r\nhe"), Ok(false));
    assert_eq!(scout.skip(b"llo\r"), Ok(false));
    assert_eq!(scout.skip(b"\n+1"), Err(BodyError::BadSize));
}

#[test]
fn a_backend_may_end_lines_with_lf_and_pad_sizes() {
    response("5\nhello\n0\n\nX", Ok(Some(("hello", "X"))));
    response("5  \r\nhello\r\n0 \r\nT: 1\n\r\n", Ok(Some(("hello", ""))));
    response("5\r\nhello5\r\n", Err(BodyError::NoCrlf));
    response("-1\r\n", Err(BodyError::BadSize));
}

#[test]
fn what_costs_us_is_bounded() {
    request(&format!("1;{}\r\n", "x".repeat(1024)), Err(BodyError::BadExtension));
    request(&format!("1;{}\r\nx\r\n", "x".repeat(1000)).repeat(17), Err(BodyError::BadExtension));
    request(&format!("0\r\n{}", "a: b\r\n".repeat(2000)), Err(BodyError::BadTrailer));
}

#[test]
fn an_early_end_is_an_error_that_says_where() {
    let check = |framing, input: &[u8], want| {
        let mut decoder = FramingDecoder::response(framing);
        if !input.is_empty() {
            decoder.decode(input).unwrap();
        }
        assert_eq!(decoder.end_of_input(), want);
        assert_eq!(decoder.end_of_input(), want);
    };
    check(Framing::Length(5), b"hell", Err(BodyError::Truncated(Truncation::Length)));
    check(Framing::Chunked, b"", Err(BodyError::Truncated(Truncation::Chunking)));
    check(Framing::Chunked, b"5\r\nhe", Err(BodyError::Truncated(Truncation::ChunkData)));
    check(Framing::Chunked, b"5\r\nhello", Err(BodyError::Truncated(Truncation::Chunking)));
    check(Framing::Eof, b"abc", Ok(()));
    check(Framing::None, b"", Ok(()));
}

#[test]
fn data_can_be_read_past_the_decoder() {
    let mut decoder = FramingDecoder::request(Framing::Chunked);
    assert_eq!(decoder.data_ahead(), 0);
    assert_eq!(decoder.decode(b"10\r\n"), Ok(BodyStep::More { consumed: 4 }));
    assert_eq!(decoder.data_ahead(), 16);
    decoder.advance(10);
    decoder.advance(6);
    assert_eq!(decoder.decode(b"\r\n0\r\n\r\n"), Ok(BodyStep::End { consumed: 7 }));
}

#[test]
fn chunk_headers() {
    for (len, want) in [(1, "1\r\n"), (255, "ff\r\n"), (4096, "1000\r\n"), (usize::MAX, "ffffffffffffffff\r\n")] {
        assert_eq!(ChunkHeader::new(len).as_bytes(), want.as_bytes());
    }
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_again(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..8),
        step in 1usize..50,
        lax: bool,
    ) {
        let mut wire = Vec::new();
        for chunk in &chunks {
            wire.extend_from_slice(ChunkHeader::new(chunk.len()).as_bytes());
            wire.extend_from_slice(chunk);
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(LAST_CHUNK);
        wire.extend_from_slice(b"rest");
        let got = run(FramingDecoder::new(Framing::Chunked, lax), &wire, step).unwrap();
        prop_assert_eq!(got, Some((chunks.concat(), b"rest".to_vec())));
    }

    #[test]
    fn any_split_gives_the_same(input in "[0-9a-f;=x\": \r\n\\\\-]{0,60}", step in 1usize..9, lax: bool) {
        let input = input.replace('x', "\r\n");
        let decoder = FramingDecoder::new(Framing::Chunked, lax);
        let whole = run(decoder.clone(), input.as_bytes(), input.len().max(1));
        prop_assert_eq!(run(decoder, input.as_bytes(), step), whole);
    }

    #[test]
    fn any_bytes_are_taken_or_refused(input in proptest::collection::vec(any::<u8>(), 0..200), lax: bool) {
        let _ = run(FramingDecoder::new(Framing::Chunked, lax), &input, 7);
    }
}
