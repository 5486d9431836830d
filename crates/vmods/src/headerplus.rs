// SPDX-License-Identifier: BSD-2-Clause
//! vmod_headerplus: a copy of a head's fields that a task works on until write() makes the changes. Changes are found by the lines as
//! they were, so that what VCL set on the head since then stays. What its documentation leaves open: attributes are parted by commas
//! and semicolons outside quotes unless told otherwise, a missing one is unset rather than empty, and a prefix or suffix goes to the
//! name as a whole.

use std::sync::Arc;

use vcl_regex::{MatchError, Regex};
use vrt::fields::{append_field, remove_line, replace_line};
use vrt::vmod::{BOOL, CallResult, INT, STRING, VOID, VmodCall, give};
use vrt::{HeadId, Text, VclFailure};

use crate::support::pattern;
use vmod_support::args::{fail, gave_up};

mod attr;

vrt::words! {
    enum Which { Both = "BOTH", Name = "NAME", Value = "VALUE" }
}

vrt::words! {
    enum NameCase { None = "NONE", Upper = "UPPER", Lower = "LOWER" }
}

vrt::words! {
    enum How { First = "FIRST", Update = "UPDATE", All = "ALL" }
}

vrt::vmod! {
    /// The headers of a message by name or pattern, and the attributes in their values. init() selects and reads the
    /// message; later changes take effect with write(). Attributes are NAME or NAME=VALUE, separated by commas or
    /// semicolons; hdr_delim sets other separators, attr_delim another string than the equals sign. Names and their
    /// patterns ignore case. Quoted values are returned without quotes
    pub(crate) static VMOD = headerplus;

    functions {
        /// Reads the headers of req, bereq, beresp or resp
        fn init(head: HTTP) -> VOID, local = |call: &mut VmodCall<'_>, head: HeadId| init(call, head);

        /// Same as init(req), or init(bereq) on the backend side
        fn init_req() -> VOID, local = |call: &mut VmodCall<'_>| init_first(call, [HeadId::Req, HeadId::Bereq]);

        /// Same as init(resp), or init(beresp) on the backend side
        fn init_resp() -> VOID, local = |call: &mut VmodCall<'_>| init_first(call, [HeadId::Resp, HeadId::Beresp]);

        /// Reads the headers again and discards all changes
        fn reset() -> VOID, local = reset;

        /// Writes the changes to the message. Headers that VCL has set itself since init() are kept
        fn write() -> VOID, local = write;

        /// Adds a header, which counts as kept unless keep is false
        fn add(name: STRING, value: STRING, keep: BOOL = true) -> VOID, local = add;

        /// Replaces all headers of that name by one
        fn set(name: STRING, value: STRING, keep: BOOL = true) -> VOID, local = headerplus_set;

        /// Appends delim and the value to the first header of that name, or to all of them; creates one if there is none
        fn append(name: STRING, value: STRING, delim: STRING = ", ", all: BOOL = false, keep: BOOL = true) -> VOID, local
            = append;

        /// Returns the value of the first header of that name; with value_re, of the first one whose value matches
        fn get(name: STRING, value_re: [STRING], def: STRING = null) -> STRING, local = headerplus_get;

        /// Returns the value of the first header whose name matches, as get
        fn get_regex(name_re: STRING, value_re: [STRING], def: STRING = null) -> STRING, local = get_regex;

        /// Returns the name of the first header whose name and value match
        fn get_name_regex(name_re: [STRING], value_re: [STRING]) -> STRING, local = get_name_regex;

        /// Deletes the headers of that name; kept ones only with delete_keep
        fn delete(name: STRING, delete_keep: BOOL = false) -> VOID, local = headerplus_delete;

        /// Deletes the headers whose names match
        fn delete_regex(name_re: STRING, delete_keep: BOOL = false) -> VOID, local = delete_regex;

        /// Keeps the headers of that name. Only kept headers are written from now on
        fn keep(name: STRING) -> VOID, local = keep;

        /// Keeps the headers whose names match, as keep
        fn keep_regex(name_re: STRING) -> VOID, local = keep_regex;

        /// Renames the headers of one name; without remove, adds renamed copies
        fn rename(name: STRING, new_name: STRING, remove: BOOL = true) -> VOID, local = headerplus_rename;

        /// Replaces the first match or all matches in names; without remove, adds changed copies
        fn regsub_name(name_re: STRING, sub: STRING, all: BOOL = false, remove: BOOL = true) -> VOID, local = regsub_name;

        /// Replaces the first match or all matches in the values of headers whose names match
        fn regsub_value(name_re: STRING, value_re: STRING, sub: STRING, all: BOOL = false) -> VOID, local = regsub_value;

        /// Adds a prefix to the names that match; without remove, adds prefixed copies
        fn prefix(name_re: STRING, prefix: STRING, remove: BOOL = true) -> VOID, local = prefix;

        /// Adds a suffix to the names that match; without remove, adds suffixed copies
        fn suffix(name_re: STRING, suffix: STRING, remove: BOOL = true) -> VOID, local = suffix;

        /// Joins the headers of that name into one, with another name if given
        fn collapse(name: STRING, new_name: [STRING], delim: STRING = ", ", keep: BOOL = true) -> VOID, local
            = headerplus_collapse;

        /// Joins the headers whose names match into one of the given name
        fn collapse_regex(name_re: STRING, new_name: STRING, delim: STRING = ", ", keep: BOOL = true) -> VOID, local
            = collapse_regex;

        /// Splits the headers of that name into one header per part
        fn split(name: STRING, delim: STRING = ", ") -> VOID, local = split;

        /// Returns the number of remaining headers of that name, or of all headers
        fn count(name: [STRING]) -> INT, local = count;

        /// Returns the number of remaining headers whose names match
        fn count_regex(name_re: STRING) -> INT, local = count_regex;

        /// Returns the names, values, or both (separated by value_delim) of the remaining headers, sorted by bytes unless
        /// told otherwise
        fn as_list(
            which: Which = Both, hdr_delim: STRING = ", ", value_delim: STRING = ": ", sort: BOOL = true,
            name_case: NameCase = None
        ) -> STRING, local = as_list;

        /// Returns the value of an attribute; empty if it has none
        fn attr_get(
            name: STRING, attr: STRING, hdr_delim: [STRING], attr_delim: STRING = "=", def: STRING = null
        ) -> STRING, local = attr_get;

        /// Returns whether the attribute exists
        fn attr_exists(name: STRING, attr: STRING, hdr_delim: [STRING], attr_delim: STRING = "=") -> BOOL, local = attr_exists;

        /// Returns the number of attributes in the headers of that name
        fn attr_count(name: STRING, hdr_delim: [STRING], attr_delim: STRING = "=") -> INT, local = attr_count;

        /// Sets an attribute in the first header that has it, in each that has it (UPDATE), or in all of that name (ALL).
        /// If none has it, the first header gets it; it is created if needed. attr may be NAME=VALUE
        fn attr_set(
            name: STRING, attr: STRING, value: STRING = null, hdr_delim: [STRING], attr_delim: STRING = "=",
            how: How = First
        ) -> VOID, local = attr_set;

        /// Deletes an attribute from the first header that has it, or from all; a header without other attributes is
        /// removed
        fn attr_delete(
            name: STRING, attr: STRING, hdr_delim: [STRING], all: BOOL = false, attr_delim: STRING = "="
        ) -> VOID, local = attr_delete;
    }

    left_out {
        "headerplus.as_json" => "headerplus.as_list";
        "headerplus.from_json" => "headerplus.add, for each field";
        "headerplus.reset_req" => "std.rollback(req) or std.rollback(bereq)";
        "headerplus.write_req0" => "headerplus.write";
    }
}

