// SPDX-License-Identifier: BSD-2-Clause
//! What a signature of a VCL module is. The modules' own stand beside their code, in crate `vmods`; the compiler, the manual pages
//! and the editor's help are handed them as [`Modules`].
//!
//! Up to 7.3 a call in the wrong subroutine is no compile error but fails when run; [`Func::scope`] says where it works. Release 9 refuses
//! such a VCL if the function [is restricted](Func::is_restricted).

mod missing;

use crate::vclsubs::Methods;
pub use crate::vclvars::Type;
pub use missing::{LeftOut, MISSING, Missing};

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Default {
    Bool(bool),
    Int(i64),
    /// `REAL`, or `DURATION` in seconds
    Real(f64),
    Str(&'static str),
    Enum(&'static str),
    /// A `STRING`, `BLOB`, `BACKEND` or `IP` that is unset.
    Null,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VmodArg {
    /// The name in `name=value`; empty: by position only.
    pub name: &'static str,
    pub ty: Type,
    /// May be left out; the implementation then sees that it was (`Value::Absent`) and knows itself what that means.
    pub optional: bool,
    /// May be left out; the compiler passes this instead.
    pub default: Option<Default>,
    pub values: &'static [&'static str],
}

impl VmodArg {
    pub const fn may_be_left_out(&self) -> bool {
        self.optional || self.default.is_some()
    }

    pub const fn new(ty: Type, name: &'static str) -> VmodArg {
        VmodArg { name, ty, optional: false, default: None, values: &[] }
    }

    pub const fn pos(ty: Type) -> VmodArg {
        VmodArg::new(ty, "")
    }

    /// Lets the caller leave it out; the implementation sees that.
    pub const fn opt(self) -> VmodArg {
        VmodArg { optional: true, ..self }
    }

    /// Lets the caller leave it out; it is this value then.
    pub const fn or(self, default: Default) -> VmodArg {
        VmodArg { default: Some(default), ..self }
    }

    pub const fn one_of(name: &'static str, values: &'static [&'static str]) -> VmodArg {
        VmodArg { name, ty: Type::Enum, optional: false, default: None, values }
    }
}

/// The way in which a function may run. None may block a runtime's thread.
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

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Func {
    pub name: &'static str,
    /// Type of its result; [`Type::Strands`] and [`Type::Enum`] never occur here.
    pub ret: Type,
    pub args: &'static [VmodArg],
    /// Subroutines in which the call works; elsewhere it fails the transaction.
    pub scope: Methods,
    /// True if release 7.4 or later doesn't load a VCL that calls it outside of its scope (`$Restrict`).
    pub is_restricted: bool,
    pub effect: Effect,
    /// True if it changes nothing that outlives its transaction and asks no other server. A trial (`lacquer explain`)
    /// runs only such functions and reports what the others would do.
    pub is_local: bool,
    pub text: &'static str,
}

impl Func {
    /// A function that returns at once and works everywhere.
    pub const fn new(ret: Type, name: &'static str, args: &'static [VmodArg], text: &'static str) -> Func {
        Func { name, ret, args, scope: Methods::ALL, is_restricted: false, effect: Effect::Call, is_local: false, text }
    }

    /// Makes it [`Effect::Pure`], one that only calculates.
    pub const fn pure(self) -> Func {
        Func { effect: Effect::Pure, is_local: true, ..self }
    }

    pub const fn waits(self) -> Func {
        Func { effect: Effect::Waits, ..self }
    }

    pub const fn blocks(self) -> Func {
        Func { effect: Effect::Blocks, ..self }
    }

    pub const fn local(self) -> Func {
        Func { is_local: true, ..self }
    }

    /// Lets it work in these subroutines only.
    pub const fn only(self, scope: Methods) -> Func {
        Func { scope, ..self }
    }

    /// Lets it work in these subroutines only, and release 9 refuse a VCL that calls it elsewhere.
    pub const fn restrict(self, scope: Methods) -> Func {
        Func { scope, is_restricted: true, ..self }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VmodObjectType {
    pub name: &'static str,
    pub args: &'static [VmodArg],
    pub methods: &'static [Func],
    pub text: &'static str,
}

impl VmodObjectType {
    pub fn method(&self, name: &str) -> Option<&'static Func> {
        self.methods.iter().find(|method| method.name == name)
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Module {
    pub name: &'static str,
    pub functions: &'static [Func],
    pub objects: &'static [VmodObjectType],
    pub text: &'static str,
    /// Functions and methods that it has elsewhere and that aren't built.
    pub left_out: &'static [LeftOut],
}

impl Module {
    pub fn function(&self, name: &str) -> Option<&'static Func> {
        self.functions.iter().find(|function| function.name == name)
    }

    pub fn object(&self, name: &str) -> Option<&'static VmodObjectType> {
        self.objects.iter().find(|object| object.name == name)
    }
}

/// The modules that `import` finds, in order of name.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Modules(pub &'static [&'static Module]);

impl Modules {
    pub fn iter(self) -> impl Iterator<Item = &'static Module> {
        self.0.iter().copied()
    }

    pub fn find(self, name: &str) -> Option<&'static Module> {
        self.iter().find(|module| module.name == name)
    }

    /// Finds the module that `-E` asks for by its name or the path of its file: one that is built in needs no loading.
    ///
    /// # Errors
    /// The sentence that says why there is none, and what to use instead.
    pub fn extension(self, name: &str) -> Result<&'static Module, String> {
        let file = name.rsplit('/').next().unwrap_or(name);
        let own = file.strip_prefix("libvmod_").and_then(|file| file.strip_suffix(".so")).unwrap_or(file);
        self.find(own).ok_or_else(|| {
            let hint = Missing::find(own)
                .map(|missing| format!(" (the module {name} {}: use {})", missing.what, missing.instead));
            format!("no module of the name {name} is built in, and none can be loaded{}", hint.unwrap_or_default())
        })
    }

    /// The replacement of a function (`module.function`) or method (`module.object.method`) that isn't built.
    pub fn left_out(self, name: &str) -> Option<&'static LeftOut> {
        self.iter().flat_map(|module| module.left_out).find(|left| left.0 == name)
    }
}
