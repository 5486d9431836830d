// SPDX-License-Identifier: BSD-2-Clause
//! Tests of messages whose texts scripts and test programs know.

use tables::Compat;

use super::{try_compile, try_compile_as};

/// Checks that a line of the message for a program after `vcl 4.1; backend b none;` starts with or contains `says`.
#[track_caller]
fn bad(text: &str, says: &str) {
    whole(&format!("vcl 4.1; backend b none; {text}"), says);
}

#[track_caller]
fn recv(text: &str, says: &str) {
    bad(&format!("sub vcl_recv {{ {text} }}"), says);
}

#[track_caller]
fn whole(text: &str, says: &str) {
    match try_compile(text) {
        Ok(_) => panic!("compiles: {text}"),
        Err(reason) => assert!(reason.contains(says), "{text}\nsays:\n{reason}\nnot:\n{says}"),
    }
}

#[test]
fn the_layout_is_varnishs() {
    let text = "vcl 4.1;\nbackend b none;\nsub vcl_recv {\n\tset req.http.foo = \"a\" + foo.bar;\n}\n";
    let expected = "Symbol not found: 'foo.bar'\nAt: ('<vcl.inline>' Line 4 Pos 34) -- (Pos 40)\n        set req.http.foo = \"a\" + foo.bar;\n---------------------------------#######-\n\n";
    assert_eq!(try_compile(text).unwrap_err(), expected);
}

#[test]
fn calls_are_shown_from_the_use_up() {
    let text =
        "vcl 4.1;\nbackend b none;\nsub foo { set req.http.foo = 100 + beresp.status; }\nsub vcl_recv { call foo; }\n";
    let expected = "\
('<vcl.inline>' Line 3 Pos 36) -- (Pos 41)
sub foo { set req.http.foo = 100 + beresp.status; }
-----------------------------------######----------

Not available from subroutine 'vcl_recv'.

...in subroutine \"foo\"
('<vcl.inline>' Line 3 Pos 5)
sub foo { set req.http.foo = 100 + beresp.status; }
----###--------------------------------------------


...called from \"vcl_recv\"
('<vcl.inline>' Line 4 Pos 21)
sub vcl_recv { call foo; }
--------------------###---


...which is the \"vcl_recv\" subroutine
Hint: It can be read in vcl_backend_response, vcl_backend_error.
";
    assert_eq!(try_compile(text).unwrap_err(), expected);
}

#[test]
fn tokens() {
    bad("/* /* */", "/* ... */ comment contains /*");
    bad("/* x", "Unterminated /* ... */ comment, starting at");
    bad("\"x\n\"", "Unterminated string, starting at");
    bad("{\"x", "Unterminated long-string, starting at");
    bad("\"\"\"x", "Unterminated long-string, starting at");
    bad("C{ x", "Unterminated inline C source, starting at");
    bad("C{ x }C", "Inline-C not allowed");
    recv("C{ x }C", "Inline-C not allowed");
    recv("$", "Syntax error at");
    recv("set req.http.a = 1234567890123456;", "Too many digits for integer.");
    recv("set req.http.a = 1.1234;", "Too many digits for real.");
    recv("set req.http.a = 1e3;", "Unexpected character 'e'.");
    recv("set req.http.a = 1.5E3;", "Unexpected character 'E'.");
    recv("set req.http.a = 1234567890123.0;", "Too many digits for real.");
    whole("vcl 4.1; :aaaa", "Missing colon at end of BLOB");
    whole("vcl 4.1; sub vcl_recv { :aaaa\n", "Missing colon at end of BLOB");
    whole("vcl 4.1; sub vcl_recv { :aaA=\n}\n", "Missing colon at end of BLOB");
    whole("vcl 4.1; sub vcl_recv { :\n", "Missing colon at end of BLOB");
    recv(":aaaa; set req.url = req.url;", "Illegal BLOB character");
    recv(":aa?:", "Illegal BLOB character:");
    whole("vcl 4.1; backend b none; table t { \"a\": \"b\", }", "are of Fastly's VCL");
    recv("} else: {", "Outside of texts a ':' begins and ends a BLOB");
    recv(":AB==:", "Illegal BLOB character:");
    recv(":a:", "BLOB must have n*4 base64 characters");
    recv(":aaa==:", "Illegal BLOB character:");
    recv(":aaaa==a:", "Wrong padding ('=') in BLOB");
    recv(":=; set req.url = req.url;", "Wrong padding ('=') in BLOB");
    recv(":a===:", "Wrong padding ('=') in BLOB");
}

