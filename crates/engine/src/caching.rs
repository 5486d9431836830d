// SPDX-License-Identifier: BSD-2-Clause
//! The cache as an engine has it: what it asks about stored heads and patterns, and its parameters.

use params::Params;
use tables::choices::EvictBy;

pub(crate) struct StoredHeads;

impl cache::HeadReader for StoredHeads {
    fn header<'h>(&self, head: &'h [u8], name: &str) -> Option<&'h [u8]> {
        message::head::StoredHead::parse(head).ok()?.get(name)
    }

    fn status(&self, head: &[u8]) -> u16 {
        message::head::StoredHead::parse(head).map_or(0, |head| head.status())
    }
}

pub(crate) struct Patterns;

struct Pattern(vcl_regex::Regex);

impl cache::CacheRegex for Pattern {
    fn is_match(&self, text: &[u8]) -> bool {
        // A pattern that goes beyond its step limit matches nothing, as in Varnish.
        self.0.is_match(text).unwrap_or(false)
    }
}

impl cache::Regexes for Patterns {
    fn compile(&self, pattern: &str) -> Result<Box<dyn cache::CacheRegex>, String> {
        match vcl_regex::Regex::new(pattern.as_bytes()) {
            Ok(regex) => Ok(Box::new(Pattern(regex))),
            Err(error) => Err(error.text.to_string()),
        }
    }
}

pub fn cache_params(params: &Params) -> cache::CacheParams {
    cache::CacheParams {
        ban_any_variant: params.ban_any_variant as usize,
        ban_cutoff: params.ban_cutoff as usize,
        ban_dups: params.ban_dups,
        ban_lookup_limit: params.ban_lookup_limit.into(),
        ban_lurker_age: params.ban_lurker_age.as_secs_f64(),
        ban_lurker_batch: params.ban_lurker_batch as usize,
        ban_lurker_sleep: params.ban_lurker_sleep.as_secs_f64(),
        compat: params.compat(),
        nuke_limit: params.nuke_limit,
        rush_exponent: params.rush_exponent as usize,
        stale_serves_waiters: params.compat().is_9(),
        dictionary_max: params.dictionary_max as usize,
        dictionary_space: params.dictionary_space,
        // The parameter was checked when it was set.
        evict_by: EvictBy::parse(&params.evict_by).unwrap_or_default(),
        form_space: params.form_space,
        tag_space: params.tag_space,
        transit_buffer: Some(params.transit_buffer).filter(|bytes| *bytes > 0),
        vary_limit: params.vary_limit as usize,
        vary_notice: params.vary_notice as usize,
        waitinglist_limit: params.waitinglist_limit as usize,
    }
}
