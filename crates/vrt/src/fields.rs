// SPDX-License-Identifier: BSD-2-Clause
//! Heads as VCL changes them: fields and the parts of start lines, each change logged under the head's own tags.

use std::sync::atomic::{AtomicBool, Ordering};

use message::{Head, HeadLimits, LostHeader};
use shm::vsl::TxnLog;
use tables::Tag;
use tables::tags::{HeadPart, HeadSide};
use tables::vclvars::{HeadId, Var};

use crate::ctx::{Ctx, VclFailure};
use crate::value::{Text, Value};

pub(crate) fn tag(head: HeadId, part: HeadPart) -> Tag {
    let side = match head {
        HeadId::Req | HeadId::ReqTop => HeadSide::Req,
        HeadId::Bereq => HeadSide::Bereq,
        HeadId::Beresp => HeadSide::Beresp,
        HeadId::Obj => HeadSide::Obj,
        HeadId::Resp => HeadSide::Resp,
    };
    side.tag(part)
}

/// Variables that are parts of start lines.
pub(crate) fn head_part(var: Var) -> Option<(HeadId, HeadPart)> {
    use HeadId::*;
    Some(match var {
        Var::ReqMethod => (Req, HeadPart::Method),
        Var::ReqUrl => (Req, HeadPart::Url),
        Var::ReqProto => (Req, HeadPart::Protocol),
        Var::ReqTopMethod => (ReqTop, HeadPart::Method),
        Var::ReqTopUrl => (ReqTop, HeadPart::Url),
        Var::ReqTopProto => (ReqTop, HeadPart::Protocol),
        Var::BereqMethod => (Bereq, HeadPart::Method),
        Var::BereqUrl => (Bereq, HeadPart::Url),
        Var::BereqProto => (Bereq, HeadPart::Protocol),
        Var::BerespProto => (Beresp, HeadPart::Protocol),
        Var::BerespStatus => (Beresp, HeadPart::Status),
        Var::BerespReason => (Beresp, HeadPart::Reason),
        Var::ObjProto => (Obj, HeadPart::Protocol),
        Var::ObjStatus => (Obj, HeadPart::Status),
        Var::ObjReason => (Obj, HeadPart::Reason),
        Var::RespProto => (Resp, HeadPart::Protocol),
        Var::RespStatus => (Resp, HeadPart::Status),
        Var::RespReason => (Resp, HeadPart::Reason),
        _ => return None,
    })
}

/// The text of a part; `None` for the status, which is a number.
pub(crate) fn part_text(head: &Head, part: HeadPart) -> Option<&[u8]> {
    match part {
        HeadPart::Method => Some(head.method()),
        HeadPart::Url => Some(head.url()),
        HeadPart::Protocol => Some(head.proto()),
        HeadPart::Reason => Some(head.reason()),
        HeadPart::Status | HeadPart::Header | HeadPart::Unset | HeadPart::Lost => None,
    }
}

pub(crate) fn get(ctx: &mut dyn Ctx, id: HeadId, part: HeadPart) -> Value {
    match (ctx.head(id), part) {
        (None, HeadPart::Status) => Value::Int(0),
        (None, _) => Value::NULL,
        (Some(head), HeadPart::Status) => Value::Int(i64::from(head.status())),
        (Some(head), part) => Value::String(part_text(head, part).map(Text::copy)),
    }
}

fn no_head() -> VclFailure {
    VclFailure::new("This head can't be changed here")
}

const OVERFLOW: &str = "Workspace overflow";
const NO_ROOM: &str = "workspace allocation failure";

/// A head has no room for a change: `says`, as varnishd says it, and the parameter that bounds what was full.
fn full(says: &str, id: HeadId, limits: HeadLimits, lost: LostHeader) -> VclFailure {
    let (name, workspace) = match id {
        HeadId::Req | HeadId::ReqTop => ("req", "workspace_client"),
        HeadId::Resp => ("resp", "workspace_client"),
        HeadId::Bereq => ("bereq", "workspace_backend"),
        HeadId::Beresp | HeadId::Obj => ("beresp", "workspace_backend"),
    };
    match lost {
        LostHeader::TooManyFields => {
            let most = limits.http_max_hdr();
            format!("{says}: {name} has as many fields as http_max_hdr={most} allows (five of it are the first line's)")
        }
        LostHeader::NoSpace => format!("{says}: {name} would be larger than {workspace}={}", limits.bytes),
        LostHeader::BadField => format!("{says}: {lost}, or longer than one may be"),
    }
    .into()
}