#[test]
fn versions() {
    whole("backend b none;", "VCL version declaration missing");
    whole("vcl 4.1", "Expected 'vcl N.N;' found no semi-colon");
    whole("vcl 3.9;", "VCL version 3.9 not supported.");
    whole("vcl 9.9;", "VCL version 9.9 not supported.");
    whole("vcl 4.00;", "silly buggers");
    whole("vcl 4.0; vcl 4.1;", "VCL version 4.1 higher than the top level version 4.0");
    whole("vcl 4.1; zool", "Found: 'zool' at");
    whole("vcl 4.1; ", "No backends or directors found");
    let only = "vcl 4.0; backend b none; sub vcl_recv { if (sess.xid) { } }";
    whole(only, "Symbol not found: 'sess.xid' (Only available when 4.1 <= VCL syntax)");
    recv("set req.esi = true;", "(Only available when VCL syntax <= 4.0)");
    whole("vcl 4.0; sub vcl_recv { unset req.http.\"a.b\"; }", "Quoted headers are available for VCL >= 4.1");
}

#[test]
fn names() {
    bad("sub foo.bar { }", "Name of subroutine, 'foo.bar', contains illegal character '.'");
    bad("acl foo.bar { }", "Name of ACL, 'foo.bar', contains illegal character '.'");
    bad("sub foo { } sub vcl_recv { call foo; } sub foo { }", "Subroutine 'foo' redefined");
    bad("sub vcl_foo { }", "The names 'vcl_*' are reserved for subroutines.");
    bad("backend vcl_b none;", "Symbols named 'vcl_*' are reserved.");
    bad("backend b none;", "Backend 'b' redefined");
    bad("probe p { } probe p { }", "Probe 'p' redefined");
    bad("acl b { }", "Name 'b' already defined.");
    bad("sub vcl_recv { if (client.ip ~ a) { } } backend a none;", "Name a must have type 'acl'.");
    bad("sub foo { }", "Unused sub foo, defined:");
    bad("backend c none;", "Unused backend c, defined:");
    bad("acl c { }", "Unused acl c, defined:");
    recv("call foo;", "Undefined sub foo, first reference:");
    recv("set req.backend_hint = c;", "Undefined backend c, first reference:");
    recv("foo;", "Symbol not found: 'foo'");
    recv("set req.foobar = \"\";", "Symbol not found: 'req.foobar'");
    recv("set req.http.req.http.foo = \"\";", "Symbol not found: 'req.http.req.http.foo'");
    recv("set req.http.a = foo.bar;", "Symbol not found: 'foo.bar'");
    recv("req.url;", "Symbol cannot be used here.");
    recv("set req.http.a = acl;", "Symbol 'acl' type (reserved) can not be used in expression.");
    recv("set req.http.a = default;", "Symbol 'default' is a reserved word.");
    recv("set req.http.a = vcl_recv;", "Symbol 'vcl_recv' can only be used as a SUB expression");
    recv("return (vcl(vcl_recv));", "Symbol 'vcl_recv' has wrong type (sub), expected vcl:");
    recv("set req.http.a = storage.foo;", "Symbol not found: 'storage.foo'");
    recv("unset req.http.\"a\nb\";", "Unterminated string");
    recv("unset req.http.\"\";", "Symbol 'req.http.\"\"' has wrong type (none), expected var:");
    recv("unset req.http.{\"a\nb\"};", "Invalid character '\\n' in header name");
    recv(&format!("unset req.http.{};", "buckingham".repeat(20)), "HTTP header (buckinghambuckingham..) is too long.");
}

