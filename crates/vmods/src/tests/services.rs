// SPDX-License-Identifier: BSD-2-Clause
//! Modules whose backends are in this process: what is refused at load, and what methods say. What clients see of them is in
//! tests/vtc/modules.

use vrt::Method;

use super::VmodsWorld;

#[track_caller]
fn refused(imports: &str, init: &str, reason: &str) {
    let vcl =
        format!("vcl 4.1; {imports} backend none none; sub vcl_init {{ {init} }} sub vcl_recv {{ return (hash); }}");
    match VmodsWorld::try_new(&vcl) {
        Ok(_) => panic!("{init} was taken"),
        Err(error) => assert!(error.contains(reason), "{error}"),
    }
}

#[test]
fn what_cannot_be_served_is_refused_at_load() {
    refused("import fileserver;", "new w = fileserver.root(\"\");", "can't create w with an empty path");
    refused("import fileserver;", "new w = fileserver.root(\"/nonexistent\");", "can't open root /nonexistent");
    refused("import fileserver;", "new w = fileserver.root(\"/\", \"/nonexistent\");", "/nonexistent: No such file");
    refused("import file;", "new f = file.init(\"/nonexistent\");", "can't open root /nonexistent");
    refused("import file;", "new f = file.init(); f.allow(\"/x\", \"rw\");", "files are read only");
    for (args, reason) in [
        ("https_proxy = \"https://a/\"", "an https_proxy is spoken to by http"),
        ("base_url = \"http://a/\", https = true", "both an https and a base_url argument"),
        ("base_url = \"\"", "a URL begins with http:// or https://"),
        ("base_url = \"http://u@a/\"", "no host"),
    ] {
        refused("import reqwest;", &format!("new c = reqwest.client({args});"), reason);
    }
}

#[test]
fn s3_is_refused_what_it_cannot_do() {
    for (endpoint, reason) in [("a b", "is neither HOST, HOST:PORT nor http[s]://HOST:PORT"), ("", "is neither")] {
        refused("import s3;", &format!("new b = s3.director(\"b\", \"r\", \"{endpoint}\");"), reason);
    }
    refused("import s3;", "new b = s3.director(\"b\", \"\", \"a\");", "a bucket and a region");
    refused("import s3;", "new s = s3.signer(); s.set_access_key(\"\", \"i\");", "a key and a key_id");
    refused("import s3;", "new s = s3.signer(); s.set_access_key(\"k\", \"a/b\");", "a key and a key_id");
    refused("import s3;", "new s = s3.signer(); s.set_region(\"a/b\");", "that is no region");
    refused("import s3;", "new s = s3.signer(); s.set_signed_headers(\"(\");", "bad pattern");
    refused("import s3;", "new s = s3.signer(); s.set_iam_role();", "set_access_key");
}

#[test]
fn redis_is_refused_what_it_cannot_do() {
    for (init, reason) in [
        ("new d = redis.db(\"h:1\", cluster);", "clusters aren't built into Lacquer"),
        ("new d = redis.db(\"h:1\", tls = true, tls_cafile = \"/nonexistent\");", "/nonexistent: No such file"),
        ("new d = redis.db(\"h:1\", tls = true, tls_keyfile = \"/k\");", "tls_keyfile without tls_certfile"),
        ("new d = redis.db(\"h:x\");", "is neither HOST:PORT nor a path"),
        ("new d = redis.db(\"h\", max_connections = 0);", "max_connections are 1 to"),
        ("new d = redis.db(\"h\", max_command_retries = 99);", "retries are 0 to"),
        ("new d = redis.db(\"h\", command_timeout = -1);", "a time is not negative"),
        ("new d = redis.db(\"h\"); d.add_server(\"i\", auto);", "finding out roles isn't built into Lacquer"),
        ("new d = redis.db(\"h\"); d.add_server(\"i\", cluster);", "clusters aren't built into Lacquer"),
        ("redis.weights(\"1 x\");", "weights() isn't built into Lacquer"),
        ("redis.sentinels(\"h:1\");", "sentinels() isn't built into Lacquer"),
        ("redis.use(\"d\");", "the method of that name"),
        ("new d = redis.db(\"h\"); d.easy_execute(\"GET\");", "there is nobody to wait"),
        ("new d = redis.db(\"h\"); d.push(\"GET\");", "command() comes first"),
    ] {
        refused("import redis;", init, reason);
    }
}

/// Compares req.http.out after a vcl_recv with this body, or its failure.
#[track_caller]
fn check(body: &str, wanted: &str) {
    let declarations = "import file; import fileserver; import reqwest; import synthbackend; import std; backend none none; \
                        sub vcl_init { new free = file.init(); new root = file.init(\"/\", \"\"); new c = reqwest.client(); \
                        new w = fileserver.root(\"/\", \"\"); }";
    assert_eq!(VmodsWorld::with(declarations, body).recv("out"), wanted, "{body}");
}

