// SPDX-License-Identifier: BSD-2-Clause
//! vmod_header(3) of varnish-modules: fields line by line. As there an empty value counts as no value for `get` and
//! `remove`, and `remove` leaves no record in the log. Unlike there what would be no field on the wire (a name with a blank, a
//! line without a colon) fails the transaction, and `copy` of a field onto itself ends.

use std::sync::Arc;
use vcl_regex::Regex;
use vrt::fields::{append_field, replace_line};
use vrt::vmod::{CallResult, HEADER, STRING, VOID, VmodCall, give};
use vrt::{HeadId, Text, VclFailure};

use vmod_support::args::gave_up;

vrt::vmod! {
    /// Headers that occur more than once, line by line
    pub(crate) static VMOD = header;

    functions {
        /// Adds a header after those of the same name
        fn append(_: HEADER, _: STRING) -> VOID, local = append;

        /// Copies all headers of one name to another name, in this or another message
        fn copy(_: HEADER, _: HEADER) -> VOID, local = copy;

        /// Returns the first value of the header that matches; unset if none does
        fn get(header: HEADER, regex: REGEX) -> STRING, local = get;

        /// Removes the headers of that name whose values match
        fn remove(header: HEADER, regex: REGEX) -> VOID, local = remove;

        /// Rewrites the header lines that match, names included; fails if the result isn't a valid header
        fn regsub(_: HTTP, regex: REGEX, sub: STRING, all: BOOL = false) -> VOID, local = regsub;

        /// Returns a header by a computed name
        fn dyn(_: HTTP, _: STRING) -> HEADER, pure = header_dyn;
    }
}

fn append(call: &mut VmodCall<'_>, header: (HeadId, &Text), text: &[u8]) -> CallResult<VOID> {
    let (head, name) = header;
    append_field(call.ctx, head, name, text).map_err(named)?;
    give(())
}

fn header_dyn(_: &mut VmodCall<'_>, head: HeadId, text: Option<&Text>) -> CallResult<HEADER> {
    let name = text.cloned().unwrap_or(Text::EMPTY);
    give((head, name))
}

fn named(failure: VclFailure) -> VclFailure {
    VclFailure::new(format!("vmod_header: {}", failure.0))
}

/// Copies: the head may be changed while they are looked at.
fn values(call: &mut VmodCall<'_>, (id, name): (HeadId, &Text)) -> Vec<Vec<u8>> {
    call.ctx.head(id).map_or_else(Vec::new, |head| head.get_all(name).map(<[u8]>::to_vec).collect())
}

fn copy(call: &mut VmodCall<'_>, header: (HeadId, &Text), header2: (HeadId, &Text)) -> CallResult<VOID> {
    let (head, name) = header2;
    for value in values(call, header) {
        append_field(call.ctx, head, name, &value).map_err(named)?;
    }
    give(())
}

fn counts(value: &[u8], regex: &Regex) -> Result<bool, VclFailure> {
    if value.is_empty() { Ok(false) } else { regex.is_match(value).map_err(gave_up) }
}

fn get(call: &mut VmodCall<'_>, header: (HeadId, &Text), regex: &Arc<Regex>) -> CallResult<STRING> {
    let (id, name) = header;
    let Some(head) = call.ctx.head(id) else { return give(None::<Text>) };
    for value in head.get_all(name) {
        if counts(value, regex)? {
            return give(value);
        }
    }
    give(None::<Text>)
}

fn remove(call: &mut VmodCall<'_>, header: (HeadId, &Text), regex: &Arc<Regex>) -> CallResult<VOID> {
    let ((id, name), regex) = (header, regex);
    let Some((head, _)) = call.ctx.edit(id) else { return give(()) };
    let mut stopped = None;
    head.retain(|field| {
        let goes =
            field.is(name) && counts(field.value(), regex).unwrap_or_else(|reason| stopped.replace(reason).is_some());
        !goes
    });
    match stopped {
        Some(reason) => Err(reason),
        None => give(()),
    }
}

fn regsub(call: &mut VmodCall<'_>, id: HeadId, regex: &Arc<Regex>, with: &[u8], all: bool) -> CallResult<VOID> {
    let count = call.ctx.head(id).map_or(0, message::Head::len);
    for at in 0..count {
        let Some(line) = call.ctx.head(id).and_then(|head| head.field(at)) else { break };
        let mut out = Vec::new();
        if regex.sub(line.line(), with, all, &mut out).map_err(gave_up)? {
            replace_line(call.ctx, id, at, &out).map_err(named)?;
        }
    }
    give(())
}
