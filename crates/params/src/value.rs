// SPDX-License-Identifier: BSD-2-Clause
//! Values of parameters: reading them from text with Varnish's messages, and showing them.

use std::time::Duration;

use super::bits::{DebugBits, ExperimentalBits, FeatureBit, FeatureBits, VccFeatureBits};
use super::limits::{self, ParamLimits};
use super::timeouts::NEVER;
use super::{Params, Spec};
use tables::Compat;
use tables::tag_numbers::TagNumbers;
use tables::tags::{Tag, TagMask};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamKind {
    /// Seconds with a fraction.
    Seconds,
    /// Seconds with a fraction, or "never" ([`NEVER`]).
    Timeout,
    Real,
    /// A whole number, or "unlimited".
    Count,
    Bytes,
    BytesOrAuto,
    Switch,
    Text,
    Pool,
    Debug,
    Feature,
    Experimental,
    VccFeature,
    Tags,
}

/// Number of structures of a kind that are kept for reuse, and their time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PoolParam {
    pub min_pool: u32,
    pub max_pool: u32,
    pub max_age: Duration,
}

/// A number of bytes, or what the system says: "auto".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BytesOrAuto(u64);

impl BytesOrAuto {
    pub const AUTO: Self = Self(u64::MAX);

    /// The number; `None` for "auto".
    pub fn bytes(self) -> Option<u64> {
        (self != Self::AUTO).then_some(self.0)
    }

    fn show(self) -> String {
        self.bytes().map_or_else(|| "auto".to_owned(), show_bytes)
    }

    fn exact(self) -> String {
        self.bytes().map_or_else(|| "auto".to_owned(), |n| n.to_string())
    }
}

#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum ParamValue {
    Seconds(Duration),
    Real(f64),
    Count(u32),
    Bytes(u64),
    BytesOrAuto(BytesOrAuto),
    Switch(bool),
    Text(String),
    Pool(PoolParam),
    Debug(DebugBits),
    Feature(FeatureBits),
    Experimental(ExperimentalBits),
    VccFeature(VccFeatureBits),
    Tags(TagMask),
}

pub(super) trait Field {
    fn value(&self) -> ParamValue;
    fn put(&mut self, value: ParamValue);
}

macro_rules! fields {
    ($($ty:ty => $variant:ident;)*) => {$(
        impl Field for $ty {
            fn value(&self) -> ParamValue {
                ParamValue::$variant(self.clone())
            }

            fn put(&mut self, value: ParamValue) {
                let ParamValue::$variant(value) = value else { panic!("{value:?} for a {}", stringify!($variant)) };
                *self = value;
            }
        }
    )*};
}

fields! {
    Duration => Seconds;
    f64 => Real;
    u32 => Count;
    u64 => Bytes;
    BytesOrAuto => BytesOrAuto;
    bool => Switch;
    String => Text;
    PoolParam => Pool;
    DebugBits => Debug;
    FeatureBits => Feature;
    ExperimentalBits => Experimental;
    VccFeatureBits => VccFeature;
    TagMask => Tags;
}

impl ParamValue {
    /// The text that `param.show` shows. From 7.5 on lists of bits begin with `none` or `all`.
    pub fn show(&self, compat: Compat) -> String {
        match self {
            ParamValue::Debug(b) if compat.is_9() => show_all_bits(b.0, DebugBits::ALL.0, DebugBits::NAMES),
            ParamValue::Feature(b) if compat.is_9() => show_all_features(*b),
            ParamValue::Experimental(b) if compat.is_9() => {
                show_all_bits(b.0, ExperimentalBits::ALL.0, ExperimentalBits::NAMES)
            }
            ParamValue::VccFeature(b) if compat.is_9() => {
                show_all_bits(b.0, VccFeatureBits::ALL.0, VccFeatureBits::NAMES)
            }
            ParamValue::Tags(mask) if compat.is_9() => show_all_tags(*mask),
            ParamValue::Seconds(NEVER) => "never".to_owned(),
            ParamValue::Seconds(t) => format!("{:.3}", t.as_secs_f64()),
            ParamValue::Real(x) => show_real(*x),
            ParamValue::Count(u32::MAX) => "unlimited".to_owned(),
            ParamValue::Count(n) => n.to_string(),
            ParamValue::Bytes(n) => show_bytes(*n),
            ParamValue::BytesOrAuto(n) => n.show(),
            ParamValue::Switch(on) => show_switch(*on).to_owned(),
            ParamValue::Text(s) => show_text(s),
            ParamValue::Pool(p) => format!("{},{},{}", p.min_pool, p.max_pool, show_real(p.max_age.as_secs_f64())),
            ParamValue::Debug(b) => show_bits(b.0, DebugBits::NAMES),
            ParamValue::Feature(b) => show_features(*b),
            ParamValue::Experimental(b) => show_bits(b.0, ExperimentalBits::NAMES),
            ParamValue::VccFeature(b) => show_bits(b.0, VccFeatureBits::NAMES),
            ParamValue::Tags(mask) => show_tags(*mask),
        }
    }