pub(crate) fn set_text(ctx: &mut dyn Ctx, var: Var, id: HeadId, part: HeadPart, text: &[u8]) -> Result<(), VclFailure> {
    if text.is_empty() {
        return Err(format!("Setting {} to empty string", var.name()).into());
    }
    check_value(text, var.name().as_bytes())?;
    if part != HeadPart::Reason {
        check_word(text, var.name())?;
    }
    let (head, log) = ctx.edit(id).ok_or_else(no_head)?;
    let done = match part {
        HeadPart::Method => head.set_method(text),
        HeadPart::Url => head.set_url(text),
        HeadPart::Protocol => head.set_proto(text),
        HeadPart::Reason | HeadPart::Status | HeadPart::Header | HeadPart::Unset | HeadPart::Lost => {
            head.set_reason(text)
        }
    };
    if let Err(lost) = done {
        log.count_overflow();
        return Err(full(&format!("Workspace overflow ({})", var.name()), id, head.limits(), lost));
    }
    log.put(tag(id, part), text);
    Ok(())
}

/// Sets a request's URL.
///
/// # Errors
/// VCL fails with that text: no request to change, not a URL.
pub fn set_url(ctx: &mut dyn Ctx, id: HeadId, url: &[u8]) -> Result<(), VclFailure> {
    let var = if id == HeadId::Bereq { Var::BereqUrl } else { Var::ReqUrl };
    set_text(ctx, var, id, HeadPart::Url, url)
}

pub(crate) fn check_status(what: &str, status: i64) -> Result<u16, VclFailure> {
    let reason = match status {
        i64::MIN..=-1 => format!("{what} ({status}) is negative"),
        65536.. => format!("{what} ({status}) > 65535"),
        _ if status % 1000 < 100 => format!("illegal {what} ({status}) (..0##)"),
        _ => return Ok(status as u16),
    };
    Err(reason.into())
}

pub(crate) fn set_status(ctx: &mut dyn Ctx, var: Var, id: HeadId, status: i64) -> Result<(), VclFailure> {
    let status = check_status(var.name(), status)?;
    let (head, log) = ctx.edit(id).ok_or_else(no_head)?;
    // The upper digits of VWXYZ are for VCL alone.
    let plain = status % 1000;
    let done = head.set_status(status).and_then(|()| head.set_reason(message::status::reason(plain)));
    if let Err(lost) = done {
        log.count_overflow();
        return Err(full(OVERFLOW, id, head.limits(), lost));
    }
    log.put(tag(id, HeadPart::Status), &message::status::digits(plain));
    log.put(tag(id, HeadPart::Reason), head.reason());
    Ok(())
}

/// Feature `validate_headers`: values are checked.
static VALIDATES: AtomicBool = AtomicBool::new(true);

/// Has values that VCL sets checked for control bytes, for the whole process, or not any longer.
pub fn validate_values(on: bool) {
    VALIDATES.store(on, Ordering::Relaxed);
}

/// A byte that no header may have: a control byte other than TAB. Unchecked values may have those, too, but never what would
/// end the line: a field that becomes two is somebody's way in.
fn is_bad(c: u8, validates: bool) -> bool {
    match c {
        b'\r' | b'\n' | 0 => true,
        b'\t' => false,
        _ => validates && (c < 0x20 || c == 0x7f),
    }
}

/// Refuses blanks in a word of a start line: what comes behind one would be another word, as a URL that VCL hasn't seen. varnishd
/// sends them; so does this without `validate_headers`.
fn check_word(text: &[u8], name: &str) -> Result<(), VclFailure> {
    if VALIDATES.load(Ordering::Relaxed) && text.iter().any(|c| matches!(c, b' ' | b'\t')) {
        return Err(format!("Bad {name}: \"{}\" has a blank; write %20", text.escape_ascii()).into());
    }
    Ok(())
}

