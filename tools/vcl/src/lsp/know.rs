// SPDX-License-Identifier: BSD-2-Clause
//! Information about names: the language's own from the tables, all others from the texts that belong together.

use tables::dialects::{BARE, Dialect, OLD_VARS, OldSub, OldVar};
use tables::vclsubs::{Method, Methods, Return};
use tables::vcltext;
use tables::vclvars::{NameTarget, Type, VARS, VarDef};
use tables::vmods::{self, Func};
use vcl::outline::{BACKEND_FIELDS, CursorContext, Declaration, DeclarationKind, PROBE_FIELDS};

use crate::modules;
use crate::texts::OpenText;

/// A completion. `kind` is the protocol's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub label: String,
    pub detail: String,
    pub text: String,
    pub kind: u8,
}

const METHOD: u8 = 2;
const FUNCTION: u8 = 3;
const VARIABLE: u8 = 6;
const CLASS: u8 = 7;
const MODULE: u8 = 9;
const PROPERTY: u8 = 10;
const KEYWORD: u8 = 14;
const CONSTANT: u8 = 21;

pub(super) fn declaration<'a>(parts: &'a [OpenText], name: &str) -> Option<(&'a OpenText, &'a Declaration)> {
    parts.iter().find_map(|part| part.outline.declarations.iter().find(|d| d.name == name).map(|d| (part, d)))
}

fn code(code: &str, text: &str) -> String {
    format!("```vcl\n{code}\n```\n{text}")
}

/// Markdown for the name at `location`. `dialect` is that of an old text.
pub(super) fn hover(
    parts: &[OpenText],
    dialect: Option<Dialect>,
    name: &str,
    location: &CursorContext,
) -> Option<String> {
    if let Some(field) = name.strip_prefix('.') {
        let text = vcltext::field(field);
        let is_known = !text.is_empty() && location.sub.is_none();
        return is_known.then(|| code(&format!(".{field} = ...;"), text));
    }
    if let Some(shown) = dialect.and_then(|dialect| hover_old(dialect, name, location)) {
        return Some(shown);
    }
    if location.before.ends_with(&["return".to_owned(), "(".to_owned()])
        && let Some(action) = Return::ALL.into_iter().find(|a| a.name() == name)
    {
        let places: Vec<_> = action.methods().iter().map(Method::sub_name).collect();
        return Some(code(
            &format!("return ({name})"),
            &format!("{}\n\nIn {}.", vcltext::action(action), places.join(", ")),
        ));
    }
    if let Some(var) = variable(name) {
        let shown = format!("{name}: {}", var.ty.name());
        return Some(code(&shown, &format!("{}\n\n{}", vcltext::variable(var.name), places(var))));
    }
    if let Some((function, shown)) = function(parts, name) {
        let scope = if function.scope == Methods::ALL {
            String::new()
        } else {
            format!("\n\nWorks in {}.", subs(function.scope))
        };
        return Some(code(&shown, &format!("{}{scope}", function.text)));
    }
    if let Some((module, object)) = class(parts, name) {
        let args = arguments(object.args);
        return Some(code(&format!("new NAME = {}.{}({args})", module.name, object.name), object.text));
    }
    if let Some(method) = Method::ALL.into_iter().find(|m| m.sub_name() == name) {
        let returns: Vec<_> = method.returns().iter().map(|r| r.name()).collect();
        return Some(code(
            &format!("sub {name}"),
            &format!("{}\n\nReturns {}.", vcltext::method(method), returns.join(", ")),
        ));
    }
    if let Some((part, declaration)) = declaration(parts, name) {
        let whole = String::from_utf8_lossy(&part.text[declaration.whole.clone()]);
        let mut lines: Vec<&str> = whole.lines().take(12).collect();
        if whole.lines().count() > lines.len() {
            lines.push("...");
        }
        let module =
            (declaration.kind == DeclarationKind::Import).then(|| modules::all().find(&declaration.of)).flatten();
        return Some(code(&lines.join("\n"), module.map_or("", |module| module.text)));
    }
    let (_, form, text) = vcltext::STATEMENTS.iter().find(|(word, ..)| *word == name)?;
    Some(code(form, text))
}

