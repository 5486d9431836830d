// SPDX-License-Identifier: BSD-2-Clause
//! vmod_fileserver: a directory as a backend. What is asked for is found name by name beneath the directory: `..` never
//! leaves it, and no link is followed unless `follow_links` says so.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backend::responder::FailureText;
use backend::{BackendSpec, Director, Responder};
use base::Real;
use message::{Head, conditional, date};
use sys::openat::{self, OpenFor};
use vrt::vmod::VmodCall;
use vrt::{Text, VclFailure};

use crate::support::local::{self, Answering, LocalResponder};
use vmod_support::args::fail;
use vmod_support::files::ParsedFiles;

const PIECE: usize = 128 * 1024;
const MIME_BYTES: u64 = 10_000_000;
const MIME_DB: &str = "/etc/mime.types";

vrt::vmod! {
    /// A directory as a backend. GET and HEAD are answered; other methods get 405, missing files 404, unreadable files and
    /// directories 403
    pub(crate) static VMOD = fileserver;

    /// A directory. mime_db is a table of content types by extension (default /etc/mime.types, if it exists; empty: none).
    /// A path with a link in it fails, unless follow_links is true; then links may lead anywhere
    object root(path: STRING, mime_db: [STRING], follow_links: BOOL = false) -> FileServer = new, methods {
        /// Returns the backend. The query isn't part of the path, and .. never leads out of the directory. Responses have
        /// ETag and Last-Modified; If-None-Match and If-Modified-Since are supported
        fn backend() -> BACKEND, local = |this: &FileServer, _| Some(this.0.clone());
    }
}

struct FileServer(Arc<dyn Director>);

pub(crate) type Types = HashMap<Vec<u8>, Vec<u8>>;

static TYPES: ParsedFiles<Types> = ParsedFiles::new(MIME_BYTES, |bytes| Ok(types(&bytes)));

/// A table of types; one without any when the usual one isn't there.
pub(crate) fn mime_types(path: Option<&[u8]>) -> Result<Arc<Types>, String> {
    match path {
        None => Ok(TYPES.share(Path::new(MIME_DB)).unwrap_or_default()),
        Some(b"") => Ok(Arc::default()),
        Some(path) => {
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            TYPES.share(path).map_err(|reason| format!("{}: {reason}", path.display()))
        }
    }
}

/// mime.types(5): a type and its extensions on each line; a later line wins.
fn types(text: &[u8]) -> Types {
    let mut types = Types::new();
    for line in text.split(|b| *b == b'\n') {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(mime) = words.next().filter(|word| !word.starts_with(b"#")) else { continue };
        let is_clean = |b: &u8| (b' '..0x7f).contains(b);
        if mime.iter().all(is_clean) {
            types.extend(words.map(|word| (word.to_vec(), mime.to_vec())));
        }
    }
    types
}

fn new(
    call: &mut VmodCall<'_>,
    name: &str,
    path: &[u8],
    mime_db: Option<&Text>,
    follow_links: bool,
) -> Result<FileServer, VclFailure> {
    if path.is_empty() {
        return fail(format!("fileserver: can't create {name} with an empty path"));
    }
    let root = PathBuf::from(std::ffi::OsStr::from_bytes(path));
    let types = mime_types(mime_db.map(|path| path.as_bytes()));
    let types = types.map_err(|reason| VclFailure::new(format!("fileserver: {name}: {reason}")))?;
    let tree =
        Tree::new(root, follow_links).map_err(|reason| VclFailure::new(format!("fileserver: {name}: {reason}")))?;
    let server = Arc::new(FileBackend { tree: Arc::new(tree), types, has_tags: true });
    let service = local::service(&format!("fileserver {name}"), call.ctx.log().ring().clone(), server);
    let made = call.vcl.make_backend(BackendSpec::service(name, service));
    Ok(FileServer(made.ok_or_else(|| VclFailure::new("fileserver.root(): no backends can be made here"))?))
}

pub(crate) struct Tree {
    path: PathBuf,
    links: Links,
}

enum Links {
    /// No link is followed.
    No(OwnedFd),
    /// They are followed where they don't lead out of the directory, whose own path has none.
    Within(OwnedFd),
    /// They are followed, wherever they lead.
    Any,
}

