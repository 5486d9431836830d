// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl lsp`: a language server on stdin and stdout, for any editor that supports the Language Server Protocol 3.17.
//!
//! It reports the compiler's findings for the texts in the editor, saved or not, and offers fixes. It supports hover, completion,
//! definitions, references, links to included files, renaming, symbols and formatting. Host names aren't resolved, since texts are checked
//! at each keystroke.

mod answers;
mod diagnose;
mod know;
mod names;
mod text;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use serde_json::{Value, json};
use vcl::Sources;

use crate::args::VclArgs;
use crate::texts::OpenTexts;
use diagnose::ByFile;
use text::{Encoding, Lines};
use wire::{Incoming, Refusal};

/// Maximum number of messages that are read ahead.
const AHEAD: usize = 64;

/// Serves until the editor sends `exit`. Returns 0 if `shutdown` came before, as the protocol requires.
pub(crate) fn run(args: &VclArgs, sources: &dyn Sources) -> i32 {
    let (sender, inbox) = sync_channel(AHEAD);
    // The thread ends with the stream or the process.
    std::thread::spawn(move || {
        let mut input = BufReader::new(io::stdin());
        loop {
            let message = wire::read(&mut input).transpose();
            let last = !matches!(message, Some(Ok(_)));
            if message.is_some_and(|message| sender.send(message).is_err()) || last {
                return;
            }
        }
    });
    match serve(args, sources, &inbox) {
        Ok(status) => status,
        Err(reason) => {
            eprintln!("lacquer vcl lsp: {reason}");
            1
        }
    }
}

type Inbox = Receiver<Result<Vec<u8>, String>>;

fn serve(args: &VclArgs, sources: &dyn Sources, inbox: &Inbox) -> Result<i32, String> {
    let mut server = Server {
        args,
        texts: OpenTexts::new(sources, args.dialect),
        client: Client { encoding: Encoding::Utf16, related: false, tags: false },
        found: BTreeMap::new(),
        changed: BTreeSet::new(),
        state: LspState::New,
    };
    loop {
        // Changes are compiled once no further message waits.
        let next = match inbox.try_recv() {
            Ok(message) => message,
            Err(TryRecvError::Empty) => {
                server.tell_changes()?;
                match inbox.recv() {
                    Ok(message) => message,
                    Err(_) => return Ok(server.state.status()),
                }
            }
            Err(TryRecvError::Disconnected) => return Ok(server.state.status()),
        };
        match wire::parse(&next?) {
            Incoming::Response => {}
            Incoming::Bad(id, refusal) => send(&wire::answer(&id, Err(refusal)))?,
            Incoming::Notification { method, .. } if method == "exit" => return Ok(server.state.status()),
            Incoming::Notification { method, params } => server.note(&method, &params)?,
            Incoming::Request { id, method, params } => {
                server.tell_changes()?;
                let asked = catch_unwind(AssertUnwindSafe(|| server.answer(&method, &params)));
                let result =
                    asked.unwrap_or_else(|_| Err(Refusal::new(wire::INTERNAL_ERROR, format!("{method} failed"))));
                send(&wire::answer(&id, result))?;
            }
        }
    }
}