/// Like [`hover`], for names that only an old dialect has.
fn hover_old(dialect: Dialect, name: &str, location: &CursorContext) -> Option<String> {
    let release = format!("VCL {}", dialect.name());
    let returned = location.before.ends_with(&["return".to_owned(), "(".to_owned()]);
    if returned || BARE.contains(&name) && location.before.is_empty() && location.sub.is_some() {
        let subs: Vec<_> =
            OldSub::ALL.into_iter().filter(|sub| sub.returns(dialect).contains(&name)).map(OldSub::name).collect();
        let text = vcltext::old_action(name);
        return (!subs.is_empty())
            .then(|| code(&format!("return ({name})"), &format!("{text}\n\n{release}: in {}.", subs.join(", "))));
    }
    if let Some(var) = OldVar::find(name).filter(|var| var.exists(dialect)) {
        let new = [var.client, var.backend, var.synth].into_iter().find(|new| !new.is_empty()).unwrap_or_default();
        let text = vcltext::variable(new.trim_end_matches('.'));
        let said = [("Read", false), ("Set", true)].map(|(what, write)| match var.places(dialect, write) {
            places if places.is_empty() => String::new(),
            places => format!("{what} in {}.  \n", places.join(", ")),
        });
        let now = if new == var.name || new.is_empty() { String::new() } else { format!("\nSince 4.0: `{new}`.") };
        return Some(code(name, &format!("{text}\n\n{release}: {}{now}", said.concat())));
    }
    if let Some(sub) = OldSub::ALL.into_iter().find(|sub| sub.name() == name) {
        let method = match sub {
            OldSub::Fetch => Some(Method::BackendResponse),
            OldSub::Error => Some(Method::Synth),
            _ => Method::ALL.into_iter().find(|m| m.sub_name() == name),
        };
        let text = method.map_or("", vcltext::method);
        return Some(code(
            &format!("sub {name}"),
            &format!("{text}\n\n{release}: returns {}.", sub.returns(dialect).join(", ")),
        ));
    }
    let (_, form, text) =
        vcltext::OLD_STATEMENTS.iter().find(|(word, ..)| *word == name && location.before.is_empty())?;
    Some(code(form, text))
}

pub(super) fn complete(
    parts: &[OpenText],
    dialect: Option<Dialect>,
    typed: &str,
    location: &CursorContext,
) -> Vec<Item> {
    if location.in_string || location.in_comment {
        return Vec::new();
    }
    let before: Vec<&str> = location.before.iter().map(String::as_str).collect();
    let method = location.sub.as_deref().and_then(|name| Method::ALL.into_iter().find(|m| m.sub_name() == name));
    let here = method.map_or(Methods::ALL, Method::set);
    let old = dialect.and_then(|dialect| complete_old(parts, dialect, &before, location));
    let mut items = match before.as_slice() {
        _ if old.is_some() => old.unwrap_or_default(),
        [.., "return", "("] => actions(here),
        ["call"] => declared(parts, &[DeclarationKind::Sub]),
        ["import"] => importable(),
        ["new", _, "="] => classes(parts),
        ["sub"] => machine_subs(dialect),
        ["set"] => variables(|var| var.write, here),
        ["unset"] => variables(|var| var.unset, here),
        [] if location.block == Some(DeclarationKind::Backend) => fields(&BACKEND_FIELDS),
        [] if location.block == Some(DeclarationKind::Probe) => fields(&PROBE_FIELDS),
        [] if location.sub.is_some() => [statements(true), functions(parts)].concat(),
        [] => statements(false),
        _ if location.sub.is_some() => [
            variables(|var| var.read, here),
            functions(parts),
            declared(parts, &[DeclarationKind::Acl, DeclarationKind::Backend]),
            ["true", "false", "regsub(", "regsuball("].map(keyword).to_vec(),
        ]
        .concat(),
        [".", ..] if location.block == Some(DeclarationKind::Backend) => declared(parts, &[DeclarationKind::Probe]),
        _ => Vec::new(),
    };
    items.extend(heads(&items).iter().flat_map(|head| fields_used(parts, head, typed)).collect::<Vec<_>>());
    let begins = |label: &str| label.get(..typed.len()).is_some_and(|head| head.eq_ignore_ascii_case(typed));
    items.retain(|item| begins(&item.label));
    items.sort_by(|a, b| a.label.cmp(&b.label));
    items.dedup_by(|a, b| a.label == b.label);
    items
}

