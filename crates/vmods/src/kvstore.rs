// SPDX-License-Identifier: BSD-2-Clause
//! vmod_kvstore: tables of texts. A table is read far more often than it is changed, so each part of it has a lock for both.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use base::Mono;
use parking_lot::RwLock;
use vrt::vmod::{BOOL, CallResult, INT, STRING, VOID, VmodCall, give, wait};
use vrt::{Method, Text, VclFailure};

use vmod_support::args::fail;
use vmod_support::bounded::{BoundedMap, Worth};

/// Keys of a table.
const MAX: usize = 1_000_000;
/// Parts of a table, each with a lock.
const PARTS: usize = 16;
/// Keys that a task of a table with scope=REQUEST may set.
const MAX_OF_TASK: usize = 1000;
const FILE_BYTES: u64 = 1 << 30;

vrt::words! {
    enum Scope { Global = "GLOBAL", Request = "REQUEST" }
}

vrt::vmod! {
    /// Tables of strings by key, each with its own TTL. A table belongs to its VCL and has at most a million keys: one more
    /// replaces an expired key or, of a few, the one that expires first. Keys set in vcl_init and by init_file() stay
    pub(crate) static VMOD = kvstore;

    /// A table. buckets is its initial capacity. With scope=REQUEST each task starts with the keys set in vcl_init, and its
    /// changes are its own
    object init(buckets: INT = 25000, scope: Scope = Global) -> Arc<Store> = new, methods {
        /// Sets a key for ttl; 0: it doesn't expire
        fn set(key: STRING, value: STRING, ttl: DURATION = 0.0) -> VOID = set;

        /// Returns the value of a key; the default if there is none
        fn get(key: STRING, default: STRING = null) -> STRING, local = init_get;

        /// Deletes a key
        fn delete(key: STRING) -> VOID = delete;

        /// Adds to the number in a key (0 if there is none) and returns the result. A given ttl starts again
        fn counter(key: STRING, increment: INT = 1, ttl: DURATION = 0.0) -> INT = counter;

        /// Adds to the number in a key (0 if there is none) unless the result would exceed max; returns whether it did
        fn limit(key: STRING, max: INT, count: INT = 1) -> BOOL = limit;

        /// Returns whether the key exists
        fn contains(key: STRING) -> BOOL, local
            = |this: &Arc<Store>, call: &mut VmodCall<'_>, key: &[u8]| this.entry(call, key).is_some();

        /// Returns the number of keys, including expired ones that haven't been requested since
        fn size() -> INT, local = |this: &Arc<Store>, call: &mut VmodCall<'_>| this.size(call) as i64;

        /// Removes expired keys and returns their number
        fn compact() -> INT = init_compact;

        /// Replaces all keys at once by the lines of a file (key, separator, value) and returns their number. If the file
        /// can't be read, it fails and changes nothing
        fn init_file(path: STRING, separator: STRING = ",") -> INT, blocks = init_file;
    }

    left_out {
        "kvstore.init.gauge" => "set, or statsd.gauge for a figure to watch";
        "kvstore.init.get_any" => "get, for each key";
        "kvstore.init.get_backend" => "get, and a backend by `if`";
        "kvstore.init.init_conf" => "init_file, with one separator for all lines";
        "kvstore.init.lock" => "counter or limit, which nothing comes between";
        "kvstore.init.set_backend" => "set, with the backend's name";
        "kvstore.init.unlock" => "counter or limit, which nothing comes between";
    }
}

fn init_get(this: &Arc<Store>, call: &mut VmodCall<'_>, key: &[u8], default: Option<&Text>) -> CallResult<STRING> {
    let found = this.get(call, key);
    give(found.or_else(|| default.cloned()))
}

fn limit(this: &Arc<Store>, call: &mut VmodCall<'_>, key: &[u8], most: i64, add: i64) -> CallResult<BOOL> {
    let (is_within, _) = count(call, this, key, add, None, Some(most))?;
    give(is_within)
}

fn init_compact(this: &Arc<Store>, call: &mut VmodCall<'_>) -> CallResult<INT> {
    let now = call.ctx.clock().mono();
    give(this.table.read().compact(now) as i64)
}

struct Store {
    name: String,
    /// Changes by a task stay its own.
    is_layered: bool,
    /// Replaced as a whole by `init_file`.
    table: RwLock<Arc<Table>>,
}

