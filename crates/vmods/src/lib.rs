// SPDX-License-Identifier: BSD-2-Clause
//! The modules of Varnish 7.1's distribution, one file each. Signatures are data in `tables::vmods`; a test checks that
//! each of them is implemented here. No function blocks a runtime's thread: what would wait returns a future.

mod args;
mod blob;
mod cookie;
mod directors;
mod proxy;
mod purge;
mod standard;
mod unix;
mod vtc;

use vrt::vmod::Vmod;

/// All modules, for `vrt::Env::vmods`.
pub static ALL: &[&Vmod] = &[
    &blob::VMOD,
    &cookie::VMOD,
    &directors::VMOD,
    &proxy::VMOD,
    &purge::VMOD,
    &standard::VMOD,
    &unix::VMOD,
    &vtc::VMOD,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What is there and what the tables say, both sorted.
    fn check(what: &str, have: impl Iterator<Item = &'static str>, want: impl Iterator<Item = &'static str>) {
        let (mut have, mut want): (Vec<_>, Vec<_>) = (have.collect(), want.collect());
        have.sort_unstable();
        want.sort_unstable();
        assert_eq!(have, want, "{what}");
    }

    #[test]
    fn every_signature_is_implemented() {
        check("modules", ALL.iter().map(|m| m.name), tables::vmods::MODULES.iter().map(|m| m.name));
        for vmod in ALL {
            let module = tables::vmods::find(vmod.name).expect("checked above");
            check(vmod.name, vmod.functions.iter().map(|f| f.0), module.functions.iter().map(|f| f.name));
            check(vmod.name, vmod.classes.iter().map(|c| c.name), module.objects.iter().map(|o| o.name));
            for class in vmod.classes {
                let object = module.object(class.name).expect("checked above");
                check(class.name, class.methods.iter().map(|m| m.0), object.methods.iter().map(|m| m.name));
            }
        }
    }
}
