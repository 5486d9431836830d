// SPDX-License-Identifier: BSD-2-Clause
//! The symbol table. Names compare without regard to case; a dotted name is one key.

use std::collections::HashMap;

use tables::vclsubs::Methods;
use tables::vclvars::{HeadId, NameTarget, Type, VARS, Var};
use tables::vmods;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SymbolKind {
    None,
    Reserved,
    Acl,
    Action,
    Backend,
    Func,
    Instance,
    Object,
    Probe,
    Sub,
    Var,
    Vcl,
    Vmod,
}

impl SymbolKind {
    pub fn name(self) -> &'static str {
        match self {
            SymbolKind::None => "none",
            SymbolKind::Reserved => "reserved",
            SymbolKind::Acl => "acl",
            SymbolKind::Action => "action",
            SymbolKind::Backend => "backend",
            SymbolKind::Func => "func",
            SymbolKind::Instance => "instance",
            SymbolKind::Object => "object",
            SymbolKind::Probe => "probe",
            SymbolKind::Sub => "sub",
            SymbolKind::Var => "var",
            SymbolKind::Vcl => "vcl",
            SymbolKind::Vmod => "vmod",
        }
    }

    pub fn of_global(ty: Type) -> Option<SymbolKind> {
        Some(match ty {
            Type::Acl => SymbolKind::Acl,
            Type::Backend => SymbolKind::Backend,
            Type::Probe => SymbolKind::Probe,
            Type::Sub => SymbolKind::Sub,
            Type::Instance => SymbolKind::Instance,
            _ => return None,
        })
    }
}

/// The type of an expression: one of VCL's types, or a module's class.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ty {
    T(Type),
    Object(&'static vmods::Module, &'static vmods::VmodObjectType),
}

impl PartialEq for Ty {
    fn eq(&self, other: &Ty) -> bool {
        match (self, other) {
            (Ty::T(a), Ty::T(b)) => a == b,
            (Ty::Object(m, a), Ty::Object(n, b)) => m.name == n.name && a.name == b.name,
            _ => false,
        }
    }
}

impl PartialEq<Type> for Ty {
    fn eq(&self, other: &Type) -> bool {
        matches!(self, Ty::T(t) if t == other)
    }
}

impl Ty {
    pub fn name(self) -> String {
        match self {
            Ty::T(t) => t.name().to_owned(),
            Ty::Object(module, object) => format!("{}.{}", module.name, object.name),
        }
    }

