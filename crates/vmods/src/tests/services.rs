// SPDX-License-Identifier: BSD-2-Clause
//! Modules whose backends are in this process: what is refused at load, and what methods say. What clients see of them is in
//! tests/vtc/modules.

use vrt::Method;

use super::world::World;

#[track_caller]
fn refused(imports: &str, init: &str, why: &str) {
    let vcl =
        format!("vcl 4.1; {imports} backend none none; sub vcl_init {{ {init} }} sub vcl_recv {{ return (hash); }}");
    match World::try_new(&vcl) {
        Ok(_) => panic!("{init} was taken"),
        Err(error) => assert!(error.contains(why), "{error}"),
    }
}

#[test]
fn what_cannot_be_served_is_refused_at_load() {
    refused("import fileserver;", "new w = fileserver.root(\"\");", "can't create w with an empty path");
    refused("import fileserver;", "new w = fileserver.root(\"/nonexistent\");", "can't open root /nonexistent");
    refused("import fileserver;", "new w = fileserver.root(\"/\", \"/nonexistent\");", "/nonexistent: No such file");
    refused("import file;", "new f = file.init(\"/nonexistent\");", "can't open root /nonexistent");
    refused("import file;", "new f = file.init(); f.allow(\"/x\", \"rw\");", "files are read only");
    for (args, why) in [
        ("base_url = \"HTTPS://a/\"", "https isn't built into Lacquer"),
        ("http_proxy = \"https://a/\"", "https isn't built into Lacquer"),
        ("https = true", "https isn't built into Lacquer"),
        ("base_url = \"http://a/\", https = true", "both an https and a base_url argument"),
        ("base_url = \"\"", "a URL begins with http://"),
        ("base_url = \"http://u@a/\"", "no host"),
    ] {
        refused("import reqwest;", &format!("new c = reqwest.client({args});"), why);
    }
}

/// What vcl_recv with this body leaves in req.http.out, or how it fails.
#[track_caller]
fn check(body: &str, wanted: &str) {
    let declarations = "import file; import fileserver; import reqwest; import synthbackend; import std; backend none none; \
                        sub vcl_init { new free = file.init(); new root = file.init(\"/\", \"\"); new c = reqwest.client(); \
                        new w = fileserver.root(\"/\", \"\"); }";
    assert_eq!(World::with(declarations, body).recv("out"), wanted, "{body}");
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
    check("c.init(\"a\", \"x\"); set req.http.out = c.status(\"a\") + c.error(\"a\");", "0a URL begins with http://");
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
        let mut world = World::with(declarations, &format!("std.log({expr});"));
        world.run(Method::Recv);
        assert_eq!(world.log_texts()[1], format!("VCL_Log {wanted}"), "{expr}");
    }
}

#[test]
fn what_utils_leaves_out_names_its_stead() {
    refused("import utils;", "if (utils.hash_ignore_vary()) { }", "the same value for each field that Vary names");
}
