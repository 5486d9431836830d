// SPDX-License-Identifier: BSD-2-Clause
//! The text of records and transactions as varnishlog shows them, Varnish 3's four columns, and JSON lines.

use std::io::{self, Write};

use tables::tags::TagKind;

use crate::group::{Txn, TxnType};
use crate::names;
use crate::record::{Rec, records};
use crate::select::Select;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrintStyle {
    /// The same as varnishlog writes.
    Text,
    /// Number, old tag name, side and data.
    FourColumns,
    /// One JSON object per transaction.
    Json,
}

/// Style, and what depends on who reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintLook {
    pub style: PrintStyle,
    pub has_colours: bool,
    /// A terminal shows it: control characters, which whoever sends a request may have chosen, come as `%1b`.
    pub is_terminal: bool,
}

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const CYAN: &str = "\x1b[36m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

fn title(kind: TxnType) -> &'static str {
    match kind {
        TxnType::Unknown => "<< Unknown  >>",
        TxnType::Sess => "<< Session  >>",
        TxnType::Req => "<< Request  >>",
        TxnType::Bereq => "<< BeReq    >>",
        TxnType::Raw => "<< Record   >>",
    }
}

pub fn is_shown(select: &Select, txn: &Txn<'_>) -> bool {
    if !select.client && !select.backend {
        return true;
    }
    match txn.kind {
        TxnType::Req => select.client && (txn.reason != crate::group::BeginReason::Esi || select.esi),
        TxnType::Bereq => select.backend,
        TxnType::Raw => true,
        TxnType::Unknown | TxnType::Sess => false,
    }
}

pub fn group(out: &mut dyn Write, select: &Select, look: PrintLook, group: &[Txn<'_>]) -> io::Result<()> {
    let mut has_title = false;
    for txn in group.iter().filter(|txn| is_shown(select, txn)) {
        match look.style {
            PrintStyle::Json => json(out, select, txn)?,
            PrintStyle::FourColumns => {
                for rec in records(txn.records).filter(|r| select.shows(r)) {
                    write!(out, "{:>5} {:<12} {} ", rec.vxid, names::old_name(rec.tag), rec.side())?;
                    data(out, &rec, look.is_terminal)?;
                }
            }
            PrintStyle::Text => {
                has_title |= txn.level > 0;
                transaction(out, select, look, txn)?;
            }
        }
    }
    if has_title { out.write_all(b"\n") } else { Ok(()) }
}

fn transaction(out: &mut dyn Write, select: &Select, look: PrintLook, txn: &Txn<'_>) -> io::Result<()> {
    let verbose = txn.level == 0 || select.verbose;
    let colours = look.has_colours;
    if txn.level > 0 {
        let (begin, end) = if colours { (BOLD, PLAIN) } else { ("", "") };
        let (left, middle) = if verbose { (" ".repeat(11), "  ") } else { (String::new(), "") };
        let mark = mark(txn.level, '*');
        writeln!(out, "{begin}{mark}{left}{:<14} {middle}{:<10}{end}", title(txn.kind), txn.vxid)?;
    }
    let mark = if txn.level > 0 { mark(txn.level, '-') } else { String::new() };
    for rec in records(txn.records).filter(|r| select.shows(r)) {
        out.write_all(mark.as_bytes())?;
        if verbose {
            write!(out, "{:>10} ", rec.vxid)?;
        }
        if colours {
            write!(out, "{}{:<14}{PLAIN} ", colour(&rec), rec.tag.name())?;
        } else {
            write!(out, "{:<14} ", rec.tag.name())?;
        }
        if verbose {
            write!(out, "{} ", rec.side())?;
        }
        data(out, &rec, look.is_terminal)?;
    }
    Ok(())
}

fn colour(rec: &Rec<'_>) -> &'static str {
    use tables::Tag;
    match rec.tag {
        Tag::Error | Tag::FetchError | Tag::VclError | Tag::SessError | Tag::HttpGarbage | Tag::BogoHeader => RED,
        Tag::Begin | Tag::End | Tag::Link | Tag::Timestamp | Tag::Debug => DIM,
        _ => CYAN,
    }
}

fn mark(level: u32, sign: char) -> String {
    if level > 3 {
        return format!("{sign}{level}{sign} ");
    }
    let signs: String = std::iter::repeat_n(sign, level as usize).collect();
    format!("{signs:<3} ")
}

fn data(out: &mut dyn Write, rec: &Rec<'_>, is_terminal: bool) -> io::Result<()> {
    match rec.tag.kind() {
        TagKind::Unsafe => {
            out.write_all(b"\"")?;
            escaped(out, rec.raw, |byte| matches!(byte, b' '..=b'~'))?;
            out.write_all(b"\"\n")
        }
        TagKind::Binary => {
            out.write_all(b"[")?;
            for byte in rec.raw {
                write!(out, "{byte:02x}")?;
            }
            out.write_all(b"]\n")
        }
        TagKind::Plain | TagKind::Unused => {
            match (is_terminal, std::str::from_utf8(rec.text())) {
                (false, _) => out.write_all(rec.text())?,
                (true, Ok(text)) if !text.contains(is_control) => out.write_all(rec.text())?,
                (true, _) => escaped(out, rec.text(), |byte| matches!(byte, b' '..=b'~' | b'\t'))?,
            }
            out.write_all(b"\n")
        }
    }
}

fn is_control(c: char) -> bool {
    c.is_control() && c != '\t'
}

/// Bytes that aren't `plain` as `%xx`.
fn escaped(out: &mut dyn Write, bytes: &[u8], plain: impl Fn(u8) -> bool) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| match plain(*byte) {
        true => out.write_all(&[*byte]),
        false => write!(out, "%{byte:02x}"),
    })
}

/// `{"vxid":2,"type":"req","reason":"rxreq","level":1,"parent":0,"records":[{"tag":"ReqURL","data":"/"}]}`; bytes that
/// are no UTF-8 are shown as U+FFFD, binary data in hex.
fn json(out: &mut dyn Write, select: &Select, txn: &Txn<'_>) -> io::Result<()> {
    let mut text = format!("{{\"vxid\":{},\"type\":\"{}\"", txn.vxid, txn.kind.name());
    if txn.kind != TxnType::Raw {
        let (reason, level, parent) = (txn.reason.name(), txn.level, txn.parent);
        text.push_str(&format!(",\"reason\":\"{reason}\",\"level\":{level},\"parent\":{parent}"));
    }
    text.push_str(",\"records\":[");
    for (i, rec) in records(txn.records).filter(|r| select.shows(r)).enumerate() {
        let comma = if i > 0 { "," } else { "" };
        text.push_str(&format!("{comma}{{\"tag\":\"{}\",\"side\":\"{}\",\"data\":", rec.tag.name(), rec.side()));
        let shown = match rec.tag.kind() {
            TagKind::Binary => base::hex::encode(rec.raw),
            _ => String::from_utf8_lossy(rec.text()).into_owned(),
        };
        tables::json::quote_into(&mut text, &shown);
        text.push('}');
    }
    text.push_str("]}\n");
    out.write_all(text.as_bytes())
}
