// SPDX-License-Identifier: BSD-2-Clause
//! Answers to an editor's requests.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Value, json};
use tables::dialects::Dialect;
use vcl::Sources;
use vcl::format::{FormatStyle, format};
use vcl::outline::{DeclarationKind, Outline};

use super::know;
use super::names::{self, Target};
use super::wire::{self, Refusal};
use super::{Server, diagnose, text};
use crate::judge::Location;
use crate::texts::{self, OpenText};

struct RequestTarget {
    /// The file with which the VCL begins.
    root: String,
    at: usize,
    /// All texts of the VCL, the one with the position first.
    parts: Vec<OpenText>,
    dialect: Option<Dialect>,
}

impl Server<'_> {
    pub(super) fn serve(&self, method: &str, params: &Value) -> Result<Value, Refusal> {
        let result = match method {
            "textDocument/hover" => self.hover(params),
            "textDocument/completion" => self.completion(params),
            "textDocument/signatureHelp" => self.signature(params),
            "textDocument/definition" => self.definition(params),
            "textDocument/references" => self.references(params),
            "textDocument/documentHighlight" => self.highlights(params),
            "textDocument/documentSymbol" => self.symbols(params),
            "textDocument/codeAction" => self.actions(params),
            "textDocument/formatting" => self.formatting(params),
            "textDocument/prepareRename" => self.prepare_rename(params),
            "textDocument/rename" => return self.rename(params),
            "textDocument/foldingRange" => self.folds(params),
            other => return Err(Refusal::new(wire::METHOD_NOT_FOUND, format!("{other} isn't served"))),
        };
        Ok(result.unwrap_or(Value::Null))
    }

    fn asked(&self, params: &Value) -> Option<RequestTarget> {
        let path = document(params)?;
        let at = self.lines(&self.texts.open.get(&path)?.text).offset(&params["position"]);
        let root = self.texts.roots(&path).into_iter().next()?;
        let mut parts = self.texts.parts(&root);
        let own = parts.iter().position(|part| part.path == path)?;
        parts.swap(0, own);
        let dialect = self.texts.dialect(&root);
        Some(RequestTarget { root, at, parts, dialect })
    }

    fn hover(&self, params: &Value) -> Option<Value> {
        let RequestTarget { at, parts, dialect, .. } = self.asked(params)?;
        let OpenText { text, outline, .. } = parts.first()?;
        let location = outline.cursor_context(text, at);
        let name = String::from_utf8_lossy(&text[location.name.clone()]).into_owned();
        if location.in_string || name.is_empty() {
            return None;
        }
        let shown = know::hover(&parts, dialect, &name, &location)?;
        Some(json!({
            "contents": { "kind": "markdown", "value": shown },
            "range": self.lines(text).range(&location.name),
        }))
    }

    fn completion(&self, params: &Value) -> Option<Value> {
        let RequestTarget { at, parts, dialect, .. } = self.asked(params)?;
        let OpenText { text, outline, .. } = parts.first()?;
        let location = outline.cursor_context(text, at);
        let from = location.name.start.min(at);
        let typed = String::from_utf8_lossy(&text[from..at]);
        let range = self.lines(text).range(&(from..at));
        let item = |item: know::Item| {
            json!({
                "label": item.label,
                "kind": item.kind,
                "detail": item.detail,
                "documentation": { "kind": "markdown", "value": item.text },
                "filterText": item.label,
                "textEdit": { "range": range, "newText": item.label },
            })
        };
        Some(know::complete(&parts, dialect, &typed, &location).into_iter().map(item).collect())
    }

    fn signature(&self, params: &Value) -> Option<Value> {
        let RequestTarget { at, parts, .. } = self.asked(params)?;
        let OpenText { text, outline, .. } = parts.first()?;
        let call = outline.call(text, at)?;
        let signature = know::signature(&parts, &call.name)?;
        let given = call.named.and_then(|named| signature.params.iter().position(|(_, name)| *name == named));
        let params: Vec<_> = signature.params.iter().map(|(at, _)| json!({ "label": [at.start, at.end] })).collect();
        Some(json!({
            "signatures": [{
                "label": signature.label,
                "documentation": { "kind": "markdown", "value": signature.text },
                "parameters": params,
            }],
            "activeSignature": 0,
            "activeParameter": given.unwrap_or(call.arg),
        }))
    }

    fn definition(&self, params: &Value) -> Option<Value> {
        let RequestTarget { root, at, parts, .. } = self.asked(params)?;
        let OpenText { path, text, outline } = parts.first()?;
        if let Some(include) = outline.includes.iter().find(|include| include.at.contains(&at)) {
            let overlay = self.texts.overlay(&root);
            let files = texts::files(&overlay, path, include).into_iter().filter_map(|file| overlay.read(&file).ok());
            let place = |(name, _): (String, Vec<u8>)| json!({ "uri": self.uri_of(&name), "range": self.lines(b"").range(&(0..0)) });
            return Some(files.map(place).collect());
        }
        let location = outline.cursor_context(text, at);
        if location.in_string {
            return None;
        }
        let name = String::from_utf8_lossy(&text[location.name.clone()]);
        // The object of a method, or the module of a function.
        let owner = name.split_once('.').map_or(&*name, |(owner, _)| owner);
        let all = parts.iter().flat_map(|part| part.outline.declarations.iter().map(move |d| (part, d)));
        let named = |wanted: &str| {
            let same = all.clone().filter(|(_, d)| d.name == wanted);
            same.map(|(part, d)| self.location(part, &d.at)).collect::<Vec<_>>()
        };
        // A subroutine may be declared several times.
        let found = [named(&name), named(owner)].into_iter().find(|found| !found.is_empty())?;
        Some(if let [one] = found.as_slice() { one.clone() } else { found.into() })
    }

    fn location(&self, part: &OpenText, at: &Range<usize>) -> Value {
        json!({ "uri": self.uri_of(&part.path), "range": self.lines(&part.text).range(at) })
    }

    fn references(&self, params: &Value) -> Option<Value> {
        let RequestTarget { at, parts, .. } = self.asked(params)?;
        let (_, target) = names::target(&parts, at)?;
        let declared_too = params["context"]["includeDeclaration"] != false;
        let mut out = Vec::new();
        for part in &parts {
            let declared = names::declarations(part, &target);
            let uses = names::uses(part, &target).into_iter().filter(|at| declared_too || !declared.contains(at));
            out.extend(uses.map(|at| self.location(part, &at)));
        }
        Some(out.into())
    }

    fn highlights(&self, params: &Value) -> Option<Value> {
        let RequestTarget { at, parts, .. } = self.asked(params)?;
        let (_, target) = names::target(&parts, at)?;
        let part = parts.first()?;
        let lines = self.lines(&part.text);
        Some(names::uses(part, &target).iter().map(|at| json!({ "range": lines.range(at) })).collect())
    }

    fn prepare_rename(&self, params: &Value) -> Option<Value> {
        let RequestTarget { at, parts, .. } = self.asked(params)?;
        let (range, target) = names::target(&parts, at)?;
        let Target::Declared(_, name) = &target else { return None };
        names::renamed(&parts, &target, name).ok()?;
        Some(json!({ "range": self.lines(&parts.first()?.text).range(&range), "placeholder": name }))
    }

    fn rename(&self, params: &Value) -> Result<Value, Refusal> {
        let failed = |reason: String| Refusal::new(wire::REQUEST_FAILED, reason);
        let found = self
            .asked(params)
            .and_then(|asked| names::target(&asked.parts, asked.at).map(|found| (asked.parts, found)));
        let (parts, (_, target)) = found.ok_or_else(|| failed("Nothing that has a name stands here.".to_owned()))?;
        let new = params["newName"].as_str().unwrap_or_default();
        let old = names::renamed(&parts, &target, new).map_err(failed)?;
        let mut changes = serde_json::Map::new();
        for part in &parts {
            let lines = self.lines(&part.text);
            // `import std;` uses the module's own name. `as` sets another one.
            let module = part
                .outline
                .declarations
                .iter()
                .find(|d| d.kind == DeclarationKind::Import && d.name == old && d.of == old);
            let edit = |at: Range<usize>| {
                let is_module = module.is_some_and(|d| d.whole.contains(&at.start));
                let text = if is_module { format!("{old} as {new}") } else { new.to_owned() };
                json!({ "range": lines.range(&at), "newText": text })
            };
            let mut uses = names::uses(part, &target);
            // In `import std as std;`, only the second name counts.
            uses.retain(|at| module.is_none_or(|d| !d.whole.contains(&at.start) || *at == d.at));
            if !uses.is_empty() {
                changes.insert(self.uri_of(&part.path), uses.into_iter().map(edit).collect());
            }
        }
        Ok(json!({ "changes": changes }))
    }

    fn symbols(&self, params: &Value) -> Option<Value> {
        let text = &self.texts.open.get(&document(params)?)?.text;
        let lines = self.lines(text);
        let kind = |kind: DeclarationKind| match kind {
            DeclarationKind::Sub => 12,
            DeclarationKind::Import => 2,
            DeclarationKind::Object => 19,
            DeclarationKind::Acl | DeclarationKind::Backend | DeclarationKind::Director | DeclarationKind::Probe => 14,
        };
        let symbols = Outline::parse(text).declarations.into_iter().map(|d| {
            json!({
                "name": d.name,
                "detail": d.kind.word(),
                "kind": kind(d.kind),
                "range": lines.range(&d.whole),
                "selectionRange": lines.range(&d.at),
            })
        });
        Some(symbols.collect())
    }

    fn actions(&self, params: &Value) -> Option<Value> {
        let path = document(params)?;
        let lines = self.lines(&self.texts.open.get(&path)?.text);
        let only = params["context"]["only"].as_array();
        if only.is_some_and(|kinds| !kinds.iter().any(|kind| kind == "quickfix" || kind == "")) {
            return Some(json!([]));
        }
        let range = &params["range"];
        let (from, to) = (lines.offset(&range["start"]), lines.offset(&range["end"]));
        let found = diagnose::of_file(&self.found, &path)
            .into_iter()
            .filter(|found| found.at.start <= to && from <= found.at.end);
        let action = |found: &diagnose::FileFindings| {
            let fix = found.fix.as_ref()?;
            let mut changes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            for (Location { path, text, at }, new) in &fix.edits {
                let edit = json!({ "range": self.lines(text).range(at), "newText": new });
                changes.entry(self.uri_of(path)).or_default().push(edit);
            }
            Some(json!({
                "title": fix.title,
                "kind": "quickfix",
                "isPreferred": true,
                "diagnostics": [found.shown],
                "edit": { "changes": changes },
            }))
        };
        Some(found.filter_map(action).collect())
    }

    /// The whole formatted text. `None` if it can't be formatted, or needn't be.
    fn formatting(&self, params: &Value) -> Option<Value> {
        let text = &self.texts.open.get(&document(params)?)?.text;
        let options = &params["options"];
        let spaces = options["tabSize"].as_u64().unwrap_or(4).clamp(1, 8) as usize;
        let indent = if options["insertSpaces"] == false { "\t".to_owned() } else { " ".repeat(spaces) };
        let new = format("", text, &FormatStyle { indent }).ok().filter(|new| new != text)?;
        let new = String::from_utf8(new).ok()?;
        Some(json!([{ "range": self.lines(text).range(&(0..text.len())), "newText": new }]))
    }

    fn folds(&self, params: &Value) -> Option<Value> {
        let text = &self.texts.open.get(&document(params)?)?.text;
        let lines = self.lines(text);
        let line = |at: usize| lines.position(at)["line"].as_u64().unwrap_or(0);
        let blocks = Outline::parse(text).blocks();
        let folds = blocks.iter().map(|block| (line(block.start), line(block.end.saturating_sub(1))));
        // The closing brace stays visible.
        let folds = folds.filter(|(first, last)| last > &(first + 1)).map(|(first, last)| (first, last - 1));
        Some(folds.map(|(first, last)| json!({ "startLine": first, "endLine": last })).collect())
    }
}

fn document(params: &Value) -> Option<String> {
    text::path_of(params["textDocument"]["uri"].as_str()?)
}
