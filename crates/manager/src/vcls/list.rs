// SPDX-License-Identifier: BSD-2-Clause
//! `vcl.list` without a worker, and `vcl.deps`. With a worker it answers `vcl.list` itself, in the same layout.

use tables::Compat;

use super::{ManagerVcls, Prog, VclState};
use crate::reply::json;

impl ManagerVcls {
    fn status_word(&self, prog: &Prog) -> &'static str {
        if self.active.as_ref() == Some(&prog.name) { "active" } else { "available" }
    }

    pub fn list(&self, compat: Compat) -> String {
        let mut rows = String::new();
        for prog in &self.progs {
            let temperature = if prog.warm { "warm" } else { "cold" };
            let status = self.status_word(prog);
            let busy = if compat.is_9() { "-" } else { "     -" };
            rows.push_str(&format!("{status}\t{}\t{temperature}\t{busy}\t{}", prog.state.word(), prog.name));
            let users = self.users(&prog.name).len();
            let plural = if users > 1 { "s" } else { "" };
            if prog.state == VclState::Label {
                rows.push_str(&format!("\t->\t{}", prog.uses[0]));
                if users > 0 {
                    let plural = if users > 1 { "'s" } else { "" };
                    rows.push_str(&format!(" ({users} return(vcl){plural})"));
                }
            } else if users > 0 {
                rows.push_str(&format!("\t<-\t({users} label{plural})"));
            }
            rows.push('\n');
        }
        base::columns(&rows, compat.is_9())
    }

    pub fn list_json(&self) -> String {
        let mut text = String::new();
        for prog in &self.progs {
            let temperature = if prog.warm { "warm" } else { "cold" };
            text.push_str(&format!(
                ",\n{{\n  \"status\": \"{}\",\n  \"state\": \"{}\",\n  \"temperature\": \"{temperature}\",\n  \"name\": {}",
                self.status_word(prog),
                prog.state.word(),
                json(&prog.name)
            ));
            let users = self.users(&prog.name).len();
            if prog.state == VclState::Label {
                text.push_str(&format!(",\n  \"label\": {{\n    \"name\": {}", json(&prog.uses[0])));
                if users > 0 {
                    text.push_str(&format!(",\n    \"refs\": {users}"));
                }
                text.push_str("\n  }");
            } else if users > 0 {
                text.push_str(&format!(",\n  \"labels\": {users}"));
            }
            text.push_str("\n}");
        }
        text
    }

    /// `vcl.symtab`: what each VCL and label takes from others and gives to them.
    pub fn symtab(&self) -> String {
        let mut text = String::new();
        for prog in &self.progs {
            let kind = if prog.state == VclState::Label { "Label" } else { "Vcl" };
            text.push_str(&format!("{kind}: {}\n", prog.name));
            let exports = self.users(&prog.name);
            let lists = [("imports from", prog.uses.iter().map(String::as_str).collect()), ("exports to", exports)];
            for (title, names) in lists.into_iter().filter(|(_, names): &(_, Vec<&str>)| !names.is_empty()) {
                text.push_str(&format!("  {title}:\n"));
                names.iter().for_each(|name| text.push_str(&format!("    {name}\n")));
            }
        }
        text
    }

    pub fn deps(&self, compat: Compat) -> String {
        let mut rows = String::new();
        for prog in &self.progs {
            if prog.uses.is_empty() {
                rows.push_str(&format!("{}\n", prog.name));
            }
            for used in &prog.uses {
                rows.push_str(&format!("{}\t{used}\n", prog.name));
            }
        }
        base::columns(&rows, compat.is_9())
    }

    pub fn deps_json(&self) -> String {
        let mut text = String::new();
        for prog in &self.progs {
            let uses: Vec<String> = prog.uses.iter().map(|used| format!("\n    {}", json(used))).collect();
            let end = if uses.is_empty() { "" } else { "\n  " };
            text.push_str(&format!(
                ",\n{{\n  \"name\": {},\n  \"deps\": [{}{end}]\n}}",
                json(&prog.name),
                uses.join(",")
            ));
        }
        text
    }
}
