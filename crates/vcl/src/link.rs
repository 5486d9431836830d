// SPDX-License-Identifier: BSD-2-Clause
//! The linker: combines the procedures into one program and replaces names with indices.

use tables::vclsubs::Method;

use crate::program::{BackendAddress, NO_SUB, Op, ProgramSub, SourceInfo};
use crate::symbols::{SymId, SymbolMeaning};
use crate::vcc::{CompileStopped, Vcc, VccResult};
use crate::{Compiled, Diagnostics, program::Program};

impl Vcc<'_> {
    pub fn link(mut self) -> VccResult<Compiled> {
        let mut order: Vec<usize> = (0..self.procs.len()).filter(|i| self.procs[*i].def.is_some()).collect();
        order.sort_by_key(|i| self.procs[*i].method.is_none());
        let mut numbers = vec![NO_SUB; self.procs.len()];
        for (number, index) in order.iter().enumerate() {
            numbers[*index] = number as u32;
        }
        let mut program = std::mem::take(&mut self.program);
        for index in order {
            let methods = self.possible_methods(index);
            let proc = &mut self.procs[index];
            let entry = program.code.len() as u32;
            program.subs.push(ProgramSub { name: proc.name.clone(), entry, methods });
            let code = std::mem::take(&mut proc.code);
            let places = std::mem::take(&mut proc.places);
            let last = places.last().copied().unwrap_or(0);
            for op in code {
                let op = self.relocate(op, entry, &numbers)?;
                program.code.push(op);
            }
            program.code.push(Op::Leave);
            program.map.op_places.extend(places);
            program.map.op_places.push(last);
        }
        for method in Method::ALL {
            let index = self.procs.iter().position(|p| p.method == Some(method)).ok_or(CompileStopped)?;
            // `NO_SUB` if the subroutine doesn't exist.
            program.methods[method as usize] = numbers[index];
        }
        let default_probe = program.default_probe;
        for backend in program.backends.iter_mut().filter(|b| b.address != BackendAddress::None) {
            backend.probe = backend.probe.or(default_probe);
        }
        program.syntax = self.syntax;
        program.map.sources = std::mem::take(&mut self.sources)
            .into_iter()
            .map(|s| SourceInfo { name: s.name, text: if self.options.keep_sources { s.text } else { Vec::new() } })
            .collect();
        program.constants = std::mem::take(&mut self.pool).finish();
        program.lean.ops = program.code.clone();
        if self.options.optimise {
            crate::optimise::optimise(&mut program);
        }
        assert_linked(&program);
        Ok(Compiled { program, warnings: Diagnostics(self.found) })
    }

    fn index_of(&self, sym: SymId) -> VccResult<u32> {
        match self.syms.get(sym).what {
            SymbolMeaning::Global(Some(index)) => Ok(index),
            _ => Err(CompileStopped),
        }
    }

    fn relocate(&self, op: Op, entry: u32, numbers: &[u32]) -> VccResult<Op> {
        let number = |sym: SymId| match self.syms.get(sym).what {
            SymbolMeaning::Sub(index) => Ok(numbers[index as usize]),
            _ => Err(CompileStopped),
        };
        Ok(match op {
            Op::Jump { to } => Op::Jump { to: to + entry },
            Op::JumpIf { to } => Op::JumpIf { to: to + entry },
            Op::JumpUnless { to } => Op::JumpUnless { to: to + entry },
            Op::CallSub { sub } => Op::CallSub { sub: number(sub)? },
            Op::PushSub { sub } => Op::PushSub { sub: number(sub)? },
            Op::PushBackend { index } => Op::PushBackend { index: self.index_of(index)? },
            Op::PushProbe { index } => Op::PushProbe { index: self.index_of(index)? },
            Op::PushAcl { index } => Op::PushAcl { index: self.index_of(index)? },
            other => other,
        })
    }
}

fn assert_linked(program: &Program) {
    let ops = program.code.len() as u32;
    let ok = |op: &Op| match op {
        Op::Jump { to } | Op::JumpIf { to } | Op::JumpUnless { to } | Op::CallAt { to } => *to < ops,
        Op::CallSub { sub } => (*sub as usize) < program.subs.len(),
        _ => true,
    };
    assert!(program.code.iter().chain(&program.lean.ops).all(ok), "a jump or call leaves the program");
    let is_there =
        |m: Method| (program.methods[m as usize] as usize) < program.subs.len() || m == Method::BackendRefresh;
    assert!(Method::ALL.into_iter().all(is_there), "a machine subroutine is missing");
}