/// Like [`complete`], for the words of an old dialect.
fn complete_old(parts: &[OpenText], dialect: Dialect, before: &[&str], location: &CursorContext) -> Option<Vec<Item>> {
    let sub = location.sub.as_deref().and_then(|name| OldSub::ALL.into_iter().find(|sub| sub.name() == name));
    let vars = |write: bool| {
        let here = |var: &&OldVar| match sub {
            Some(sub) => var.has(dialect, sub, write),
            None => !var.places(dialect, write).is_empty(),
        };
        let item =
            |var: &OldVar| Item { kind: VARIABLE, detail: format!("VCL {}", dialect.name()), ..keyword(var.name) };
        OLD_VARS.iter().filter(here).map(item).collect::<Vec<_>>()
    };
    Some(match before {
        [.., "return", "("] => {
            let all: Vec<&str> = match sub {
                Some(sub) => sub.returns(dialect).to_vec(),
                None => OldSub::ALL.into_iter().flat_map(|sub| sub.returns(dialect)).copied().collect(),
            };
            let item =
                |word: &str| Item { kind: CONSTANT, text: vcltext::old_action(word).to_owned(), ..keyword(word) };
            all.into_iter().map(item).collect()
        }
        ["set"] => vars(true),
        ["unset" | "remove"] => vars(true).into_iter().filter(|item| item.label.ends_with('.')).collect(),
        [] if location.sub.is_some() => {
            let bare = BARE.iter().filter(|_| dialect == Dialect::V20).map(|word| keyword(word)).collect();
            let old = vcltext::OLD_STATEMENTS.iter().map(statement).collect();
            [statements(true), old, bare, functions(parts)].concat()
        }
        ["import"] | ["call"] | ["sub"] | [] | ["new", ..] => return None,
        _ if location.sub.is_some() => [
            vars(false),
            functions(parts),
            declared(parts, &[DeclarationKind::Acl, DeclarationKind::Backend, DeclarationKind::Director]),
            ["true", "false", "regsub(", "regsuball("].map(keyword).to_vec(),
        ]
        .concat(),
        _ => return None,
    })
}

/// Prefixes of headers that are valid here: `req.http.`.
fn heads(items: &[Item]) -> Vec<String> {
    let all = items.iter().filter(|item| item.kind == VARIABLE && item.label.ends_with(".http."));
    all.map(|item| item.label.clone()).collect()
}

const COMMON_FIELDS: [&str; 22] = [
    "Accept",
    "Accept-Encoding",
    "Accept-Language",
    "Age",
    "Authorization",
    "Cache-Control",
    "Content-Length",
    "Content-Type",
    "Cookie",
    "ETag",
    "Expires",
    "Host",
    "Last-Modified",
    "Location",
    "Referer",
    "Server",
    "Set-Cookie",
    "User-Agent",
    "Vary",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
];

/// Headers after a typed `head`: those in the texts, and common ones.
fn fields_used(parts: &[OpenText], head: &str, typed: &str) -> Vec<Item> {
    if !typed.get(..head.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(head)) {
        return Vec::new();
    }
    let named = parts.iter().flat_map(|part| {
        let names = part.outline.names(&part.text).into_iter();
        names.filter_map(|name| String::from_utf8(part.text[name.at].to_vec()).ok())
    });
    let mut fields: Vec<String> = COMMON_FIELDS.map(str::to_owned).to_vec();
    for name in named {
        if let Some((_, field)) = name.split_once(".http.")
            && !field.eq_ignore_ascii_case(&typed[head.len()..])
            && !fields.iter().any(|known| known.eq_ignore_ascii_case(field))
        {
            fields.push(field.to_owned());
        }
    }
    fields.iter().map(|field| Item { kind: PROPERTY, ..keyword(&format!("{head}{field}")) }).collect()
}

fn machine_subs(dialect: Option<Dialect>) -> Vec<Item> {
    let item = |name: &str| Item { kind: FUNCTION, ..keyword(name) };
    match dialect {
        Some(_) => OldSub::ALL.into_iter().map(|sub| item(sub.name())).collect(),
        None => Method::ALL
            .into_iter()
            .map(|method| Item { text: vcltext::method(method).to_owned(), ..item(method.sub_name()) })
            .collect(),
    }
}