fn reset(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    let id = fields(call, "reset")?.head;
    init(call, id)
}

fn add(call: &mut VmodCall<'_>, name: &[u8], value: &[u8], keep: bool) -> CallResult<VOID> {
    let added = Field::added(name, value, keep);
    fields(call, "add")?.list.push(added);
    give(())
}

fn headerplus_set(call: &mut VmodCall<'_>, name: &[u8], value: &[u8], is_kept: bool) -> CallResult<VOID> {
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
    give(())
}

fn append(
    call: &mut VmodCall<'_>,
    name: &[u8],
    value: &[u8],
    separator: &[u8],
    all: bool,
    is_kept: bool,
) -> CallResult<VOID> {
    let fields = fields(call, "append")?;
    let mut found = false;
    for field in fields.named(name).take(if all { usize::MAX } else { 1 }) {
        (field.value, found) = ([&field.value, separator, value].concat(), true);
    }
    if !found {
        fields.list.push(Field::added(name, value, is_kept));
    }
    give(())
}

fn headerplus_get(
    call: &mut VmodCall<'_>,
    name: &[u8],
    value_re: Option<&[u8]>,
    def: Option<&Text>,
) -> CallResult<STRING> {
    let found = find(call, "get", &|field| Ok(field.is(name)), value_re)?;
    give(found.map_or_else(|| def.cloned(), |field| Some(field.value.into())))
}

