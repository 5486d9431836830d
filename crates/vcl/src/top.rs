// SPDX-License-Identifier: BSD-2-Clause
//! Top-level declarations.

use tables::vclvars::Type;
use tables::vmods;

use crate::code::DiagnosticCode;
use crate::program::Import;
use crate::symbols::{SymbolKind, SymbolMeaning, Ty};
use crate::token::Tok;
use crate::vcc::{CompileStopped, LookupScope, SubState, Vcc, VccResult};

const DECLARATIONS: &str = "Expected one of\n\t'acl', 'sub', 'backend', 'probe', 'import',  or 'vcl'\nFound: ";

impl Vcc<'_> {
    pub fn program(&mut self) -> VccResult {
        if !self.here_is("vcl") {
            return self.fail(
                DiagnosticCode::Version,
                "VCL version declaration missing\n\
                 Update your VCL to Version 4 syntax, and add\n\
                 \tvcl 4.1;\n\
                 on the first line of the VCL files.\n",
            );
        }
        self.version()?;
        while self.at + 1 < self.tokens.len() {
            let first = self.at;
            // The brace may close a skipped declaration.
            if self.is_c(b'}') && self.unfailed().is_err() {
                self.skip_declaration(first);
                continue;
            }
            let declared = self.declaration();
            let is_whole = declared.is_ok();
            self.recover(declared)?;
            if !is_whole {
                self.skip_declaration(first);
            }
        }
        Ok(())
    }

    fn declaration(&mut self) -> VccResult {
        let token = self.token();
        match token.tok {
            // The user's text ends and the built-in VCL begins.
            Tok::End => {
                self.next();
                Ok(())
            }
            Tok::InlineC => self.inline_c(),
            _ if self.here_is("acl") => self.acl(),
            _ if self.here_is("sub") => self.sub(),
            _ if self.here_is("backend") => self.backend(),
            _ if self.here_is("probe") => self.probe(),
            _ if self.here_is("import") => self.import(),
            _ if self.here_is("vcl") => self.version(),
            _ if self.here_is("unused") => self.unused(),
            _ => {
                self.hint_outside();
                let found = self.token_name(&token);
                self.fail(DiagnosticCode::Syntax, &format!("{DECLARATIONS}{found} at\n"))
            }
        }
    }

    fn version(&mut self) -> VccResult {
        let first = self.at;
        self.next();
        self.expect(Tok::Real)?;
        let text = self.text_of(&self.token());
        let &[major, b'.', minor] = text.as_bytes() else {
            return self.fail(DiagnosticCode::Version, "Don't play silly buggers with VCL version numbers\n");
        };
        let syntax = (major - b'0') * 10 + (minor - b'0');
        self.next();
        if !(40..=41).contains(&syntax) {
            self.hint("That is the version of the language, not of a release: write `vcl 4.1;`.");
            return self.fail_since(DiagnosticCode::Version, &format!("VCL version {text} not supported.\n"), first);
        }
        if !self.is_c(b';') {
            return self.fail_since(DiagnosticCode::Syntax, "Expected 'vcl N.N;' found no semi-colon\n", first);
        }
        self.next();
        if self.syntax == 0 {
            self.syntax = syntax;
        }
        if syntax > self.syntax {
            let top = format!("{}.{}", self.syntax / 10, self.syntax % 10);
            let say = format!("VCL version {text} higher than the top level version {top}\n");
            return self.fail_since(DiagnosticCode::Version, &say, first);
        }
        Ok(())
    }

    /// Compiles `unused NAME;` (release 9): it is no mistake that nothing uses that definition.
    fn unused(&mut self) -> VccResult {
        self.next();
        self.expect(Tok::Id)?;
        let first = self.at;
        let id = self.symbol(SymbolKind::None, LookupScope::Whole)?;
        let kind = self.syms.get(id).kind;
        if !matches!(kind, SymbolKind::Acl | SymbolKind::Backend | SymbolKind::Probe | SymbolKind::Sub) {
            let name = self.syms.get(id).name.clone();
            self.hint("It may be a backend, a probe, an acl or a sub.");
            return self.fail_since(
                DiagnosticCode::WrongKind,
                &format!("Symbol '{name}' cannot follow 'unused'.\n"),
                first,
            );
        }
        self.refer(id, first);
        self.skip_c(b';')
    }

    /// Compiles `sub name { ... }`: the first definition, or a further one if the subroutine may have several.
    fn sub(&mut self) -> VccResult {
        self.next();
        self.expect_name("subroutine")?;
        let at = self.at;
        let token = self.token();
        let name = self.text_of(&token);
        let id = match self.try_symbol(SymbolKind::Sub, LookupScope::Whole)? {
            Some(id) => id,
            None => self.create(SymbolKind::Sub, Type::Sub, SymbolMeaning::Global(None))?,
        };
        self.define(id, at);
        let builtin = self.is_builtin_sub(&name);
        let index = match self.syms.get(id).what {
            SymbolMeaning::Sub(index) => {
                let proc = &self.procs[index as usize];
                let defined = proc.def.filter(|_| proc.method.is_none() && !builtin);
                if let Some(def) = defined {
                    self.begin(DiagnosticCode::Redefined, &format!("Subroutine '{name}' redefined\n"));
                    self.show(&token);
                    let def = self.tokens[def as usize];
                    return self.fail_at(DiagnosticCode::Redefined, "Previously defined here:\n", &def);
                }
                index as usize
            }
            _ if !builtin && name.len() >= 4 && name[..4].eq_ignore_ascii_case("vcl_") => {
                return self.reserved_sub(at);
            }
            _ => self.new_proc(id, &name),
        };
        self.procs[index].def.get_or_insert(at as u32);
        let idle = self.is_word(&self.peek(1), "return") || self.peek(1).tok == Tok::C(b'}');
        if let Some(earlier) = self.procs[index].ended.filter(|_| !idle) {
            self.remark_part(at as u32, earlier, &name);
        }
        self.current = Some(index);
        let e = self.block();
        self.current = None;
        self.depth = 0;
        if e? {
            self.procs[index].ended.get_or_insert(at as u32);
        }
        Ok(())
    }

    fn new_proc(&mut self, sym: u32, name: &str) -> usize {
        let index = self.procs.len();
        self.procs.push(SubState { name: name.to_owned(), ..SubState::default() });
        let symbol = self.syms.get_mut(sym);
        (symbol.kind, symbol.ty, symbol.what) = (SymbolKind::Sub, Ty::T(Type::Sub), SymbolMeaning::Sub(index as u32));
        index
    }

    fn reserved_sub<T>(&mut self, at: usize) -> VccResult<T> {
        let token = &self.tokens[at].to_owned();
        let name = self.text_of(token);
        self.hint_sub(&name, at);
        self.begin(DiagnosticCode::ReservedName, "The names 'vcl_*' are reserved for subroutines.\n");
        self.show(token);
        // If there is a suggestion, the list of about forty names is omitted.
        if self.draft.has_hint() {
            return Err(CompileStopped);
        }
        self.say("Valid vcl_* subroutines are:\n");
        // Names of machine subroutines come first, then their parts.
        let (mut names, parts): (Vec<String>, Vec<String>) = self
            .builtin_subs
            .iter()
            .cloned()
            .partition(|n| self.procs.iter().any(|p| p.method.is_some() && p.name == *n));
        names.sort();
        names.extend(parts);
        let list: String = names.iter().map(|n| format!("\t{n}\n")).collect();
        self.say(&list);
        Err(CompileStopped)
    }

    /// Compiles `import name;`, `import name as other;` and `import name from "path";`.
    fn import(&mut self) -> VccResult {
        let first = self.at;
        self.next();
        self.expect(Tok::Id)?;
        let (module_at, module_token) = (self.at, self.token());
        let module_name = self.text_of(&module_token);
        if self.is_word(&self.peek(1), "as") {
            self.next();
            self.next();
            self.expect(Tok::Id)?;
        }
        let name = self.text_of(&self.token());
        let id = match self.try_symbol(SymbolKind::Vmod, LookupScope::Whole)? {
            Some(id) => id,
            None => self.create(SymbolKind::Vmod, Type::Void, SymbolMeaning::Nothing)?,
        };
        if self.tok() == Tok::Id {
            self.import_from()?;
        }
        self.skip_c(b';')?;
        let Some(module) = self.options.modules.find(&module_name) else {
            return self.missing_module(&module_name, module_at);
        };
        if let SymbolMeaning::Module(other) = self.syms.get(id).what {
            if other.name == module.name {
                return Ok(());
            }
            return self.fail_since(
                DiagnosticCode::Redefined,
                &format!("Another module already imported as {name}.\n"),
                first,
            );
        }
        self.bind_module(id, &name, module, first);
        Ok(())
    }

    fn bind_module(&mut self, id: u32, name: &str, module: &'static vmods::Module, first: usize) {
        let import = match self.program.imports.iter().position(|i| i.module == module.name) {
            Some(import) => import as u32,
            None => {
                self.program.imports.push(Import { module: module.name.to_owned(), name: name.to_owned() });
                self.program.imports.len() as u32 - 1
            }
        };
        let sym = self.syms.get_mut(id);
        sym.what = SymbolMeaning::Module(module);
        sym.noref = true;
        sym.def = Some(first as u32);
        self.module_symbols(name, module, import);
    }

    /// Imports std with a warning if one of its functions is used without an import, which happens in files whose
    /// includer imports it. Returns true if it did.
    pub fn import_unasked(&mut self, name: &str) -> bool {
        let Some(("std", func)) = name.split_once('.') else { return false };
        let Some(module) = self.options.modules.find("std").filter(|m| m.functions.iter().any(|f| f.name == func))
        else {
            return false;
        };
        let known = self.syms.find("std", SymbolKind::None, self.syntax, 40, 41).is_some();
        if known || self.program.imports.iter().any(|i| i.module == "std") {
            return false;
        }
        let id = self.syms.builtin("std", SymbolKind::Vmod, Type::Void, SymbolMeaning::Nothing);
        let first = self.at;
        self.bind_module(id, "std", module, first);
        let text = "`import std;` is missing: it is imported from here on. Write it at the top of the file.\n";
        let fix = self.import_fix("std", first);
        self.remark_fixed(DiagnosticCode::ImportMissing, (first, first), text, fix);
        true
    }

    fn import_from(&mut self) -> VccResult {
        if !self.here_is("from") {
            return self.fail(DiagnosticCode::Syntax, "Expected 'from path ...'\n");
        }
        self.next();
        self.expect(Tok::Str)?;
        let token = self.token();
        if !self.options.unsafe_path && self.content(&token).contains(&b'/') {
            let shown = self.token_name(&token);
            return self.fail(DiagnosticCode::File, &format!("'import ... from path ...' is unsafe.\nAt:{shown}"));
        }
        self.next();
        Ok(())
    }

    fn missing_module<T>(&mut self, name: &str, at: usize) -> VccResult<T> {
        let token = &self.tokens[at].to_owned();
        self.hint_module(name, at);
        self.begin(DiagnosticCode::UnknownModule, &format!("Could not find VMOD {name}\n"));
        if let Some(missing) = vmods::Missing::find(name) {
            self.say(&format!("\t({}; not built into Lacquer. Instead: {})\n", missing.what, missing.instead));
        } else {
            let built: Vec<&str> = self.options.modules.iter().map(|module| module.name).collect();
            self.say(&format!("\t(Lacquer loads no shared objects; built in: {})\n", built.join(", ")));
        }
        self.stop_at(token)
    }

    fn module_symbols(&mut self, name: &str, module: &'static vmods::Module, import: u32) {
        for func in module.functions {
            let full = format!("{name}.{}", func.name);
            self.syms.builtin(&full, SymbolKind::Func, func.ret, SymbolMeaning::Func(import, func));
        }
        for object in module.objects {
            let full = format!("{name}.{}", object.name);
            let id =
                self.syms.builtin(&full, SymbolKind::Object, Type::Void, SymbolMeaning::Class(import, module, object));
            let sym = self.syms.get_mut(id);
            sym.ty = Ty::Object(module, object);
            sym.read = tables::vclsubs::Method::Init.set();
        }
    }
}
