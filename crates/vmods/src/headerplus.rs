// SPDX-License-Identifier: BSD-2-Clause
//! vmod_headerplus: a copy of a head's fields that a task works on until write() makes the changes. Changes are found by the lines as
//! they were, so that what VCL set on the head since then stays. What its documentation leaves open: attributes are parted by commas
//! and semicolons outside quotes unless told otherwise, a missing one is unset rather than empty, and a prefix or suffix goes to the
//! name as a whole.

use std::sync::Arc;

use vrt::fields::{append_field, remove_line, replace_line};
use vrt::regex::{MatchError, Regex};
use vrt::vmod::{Call, CallResult, Function, Vmod};
use vrt::{Failure, HeadId, Value};

use crate::args::{Args, fail, gave_up, give};
use crate::pattern;

mod attr;

/// vmod_headerplus
pub(crate) static VMOD: Vmod = Vmod { name: "headerplus", classes: &[], functions: FUNCTIONS };

const FUNCTIONS: &[(&str, Function)] = &[
    ("init", |call, args| init(call, Args(args).http(0))),
    ("init_req", |call, _| init_first(call, [HeadId::Req, HeadId::Bereq])),
    ("init_resp", |call, _| init_first(call, [HeadId::Resp, HeadId::Beresp])),
    ("reset", |call, _| {
        let id = fields(call, "reset")?.head;
        init(call, id)
    }),
    ("write", write),
    ("add", |call, args| {
        let added = Field::added(Args(args).bytes_of(0), Args(args).bytes_of(1), Args(args).bool(2));
        fields(call, "add")?.list.push(added);
        give(Value::Void)
    }),
    ("set", |call, args| {
        let (name, value, is_kept) = (Args(args).bytes_of(0), Args(args).bytes_of(1), Args(args).bool(2));
        let fields = fields(call, "set")?;
        let mut found = false;
        for field in fields.named(name).take(1) {
            (field.value, field.is_kept, found) = (value.to_vec(), field.is_kept || is_kept, true);
        }
        if !found {
            fields.list.push(Field::added(name, value, is_kept));
        }
        let mut is_first = true;
        fields.delete(|field| field.is(name) && !std::mem::take(&mut is_first));
        give(Value::Void)
    }),
    ("append", |call, args| {
        let (name, value, separator) = (Args(args).bytes_of(0), Args(args).bytes_of(1), Args(args).bytes_of(2));
        let (all, is_kept) = (Args(args).bool(3), Args(args).bool(4));
        let fields = fields(call, "append")?;
        let mut found = false;
        for field in fields.named(name).take(if all { usize::MAX } else { 1 }) {
            (field.value, found) = ([&field.value, separator, value].concat(), true);
        }
        if !found {
            fields.list.push(Field::added(name, value, is_kept));
        }
        give(Value::Void)
    }),
    ("get", |call, args| {
        let name = Args(args).bytes_of(0);
        let found = find(call, "get", &|field| Ok(field.is(name)), &args[1])?;
        give(found.map_or_else(|| args[2].clone(), |field| Value::text(&field.value[..])))
    }),
    ("get_regex", |call, args| {
        let names = names(call, "get_regex", args)?;
        let found = find(call, "get_regex", &|field| names.is_match(&field.name), &args[1])?;
        give(found.map_or_else(|| args[2].clone(), |field| Value::text(&field.value[..])))
    }),
    ("get_name_regex", |call, args| {
        let names = if Args(args).given(0) { Some(names(call, "get_name_regex", args)?) } else { None };
        let is = |field: &Field| names.as_ref().map_or(Ok(true), |names| names.is_match(&field.name));
        let found = find(call, "get_name_regex", &is, &args[1])?;
        give(found.map_or(Value::NULL, |field| Value::text(&field.name[..])))
    }),
    ("delete", |call, args| {
        let (name, all) = (Args(args).bytes_of(0), Args(args).bool(1));
        fields(call, "delete")?.delete(|field| field.is(name) && (all || !field.is_kept));
        give(Value::Void)
    }),
    ("delete_regex", |call, args| {
        let matches = matching(call, "delete_regex", args)?;
        let all = Args(args).bool(1);
        let mut at = 0;
        fields(call, "delete_regex")?.delete(|field| {
            at += 1;
            matches[at - 1] && (all || !field.is_kept)
        });
        give(Value::Void)
    }),
    ("keep", |call, args| {
        let fields = fields(call, "keep")?;
        fields.keeps = true;
        let name = Args(args).bytes_of(0);
        fields.list.iter_mut().filter(|field| field.is(name)).for_each(|field| field.is_kept = true);
        give(Value::Void)
    }),
    ("keep_regex", |call, args| {
        let matches = matching(call, "keep_regex", args)?;
        let fields = fields(call, "keep_regex")?;
        fields.keeps = true;
        fields.list.iter_mut().zip(matches).for_each(|(field, matches)| field.is_kept |= matches);
        give(Value::Void)
    }),
    ("rename", |call, args| {
        let (name, new, remove) = (Args(args).bytes_of(0), Args(args).bytes_of(1), Args(args).bool(2));
        let to = fields(call, "rename")?.list.iter().map(|field| field.is(name).then(|| new.to_vec())).collect();
        rename(call, "rename", to, remove)
    }),
    ("regsub_name", |call, args| {
        let (with, all, remove) = (Args(args).bytes_of(1), Args(args).bool(2), Args(args).bool(3));
        let regex = names(call, "regsub_name", args)?;
        let one = |field: &Field| {
            let mut to = Vec::new();
            Ok(regex.sub(&field.name, with, all, &mut to).map_err(gave_up)?.then_some(to))
        };
        let to = fields(call, "regsub_name")?.list.iter().map(one).collect::<Result<_, Failure>>()?;
        rename(call, "regsub_name", to, remove)
    }),
    ("regsub_value", |call, args| {
        let (with, all) = (Args(args).bytes_of(2), Args(args).bool(3));
        let names = names(call, "regsub_value", args)?;
        let regex = pattern::compile(call, "headerplus.regsub_value()", Args(args).bytes_of(1))?;
        for field in &mut fields(call, "regsub_value")?.list {
            let mut to = Vec::new();
            if names.is_match(&field.name).map_err(gave_up)?
                && regex.sub(&field.value, with, all, &mut to).map_err(gave_up)?
            {
                field.value = to;
            }
        }
        give(Value::Void)
    }),
    ("prefix", |call, args| affix(call, "prefix", args, |name, text| [text, name].concat())),
    ("suffix", |call, args| affix(call, "suffix", args, |name, text| [name, text].concat())),
    ("collapse", |call, args| {
        let name = Args(args).bytes_of(0);
        let matches = fields(call, "collapse")?.list.iter().map(|field| field.is(name)).collect::<Vec<_>>();
        let new = Args(args).text(1).map_or(name, |new| new.as_bytes());
        collapse(call, &matches, new, Args(args).bytes_of(2), Args(args).bool(3))
    }),
    ("collapse_regex", |call, args| {
        let matches = matching(call, "collapse_regex", args)?;
        collapse(call, &matches, Args(args).bytes_of(1), Args(args).bytes_of(2), Args(args).bool(3))
    }),
    ("split", split),
    ("count", |call, args| {
        let name = Args(args).given(0).then(|| Args(args).bytes_of(0));
        let count = fields(call, "count")?.left().filter(|field| name.is_none_or(|name| field.is(name))).count();
        give(Value::Int(count as i64))
    }),
    ("count_regex", |call, args| {
        let matches = matching(call, "count_regex", args)?;
        let fields = fields(call, "count_regex")?;
        let is_left = |field: &Field| field.is_kept || !fields.keeps;
        let count = fields.list.iter().zip(matches).filter(|(field, matches)| *matches && is_left(field)).count();
        give(Value::Int(count as i64))
    }),
    ("as_list", as_list),
    ("attr_get", |call, args| {
        let (name, wanted, form) = (Args(args).bytes_of(0), Args(args).bytes_of(1), form("attr_get", args, 2, 3)?);
        let mut found = fields(call, "attr_get")?.named(name).filter_map(|field| form.get(&field.value, wanted));
        let value = found.next().map(Value::text);
        give(value.unwrap_or_else(|| args[4].clone()))
    }),
    ("attr_exists", |call, args| {
        let (name, wanted, form) = (Args(args).bytes_of(0), Args(args).bytes_of(1), form("attr_exists", args, 2, 3)?);
        let found = fields(call, "attr_exists")?.named(name).any(|field| form.get(&field.value, wanted).is_some());
        give(Value::Bool(found))
    }),
    ("attr_count", |call, args| {
        let (name, form) = (Args(args).bytes_of(0), form("attr_count", args, 1, 2)?);
        let count: usize = fields(call, "attr_count")?.named(name).map(|field| form.places(&field.value).len()).sum();
        give(Value::Int(count as i64))
    }),
    ("attr_set", attr_set),
    ("attr_delete", |call, args| {
        let (name, attr, form) = (Args(args).bytes_of(0), Args(args).bytes_of(1), form("attr_delete", args, 2, 4)?);
        let all = Args(args).bool(3);
        let fields = fields(call, "attr_delete")?;
        let having = fields.named(name).filter(|field| form.get(&field.value, attr).is_some());
        for field in having.take(if all { usize::MAX } else { 1 }) {
            field.value = form.delete(&field.value, attr);
        }
        fields.delete(|field| field.is(name) && field.value.is_empty() && !field.is_unchanged());
        give(Value::Void)
    }),
];