    /// The name in messages; all kinds of string are STRING.
    pub fn user_name(self) -> String {
        match self {
            Ty::T(Type::Strings | Type::Strands) => "STRING".to_owned(),
            _ => self.name(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StatementWord {
    Ban,
    Call,
    HashData,
    If,
    New,
    Return,
    Set,
    Synthetic,
    Unset,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SymbolMeaning {
    Nothing,
    Action(StatementWord),
    Scalar(Var),
    /// The headers of a request or response: any name below it is a header.
    Fields(HeadId),
    Field(HeadId, u16),
    /// An index into the program's stores.
    Store(u32),
    Bool(bool),
    Regsub {
        all: bool,
    },
    Default,
    /// The index of the import, and the function.
    Func(u32, &'static vmods::Func),
    Class(u32, &'static vmods::Module, &'static vmods::VmodObjectType),
    /// The index of the object.
    Instance(u32),
    /// The index of the procedure.
    Sub(u32),
    /// The index of the declaration, once it is known.
    Global(Option<u32>),
    Label(u32),
    Module(&'static vmods::Module),
}

pub(crate) type SymId = u32;

#[derive(Debug)]
pub(crate) struct Symbol {
    /// The last part of the name, as first written.
    pub name: String,
    /// The whole name, as first written.
    pub full: String,
    pub kind: SymbolKind,
    pub ty: Ty,
    pub versions: (u8, u8),
    /// Exempt from the check for unused symbols.
    pub noref: bool,
    pub def: Option<u32>,
    pub reference: Option<u32>,
    pub defs: u32,
    pub refs: u32,
    pub read: Methods,
    pub write: Methods,
    pub unset: Methods,
    /// Subroutines in which an action is allowed; empty = all.
    pub action: Methods,
    pub what: SymbolMeaning,
}

#[derive(Debug, Default)]
pub(crate) struct Symbols {
    pub all: Vec<Symbol>,
    by_name: HashMap<String, Vec<SymId>>,
}

/// The range of versions that includes all of them.
pub(crate) const ALWAYS: (u8, u8) = (40, 41);

impl Symbols {
    pub fn get(&self, id: SymId) -> &Symbol {
        &self.all[id as usize]
    }

    pub fn get_mut(&mut self, id: SymId) -> &mut Symbol {
        &mut self.all[id as usize]
    }

    pub fn add(&mut self, full: &str, kind: SymbolKind, ty: Ty, versions: (u8, u8), what: SymbolMeaning) -> SymId {
        let id = self.all.len() as SymId;
        let name = full.rsplit_once('.').map_or(full, |(_, last)| last);
        self.all.push(Symbol {
            name: name.to_owned(),
            full: full.to_owned(),
            kind,
            ty,
            versions,
            noref: false,
            def: None,
            reference: None,
            defs: 0,
            refs: 0,
            read: Methods::ALL,
            write: Methods::NONE,
            unset: Methods::NONE,
            action: Methods::NONE,
            what,
        });
        self.by_name.entry(full.to_ascii_lowercase()).or_default().push(id);
        id
    }

    pub fn builtin(&mut self, full: &str, kind: SymbolKind, ty: Type, what: SymbolMeaning) -> SymId {
        let id = self.add(full, kind, Ty::T(ty), (0, 99), what);
        self.get_mut(id).noref = true;
        id
    }

    /// Finds the symbol named `lower` (in lower case) that exists in versions `lo..=hi` and that `kind` may refer to.
    pub fn find(&self, lower: &str, kind: SymbolKind, syntax: u8, lo: u8, hi: u8) -> Option<SymId> {
        let ids = self.by_name.get(lower)?;
        ids.iter().copied().find(|id| {
            let sym = self.get(*id);
            let fields = matches!(sym.what, SymbolMeaning::Fields(_));
            let exists = sym.versions.0 <= hi && sym.versions.1 >= lo;
            let blank = kind == SymbolKind::None && sym.kind == SymbolKind::None && !fields;
            // 4.0 has a namespace for each kind.
            let other = syntax < 41 && lower != "default" && kind != SymbolKind::None && kind != sym.kind && !fields;
            exists && !blank && !other
        })
    }

    /// Finds a global with the name of one of the language's actions: `acl ban`.
    pub fn namesake(&self, lower: &str, kind: SymbolKind) -> Option<SymId> {
        self.by_name.get(lower)?.iter().copied().find(|id| self.get(*id).kind == kind)
    }

    /// All symbols in order of their names, parents before children.
    pub fn sorted(&self) -> Vec<SymId> {
        let mut ids: Vec<SymId> = (0..self.all.len() as SymId).collect();
        let key = |id: &SymId| self.get(*id).full.to_ascii_lowercase().replace('.', "\0");
        ids.sort_by_cached_key(key);
        ids
    }

    pub fn with_language() -> Symbols {
        let mut syms = Symbols::default();
        for word in ["acl", "sub", "backend", "probe", "import", "vcl"] {
            let id = syms.builtin(word, SymbolKind::Reserved, Type::Void, SymbolMeaning::Nothing);
            syms.get_mut(id).versions = (41, 99);
        }
        let actions = [
            ("ban", StatementWord::Ban, Methods::NONE),
            ("call", StatementWord::Call, Methods::NONE),
            ("hash_data", StatementWord::HashData, tables::vclsubs::Method::Hash.set()),
            ("if", StatementWord::If, Methods::NONE),
            ("new", StatementWord::New, tables::vclsubs::Method::Init.set()),
            ("return", StatementWord::Return, Methods::NONE),
            ("set", StatementWord::Set, Methods::NONE),
            (
                "synthetic",
                StatementWord::Synthetic,
                tables::vclsubs::Method::Synth.set().with(tables::vclsubs::Method::BackendError.set()),
            ),
            ("unset", StatementWord::Unset, Methods::NONE),
        ];
        for (name, action, mask) in actions {
            let id = syms.builtin(name, SymbolKind::Action, Type::Void, SymbolMeaning::Action(action));
            syms.get_mut(id).action = mask;
        }
        syms.builtin("regsub", SymbolKind::Func, Type::String, SymbolMeaning::Regsub { all: false });
        syms.builtin("regsuball", SymbolKind::Func, Type::String, SymbolMeaning::Regsub { all: true });
        syms.builtin("true", SymbolKind::Func, Type::Bool, SymbolMeaning::Bool(true));
        syms.builtin("false", SymbolKind::Func, Type::Bool, SymbolMeaning::Bool(false));
        syms.builtin("default", SymbolKind::Func, Type::Backend, SymbolMeaning::Default);
        for d in VARS {
            let (kind, what) = match d.place {
                NameTarget::Scalar(var) => (SymbolKind::Var, SymbolMeaning::Scalar(var)),
                NameTarget::Headers(head) => (SymbolKind::None, SymbolMeaning::Fields(head)),
            };
            let id = syms.builtin(d.name, kind, d.ty, what);
            let sym = syms.get_mut(id);
            sym.versions = d.versions;
            (sym.read, sym.write, sym.unset) = (d.read, d.write, d.unset);
        }
        syms
    }
}
