// SPDX-License-Identifier: BSD-2-Clause
//! What modules of `vmods` and of `vmods-crypto` share, and no module itself.

#![warn(missing_docs)]

pub mod args;
pub mod bounded;
pub mod codec;
pub mod files;
pub mod hashing;
pub mod sign;

/// The lists of a crate's modules, which are named here in the order of their VCL names.
#[macro_export]
macro_rules! modules {
    ($($module:ident)*) => {
        /// All modules of this crate, in order of name: what runs, for `vrt::VclLoadEnv::vmods`.
        pub const ALL: &[&::vrt::vmod::Vmod] = &[$(&$module::VMOD),*];

        /// Their signatures, for `vcl::Options`.
        pub const MODULES: ::tables::vmods::Modules = ::tables::vmods::Modules(&[$(&$module::VMOD.signature),*]);
    };
}
