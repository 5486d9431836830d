// SPDX-License-Identifier: BSD-2-Clause
//! Signatures of the VCL modules, as data. `import`, argument checks and documentation
//! come from here; crate `vmods` implements each entry and a test there checks that none is missing.
//!
//! As in 7.1 a call in the wrong subroutine is no compile error but fails when run; [`Func::scope`] says where it works.

mod accept;
mod accept_language;
mod aclplus;
mod activedns;
mod basicauth;
mod blob;
mod bodyaccess;
mod cookie;
mod cookieplus;
mod crypto;
mod debug;
mod digest;
mod directors;
mod dynamic;
mod edgestash;
mod file;
mod fileserver;
mod geoip;
mod geoip2;
mod goto;
mod header;
mod headerplus;
mod http;
mod json;
mod jwt;
mod kvstore;
mod math;
mod missing;
mod netmapper;
mod proxy;
mod purge;
mod querysort;
mod querystring;
mod re;
mod re2;
mod redis;
mod reqwest;
mod rers;
mod s3;
mod saintmode;
mod selector;
mod statsd;
mod std;
mod str;
mod synthbackend;
mod tcp;
mod udo;
mod unix;
mod urlplus;
mod utils;
mod uuid;
mod var;
mod vsthrottle;
mod vtc;
mod xbody;
mod xkey;
mod ykey;

use crate::vclvars::Methods;
pub use crate::vclvars::Type;
pub use missing::{LeftOut, MISSING, Missing};

/// What an argument is when the caller leaves it out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Default {
    /// `BOOL`
    Bool(bool),
    /// `INT` or `BYTES`
    Int(i64),
    /// `REAL`, or `DURATION` in seconds
    Real(f64),
    /// `STRING`
    Str(&'static str),
    /// `ENUM`
    Enum(&'static str),
    /// A `STRING`, `BLOB`, `BACKEND` or `IP` that is unset.
    Null,
}

/// One argument of a function, method or constructor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arg {
    /// What `name=value` calls it; empty: by position only.
    pub name: &'static str,
    /// Its type.
    pub ty: Type,
    /// May be left out; the implementation then sees that it was (`Value::Absent`) and knows itself what that means.
    pub optional: bool,
    /// May be left out; the compiler passes this instead.
    pub default: Option<Default>,
    /// The words of an `ENUM`.
    pub values: &'static [&'static str],
}

impl Arg {
    /// True when a call needn't give it.
    pub const fn may_be_left_out(&self) -> bool {
        self.optional || self.default.is_some()
    }

    pub(crate) const fn new(ty: Type, name: &'static str) -> Arg {
        Arg { name, ty, optional: false, default: None, values: &[] }
    }

    /// An argument without a name.
    pub(crate) const fn pos(ty: Type) -> Arg {
        Arg::new(ty, "")
    }

    pub(crate) const fn opt(self) -> Arg {
        Arg { optional: true, ..self }
    }

    pub(crate) const fn or(self, default: Default) -> Arg {
        Arg { default: Some(default), ..self }
    }

    pub(crate) const fn of(name: &'static str, values: &'static [&'static str]) -> Arg {
        Arg { name, ty: Type::Enum, optional: false, default: None, values }
    }
}

/// How a function may run. None may block a runtime's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The result depends on the arguments alone: the compiler may fold, share or drop the call.
    Pure,
    /// Reads or changes the transaction or a shared object; returns at once.
    Call,
    /// Returns a future; the machine waits on it.
    Waits,
    /// Runs on the bounded blocking pool; for the machine the same as [`Effect::Waits`].
    Blocks,
}

/// A function or method.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Func {
    /// Its name after the dot.
    pub name: &'static str,
    /// Type of its result; [`Type::Strands`] and [`Type::Enum`] never occur here.
    pub ret: Type,
    /// Arguments in order of position.
    pub args: &'static [Arg],
    /// Where the call works; elsewhere it fails the transaction.
    pub scope: Methods,
    /// How it runs.
    pub effect: Effect,
    /// What it does, in one line.
    pub text: &'static str,
}

impl Func {
    pub(crate) const fn new(ret: Type, name: &'static str, args: &'static [Arg], text: &'static str) -> Func {
        Func { name, ret, args, scope: Methods::ALL, effect: Effect::Call, text }
    }

    pub(crate) const fn pure(self) -> Func {
        Func { effect: Effect::Pure, ..self }
    }

    pub(crate) const fn waits(self) -> Func {
        Func { effect: Effect::Waits, ..self }
    }

    pub(crate) const fn blocks(self) -> Func {
        Func { effect: Effect::Blocks, ..self }
    }

    pub(crate) const fn only(self, scope: Methods) -> Func {
        Func { scope, ..self }
    }
}

/// A type of objects, made with `new` in `vcl_init`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Object {
    /// Its name after the dot.
    pub name: &'static str,
    /// Arguments of the constructor.
    pub args: &'static [Arg],
    /// Its methods.
    pub methods: &'static [Func],
    /// What it is, in one line.
    pub text: &'static str,
}

impl Object {
    /// The method called `name`.
    pub fn method(&self, name: &str) -> Option<&'static Func> {
        self.methods.iter().find(|method| method.name == name)
    }
}

/// A module that `import` finds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// Its functions.
    pub functions: &'static [Func],
    /// Its types of objects.
    pub objects: &'static [Object],
    /// What it is for, in one line.
    pub text: &'static str,
}

