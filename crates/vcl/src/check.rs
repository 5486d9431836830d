// SPDX-License-Identifier: BSD-2-Clause
//! Checks that need the whole program: unused and undefined names, recursion, and actions and variables that the
//! calling machine subroutine doesn't have. Each procedure is visited once per machine subroutine, so the cost of a
//! deep call graph is linear in its edges.

use tables::vclsubs::{Method, Methods, Return};
use tables::vmods::Func;

use crate::code::DiagnosticCode;
use crate::symbols::{SymId, SymbolKind, SymbolMeaning};
use crate::vcc::{CompileStopped, SubState, SymbolAccess, SymbolUse, Vcc, VccResult};

fn complaint(access: SymbolAccess) -> &'static str {
    match access {
        SymbolAccess::Read | SymbolAccess::Call => "Not available",
        SymbolAccess::Write => "Cannot be set",
        SymbolAccess::Unset => "Cannot be unset",
        SymbolAccess::Action => "Not a valid action",
    }
}

const MAX_CALLS: usize = 500;

/// A use of a symbol or a module's function in a subroutine that doesn't have it.
pub(crate) struct WrongUse {
    pub first: u32,
    pub last: u32,
    pub access: SymbolAccess,
    /// Full name of the symbol or function.
    pub name: String,
    /// Subroutines that have it.
    pub places: Methods,
}