fn attr_set(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let (name, mut attr, mut value) =
        (Args(args).bytes_of(0), Args(args).bytes_of(1), Args(args).text(2).map(|v| &v[..]));
    let (form, how) = (form("attr_set", args, 3, 4)?, Args(args).word(5));
    if let (None, Some(at)) = (value, memchr::memmem::find(attr, form.equals)) {
        (attr, value) = (&attr[..at], Some(&attr[at + form.equals.len()..]));
    }
    if attr.is_empty() || memchr::memmem::find(attr, form.equals).is_some() || !form.is_name(attr) {
        return fail(format!("headerplus.attr_set(): \"{}\" is no name of an attribute", attr.escape_ascii()));
    }
    let fields = fields(call, "attr_set")?;
    let has = |field: &Field| form.get(&field.value, attr).is_some();
    let any_has = fields.named(name).any(|field| has(field));
    let mut found = false;
    for field in fields.named(name) {
        if how == "ALL" || has(field) || !any_has && !found {
            (field.value, found) = (form.set(&field.value, attr, value), true);
            if how == "FIRST" {
                break;
            }
        }
    }
    if !found {
        fields.list.push(Field::added(name, &form.set(b"", attr, value), false));
    }
    give(Value::Void)
}

/// How the attributes of a call are written; `at` is what parts them, `equals` what parts a name and its value.
fn form<'a>(who: &str, args: &'a [Value], at: usize, equals: usize) -> Result<attr::Form<'a>, Failure> {
    let form = attr::Form { between: Args(args).text(at).map(|text| &text[..]), equals: Args(args).bytes_of(equals) };
    if form.equals.is_empty() || form.between.is_some_and(<[u8]>::is_empty) {
        return fail(format!("headerplus.{who}(): a delimiter must not be empty"));
    }
    Ok(form)
}

