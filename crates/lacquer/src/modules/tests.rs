// SPDX-License-Identifier: BSD-2-Clause
//! What modules declare is sound.

use tables::vclvars::Type;
use tables::vmods::{Default, LeftOut, VmodArg};

use super::{ALL, MODULES};

fn all() -> impl Iterator<Item = (&'static str, &'static [VmodArg], &'static str)> {
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
    for pair in MODULES.0.windows(2) {
        assert!(pair[0].name < pair[1].name);
    }
}

#[test]
fn what_is_left_out_is_of_a_module_and_not_in_it() {
    for LeftOut(name, instead) in MODULES.iter().flat_map(|module| module.left_out) {
        let mut parts = name.split('.');
        let module = parts.next().and_then(|name| MODULES.find(name)).expect("a module that is built");
        let (first, method) = (parts.next().expect("a name"), parts.next());
        match method {
            Some(method) => assert!(module.object(first).expect("an object").method(method).is_none(), "{name}"),
            None => assert!(module.function(first).is_none(), "{name}"),
        }
        assert!(!instead.is_empty() && !instead.ends_with('.'), "{name}");
    }
}

#[test]
fn what_is_missing_is_no_module() {
    assert!(tables::vmods::MISSING.iter().all(|missing| MODULES.find(missing.name).is_none()));
}

#[test]
fn what_runs_is_what_is_declared() {
    assert!(ALL.iter().map(|module| module.signature.name).eq(MODULES.iter().map(|module| module.name)));
}

#[test]
fn found_by_name() {
    let shard = MODULES.find("directors").and_then(|m| m.object("shard")).expect("in the table");
    assert_eq!(shard.method("backend").map(|m| m.args.len()), Some(9));
    assert!(MODULES.find("std").and_then(|m| m.function("syntax")).is_some());
    assert!(MODULES.find("jwt").is_some());
    assert!(MODULES.find("nothing").is_none());
}
