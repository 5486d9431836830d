// SPDX-License-Identifier: BSD-2-Clause
//! The kinds of mistakes that the compiler knows: a table of codes, each with an explanation, an example that fails and
//! one that works. `lacquer vcl codes` prints it.

use std::fmt;

macro_rules! codes {
    ($($name:ident $word:literal: $title:literal, $about:literal, $bad:literal => $good:literal;)*) => {
        /// A kind of mistake. Its word is stable: editors, scripts and people refer to it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the table documents each")]
        pub enum DiagnosticCode {
            $($name,)*
        }

        impl DiagnosticCode {
            pub const ALL: &[DiagnosticCode] = &[$(DiagnosticCode::$name,)*];

            pub fn about(self) -> &'static About {
                match self {
                    $(DiagnosticCode::$name => &About { word: $word, title: $title, text: $about, bad: $bad, good: $good },)*
                }
            }
        }
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    pub word: &'static str,
    pub title: &'static str,
    /// The reason, and how to fix it.
    pub text: &'static str,
    /// VCL that fails with this code. Unless it declares a version and a `backend`, [`PREAMBLE`] comes first. Empty if
    /// the mistake isn't in VCL.
    pub bad: &'static str,
    pub good: &'static str,
}

/// The lines that examples omit.
pub const PREAMBLE: &str = "vcl 4.1;\nbackend default none;\n";

impl About {
    /// The complete file for an example.
    pub fn whole(example: &str) -> String {
        if example.contains("backend ") { example.to_owned() } else { format!("{PREAMBLE}{example}") }
    }
}

impl fmt::Display for DiagnosticCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.about().word)
    }
}

impl DiagnosticCode {
    pub fn find(word: &str) -> Option<DiagnosticCode> {
        DiagnosticCode::ALL.iter().copied().find(|code| code.about().word == word)
    }

    pub fn nearest(word: &str) -> Option<DiagnosticCode> {
        base::spelling::nearest(word, DiagnosticCode::ALL.iter().map(|code| code.about().word))
            .and_then(DiagnosticCode::find)
    }

    /// True if the code at fault could be deleted; editors show it faded.
    pub fn is_unnecessary(self) -> bool {
        matches!(self, DiagnosticCode::Unused | DiagnosticCode::Unreachable)
    }

    /// True if the mistake is a name that another file of the same VCL may declare.
    pub fn is_unknown_name(self) -> bool {
        matches!(self, DiagnosticCode::UnknownName | DiagnosticCode::Undeclared)
    }
}