#[test]
fn statements() {
    recv("0;", "Expected an action, 'if', '{' or '}'");
    recv("if true { }", "Expected '(' got 'true'");
    recv("if (true) { } else return (pass);", "'else' must be followed by 'if' or '{'");
    bad("sub vcl_recv {", "Symbol cannot be used here: the text ends inside a subroutine.");
    recv("return (foo);", "Expected return action name.");
    recv("return (synth);", "Missing argument.");
    recv("return (hash(1));", "Arguments not allowed.");
    recv("return;", "Expected '(' got ';'");
    recv("return (deliver);", "Invalid return \"deliver\"");
    recv("new x = y.z();", "Symbol not found: 'y.z'");
    recv("hash_data(\"x\");", "Not a valid action in subroutine 'vcl_recv'");
    recv("set req.url += 1s;;", "Expected an action");
    recv("set req.xid = \"x\";", "Variable is read only.");
    recv("set bereq.body = \"x\";", "Variable cannot be set.");
    recv("unset req.url;", "Variable cannot be unset.");
    recv("unset beresp.http.a;", "Cannot be unset in subroutine 'vcl_recv'.");
    recv("set beresp.ttl = 1s;", "Cannot be set in subroutine 'vcl_recv'.");
    recv("if (obj.hits) { }", "Not available in subroutine 'vcl_recv'.");
    recv("set beresp.status = 1 }", "Expected ';' got '}'");
    recv("set req.hash_always_miss += true;", "Expected '=' got '+='");
    bad("sub a { call a; } sub vcl_recv { call a; }", "Subroutine recurses on");
    bad("sub a { set resp.status = 1; set beresp.status = 1; } sub c { call a; }", "Unused sub c");
}

#[test]
fn types() {
    recv("if (true + true) { }", "BOOL + BOOL not possible.");
    recv("if (req.url == 1) { }", "Comparison of different types: STRING '==' INT");
    recv("if (req.restarts != \"a\") { }", "Comparison of different types: INT '!=' STRING");
    recv("if (req.backend_hint == \"a\") { }", "Comparison of different types: BACKEND '==' STRING");
    recv("if (client.ip > client.ip) { }", "Operator > not possible on IP");
    recv("if (req.url * 2) { }", "Operator * not possible on type STRING.");
    recv("if (1s % 2) { }", "Operator % only possible on INT.");
    recv("set req.grace = 1s + 1;", "DURATION + INT not possible.");
    recv("set req.grace = now + now;", "TIME + TIME not possible.");
    recv("set req.grace = 2 * :QUI=:;", "INT * BLOB not possible.");
    recv("if (1.0 || true) { }", "'||' must be preceeded by BOOL, found REAL.");
    recv("if (true || 1.0) { }", "'||' must be followed by BOOL, found REAL.");
    recv("if (true && 1.0) { }", "'&&' must be followed by BOOL, found REAL.");
    recv("if (!1.0) { }", "'!' must be followed by BOOL, found REAL.");
    recv("set req.http.a = req;", "Cannot convert HTTP to STRING.");
    recv("set req.http.a = req.foo;", "Unknown property 'foo' for type HTTP");
    recv("set req.http.a = regsub(req.url, req.url, \"\");", "Expression has type STRING, expected REGEX");
    recv("if (client.ip ~ \"x\") { }", "Expression has type STRING, expected ACL");
    recv("set req.grace = 5k;", "Unknown duration unit 'k'");
    recv("if (storage.s0.free_space > 4XB) { }", "Unknown BYTES unit");
    recv("if (storage.s0.free_space > 4 \"X\") { }", "Expected BYTES unit (B, KB, MB...) got '\"X\"'");
    recv("set req.hash_ignore_busy = <<;", "Unknown token '<<' when looking for BOOL");
}