#[test]
fn what_methods_say() {
    check("set req.http.out = free.read(\"/etc/passwd\");", "Failed(file.read(): /etc/passwd isn't allowed)");
    check("set req.backend_hint = free.backend();", "Failed(file.backend(): without a root directory there is none)");
    check("set req.http.out = root.exists(\"/nonexistent\") + root.read(\"/\");", "false");
    for statement in ["c.send(\"a\");", "c.set_body(\"a\", \"b\");", "set req.http.out = c.status(\"a\");"] {
        check(statement, "Failed(reqwest: unknown request (a))");
    }
    check(
        "c.init(\"a\", \"x\"); c.send(\"a\"); c.set_body(\"a\", \"b\");",
        "Failed(reqwest.set_body(): a is sent already)",
    );
    check(
        "c.init(\"a\", \"x\"); set req.http.out = c.status(\"a\") + c.error(\"a\");",
        "0a URL begins with http:// or https://",
    );
    check(
        "set req.backend_hint = w.backend(); set req.http.out = req.backend_hint; set req.backend_hint = synthbackend.mirror(); \
         set req.http.out = req.http.out + \" \" + req.backend_hint;",
        "w synthbackend",
    );
}

#[test]
fn odds_and_ends() {
    for (expr, wanted) in [
        ("utils.newline()", "\n"),
        ("utils.time_format(\"%F %j\", time = std.time(integer=0))", "1970-01-01 001"),
        ("utils.time_format(\"%Y\", true, std.time(integer=25920000))", "1970"),
        ("utils.time_format(\"%Y\") == std.strftime(std.now(), \"%Y\")", "true"),
        ("utils.resolve_backend(b)", "b"),
        ("utils.resolve_backend(no)", ""),
    ] {
        let declarations = "import std; import utils; backend b { .host = \"127.0.0.1\"; } backend no none;";
        let mut world = VmodsWorld::with(declarations, &format!("std.log({expr});"));
        world.run(Method::Recv);
        assert_eq!(world.log_texts()[1], format!("VCL_Log {wanted}"), "{expr}");
    }
}

#[test]
fn what_utils_leaves_out_names_its_stead() {
    refused("import utils;", "if (utils.hash_ignore_vary()) { }", "set req.hash_ignore_vary = true");
}

#[test]
fn json_by_paths() {
    const DOCUMENT: &str =
        "json.parse({\"{\"a\": {\"b\": [3.5, \"pie\", true, null, false]}, \"e\": \"x\\\"y\", \"a.c\": {} }\"});";
    for (before, expr, wanted) in [
        (DOCUMENT, "json.get(\"a.b[1]\")", "pie"),
        (DOCUMENT, "json.get(\"a.b[0]\")", "3.5"),
        (DOCUMENT, "json.get(\"a.b\")", "[3.5,\"pie\",true,null,false]"),
        (DOCUMENT, "json.get(\"a.b[3]\")", "null"),
        (DOCUMENT, "json.get(\"e\")", "x\"y"),
        (DOCUMENT, "json.get(\"a.c\")", "{}"),
        (DOCUMENT, "json.get(\"a.b[9]\", \"none\")", "none"),
        (DOCUMENT, "json.get(\"a.b[9]\") + \".\"", "."),
        (DOCUMENT, "json.contains(\"a.b[4]\") + json.contains(\"b\")", "truefalse"),
        (DOCUMENT, "json.length() + json.length(\"a.b\") + json.length(\"e\")", "8"),
        (
            DOCUMENT,
            "json.is_object() + json.is_array(\"a.b\") + json.is_string(\"e\") + json.is_number(\"a.b[0]\")",
            "truetruetruetrue",
        ),
        (
            DOCUMENT,
            "json.is_true(\"a.b[2]\") + json.is_false(\"a.b[4]\") + json.is_null(\"a.b[3]\") + json.is_null(\"no\")",
            "truetruetruefalse",
        ),
        (DOCUMENT, "json.is_valid() + json.is_error()", "truefalse"),
        ("json.parse(\"{\");", "json.is_valid() + json.is_error() + json.is_null()", "falsetruefalse"),
        ("", "json.is_valid() + json.get(\"a\", \"e\") + json.length()", "falsee0"),
        ("json.parse(\"[[7]]\"); json.reset();", "json.is_valid()", "false"),
        ("json.parse(\"[[7]]\");", "json.get(\"[0][0]\")", "7"),
        ("json.parse_req_body();", "json.is_error()", "true"),
        ("", "json.stringify({\"a\"b\"}) + json.stringify({\"a\"b\"}, quoted = false)", "\"a\\\"b\"a\\\"b"),
        ("", "json.get(\"a\", json_string = true)", "Failed(json.get(): json_string isn't built into Lacquer)"),
    ] {
        let mut world = VmodsWorld::new(&format!(
            "vcl 4.1; import json; backend none none; \
             sub vcl_recv {{ {before} set req.http.out = {expr}; return (hash); }}"
        ));
        let action = world.run(Method::Recv);
        let out = String::from_utf8_lossy(world.ctx.req.get("out").unwrap_or(b"<unset>")).into_owned();
        assert_eq!(if action == "Hash" { out } else { action }, wanted, "{expr}");
    }
    refused("import json;", "json.parse_resp_index();", "xbody.capture");
}

proptest::proptest! {
    #[test]
    fn any_json_and_any_path(json in "[\\[\\]{}\":,a-c0-9 ]{0,20}", path in "[a-c.\\[\\]0-9-]{0,10}") {
        let mut values = crate::support::values::Values::default();
        values.add(json.as_bytes());
        if let Some(id) = values.find(values.roots[0], &path) {
            let text = values.text(id, false);
            proptest::prop_assert!(text.len() <= json.len());
        }
    }
}
