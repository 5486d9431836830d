// SPDX-License-Identifier: BSD-2-Clause
//! Reads sources and their includes into one list of tokens.

use tables::vclsubs::REFRESH_SUBS;

use crate::code::DiagnosticCode;
use crate::diag::DiagnosticDraft;
use crate::dialect::Translation;
use crate::token::{Tok, Token, VclSource, lex};
use crate::vcc::{CompileStopped, MAX_SOURCE, Vcc, VccResult};

const MAX_INCLUDES: usize = 64;
const MAX_FILES: usize = 10_000;

impl Vcc<'_> {
    /// Adds a source and appends its tokens; `end` says whether its end ends the program.
    pub fn read(&mut self, name: &str, kind: &'static str, text: Vec<u8>, parent: Option<u32>, end: bool) -> VccResult {
        let mut up = parent;
        let mut depth = 0;
        while let Some(at) = up {
            let source = &self.sources[at as usize];
            if source.name == name && source.kind == kind {
                return self.fail_nowhere(DiagnosticCode::File, &format!("Recursive use of {kind} \"{name}\"\n\n"));
            }
            up = source.parent;
            depth += 1;
        }
        self.source_bytes += text.len();
        if self.source_bytes > MAX_SOURCE || self.sources.len() >= MAX_FILES || depth > MAX_INCLUDES {
            return self.fail_nowhere(DiagnosticCode::Limit, &format!("VCL is too large: more than {MAX_SOURCE} bytes, {MAX_FILES} files or {MAX_INCLUDES} nested includes, at '{name}'\n"));
        }
        let src = self.sources.len() as u32;
        self.sources.push(VclSource { name: name.to_owned(), kind, text, parent, map: None });
        let tokens = self.tokens_of(src)?;
        self.append(&tokens, end)
    }

    /// Takes a translated program and its original sources, which messages and places refer to.
    pub fn read_translated(&mut self, sources: Vec<VclSource>, translation: Translation) -> VccResult {
        let name = format!("{} (as VCL 4.1)", sources[0].name);
        self.sources = sources;
        let src = self.sources.len() as u32;
        let Translation { text, map, notes, dialect, .. } = translation;
        self.program.dialect = Some(dialect);
        for note in notes.iter().filter(|note| note.warning) {
            let new = if note.new.is_empty() { "left out" } else { &note.new };
            // A note on the whole file is placed on its first line.
            let line = note.line.max(1);
            let text = format!("{} -> {new}: {}\n", note.old, note.reason);
            let source = self.sources.iter().position(|source| source.name == note.source).unwrap_or(0) as u32;
            self.draft = DiagnosticDraft::line(DiagnosticCode::Translated, text, source, line);
            self.warn();
        }
        self.sources.push(VclSource { name, kind: "file", text, parent: None, map: Some(map) });
        let mut tokens = self.tokens_of(src)?;
        tokens.pop();
        self.tokens.append(&mut tokens);
        self.end_text(src);
        Ok(())
    }

    /// Marks the end of the user's text, so that something missing there isn't reported in the built-in VCL behind it.
    /// The mark stands for the last word.
    pub fn end_text(&mut self, src: u32) {
        let last = Token { tok: Tok::End, quote: 0, src, start: 0, end: 0, num: 0.0 };
        let last = self.tokens.last().map_or(last, |token| Token { tok: Tok::End, quote: 0, ..*token });
        self.tokens.push(last);
    }

    /// The tokens of a source that was read, with the end token.
    fn tokens_of(&mut self, src: u32) -> VccResult<Vec<Token>> {
        let mut tokens = Vec::new();
        let lexed = lex(&self.sources[src as usize].text, src, self.pool.blobs(), &mut tokens);
        lexed.map_err(|error| {
            // No message has been started while a file is read.
            self.draft = error;
            CompileStopped
        })?;
        Ok(tokens)
    }

    fn append(&mut self, tokens: &[Token], end: bool) -> VccResult {
        let mut at = 0;
        while at < tokens.len() {
            let token = tokens[at];
            if token.tok == Tok::End && !end {
                break;
            }
            if self.is_word(&token, "include") {
                at = self.include(tokens, at + 1)?;
            } else {
                self.tokens.push(token);
            }
            at += 1;
        }
        Ok(())
    }

    /// Compiles an include; `at` is the token after the word. Returns the index of its `;`.
    fn include(&mut self, tokens: &[Token], mut at: usize) -> VccResult<usize> {
        let mut glob = false;
        // The list ends with an end token, so every other token has a successor.
        while let Tok::C(sign @ (b'+' | b'-')) = tokens[at].tok {
            let flag = tokens[at + 1];
            if flag.start != tokens[at].end {
                return self.fail_at(DiagnosticCode::Syntax, "Expected a flag at:\n", &tokens[at]);
            }
            if !self.is_word(&flag, "glob") {
                return self.fail_at(DiagnosticCode::Syntax, "Unknown include flag:\n", &flag);
            }
            glob = sign == b'+';
            at += 2;
        }
        let name = tokens[at];
        if name.tok != Tok::Str {
            return self.fail_at(DiagnosticCode::Syntax, "include not followed by string constant.\n", &name);
        }
        if tokens[at + 1].tok != Tok::C(b';') {
            return self.fail_at(DiagnosticCode::Syntax, "include <string> not followed by semicolon.\n", &name);
        }
        if self.include_files(&name, glob).is_err() {
            return self.stop_at(&name);
        }
        Ok(at + 1)
    }

    fn include_files(&mut self, token: &Token, glob: bool) -> VccResult {
        let mut path = self.content_text(token);
        if glob && self.options.compat.is_9() && !(path.starts_with('/') || path.starts_with("./")) {
            return self.fail_nowhere(
                DiagnosticCode::File,
                "+glob can only be used with absolute paths or relative paths starting with './'\n",
            );
        }
        if let Some(rest) = path.strip_prefix("./") {
            let includer = &self.sources[token.src as usize].name;
            let Some((dir, _)) = includer.rsplit_once('/').filter(|_| includer.starts_with('/')) else {
                return self.fail_nowhere(
                    DiagnosticCode::File,
                    "include \"./xxxxx\"; needs absolute filename of including file.\n",
                );
            };
            path = format!("{dir}/{rest}");
        }
        if !glob {
            return self.include_file(&path, token.src);
        }
        match self.outside.glob(&path) {
            Ok(files) if files.is_empty() => {
                self.fail_nowhere(DiagnosticCode::File, "glob pattern matched no files.\n")
            }
            Ok(files) => files.iter().try_for_each(|file| self.include_file(file, token.src)),
            Err(reason) => self.fail_nowhere(DiagnosticCode::File, &format!("{reason}\n")),
        }
    }

    fn include_file(&mut self, path: &str, parent: u32) -> VccResult {
        if !self.options.unsafe_path && path.contains('/') {
            return self.fail_nowhere(DiagnosticCode::File, &format!("VCL filename '{path}' is unsafe.\n"));
        }
        match self.outside.read(path) {
            Ok((name, text)) => self.read(&name, "file", text, Some(parent), false),
            Err(reason) => {
                if !path.starts_with('/') {
                    self.hint("A relative name is looked for in the directories of vcl_path, /etc/varnish unless set (`lacquer vcl check`: -I DIR).");
                }
                self.fail_nowhere(DiagnosticCode::File, &format!("{reason}\n"))
            }
        }
    }

    pub fn note_builtin_subs(&mut self, text: &[u8]) {
        let (mut tokens, mut blobs) = (Vec::new(), Vec::new());
        if lex(text, 0, &mut blobs, &mut tokens).is_err() {
            return;
        }
        let word = |t: &Token| String::from_utf8_lossy(&text[t.start as usize..t.end as usize]).to_ascii_lowercase();
        let subs = tokens.windows(2).filter(|pair| pair[0].tok == Tok::Id && word(&pair[0]) == "sub");
        self.builtin_subs = subs.map(|pair| word(&pair[1])).collect();
    }

    /// True if the VCL has a subroutine for refreshes and the built-in VCL has none.
    pub fn speaks_of_refresh(&self) -> bool {
        let mut pairs = self.tokens.windows(2).filter(|pair| pair[0].tok == Tok::Id && self.is_word(&pair[0], "sub"));
        let is_of_them = |name: String| REFRESH_SUBS.contains(&name.to_ascii_lowercase().as_str());
        !self.is_builtin_sub(REFRESH_SUBS[0]) && pairs.any(|pair| is_of_them(self.text_of(&pair[1])))
    }

    pub fn is_builtin_sub(&self, name: &str) -> bool {
        self.builtin_subs.iter().any(|s| s.eq_ignore_ascii_case(name))
    }
}