/// Refuses a text that would end its line, or that no header may have: what VCL makes a start line or a field of goes through here.
///
/// # Errors
/// VCL fails with that text.
pub fn check_value(value: &[u8], name: &[u8]) -> Result<(), VclFailure> {
    let validates = VALIDATES.load(Ordering::Relaxed);
    if value.iter().any(|c| is_bad(*c, validates)) {
        let (name, value) = (String::from_utf8_lossy(name), value.escape_ascii());
        return Err(format!("Bad header {name}: {value}").into());
    }
    Ok(())
}

/// Replaces all fields of that name by one.
///
/// # Errors
/// VCL fails with that text: no head to change, no room, not a name or a value that a field can have.
pub fn set_field(ctx: &mut dyn Ctx, id: HeadId, name: &[u8], value: &[u8]) -> Result<(), VclFailure> {
    check_value(value, name)?;
    let (head, log) = ctx.edit(id).ok_or_else(no_head)?;
    log_unset(head, log, name, tag(id, HeadPart::Unset));
    match head.set(name, value) {
        Ok(()) => log.put_parts(tag(id, HeadPart::Header), &[name, b": ", value]),
        Err(lost) => {
            log.lost_header(&[name, b": ", value]);
            return Err(full(OVERFLOW, id, head.limits(), lost));
        }
    }
    Ok(())
}

/// Adds a field behind those that are there; empty values are allowed.
///
/// # Errors
/// VCL fails with that text: no place for it, no head to change, not a name or a value that a field can have.
pub fn append_field(ctx: &mut dyn Ctx, id: HeadId, name: &[u8], value: &[u8]) -> Result<(), VclFailure> {
    check_value(value, name)?;
    let (head, log) = ctx.edit(id).ok_or_else(no_head)?;
    match head.append(name, value) {
        Ok(()) => log.put_parts(tag(id, HeadPart::Header), &[name, b": ", value]),
        Err(LostHeader::BadField) => {
            return Err(format!("Bad header name \"{}\"", name.escape_ascii()).into());
        }
        Err(lost @ (LostHeader::NoSpace | LostHeader::TooManyFields)) => {
            log.lost_header(&[name, b": ", value]);
            return Err(full(NO_ROOM, id, head.limits(), lost));
        }
    }
    Ok(())
}

/// Puts another line in the place of the `i`-th of a head and logs both.
///
/// # Errors
/// VCL fails with that text: no place for it, no head to change, not a field.
pub fn replace_line(ctx: &mut dyn Ctx, id: HeadId, i: usize, line: &[u8]) -> Result<(), VclFailure> {
    check_value(line, b"line")?;
    let (head, log) = ctx.edit(id).ok_or_else(no_head)?;
    let old = head.field(i).map(|field| field.line().to_vec());
    match head.replace_line(i, line) {
        Ok(()) => {
            log.put(tag(id, HeadPart::Unset), &old.unwrap_or_default());
            log.put(tag(id, HeadPart::Header), line);
        }
        Err(LostHeader::BadField) => return Err(format!("Bad header line \"{}\"", line.escape_ascii()).into()),
        Err(lost @ (LostHeader::NoSpace | LostHeader::TooManyFields)) => {
            log.lost_header(&[line]);
            return Err(full(NO_ROOM, id, head.limits(), lost));
        }
    }
    Ok(())
}

/// Removes the `i`-th line of a head and logs that.
///
/// # Errors
/// VCL fails with that text: no head to change.
pub fn remove_line(ctx: &mut dyn Ctx, id: HeadId, i: usize) -> Result<(), VclFailure> {
    let (head, log) = ctx.edit(id).ok_or_else(no_head)?;
    if let Some(field) = head.field(i) {
        log.put(tag(id, HeadPart::Unset), field.line());
    }
    let mut at = 0;
    head.retain(|_| {
        at += 1;
        at - 1 != i
    });
    Ok(())
}

/// Removes all fields of that name.
///
/// # Errors
/// VCL fails with that text: no head to change.
pub fn unset_field(ctx: &mut dyn Ctx, id: HeadId, name: &[u8]) -> Result<(), VclFailure> {
    let (head, log) = ctx.edit(id).ok_or_else(no_head)?;
    if head.has(name) {
        log_unset(head, log, name, tag(id, HeadPart::Unset));
        head.unset(name);
    }
    Ok(())
}

fn log_unset(head: &Head, log: &mut TxnLog, name: &[u8], tag: Tag) {
    if head.has(name) {
        for field in head.iter().filter(|f| f.is(name)) {
            log.put(tag, field.line());
        }
    }
}