#[test]
fn backends_and_probes() {
    bad("backend c { }", "Expected .host or .path.");
    bad("backend c { .host = \"127.0.0.1\"; .path = \"/sock\"; }", "Address redefinition at:");
    bad("backend c { .host = \"127.0.0.1\"; .port = \"1\"; .port = \"2\"; }", "Field 'port' redefined at:");
    bad("backend c { .foo = \"x\"; }", "Unknown field: 'foo' at");
    bad("backend c { .host = req; }", "Expected CSTR got 'req'");
    bad("backend c { .host = \"127.0.0.1\"; .connect_timeout = \"120s\"; }", "Expected CNUM got '\"120s\"'");
    bad("backend c { .host = \"nowhere\"; }", "Backend host '\"nowhere\"' could not be resolved to an IP address:");
    bad("backend c { .host = \"\"; }", "Backend host '\"\"' could not be resolved to an IP address:");
    bad("backend c { .host = \"many\"; }", "resolves to too many addresses.");
    bad("backend c { .host = \"[::1\"; }", "IPv6 address lacks ']'");
    bad("backend c { .host = \"[::1]x\"; }", "IPv6 address has wrong port separator");
    bad("backend c { .path = \"sock\"; }", "Must be an absolute path:");
    bad("backend c { .path = \"/file\"; }", "Not a socket:");
    bad("backend c { .path = \"@\"; }", "Backend path: The empty abstract socket name is not supported");
    let long = format!("backend c {{ .path = \"/{}\"; }}", "x".repeat(107));
    bad(&long, "Backend path: Path too long for a Unix domain socket");
    bad("backend c { set backend.host = \"x\"; }", "NB: Backend Syntax has changed:");
    bad("backend default none; backend default none;", "Only one default director possible.");
    bad("backend c { .host = \"127.0.0.1\"; .probe = p; }", "Symbol not found: 'p'");
    bad("backend c { .host = \"127.0.0.1\"; .probe = \"x\"; }", "Expected '{' or name of probe, got");
    bad("backend c { .host = \"127.0.0.1\"; .probe = default; }", "No default probe defined");
    bad("probe p { .url = \"/\"; .request = \"x\"; }", "Probe request redefinition at:");
    let tls = |attributes: &str, says: &str| bad(&format!("backend c {{ .host = \"127.0.0.1\"; {attributes} }}"), says);
    tls(".ssl = 1; .ssl_sni = 1; .ssl_nosni = 1;", "Setting of field 'ssl_nosni' conflicts with field 'ssl_sni'.");
    tls(
        ".ssl_noverify = 0; .ssl_verify_peer = 0;",
        "Setting of field 'ssl_verify_peer' conflicts with field 'ssl_noverify'.",
    );
    tls(".ssl = 0; .ssl_verify_host = 1;", "ssl_* options can not be used without .ssl enabled");
    tls(".ssl = 0; .ssl_nosni = 1;", "ssl_* options can not be used without .ssl enabled");
    tls(".ssl = 1; .ssl = 1;", "Field 'ssl' redefined at:");
    tls(".ssl = yes;", "Expected CNUM got 'yes'");
    tls(".ssl_ca_file = \"ca.pem\";", ".ssl_ca_file can not be used without .ssl enabled");
    tls(".ssl = 0; .ssl_ca_file = \"ca.pem\";", ".ssl_ca_file can not be used without .ssl enabled");
    for without in [".ssl_noverify = 1;", ".ssl_verify_peer = 0;"] {
        let says = ".ssl_crl_file can not be used without .ssl_verify_peer";
        tls(&format!(".ssl = 1; .ssl_crl_file = \"ca.pem\"; {without}"), says);
        tls(&format!("{without} .ssl_crl_file = \"ca.pem\"; .ssl = 1;"), says);
    }
    tls(".certificate = \"no.pem\"; .ssl = 1;", "Cannot read file 'no.pem' (No such file or directory)");
    let proto = |fields: &str, says| bad(&format!("backend c {{ .host = \"192.0.2.1\"; {fields} }}"), says);
    proto(".proto = \"h3\";", ".proto must be \"http/1.1\", \"h2\" or \"auto\"");
    proto(".proto = \"auto\";", ".proto = \"auto\" can not be used without .ssl enabled");
    proto(".proto = h2;", "Expected CSTR got 'h2'");
    for proxied in [".proto = \"h2\"; .proxy_header = 1;", ".proxy_header = 2; .ssl = 1; .proto = \"auto\";"] {
        proto(proxied, ".proto = \"h2\" and \"auto\" can not be used with .proxy_header");
    }
    bad("backend c { .path = \"/sock\"; .ssl = 1; }", ".ssl can not be used with .path.");
    bad("probe p { .expected_response = 99; }", "with exactly three digits");
    bad("probe p { .window = 5; }", "Must specify .threshold with .window");
    bad("probe p { .threshold = 65; }", "Threshold must be 64 or less");
    bad("probe p { .window = 65; .threshold = 5; }", "Window must be 64 or less");
    bad("probe p { .window = 4; .threshold = 5; }", "Threshold can not be greater than window");
}

