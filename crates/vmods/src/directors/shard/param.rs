// SPDX-License-Identifier: BSD-2-Clause
//! Parameters of a choice, in layers: what a call says, what this task has set, what the VCL has set, defaults.

use std::any::{Any, TypeId};

use backend::ResolveCtx;
use parking_lot::Mutex;
use vrt::vmod::EnumWords;
use vrt::{Blob, Privates, VclFailure};

use super::failed;
use super::methods::ShardArgs;

/// `by`, with the key where it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum By {
    Hash,
    Url,
    Key(u32),
    Blob(u32),
}

impl By {
    pub(in super::super) fn word(self) -> &'static str {
        match self {
            By::Hash => "HASH",
            By::Url => "URL",
            By::Key(_) => "KEY",
            By::Blob(_) => "BLOB",
        }
    }
}

vrt::words! {
    pub(in super::super) enum Healthy { Chosen = "CHOSEN", Ignore = "IGNORE", All = "ALL" }
}

vrt::words! {
    pub(in super::super) enum KeyFrom { Hash = "HASH", Url = "URL", Key = "KEY", Blob = "BLOB" }
}

vrt::words! {
    pub(in super::super) enum Resolve { Now = "NOW", Lazy = "LAZY" }
}

impl ShardArgs<'_> {
    pub(super) fn any(&self) -> bool {
        let ShardArgs { by, key, key_blob, alt, warmup, rampup, healthy } = self;
        by.is_some()
            || key.is_some()
            || key_blob.is_some()
            || alt.is_some()
            || warmup.is_some()
            || rampup.is_some()
            || healthy.is_some()
    }
}

/// One layer: what is `None` shows the layer below.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in super::super) struct Layer {
    pub(in super::super) by: Option<By>,
    pub(in super::super) alt: Option<i64>,
    pub(in super::super) warmup: Option<f64>,
    pub(in super::super) rampup: Option<bool>,
    pub(in super::super) healthy: Option<Healthy>,
}

impl Layer {
    pub(super) fn over(self, below: Layer) -> Layer {
        Layer {
            by: self.by.or(below.by),
            alt: self.alt.or(below.alt),
            warmup: self.warmup.or(below.warmup),
            rampup: self.rampup.or(below.rampup),
            healthy: self.healthy.or(below.healthy),
        }
    }

    /// Reads the parameters of a call. The second value is an error to log.
    ///
    /// # Errors
    /// Arguments that don't go together.
    pub(super) fn read(given: &ShardArgs<'_>, name: &str, func: &str) -> Result<(Layer, Option<String>), VclFailure> {
        let mut note = None;
        let from = given.by.unwrap_or(KeyFrom::Hash);
        let by = match (from, given.key) {
            (KeyFrom::Key, None) => return failed(name, &format!("{func} missing key argument with by=KEY")),
            (KeyFrom::Key, Some(key)) => match u32::try_from(key) {
                Ok(key) => By::Key(key),
                Err(_) => return failed(name, &format!("{func} invalid key argument {key} with by=KEY")),
            },
            (KeyFrom::Blob, _) => match given.key_blob {
                None => return failed(name, &format!("{func} missing key_blob argument with by=BLOB")),
                Some(blob) => match blob.filter(|blob| !blob.as_bytes().is_empty()) {
                    Some(blob) => By::Blob(blob_key(blob)),
                    None => {
                        note = Some(format!("{func} by=BLOB but no or empty key_blob - using key 0"));
                        By::Blob(0)
                    }
                },
            },
            (KeyFrom::Hash | KeyFrom::Url, key) if key.is_some() || given.key_blob.is_some() => {
                let word = from.word();
                return failed(name, &format!("{func} key and key_blob arguments are invalid with by={word}"));
            }
            (KeyFrom::Url, _) => By::Url,
            (KeyFrom::Hash, _) => By::Hash,
        };
        if let Some(alt @ ..0) = given.alt {
            return failed(name, &format!("{func} invalid alt argument {alt}"));
        }
        if let Some(warmup) = given.warmup
            && warmup != -1.0
            && !(0.0..=1.0).contains(&warmup)
        {
            return failed(name, &format!("{func} invalid warmup argument {warmup:.6}"));
        }
        let layer = Layer {
            by: given.by.map(|_| by),
            alt: given.alt,
            warmup: given.warmup,
            rampup: given.rampup,
            healthy: given.healthy,
        };
        Ok((layer, note))
    }
}

