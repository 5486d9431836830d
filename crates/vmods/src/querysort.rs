// SPDX-License-Identifier: BSD-2-Clause
//! The module querysort: what std.querysort has been since 4.0, under its older name.

vrt::vmod! {
    /// std.querysort under its older name
    pub(crate) static VMOD = querysort;

    functions {
        /// Returns the URL with its query arguments sorted
        fn querysort(_: STRING) -> STRING, pure = crate::standard::querysort;
    }
}