impl Vcc<'_> {
    pub fn check(&mut self) -> VccResult {
        for id in self.syms.sorted() {
            let checked = self.check_reference(id);
            self.recover(checked)?;
        }
        let subs = self.sorted_subs();
        for check in [Self::check_actions, Self::check_uses, Self::check_possible] {
            self.unfailed()?;
            for sub in &subs {
                let checked = check(self, *sub);
                self.recover(checked)?;
            }
        }
        Ok(())
    }

    fn sorted_subs(&self) -> Vec<usize> {
        let ids = self.syms.sorted();
        let index = |id: SymId| match (self.syms.get(id).kind, self.syms.get(id).what) {
            (SymbolKind::Sub, SymbolMeaning::Sub(index)) => Some(index as usize),
            _ => None,
        };
        ids.into_iter().filter_map(index).filter(|i| self.procs[*i].def.is_some()).collect()
    }

    fn check_reference(&mut self, id: SymId) -> VccResult {
        let sym = self.syms.get(id);
        if sym.noref {
            return Ok(());
        }
        let kind = sym.kind.name();
        let symbol_kind = sym.kind;
        match (sym.defs, sym.refs, sym.def, sym.reference) {
            (0, 1.., _, Some(at)) => {
                let token = self.tokens[at as usize];
                let name = self.text_of(&token);
                self.hint_undefined(&name, symbol_kind, at as usize);
                self.fail_at(
                    DiagnosticCode::Undeclared,
                    &format!("Undefined {kind} {name}, first reference:\n"),
                    &token,
                )
            }
            (1.., 0, Some(at), _) => {
                let token = self.tokens[at as usize];
                let name = self.text_of(&token);
                self.begin(DiagnosticCode::Unused, &format!("Unused {kind} {name}, defined:\n"));
                self.show(&token);
                if self.options.err_unref {
                    self.hint_unused(&name, symbol_kind);
                    return Err(CompileStopped);
                }
                self.warn();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub fn callee(&self, sym: SymId) -> Option<usize> {
        match self.syms.get(sym).what {
            SymbolMeaning::Sub(index) => Some(index as usize),
            _ => None,
        }
    }

    // --- actions

    /// Checks recursion and actions, starting from every subroutine, called or not.
    fn check_actions(&mut self, sub: usize) -> VccResult {
        let method = self.procs[sub].method;
        let allowed = method.map_or(u32::MAX, Method::return_set);
        let mut visited = vec![false; self.procs.len()];
        let stopped = self.actions_below(sub, allowed, &mut visited, &mut Vec::new());
        let (Err(CompileStopped), Some(method)) = (&stopped, method) else { return stopped };
        let is_bad = |r: &Return| allowed & 1 << *r as u32 == 0 && self.procs[sub].returns[*r as usize].is_some();
        if let Some(bad @ (Return::Lookup | Return::Deliver | Return::Restart | Return::Error)) =
            Return::ALL.into_iter().find(is_bad)
        {
            let at = self.procs[sub].returns[bad as usize].unwrap_or_default() as usize;
            self.hint_return(bad.name(), Some(method), at);
        }
        self.say(&format!("\n...which is the \"{}\" subroutine\nLegal returns are:", method.sub_name()));
        let legal = Return::ALL.into_iter().filter(|r| method.returns().contains(r));
        let list: String = legal.map(|r| format!(" \"{}\"", r.name())).collect();
        self.say(&format!("{list}\n"));
        stopped
    }

    fn actions_below(&mut self, sub: usize, allowed: u32, visited: &mut [bool], path: &mut Vec<usize>) -> VccResult {
        let def = self.procs[sub].def.expect("checked subs are defined") as usize;
        if path.contains(&sub) {
            let token = self.tokens[def];
            return self.fail_at(DiagnosticCode::Recursion, "Subroutine recurses on\n", &token);
        }
        if visited[sub] {
            return Ok(());
        }
        visited[sub] = true;
        if path.len() > MAX_CALLS {
            let token = self.tokens[def];
            return self.fail_at(DiagnosticCode::Limit, "Subroutine calls are nested too deeply\n", &token);
        }
        self.own_actions(sub, allowed)?;
        path.push(sub);
        for (at, sym) in self.procs[sub].calls.clone() {
            let below = match self.callee(sym).filter(|i| self.procs[*i].def.is_some()) {
                Some(callee) => self.actions_below(callee, allowed, visited, path),
                None => {
                    let name = self.syms.get(sym).name.clone();
                    let token = self.tokens[at as usize];
                    self.fail_at(DiagnosticCode::Undeclared, &format!("Subroutine {name} does not exist\n"), &token)
                }
            };
            if below.is_err() {
                self.called_from(sub, at)?;
            }
        }
        path.pop();
        Ok(())
    }

    fn called_from(&mut self, sub: usize, at: u32) -> VccResult {
        let text = format!("\n...called from \"{}\"\n", self.procs[sub].name);
        let token = self.tokens[at as usize];
        self.fail_at(DiagnosticCode::Return, &text, &token)
    }

    fn own_actions(&mut self, sub: usize, allowed: u32) -> VccResult {
        let mut bad = false;
        for action in Return::ALL {
            let Some(at) = self.procs[sub].returns[action as usize] else { continue };
            if allowed & 1 << action as u32 == 0 {
                bad = true;
                self.begin(DiagnosticCode::Return, &format!("Invalid return \"{}\"\n", action.name()));
                let token = self.tokens[at as usize];
                self.show(&token);
            }
        }
        if !bad {
            return Ok(());
        }
        let proc = &self.procs[sub];
        let (text, def) = (format!("\n...in subroutine \"{}\"\n", proc.name), proc.def);
        let token = self.tokens[def.expect("checked subs are defined") as usize];
        self.fail_at(DiagnosticCode::Return, &text, &token)
    }

    // --- variables

    fn use_mask(&self, u: &SymbolUse) -> Methods {
        let sym = self.syms.get(u.sym);
        match u.access {
            SymbolAccess::Read => sym.read,
            SymbolAccess::Write => sym.write,
            SymbolAccess::Unset => sym.unset,
            SymbolAccess::Action | SymbolAccess::Call => sym.action,
        }
    }

    /// The calls of module functions that release 9 lets only some subroutines make.
    fn restricted<'p>(&self, proc: &'p SubState) -> impl Iterator<Item = &'p (u32, u32, &'static Func)> + use<'p> {
        let is_9 = self.options.compat.is_9();
        proc.works.iter().filter(move |(.., func)| is_9 && func.is_restricted)
    }

    fn check_uses(&mut self, sub: usize) -> VccResult {
        let Some(method) = self.procs[sub].method else { return Ok(()) };
        if let Some(bad) = self.illegal_use(sub, method)? {
            self.hint_places(&bad);
            self.show_until(bad.first as usize, bad.last as usize + 1);
            let name = method.sub_name();
            let text = format!("{} in subroutine '{name}'.\n", complaint(bad.access));
            return self.fail_nowhere(DiagnosticCode::WrongPlace, &text);
        }
        let mut visited = vec![false; self.procs.len()];
        let stopped = self.uses_below(sub, method, &mut visited);
        if stopped.is_err() {
            self.say(&format!("\n...which is the \"{}\" subroutine\n", method.sub_name()));
        }
        stopped
    }

    fn uses_below(&mut self, sub: usize, method: Method, visited: &mut [bool]) -> VccResult {
        if std::mem::replace(&mut visited[sub], true) {
            return Ok(());
        }
        if let Some(bad) = self.illegal_use(sub, method)? {
            self.hint_places(&bad);
            self.show_until(bad.first as usize, bad.last as usize + 1);
            let name = &self.procs[sub].name;
            let text = format!(
                "{} from subroutine '{}'.\n\n...in subroutine \"{name}\"\n",
                complaint(bad.access),
                method.sub_name()
            );
            let token = self.tokens[self.procs[sub].def.expect("checked subs are defined") as usize];
            return self.fail_at(DiagnosticCode::WrongPlace, &text, &token);
        }
        for (at, sym) in self.procs[sub].calls.clone() {
            let Some(callee) = self.callee(sym) else { continue };
            if self.uses_below(callee, method, visited).is_err() {
                self.called_from(sub, at)?;
            }
        }
        Ok(())
    }

    /// The first use that `method` doesn't allow. Reports variables that can't be set anywhere.
    fn illegal_use(&mut self, sub: usize, method: Method) -> VccResult<Option<WrongUse>> {
        for n in 0..self.procs[sub].uses.len() {
            let mut u = self.procs[sub].uses[n];
            let mask = self.use_mask(&u);
            if mask.is_empty() && u.access == SymbolAccess::Write {
                let read = self.syms.get(u.sym).read;
                if read.is_empty() || read.has(method) {
                    self.show_until(u.first as usize, u.last as usize + 1);
                    let text = if read.is_empty() { "Variable cannot be set.\n" } else { "Variable is read only.\n" };
                    self.begin(DiagnosticCode::ReadOnly, text);
                    return Err(CompileStopped);
                }
                u.access = SymbolAccess::Read;
            }
            if !mask.has(method) {
                let SymbolUse { first, last, sym, access } = u;
                let (name, places) = (self.syms.get(sym).full.clone(), self.use_mask(&u));
                return Ok(Some(WrongUse { first, last, access, name, places }));
            }
        }
        let mut restricted = self.restricted(&self.procs[sub]);
        let wrong = restricted.find(|(.., func)| !func.scope.has(method));
        Ok(wrong.map(|&(first, _, func)| WrongUse {
            first,
            last: first,
            access: SymbolAccess::Call,
            name: func.name.to_owned(),
            places: func.scope,
        }))
    }

    // --- subroutines that no place may call

    fn check_possible(&mut self, sub: usize) -> VccResult {
        if self.possible_methods(sub).is_empty() {
            let token = self.tokens[self.procs[sub].def.expect("checked subs are defined") as usize];
            return self.fail_at(DiagnosticCode::WrongPlace, "Impossible Subroutine", &token);
        }
        Ok(())
    }

    /// The machine subroutines in which everything that a procedure does is allowed.
    pub fn possible_methods(&self, sub: usize) -> Methods {
        let mut visited = vec![false; self.procs.len()];
        let mut todo = vec![sub];
        let mut set = Methods::ALL;
        while let Some(sub) = todo.pop() {
            if std::mem::replace(&mut visited[sub], true) {
                continue;
            }
            let proc = &self.procs[sub];
            set = proc.uses.iter().fold(set, |set, u| set.and(self.use_mask(u)));
            set = self.restricted(proc).fold(set, |set, (.., func)| set.and(func.scope));
            let returned = Return::ALL.into_iter().filter(|r| proc.returns[*r as usize].is_some());
            set = returned.fold(set, |set, r| set.and(r.methods()));
            todo.extend(proc.calls.iter().filter_map(|(_, sym)| self.callee(*sym)));
        }
        set
    }
}
