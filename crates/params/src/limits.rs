// SPDX-License-Identifier: BSD-2-Clause
//! Limits, some of which hang on another parameter's value.

use super::{ParamValue, Params, Spec};
use tables::choices::{EvictBy, TenantBy};
use tables::dialects::Dialect;

/// Least and greatest value now, as `param.show` shows them.
pub type ParamLimits = (Option<String>, Option<String>);

/// Bytes that a log record needs beside its data: two words and room to round up.
const RECORD_OVERHEAD: u64 = 12;

/// Least memory; with less than this nothing could be served.
const MEMORY_LEAST: u64 = 32 << 20;

pub fn resolve(spec: &Spec, p: &Params) -> ParamLimits {
    let (min, max) = (spec.min.map(str::to_owned), spec.max.map(str::to_owned));
    match spec.name {
        "thread_pool_min" => (min, Some(p.thread_pool_max.to_string())),
        "thread_pool_max" => (Some(p.thread_pool_min.to_string()), max),
        "thread_pool_reserve" => (min, Some((u64::from(p.thread_pool_min) * 95 / 100).to_string())),
        "vsl_buffer" => (Some((p.vsl_reclen + RECORD_OVERHEAD).to_string()), max),
        "vsl_reclen" => (min, Some((p.vsl_buffer - RECORD_OVERHEAD).to_string())),
        _ => (min, max),
    }
}

/// The reasons for a limit, where another parameter makes it: for the least and the greatest value.
pub fn reasons(spec: &Spec) -> (Option<&'static str>, Option<&'static str>) {
    match spec.name {
        "thread_pool_min" => (None, Some("thread_pool_max")),
        "thread_pool_max" => (Some("thread_pool_min"), None),
        "thread_pool_reserve" => (None, Some("95% of thread_pool_min")),
        "vsl_buffer" => (Some("vsl_reclen + 12 bytes"), None),
        "vsl_reclen" => (None, Some("vsl_buffer - 12 bytes")),
        _ => (None, None),
    }
}

/// True for a field's name, or for nothing between two commas.
fn is_field_name(word: &str) -> bool {
    word.bytes().all(|c| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c))
}

/// Checks what can't be told by a least and a greatest value.
pub fn check(spec: &Spec, p: &Params, value: &ParamValue) -> Result<(), String> {
    match (spec.name, value) {
        // A smaller minimum must not leave the reserve above its limit.
        ("thread_pool_min", ParamValue::Count(n)) if u64::from(p.thread_pool_reserve) > u64::from(*n) * 95 / 100 => {
            Err("Must be larger: thread_pool_reserve would exceed 95% of it\n".to_owned())
        }
        ("memory_limit", ParamValue::BytesOrAuto(limit))
            if limit.bytes().is_some_and(|n| n > 0 && n < MEMORY_LEAST) =>
        {
            Err("Must be 0 (no limit), auto, or at least 32M\n".to_owned())
        }
        ("http_req_overflow_status", ParamValue::Count(1..400)) => {
            Err("Must be 0 (no response), or from 400 to 500\n".to_owned())
        }
        ("slice_size", ParamValue::Bytes(bytes)) if !bytes.is_power_of_two() => {
            Err("Must be a power of two, such as 512k, 1M or 2M\n".to_owned())
        }
        ("vcl_dialect", ParamValue::Text(word)) if word != "auto" && Dialect::from_name(word).is_none() => {
            Err("Must be auto, 2.0, 2.1 or 3.0\n".to_owned())
        }
        ("tls_kernel", ParamValue::Text(word)) if !matches!(word.as_str(), "auto" | "on" | "off") => {
            Err("Must be auto, on or off\n".to_owned())
        }
        ("tag_fields", ParamValue::Text(list)) if message::tag_fields::listed(list).any(|field| field.is_none()) => {
            Err("Must be a list of header names, each optionally with =blank, =comma or =both\n".to_owned())
        }
        ("query_drop" | "query_keep" | "cookie_drop" | "cookie_keep", ParamValue::Text(list))
            if !message::name_list::is_valid(list) =>
        {
            Err("Must be a list of names separated by blanks or commas, each optionally with a * at its end\n"
                .to_owned())
        }
        ("rfc9111_targeted", ParamValue::Text(list)) if !list.split([' ', ',', '\t']).all(is_field_name) => {
            Err("Must be a list of header names separated by blanks or commas\n".to_owned())
        }
        ("bots", ParamValue::Text(word)) if crate::bots::BotsMode::parse(word).is_none() => {
            Err("Must be off, observe or on\n".to_owned())
        }
        ("bots_status", ParamValue::Count(status)) if !matches!(status, 400..=599) => {
            Err("Must be from 400 to 599\n".to_owned())
        }
        ("evict_by", ParamValue::Text(word)) if EvictBy::parse(word).is_none() => {
            Err("Must be requests, bytes or cost\n".to_owned())
        }
        ("tenant_by", ParamValue::Text(word)) if TenantBy::parse(word).is_none() => {
            Err("Must be vcl or host\n".to_owned())
        }
        ("tenant_shares", ParamValue::Text(text)) => match crate::tenants::parse_shares(text) {
            Ok(_) => Ok(()),
            Err(reason) => Err(format!("{reason}\n")),
        },
        ("classes", ParamValue::Text(text)) => match crate::classes::parse(text) {
            Ok(_) => Ok(()),
            Err(reason) => Err(format!("{reason}\n")),
        },
        ("negative_ttl", ParamValue::Text(list)) if !crate::negative_ttl::is_valid(list) => {
            Err("Must be a list of entries such as 404:10s or 5xx:1s, with statuses from 400 to 599\n".to_owned())
        }
        ("early_hints", ParamValue::Text(word)) if !matches!(word.as_str(), "off" | "h2" | "all") => {
            Err("Must be off, h2 or all\n".to_owned())
        }
        ("proxy_status", ParamValue::Text(word)) if !matches!(word.as_str(), "off" | "name" | "address") => {
            Err("Must be off, name or address\n".to_owned())
        }
        _ => Ok(()),
    }
}
