// SPDX-License-Identifier: BSD-2-Clause
//! Log records of any transaction, given one by one or as lines of `varnishlog -g raw`.

use base::Vxid;
use shm::vsl::Marker;
use tables::Tag;
use vrt::VclFailure;
use vrt::vmod::VmodCall;

use vmod_support::args::fail;

pub(super) fn write(call: &mut VmodCall<'_>, id: i64, tag: &[u8], side: &str, text: &[u8]) -> Result<(), VclFailure> {
    let Some(tag) = std::str::from_utf8(tag).ok().and_then(Tag::from_name) else {
        return fail(format!("No such tag: {}", String::from_utf8_lossy(tag)));
    };
    let ring = call.ctx.log().ring();
    let Some(id) = u64::try_from(id).ok().filter(|id| *id < ring.format().vxid_limit()) else {
        return fail("id out of bounds");
    };
    let marker = if side == "c" { Marker::Client } else { Marker::Backend };
    ring.write_one(tag, Vxid(id), marker, text);
    Ok(())
}

/// Writes the records of all lines; lines of another form are left out.
///
/// # Errors
/// As [`write`].
pub(super) fn replay(call: &mut VmodCall<'_>, lines: &[u8]) -> Result<(), VclFailure> {
    for line in lines.split(|b| matches!(b, b'\r' | b'\n')) {
        if let Some((id, tag, side, text)) = parse(line) {
            write(call, id, tag, side, text)?;
        }
    }
    Ok(())
}

/// `1001 ReqURL         c /foo`; what varnishtest puts before it, up to `vsl|`, is skipped.
fn parse(line: &[u8]) -> Option<(i64, &[u8], &'static str, &[u8])> {
    let line = match line {
        [b'*', ..] => &line[memchr::memmem::find(line, b"vsl|")? + 4..],
        line => line,
    };
    let (id, rest) = word(line)?;
    let (tag, rest) = word(rest)?;
    let (side, rest) = word(rest)?;
    let digits = id.iter().take_while(|b| b.is_ascii_digit()).count();
    let id = std::str::from_utf8(&id[..digits]).ok()?.parse().ok()?;
    let side = match side.first()? {
        b'c' => "c",
        b'b' => "b",
        _ => return None,
    };
    Some((id, tag, side, rest))
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|b| matches!(b, b' ' | b'\t')).unwrap_or(text.len());
    (end > 0).then(|| (&text[..end], text.get(end + 1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines() {
        assert_eq!(parse(b"      1001 ReqURL         c /foo bar"), Some((1001, &b"ReqURL"[..], "c", &b"/foo bar"[..])));
        assert_eq!(parse(b"**** v1 vsl|  7 Debug b x"), Some((7, &b"Debug"[..], "b", &b"x"[..])));
        assert_eq!(parse(b"7 End c"), Some((7, &b"End"[..], "c", &b""[..])));
        assert_eq!((parse(b""), parse(b"* 7 End c"), parse(b"x End c"), parse(b"7 End -")), (None, None, None, None));
    }
}
