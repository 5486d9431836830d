// SPDX-License-Identifier: BSD-2-Clause
//! Parameters in the form in which the lower crates want them.

use params::{FeatureBit, Params};

/// Tells those that know no parameters, and whom each thread asks.
pub fn apply_to_process(params: &Params) {
    vcl_regex::set_match_limit(params.pcre2_match_limit);
    vrt::fields::validate_values(params.feature.has(FeatureBit::ValidateHeaders));
    engine::forms::apply(params);
    message::date::take_one_digit_days(params.feature.has(FeatureBit::HttpDatePostel));
}

pub fn gives_tags(params: &Params) -> bool {
    params.tag_urls || !params.tag_fields.is_empty() || params.feature.has(FeatureBit::Rfc9111)
}