#[derive(Debug)]
struct Table {
    hasher: RandomState,
    parts: [RwLock<BoundedMap<Text, KvEntry>>; PARTS],
}

#[derive(Clone, Debug)]
struct KvEntry {
    value: Text,
    until: Option<Mono>,
    /// Set by the operator: no key of a request takes its place.
    is_kept: bool,
}

/// Changes of one table by a task: keys set or deleted.
#[derive(Default)]
struct Layer(HashMap<Text, Option<KvEntry>>);

fn new(_: &mut VmodCall<'_>, name: &str, buckets: i64, scope: Scope) -> Result<Arc<Store>, VclFailure> {
    if buckets < 1 {
        return fail(format!("kvstore: {name}: buckets must be 1 or more"));
    }
    let room = (buckets as usize).min(MAX) / PARTS;
    let is_layered = scope == Scope::Request;
    Ok(Arc::new(Store { name: name.to_owned(), is_layered, table: RwLock::new(Arc::new(Table::new(room))) }))
}

fn is_housekeeping(call: &VmodCall<'_>) -> bool {
    matches!(call.method, Method::Init | Method::Fini)
}

fn until(call: &VmodCall<'_>, ttl: f64) -> Option<Mono> {
    (ttl > 0.0).then(|| call.ctx.clock().mono().plus(ttl))
}

fn set(this: &Arc<Store>, call: &mut VmodCall<'_>, key: &[u8], value: Option<&Text>, ttl: f64) -> CallResult<VOID> {
    let (key, value) = (key, value.cloned().unwrap_or(Text::EMPTY));
    let entry = KvEntry { value, until: until(call, ttl), is_kept: is_housekeeping(call) };
    this.put(call, key, entry)?;
    give(())
}

fn delete(this: &Arc<Store>, call: &mut VmodCall<'_>, key: &[u8]) -> CallResult<VOID> {
    let (store, key) = (this, key);
    if store.is_own(call) {
        store.layer(call, key)?.insert(Text::copy(key), None);
    } else {
        store.table.read().part(key).write().remove(key);
    }
    give(())
}

fn counter(this: &Arc<Store>, call: &mut VmodCall<'_>, key: &[u8], increment: i64, ttl: f64) -> CallResult<INT> {
    let life = until(call, ttl);
    let (_, sum) = count(call, this, key, increment, life, None)?;
    give(sum)
}

/// Adds to a key's number unless that would make it more than `most`; whether it did, and the number then.
fn count(
    call: &mut VmodCall<'_>,
    store: &Store,
    key: &[u8],
    add: i64,
    life: Option<Mono>,
    most: Option<i64>,
) -> Result<(bool, i64), VclFailure> {
    let next = |old: Option<&[u8]>| {
        let old = number(old.unwrap_or_default());
        let sum = old.saturating_add(add);
        if most.is_none_or(|most| sum <= most) { (true, sum) } else { (false, old) }
    };
    if store.is_own(call) {
        let old = store.entry(call, key);
        let (did, sum) = next(old.as_ref().map(|entry| entry.value.as_bytes()));
        let until = life.or(old.and_then(|entry| entry.until));
        store.put(call, key, KvEntry { value: sum.to_string().into(), until, is_kept: false })?;
        return Ok((did, sum));
    }
    // Under one lock from the old number to the new: others count, too.
    let now = call.ctx.clock().mono();
    let table = store.table.read().clone();
    let mut part = table.part(key).write();
    let is_kept = is_housekeeping(call) || part.get(key).is_some_and(|old| old.is_kept);
    let old = part.get(key).filter(|entry| entry.lives(now));
    let (did, sum) = next(old.map(|entry| entry.value.as_bytes()));
    let until = life.or(old.and_then(|entry| entry.until));
    set_in(&mut part, key, KvEntry { value: sum.to_string().into(), until, is_kept }, now);
    Ok((did, sum))
}