/// A function's signature, the ranges of its parameters with their names, and its description.
pub(super) struct Signature {
    pub label: String,
    pub params: Vec<(std::ops::Range<usize>, String)>,
    pub text: &'static str,
}

/// The signature of the function, class or statement `name`.
pub(super) fn signature(parts: &[OpenText], name: &str) -> Option<Signature> {
    let (head, args, text) = if let Some((function, _)) = function(parts, name) {
        (format!("{} {name}", function.ret.name()), function.args, function.text)
    } else if let Some((_, object)) = class(parts, name) {
        (format!("new NAME = {name}"), object.args, object.text)
    } else {
        return spelled(name);
    };
    let (mut label, mut params) = (format!("{head}("), Vec::new());
    for arg in args {
        if !params.is_empty() {
            label.push_str(", ");
        }
        let start = label.len();
        label.push_str(&arguments(std::slice::from_ref(arg)));
        params.push((start..label.len(), arg.name.to_owned()));
    }
    label.push(')');
    Some(Signature { label, params, text })
}

/// The signature of a function of the language, from its syntax.
fn spelled(name: &str) -> Option<Signature> {
    let forms = vcltext::STATEMENTS.iter().map(|(word, form, text)| (*word, *form, *text));
    let (_, form, text) = forms
        .chain(vcltext::RETURNED)
        .find(|(word, form, _)| *word == name && form.starts_with(&format!("{name}(")))?;
    let (mut at, mut params) = (name.len() + 1, Vec::new());
    for part in form[at..].trim_end_matches(')').split(", ") {
        params.push((at..at + part.len(), String::new()));
        at += part.len() + 2;
    }
    Some(Signature { label: form.to_owned(), params, text })
}

fn keyword(word: &str) -> Item {
    Item { label: word.to_owned(), detail: String::new(), text: String::new(), kind: KEYWORD }
}