codes! {
    Syntax "syntax":
        "another word or sign is expected",
        "The text doesn't go on as the language wants it. The message names what was expected and what was found; a missing sign is \
         often missing at the end of the line before. The hint says what is most likely meant.",
        "sub vcl_recv {\n    set req.http.A = \"a\"\n    set req.http.B = \"b\";\n}\n"
        => "sub vcl_recv {\n    set req.http.A = \"a\";\n    set req.http.B = \"b\";\n}\n";
    MissingBrace "missing-brace":
        "a '{' is missing",
        "A block stands in braces, also one of a single statement. A condition ends with the ')' that closes its first '(': an \
         operator behind that ')' needs one more pair of brackets around the whole.",
        "sub vcl_recv {\n    if (req.url == \"/\")\n        return (pass);\n}\n"
        => "sub vcl_recv {\n    if (req.url == \"/\") {\n        return (pass);\n    }\n}\n";
    Unclosed "unclosed":
        "the end of something is missing",
        "A text, a comment or a subroutine begins and never ends. A text in \"...\" ends on its line; one of several lines stands \
         in {\"...\"} or \"\"\"...\"\"\". Comments in /* */ don't nest.",
        "sub vcl_recv {\n    set req.http.A = \"a;\n}\n"
        => "sub vcl_recv {\n    set req.http.A = \"a\";\n}\n";
    Character "character":
        "a character that isn't VCL's",
        "Outside of texts and comments VCL is ASCII. Word processors and web pages put typographic quotes, dashes and no-break \
         spaces in its place; `lacquer vcl fmt --ascii FILE` replaces them. Texts stand in double quotes.",
        "sub vcl_recv {\n    set req.http.A = 'a';\n}\n"
        => "sub vcl_recv {\n    set req.http.A = \"a\";\n}\n";
    Blob "blob":
        "a BLOB that isn't base64",
        "A BLOB is written in base64 between two colons: :aGVsbG8=:. Nothing else in VCL has a colon outside of texts. Tables of \
         pairs are of other languages.",
        "import blob;\nsub vcl_recv {\n    set req.http.A = blob.encode(blob=:a:);\n}\n"
        => "import blob;\nsub vcl_recv {\n    set req.http.A = blob.encode(blob=:aGVsbG8=:);\n}\n";
    Limit "limit":
        "too large, too long or too deeply nested",
        "The compiler bounds what one VCL may cost: bytes, files, nested includes and blocks, operations, header names. A number \
         without a unit has at most 15 digits, or 12 before and 3 after the point (RFC 8941).",
        "sub vcl_recv {\n    set req.http.A = 1234567890123456;\n}\n"
        => "sub vcl_recv {\n    set req.http.A = \"1234567890123456\";\n}\n";
    Version "version":
        "the version is missing, unknown or too old for this",
        "The first line of a VCL says the version of the language, `vcl 4.0;` or `vcl 4.1;`. It isn't the release of the program. \
         An included file may say a lower version than the file that includes it. Quoted header names and backends with .path \
         are of 4.1.",
        "vcl 6.0;\nbackend default none;\n"
        => "vcl 4.1;\nbackend default none;\n";
    UnknownName "unknown-name":
        "a name that VCL doesn't have",
        "No variable, function, action or property is called so: it is misspelt, of another release, or of a module that isn't \
         imported. Names of headers stand behind `http`: req.http.Cookie.",
        "sub vcl_recv {\n    set req.htp.A = \"a\";\n}\n"
        => "sub vcl_recv {\n    set req.http.A = \"a\";\n}\n";
    Undeclared "undeclared":
        "a name that nothing declares",
        "An acl, backend, probe or subroutine is used and declared nowhere in the file and what it includes. A probe is declared \
         before the backend that names it.",
        "sub vcl_recv {\n    if (client.ip ~ office) {\n        return (pass);\n    }\n}\n"
        => "acl office {\n    \"192.0.2.0\"/24;\n}\nsub vcl_recv {\n    if (client.ip ~ office) {\n        return (pass);\n    }\n}\n";
    Redefined "redefined":
        "a name that is declared twice",
        "Each name, and each field of a backend or probe, is declared once. Only the subroutines vcl_* may be defined several \
         times: their parts run one after the other. A name that a module or an object has can't be taken either.",
        "sub mark {\n    set req.http.A = \"a\";\n}\nsub mark {\n    set req.http.B = \"b\";\n}\nsub vcl_recv {\n    call mark;\n}\n"
        => "sub mark {\n    set req.http.A = \"a\";\n    set req.http.B = \"b\";\n}\nsub vcl_recv {\n    call mark;\n}\n";
    ReservedName "reserved-name":
        "a name that can't be given",
        "Names that begin with vcl_ are those of the language, and only those exist. `default` means the default backend or probe. \
         A name that is declared has no dot.",
        "sub vcl_request {\n    set req.http.A = \"a\";\n}\n"
        => "sub vcl_recv {\n    set req.http.A = \"a\";\n}\n";
    WrongKind "wrong-kind":
        "the name of another kind of thing",
        "The name exists, and means something that can't stand here: a module where a value is wanted, a function without a value, \
         a subroutine in an expression, a value where a statement is wanted.",
        "import std;\nsub vcl_recv {\n    set req.http.A = std.log(\"a\");\n}\n"
        => "import std;\nsub vcl_recv {\n    std.log(\"a\");\n}\n";
    Type "type":
        "a value of another type",
        "Values have types, and few are converted by themselves: all of them to texts, some to conditions. A duration has a unit \
         (120s). Functions of std convert texts: std.duration(), std.integer(), std.ip().",
        "sub vcl_backend_response {\n    set beresp.ttl = 120;\n}\n"
        => "sub vcl_backend_response {\n    set beresp.ttl = 120s;\n}\n";
    HeaderName "header-name":
        "no name of a header",
        "A header's name has letters, digits and the signs that HTTP allows (RFC 9110, 5.6.2), and at most 126 characters. One \
         with other signs than - and _ stands in quotes, from VCL 4.1 on.",
        "sub vcl_recv {\n    unset req.http.\"a b\";\n}\n"
        => "sub vcl_recv {\n    unset req.http.\"a.b\";\n}\n";
    Unit "unit":
        "an unknown unit",
        "Durations have the units ms, s, m, h, d, w and y; sizes have B, KB, MB, GB, TB and PB. A fraction of a byte is none.",
        "sub vcl_backend_response {\n    set beresp.ttl = 2min;\n}\n"
        => "sub vcl_backend_response {\n    set beresp.ttl = 2m;\n}\n";
    Argument "argument":
        "arguments that don't fit",
        "A function of a module gets its arguments by their order, then by name; those without a default can't be left out. Of \
         the actions of `return` only synth, pass, vcl and fail have arguments; synth and vcl need theirs.",
        "import std;\nsub vcl_recv {\n    std.log();\n}\n"
        => "import std;\nsub vcl_recv {\n    std.log(\"a\");\n}\n";
    Regex "regex":
        "a pattern that can't be compiled",
        "Patterns are Perl's (PCRE2), no wildcards of a shell: any characters are .*, and characters that mean themselves are \
         escaped.",
        "sub vcl_recv {\n    if (req.url ~ \"*.png\") {\n        unset req.http.Cookie;\n    }\n}\n"
        => "sub vcl_recv {\n    if (req.url ~ \"\\.png$\") {\n        unset req.http.Cookie;\n    }\n}\n";
    Address "address":
        "an address that can't be used",
        "A backend's .host is a name or an address, no URL. A name must have addresses when the VCL is loaded, at most one of each \
         family, unless backend_dns_lazy is on. A .path is absolute and names a socket. An address constant is one address, no \
         network.",
        "vcl 4.1;\nbackend default {\n    .host = \"http://192.0.2.1/\";\n}\n"
        => "vcl 4.1;\nbackend default {\n    .host = \"192.0.2.1\";\n}\n";
    AclEntry "acl-entry":
        "an entry or a flag that an ACL can't have",
        "An entry is an address or a name in quotes, and may have one mask, behind the quotes or inside them. IPv4 has 32 bits and \
         IPv6 128. One network can't be both in it and, by a !, out of it. The flags are +log, +table, \
         +fold and -pedantic. A warning names entries that folding (+fold, default with --compat 9) removes or joins.",
        "acl office {\n    \"192.0.2.0\"/33;\n}\nsub vcl_recv {\n    if (client.ip ~ office) {\n        return (pass);\n    }\n}\n"
        => "acl office {\n    \"192.0.2.0\"/24;\n}\nsub vcl_recv {\n    if (client.ip ~ office) {\n        return (pass);\n    }\n}\n";
    AclHostBits "acl-host-bits":
        "an ACL's address has bits that its mask leaves out",
        "192.0.2.1/24 may mean one address or the network 192.0.2.0/24. With `vcl 4.1;` it is an error, unless the ACL says \
         -pedantic; with `vcl 4.0;` it is taken as the network, with a warning.",
        "acl office {\n    \"192.0.2.1\"/24;\n}\nsub vcl_recv {\n    if (client.ip ~ office) {\n        return (pass);\n    }\n}\n"
        => "acl office {\n    \"192.0.2.0\"/24;\n}\nsub vcl_recv {\n    if (client.ip ~ office) {\n        return (pass);\n    }\n}\n";
    Field "field":
        "a backend's or probe's field that doesn't fit",
        "A backend or probe has no such field, its value isn't one of those allowed, or it contradicts another: .ssl_* without \
         .ssl, .window without .threshold, a backend with neither .host nor .path.",
        "vcl 4.1;\nbackend default {\n    .host = \"192.0.2.1\";\n    .prot = \"8080\";\n}\n"
        => "vcl 4.1;\nbackend default {\n    .host = \"192.0.2.1\";\n    .port = \"8080\";\n}\n";
    File "file":
        "a file that can't be read or used",
        "A file that is included, or that a field of a backend names, doesn't exist, can't be read, includes itself, or isn't what \
         is wanted. A relative name is looked for in the directories of vcl_path; one that begins with ./ beside its includer, \
         which must be a file.",
        "include \"gone.vcl\";\n"
        => "include \"devicedetect.vcl\";\n";
    UnknownModule "unknown-module":
        "a module that isn't built in",
        "Modules are built into the program; no shared objects are loaded. The message lists those that there are, or says what \
         does the work of one that isn't.",
        "import st;\n"
        => "import std;\n";
    InlineC "inline-c":
        "C in VCL",
        "C isn't compiled. VCL and its modules (std, header, cookie, digest, uuid, geoip2, accept and others) do what it is used \
         for.",
        "sub vcl_recv {\n    C{ syslog(6, \"a\"); }C\n}\n"
        => "import std;\nsub vcl_recv {\n    std.syslog(6, \"a\");\n}\n";
    Return "return":
        "an action that this subroutine can't return",
        "Each subroutine of the language has its own list of actions for `return`, and so has each subroutine that it calls. The \
         message lists them.",
        "sub vcl_recv {\n    return (deliver);\n}\n"
        => "sub vcl_recv {\n    return (synth(200));\n}\n";
    WrongPlace "wrong-place":
        "something that isn't there in this subroutine, or does nothing there",
        "req is there on the client's side, bereq and beresp while fetching, resp while delivering. A subroutine of your own may use \
         only what all its callers have. A warning says that it may be used and has no effect: it comes too late, or changes a \
         copy.",
        "sub vcl_recv {\n    set beresp.ttl = 1h;\n}\n"
        => "sub vcl_backend_response {\n    set beresp.ttl = 1h;\n}\n";
    ReadOnly "read-only":
        "a variable that can't be changed so",
        "Some variables can only be read, and few can be unset: only headers, bodies and some others.",
        "sub vcl_recv {\n    unset req.url;\n}\n"
        => "sub vcl_recv {\n    set req.url = \"/\";\n}\n";
    Recursion "recursion":
        "a subroutine that calls itself",
        "There are no loops in VCL: a subroutine must not call itself, nor one that calls it.",
        "sub again {\n    call again;\n}\nsub vcl_recv {\n    call again;\n}\n"
        => "sub once {\n    unset req.http.Cookie;\n}\nsub vcl_recv {\n    call once;\n}\n";
    NoBackend "no-backend":
        "there is no backend",
        "A VCL declares at least one backend: the first, or the one called default, gets what isn't sent elsewhere. `backend default \
         none;` is one that always fails, for a VCL that fetches nothing. A part of a VCL is checked with the file that includes it, \
         or with --part.",
        "vcl 4.1; # no backend \nsub vcl_recv {\n    return (synth(200));\n}\n"
        => "vcl 4.1;\nbackend default none;\nsub vcl_recv {\n    return (synth(200));\n}\n";
    Untranslatable "untranslatable":
        "old VCL that has no counterpart today",
        "A file without `vcl 4.x;` is read as VCL 2.0, 2.1 or 3.0 and translated. This statement isn't of that language, stands \
         where it couldn't, or has no counterpart: the message says what to write.",
        "backend default { .host = \"192.0.2.1\"; }\nsub vcl_recv {\n    synthetic \"a\";\n    return (lookup);\n}\nsub vcl_fetch {\n    return (deliver);\n}\n"
        => "vcl 4.1;\nbackend default { .host = \"192.0.2.1\"; }\nsub vcl_recv {\n    return (synth(404, \"a\"));\n}\n";
    Unused "unused":
        "something that is declared and never used",
        "It keeps a VCL from being loaded, unless the parameter vcc_err_unref is off. A misspelt name elsewhere may be why: then \
         that one is the mistake.",
        "sub mark {\n    set req.http.A = \"a\";\n}\n"
        => "sub mark {\n    set req.http.A = \"a\";\n}\nsub vcl_recv {\n    call mark;\n}\n";
    Unreachable "unreachable":
        "statements that never run",
        "What stands before always leaves the subroutine. A subroutine of the language that is defined several times ends with its \
         first part that always returns.",
        "sub vcl_recv {\n    return (pass);\n    unset req.http.Cookie;\n}\n"
        => "sub vcl_recv {\n    unset req.http.Cookie;\n    return (pass);\n}\n";
    MayBePersonal "may-be-personal":
        "requests that may be personal are looked up in the cache",
        "The built-in vcl_recv passes requests with a Cookie or Authorization, and other methods than GET and HEAD. A `return \
         (hash)` of your own skips that: a page made for one user may be shown to others.",
        "sub vcl_recv {\n    return (hash);\n}\n"
        => "sub vcl_recv {\n    if (req.url ~ \"^/static/\") {\n        unset req.http.Cookie;\n    }\n}\n";
    PatternCompared "pattern-compared":
        "== and != with a pattern",
        "== and != compare whole texts. The operators for patterns are ~ and !~.",
        "sub vcl_recv {\n    if (req.url == \"^/admin\") {\n        return (pass);\n    }\n}\n"
        => "sub vcl_recv {\n    if (req.url ~ \"^/admin\") {\n        return (pass);\n    }\n}\n";
    NeverMatches "never-matches":
        "a pattern, or a part of one, that can never match",
        "Something must stand before the text's beginning or behind its end, so that nothing matches.",
        "sub vcl_recv {\n    if (req.url ~ \"a^b\") {\n        return (pass);\n    }\n}\n"
        => "sub vcl_recv {\n    if (req.url ~ \"a\\^b\") {\n        return (pass);\n    }\n}\n";
    ImportMissing "import-missing":
        "`import std;` is missing",
        "Functions of std are found without the import, as files need it whose includer imports it. A file says what it needs.",
        "sub vcl_recv {\n    std.log(\"a\");\n}\n"
        => "import std;\nsub vcl_recv {\n    std.log(\"a\");\n}\n";
    Stored "stored":
        "a header of one request that is stored for all",
        "What vcl_backend_response sets is stored with the object: each hit shows what the first fetch had. What is different for \
         each response is set in vcl_deliver.",
        "sub vcl_backend_response {\n    set beresp.http.X-Cache = \"MISS\";\n}\n"
        => "sub vcl_deliver {\n    if (obj.hits > 0) {\n        set resp.http.X-Cache = \"HIT\";\n    } else {\n        set resp.http.X-Cache = \"MISS\";\n    }\n}\n";
    RestartLoop "restart-loop":
        "a restart that changes nothing",
        "The request comes back to the same place as it was, until max_restarts ends it with 503. Change the request before the \
         restart, or test req.restarts.",
        "sub vcl_deliver {\n    if (resp.http.A) {\n        return (restart);\n    }\n}\n"
        => "sub vcl_deliver {\n    if (resp.http.A && req.restarts == 0) {\n        set req.http.A = resp.http.A;\n        return (restart);\n    }\n}\n";
    ByRelease "by-release":
        "a statement that releases of Varnish take differently",
        "The server acts as Varnish 7.1 or 9 (--compat), and here these contradict each other. The message says what this server does. \
         A timeout of 0s is no timeout of its own up to 7.4 and fails a fetch in 9; headers of framing can't be changed from 7.4 on.",
        "sub vcl_backend_fetch {\n    set bereq.first_byte_timeout = 0s;\n}\n"
        => "sub vcl_backend_fetch {\n    unset bereq.first_byte_timeout;\n}\n";
    Translated "translated":
        "old VCL that acts differently now",
        "A file without `vcl 4.x;` is translated, and this is one of the few places that can't be kept as it was. The message says \
         what it has become; `lacquer vcl migrate` shows all of it.",
        "backend default { .host = \"192.0.2.1\"; }\nsub vcl_fetch {\n    set req.grace = 1h;\n    return (deliver);\n}\n"
        => "vcl 4.1;\nbackend default { .host = \"192.0.2.1\"; }\nsub vcl_recv {\n    set req.grace = 1h;\n}\n";
    OwnListener "own-listener":
        "a backend that is a listener of the server itself",
        "A request to such a backend comes back to the server that sent it. A VCL whose every fetch would do so is refused; where VCL may \
         choose another backend it is a warning. The server of the example listens on port 6081. Only a server that loads a VCL knows its \
         listeners, so `lacquer vcl check` can't tell.",
        "vcl 4.1;\nbackend default { .host = \"127.0.0.1\"; .port = \"6081\"; }\n"
        => "vcl 4.1;\nbackend default { .host = \"127.0.0.1\"; .port = \"8080\"; }\n";
    Internal "internal":
        "a mistake of the compiler",
        "The compiler contradicts itself. It is no mistake of the VCL: please report it with the file.",
        "" => "";
}