fn send(message: &Value) -> Result<(), String> {
    wire::write(&mut io::stdout().lock(), message).map_err(|e| format!("stdout: {e}"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LspState {
    New,
    Serving,
    Down,
}

impl LspState {
    /// Exit status. The protocol requires 1 if `shutdown` didn't come first.
    fn status(self) -> i32 {
        i32::from(self != LspState::Down)
    }
}

struct Client {
    encoding: Encoding,
    related: bool,
    tags: bool,
}

struct Server<'a> {
    args: &'a VclArgs,
    texts: OpenTexts<'a>,
    client: Client,
    /// Published findings of each file, by the file that was compiled.
    found: BTreeMap<String, ByFile>,
    changed: BTreeSet<String>,
    state: LspState,
}

impl Server<'_> {
    fn answer(&mut self, method: &str, params: &Value) -> Result<Value, Refusal> {
        match (self.state, method) {
            (LspState::New, "initialize") => {
                self.state = LspState::Serving;
                Ok(self.initialize(params))
            }
            (LspState::New, _) => Err(Refusal::new(wire::NOT_INITIALIZED, "initialize comes first")),
            (LspState::Down, _) => Err(Refusal::new(wire::INVALID_REQUEST, "it was shut down")),
            (LspState::Serving, "initialize") => Err(Refusal::new(wire::INVALID_REQUEST, "it is initialized")),
            (LspState::Serving, "shutdown") => {
                self.state = LspState::Down;
                Ok(Value::Null)
            }
            (LspState::Serving, _) => self.serve(method, params),
        }
    }

    fn initialize(&mut self, params: &Value) -> Value {
        let can = |path: &str| params["capabilities"].pointer(path).cloned().unwrap_or_default();
        self.client.encoding = Encoding::choose(&can("/general/positionEncodings"));
        self.client.related = can("/textDocument/publishDiagnostics/relatedInformation") == true;
        self.client.tags = can("/textDocument/publishDiagnostics/tagSupport").is_object();
        let folders = params["workspaceFolders"].as_array().cloned().unwrap_or_default();
        let uris = folders.iter().map(|folder| &folder["uri"]).chain([&params["rootUri"]]);
        let paths = uris.filter_map(|uri| text::path_of(uri.as_str()?)).filter(|path| path.starts_with('/'));
        self.texts.folders = paths.map(|path| path.trim_end_matches('/').to_owned()).collect();
        self.texts.folders.dedup();
        json!({
            "capabilities": {
                "positionEncoding": self.client.encoding.name(),
                "textDocumentSync": { "openClose": true, "change": 2, "save": { "includeText": false } },
                "hoverProvider": true,
                "completionProvider": { "triggerCharacters": [".", "(", " "] },
                "signatureHelpProvider": { "triggerCharacters": ["(", ","] },
                "definitionProvider": true,
                "referencesProvider": true,
                "documentHighlightProvider": true,
                "documentSymbolProvider": true,
                "codeActionProvider": { "codeActionKinds": ["quickfix"] },
                "documentFormattingProvider": true,
                "renameProvider": { "prepareProvider": true },
                "foldingRangeProvider": true,
            },
            "serverInfo": { "name": "lacquer vcl lsp", "version": env!("CARGO_PKG_VERSION") },
        })
    }

    fn note(&mut self, method: &str, params: &Value) -> Result<(), String> {
        if self.state != LspState::Serving {
            return Ok(());
        }
        let document = &params["textDocument"];
        let Some(uri) = document["uri"].as_str() else { return Ok(()) };
        let Some(path) = text::path_of(uri) else { return Ok(()) };
        match method {
            "textDocument/didOpen" => {
                let text = document["text"].as_str().unwrap_or_default().as_bytes().to_vec();
                self.texts.put(&path, uri, text, document["version"].clone());
            }
            "textDocument/didChange" => {
                let Some(doc) = self.texts.open.get_mut(&path) else { return Ok(()) };
                doc.version = document["version"].clone();
                for change in params["contentChanges"].as_array().into_iter().flatten() {
                    apply(&mut doc.text, change, self.client.encoding);
                }
            }
            "textDocument/didSave" => self.texts.find_home(&path),
            "textDocument/didClose" => return self.close(&path),
            _ => return Ok(()),
        }
        self.changed.insert(path);
        Ok(())
    }

    /// Withdraws the findings of a closed text. Files that it belongs to are judged again with the text on disk.
    fn close(&mut self, path: &str) -> Result<(), String> {
        let roots = self.texts.roots(path);
        let Some(doc) = self.texts.open.remove(path) else { return Ok(()) };
        self.changed.remove(path);
        let gone = self.found.remove(path).unwrap_or_default();
        self.changed.extend(roots.into_iter().filter(|root| self.texts.open.contains_key(root)));
        self.tell_changes()?;
        // Findings of a file that was read only for the closed one are withdrawn.
        let open = &self.texts.open;
        let kept =
            |root: &String| open.contains_key(root) || open.keys().any(|path| self.texts.roots(path).contains(root));
        let lost: Vec<String> = self.found.keys().filter(|root| !kept(root)).cloned().collect();
        let mut files: BTreeSet<String> = gone.into_keys().collect();
        for root in lost {
            files.extend(self.found.remove(&root).unwrap_or_default().into_keys());
        }
        files.remove(path);
        for file in files {
            self.publish(&file)?;
        }
        let left: Vec<Value> = diagnose::of_file(&self.found, path).iter().map(|found| found.shown.clone()).collect();
        send(&published(&doc.uri, &Value::Null, left))
    }

    fn tell_changes(&mut self) -> Result<(), String> {
        let changed = std::mem::take(&mut self.changed);
        let mut files = changed.clone();
        let roots: BTreeSet<String> = changed.iter().flat_map(|path| self.texts.roots(path)).collect();
        for path in changed.iter().filter(|path| !roots.contains(*path)) {
            files.extend(self.found.remove(path).unwrap_or_default().into_keys());
        }
        for root in roots {
            let found = catch_unwind(AssertUnwindSafe(|| diagnose::diagnose(self, &root))).unwrap_or_else(|_| {
                eprintln!("lacquer vcl lsp: {root} can't be compiled");
                ByFile::new()
            });
            files.extend(found.keys().cloned());
            files.extend(self.found.insert(root, found).unwrap_or_default().into_keys());
        }
        files.iter().try_for_each(|file| self.publish(file))
    }

    fn publish(&self, path: &str) -> Result<(), String> {
        let shown = diagnose::of_file(&self.found, path).iter().map(|found| found.shown.clone()).collect();
        let version = self.texts.open.get(path).map_or(Value::Null, |doc| doc.version.clone());
        send(&published(&self.uri_of(path), &version, shown))
    }

    /// The URI as the editor spells it.
    fn uri_of(&self, path: &str) -> String {
        self.texts.open.get(path).map_or_else(|| text::uri_of(path), |doc| doc.uri.clone())
    }

    fn lines<'t>(&self, text: &'t [u8]) -> Lines<'t> {
        Lines::new(text, self.client.encoding)
    }
}

fn published(uri: &str, version: &Value, diagnostics: Vec<Value>) -> Value {
    let mut params = json!({ "uri": uri, "diagnostics": diagnostics });
    if version.is_i64() {
        params["version"] = version.clone();
    }
    json!({ "jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params })
}

/// Applies one change: to a range of the text, or to all of it.
fn apply(text: &mut Vec<u8>, change: &Value, encoding: Encoding) {
    let Some(new) = change["text"].as_str() else { return };
    let range = &change["range"];
    if !range.is_object() {
        *text = new.as_bytes().to_vec();
        return;
    }
    let lines = Lines::new(text, encoding);
    let (from, to) = (lines.offset(&range["start"]), lines.offset(&range["end"]));
    text.splice(from..to.max(from), new.bytes());
}