/// What a task works on.
#[derive(Default)]
struct State(Option<Fields>);

#[derive(Debug)]
struct Fields {
    head: HeadId,
    list: Vec<Field>,
    /// Lines of the head that shall go.
    deleted: Vec<Vec<u8>>,
    /// Only kept ones are written.
    keeps: bool,
}

#[derive(Debug, Clone)]
struct Field {
    name: Vec<u8>,
    value: Vec<u8>,
    is_kept: bool,
    /// The line as the head had it; `None` for what was added.
    line: Option<Vec<u8>>,
}

fn init(call: &mut Call<'_>, id: HeadId) -> CallResult {
    let Some(head) = call.ctx.head(id) else {
        return fail(format!("headerplus.init(): there is no {} here", id.name()));
    };
    let field = |field: message::Field<'_>| Field {
        name: field.name().to_vec(),
        value: field.value().to_vec(),
        is_kept: false,
        line: Some(field.line().to_vec()),
    };
    let list = head.iter().map(field).collect();
    call.ctx.task().get::<State>().0 = Some(Fields { head: id, list, deleted: Vec::new(), keeps: false });
    give(Value::Void)
}

/// Reads the first of these heads that there is here.
fn init_first(call: &mut Call<'_>, ids: [HeadId; 2]) -> CallResult {
    let id = ids.into_iter().find(|id| call.ctx.head(*id).is_some());
    init(call, id.unwrap_or(ids[0]))
}

