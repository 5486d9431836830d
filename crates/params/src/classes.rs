// SPDX-License-Identifier: BSD-2-Clause
//! Classes of requests that need a backend, as the parameter `classes` declares them:
//! `dear: workers=4, queue=50, patience=10s, page=on; api: workers=8`.

/// The class of those who are in no other, if it is declared.
pub const DEFAULT: &str = "default";
/// The class of speculative requests for which VCL sets none.
pub const PREFETCH: &str = "prefetch";
pub const MAX_CLASSES: usize = 32;
const MAX_NAME_BYTES: usize = 32;
/// The most workers, queue slots and places in the waiting room.
const MAX_PLACES: u32 = 1_000_000;

#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Letters, digits, `-` and `_`.
    pub name: String,
    /// Number of its requests that may be with a backend at a time.
    pub workers: u32,
    /// Number of further ones that may wait for one of these.
    pub queue: u32,
    /// Seconds that one waits at most.
    pub patience: f64,
    /// The weight where classes compete for `class_workers`.
    pub share: u32,
    /// Seconds of a backend's time from which a request that VCL gives no class is in this one; none are when it is `None`.
    pub above: Option<f64>,
    /// True if a client that finds no slot gets a page that comes back by itself, and keeps its place.
    pub page: bool,
    /// Number of places that are kept for those.
    pub room: u32,
}

/// The classes that the text declares, in its order.
///
/// # Errors
/// What is wrong, and where.
pub fn parse(text: &str) -> Result<Vec<ClassSpec>, String> {
    let mut classes: Vec<ClassSpec> = Vec::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let spec = class(part)?;
        if classes.iter().any(|other| other.name == spec.name) {
            return Err(format!("class {} is declared twice", spec.name));
        }
        classes.push(spec);
    }
    if classes.len() > MAX_CLASSES {
        return Err(format!("more than {MAX_CLASSES} classes"));
    }
    Ok(classes)
}

fn class(part: &str) -> Result<ClassSpec, String> {
    let Some((name, options)) = part.split_once(':') else {
        return Err(format!("a class is written as NAME:workers=N,..., not {part:?}"));
    };
    let name = name.trim();
    let is_name = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && name.len() <= MAX_NAME_BYTES
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if !is_name {
        return Err(format!(
            "{name:?} can't be the name of a class: letters, digits, - and _, at most {MAX_NAME_BYTES}"
        ));
    }
    let mut spec = ClassSpec {
        name: name.to_owned(),
        workers: 0,
        queue: u32::MAX,
        patience: 10.0,
        share: 1,
        above: None,
        page: false,
        room: 10_000,
    };
    for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        set(&mut spec, option).map_err(|reason| format!("class {name}: {reason}"))?;
    }
    if spec.workers == 0 {
        return Err(format!("class {name}: workers=N is missing"));
    }
    if spec.queue == u32::MAX {
        spec.queue = spec.workers.saturating_mul(10).min(MAX_PLACES);
    }
    Ok(spec)
}

fn set(spec: &mut ClassSpec, option: &str) -> Result<(), String> {
    let (name, value) = option.split_once('=').map_or((option, ""), |(name, value)| (name.trim(), value.trim()));
    match name {
        "workers" => spec.workers = number(name, value, 1)?,
        "queue" => spec.queue = number(name, value, 0)?,
        "share" => spec.share = number(name, value, 1)?,
        "room" => spec.room = number(name, value, 1)?,
        "patience" => spec.patience = seconds(name, value)?,
        "above" => spec.above = Some(seconds(name, value)?),
        "page" => {
            spec.page = match value {
                "on" => true,
                "off" => false,
                _ => return Err(format!("page must be on or off, not {value:?}")),
            }
        }
        "chairs" => return Err("chairs=N is now called queue=N".into()),
        _ => {
            return Err(format!(
                "unknown option {name:?}; there are workers, queue, patience, share, above, page, room"
            ));
        }
    }
    Ok(())
}

fn number(name: &str, value: &str, least: u32) -> Result<u32, String> {
    let number = value.parse().ok().filter(|n| (least..=MAX_PLACES).contains(n));
    number.ok_or_else(|| format!("{name} must be a number from {least} to {MAX_PLACES}, not {value:?}"))
}

fn seconds(name: &str, value: &str) -> Result<f64, String> {
    let seconds = base::text::parse_duration(value).or_else(|| value.parse().ok());
    let seconds = seconds.filter(|seconds| *seconds >= 0.0 && *seconds <= 86_400.0);
    seconds.ok_or_else(|| format!("{name} must be a time such as 10s or 500ms, at most a day, not {value:?}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str, reason: &str) {
        assert_eq!(parse(text).unwrap_err(), reason, "{text}");
    }

    #[test]
    fn what_is_said_and_what_isnt() {
        assert_eq!(parse(""), Ok(vec![]));
        let classes =
            parse(" dear : workers=4, queue=0,patience=500ms ,share=2,above=0.25,page=on,room=7; api:workers=8; ")
                .unwrap();
        let [dear, api] = &classes[..] else { panic!("{classes:?}") };
        assert_eq!((dear.name.as_str(), dear.workers, dear.queue, dear.patience), ("dear", 4, 0, 0.5));
        assert_eq!((dear.share, dear.above, dear.page, dear.room), (2, Some(0.25), true, 7));
        assert_eq!((api.name.as_str(), api.workers, api.queue, api.patience), ("api", 8, 80, 10.0));
        assert_eq!((api.share, api.above, api.page, api.room), (1, None, false, 10_000));
    }

    #[test]
    fn what_is_wrong_is_named() {
        refused("dear", "a class is written as NAME:workers=N,..., not \"dear\"");
        refused("dear:", "class dear: workers=N is missing");
        refused("a b:workers=1", "\"a b\" can't be the name of a class: letters, digits, - and _, at most 32");
        refused("a:workers=0", "class a: workers must be a number from 1 to 1000000, not \"0\"");
        refused(
            "a:workers=1,patience=x",
            "class a: patience must be a time such as 10s or 500ms, at most a day, not \"x\"",
        );
        refused(
            "a:workers=1,seats=2",
            "class a: unknown option \"seats\"; there are workers, queue, patience, share, above, page, room",
        );
        refused("a:workers=1,chairs=2", "class a: chairs=N is now called queue=N");
        refused("a:workers=1,page=yes", "class a: page must be on or off, not \"yes\"");
        refused("a:workers=1;a:workers=2", "class a is declared twice");
        let many: String = (0..33).map(|n| format!("c{n}:workers=1;")).collect();
        refused(&many, "more than 32 classes");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-c:;,=0-9 workersqueuepatience]{0,60}") {
            if let Ok(classes) = parse(&text) {
                prop_assert!(classes.iter().all(|class| class.workers >= 1 && class.queue <= MAX_PLACES));
            }
        }
    }
}
