// SPDX-License-Identifier: BSD-2-Clause
//! An old program as one list of tokens, with includes in their places, and the blanks and comments before each token.

use super::DialectResult;
use crate::code::DiagnosticCode;
use crate::diag::DiagnosticDraft;
use crate::odd::to_ascii_in_place;
use crate::outline::patient_tokens;
use crate::token::{Tok, Token, VclSource, lex};
use crate::{CompileOptions, Sources};

const MAX_INCLUDES: u32 = 64;
const MAX_FILES: usize = 10_000;

/// The kind of an item in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlatItemKind {
    Tok(Tok),
    /// An include statement. The items of the file follow, up to `Eof`.
    Include,
    /// The end of an included file, with the blanks and comments after its last token.
    Eof,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FlatItem {
    pub kind: FlatItemKind,
    pub src: u32,
    /// The start of the blanks and comments before it.
    pub gap: u32,
    pub start: u32,
    pub end: u32,
    pub quote: u8,
}

impl FlatItem {
    pub fn tok(&self) -> Option<Tok> {
        match self.kind {
            FlatItemKind::Tok(tok) => Some(tok),
            FlatItemKind::Include | FlatItemKind::Eof => None,
        }
    }
}

/// Reads `text` and its includes. The last item is the end of the program.
pub(crate) fn load(
    name: &str,
    text: &[u8],
    outside: &dyn Sources,
    options: &CompileOptions,
    sources: &mut Vec<VclSource>,
) -> DialectResult<Vec<FlatItem>> {
    let mut loader = Loader { outside, options, sources, is_patient: false, items: Vec::new(), bytes: 0 };
    loader.file(name, kind(name), text.to_vec(), None, 0)?;
    Ok(loader.items)
}

/// Like [`load`], for a text that may be damaged: unreadable parts and missing files are skipped.
pub(crate) fn load_patiently(
    name: &str,
    text: &[u8],
    outside: &dyn Sources,
    options: &CompileOptions,
    sources: &mut Vec<VclSource>,
) -> Vec<FlatItem> {
    let mut loader = Loader { outside, options, sources, is_patient: true, items: Vec::new(), bytes: 0 };
    // If the text is too large, the part that was read still shows the dialect.
    let _ = loader.file(name, kind(name), text.to_vec(), None, 0);
    loader.items
}

fn kind(name: &str) -> &'static str {
    if name.starts_with('<') { "vcl.inline" } else { "file" }
}

struct Loader<'a> {
    outside: &'a dyn Sources,
    options: &'a CompileOptions,
    sources: &'a mut Vec<VclSource>,
    is_patient: bool,
    items: Vec<FlatItem>,
    bytes: usize,
}

impl Loader<'_> {
    fn file(
        &mut self,
        name: &str,
        kind: &'static str,
        text: Vec<u8>,
        parent: Option<u32>,
        depth: u32,
    ) -> DialectResult {
        self.bytes += text.len();
        if self.bytes > crate::vcc::MAX_SOURCE || self.sources.len() >= MAX_FILES || depth > MAX_INCLUDES {
            let text = format!("VCL is too large, or its includes nest too deeply, at '{name}'\n");
            return Err(DiagnosticDraft::new(DiagnosticCode::Limit, text));
        }
        let mut up = parent;
        while let Some(at) = up {
            let source = &self.sources[at as usize];
            if source.name == name {
                return Err(DiagnosticDraft::new(
                    DiagnosticCode::File,
                    format!("Recursive use of file \"{name}\"\n\n"),
                ));
            }
            up = source.parent;
        }
        let src = self.sources.len() as u32;
        let tokens = self.tokens(VclSource { name: name.to_owned(), kind, text, parent, map: None }, src)?;
        let mut gap = 0;
        let mut at = 0;
        while at < tokens.len() {
            let t = tokens[at];
            let word = &self.sources[src as usize].text[t.start as usize..t.end as usize];
            if t.tok == Tok::Id && word == b"include" {
                // The list ends with an end token, so every other token has a successor.
                let path = tokens[at + 1];
                let end = tokens.get(at + 2).filter(|end| path.tok == Tok::Str && end.tok == Tok::C(b';'));
                let Some(end) = end.map(|t| t.end) else {
                    if self.is_patient {
                        at += 1;
                        continue;
                    }
                    return Err(DiagnosticDraft::at(
                        DiagnosticCode::Syntax,
                        "include wants a string and a semicolon.\n",
                        t.span(),
                    ));
                };
                self.items.push(FlatItem {
                    kind: FlatItemKind::Include,
                    src,
                    gap,
                    start: t.start,
                    end,
                    quote: path.quote,
                });
                let included = self.include(src, (path.start, path.end, path.quote), depth);
                if !self.is_patient {
                    included?;
                }
                gap = end;
                at += 3;
                continue;
            }
            let (kind, gone) = match t.tok {
                Tok::End if parent.is_some() => (FlatItemKind::Eof, true),
                tok => (FlatItemKind::Tok(tok), false),
            };
            let start = if gone { self.sources[src as usize].text.len() as u32 } else { t.start };
            self.items.push(FlatItem { kind, src, gap, start, end: t.end.max(start), quote: t.quote });
            gap = t.end;
            at += 1;
        }
        Ok(())
    }

    fn tokens(&mut self, mut source: VclSource, src: u32) -> DialectResult<Vec<Token>> {
        if self.is_patient {
            source.text = to_ascii_in_place(&source.text).into_owned();
            let (mut tokens, _) = patient_tokens(&source.text);
            let end = source.text.len() as u32;
            tokens.push(Token { tok: Tok::End, quote: 0, src, start: end, end, num: 0.0 });
            self.sources.push(source);
            return Ok(tokens);
        }
        let (mut tokens, mut blobs) = (Vec::new(), Vec::new());
        let lexed = lex(&source.text, src, &mut blobs, &mut tokens);
        self.sources.push(source);
        lexed.map(|()| tokens)
    }

    fn include(&mut self, src: u32, (start, end, quote): (u32, u32, u8), depth: u32) -> DialectResult {
        let place = (src, start, end);
        let quote = u32::from(quote);
        let bytes = &self.sources[src as usize].text[(start + quote) as usize..(end - quote) as usize];
        let mut path = String::from_utf8_lossy(bytes).into_owned();
        if let Some(rest) = path.strip_prefix("./") {
            let includer = &self.sources[src as usize].name;
            let Some((dir, _)) = includer.rsplit_once('/').filter(|_| includer.starts_with('/')) else {
                let text = "include \"./xxxxx\"; needs absolute filename of including file.\n";
                return Err(DiagnosticDraft::at(DiagnosticCode::File, text, place));
            };
            path = format!("{dir}/{rest}");
        }
        if !self.options.unsafe_path && path.contains('/') {
            return Err(DiagnosticDraft::at(
                DiagnosticCode::File,
                format!("VCL filename '{path}' is unsafe.\n"),
                place,
            ));
        }
        match self.outside.read(&path) {
            Ok((name, text)) => self.file(&name, "file", text, Some(src), depth + 1),
            Err(reason) => {
                let hint = super::known_file(&path).map_or(String::new(), |hint| format!("{hint}\n"));
                Err(DiagnosticDraft::at(DiagnosticCode::File, format!("{reason}\n{hint}"), place))
            }
        }
    }
}
