// SPDX-License-Identifier: BSD-2-Clause
//! Recognises the well-known C file that selects one of a site's languages by Accept-Language, and replaces it with
//! vmod accept_language for the same languages.

use super::DialectResult;
use super::walk::Walker;
use crate::token::Tok;

/// The function that the C file defines. VCL calls it in its own inline C.
const FUNCTION: &str = "vcl_rewrite_accept_language";
/// The statement in the first version of the file, which has no such function and runs in vcl_recv by inclusion.
const SETS_IT: &str = "VRT_SetHdr(sp, HDR_REQ, \"\\032X-Varnish-Accept-Language:\", lang";

/// The languages in the C file, the default first; `None` if it is another file.
fn languages(code: &str) -> Option<String> {
    let defined = |name: &str| {
        let line = code
            .lines()
            .find(|line| line.trim_start().strip_prefix("#define").is_some_and(|l| l.trim_start().starts_with(name)))?;
        line.split('"').nth(1)
    };
    let default = defined("DEFAULT_LANGUAGE")?;
    let all = defined("SUPPORTED_LANGUAGES")?;
    let tag = |t: &str| !t.is_empty() && t.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    let mut list = vec![default];
    list.extend(all.split(':').filter(|language| !language.is_empty() && *language != default));
    ((code.contains(FUNCTION) || code.contains(SETS_IT)) && list.iter().all(|t| tag(t))).then(|| list.join(" "))
}

fn only_calls(code: &str) -> bool {
    let inner = code.trim_start_matches("C{").trim_end_matches("}C");
    let plain: String = inner.chars().filter(|c| !c.is_whitespace()).collect();
    plain.strip_prefix(FUNCTION).is_some_and(|rest| matches!(rest, "(sp);" | "(ctx);"))
}

impl Walker<'_> {
    pub fn find_languages(&mut self) {
        let code = (0..self.items.len()).filter(|n| self.tok_at(*n) == Tok::InlineC);
        self.languages = code.filter_map(|n| languages(self.text_at(n))).next();
    }

    /// Replaces the C here if it is that file or a call of it; `None` if it is something else. `in_sub`: the C is in a
    /// subroutine.
    pub fn accept_language_c(&mut self, in_sub: bool) -> Option<DialectResult> {
        let known = self.languages.clone()?;
        let at = self.at;
        let is_file = languages(self.word()).is_some();
        if is_file && self.word().contains(FUNCTION) {
            let reason = "C that picks a language from Accept-Language: vmod accept_language does it (a module of this server's)";
            self.warn(at, at, "import accept_language;", reason);
            self.drop_until(at);
            return Some(Ok(()));
        }
        if !(in_sub && is_file || only_calls(self.word())) || self.ctx.backend() {
            return None;
        }
        self.calls_languages = true;
        let new = format!(
            "set req.http.X-Varnish-Accept-Language = accept_language.lookup(req.http.Accept-Language, \"{known}\");"
        );
        self.note(at, at, &new, "what the C function did");
        self.put_until(at, &new);
        Some(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_read_from_the_defines() {
        let code = "C{\n#include <ctype.h>\n#define DEFAULT_LANGUAGE \"en\"\n# define X\n#define SUPPORTED_LANGUAGES \":bg:en:zh-cn:\"\n\
                    void vcl_rewrite_accept_language(const struct sess *sp) {}\n}C";
        assert_eq!(languages(code).as_deref(), Some("en bg zh-cn"));
        let first = code.replace("void vcl_rewrite_accept_language(const struct sess *sp) {}", SETS_IT);
        assert_eq!(languages(&first).as_deref(), Some("en bg zh-cn"));
        assert_eq!(languages("C{ #define DEFAULT_LANGUAGE \"en\" }C"), None);
        assert_eq!(languages(&code.replace("zh-cn", "a\\b")), None);
    }

    #[test]
    fn a_call_is_nothing_but_a_call() {
        assert!(only_calls("C{\n    vcl_rewrite_accept_language(sp);\n}C"));
        assert!(!only_calls("C{ vcl_rewrite_accept_language(sp); other(); }C"));
    }
}