/// The number at a text's begin; 0 when there is none.
fn number(text: &[u8]) -> i64 {
    let end = text.iter().enumerate().position(|(n, b)| !(b.is_ascii_digit() || n == 0 && *b == b'-'));
    let digits = &text[..end.unwrap_or(text.len())];
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn init_file(this: &Arc<Store>, _: &mut VmodCall<'_>, path: &[u8], separator: &[u8]) -> CallResult<INT> {
    let (store, path) = (this.clone(), path.to_vec());
    let separator = separator.to_vec();
    if separator.is_empty() {
        return fail(format!("kvstore: {}.init_file(): a separator must not be empty", store.name));
    }
    wait(async move {
        let read = rt::blocking(move || {
            let path = String::from_utf8_lossy(&path).into_owned();
            load(&path, &separator).map_err(|reason| format!("{path}: {reason}"))
        });
        match read.await.map_err(|refused| refused.text().to_owned()).flatten() {
            Ok((table, count)) => {
                *store.table.write() = Arc::new(table);
                Ok(count as i64)
            }
            Err(reason) => fail(format!("kvstore: {}.init_file(): {reason}", store.name)),
        }
    })
}

/// The lines of a file; empty ones don't count.
fn load(path: &str, separator: &[u8]) -> Result<(Table, usize), String> {
    let len = std::fs::metadata(path).map_err(|reason| reason.to_string())?.len();
    if len > FILE_BYTES {
        return Err(format!("larger than {FILE_BYTES} bytes"));
    }
    let text = std::fs::read(path).map_err(|reason| reason.to_string())?;
    parse(&text, separator)
}

fn parse(text: &[u8], separator: &[u8]) -> Result<(Table, usize), String> {
    let table = Table::new(0);
    for (n, line) in text.split(|b| *b == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let at = memchr::memmem::find(line, separator).ok_or_else(|| format!("line {} has no separator", n + 1))?;
        let entry = KvEntry { value: Text::copy(&line[at + separator.len()..]), until: None, is_kept: true };
        table.part(&line[..at]).write().insert(Text::copy(&line[..at]), entry);
    }
    let count: usize = table.parts.iter().map(|part| part.read().len()).sum();
    if count > MAX {
        return Err(format!("more than {MAX} keys"));
    }
    Ok((table, count))
}

impl KvEntry {
    fn lives(&self, now: Mono) -> bool {
        self.until.is_none_or(|until| now.0 < until.0)
    }

    fn worth(&self, now: Mono) -> Worth {
        match self.until {
            _ if !self.lives(now) => Worth::Nothing,
            _ if self.is_kept => Worth::Kept,
            until => Worth::Some(until.map_or(f64::INFINITY, |until| until.0)),
        }
    }
}

impl Table {
    fn new(room: usize) -> Table {
        let part = |_| RwLock::new(BoundedMap::with_capacity(room));
        Table { hasher: RandomState::new(), parts: std::array::from_fn(part) }
    }

    fn part(&self, key: &[u8]) -> &RwLock<BoundedMap<Text, KvEntry>> {
        &self.parts[self.hasher.hash_one(key) as usize % PARTS]
    }

    fn compact(&self, now: Mono) -> usize {
        let drop_dead = |part: &RwLock<BoundedMap<Text, KvEntry>>| {
            let mut part = part.write();
            let before = part.len();
            part.retain(|entry| entry.lives(now));
            before - part.len()
        };
        self.parts.iter().map(drop_dead).sum()
    }
}

/// Sets a key; a new one takes the place of another when the part is full.
fn set_in(part: &mut BoundedMap<Text, KvEntry>, key: &[u8], entry: KvEntry, now: Mono) {
    if !part.contains_key(key) {
        part.make_room(MAX / PARTS, |entry| entry.worth(now));
    }
    part.insert(Text::copy(key), entry);
}

impl Store {
    fn is_own(&self, call: &VmodCall<'_>) -> bool {
        self.is_layered && !is_housekeeping(call)
    }

    /// The task's own keys, with room for one more.
    fn layer<'a>(
        &self,
        call: &'a mut VmodCall<'_>,
        key: &[u8],
    ) -> Result<&'a mut HashMap<Text, Option<KvEntry>>, VclFailure> {
        let layer = &mut call.ctx.task().keyed(std::ptr::from_ref(self) as usize, Layer::default).0;
        if layer.len() >= MAX_OF_TASK && !layer.contains_key(key) {
            return fail(format!("kvstore: {}: a task sets no more than {MAX_OF_TASK} keys", self.name));
        }
        Ok(layer)
    }

    fn put(&self, call: &mut VmodCall<'_>, key: &[u8], entry: KvEntry) -> Result<(), VclFailure> {
        if self.is_own(call) {
            self.layer(call, key)?.insert(Text::copy(key), Some(entry));
            return Ok(());
        }
        let now = call.ctx.clock().mono();
        let table = self.table.read().clone();
        let mut part = table.part(key).write();
        set_in(&mut part, key, entry, now);
        Ok(())
    }

    fn entry(&self, call: &mut VmodCall<'_>, key: &[u8]) -> Option<KvEntry> {
        let now = call.ctx.clock().mono();
        if self.is_own(call)
            && let Some(layer) = call.ctx.task().find::<Layer>(std::ptr::from_ref(self) as usize)
            && let Some(own) = layer.0.get(key)
        {
            return own.clone().filter(|entry| entry.lives(now));
        }
        let table = self.table.read().clone();
        let part = table.part(key);
        let found = part.read().get(key).cloned()?;
        if found.lives(now) {
            return Some(found);
        }
        let mut part = part.write();
        if part.get(key).is_some_and(|entry| !entry.lives(now)) {
            part.remove(key);
        }
        None
    }

    fn size(&self, call: &mut VmodCall<'_>) -> usize {
        let table = self.table.read().clone();
        let mut size: usize = table.parts.iter().map(|part| part.read().len()).sum();
        if self.is_own(call)
            && let Some(layer) = call.ctx.task().find::<Layer>(std::ptr::from_ref(self) as usize)
        {
            for (key, own) in &layer.0 {
                match (table.part(key).read().contains_key(key), own) {
                    (true, None) => size -= 1,
                    (false, Some(_)) => size += 1,
                    _ => {}
                }
            }
        }
        size
    }

    fn get(&self, call: &mut VmodCall<'_>, key: &[u8]) -> Option<Text> {
        self.entry(call, key).map(|entry| entry.value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_in_texts() {
        assert_eq!(
            ["", "12", "-3x", "x1", "-", "99999999999999999999"].map(|t| number(t.as_bytes())),
            [0, 12, -3, 0, 0, 0]
        );
    }

    #[test]
    fn a_full_table_takes_new_keys() {
        let mut part = BoundedMap::default();
        let mut set = |key: &str, until, is_kept| {
            set_in(&mut part, key.as_bytes(), KvEntry { value: Text::EMPTY, until, is_kept }, Mono(1.0));
            part.len()
        };
        set("own", None, true);
        let most = (0..MAX / PARTS + 1000).map(|n| set(&format!("made up {n}"), None, false)).max();
        set("honest", Some(Mono(100.0)), false);
        assert!(part.contains_key(&b"own"[..]) && part.contains_key(&b"honest"[..]));
        assert!(most.is_some_and(|most| most <= MAX / PARTS), "{most:?}");
    }

    #[test]
    fn lines_of_a_file() {
        let (table, count) = parse(b"a|1\r\n\nb||2\na|3", b"|").expect("it is right");
        let value = |key: &[u8]| table.part(key).read().get(key).map(|entry| entry.value.to_vec());
        assert_eq!((count, value(b"a"), value(b"b")), (2, Some(b"3".to_vec()), Some(b"|2".to_vec())));
        assert_eq!(parse(b"a|1\nb", b"|").err().as_deref(), Some("line 2 has no separator"));
    }

    proptest! {
        #[test]
        fn any_file(lines in proptest::collection::vec("([ab]{0,2}(=|=>|)[a=>]{0,3}|\\PC{0,5})", 0..6), separator in "(=|=>|a)", ends in "\r?\n") {
            let lines: Vec<&String> = lines.iter().filter(|line| !line.contains(['\n', '\r'])).collect();
            let text: String = lines.iter().map(|line| format!("{line}{ends}")).collect();
            let pairs: Option<std::collections::BTreeMap<&str, &str>> =
                lines.iter().filter(|line| !line.is_empty()).map(|line| line.split_once(&separator)).collect();
            let parsed = parse(text.as_bytes(), separator.as_bytes());
            prop_assert_eq!(parsed.as_ref().map(|(_, count)| *count).ok(), pairs.as_ref().map(|pairs| pairs.len()));
            if let (Ok((table, _)), Some(pairs)) = (parsed, pairs) {
                for (key, value) in pairs {
                    let part = table.part(key.as_bytes()).read();
                    prop_assert_eq!(part.get(key.as_bytes()).map(|entry| entry.value.as_bytes()), Some(value.as_bytes()));
                }
            }
        }
    }
}