fn fields<'a>(call: &'a mut Call<'_>, who: &str) -> Result<&'a mut Fields, Failure> {
    let state = &mut call.ctx.task().get::<State>().0;
    state.as_mut().ok_or_else(|| Failure::new(format!("headerplus.{who}(): init() comes first")))
}

/// The first argument as a pattern of names, in any case.
fn names(call: &Call<'_>, who: &str, args: &[Value]) -> Result<Arc<Regex>, Failure> {
    let any_case = [b"(?i)", Args(args).bytes_of(0)].concat();
    pattern::compile(call, &format!("headerplus.{who}()"), &any_case)
}

/// The first field that is left, is one of these and has a value that matches, if that is asked for.
fn find(
    call: &mut Call<'_>,
    who: &str,
    is: &dyn Fn(&Field) -> Result<bool, MatchError>,
    value: &Value,
) -> Result<Option<Field>, Failure> {
    let values = match value {
        Value::Absent => None,
        value => {
            let text = Args(std::slice::from_ref(value)).bytes_of(0);
            Some(pattern::compile(call, &format!("headerplus.{who}()"), text)?)
        }
    };
    for field in fields(call, who)?.left() {
        let matches = |regex: &Arc<Regex>| regex.is_match(&field.value);
        if is(field).map_err(gave_up)? && values.as_ref().map_or(Ok(true), matches).map_err(gave_up)? {
            return Ok(Some(field.clone()));
        }
    }
    Ok(None)
}

/// Gives the fields for which there is one another name, or adds ones that have it.
fn rename(call: &mut Call<'_>, who: &str, to: Vec<Option<Vec<u8>>>, remove: bool) -> CallResult {
    let fields = fields(call, who)?;
    let mut added = Vec::new();
    for (field, name) in fields.list.iter_mut().zip(to) {
        match name {
            Some(name) if remove => field.name = name,
            Some(name) => added.push(Field::added(&name, &field.value, field.is_kept)),
            None => {}
        }
    }
    fields.list.append(&mut added);
    give(Value::Void)
}

fn affix(call: &mut Call<'_>, who: &str, args: &[Value], join: fn(&[u8], &[u8]) -> Vec<u8>) -> CallResult {
    let matches = matching(call, who, args)?;
    let (text, remove) = (Args(args).bytes_of(1), Args(args).bool(2));
    let list = &fields(call, who)?.list;
    let to = list.iter().zip(matches).map(|(field, matches)| matches.then(|| join(&field.name, text))).collect();
    rename(call, who, to, remove)
}

/// Which of the fields have names that match the first argument.
fn matching(call: &mut Call<'_>, who: &str, args: &[Value]) -> Result<Vec<bool>, Failure> {
    let regex = names(call, who, args)?;
    let list = &fields(call, who)?.list;
    list.iter().map(|field| regex.is_match(&field.name).map_err(gave_up)).collect()
}

fn collapse(call: &mut Call<'_>, which: &[bool], name: &[u8], separator: &[u8], keep: bool) -> CallResult {
    let fields = fields(call, "collapse")?;
    let joined: Vec<&Field> = fields.list.iter().zip(which).filter(|(_, is)| **is).map(|(field, _)| field).collect();
    if joined.is_empty() {
        return give(Value::Void);
    }
    let is_kept = keep || joined.iter().any(|field| field.is_kept);
    let value = joined.iter().map(|field| &field.value[..]).collect::<Vec<_>>().join(separator);
    let mut at = 0;
    fields.delete(|_| {
        at += 1;
        which[at - 1]
    });
    fields.list.push(Field::added(name, &value, is_kept));
    give(Value::Void)
}