fn get_regex(
    call: &mut VmodCall<'_>,
    name_re: &[u8],
    value_re: Option<&[u8]>,
    def: Option<&Text>,
) -> CallResult<STRING> {
    let names = names(call, "get_regex", name_re)?;
    let found = find(call, "get_regex", &|field| names.is_match(&field.name), value_re)?;
    give(found.map_or_else(|| def.cloned(), |field| Some(field.value.into())))
}

fn get_name_regex(call: &mut VmodCall<'_>, name_re: Option<&[u8]>, value_re: Option<&[u8]>) -> CallResult<STRING> {
    let names = match name_re {
        Some(pattern) => Some(names(call, "get_name_regex", pattern)?),
        None => None,
    };
    let is = |field: &Field| names.as_ref().map_or(Ok(true), |names| names.is_match(&field.name));
    let found = find(call, "get_name_regex", &is, value_re)?;
    give(found.map(|field| field.name))
}

fn headerplus_delete(call: &mut VmodCall<'_>, name: &[u8], all: bool) -> CallResult<VOID> {
    fields(call, "delete")?.delete(|field| field.is(name) && (all || !field.is_kept));
    give(())
}

fn delete_regex(call: &mut VmodCall<'_>, name_re: &[u8], all: bool) -> CallResult<VOID> {
    let matches = matching(call, "delete_regex", name_re)?;
    let mut at = 0;
    fields(call, "delete_regex")?.delete(|field| {
        at += 1;
        matches[at - 1] && (all || !field.is_kept)
    });
    give(())
}