impl Module {
    /// The function called `name`.
    pub fn function(&self, name: &str) -> Option<&'static Func> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// The object type called `name`.
    pub fn object(&self, name: &str) -> Option<&'static Object> {
        self.objects.iter().find(|object| object.name == name)
    }
}

/// All modules, in order of name.
pub const MODULES: &[Module] = &[
    accept::MODULE,
    accept_language::MODULE,
    aclplus::MODULE,
    activedns::MODULE,
    basicauth::MODULE,
    blob::MODULE,
    bodyaccess::MODULE,
    cookie::MODULE,
    cookieplus::MODULE,
    crypto::MODULE,
    debug::MODULE,
    digest::MODULE,
    directors::MODULE,
    dynamic::MODULE,
    edgestash::MODULE,
    file::MODULE,
    fileserver::MODULE,
    geoip::MODULE,
    geoip2::MODULE,
    goto::MODULE,
    header::MODULE,
    headerplus::MODULE,
    http::MODULE,
    json::MODULE,
    jwt::MODULE,
    kvstore::MODULE,
    math::MODULE,
    netmapper::MODULE,
    proxy::MODULE,
    purge::MODULE,
    querysort::MODULE,
    querystring::MODULE,
    re::MODULE,
    re2::MODULE,
    redis::MODULE,
    reqwest::MODULE,
    rers::MODULE,
    s3::MODULE,
    saintmode::MODULE,
    selector::MODULE,
    statsd::MODULE,
    std::MODULE,
    str::MODULE,
    synthbackend::MODULE,
    tcp::MODULE,
    udo::MODULE,
    unix::MODULE,
    urlplus::MODULE,
    utils::MODULE,
    uuid::MODULE,
    var::MODULE,
    vsthrottle::MODULE,
    vtc::MODULE,
    xbody::MODULE,
    xkey::MODULE,
    ykey::MODULE,
];

/// Functions and methods of modules here that aren't built.
const LEFT_OUT: &[&[LeftOut]] = &[
    activedns::LEFT_OUT,
    cookieplus::LEFT_OUT,
    crypto::LEFT_OUT,
    digest::LEFT_OUT,
    dynamic::LEFT_OUT,
    file::LEFT_OUT,
    headerplus::LEFT_OUT,
    json::LEFT_OUT,
    jwt::LEFT_OUT,
    kvstore::LEFT_OUT,
    re::LEFT_OUT,
    redis::LEFT_OUT,
    s3::LEFT_OUT,
    std::LEFT_OUT,
    selector::LEFT_OUT,
    udo::LEFT_OUT,
    urlplus::LEFT_OUT,
    utils::LEFT_OUT,
    xbody::LEFT_OUT,
    ykey::LEFT_OUT,
];

/// What to use in the place of a function (`module.function`) or method (`module.object.method`) that isn't built.
pub fn left_out(name: &str) -> Option<&'static LeftOut> {
    LEFT_OUT.iter().flat_map(|of| of.iter()).find(|left| left.0 == name)
}

/// The module called `name`.
pub fn find(name: &str) -> Option<&'static Module> {
    MODULES.iter().find(|module| module.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = (&'static str, &'static [Arg], &'static str)> {
        MODULES.iter().flat_map(|m| {
            let functions = m.functions.iter().map(|f| (f.name, f.args, f.text));
            functions.chain(m.objects.iter().flat_map(|o| {
                let methods = o.methods.iter().map(|f| (f.name, f.args, f.text));
                methods.chain([(o.name, o.args, o.text)])
            }))
        })
    }

    #[test]
    fn enums_have_words_and_their_default_is_one() {
        for (name, args, _) in all() {
            for arg in args {
                assert_eq!(arg.ty == Type::Enum, !arg.values.is_empty(), "{name}");
                if let Some(Default::Enum(word)) = arg.default {
                    assert!(arg.values.contains(&word), "{name}");
                }
            }
        }
    }

    #[test]
    fn each_has_a_text_of_one_line_and_names_are_unique() {
        for (name, args, text) in all() {
            assert!(!text.is_empty() && !text.contains('\n') && !text.ends_with('.'), "{name}: {text}");
            for (i, arg) in args.iter().enumerate() {
                assert!(arg.name.is_empty() || !args[..i].iter().any(|other| other.name == arg.name), "{name}");
            }
        }
        for pair in MODULES.windows(2) {
            assert!(pair[0].name < pair[1].name);
        }
    }

    #[test]
    fn what_is_left_out_is_of_a_module_and_not_in_it() {
        for LeftOut(name, instead) in LEFT_OUT.iter().flat_map(|of| of.iter()) {
            let mut parts = name.split('.');
            let module = parts.next().and_then(find).expect("a module that is built");
            let (first, method) = (parts.next().expect("a name"), parts.next());
            match method {
                Some(method) => assert!(module.object(first).expect("an object").method(method).is_none(), "{name}"),
                None => assert!(module.function(first).is_none(), "{name}"),
            }
            assert!(!instead.is_empty() && !instead.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn found_by_name() {
        let shard = find("directors").and_then(|m| m.object("shard")).expect("in the table");
        assert_eq!(shard.method("backend").map(|m| m.args.len()), Some(9));
        assert!(find("std").and_then(|m| m.function("syntax")).is_some());
        assert!(find("nothing").is_none());
    }
}
