// SPDX-License-Identifier: BSD-2-Clause
//! vmod_file of Varnish Enterprise: files read in VCL, and a directory as a backend, which is fileserver's. Only the head of
//! its documentation is public; what is here beyond that is what published VCL asks for.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use backend::{BackendSpec, Director};
use parking_lot::Mutex;
use tables::Tag;
use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Failure, Value};

use crate::args::{Args, fail, give, wait};
use crate::fileserver::{Server, Tree, mime_types, names};
use crate::local;

/// Bytes of a file that VCL reads.
const MOST_BYTES: u64 = 10_000_000;
/// Paths that are allowed.
const ALLOWED: usize = 1000;

/// vmod_file
pub(crate) static VMOD: Vmod = Vmod {
    name: "file",
    functions: &[],
    classes: &[Class {
        name: "init",
        new,
        methods: &[
            ("allow", allow),
            ("read", |call, object, args| {
                let read = |tree: &Tree, names: &[&[u8]]| {
                    let mut bytes = Vec::new();
                    let file = tree.open(names)?;
                    if !file.metadata()?.is_file() {
                        return Err(std::io::Error::other("no regular file"));
                    }
                    if file.take(MOST_BYTES + 1).read_to_end(&mut bytes)? as u64 > MOST_BYTES {
                        return Err(std::io::Error::other(format!("longer than {MOST_BYTES} bytes")));
                    }
                    Ok(bytes)
                };
                with(call, object, args, "read", read, |read| read.map_or(Value::NULL, Value::text))
            }),
            ("exists", |call, object, args| {
                let exists = |tree: &Tree, names: &[&[u8]]| match tree.open(names) {
                    Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(false),
                    other => other.map(|_| true),
                };
                with(call, object, args, "exists", exists, |exists| Value::Bool(exists.unwrap_or(false)))
            }),
            ("lastmodified", |call, object, args| {
                let time = |tree: &Tree, names: &[&[u8]]| Ok(tree.open(names)?.metadata()?.mtime() as f64);
                with(call, object, args, "lastmodified", time, |time| Value::Time(time.unwrap_or(0.0)))
            }),
            ("backend", |_, object, _| match &this(object).director {
                Some(director) => give(Value::Backend(Some(director.clone()))),
                None => fail("file.backend(): without a root directory there is none"),
            }),
        ],
    }],
};

/// What `new` makes.
struct Made {
    tree: Arc<Tree>,
    /// What may be read; all that is beneath the root directory, if there is one.
    allowed: Mutex<Option<Vec<Vec<Vec<u8>>>>>,
    director: Option<Arc<dyn Director>>,
}

fn this(object: &Object) -> Arc<Made> {
    object.clone().downcast().expect("made by this class")
}

fn new(call: &mut Call<'_>, name: &str, args: &[Value]) -> Result<Object, Failure> {
    let args = Args(args);
    let refused = |why: String| Failure::new(format!("file: {name}: {why}"));
    let root = args.text(0).map(|root| root.as_bytes()).filter(|root| !root.is_empty());
    let types = mime_types(args.text(1).map(|path| path.as_bytes())).map_err(refused)?;
    let path = root.map_or(Path::new("/"), |root| Path::new(OsStr::from_bytes(root)));
    let tree = if args.bool(2) { Tree::new(path.to_owned(), false) } else { Tree::within(path) };
    let tree = Arc::new(tree.map_err(refused)?);
    let director = match root {
        None => None,
        Some(_) => {
            let server = Arc::new(Server { tree: tree.clone(), types, has_tags: false });
            let service = local::service(&format!("file {name}"), call.ctx.log().ring().clone(), server);
            let made = call.vcl.make_backend(BackendSpec::service(name, service));
            Some(made.ok_or_else(|| refused("no backends can be made here".to_owned()))?)
        }
    };
    let allowed = Mutex::new(if root.is_some() { None } else { Some(Vec::new()) });
    Ok(Arc::new(Made { tree, allowed, director }))
}

fn allow(_: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let (path, mode) = (Args(args).bytes_of(0), Args(args).bytes_of(1));
    if mode != b"r" {
        return fail("file.allow(): files are read only: writing (w) and running (x) aren't built into Lacquer");
    }
    if let Some(allowed) = &mut *this(object).allowed.lock() {
        if allowed.len() >= ALLOWED {
            return fail(format!("file.allow(): more than {ALLOWED} paths"));
        }
        allowed.push(names(path).into_iter().map(<[u8]>::to_vec).collect());
    }
    give(Value::Void)
}

/// What becomes of a file, off the thread; the log says what was wrong with it.
fn with<T: Send + 'static>(
    call: &mut Call<'_>,
    object: &Object,
    args: &[Value],
    who: &'static str,
    work: fn(&Tree, &[&[u8]]) -> std::io::Result<T>,
    value: fn(Option<T>) -> Value,
) -> CallResult {
    let (made, path) = (this(object), Args(args).bytes_of(0).to_vec());
    let is_allowed = made.allowed.lock().as_ref().is_none_or(|allowed| {
        let names = names(&path);
        allowed.iter().any(|allowed| names.len() >= allowed.len() && names.iter().zip(allowed).all(|(a, b)| a == b))
    });
    if !is_allowed {
        return fail(format!("file.{who}(): {} isn't allowed", path.escape_ascii()));
    }
    let ring = call.ctx.log().ring().clone();
    wait(async move {
        let shown = path.escape_ascii().to_string();
        let done = rt::blocking(move || work(&made.tree, &names(&path))).await;
        if let Err(why) = &done {
            let text = format_args!("file.{who}(): {shown}: {why}");
            ring.write_onef(Tag::Error, base::Vxid::NONE, shm::vsl::Marker::None, text);
        }
        Ok(value(done.ok()))
    })
}