fn keep(call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<VOID> {
    let fields = fields(call, "keep")?;
    fields.keeps = true;
    fields.list.iter_mut().filter(|field| field.is(name)).for_each(|field| field.is_kept = true);
    give(())
}

fn keep_regex(call: &mut VmodCall<'_>, name_re: &[u8]) -> CallResult<VOID> {
    let matches = matching(call, "keep_regex", name_re)?;
    let fields = fields(call, "keep_regex")?;
    fields.keeps = true;
    fields.list.iter_mut().zip(matches).for_each(|(field, matches)| field.is_kept |= matches);
    give(())
}

fn headerplus_rename(call: &mut VmodCall<'_>, name: &[u8], new: &[u8], remove: bool) -> CallResult<VOID> {
    let to = fields(call, "rename")?.list.iter().map(|field| field.is(name).then(|| new.to_vec())).collect();
    rename(call, "rename", to, remove)
}

fn regsub_name(call: &mut VmodCall<'_>, name_re: &[u8], with: &[u8], all: bool, remove: bool) -> CallResult<VOID> {
    let regex = names(call, "regsub_name", name_re)?;
    let one = |field: &Field| {
        let mut to = Vec::new();
        Ok(regex.sub(&field.name, with, all, &mut to).map_err(gave_up)?.then_some(to))
    };
    let to = fields(call, "regsub_name")?.list.iter().map(one).collect::<Result<_, VclFailure>>()?;
    rename(call, "regsub_name", to, remove)
}

fn regsub_value(call: &mut VmodCall<'_>, name_re: &[u8], value_re: &[u8], with: &[u8], all: bool) -> CallResult<VOID> {
    let names = names(call, "regsub_value", name_re)?;
    let regex = pattern::compile(call, "headerplus.regsub_value()", value_re)?;
    for field in &mut fields(call, "regsub_value")?.list {
        let mut to = Vec::new();
        if names.is_match(&field.name).map_err(gave_up)?
            && regex.sub(&field.value, with, all, &mut to).map_err(gave_up)?
        {
            field.value = to;
        }
    }
    give(())
}

fn prefix(call: &mut VmodCall<'_>, name_re: &[u8], prefix: &[u8], remove: bool) -> CallResult<VOID> {
    affix(call, "prefix", name_re, prefix, remove, |name, text| [text, name].concat())
}

fn suffix(call: &mut VmodCall<'_>, name_re: &[u8], suffix: &[u8], remove: bool) -> CallResult<VOID> {
    affix(call, "suffix", name_re, suffix, remove, |name, text| [name, text].concat())
}

fn headerplus_collapse(
    call: &mut VmodCall<'_>,
    name: &[u8],
    new_name: Option<&Text>,
    delim: &[u8],
    keep: bool,
) -> CallResult<VOID> {
    let matches = fields(call, "collapse")?.list.iter().map(|field| field.is(name)).collect::<Vec<_>>();
    let new = new_name.map_or(name, |new| new.as_bytes());
    collapse(call, &matches, new, delim, keep)
}

fn collapse_regex(
    call: &mut VmodCall<'_>,
    name_re: &[u8],
    new_name: &[u8],
    delim: &[u8],
    keep: bool,
) -> CallResult<VOID> {
    let matches = matching(call, "collapse_regex", name_re)?;
    collapse(call, &matches, new_name, delim, keep)
}

fn count(call: &mut VmodCall<'_>, name: Option<&[u8]>) -> CallResult<INT> {
    let count = fields(call, "count")?.left().filter(|field| name.is_none_or(|name| field.is(name))).count();
    give(count as i64)
}

fn count_regex(call: &mut VmodCall<'_>, name_re: &[u8]) -> CallResult<INT> {
    let matches = matching(call, "count_regex", name_re)?;
    let fields = fields(call, "count_regex")?;
    let is_left = |field: &Field| field.is_kept || !fields.keeps;
    let count = fields.list.iter().zip(matches).filter(|(field, matches)| *matches && is_left(field)).count();
    give(count as i64)
}

fn attr_get(
    call: &mut VmodCall<'_>,
    name: &[u8],
    wanted: &[u8],
    between: Option<&Text>,
    equals: &[u8],
    def: Option<&Text>,
) -> CallResult<STRING> {
    let form = form("attr_get", between, equals)?;
    let mut found = fields(call, "attr_get")?.named(name).filter_map(|field| form.get(&field.value, wanted));
    give(found.next().map(Text::from).or_else(|| def.cloned()))
}

fn attr_exists(
    call: &mut VmodCall<'_>,
    name: &[u8],
    wanted: &[u8],
    between: Option<&Text>,
    equals: &[u8],
) -> CallResult<BOOL> {
    let form = form("attr_exists", between, equals)?;
    let found = fields(call, "attr_exists")?.named(name).any(|field| form.get(&field.value, wanted).is_some());
    give(found)
}

fn attr_count(call: &mut VmodCall<'_>, name: &[u8], between: Option<&Text>, equals: &[u8]) -> CallResult<INT> {
    let form = form("attr_count", between, equals)?;
    let count: usize = fields(call, "attr_count")?.named(name).map(|field| form.places(&field.value).len()).sum();
    give(count as i64)
}

fn attr_delete(
    call: &mut VmodCall<'_>,
    name: &[u8],
    attr: &[u8],
    between: Option<&Text>,
    all: bool,
    equals: &[u8],
) -> CallResult<VOID> {
    let form = form("attr_delete", between, equals)?;
    let fields = fields(call, "attr_delete")?;
    let having = fields.named(name).filter(|field| form.get(&field.value, attr).is_some());
    for field in having.take(if all { usize::MAX } else { 1 }) {
        field.value = form.delete(&field.value, attr);
    }
    fields.delete(|field| field.is(name) && field.value.is_empty() && !field.is_unchanged());
    give(())
}

fn attr_set(
    call: &mut VmodCall<'_>,
    name: &[u8],
    mut attr: &[u8],
    value: Option<&Text>,
    between: Option<&Text>,
    equals: &[u8],
    how: How,
) -> CallResult<VOID> {
    let mut value = value.map(|value| &value[..]);
    let form = form("attr_set", between, equals)?;
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
        if how == How::All || has(field) || !any_has && !found {
            (field.value, found) = (form.set(&field.value, attr, value), true);
            if how == How::First {
                break;
            }
        }
    }
    if !found {
        fields.list.push(Field::added(name, &form.set(b"", attr, value), false));
    }
    give(())
}

/// The form of attributes in a call; `at` separates them, `equals` a name from its value.
fn form<'a>(who: &str, between: Option<&'a Text>, equals: &'a [u8]) -> Result<attr::Form<'a>, VclFailure> {
    let form = attr::Form { between: between.map(|text| &text[..]), equals };
    if form.equals.is_empty() || form.between.is_some_and(<[u8]>::is_empty) {
        return fail(format!("headerplus.{who}(): a delimiter must not be empty"));
    }
    Ok(form)
}

#[derive(Default)]
struct HeaderState(Option<Fields>);