impl Tree {
    pub(crate) fn new(path: PathBuf, follows_links: bool) -> Result<Self, String> {
        let links = if follows_links { Links::Any } else { Links::No(directory(&path)?) };
        Ok(Self { path, links })
    }

    /// One whose links count unless they lead out of it.
    pub(crate) fn within(path: &Path) -> Result<Self, String> {
        let found = path.canonicalize().map_err(|reason| format!("can't open root {}: {reason}", path.display()))?;
        Ok(Self { links: Links::Within(directory(&found)?), path: found })
    }

    /// The file of a path beneath the root; blocks.
    pub(crate) fn open(&self, names: &[&[u8]]) -> std::io::Result<File> {
        let path = || {
            let mut path = self.path.clone();
            path.extend(names.iter().map(|name| std::ffi::OsStr::from_bytes(name)));
            path
        };
        match &self.links {
            Links::No(root) => openat::open_names(root, names, OpenFor::Read),
            Links::Any => openat::open_path(&path(), OpenFor::Read),
            Links::Within(root) => {
                // Where the links lead was found out before: on the way there none is followed any more.
                let found = path().canonicalize()?;
                let beneath = found.strip_prefix(&self.path).map_err(|_| ErrorKind::PermissionDenied)?;
                let names: Vec<&[u8]> = beneath.iter().map(OsStrExt::as_bytes).collect();
                openat::open_names(root, &names, OpenFor::Read)
            }
        }
    }
}

fn directory(path: &Path) -> Result<OwnedFd, String> {
    openat::directory(path).map_err(|reason| format!("can't open root {}: {reason}", path.display()))
}

/// The names of a path, `.` and `..` taken out: what would lead above the first goes.
pub(crate) fn names(path: &[u8]) -> Vec<&[u8]> {
    let mut names = Vec::new();
    for name in path.split(|b| *b == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    names
}

pub(crate) struct FileBackend {
    pub(crate) tree: Arc<Tree>,
    pub(crate) types: Arc<Types>,
    pub(crate) has_tags: bool,
}

struct OpenFile {
    file: File,
    len: u64,
    etag: String,
    modified: Real,
    first: Vec<u8>,
}

impl FileBackend {
    /// Opens a file and reads its beginning; blocks. `Err`: the status of the answer, or what is wrong.
    fn find(&self, path: &[u8], reads: bool) -> Result<OpenFile, Result<u16, FailureText>> {
        let names = names(path);
        let found = self.tree.open(&names).and_then(|file| file.metadata().map(|about| (file, about)));
        let (mut file, about) = found.map_err(|reason| match reason.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename | ErrorKind::InvalidInput => {
                Ok(404)
            }
            ErrorKind::PermissionDenied => Ok(403),
            _ => Err(format!("{}: {reason}", path.escape_ascii())),
        })?;
        if !about.is_file() {
            return Err(Ok(403));
        }
        let modified = about.mtime() as f64 + about.mtime_nsec() as f64 / 1e9;
        let etag =
            format!("\"{:x}-{:x}-{:x}\"", about.ino(), about.len(), about.mtime() * 1_000_000_000 + about.mtime_nsec());
        let mut first = Vec::new();
        if reads {
            read_some(&mut file, &mut first, about.len()).map_err(|reason| Err(reason.to_string()))?;
        }
        Ok(OpenFile { file, len: about.len(), etag, modified: Real(modified), first })
    }

    async fn serve(self: Arc<Self>, mut responder: Responder) -> Result<(), FailureText> {
        let is_get = match responder.head.method() {
            b"GET" => true,
            b"HEAD" => false,
            _ => return responder.refuse(405).await,
        };
        let end = memchr::memchr(b'?', &responder.target).unwrap_or(responder.target.len());
        let path: Arc<[u8]> = responder.target[..end].into();
        let (me, wanted) = (self.clone(), path.clone());
        let found = rt::blocking(move || me.find(&wanted, is_get)).await.map_err(rt::NoThread::text)?;
        let found = match found {
            Ok(found) => found,
            Err(Ok(status)) => return responder.refuse(status).await,
            Err(Err(reason)) => return Err(reason),
        };
        let modified = date::format(found.modified);
        let mut fields: Vec<(&[u8], &[u8])> = vec![(b"Last-Modified", &modified)];
        if self.has_tags {
            fields.push((b"ETag", found.etag.as_bytes()));
        }
        if is_not_modified(&responder.head, &found) {
            responder.respond(304, b"", &fields, None);
            return responder.finish().await;
        }
        if let Some(mime) = self.type_of(&path).filter(|_| found.len > 0) {
            fields.push((b"Content-Type", mime));
        }
        responder.respond(200, b"", &fields, Some(found.len));
        if is_get {
            send_file(&mut responder, found).await?;
        }
        responder.finish().await
    }

    fn type_of(&self, path: &[u8]) -> Option<&[u8]> {
        let name = *names(path).last()?;
        let dot = memchr::memrchr(b'.', name).filter(|at| *at > 0)?;
        self.types.get(&name[dot + 1..]).map(|mime| &mime[..])
    }
}

