// SPDX-License-Identifier: BSD-2-Clause
//! The module querysort: what std.querysort has been since 4.0, under its older name.

vrt::vmod! {
    /// std.querysort under its older name
    pub(crate) static VMOD = querysort;

    functions {
        /// The URL with the parameters of its query in order
        fn querysort(_: STRING) -> STRING, pure = crate::standard::querysort;
    }
}