#[test]
fn acls() {
    bad("acl a { \"1.2.3.4\"/33; }", "Too wide mask (/33) for IPv4 address");
    bad("acl a { \"::1\"/129; }", "Too wide mask (/129) for IPv6 address");
    bad("acl a { \"1.2.3.4\"/24; }", "Non-zero bits in masked part");
    bad("acl a { \"1.2.3.0/24\"/24; }", "/mask only allowed once.");
    bad("acl a { \"1.2.3.0/x\"; }", ".../mask is not numeric.");
    bad("acl a { \"1.2.3.4\"; ! \"1.2.3.4\"; }", "Conflicting ACL entries:");
    bad("acl a { \"...com\"; }", "DNS lookup(...com): ");
    bad("acl a { \"\"; }", "DNS lookup(): Name or service not known");
    bad("acl a + log { }", "Expected a flag at:");
    bad("acl a +foo { }", "Unknown ACL flag:");
}

#[test]
fn includes_and_imports() {
    bad("include foo;", "include not followed by string constant.");
    bad("include \"foo\"", "include <string> not followed by semicolon.");
    bad("include \"./foo\";", "needs absolute filename of including file.");
    bad("include +glob \"/x*\";", "glob pattern matched no files.");
    bad("include \"foo\";", "Cannot read file 'foo' (No such file or directory)");
    bad("import nope;", "Could not find VMOD nope");
    bad("import std foo;", "Expected 'from path ...'");
    bad("import std as x; import blob as x;", "Another module already imported as x.");
    bad("import std; sub vcl_recv { std.log(); }", "Argument 's' missing");
    bad("import std; sub vcl_recv { std.foo(\"\"); }", "Symbol not found: 'std.foo'");
    bad(
        "import std; sub vcl_recv { set req.http.a = std; }",
        "Symbol 'std' type (vmod) can not be used in expression.",
    );
    bad("import std; sub vcl_recv { set req.http.a = std.log(\"x\"); }", "Function returns VOID");
    bad("import directors; sub vcl_init { new b = directors.hash(); }", "Name 'b' already defined.");
    bad(
        "import directors; sub vcl_init { new x.y = directors.hash(); }",
        "Name of VCL object, 'x.y', contains illegal",
    );
    bad(
        "import directors; sub vcl_init { new x = directors.hash(); new x = directors.hash(); }",
        "Instance 'x' redefined.",
    );
    bad(
        "import blob; sub vcl_recv { set req.http.a = blob.encode(encoding=FOO, blob=:QUI=:); }",
        "Wrong enum value.  Expected one of:",
    );
    bad(
        "import blob; sub vcl_recv { set req.http.a = blob.encode(blob=:QUI=:, blob=:QUI=:); }",
        "Argument 'blob' already used",
    );
    bad("import blob; sub vcl_recv { set req.http.a = blob.encode(five=1); }", "Unknown argument 'five'");
    bad("import directors; sub vcl_init { new x = directors.hash(); } sub vcl_recv { x; }", "Expected '.' got ';'");
}

/// The lines of the first ten errors, with their codes.
fn errors(text: &str) -> Vec<(u32, &'static str)> {
    let options = crate::CompileOptions { max_errors: 10, ..crate::CompileOptions::default() };
    let found = crate::compile("<vcl.inline>", text.as_bytes(), &super::Few(&[]), &options).expect_err("errors").0;
    found.iter().map(|one| (one.place.as_ref().map_or(0, |place| place.line), one.code.about().word)).collect()
}

