// SPDX-License-Identifier: BSD-2-Clause
//! A page for each VCL module, `vmod_NAME(3)`, made of its signatures and their texts.

use tables::vclsubs::Methods;
use tables::vclvars::Type;
use tables::vmods::{Default, Func, Module, VmodArg};

use super::{entry, escape};
use crate::modules::MODULES;

pub fn module(page: &str) -> Option<&'static Module> {
    MODULES.find(page.strip_prefix("vmod_")?)
}

pub fn all() -> impl Iterator<Item = (String, &'static Module)> {
    MODULES.iter().map(|module| (format!("vmod_{}", module.name), module))
}

pub fn roff(module: &Module) -> String {
    let name = module.name;
    let title = format!("vmod_{name}").to_uppercase();
    let mut out = format!(".TH {title} 3 \"\" \"Lacquer {}\"\n.SH NAME\n", env!("CARGO_PKG_VERSION"));
    out.push_str(&format!(
        "vmod_{name} \\- {}\n.SH SYNOPSIS\n.nf\nimport {name};\n.fi\n",
        escape(first_line(module.text))
    ));
    out.push_str(&format!(
        ".SH DESCRIPTION\n{}.\nThe module is built in; import takes no path.\n",
        escape(module.text)
    ));
    if !module.functions.is_empty() {
        out.push_str(".SH FUNCTIONS\n");
        module.functions.iter().for_each(|func| out.push_str(&callable(&format!("{name}."), func)));
    }
    for object in module.objects {
        out.push_str(&format!(".SH OBJECTS OF {}\n", escape(&object.name.to_uppercase())));
        let made = format!("new x = {name}.{}({})", object.name, arguments(object.args));
        out.push_str(&entry(&made, &format!("{}.", object.text)));
        object.methods.iter().for_each(|func| out.push_str(&callable("x.", func)));
    }
    out.push_str(".SH SEE ALSO\nvcl(7)\n");
    out
}

fn first_line(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first)
}

fn callable(before: &str, func: &Func) -> String {
    let ret = if func.ret == Type::Void { String::new() } else { format!("{} ", func.ret.name()) };
    let term = format!("{ret}{before}{}({})", func.name, arguments(func.args));
    let place = match func.scope {
        scope if scope == Methods::ALL => String::new(),
        scope => format!("\nIn {}.", scope.iter().map(|method| method.sub_name()).collect::<Vec<_>>().join(", ")),
    };
    entry(&term, &format!("{}.{place}", func.text))
}

fn arguments(args: &[VmodArg]) -> String {
    let one = |arg: &VmodArg| {
        let ty = match arg.values {
            [] => arg.ty.name().to_owned(),
            words => format!("{{{}}}", words.join(", ")),
        };
        let name = if arg.name.is_empty() { String::new() } else { format!(" {}", arg.name) };
        match (arg.optional, arg.default.and_then(default)) {
            (true, _) => format!("[{ty}{name}]"),
            (false, Some(value)) => format!("{ty}{name} = {value}"),
            (false, None) if arg.default.is_some() => format!("[{ty}{name}]"),
            (false, None) => format!("{ty}{name}"),
        }
    };
    args.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The value in VCL's form; `None` for what is unset.
fn default(default: Default) -> Option<String> {
    Some(match default {
        Default::Bool(value) => value.to_string(),
        Default::Int(value) => value.to_string(),
        Default::Real(value) => value.to_string(),
        Default::Str(text) => format!("{text:?}"),
        Default::Enum(word) => word.to_owned(),
        Default::Null => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_has_its_page() {
        for (page, module) in all() {
            let text = roff(super::module(&page).expect("found by its own name"));
            for func in module.functions.iter().chain(module.objects.iter().flat_map(|object| object.methods)) {
                assert!(text.contains(&format!(".{}(", escape(func.name))), "{page}: {}", func.name);
            }
        }
    }

    #[test]
    fn a_signature_reads_as_in_vcl() {
        let text = roff(MODULES.find("vsthrottle").expect("built in"));
        assert!(
            text.contains("BOOL vsthrottle.is_denied(STRING key, INT limit, DURATION period, DURATION block = 0)"),
            "{text}"
        );
        let text = roff(MODULES.find("purge").expect("built in"));
        assert!(text.contains("In vcl_miss, vcl_hit.") || text.contains("In vcl_hit, vcl_miss."), "{text}");
    }
}