    pub fn json(&self, compat: Compat) -> String {
        match self {
            ParamValue::Count(n) => n.to_string(),
            ParamValue::Bytes(n) => n.to_string(),
            ParamValue::BytesOrAuto(n) => n.bytes().map_or_else(|| tables::json::quote(&n.show()), |n| n.to_string()),
            ParamValue::Switch(on) => on.to_string(),
            ParamValue::Text(s) => tables::json::quote(s),
            ParamValue::Pool(p) => format!(
                "{{\n        \"min_pool\": {},\n        \"max_pool\": {},\n        \"max_age\": {}\n    }}",
                p.min_pool,
                p.max_pool,
                show_real(p.max_age.as_secs_f64())
            ),
            ParamValue::Seconds(NEVER)
            | ParamValue::Debug(_)
            | ParamValue::Feature(_)
            | ParamValue::Experimental(_)
            | ParamValue::VccFeature(_)
            | ParamValue::Tags(_) => tables::json::quote(&self.show(compat)),
            ParamValue::Seconds(_) | ParamValue::Real(_) => self.show(compat),
        }
    }

    /// Text that gives exactly this value again.
    pub(super) fn exact(&self) -> String {
        match self {
            ParamValue::Seconds(NEVER) => "never".to_owned(),
            ParamValue::Seconds(t) => t.as_secs_f64().to_string(),
            ParamValue::Real(x) => x.to_string(),
            ParamValue::Count(n) => n.to_string(),
            ParamValue::Bytes(n) => n.to_string(),
            ParamValue::BytesOrAuto(n) => n.exact(),
            ParamValue::Text(s) => s.clone(),
            ParamValue::Pool(p) => format!("{},{},{}", p.min_pool, p.max_pool, p.max_age.as_secs_f64()),
            ParamValue::Debug(b) => b.0.to_string(),
            ParamValue::Feature(b) => b.0.to_string(),
            ParamValue::Experimental(b) => b.0.to_string(),
            ParamValue::VccFeature(b) => b.0.to_string(),
            // The difference from the default: a former program doesn't know records on demand, and wants none of them.
            ParamValue::Tags(mask) => {
                let TagMask([low, high]) = mask.differing(TagMask::ON_DEMAND);
                format!("{low},{high}")
            }
            ParamValue::Switch(on) => show_switch(*on).to_owned(),
        }
    }
}

pub(super) fn parse_exact(spec: &Spec, text: &str) -> Result<ParamValue, String> {
    let number = || text.parse::<u64>().map_err(|e| e.to_string());
    Ok(match spec.kind {
        ParamKind::Debug => ParamValue::Debug(DebugBits(number()?)),
        ParamKind::Feature => ParamValue::Feature(FeatureBits(number()?)),
        ParamKind::Experimental => ParamValue::Experimental(ExperimentalBits(number()?)),
        ParamKind::VccFeature => ParamValue::VccFeature(VccFeatureBits(number()?)),
        ParamKind::Tags => {
            let (low, high) = text.split_once(',').ok_or("two numbers required")?;
            let word = |s: &str| s.parse::<u64>().map_err(|e| e.to_string());
            ParamValue::Tags(TagMask([word(low)?, word(high)?]).differing(TagMask::ON_DEMAND))
        }
        ParamKind::Seconds
        | ParamKind::Timeout
        | ParamKind::Real
        | ParamKind::Count
        | ParamKind::Bytes
        | ParamKind::BytesOrAuto
        | ParamKind::Switch
        | ParamKind::Text
        | ParamKind::Pool => parse(spec, &Params::blank(), text, (None, None))?,
    })
}