fn variable(name: &str) -> Option<&'static VarDef> {
    // The newest version's, if there are several.
    VARS.iter().rev().find(|var| match var.place {
        NameTarget::Scalar(_) => var.name == name,
        NameTarget::Headers(_) => {
            name.strip_prefix(var.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
    })
}

fn subs(methods: Methods) -> String {
    if methods == Methods::ALL {
        return "every subroutine".to_owned();
    }
    methods.iter().map(Method::sub_name).collect::<Vec<_>>().join(", ")
}

fn places(var: &VarDef) -> String {
    let all = [("Read", var.read), ("Set", var.write), ("Unset", var.unset)];
    let said = all
        .iter()
        .filter(|(_, methods)| !methods.is_empty())
        .map(|(what, methods)| format!("{what} in {}.", subs(*methods)));
    said.collect::<Vec<_>>().join("  \n")
}

fn arguments(args: &[vmods::VmodArg]) -> String {
    let one = |arg: &vmods::VmodArg| {
        let mut text = arg.ty.name().to_owned();
        if arg.ty == Type::Enum {
            text = format!("{{{}}}", arg.values.join(", "));
        }
        if !arg.name.is_empty() {
            text = format!("{text} {}", arg.name);
        }
        if arg.may_be_left_out() { format!("[{text}]") } else { text }
    };
    args.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The imported modules, by the names they have here.
fn imports(parts: &[OpenText]) -> impl Iterator<Item = (&str, &'static vmods::Module)> {
    let all = parts.iter().flat_map(|part| &part.outline.declarations).filter(|d| d.kind == DeclarationKind::Import);
    all.filter_map(|d| Some((d.name.as_str(), modules::all().find(&d.of)?)))
}

/// The objects and their types, by name.
fn objects(parts: &[OpenText]) -> impl Iterator<Item = (&str, &'static vmods::VmodObjectType)> {
    let all = parts.iter().flat_map(|part| &part.outline.declarations).filter(|d| d.kind == DeclarationKind::Object);
    all.filter_map(|d| Some((d.name.as_str(), class(parts, &d.of)?.1)))
}

fn class(parts: &[OpenText], name: &str) -> Option<(&'static vmods::Module, &'static vmods::VmodObjectType)> {
    let (alias, object) = name.split_once('.')?;
    let (_, module) = imports(parts).find(|(name, _)| *name == alias)?;
    Some((module, module.object(object)?))
}

/// A module's function or an object's method, with its full name.
fn function(parts: &[OpenText], name: &str) -> Option<(&'static Func, String)> {
    let (owner, last) = name.rsplit_once('.')?;
    let found = imports(parts).find(|(alias, _)| *alias == owner).and_then(|(_, module)| module.function(last));
    let found = found
        .or_else(|| objects(parts).find(|(object, _)| *object == owner).and_then(|(_, object)| object.method(last)));
    found.map(|function| (function, shown(name, function)))
}

fn shown(name: &str, function: &Func) -> String {
    format!("{} {name}({})", function.ret.name(), arguments(function.args))
}

fn functions(parts: &[OpenText]) -> Vec<Item> {
    let item = |owner: &str, function: &Func, kind| {
        let label = format!("{owner}.{}", function.name);
        Item { detail: shown(&label, function), label, text: function.text.to_owned(), kind }
    };
    let of_modules =
        imports(parts).flat_map(|(alias, module)| module.functions.iter().map(move |f| item(alias, f, FUNCTION)));
    let of_objects =
        objects(parts).flat_map(|(name, object)| object.methods.iter().map(move |f| item(name, f, METHOD)));
    of_modules.chain(of_objects).collect()
}

fn classes(parts: &[OpenText]) -> Vec<Item> {
    let item = |alias: &str, object: &vmods::VmodObjectType| {
        let label = format!("{alias}.{}", object.name);
        Item {
            detail: format!("{label}({})", arguments(object.args)),
            label,
            text: object.text.to_owned(),
            kind: CLASS,
        }
    };
    imports(parts).flat_map(|(alias, module)| module.objects.iter().map(move |object| item(alias, object))).collect()
}

fn importable() -> Vec<Item> {
    let item = |module: &vmods::Module| Item {
        label: module.name.to_owned(),
        detail: format!("vmod_{}", module.name),
        text: module.text.to_owned(),
        kind: MODULE,
    };
    modules::all().iter().map(item).collect()
}

fn actions(here: Methods) -> Vec<Item> {
    let allowed = |action: &Return| !action.methods().and(here).is_empty();
    let item = |action: Return| Item {
        label: action.name().to_owned(),
        detail: format!("return ({})", action.name()),
        text: vcltext::action(action).to_owned(),
        kind: CONSTANT,
    };
    Return::ALL.into_iter().filter(allowed).map(item).collect()
}

fn variables(access: impl Fn(&VarDef) -> Methods, here: Methods) -> Vec<Item> {
    let item = |var: &VarDef| Item {
        label: if matches!(var.place, NameTarget::Headers(_)) { format!("{}.", var.name) } else { var.name.to_owned() },
        detail: var.ty.name().to_owned(),
        text: format!("{}\n\n{}", vcltext::variable(var.name), places(var)),
        kind: VARIABLE,
    };
    VARS.iter().filter(|var| !access(var).and(here).is_empty()).map(item).collect()
}

fn declared(parts: &[OpenText], kinds: &[DeclarationKind]) -> Vec<Item> {
    let all = parts.iter().flat_map(|part| part.outline.declarations.iter().map(move |d| (part, d)));
    let item = |(part, d): (&OpenText, &Declaration)| Item {
        label: d.name.clone(),
        detail: format!("{} {}", d.kind.word(), d.name),
        text: format!("In {}.", part.path),
        kind: if d.kind == DeclarationKind::Sub { FUNCTION } else { CONSTANT },
    };
    all.filter(|(_, d)| kinds.contains(&d.kind)).map(item).collect()
}

fn statements(in_sub: bool) -> Vec<Item> {
    const TOP: [&str; 7] = ["acl", "backend", "import", "include", "probe", "sub", "vcl"];
    let wanted =
        vcltext::STATEMENTS.iter().filter(|(word, ..)| TOP.contains(word) != in_sub && !word.starts_with("regsub"));
    wanted.map(statement).collect()
}

fn statement((word, form, text): &(&str, &str, &str)) -> Item {
    Item { detail: (*form).to_owned(), text: (*text).to_owned(), ..keyword(word) }
}

fn fields(names: &[&str]) -> Vec<Item> {
    let item =
        |name: &&str| Item { kind: PROPERTY, text: vcltext::field(name).to_owned(), ..keyword(&format!(".{name}")) };
    names.iter().map(item).collect()
}
