// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl lsp`: a language server on stdin and stdout, for any editor that speaks the Language Server Protocol 3.17.
//!
//! It says what the compiler says of the texts in the editor, saved or not; shows what a name means and where it may stand;
//! completes; goes to definitions and included files; lists symbols; lays out. Host names aren't resolved: a text is checked at
//! each key.

mod know;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use serde_json::{Value, json};
use vcl::format::{Style, format};
use vcl::outline::{Kind, Outline};
use vcl::{Options, Sources};

use crate::args::Args;
use crate::messages;
use know::Part;

/// Most files that belong to one VCL.
const MAX_FILES: usize = 500;

/// Serves until the editor says `exit`.
pub(crate) fn run(args: &Args, sources: &dyn Sources) -> i32 {
    let (connection, threads) = Connection::stdio();
    let served = serve(&connection, args, sources);
    drop(connection);
    match served.and_then(|()| threads.join().map_err(|e| e.to_string())) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("lacquer vcl lsp: {why}");
            1
        }
    }
}

fn serve(connection: &Connection, args: &Args, sources: &dyn Sources) -> Result<(), String> {
    let capabilities = json!({
        "textDocumentSync": { "openClose": true, "change": 1, "save": true },
        "hoverProvider": true,
        "completionProvider": { "triggerCharacters": [".", "(", " "] },
        "definitionProvider": true,
        "documentSymbolProvider": true,
        "documentFormattingProvider": true,
    });
    connection.initialize(capabilities).map_err(|e| e.to_string())?;
    let mut server = Server { args, sources, open: BTreeMap::new(), told: BTreeMap::new() };
    for message in &connection.receiver {
        let answers = match message {
            Message::Request(request) => {
                if connection.handle_shutdown(&request).map_err(|e| e.to_string())? {
                    return Ok(());
                }
                vec![Message::Response(server.answer(request))]
            }
            Message::Notification(notification) => server.note(&notification),
            Message::Response(_) => Vec::new(),
        };
        for answer in answers {
            connection.sender.send(answer).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

struct Server<'a> {
    args: &'a Args,
    sources: &'a dyn Sources,
    /// The texts in the editor, by path.
    open: BTreeMap<String, Vec<u8>>,
    /// For each file that was compiled, the files about which the editor was told something.
    told: BTreeMap<String, BTreeSet<String>>,
}

/// The editor's texts before the disk's; nothing that could wait on a network.
struct Overlay<'a>(&'a Server<'a>);

impl Sources for Overlay<'_> {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        let (name, text) = match self.0.sources.read(path) {
            Ok(found) => found,
            Err(why) => (path.to_owned(), self.0.open.get(path).cloned().ok_or(why)?),
        };
        let text = self.0.open.get(&name).cloned().unwrap_or(text);
        Ok((name, text))
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        self.0.sources.glob(pattern)
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        Ok(vec![host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)))])
    }

    fn is_socket(&self, _: &str) -> Result<bool, String> {
        Ok(true)
    }
}