/// The value that `text` gives to `spec` among `params` (bit sets are changed, not replaced).
pub(super) fn parse(spec: &Spec, params: &Params, text: &str, limits: ParamLimits) -> Result<ParamValue, String> {
    match spec.kind {
        ParamKind::Timeout if text == "never" => Ok(ParamValue::Seconds(NEVER)),
        ParamKind::Seconds | ParamKind::Timeout => seconds(text, &limits).map(ParamValue::Seconds),
        ParamKind::Real => real(text, &limits).map(ParamValue::Real),
        ParamKind::Count => count(text, &limits, limits::reasons(spec)).map(ParamValue::Count),
        ParamKind::Bytes => bytes(text, &limits).map(ParamValue::Bytes),
        ParamKind::BytesOrAuto if text.eq_ignore_ascii_case("auto") => Ok(ParamValue::BytesOrAuto(BytesOrAuto::AUTO)),
        ParamKind::BytesOrAuto => bytes(text, &limits).map(|n| ParamValue::BytesOrAuto(BytesOrAuto(n))),
        ParamKind::Switch => switch(text).map(ParamValue::Switch),
        ParamKind::Text => Ok(ParamValue::Text(text.to_owned())),
        ParamKind::Pool => pool(text).map(ParamValue::Pool),
        ParamKind::Debug | ParamKind::Feature | ParamKind::Experimental | ParamKind::VccFeature => {
            bits(spec, params, text)
        }
        ParamKind::Tags => tags(spec, params, text),
    }
}

fn seconds(text: &str, limits: &ParamLimits) -> Result<Duration, String> {
    let x = number(text)?;
    within(x, limits)?;
    Duration::try_from_secs_f64(x).map_err(|_| "Must be greater or equal to 0.000\n".to_owned())
}

fn real(text: &str, limits: &ParamLimits) -> Result<f64, String> {
    let x = number(text)?;
    within(x, limits)?;
    Ok(x)
}

/// A decimal number, with a unit of time if one likes.
fn number(text: &str) -> Result<f64, String> {
    let bare = text.trim();
    let digits = bare.strip_prefix('-').unwrap_or(bare);
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') && digits.bytes().any(|b| b.is_ascii_digit());
    if plain && digits.bytes().filter(u8::is_ascii_digit).count() > 15 {
        return Err(format!("Too many digits ({text})\n"));
    }
    let parsed = if plain { bare.parse().ok() } else { base::text::parse_duration(bare) };
    parsed.filter(|x: &f64| x.is_finite() && x.abs() < 1e15).ok_or_else(|| format!("Invalid number ({text})\n"))
}

fn within(x: f64, limits: &ParamLimits) -> Result<(), String> {
    let bound = |s: &Option<String>| s.as_deref().and_then(|s| s.parse::<f64>().ok());
    match (&limits.0, &limits.1) {
        (Some(min), _) if bound(&limits.0).is_some_and(|b| x < b) => {
            Err(format!("Must be greater or equal to {min}\n"))
        }
        (_, Some(max)) if bound(&limits.1).is_some_and(|b| x > b) => {
            Err(format!("Must be less than or equal to {max}\n"))
        }
        _ => Ok(()),
    }
}

fn count(text: &str, limits: &ParamLimits, reasons: (Option<&str>, Option<&str>)) -> Result<u32, String> {
    let n = if text.eq_ignore_ascii_case("unlimited") {
        u32::MAX
    } else {
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let parsed = match hex {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        parsed.ok_or_else(|| format!("Not a number ({text})\n"))?
    };
    let bound = |s: &Option<String>| s.as_deref().and_then(|s| s.parse::<u32>().ok());
    let because = |reason: Option<&str>| reason.map(|w| format!(" ({w})")).unwrap_or_default();
    match (&limits.0, &limits.1) {
        (Some(min), _) if bound(&limits.0).is_some_and(|b| n < b) => {
            Err(format!("Must be at least {min}{}\n", because(reasons.0)))
        }
        (_, Some(max)) if bound(&limits.1).is_some_and(|b| n > b) => {
            Err(format!("Must be no more than {max}{}\n", because(reasons.1)))
        }
        _ => Ok(n),
    }
}

fn bytes(text: &str, limits: &ParamLimits) -> Result<u64, String> {
    let n = base::text::parse_bytes(text).ok_or_else(|| {
        let reason = base::text::bytes_error(text);
        format!("Could not convert to bytes.\n{reason}\n  Try something like '80k' or '120M'\n")
    })?;
    let bound = |s: &Option<String>| s.as_deref().and_then(base::text::parse_bytes);
    match (&limits.0, &limits.1) {
        (_, Some(max)) if bound(&limits.1).is_some_and(|b| n > b) => Err(format!("Must be no more than {max}\n\n")),
        (Some(min), _) if bound(&limits.0).is_some_and(|b| n < b) => Err(format!("Must be at least {min}\n")),
        _ => Ok(n),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "enable" | "yes" | "true" => Ok(true),
        "off" | "disable" | "no" | "false" => Ok(false),
        _ => Err("use \"on\" or \"off\"\n".to_owned()),
    }
}

fn pool(text: &str) -> Result<PoolParam, String> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let [min_pool, max_pool, max_age, ..] = fields[..] else {
        return Err("Three fields required: min_pool, max_pool and max_age\n".to_owned());
    };
    let none = (None, None);
    let (min_pool, max_pool) = (count(min_pool, &none, (None, None))?, count(max_pool, &none, (None, None))?);
    let max_age = seconds(max_age, &(Some("0".to_owned()), Some("1000000".to_owned())))?;
    if min_pool > max_pool {
        return Err("min_pool cannot be larger than max_pool\n".to_owned());
    }
    Ok(PoolParam { min_pool, max_pool, max_age })
}