impl LocalResponder for FileBackend {
    fn answer(self: Arc<Self>, responder: Responder) -> Answering {
        Box::pin(self.serve(responder))
    }
}

fn is_not_modified(request: &Head, found: &OpenFile) -> bool {
    match request.get("If-None-Match") {
        Some(tags) => tags == b"*" || conditional::weak_equal(tags, found.etag.as_bytes()),
        None => {
            let since = request.get("If-Modified-Since").and_then(date::parse);
            // The field has whole seconds.
            since.is_some_and(|since| found.modified.0.floor() <= since.0)
        }
    }
}

fn read_some(file: &mut File, into: &mut Vec<u8>, left: u64) -> std::io::Result<usize> {
    into.clear();
    file.take(left.min(PIECE as u64)).read_to_end(into)
}

/// Exactly as many bytes as were announced, or the connection is cut.
async fn send_file(responder: &mut Responder, found: OpenFile) -> Result<(), FailureText> {
    let OpenFile { mut file, mut len, first: mut piece, .. } = found;
    loop {
        responder.send(&piece).await?;
        len -= piece.len() as u64;
        if len == 0 {
            return Ok(());
        }
        let read;
        (file, piece, read) = rt::blocking(move || {
            let read = read_some(&mut file, &mut piece, len);
            (file, piece, read)
        })
        .await
        .map_err(rt::NoThread::text)?;
        if read.map_err(|reason| reason.to_string())? == 0 {
            return Err("a file became shorter while it was sent".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let show = |path: &str| {
            names(path.as_bytes()).iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join("|")
        };
        for (path, wanted) in [
            ("/baz/qux", "baz|qux"),
            ("//a///b/", "a|b"),
            ("/a/../b", "b"),
            ("/a/../../../b", "b"),
            ("/./a/./b", "a|b"),
            ("..", ""),
            ("", ""),
            ("/...", "..."),
            ("/a/..b", "a|..b"),
        ] {
            assert_eq!(show(path), wanted, "{path}");
        }
    }

    #[test]
    fn a_table_of_types() {
        let types = types(b"# no\ttxt\ntext/a \t t1 T1\n\n  text/b t2\r\ntext/c t1\nlonely\nbad\x01/x t3\n");
        let of = |ext: &str| types.get(ext.as_bytes()).map(|mime| String::from_utf8_lossy(mime).into_owned());
        assert_eq!(of("t1").as_deref(), Some("text/c"));
        assert_eq!(of("T1").as_deref(), Some("text/a"));
        assert_eq!(of("t2").as_deref(), Some("text/b"));
        assert_eq!((of("txt"), of("t3"), types.len()), (None, None, 3));
        assert!(mime_types(Some(b"/nonexistent/types")).is_err() && mime_types(Some(b"")).unwrap().is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_name_is_a_way_out(path: Vec<u8>, dots in "[./a]{0,20}") {
            for path in [&path[..], dots.as_bytes()] {
                for name in names(path) {
                    assert!(!matches!(name, b"" | b"." | b"..") && !name.contains(&b'/'), "{name:?}");
                }
            }
        }
    }
}