#[derive(Debug)]
struct Fields {
    head: HeadId,
    list: Vec<Field>,
    deleted: Vec<Vec<u8>>,
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

fn init(call: &mut VmodCall<'_>, id: HeadId) -> CallResult<VOID> {
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
    call.ctx.task().get::<HeaderState>().0 = Some(Fields { head: id, list, deleted: Vec::new(), keeps: false });
    give(())
}

fn init_first(call: &mut VmodCall<'_>, ids: [HeadId; 2]) -> CallResult<VOID> {
    let id = ids.into_iter().find(|id| call.ctx.head(*id).is_some());
    init(call, id.unwrap_or(ids[0]))
}

fn fields<'a>(call: &'a mut VmodCall<'_>, who: &str) -> Result<&'a mut Fields, VclFailure> {
    let state = &mut call.ctx.task().get::<HeaderState>().0;
    state.as_mut().ok_or_else(|| VclFailure::new(format!("headerplus.{who}(): init() comes first")))
}

/// The first argument as a pattern of names, in any case.
fn names(call: &VmodCall<'_>, who: &str, name_re: &[u8]) -> Result<Arc<Regex>, VclFailure> {
    let any_case = [b"(?i)", name_re].concat();
    pattern::compile(call, &format!("headerplus.{who}()"), &any_case)
}

/// The first field that is left, is one of these and has a value that matches, if that is asked for.
fn find(
    call: &mut VmodCall<'_>,
    who: &str,
    is: &dyn Fn(&Field) -> Result<bool, MatchError>,
    value: Option<&[u8]>,
) -> Result<Option<Field>, VclFailure> {
    let values = match value {
        Some(pattern) => Some(pattern::compile(call, &format!("headerplus.{who}()"), pattern)?),
        None => None,
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
fn rename(call: &mut VmodCall<'_>, who: &str, to: Vec<Option<Vec<u8>>>, remove: bool) -> CallResult<VOID> {
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
    give(())
}

fn affix(
    call: &mut VmodCall<'_>,
    who: &str,
    name_re: &[u8],
    prefix: &[u8],
    remove: bool,
    join: fn(&[u8], &[u8]) -> Vec<u8>,
) -> CallResult<VOID> {
    let matches = matching(call, who, name_re)?;
    let (text, remove) = (prefix, remove);
    let list = &fields(call, who)?.list;
    let to = list.iter().zip(matches).map(|(field, matches)| matches.then(|| join(&field.name, text))).collect();
    rename(call, who, to, remove)
}

/// For each field, whether its name matches the first argument.
fn matching(call: &mut VmodCall<'_>, who: &str, name_re: &[u8]) -> Result<Vec<bool>, VclFailure> {
    let regex = names(call, who, name_re)?;
    let list = &fields(call, who)?.list;
    list.iter().map(|field| regex.is_match(&field.name).map_err(gave_up)).collect()
}

fn collapse(call: &mut VmodCall<'_>, which: &[bool], name: &[u8], separator: &[u8], keep: bool) -> CallResult<VOID> {
    let fields = fields(call, "collapse")?;
    let joined: Vec<&Field> = fields.list.iter().zip(which).filter(|(_, is)| **is).map(|(field, _)| field).collect();
    if joined.is_empty() {
        return give(());
    }
    let is_kept = keep || joined.iter().any(|field| field.is_kept);
    let value = joined.iter().map(|field| &field.value[..]).collect::<Vec<_>>().join(separator);
    let mut at = 0;
    fields.delete(|_| {
        at += 1;
        which[at - 1]
    });
    fields.list.push(Field::added(name, &value, is_kept));
    give(())
}

fn split(call: &mut VmodCall<'_>, name: &[u8], separator: &[u8]) -> CallResult<VOID> {
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
    give(())
}

fn as_list(
    call: &mut VmodCall<'_>,
    kind: Which,
    separator: &[u8],
    join: &[u8],
    sort: bool,
    case: NameCase,
) -> CallResult<STRING> {
    let one = |field: &Field| {
        let name = match case {
            NameCase::Lower => field.name.to_ascii_lowercase(),
            NameCase::Upper => field.name.to_ascii_uppercase(),
            NameCase::None => field.name.clone(),
        };
        match kind {
            Which::Name => name,
            Which::Value => field.value.clone(),
            Which::Both => [&name, join, &field.value].concat(),
        }
    };
    let mut list: Vec<Vec<u8>> = fields(call, "as_list")?.left().map(one).collect();
    if sort {
        list.sort();
    }
    give(list.join(separator))
}

fn write(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    fields(call, "write")?;
    let Some(fields) = call.ctx.task().get::<HeaderState>().0.take() else { return give(()) };
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
fn change(call: &mut VmodCall<'_>, id: HeadId, line: &[u8], to: Option<&[u8]>) -> Result<(), VclFailure> {
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