/// A word of a list of bits. Releases from 7.5 on write such a list as a whole: `none,+http2`, `all,-Debug`.
enum BitWord<'a> {
    None,
    All,
    On(&'a str),
    Off(&'a str),
}

/// Words of a list, separated by commas or white space.
fn bit_words(text: &str) -> Result<Vec<BitWord<'_>>, String> {
    let mut words = Vec::new();
    for item in text.split(',') {
        let mut parts = item.split_ascii_whitespace().peekable();
        if parts.peek().is_none() {
            return Err("Missing '+' or '-' ()\n".to_owned());
        }
        for word in parts {
            words.push(match (word, word.as_bytes()[0]) {
                ("none", _) => BitWord::None,
                ("all", _) => BitWord::All,
                (_, b'+') => BitWord::On(word),
                (_, b'-') => BitWord::Off(word),
                _ => return Err(format!("Missing '+' or '-' ({word})\n")),
            });
        }
    }
    Ok(words)
}

/// The remark on a bit that `new` sets, `old` hadn't, and nothing here looks at.
pub(super) fn idle_bit(old: &ParamValue, new: &ParamValue) -> Option<&'static str> {
    let (names, set) = match (old, new) {
        (ParamValue::Debug(old), ParamValue::Debug(new)) => (DebugBits::NAMES, new.0 & !old.0),
        (ParamValue::Feature(old), ParamValue::Feature(new)) => (FeatureBits::NAMES, new.0 & !old.0),
        (ParamValue::Experimental(old), ParamValue::Experimental(new)) => (ExperimentalBits::NAMES, new.0 & !old.0),
        (ParamValue::VccFeature(old), ParamValue::VccFeature(new)) => (VccFeatureBits::NAMES, new.0 & !old.0),
        _ => return None,
    };
    let set = names.iter().enumerate().filter(|(i, _)| set & (1 << i) != 0).map(|(_, (_, text))| *text);
    set.into_iter().find(|text| text.starts_with("No effect here"))
}

fn bits(spec: &Spec, params: &Params, text: &str) -> Result<ParamValue, String> {
    let (now, default) = (spec.value(params), spec.default(params.compat));
    let (names, current, all, what) = match &now {
        ParamValue::Debug(b) => (DebugBits::NAMES, b.0, DebugBits::ALL.0, "debug bit"),
        ParamValue::Feature(b) => (FeatureBits::NAMES, b.0, FeatureBits::OF_VARNISH.0, "feature bit"),
        ParamValue::Experimental(b) => (ExperimentalBits::NAMES, b.0, ExperimentalBits::ALL.0, "experimental bit"),
        ParamValue::VccFeature(b) => (VccFeatureBits::NAMES, b.0, VccFeatureBits::ALL.0, "vcc_feature bit"),
        other => panic!("{} holds {other:?}", spec.name),
    };
    let (mut set, text) = match text {
        "default" if default == "none" => (0, ""),
        "default" => (0, default),
        _ => (current, text),
    };
    let mut http2 = None;
    let words = if text.is_empty() { Vec::new() } else { bit_words(text)? };
    let number_of = |word: &str| {
        let bit = names.iter().position(|(name, _)| name.eq_ignore_ascii_case(&word[1..]));
        bit.ok_or_else(|| format!("Unknown {what} ({word})\n"))
    };
    for word in words {
        match word {
            BitWord::None => (set, http2) = (0, None),
            BitWord::All => (set, http2) = (all, Some(true)),
            BitWord::On(word) | BitWord::Off(word) => {
                let (bit, on) = (number_of(word)?, matches!(word.as_bytes()[0], b'+'));
                http2 = if bit == FeatureBit::Http2 as usize { Some(on) } else { http2 };
                set = if on { set | 1 << bit } else { set & !(1 << bit) };
            }
        }
    }
    Ok(match now {
        ParamValue::Debug(_) => ParamValue::Debug(DebugBits(set)),
        ParamValue::Feature(_) => {
            let mut features = FeatureBits(set);
            http2.into_iter().for_each(|is_on| features.note_http2(is_on));
            ParamValue::Feature(features)
        }
        ParamValue::VccFeature(_) => ParamValue::VccFeature(VccFeatureBits(set)),
        _ => ParamValue::Experimental(ExperimentalBits(set)),
    })
}

