// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl codes`: the codes of errors and warnings, with their meanings and an example of each.

use std::fmt::Write;

use toolkit::print;
use vcl::{About, DiagnosticCode, PREAMBLE};

use crate::out;

pub(crate) fn run(words: &[String]) -> i32 {
    if words.is_empty() {
        return out(list().as_bytes(), 0);
    }
    let mut texts = Vec::new();
    for word in words {
        let Some(code) = DiagnosticCode::find(word) else {
            let near = DiagnosticCode::nearest(word).map(|near| format!(" Is {near} meant?")).unwrap_or_default();
            print::err(format_args!(
                "lacquer vcl codes: there is no code {word:?}.{near} `lacquer vcl codes` lists all.\n"
            ));
            return 1;
        };
        texts.push(explained(code.about()));
    }
    out(texts.join("\n").as_bytes(), 0)
}

fn list() -> String {
    let mut out = String::new();
    for code in DiagnosticCode::ALL {
        let _ = writeln!(out, "{code:<17} {}", code.about().title);
    }
    out
}

fn explained(about: &About) -> String {
    let About { word, title, text, bad, good } = about;
    let mut out = format!("{word}: {title}\n\n{}", crate::help::wrapped(text, 0));
    for (what, example) in [("This fails or is warned of:", bad), ("This works:", good)] {
        if !example.is_empty() {
            let lines: String =
                example.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect();
            let _ = write!(out, "\n{what}\n\n{lines}");
        }
    }
    if !bad.is_empty() && About::whole(bad) != *bad {
        let _ = writeln!(out, "\nIn front of both stands: {}", PREAMBLE.trim_end().replace('\n', " "));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::IpAddr;

    use vcl::{CompileOptions, DiagnosticSeverity, Diagnostics, Sources};

    use vcl::program::BackendAddress;

    use super::*;

    /// A machine with one file, no resolver, and a server on port 6081.
    struct OneFile;

    impl Sources for OneFile {
        fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
            match path {
                "devicedetect.vcl" => {
                    Ok((path.to_owned(), b"sub devicedetect { }\nsub vcl_recv { call devicedetect; }".to_vec()))
                }
                _ => Err(format!("Cannot read file '{path}' (No such file or directory)")),
            }
        }

        fn glob(&self, _: &str) -> Result<Vec<String>, String> {
            Ok(Vec::new())
        }

        fn resolve(&self, _: &str) -> Result<Vec<IpAddr>, String> {
            Err("Name or service not known".to_owned())
        }

        fn is_socket(&self, _: &str) -> Result<bool, String> {
            Ok(true)
        }

        fn own_listener(&self, address: &BackendAddress) -> Option<String> {
            matches!(address, BackendAddress::Inet { v4: Some(v4), .. } if v4.port() == 6081)
                .then(|| "a0 (:6081)".to_owned())
        }
    }

    /// All diagnostics for an example.
    fn said(example: &str) -> Diagnostics {
        let options = CompileOptions {
            check_regex: Some(vcl_regex::check),
            modules: vmods::MODULES,
            ..CompileOptions::default()
        };
        match vcl::compile("example.vcl", About::whole(example).as_bytes(), &OneFile, &options) {
            Ok(good) => good.warnings,
            Err(reason) => reason,
        }
    }

    #[test]
    fn each_example_fails_by_its_code_alone_and_works_without_the_mistake() {
        let mut words = BTreeSet::new();
        for code in DiagnosticCode::ALL {
            let About { word, title, text, bad, good } = code.about();
            assert!(words.insert(word) && DiagnosticCode::find(word) == Some(*code) && !title.is_empty(), "{word}");
            assert!(text.ends_with('.'), "{word}");
            if *code == DiagnosticCode::Internal {
                assert!(bad.is_empty() && good.is_empty());
                continue;
            }
            let (wrong, right) = (said(bad), said(good));
            let codes: BTreeSet<DiagnosticCode> = wrong.0.iter().map(|one| one.code).collect();
            assert_eq!(codes, BTreeSet::from([*code]), "{word}:\n{wrong}");
            assert!(right.0.is_empty(), "{word}:\n{right}");
            let is_warning = wrong.0.iter().all(|one| one.severity == DiagnosticSeverity::Warning);
            assert!(is_warning || wrong.0.len() == 1, "{word}: one error");
        }
    }

    #[test]
    fn a_code_is_explained_with_both_examples() {
        let text = explained(DiagnosticCode::Type.about());
        assert!(text.starts_with("type: a value of another type\n\nValues have types"), "{text}");
        assert!(
            text.contains("\nThis works:\n\n    sub vcl_backend_response {\n        set beresp.ttl = 120s;"),
            "{text}"
        );
        assert!(text.ends_with("In front of both stands: vcl 4.1; backend default none;\n"), "{text}");
        assert_eq!(list().lines().count(), DiagnosticCode::ALL.len());
        assert!(list().lines().chain(text.lines()).all(|line| line.len() <= 122));
        assert_eq!(DiagnosticCode::nearest("unkown-name"), Some(DiagnosticCode::UnknownName));
    }
}