/// The first four bytes; a shorter one counts as if zeros stood before it.
fn blob_key(blob: &Blob) -> u32 {
    blob.as_bytes().iter().take(4).fold(0, |key, &b| key << 8 | u32::from(b))
}

#[derive(Debug)]
pub(in super::super) struct Param {
    pub(super) name: String,
    pub(super) vcl: Mutex<Layer>,
}

impl Param {
    pub(in super::super) fn new(name: &str) -> Param {
        Param { name: name.to_owned(), vcl: Mutex::default() }
    }

    pub(in super::super) fn layer(&self, task: &(impl TaskValues + ?Sized)) -> Layer {
        let vcl = *self.vcl.lock();
        own(task, self).map_or(vcl, |own: Layer| own.over(vcl))
    }
}

/// State that a task keeps for a director or its parameters, both in VCL and when the director resolves later on.
pub(in super::super) trait TaskValues {
    fn value(&self, id: TypeId, key: usize) -> Option<&dyn Any>;
}

impl TaskValues for Privates {
    fn value(&self, id: TypeId, key: usize) -> Option<&dyn Any> {
        self.peek(id, key)
    }
}

impl TaskValues for dyn ResolveCtx + '_ {
    fn value(&self, id: TypeId, key: usize) -> Option<&dyn Any> {
        self.task_value(id, key)
    }
}

pub(super) fn own<V: Clone + 'static, O>(task: &(impl TaskValues + ?Sized), object: &O) -> Option<V> {
    task.value(TypeId::of::<V>(), key(object))?.downcast_ref().cloned()
}

/// The task's own value for `object`, to be set.
pub(super) fn own_mut<'a, V: Default + 'static, O>(task: &'a mut Privates, object: &O) -> &'a mut V {
    task.keyed(key(object), V::default)
}

/// An object outlives the tasks that use it, and stays where it is.
fn key<O>(object: &O) -> usize {
    std::ptr::from_ref(object) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use vrt::Value;
    use vrt::vmod::kinds::ArgList;

    fn read(set: &[(usize, Value)]) -> Result<Layer, String> {
        let args: Vec<Value> = (0..7)
            .map(|at| set.iter().find(|(place, _)| *place == at).map_or(Value::Absent, |(_, value)| value.clone()))
            .collect();
        Layer::read(&ShardArgs::take(&args), "s", "f()").map(|found| found.0).map_err(|failure| failure.0.into_owned())
    }

    #[test]
    fn arguments_must_go_together() {
        let key = (1, Value::Int(7));
        assert_eq!(read(&[]), Ok(Layer::default()));
        assert_eq!(read(&[(0, Value::Enum("KEY")), key.clone()]).map(|layer| layer.by), Ok(Some(By::Key(7))));
        let text = |what: &str| Err(format!("vmod_directors: shard s: f() {what}"));
        assert_eq!(read(&[(0, Value::Enum("KEY"))]), text("missing key argument with by=KEY"));
        assert_eq!(read(&[key]), text("key and key_blob arguments are invalid with by=HASH"));
        assert_eq!(read(&[(0, Value::Enum("KEY")), (1, Value::Int(-1))]), text("invalid key argument -1 with by=KEY"));
        assert_eq!(read(&[(3, Value::Int(-1))]), text("invalid alt argument -1"));
        assert_eq!(read(&[(4, Value::Real(1.5))]), text("invalid warmup argument 1.500000"));
        let blob = |bytes: &[u8]| read(&[(0, Value::Enum("BLOB")), (2, Value::Blob(Some(Blob::new(bytes))))]);
        assert_eq!(blob(&[1, 2]).map(|layer| layer.by), Ok(Some(By::Blob(0x102))));
        assert_eq!(blob(&[1, 2, 3, 4, 5]).map(|layer| layer.by), Ok(Some(By::Blob(0x1020304))));
    }

    #[test]
    fn a_tasks_values_are_its_own() {
        let (param, other) = (Param::new("p"), Param::new("p"));
        param.vcl.lock().alt = Some(1);
        let mut task = Privates::default();
        *own_mut(&mut task, &param) = Layer { by: Some(By::Url), ..Layer::default() };
        assert_eq!(param.layer(&task), Layer { by: Some(By::Url), alt: Some(1), ..Layer::default() });
        assert_eq!(other.layer(&task), Layer::default());
        assert_eq!(param.layer(&Privates::default()).by, None);
    }
}
