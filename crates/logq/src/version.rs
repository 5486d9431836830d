// SPDX-License-Identifier: BSD-2-Clause
//! What `-V` prints: the version whose formats are spoken first, as scripts parse it.

/// The text of `-V`, for standard error.
pub fn text(program: &str) -> String {
    let revision = option_env!("LACQUER_REVISION").unwrap_or("0000000000000000000000000000000000000000");
    format!(
        "{program} (varnish-7.1.1 revision {revision})\nCopyright (c) 2006 Verdens Gang AS\nCopyright (c) 2006-2022 \
         Varnish Software\nLacquer {}: an independent implementation, compatible with the \
         version named above\n",
        env!("CARGO_PKG_VERSION")
    )
}