#[test]
fn an_error_ends_its_declaration_only() {
    let text = "vcl 4.1;\nbackend b { .hst = \"x\"; }\nacl a { 1; }\nimport nope;\nsub vcl_recv {\n  set req.htp.a = 1;\n  nope;\n}\n\
                sub vcl_hit {\n  if (client.ip ~ a) {\n    nope.f();\n    nope;\n  }\n}\nsub f {\n  unset req.url;\n";
    let all = [(2, "field"), (3, "syntax"), (4, "unknown-module"), (6, "unknown-name"), (16, "read-only")];
    assert_eq!(errors(text), all);
    // varnishd's text ends with the first error.
    let options = crate::CompileOptions { max_errors: 10, ..crate::CompileOptions::default() };
    let all = crate::compile("<vcl.inline>", text.as_bytes(), &super::Few(&[]), &options).unwrap_err();
    assert_eq!(try_compile(text).unwrap_err(), all.to_string());
}

#[test]
fn braces_too_few_or_too_many_hide_nothing_behind() {
    let more = "sub vcl_hit {\n  unset req.url;\n}\n";
    assert_eq!(errors(&format!("vcl 4.1;\nbackend b none;\nsub f {{\n{more}")), [(4, "wrong-kind"), (5, "read-only")]);
    let many = "vcl 4.1;\nbackend b none;\nsub f { } }\n";
    assert_eq!(errors(&format!("{many}{more}")), [(3, "syntax"), (5, "read-only")]);
    // The last brace closes a skipped declaration.
    let inside = "vcl 4.1;\nbackend b none;\nsub vcl_recv {\n  acl a { 1; }\n}\n";
    assert_eq!(errors(&format!("{inside}{more}")), [(4, "wrong-kind"), (4, "syntax"), (7, "read-only")]);
}

#[test]
fn what_the_whole_program_shows_is_told_of_each_part() {
    let text = "vcl 4.1;\nbackend b none;\nsub vcl_recv {\n  set beresp.ttl = 1s;\n  call f;\n}\nsub f {\n  set resp.status = 1;\n}\n\
                sub vcl_hit {\n  set beresp.ttl = 2s;\n  call f;\n}\n";
    assert_eq!(errors(text), [(11, "wrong-place"), (4, "wrong-place")]);
    let names = "vcl 4.1;\nbackend b none;\nsub vcl_recv {\n  call x;\n  call y;\n}\nsub z { }\n";
    assert_eq!(errors(names), [(4, "undeclared"), (5, "undeclared"), (7, "unused")]);
}

/// A message of release 7.1, and the one that release 9 has for it.
#[track_caller]
fn worded(text: &str, of_7_1: &str, of_9: &str) {
    for (compat, says) in [(Compat::V7_1, of_7_1), (Compat::V9, of_9)] {
        let reason = try_compile_as(compat, &format!("vcl 4.1; backend b none; {text}")).map(|_| ()).unwrap_err();
        assert!(reason.contains(says), "{text} as {compat}\nsays:\n{reason}\nnot:\n{says}");
    }
}

#[test]
fn release_9_words_some_messages_anew() {
    worded(
        "sub vcl_recv { call acl; }",
        "Symbol 'acl' type (reserved) can not be used in expression.",
        "Symbol 'acl' type (reserved) cannot be used in expression.",
    );
    worded(
        "sub vcl_recv { if (1.5 && true) { } }",
        "'&&' must be preceeded by BOOL, found REAL.",
        "'&&' must be preceded by BOOL, found REAL.",
    );
    worded(
        "probe p { .window = 3; .threshold = 4; } backend c { .host = \"127.0.0.1\"; .probe = p; }",
        "Threshold can not be greater than window.",
        "Threshold cannot be greater than window.",
    );
    worded(
        "backend c { .path = \"sock\"; }",
        "Backend path: Must be an absolute path:",
        "Backend path: Must be a valid path or abstract socket:",
    );
    worded(
        "include +glob \"sub_*.vcl\";",
        "glob pattern matched no files.",
        "+glob can only be used with absolute paths or relative paths starting with './'",
    );
}
