// SPDX-License-Identifier: BSD-2-Clause
//! vmod_headerplus: a copy of a head's fields that a task works on until write() makes the changes. Changes are found by the lines as
//! they were, so that what VCL set on the head since then stays. What its documentation leaves open: attributes are parted by commas
//! and semicolons outside quotes, and a missing one is unset rather than empty.

use vrt::fields::{append_field, remove_line, replace_line};
use vrt::vmod::{Call, CallResult, Function, Vmod};
use vrt::{Failure, HeadId, Value};

use crate::args::{Args, fail, gave_up, give};
use crate::pattern;

mod attr;

/// vmod_headerplus
pub(crate) static VMOD: Vmod = Vmod { name: "headerplus", classes: &[], functions: FUNCTIONS };

const FUNCTIONS: &[(&str, Function)] = &[
    ("init", |call, args| init(call, Args(args).http(0))),
    ("init_req", |call, _| init(call, HeadId::Req)),
    ("init_resp", |call, _| init(call, HeadId::Resp)),
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
    ("get", |call, args| {
        let found =
            fields(call, "get")?.named(Args(args).bytes_of(0)).next().map(|field| Value::text(&field.value[..]));
        give(found.unwrap_or_else(|| args[1].clone()))
    }),
    ("get_regex", |call, args| {
        let regex = pattern::compile(call, "headerplus.get_regex()", Args(args).bytes_of(0))?;
        for field in fields(call, "get_regex")?.left() {
            if regex.is_match(&field.name).map_err(gave_up)? {
                return give(Value::text(&field.value[..]));
            }
        }
        give(args[1].clone())
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
        let (name, new) = (Args(args).bytes_of(0), Args(args).bytes_of(1));
        for field in fields(call, "rename")?.named(name) {
            field.name = new.to_vec();
        }
        give(Value::Void)
    }),
    ("collapse", |call, args| {
        let name = Args(args).bytes_of(0);
        let matches = fields(call, "collapse")?.list.iter().map(|field| field.is(name)).collect::<Vec<_>>();
        collapse(call, &matches, name, Args(args).bytes_of(1))
    }),
    ("collapse_regex", |call, args| {
        let matches = matching(call, "collapse_regex", args)?;
        collapse(call, &matches, Args(args).bytes_of(1), Args(args).bytes_of(2))
    }),
    ("split", split),
    ("count", |call, _| {
        let count = fields(call, "count")?.left().count();
        give(Value::Int(count as i64))
    }),
    ("as_list", as_list),
    ("attr_get", |call, args| {
        let (name, wanted) = (Args(args).bytes_of(0), Args(args).bytes_of(1));
        let mut found = fields(call, "attr_get")?.named(name).filter_map(|field| attr::get(&field.value, wanted));
        let value = found.next().map(Value::text);
        give(value.unwrap_or_else(|| args[2].clone()))
    }),
    ("attr_exists", |call, args| {
        let (name, wanted) = (Args(args).bytes_of(0), Args(args).bytes_of(1));
        let found = fields(call, "attr_exists")?.named(name).any(|field| attr::get(&field.value, wanted).is_some());
        give(Value::Bool(found))
    }),
    ("attr_set", |call, args| {
        let (name, mut attr, mut value) =
            (Args(args).bytes_of(0), Args(args).bytes_of(1), Args(args).text(2).map(|v| &v[..]));
        if let (None, Some(at)) = (value, memchr::memchr(b'=', attr)) {
            (attr, value) = (&attr[..at], Some(&attr[at + 1..]));
        }
        if attr.is_empty() || attr.iter().any(|b| b",;=\"".contains(b)) {
            return fail(format!("headerplus.attr_set(): \"{}\" is no name of an attribute", attr.escape_ascii()));
        }
        let fields = fields(call, "attr_set")?;
        let has = fields.named(name).any(|field| attr::get(&field.value, attr).is_some());
        let mut found = false;
        for field in fields.named(name).filter(|field| !has || attr::get(&field.value, attr).is_some()).take(1) {
            (field.value, found) = (attr::set(&field.value, attr, value), true);
        }
        if !found {
            fields.list.push(Field::added(name, &attr::set(b"", attr, value), false));
        }
        give(Value::Void)
    }),
    ("attr_delete", |call, args| {
        let (name, attr) = (Args(args).bytes_of(0), Args(args).bytes_of(1));
        let fields = fields(call, "attr_delete")?;
        fields.named(name).for_each(|field| field.value = attr::delete(&field.value, attr));
        fields.delete(|field| field.is(name) && field.value.is_empty() && !field.is_unchanged());
        give(Value::Void)
    }),
];

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

fn fields<'a>(call: &'a mut Call<'_>, who: &str) -> Result<&'a mut Fields, Failure> {
    let state = &mut call.ctx.task().get::<State>().0;
    state.as_mut().ok_or_else(|| Failure::new(format!("headerplus.{who}(): init() comes first")))
}

/// Which of the fields have names that match the first argument.
fn matching(call: &mut Call<'_>, who: &str, args: &[Value]) -> Result<Vec<bool>, Failure> {
    let regex = pattern::compile(call, &format!("headerplus.{who}()"), Args(args).bytes_of(0))?;
    let list = &fields(call, who)?.list;
    list.iter().map(|field| regex.is_match(&field.name).map_err(gave_up)).collect()
}

fn collapse(call: &mut Call<'_>, which: &[bool], name: &[u8], separator: &[u8]) -> CallResult {
    let fields = fields(call, "collapse")?;
    let joined: Vec<&Field> = fields.list.iter().zip(which).filter(|(_, is)| **is).map(|(field, _)| field).collect();
    if joined.is_empty() {
        return give(Value::Void);
    }
    let is_kept = joined.iter().any(|field| field.is_kept);
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
    let (kind, separator, join, case) =
        (Args(args).word(0), Args(args).bytes_of(1), Args(args).bytes_of(2), Args(args).word(3));
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
    let list: Vec<Vec<u8>> = fields(call, "as_list")?.left().map(one).collect();
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