impl Server<'_> {
    fn answer(&self, request: Request) -> Response {
        let params = &request.params;
        let result = match request.method.as_str() {
            "textDocument/hover" => self.hover(params),
            "textDocument/completion" => self.completion(params),
            "textDocument/definition" => self.definition(params),
            "textDocument/documentSymbol" => self.symbols(params),
            "textDocument/formatting" => self.formatting(params),
            other => {
                let why = format!("{other} isn't served");
                return Response::new_err(request.id, ErrorCode::MethodNotFound as i32, why);
            }
        };
        Response::new_ok(request.id, result.unwrap_or(Value::Null))
    }

    fn note(&mut self, notification: &Notification) -> Vec<Message> {
        let params = &notification.params;
        let Some(path) = document(params) else { return Vec::new() };
        let new = match notification.method.as_str() {
            "textDocument/didOpen" => params["textDocument"]["text"].as_str(),
            "textDocument/didChange" => params["contentChanges"]
                .as_array()
                .and_then(|changes| changes.last())
                .and_then(|last| last["text"].as_str()),
            "textDocument/didSave" => None,
            "textDocument/didClose" => {
                self.open.remove(&path);
                self.told.insert(path.clone(), BTreeSet::new());
                return vec![publish(&path, &[])];
            }
            _ => return Vec::new(),
        };
        if let Some(text) = new {
            self.open.insert(path.clone(), text.as_bytes().to_vec());
        }
        let root = self.root_of(&path);
        self.diagnose(&root, &path)
    }

    /// The files that `root` is made of, itself first.
    fn parts(&self, root: &str) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut wanted = vec![root.to_owned()];
        while let Some(path) = wanted.pop() {
            let Ok((path, text)) = Overlay(self).read(&path) else { continue };
            if parts.len() == MAX_FILES || parts.iter().any(|part| part.path == path) {
                continue;
            }
            let outline = Outline::of(&text);
            for include in outline.includes.iter().rev() {
                wanted.extend(self.files(&path, include));
            }
            parts.push(Part { path, text, outline });
        }
        parts
    }

    /// The files that an include in `path` names.
    fn files(&self, path: &str, include: &vcl::outline::Include) -> Vec<String> {
        let name = match include.path.strip_prefix("./").zip(path.rsplit_once('/')) {
            Some((rest, (folder, _))) => format!("{folder}/{rest}"),
            None => include.path.clone(),
        };
        if include.glob { self.sources.glob(&name).unwrap_or_default() } else { vec![name] }
    }

    /// The open file that begins with a version and includes `path`; `path` itself when there is none.
    fn root_of(&self, path: &str) -> String {
        if self.open.get(path).is_some_and(|text| Outline::of(text).versioned) {
            return path.to_owned();
        }
        let includes = |root: &&String| {
            let parts = self.parts(root);
            parts.first().is_some_and(|first| first.outline.versioned) && parts.iter().any(|part| part.path == path)
        };
        self.open.keys().filter(|root| *root != path).find(includes).map_or_else(|| path.to_owned(), Clone::clone)
    }

    /// Compiles `root` and tells the editor what the compiler says of its files, in any case of `changed`.
    fn diagnose(&mut self, root: &str, changed: &str) -> Vec<Message> {
        let Some(main) = self.open.get(root) else { return Vec::new() };
        let fragment = !Outline::of(main).versioned;
        let options = Options {
            syntax: self.args.syntax,
            check_regex: Some(vrt::check_regex),
            labels: self.args.labels.clone(),
            stores: self.args.stores.clone(),
            err_unref: false,
            ..Options::default()
        };
        let compiled = vcl::compile(root, main, &Overlay(self), &options);
        let found = match &compiled {
            Ok(good) => messages::parse(&good.warnings, false),
            Err(why) => messages::parse(&why.text, true),
        };
        let mut by_file: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for message in found {
            // What a fragment needs may stand in the file that includes it, which isn't open.
            if fragment && (message.warning || message.place.is_none() || message.what.starts_with("Symbol not found"))
            {
                continue;
            }
            let (path, range) = match &message.place {
                Some(place) => {
                    let text = Overlay(self).read(&place.source).map(|(_, text)| text).unwrap_or_default();
                    let from = text::of_column(&text, place.line, place.column);
                    let to = text::of_column(&text, place.line, place.column.saturating_add(place.width));
                    (place.source.clone(), text::range(&text, from, to.max(from)))
                }
                None => (root.to_owned(), text::range(b"", 0, 0)),
            };
            let severity = if message.warning { 2 } else { 1 };
            by_file.entry(path).or_default().push(
                json!({ "range": range, "severity": severity, "source": "lacquer", "message": message.what, "data": message.text }),
            );
        }
        let mut files: BTreeSet<String> = self.told.remove(root).unwrap_or_default();
        files.extend(by_file.keys().cloned());
        files.insert(changed.to_owned());
        self.told.insert(root.to_owned(), by_file.keys().cloned().collect());
        files.iter().map(|file| publish(file, by_file.get(file).map_or(&[], Vec::as_slice))).collect()
    }

    /// The text that a request is about, the byte it points at, and all files that belong to it.
    fn asked(&self, params: &Value) -> Option<(String, usize, Vec<Part>)> {
        let path = document(params)?;
        let at = text::offset(self.open.get(&path)?, &params["position"]);
        let mut parts = self.parts(&self.root_of(&path));
        let own = parts.iter().position(|part| part.path == path)?;
        parts.swap(0, own);
        Some((path, at, parts))
    }

    fn hover(&self, params: &Value) -> Option<Value> {
        let (_, at, parts) = self.asked(params)?;
        let Part { text, outline, .. } = parts.first()?;
        let spot = outline.spot(text, at);
        let name = String::from_utf8_lossy(&text[spot.name.clone()]).into_owned();
        if spot.in_string || name.is_empty() {
            return None;
        }
        let shown = know::hover(&parts, &name, &spot)?;
        Some(json!({
            "contents": { "kind": "markdown", "value": shown },
            "range": text::range(text, spot.name.start, spot.name.end),
        }))
    }

    fn completion(&self, params: &Value) -> Option<Value> {
        let (_, at, parts) = self.asked(params)?;
        let Part { text, outline, .. } = parts.first()?;
        let spot = outline.spot(text, at);
        let from = spot.name.start.min(at);
        let typed = String::from_utf8_lossy(&text[from..at]);
        let range = text::range(text, from, at);
        let item = |item: know::Item| {
            json!({
                "label": item.label,
                "kind": item.kind,
                "detail": item.detail,
                "documentation": { "kind": "markdown", "value": item.text },
                "textEdit": { "range": range, "newText": item.label },
            })
        };
        Some(know::complete(&parts, &typed, &spot).into_iter().map(item).collect())
    }

    fn definition(&self, params: &Value) -> Option<Value> {
        let (path, at, parts) = self.asked(params)?;
        let Part { text, outline, .. } = parts.first()?;
        if let Some(include) = outline.includes.iter().find(|include| include.at.contains(&at)) {
            let files = self.files(&path, include).into_iter().filter_map(|file| Overlay(self).read(&file).ok());
            let place =
                |(name, _): (String, Vec<u8>)| json!({ "uri": text::uri_of(&name), "range": text::range(b"", 0, 0) });
            return Some(files.map(place).collect());
        }
        let spot = outline.spot(text, at);
        let name = String::from_utf8_lossy(&text[spot.name.clone()]);
        // A method's object, or a function's module.
        let owner = name.split_once('.').map_or(&*name, |(owner, _)| owner);
        let (part, declaration) = know::declaration(&parts, &name).or_else(|| know::declaration(&parts, owner))?;
        let range = text::range(&part.text, declaration.at.start, declaration.at.end);
        Some(json!({ "uri": text::uri_of(&part.path), "range": range }))
    }

    fn symbols(&self, params: &Value) -> Option<Value> {
        let text = self.open.get(&document(params)?)?;
        let kind = |kind: Kind| match kind {
            Kind::Sub => 12,
            Kind::Import => 2,
            Kind::Object => 19,
            Kind::Acl | Kind::Backend | Kind::Probe => 14,
        };
        let symbols = Outline::of(text).declarations.into_iter().map(|d| {
            json!({
                "name": d.name,
                "detail": d.kind.word(),
                "kind": kind(d.kind),
                "range": text::range(text, d.whole.start, d.whole.end),
                "selectionRange": text::range(text, d.at.start, d.at.end),
            })
        });
        Some(symbols.collect())
    }

    /// The whole text anew; none when it can't be laid out or needn't be.
    fn formatting(&self, params: &Value) -> Option<Value> {
        let text = self.open.get(&document(params)?)?;
        let options = &params["options"];
        let spaces = options["tabSize"].as_u64().unwrap_or(4).clamp(1, 8) as usize;
        let indent = if options["insertSpaces"] == false { "\t".to_owned() } else { " ".repeat(spaces) };
        let new = format("", text, &Style { indent }).ok().filter(|new| new != text)?;
        let new = String::from_utf8(new).ok()?;
        Some(json!([{ "range": text::range(text, 0, text.len()), "newText": new }]))
    }
}

fn document(params: &Value) -> Option<String> {
    text::path_of(params["textDocument"]["uri"].as_str()?)
}

fn publish(path: &str, diagnostics: &[Value]) -> Message {
    let params = json!({ "uri": text::uri_of(path), "diagnostics": diagnostics });
    Message::Notification(Notification { method: "textDocument/publishDiagnostics".to_owned(), params })
}
