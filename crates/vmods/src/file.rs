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
use vrt::vmod::kinds::Plain;
use vrt::vmod::{BACKEND, BOOL, CallResult, STRING, TIME, VOID, VmodCall, give, wait};
use vrt::{Text, VclFailure};

use crate::fileserver::{FileBackend, Tree, mime_types, names};
use crate::support::local;
use vmod_support::args::fail;

const MAX_BYTES: u64 = 10_000_000;
const ALLOWED: usize = 1000;

vrt::vmod! {
    /// Reads files in VCL or as a backend. Writing files and running programs aren't supported
    pub(crate) static VMOD = file;

    /// A directory. Paths are relative to it; links that lead out of it fail, and with disable_symlinks all links. Without
    /// a directory paths are absolute, and only those named by allow() can be read. mimedb is a table of content types by
    /// extension (default /etc/mime.types, if it exists)
    object init(rootdir: STRING = null, mimedb: [STRING], disable_symlinks: BOOL = false) -> Arc<FileObject> = new, methods {
        /// Allows reading a path and everything below it. Modes other than r fail
        fn allow(path: STRING, mode: STRING = "r") -> VOID = allow;

        /// Returns the content of a file (at most 10 MB); unset if it can't be read, with the reason in the log
        fn read(path: STRING) -> STRING, local, blocks = read;

        /// Returns whether the file exists and can be read
        fn exists(path: STRING) -> BOOL, local, blocks = exists;

        /// Returns the time of the file's last change; the start of 1970 if it can't be determined
        fn lastmodified(path: STRING) -> TIME, local, blocks = lastmodified;

        /// Returns a backend that serves the files below the directory for GET and HEAD, with Last-Modified and
        /// If-Modified-Since
        fn backend() -> BACKEND, local = backend;
    }

    left_out {
        "file.arg" => "a program beside the server: programs aren't run";
        "file.split_args" => "a program beside the server: programs aren't run";
        "file.init.append" => "std.log and varnishlog: files aren't written";
        "file.init.exec" => "a program beside the server, as a backend: programs aren't run";
        "file.init.exec_get_errorcode" => "a program beside the server, as a backend: programs aren't run";
        "file.init.delete" => "a program beside the server: files aren't changed";
        "file.init.write_blob" => "kvstore, for texts in memory: files aren't written";
        "file.init.write_req_body" => "a backend that takes it: files aren't written";
        "file.init.write" => "kvstore, for texts in memory: files aren't written";
    }
}

fn read(this: &Arc<FileObject>, call: &mut VmodCall<'_>, path: &[u8]) -> CallResult<STRING> {
    let read = |tree: &Tree, names: &[&[u8]]| {
        let mut bytes = Vec::new();
        let file = tree.open(names)?;
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("no regular file"));
        }
        if file.take(MAX_BYTES + 1).read_to_end(&mut bytes)? as u64 > MAX_BYTES {
            return Err(std::io::Error::other(format!("longer than {MAX_BYTES} bytes")));
        }
        Ok(bytes)
    };
    with(call, this, path, "read", read, |read| read)
}

fn exists(this: &Arc<FileObject>, call: &mut VmodCall<'_>, path: &[u8]) -> CallResult<BOOL> {
    let exists = |tree: &Tree, names: &[&[u8]]| match tree.open(names) {
        Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => Ok(false),
        other => other.map(|_| true),
    };
    with(call, this, path, "exists", exists, |exists| exists.unwrap_or(false))
}

fn lastmodified(this: &Arc<FileObject>, call: &mut VmodCall<'_>, path: &[u8]) -> CallResult<TIME> {
    let time = |tree: &Tree, names: &[&[u8]]| Ok(tree.open(names)?.metadata()?.mtime() as f64);
    with(call, this, path, "lastmodified", time, |time| time.unwrap_or(0.0))
}

