// SPDX-License-Identifier: BSD-2-Clause
//! Patterns that are texts, so that VCL may make them while it runs. A place in the source keeps the last few that it used.

use std::sync::Arc;

use parking_lot::Mutex;
use vcl_regex::Regex;
use vrt::vmod::VmodCall;
use vrt::{Text, VclFailure};

const FEW: usize = 4;

#[derive(Default)]
struct PatternCache(Mutex<Vec<(Text, Arc<Regex>)>>);

pub(crate) fn compile(call: &VmodCall<'_>, who: &str, pattern: &[u8]) -> Result<Arc<Regex>, VclFailure> {
    let kept = call.site.get_or(PatternCache::default);
    if let Some((_, regex)) = kept.0.lock().iter().find(|(text, _)| text.as_bytes() == pattern) {
        return Ok(regex.clone());
    }
    let regex = Regex::new(pattern).map_err(|reason| {
        VclFailure::new(format!(
            "{who}: bad pattern \"{}\": {} at {}",
            pattern.escape_ascii(),
            reason.text,
            reason.offset
        ))
    })?;
    let regex = Arc::new(regex);
    let mut kept = kept.0.lock();
    if kept.len() >= FEW {
        kept.remove(0);
    }
    kept.push((Text::copy(pattern), regex.clone()));
    Ok(regex)
}
