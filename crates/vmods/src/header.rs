// SPDX-License-Identifier: BSD-2-Clause
//! vmod_header(3) of varnish-modules: fields line by line. As there an empty value counts as no value for `get` and
//! `remove`, and `remove` leaves no record in the log. Unlike there what would be no field on the wire (a name with a blank, a
//! line without a colon) fails the transaction, and `copy` of a field onto itself ends.

use vrt::fields::{append_field, replace_line};
use vrt::regex::Regex;
use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Failure, HeadId, Text, Value};

use crate::args::{Args, gave_up, give};

/// vmod_header(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "header",
    classes: &[],
    functions: &[
        ("append", |call, args| {
            let (head, name) = Args(args).header(0);
            append_field(call.ctx, head, name, Args(args).bytes_of(1)).map_err(named)?;
            give(Value::Void)
        }),
        ("copy", copy),
        ("get", get),
        ("remove", remove),
        ("regsub", regsub),
        ("dyn", |_, args| {
            let name = Args(args).text(1).cloned().unwrap_or(Text::EMPTY);
            give(Value::Header(Args(args).http(0), name))
        }),
    ],
};

fn named(failure: Failure) -> Failure {
    Failure::new(format!("vmod_header: {}", failure.0))
}

/// Copies: the head may be changed while they are looked at.
fn values(call: &mut Call<'_>, (id, name): (HeadId, &Text)) -> Vec<Vec<u8>> {
    call.ctx.head(id).map_or_else(Vec::new, |head| head.get_all(name).map(<[u8]>::to_vec).collect())
}

fn copy(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let (head, name) = Args(args).header(1);
    for value in values(call, Args(args).header(0)) {
        append_field(call.ctx, head, name, &value).map_err(named)?;
    }
    give(Value::Void)
}

fn counts(value: &[u8], regex: &Regex) -> Result<bool, Failure> {
    if value.is_empty() { Ok(false) } else { regex.is_match(value).map_err(gave_up) }
}

fn get(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let (id, name) = Args(args).header(0);
    let regex = Args(args).regex(1);
    let Some(head) = call.ctx.head(id) else { return give(Value::NULL) };
    for value in head.get_all(name) {
        if counts(value, regex)? {
            return give(Value::text(value));
        }
    }
    give(Value::NULL)
}

fn remove(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let ((id, name), regex) = (Args(args).header(0), Args(args).regex(1));
    let Some((head, _)) = call.ctx.edit(id) else { return give(Value::Void) };
    let mut stopped = None;
    head.retain(|field| {
        let goes = field.is(name) && counts(field.value(), regex).unwrap_or_else(|why| stopped.replace(why).is_some());
        !goes
    });
    match stopped {
        Some(why) => Err(why),
        None => give(Value::Void),
    }
}

fn regsub(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    let (id, regex, with, all) = (args.http(0), args.regex(1), args.bytes_of(2), args.bool(3));
    let count = call.ctx.head(id).map_or(0, message::Head::len);
    for at in 0..count {
        let Some(line) = call.ctx.head(id).and_then(|head| head.field(at)) else { break };
        let mut out = Vec::new();
        if regex.sub(line.line(), with, all, &mut out).map_err(gave_up)? {
            replace_line(call.ctx, id, at, &out).map_err(named)?;
        }
    }
    give(Value::Void)
}