fn backend(this: &Arc<FileObject>, _: &mut VmodCall<'_>) -> CallResult<BACKEND> {
    match &this.director {
        Some(director) => give(Some(director.clone())),
        None => fail("file.backend(): without a root directory there is none"),
    }
}

struct FileObject {
    tree: Arc<Tree>,
    /// Paths that may be read; `None`: all that is beneath the root directory, if there is one.
    allowed: Mutex<Option<Vec<Vec<Vec<u8>>>>>,
    director: Option<Arc<dyn Director>>,
}

fn new(
    call: &mut VmodCall<'_>,
    name: &str,
    rootdir: Option<&Text>,
    mimedb: Option<&Text>,
    disable_symlinks: bool,
) -> Result<Arc<FileObject>, VclFailure> {
    let refused = |reason: String| VclFailure::new(format!("file: {name}: {reason}"));
    let root = rootdir.map(|root| root.as_bytes()).filter(|root| !root.is_empty());
    let types = mime_types(mimedb.map(|path| path.as_bytes())).map_err(refused)?;
    let path = root.map_or(Path::new("/"), |root| Path::new(OsStr::from_bytes(root)));
    let tree = if disable_symlinks { Tree::new(path.to_owned(), false) } else { Tree::within(path) };
    let tree = Arc::new(tree.map_err(refused)?);
    let director = match root {
        None => None,
        Some(_) => {
            let server = Arc::new(FileBackend { tree: tree.clone(), types, has_tags: false });
            let service = local::service(&format!("file {name}"), call.ctx.log().ring().clone(), server);
            let made = call.vcl.make_backend(BackendSpec::service(name, service));
            Some(made.ok_or_else(|| refused("no backends can be made here".to_owned()))?)
        }
    };
    let allowed = Mutex::new(if root.is_some() { None } else { Some(Vec::new()) });
    Ok(Arc::new(FileObject { tree, allowed, director }))
}

fn allow(this: &Arc<FileObject>, _: &mut VmodCall<'_>, path: &[u8], mode: &[u8]) -> CallResult<VOID> {
    if mode != b"r" {
        return fail("file.allow(): files are read only: writing (w) and running (x) aren't built into Lacquer");
    }
    if let Some(allowed) = &mut *this.allowed.lock() {
        if allowed.len() >= ALLOWED {
            return fail(format!("file.allow(): more than {ALLOWED} paths"));
        }
        allowed.push(names(path).into_iter().map(<[u8]>::to_vec).collect());
    }
    give(())
}

/// Applies a function to a file's contents, off the thread; the log says what was wrong with the file.
fn with<K, T: Send + 'static, V: Plain<K> + 'static>(
    call: &mut VmodCall<'_>,
    made: &Arc<FileObject>,
    path: &[u8],
    who: &'static str,
    work: fn(&Tree, &[&[u8]]) -> std::io::Result<T>,
    value: fn(Option<T>) -> V,
) -> CallResult<K> {
    let (made, path) = (made.clone(), path.to_vec());
    let is_allowed = made.allowed.lock().as_ref().is_none_or(|allowed| {
        let names = names(&path);
        allowed.iter().any(|allowed| names.len() >= allowed.len() && names.iter().zip(allowed).all(|(a, b)| a == b))
    });
    if !is_allowed {
        return fail(format!("file.{who}(): {} isn't allowed", path.escape_ascii()));
    }
    // A trial isn't logged.
    let ring = call.ctx.trial().is_none().then(|| call.ctx.log().ring().clone());
    wait(async move {
        let shown = path.escape_ascii().to_string();
        let done = rt::blocking(move || work(&made.tree, &names(&path))).await;
        let done = done.unwrap_or_else(|refused| Err(std::io::Error::other(refused.text())));
        if let (Err(reason), Some(ring)) = (&done, ring) {
            let text = format_args!("file.{who}(): {shown}: {reason}");
            ring.write_onef(Tag::Error, base::Vxid::NONE, shm::vsl::Marker::None, text);
        }
        Ok(value(done.ok()))
    })
}
