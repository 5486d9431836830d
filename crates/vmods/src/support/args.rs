// SPDX-License-Identifier: BSD-2-Clause
//! How a module's function fails.

use vrt::Failure;
use vrt::regex::MatchError;

/// VCL fails with this text.
pub(crate) fn fail<T>(text: impl Into<std::borrow::Cow<'static, str>>) -> Result<T, Failure> {
    Err(Failure::new(text))
}

/// A match was given up.
pub(crate) fn gave_up(error: MatchError) -> Failure {
    Failure::new(format!("Regexp matching failed: {}", error.text()))
}