fn tags(spec: &Spec, params: &Params, text: &str) -> Result<ParamValue, String> {
    let (current, default) = (params.vsl_mask, spec.default(params.compat));
    let (mut mask, text) = if text == "default" { (TagMask::ON_DEMAND, default) } else { (current, text) };
    if text == "(all enabled)" {
        return Ok(ParamValue::Tags(TagMask::ON_DEMAND));
    }
    let tag_of = |word: &str| Tag::from_name(&word[1..]).ok_or_else(|| format!("Unknown VSL tag ({word})\n"));
    for word in bit_words(text)? {
        match word {
            BitWord::All => mask = TagMask::NOTHING,
            BitWord::None => mask = TagMask::EVERYTHING,
            BitWord::On(word) => mask.set(tag_of(word)?, false),
            BitWord::Off(word) => mask.set(tag_of(word)?, true),
        }
    }
    Ok(ParamValue::Tags(mask))
}

fn show_bits(set: u64, names: &[(&str, &str)]) -> String {
    let on = names.iter().enumerate().filter(|(i, _)| set & (1 << i) != 0);
    let words: Vec<String> = on.map(|(_, (name, _))| format!("+{name}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(",") }
}

fn show_switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// The whole list as releases from 7.5 on show it: `all`, or `none` and each bit that is set.
fn show_all_bits(set: u64, all: u64, names: &[(&str, &str)]) -> String {
    let (start, rest) = if set & all == all { ("all", set & !all) } else { ("none", set) };
    match show_bits(rest, names).as_str() {
        "none" => start.to_owned(),
        bits => format!("{start},{bits}"),
    }
}

fn show_all_features(features: FeatureBits) -> String {
    let set = show_all_bits(features.0, FeatureBits::OF_VARNISH.0, FeatureBits::NAMES);
    if features.offers_http2() { set } else { format!("{set},-http2") }
}

fn show_all_tags(mask: TagMask) -> String {
    let tags: Vec<Tag> = (0..=u8::MAX).filter_map(|number| TagNumbers::Nine.tag(number)).collect();
    if tags.iter().all(|tag| mask.has(*tag)) {
        return "none".to_owned();
    }
    let masked = tags.iter().filter(|tag| mask.has(**tag)).map(|tag| format!(",-{}", tag.name()));
    format!("all{}", masked.collect::<String>())
}

/// With what was refused by name, where that is more than a bit that isn't set.
fn show_features(features: FeatureBits) -> String {
    let set = show_bits(features.0, FeatureBits::NAMES);
    match (features.offers_http2(), set.as_str()) {
        (true, _) => set,
        (false, "none") => "-http2".to_owned(),
        (false, _) => format!("{set},-http2"),
    }
}

/// Shows how it differs from a log of all that 7.1 writes: `-Tag` isn't written, `+ReqTarget` is.
fn show_tags(mask: TagMask) -> String {
    let sign = |tag: Tag| match (mask.has(tag), tag.is_on_demand()) {
        (true, false) => Some('-'),
        (false, true) => Some('+'),
        (false, false) | (true, true) => None,
    };
    let words: Vec<String> = Tag::ALL.iter().filter_map(|tag| Some(format!("{}{}", sign(*tag)?, tag.name()))).collect();
    if words.is_empty() { "(all enabled)".to_owned() } else { words.join(",") }
}

/// At most three decimals, none that say nothing.
fn show_real(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A byte size as varnish-7.1 shows it: `48k`, `1.50k`, `0.25G`, or bytes when it is no multiple of 256.
pub fn show_bytes(n: u64) -> String {
    if n == 0 || !n.is_multiple_of(256) {
        return format!("{n}b");
    }
    let mut n = n;
    for unit in ['k', 'M', 'G', 'T', 'P', 'E'] {
        if !n.is_multiple_of(1024) {
            return format!("{:.2}{unit}", n as f64 / 1024.0);
        }
        n /= 1024;
        if !n.is_multiple_of(256) {
            return format!("{n}{unit}");
        }
    }
    format!("{n}E")
}

pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some(c) => out.push(c),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}

/// Text with quotes, backslashes and control bytes escaped, without quotes around it.
fn show_text(text: &str) -> String {
    let quoted = tables::json::quote(text);
    quoted[1..quoted.len() - 1].to_owned()
}