fn split(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let (name, separator) = (Args(args).bytes_of(0), Args(args).bytes_of(1));
    if separator.is_empty() {
        return fail("headerplus.split(): the separator must not be empty");
    }
    let fields = fields(call, "split")?;
    let whole: Vec<Field> = fields.named(name).map(|field| field.clone()).collect();
    fields.delete(|field| field.is(name));
    for field in whole {
        let mut rest = &field.value[..];
        loop {
            let end = memchr::memmem::find(rest, separator).unwrap_or(rest.len());
            if end > 0 {
                fields.list.push(Field::added(&field.name, &rest[..end], field.is_kept));
            }
            match rest.get(end + separator.len()..) {
                Some(more) => rest = more,
                None => break,
            }
        }
    }
    give(Value::Void)
}

fn as_list(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let (kind, separator, join) = (Args(args).word(0), Args(args).bytes_of(1), Args(args).bytes_of(2));
    let (sort, case) = (Args(args).bool(3), Args(args).word(4));
    let one = |field: &Field| {
        let name = match case {
            "LOWER" => field.name.to_ascii_lowercase(),
            "UPPER" => field.name.to_ascii_uppercase(),
            _ => field.name.clone(),
        };
        match kind {
            "NAME" => name,
            "VALUE" => field.value.clone(),
            _ => [&name, join, &field.value].concat(),
        }
    };
    let mut list: Vec<Vec<u8>> = fields(call, "as_list")?.left().map(one).collect();
    if sort {
        list.sort();
    }
    give(Value::text(list.join(separator)))
}

fn write(call: &mut Call<'_>, _: &[Value]) -> CallResult {
    fields(call, "write")?;
    let Some(fields) = call.ctx.task().get::<State>().0.take() else { return give(Value::Void) };
    let id = fields.head;
    for line in &fields.deleted {
        change(call, id, line, None)?;
    }
    for field in &fields.list {
        let goes = fields.keeps && !field.is_kept;
        let text = [&field.name, &b": "[..], &field.value].concat();
        match &field.line {
            Some(line) if goes => change(call, id, line, None)?,
            Some(_) if field.is_unchanged() => {}
            Some(line) => change(call, id, line, Some(&text))?,
            None if goes => {}
            None => append_field(call.ctx, id, &field.name, &field.value)?,
        }
    }
    init(call, id)
}

/// Replaces or removes a line of the head, if it still has it.
fn change(call: &mut Call<'_>, id: HeadId, line: &[u8], to: Option<&[u8]>) -> Result<(), Failure> {
    let Some(at) = call.ctx.head(id).and_then(|head| head.iter().position(|field| field.line() == line)) else {
        return Ok(());
    };
    match to {
        Some(text) => replace_line(call.ctx, id, at, text),
        None => remove_line(call.ctx, id, at),
    }
}

impl Field {
    fn added(name: &[u8], value: &[u8], is_kept: bool) -> Field {
        Field { name: name.to_vec(), value: value.to_vec(), is_kept, line: None }
    }

    fn is(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn is_unchanged(&self) -> bool {
        let same = |line: &Vec<u8>| {
            line.strip_prefix(&self.name[..])
                .and_then(|rest| rest.strip_prefix(b":"))
                .is_some_and(|value| value.trim_ascii() == self.value)
        };
        self.line.as_ref().is_some_and(same)
    }
}

impl Fields {
    fn left(&self) -> impl Iterator<Item = &Field> {
        self.list.iter().filter(|field| field.is_kept || !self.keeps)
    }

    fn named(&mut self, name: &[u8]) -> impl Iterator<Item = &mut Field> {
        self.list.iter_mut().filter(move |field| field.is(name))
    }

    fn delete(&mut self, mut goes: impl FnMut(&Field) -> bool) {
        let deleted = &mut self.deleted;
        self.list.retain(|field| {
            let goes = goes(field);
            if goes {
                deleted.extend(field.line.clone());
            }
            !goes
        });
    }
}
