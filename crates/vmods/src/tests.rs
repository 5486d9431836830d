// SPDX-License-Identifier: BSD-2-Clause
//! The modules as VCL calls them. Expected texts were given by varnishd 7.1.1 to the same VCL.

mod h2;
mod names;
mod plus;
mod releases;
mod services;
mod tls;

use testkit_vcl::{TestModules, VclWorld as AnyWorld};
use vrt::Method;
use vrt::vmod::Vmod;

pub(crate) struct VmodsModules;

impl TestModules for VmodsModules {
    const ALL: &'static [&'static Vmod] = crate::ALL;
    const MODULES: testkit_vcl::Signatures = crate::MODULES;
}

pub(crate) type VmodsWorld = AnyWorld<VmodsModules>;

const IMPORTS: &str = "import std; import blob; import vtc; import cookie; import directors; import proxy; \
                       import purge; import unix; backend b1 { .host = \"127.0.0.1\"; } backend b2 { .host = \"127.0.0.1\"; } ";

/// Value of `expr` as text in vcl_recv.
fn text(expr: &str) -> String {
    after("", expr)
}

fn after(before: &str, expr: &str) -> String {
    VmodsWorld::with(IMPORTS, &format!("{before} set req.http.out = {expr};")).recv("out")
}

fn recv(body: &str) -> (String, Vec<String>) {
    let mut world = VmodsWorld::with(IMPORTS, body);
    let action = world.run(Method::Recv);
    (action, world.log_texts())
}

#[test]
fn std_timed_call() {
    let run = |url: &str| {
        let mut world = VmodsWorld::new(
            "vcl 4.1; import std; backend none none; \
             sub slow { set req.http.ran = req.http.ran + \"ran \" + req.url + \" \"; if (req.url == \"/end\") { return (pass); } } \
             sub vcl_recv { set req.http.out = \"took \" + std.timed_call(slow) + \"s\"; \
             if (req.url == \"/\" && std.timed_call(slow) >= 0s) { return (hash); } return (pipe); }",
        );
        world.ctx.req.set_url(url).unwrap();
        let ended = world.run(Method::Recv);
        let field = |name| world.ctx.req.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
        (ended, field("out"), field("ran"))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(run("/"), ("Hash".to_owned(), some("took 0.000s"), some("ran / ran /")));
    assert_eq!(run("/end"), ("Pass".to_owned(), None, some("ran /end")));
}

#[test]
fn std_conversions() {
    assert_eq!(text("std.real(\" .5 \", 9.9)"), "0.500");
    assert_eq!(text("std.integer(\"1 .5\", 7)"), "7");
    assert_eq!(text("std.real(\"1 .5\", 7.0)"), "1.500");
    assert_eq!(text("std.bytes(\"1.5 kb\", 0B)"), "1536");
    assert_eq!(text("std.duration(\"1 . 5s\", 9s)"), "9.000");
    assert_eq!(text("std.integer(duration=1.9s)"), "1");
    assert_eq!(text("std.integer(\"x\")"), "Failed(std.integer: conversion failed: Invalid number)");
    assert_eq!(text("std.integer(real=1.0, bool=true)"), "Failed(std.integer: too many arguments)");
    assert_eq!(text("std.time(real=1000000000.7)"), "Sun, 09 Sep 2001 01:46:40 GMT");
    assert_eq!(text("std.time2integer(now, 0)"), "1000000000");
    assert_eq!(text("std.integer(\"42\")"), "42");
    assert_eq!(text("std.integer(\"-42.000\")"), "-42");
    assert_eq!(text("std.integer(\"x\", 7)"), "7");
    assert_eq!(text("std.integer(req.http.nope, 7)"), "7");
    assert_eq!(text("std.integer(\"1.5\")"), "Failed(std.integer: conversion failed)");
    assert_eq!(text("std.integer(bool=true)"), "1");
    assert_eq!(text("std.integer(duration=-1.9s)"), "-1");
    assert_eq!(text("std.integer(fallback=3)"), "Failed(std.integer: not enough arguments)");
    assert_eq!(text("std.integer(\"1\", bool=true)"), "Failed(std.integer: too many arguments)");
    assert_eq!(text("std.duration(\"1.5m\")"), "90.000");
    assert_eq!(text("std.duration(\"1.5\")"), "Failed(std.duration: conversion failed)");
    assert_eq!(text("std.bytes(\"1.5k\")"), "1536");
    assert_eq!(text("std.bytes(real=-1.0)"), "Failed(std.bytes: conversion failed)");
    assert_eq!(text("std.real(\"-1.25\")"), "-1.250");
    assert_eq!(text("std.real(bool=true)"), "1.000");
    assert_eq!(text("std.time(\"Sun, 06 Nov 1994 08:49:37 GMT\")"), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(text("std.time(\"784111777\")"), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(text("std.time(\"yesterday\")"), "Failed(std.time: conversion failed)");
}

#[test]
fn std_texts() {
    assert_eq!(text("std.querysort(\"/a?b=1&a&c=2&&a=1&b\")"), "/a?a&a=1&b=1&b&c=2");
    assert_eq!(text("std.toupper(\"a\" + req.http.nope + \"Bc\")"), "ABC");
    assert_eq!(
        text("\"<\" + std.strstr(\"abc\", \"\") + std.strstr(\"abc\", \"x\") + std.strstr(\"abc\", \"bc\") + \">\""),
        "<abcbc>"
    );
    assert_eq!(text("std.strftime(std.time(integer=0), \"%F|%j|%-5d|\")"), "1970-01-01|001|    1|");
    let matches =
        "std.fnmatch(\"[a\", \"[a\") + std.fnmatch(\"a[/]b\", \"a/b\") + std.fnmatch(\"*\", \"a/b\", pathname=false)";
    assert_eq!(text(matches), "truefalsetrue");
    assert_eq!(text("std.fnmatch(req.http.nope, \"x\")"), "Failed(std.fnmatch(): pattern is NULL)");
    assert_eq!(text("std.syntax(4.1) + std.syntax(4.0) + std.syntax(4.2)"), "truetruefalse");
    assert_eq!(
        text("std.getenv(\"NO_SUCH_VARIABLE\") + std.getenv(\"PATH\")"),
        std::env::var("PATH").unwrap_or_default()
    );
    assert_eq!(text("std.round(-2.5)"), "-3.000");
    let number: f64 = text("std.random(3, 4)").parse().expect("a number");
    assert!((3.0..=4.0).contains(&number));
}

#[test]
fn std_addresses() {
    assert_eq!(text("std.ip(\"1.2.3.4:99\", \"0.0.0.0\") + std.port(std.ip(\"[::1]:99\", \"0.0.0.0\"))"), "1.2.3.499");
    assert_eq!(text("std.ip(\"\", \"9.9.9.9\")"), "9.9.9.9");
    assert_eq!(text("std.ip(\"no.such.name.invalid\", \"9.9.9.9\", resolve=false)"), "9.9.9.9");
    assert_eq!(text("std.ip(\"localhost\", \"9.9.9.9\")").replace("::1", "127.0.0.1"), "127.0.0.1");
    assert_eq!(text("std.ip(\"x y z\")"), "Failed(std.ip: conversion failed)");
    assert_eq!(text("std.ip(\"1.2.3.4\", vtc.no_ip())"), "Failed(std.ip: invalid fallback)");
}

#[test]
fn std_logs_and_heads() {
    let (action, log) = recv("std.log(\"a\" + req.http.nope + 1); std.timestamp(\"T\"); std.timestamp(\"\");");
    assert_eq!(action, "Hash");
    assert!(log.contains(&"VCL_Log a1".into()), "{log:?}");
    assert_eq!(log.iter().filter(|line| line.starts_with("Timestamp T: 1000000000.000000")).count(), 1, "{log:?}");
    let mut world = VmodsWorld::new(&format!(
        "vcl 4.1; {IMPORTS} sub vcl_recv {{ std.collect(req.http.a, sep=\";\"); std.rollback(req); }}"
    ));
    world.ctx.req.append("A", "1").expect("room");
    world.ctx.req.append("a", "2").expect("room");
    world.run(Method::Recv);
    assert_eq!(world.ctx.req.get("a"), Some(&b"1;2"[..]));
    assert_eq!(world.ctx.purged, ["rollback req"]);
    assert_eq!(after("if (std.ban(\"x\")) { }", "std.ban_error()"), "No ban conditions found.");
    assert_eq!(
        after("if (std.ban(\"obj.status == 200\")) { set req.http.ok = 1; }", "req.http.ok + std.ban_error()"),
        "1"
    );
    assert_eq!(text("std.cache_req_body(9B) + \"\" + std.cache_req_body(10B)"), "falsetrue");
    assert_eq!(text("std.healthy(b1) + \"\" + std.healthy(vtc.no_backend())"), "truefalse");
}

#[test]
fn std_files() {
    let path = std::env::temp_dir().join(format!("lacquer-std-{}", std::process::id()));
    std::fs::write(&path, b"text\0rest").expect("writable");
    let path = path.to_str().expect("plain");
    assert_eq!(text(&format!("std.fileread(\"{path}\")")), "text");
    assert_eq!(
        text(&format!("blob.encode(HEX, blob=std.blobread(\"{path}\"))")),
        "74657874007265737400".trim_end_matches("00")
    );
    assert_eq!(text(&format!("std.file_exists(\"{path}\") + std.file_exists(\"{path}x\")")), "truefalse");
    assert_eq!(text(&format!("std.fileread(\"{path}x\") + \"-\"")), "-");
    std::fs::remove_file(path).expect("there");
}

#[test]
fn blobs() {
    assert_eq!(text("blob.transcode(BASE64, HEX, encoded=\"Zg=\")"), "66");
    assert_eq!(text("blob.transcode(HEX, BASE64CF, encoded=\"fbfffeff\")"), "-~~-~w__");
    assert_eq!(text("blob.transcode(HEX, HEX, UPPER, encoded=\"abc\")"), "0ABC");
    assert_eq!(
        text("blob.encode(BASE64, UPPER, blob.decode(encoded=\"x\"))"),
        "Failed(vmod blob error: case UPPER is illegal with encoding BASE64)"
    );
    let wrong = "Failed(vmod blob error: cannot decode, illegal encoding beginning with \"zz\")";
    assert_eq!(text("blob.encode(blob=blob.decode(HEX, encoded=\"zz\"))"), wrong);
    assert_eq!(text("blob.encode(blob=blob.sub(blob.decode(encoded=\"hello\"), 3B, 1B))"), "ell");
    assert_eq!(
        text("blob.encode(blob=blob.sub(blob.decode(encoded=\"hello\"), 5B, 1B))"),
        "Failed(vmod blob error: size 5 from offset 1 requires more bytes than blob length 5 in blob.sub())"
    );
    assert_eq!(text("blob.length(blob.decode(HEX, encoded=\"0102\")) + blob.equal(:AA==:, :AA==:)"), "2true");
    assert_eq!(text("blob.transcode(HEX, IDENTITY, encoded=\"666f6f00626172\")"), "foo");
    let init = "vcl 4.1; import blob; backend b none; sub vcl_init { new o = blob.blob(HEX, \"0a0b\"); } \
                sub vcl_recv { set req.http.out = o.encode(HEX, UPPER) + o.encode(BASE64) + blob.same(o.get(), o.get()); }";
    let mut world = VmodsWorld::new(init);
    world.run(Method::Recv);
    assert_eq!(world.ctx.req.get("out"), Some(&b"0A0BCgs=true"[..]));
    let bad =
        VmodsWorld::try_new("vcl 4.1; import blob; backend b none; sub vcl_init { new o = blob.blob(HEX, \"x\"); }");
    let reason = bad.err().expect("no blob");
    assert!(
        reason.contains("vmod blob error: cannot create blob o, illegal encoding beginning with \"x\""),
        "{reason}"
    );
}

#[test]
fn cookies() {
    let parse = "cookie.parse(\"a=1; b=2; c=3\"); ";
    assert_eq!(
        after(&format!("{parse} cookie.delete(\"b\"); cookie.set(\"d\", \"4\");"), "cookie.get_string()"),
        "a=1; c=3; d=4;"
    );
    assert_eq!(after(&format!("{parse} cookie.keep_re(\"^[ab]$\");"), "cookie.get_string()"), "a=1; b=2;");
    assert_eq!(
        after(parse, "cookie.get(\"b\") + cookie.get(\"x\") + cookie.isset(\"c\") + cookie.get_re(\"c\")"),
        "2true3"
    );
    assert_eq!(after(&format!("{parse} cookie.clean();"), "cookie.get_string() + \".\""), ".");
    assert_eq!(text("cookie.format_date(std.time(integer=0), 1d)"), "Fri, 02 Jan 1970 00:00:00 GMT");
    let (_, log) = recv("cookie.parse(\"a=1; b=2\"); cookie.filter_re(\"a\"); cookie.parse(\"\");");
    let debug: Vec<_> = log.iter().filter(|line| line.starts_with("Debug")).collect();
    assert_eq!(
        debug,
        [
            "Debug cookie: parsed 2 cookies.",
            "Debug Removing matching cookie a (value: 1)",
            "Debug cookie: nothing to parse"
        ]
    );
}

#[test]
fn purges() {
    let vcl = format!(
        "vcl 4.1; {IMPORTS} sub vcl_hit {{ set req.http.n = purge.hard() + purge.soft(1s, 2s) + purge.soft(); }} \
         sub vcl_recv {{ set req.http.n = purge.hard(); }}"
    );
    let mut world = VmodsWorld::new(&vcl);
    world.run(Method::Hit);
    assert_eq!(world.ctx.req.get("n"), Some(&b"6"[..]));
    assert_eq!(world.ctx.purged, ["purge 0 Some(0.0) Some(0.0)", "purge 1 Some(2.0) None", "purge 0 None None"]);
    assert_eq!(world.run(Method::Recv), "Failed(purge can only happen in vcl_hit{} or vcl_miss{})");
}

#[test]
fn peers() {
    let mut world = VmodsWorld::new(&format!(
        "vcl 4.1; {IMPORTS} sub vcl_recv {{ set req.http.out = unix.uid() + \" \" + unix.gid() + \" \" + unix.user() + \" \" + unix.group(); }}"
    ));
    world.run(Method::Recv);
    assert_eq!(world.ctx.req.get("out"), Some(&b"-1 -1"[..]));
    assert!(world.log_texts().contains(&"VCL_Error vmod unix error: not listening on a Unix domain socket".into()));
    world.ctx.ids = Ok((0, 0));
    world.run(Method::Recv);
    assert_eq!(world.ctx.req.get("out"), Some(&b"0 0 root root"[..]));
}

#[test]
fn test_helpers() {
    assert_eq!(text("vtc.typesize(\"ip\") + \"\" + vtc.no_backend() + vtc.no_stevedore()"), "16");
    assert_eq!(after("vtc.workspace_alloc(client, -24);", "vtc.workspace_free(client)"), "24");
    assert_eq!(after("vtc.workspace_overflow(client);", "vtc.workspace_overflowed(client)"), "true");
    assert_eq!(after("vtc.sleep(1ms);", "\"x\""), "x");
    let (action, _) = recv("vtc.vsl(7, \"Nope\", c, \"x\");");
    assert_eq!(action, "Failed(No such tag: Nope)");
    let (action, _) = recv("vtc.barrier_sync(\"/nowhere/at/all\");");
    assert!(action.starts_with("Failed(Barrier connection failed: "), "{action}");
}

const SHARD: &str = "sub vcl_init { new rr = directors.round_robin(); rr.add_backend(b1); rr.add_backend(b2); \
     new h = directors.hash(); h.add_backend(b1, 1.0); \
     new p = directors.shard_param(); p.set(by=KEY, key=5, alt=1); \
     new vd = directors.shard(); vd.associate(p.use()); vd.add_backend(b1); vd.add_backend(b2, ident=\"x\"); \
     if (!vd.reconfigure(25)) { return (fail(\"no ring\")); } \
     if (directors.lookup(\"rr\") != rr.backend()) { return (fail(\"lost\")); } }";

#[test]
fn directors_in_vcl() {
    let run = |body: &str, method: Method| {
        let name = if method == Method::Recv { "vcl_recv" } else { "vcl_backend_fetch" };
        let head = if method == Method::Recv { "req" } else { "bereq" };
        let mut world =
            VmodsWorld::new(&format!("vcl 4.1; {IMPORTS} {SHARD} sub {name} {{ {} }}", body.replace("HEAD", head)));
        assert_eq!(world.vcl.directors().len(), 5);
        let action = world.run(method);
        let head = if method == Method::Recv { &world.ctx.req } else { &world.ctx.bereq };
        let out = head.get("out").map_or(action, |out| String::from_utf8_lossy(out).into_owned());
        world.end_task();
        out
    };
    assert_eq!(run("set HEAD.http.out = rr.backend() + \" \" + h.backend(\"x\");", Method::Recv), "rr b1");
    let keys = "set HEAD.http.out = vd.backend(by=KEY, key=vd.key(\"a\")) + p.get_by() + p.get_key() + p.get_alt();";
    assert!(["b1KEY51", "b2KEY51"].contains(&run(keys, Method::Recv).as_str()));
    let both = "set HEAD.http.out = vd.backend(alt=0); set HEAD.http.out += vd.backend();";
    assert!(["b1b2", "b2b1"].contains(&run(both, Method::Recv).as_str()));
    let own = "p.set(by=HASH); set HEAD.http.out = p.get_by() + p.get_key() + p.get_alt();";
    assert_eq!(run(own, Method::BackendFetch), "HASH3031741611".replace("3031741611", &format!("{}1", 0x1212_1212)));
    assert_eq!(
        run(own, Method::Recv),
        "Failed(vmod_directors: shard p: shard_param.set() may only be used in vcl_init and in backend/pipe context)"
    );
    assert_eq!(
        run(
            "set HEAD.backend = vd.backend(resolve=LAZY, by=URL); set HEAD.http.out = HEAD.backend;",
            Method::BackendFetch
        ),
        "vd"
    );
    assert_eq!(
        run("set HEAD.backend_hint = directors.lookup(\"b1\");", Method::Recv),
        "Failed(lookup() may only be called from vcl_init / vcl_fini)"
    );
    assert_eq!(
        run("set HEAD.backend_hint = vd.backend(by=KEY);", Method::Recv),
        "Failed(vmod_directors: shard vd: shard.backend() missing key argument with by=KEY)"
    );
}

#[test]
fn proxy_headers() {
    let mut world = VmodsWorld::new(&format!(
        "vcl 4.1; {IMPORTS} sub vcl_recv {{ set req.http.out = proxy.authority() + proxy.is_ssl() + proxy.ssl_version() + \
         proxy.client_has_cert_sess() + proxy.ssl_verify_result(); }}"
    ));
    let ssl = [&[0x20, 0, 15, 0x01, 0, 0, 0, 7][..], &[0x21, 0, 7], b"TLSv1.3"].concat();
    world.ctx.tlvs = [&[0x02, 0, 3][..], b"a.b", &ssl].concat();
    world.run(Method::Recv);
    assert_eq!(world.field("out"), "a.btrueTLSv1.3false7");
    world.ctx.tlvs = vec![0x02, 0, 4, b'a', 0, b'\n', b'b'];
    world.run(Method::Recv);
    assert_eq!(world.field("out"), "afalsefalse0", "a NUL ends the text");
}

/// Value of `expr` in vcl_recv of a VCL with these lines before it.
fn with(top: &str, init: &str, expr: &str) -> String {
    let declarations = format!("{top} backend b1 {{ .host = \"127.0.0.1\"; }} sub vcl_init {{ {init} return (ok); }}");
    VmodsWorld::with(&declarations, &format!("set req.http.out = {expr};")).recv("out")
}

#[test]
fn re_keeps_the_groups_of_each_object() {
    let init = "new a = re.regex(\"(b)(a)?(r)\"); new ten = re.regex(\"(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)\");";
    let after = |body: &str, expr: &str| {
        let imports = format!("{IMPORTS} import re; sub vcl_init {{ {init} }}");
        VmodsWorld::with(&imports, &format!("{body} set req.http.out = {expr};")).recv("out")
    };
    assert_eq!(after("", "a.backref(0, \"none\") + a.backref(1)"), "none**BACKREF METHOD FAILED**");
    let yes = "if (!a.match(\"foobr\")) { return (fail); } ";
    assert_eq!(after(yes, "a.backref(0) + \".\" + a.backref(1) + \".\" + a.backref(3)"), "br.b.r");
    // A group that took no part, numbers that none has, an object that never matched.
    let none = "a.backref(2, \"-\") + a.backref(9, \"-\") + a.backref(11, \"-\") + a.backref(-1, \"-\") + ten.backref(0, \"-\")";
    assert_eq!(after(yes, none), "-----");
    assert_eq!(after(&format!("{yes} if (a.match(\"no\")) {{ return (fail); }}"), "a.backref(0, \"gone\")"), "gone");
    let ten = "if (ten.match(\"abcdefghijk\")) { set req.http.x = 1; } ";
    assert_eq!(after(ten, "ten.backref(10, \"-\") + ten.backref(11, \"-\")"), "j-");
    let made = "if (a.match_dyn(\"(x+)\" + \"y\", \"axxy\")) { set req.http.x = 1; } ";
    assert_eq!(after(made, "a.backref(1)"), "xx");
    let wrong = "if (a.match_dyn(\"(\", \"axxy\")) { return (fail); } ";
    assert_eq!(after(wrong, "a.backref(0, \"bad\")"), "bad");
    // The functions of the releases for 3.0, and a subject that isn't there.
    let call = "if (re.match(req.http.nope, \"^(.?)$\") && re.match(\"k=v\", \"(k)=(.)\")) { set req.http.x = 1; } ";
    assert_eq!(after(call, "re.backref(2, \"-\") + a.backref(0, \"-\")"), "v-");
}

/// Given by libvmod-re2 2.0.0.
#[test]
fn patterns_and_sets() {
    let init = "new r = re2.regex(\"a(b|(c))?d(?P<nm>x+)?\"); new nc = re2.regex(\"a(b)\", never_capture=true); \
        new s = re2.set(); s.add(\"foo\", string=\"one\", integer=1); s.add(\"bar\", save=true, backend=b1); \
        s.add(\"b(a)z\", save=true, string=\"three\"); \
        new st = re2.set(anchor=start); st.add(\"/foo\"); st.add(\"/foo/bar\"); \
        new bo = re2.set(anchor=both, case_sensitive=false); bo.add(\"a|b\"); bo.add(\"abc\");";
    let fallback = "**BACKREF METHOD FAILED**";
    let all = [
        (
            "r.match(\"xacdxx\") + r.backref(0) + \",\" + r.backref(1) + r.backref(2) + r.namedref(\"nm\")",
            "trueacdxx,ccxx".to_owned(),
        ),
        (
            "r.match(\"ad\") + r.backref(1) + r.backref(1, \"fb\") + r.namedref(\"nm\", \"none\")",
            format!("true{fallback}fbnone"),
        ),
        ("r.match(\"zzz\") + r.backref(0)", format!("false{fallback}")),
        (
            "r.match(\"abd\") + r.backref(4)",
            format!(
                "Failed(vmod re2 failure: r.backref(ref=4, fallback=\"{fallback}\"): backref out of range (max 3))"
            ),
        ),
        (
            "r.backref(0)",
            format!(
                "Failed(vmod re2 failure: r.backref(ref=0, fallback=\"{fallback}\"): backref called without prior match)"
            ),
        ),
        (
            "nc.match(\"ab\") + nc.backref(0)",
            format!(
                "Failed(vmod re2 failure: nc.backref(ref=0, fallback=\"{fallback}\"): never_capture is true for object nc)"
            ),
        ),
        ("r.match(req.http.nope)", "false".into()),
        ("r.sub(\"zzz\", \"x\") + r.sub(\"zzz\", \"x\", \"fb\")", "**SUB METHOD FAILED**fb".into()),
        (
            "r.sub(req.http.nope, \"x\")",
            "Failed(vmod re2 failure: r.sub(text=<undefined>, fallback=\"**SUB METHOD FAILED**\"): text is undefined)"
                .into(),
        ),
        (
            "s.match(\"foobar\") + s.nmatches() + s.matched(1) + s.matched(2) + s.matched(3)",
            "true2truetruefalse".into(),
        ),
        ("s.match(\"foobar\") + s.which(FIRST) + s.which(LAST) + s.string(select=FIRST)", "true12one".into()),
        ("s.match(\"foobar\") + s.which()", "Failed(vmod re2 failure: s.which(0): 2 successful matches)".into()),
        ("s.match(\"foo\") + s.which() + s.string() + s.integer()", "true1one1".into()),
        ("s.match(\"bar\") + s.backend() + s.sub(\"barbar\", \"<\\0>\")", "trueb1<bar>bar".into()),
        (
            "s.match(\"bar\") + s.string()",
            "Failed(vmod re2 failure: s.string(0, UNIQUE): String 2 was not added)".into(),
        ),
        (
            "s.match(\"foo\") + s.sub(\"foo\", \"x\")",
            "Failed(vmod re2 failure: s.sub(foo, x, 0, UNIQUE): Pattern 1 was not saved)".into(),
        ),
        ("s.match(\"zzz\") + s.nmatches() + s.matched(1)", "false0false".into()),
        (
            "s.match(\"zzz\") + s.which()",
            "Failed(vmod re2 failure: s.which(0): previous match was unsuccessful)".into(),
        ),
        (
            "s.match(\"foo\") + s.matched(9)",
            "Failed(vmod re2 failure: n=9 out of range in s.matched() (3 patterns))".into(),
        ),
        ("s.nmatches()", "Failed(vmod re2 failure: s.nmatches() called without prior match)".into()),
        ("s.string(3) + s.integer(1) + s.backend(2)", "three1b1".into()),
        ("s.string(4)", "Failed(vmod re2 failure: s.string(4): set has 3 patterns)".into()),
        ("s.saved(STR, 1) + s.saved(BE, 1) + s.saved(REGEX, 2) + s.saved(INT, 2)", "truefalsetruefalse".into()),
        ("st.match(\"/foo/bar/x\") + st.nmatches() + st.match(\"x/foo\")", "true2false".into()),
        ("bo.match(\"A\") + bo.match(\"ab\") + bo.match(\"ABC\") + bo.which()", "truefalsetrue2".into()),
        ("s.suball(\"bazbaz\", \"<\\1>\", n=3) + s.extract(\"xbazx\", \"<\\1>\", n=3)", "<a><a><a>".into()),
        ("re2.quotemeta(\"a.b*c\")", "a\\.b\\*c".into()),
        ("re2.match(\"(a)(b)?\", \"xa\") + re2.backref(1) + re2.backref(2)", "truea**BACKREF FUNCTION FAILED**".into()),
        ("re2.suball(\"b+\", \"yabba dabba\", \"d\") + re2.sub(\"b+\", \"yabba\", \"d\")", "yada dadayada".into()),
        ("re2.extract(\"(.*)@([^.]*)\", \"boris@kremvax.ru\", \"\\2!\\1\")", "kremvax!boris".into()),
    ];
    for (expr, want) in all {
        assert_eq!(with("import re2;", init, &format!("\"\" + {expr}")), want, "{expr}");
    }
    let bad = with("import re2;", "", "\"\" + re2.match(\"(a\", \"xa\")");
    assert!(
        bad.starts_with("Failed(vmod re2 failure: re2.match(pattern=\"(a\", text=\"xa\"): Cannot compile: "),
        "{bad}"
    );
    let reason =
        VmodsWorld::try_new("vcl 4.1; import re2; backend b none; sub vcl_init { new r = re2.regex(\"a(\"); }").err();
    assert!(reason.as_deref().is_some_and(|reason| reason.contains("Cannot compile")), "{reason:?}");
    let reason =
        VmodsWorld::try_new("vcl 4.1; import re2; backend b none; sub vcl_init { new none = re2.set(); }").err();
    assert!(reason.as_deref().is_some_and(|reason| reason.contains("none: no patterns were added")), "{reason:?}");
}

#[test]
fn heads_are_filtered_by_sets() {
    let vcl = "vcl 4.1; import re2; backend b none; sub vcl_init { new s = re2.set(anchor=start); s.add(\"Foo:\"); s.add(\"Bar: b$\"); } \
        sub vcl_recv { s.hdr_filter(req); } sub vcl_hit { s.hdr_filter(req, false); }";
    let names = |method| {
        let mut world = VmodsWorld::new(vcl);
        for (name, value) in [("Foo", "1"), ("Bar", "b"), ("Bar", "bb"), ("Baz", "x")] {
            world.ctx.req.append(name, value).expect("room");
        }
        world.run(method);
        world.ctx.req.iter().map(|f| String::from_utf8_lossy(f.line()).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(Method::Recv), ["Foo: 1", "Bar: b"]);
    assert_eq!(names(Method::Hit), ["Bar: bb", "Baz: x"]);
}

#[test]
fn mathematics() {
    let math = |expr: &str| with("import math;", "", expr);
    assert_eq!(math("math.strfromd(\"%.17f\", math.sin(math.constant(M_PI)))"), "0.00000000000000012");
    assert_eq!(math("math.approx(math.sin(math.constant(M_PI)), 0.0) + \"\""), "true");
    assert_eq!(math("math.fpclassify(0.0) + math.fpclass(FP_ZERO)"), "4");
    assert_eq!(math("math.pow(2.0, 10.0) + math.fmod(7.5, 2.0) + math.atan2(0.0, 1.0)"), "1025.500");
    assert_eq!(math("math.lround(2.5) + math.lrint(2.5) + math.isless(1.0, 2.0)"), "6");
    assert_eq!(math("math.strfromd(\"%5f\", 1.0)"), "Failed(math.strfromd: bad format \"%5f\")");
    assert_eq!(math("math.jn(99999999, 1.0)"), "Failed(math: a Bessel function of order 99999999)");
}

#[test]
fn query_parameters() {
    let init = "new f = querystring.filter(); f.add_string(\"_\"); f.add_glob(\"utm_*\"); f.add_regex(\"^sess[0-9]\");";
    let qs = |expr: &str| with("import querystring;", init, &format!("\"\" + {expr}"));
    assert_eq!(
        qs("f.apply(\"/?utm_x=1&a=2&_=3\") + f.extract(\"/?utm_x=1&a=2&_=3\", mode = keep)"),
        "/?a=2utm_x=1&_=3"
    );
    assert_eq!(qs("f.apply() + f.apply(mode = keep) + f.extract()"), "/foo?a=1/fooa=1");
    assert_eq!(qs("querystring.sort(\"/?b&a&b\", uniq = true) + querystring.clean(\"/?&a&=\")"), "/?a&b/?a");
    assert_eq!(qs("querystring.remove() + querystring.remove(req.http.nope)"), "/foo");
    let late = "vcl 4.1; import querystring; backend b none; sub vcl_init { new f = querystring.filter(); } \
        sub vcl_recv { f.add_string(\"x\"); }";
    assert_eq!(
        VmodsWorld::new(late).run(Method::Recv),
        "Failed(querystring: a filter takes criteria in vcl_init only)"
    );
}

#[test]
fn addresses_have_places() {
    let path = std::env::temp_dir().join(format!("lacquer-geoip2-{}", std::process::id()));
    std::fs::write(&path, crate::geoip2::tests::sample()).expect("writable");
    let init = format!("new g = geoip2.geoip2(\"{}\");", path.display());
    let geo = |expr: &str| with("import geoip2; import std;", &init, expr);
    assert_eq!(geo("g.lookup(\"country/names/en\", std.ip(\"1.2.3.4\"))"), "Utopia \"U\"");
    assert_eq!(
        geo("\"[\" + g.lookup(\"country/names/en\", client.ip) + g.lookup(req.http.nope, client.ip) + \"]\""),
        "[]"
    );
    std::fs::remove_file(&path).expect("there");
    let gone = VmodsWorld::try_new(&format!("vcl 4.1; import geoip2; backend b none; sub vcl_init {{ {init} }}")).err();
    assert!(
        gone.as_deref().is_some_and(|reason| reason.contains("Error opening the specified MaxMind DB file")),
        "{gone:?}"
    );
}

#[test]
fn addresses_of_no_country_are_unknown() {
    for ip in ["\"127.0.0.1\"", "\"no address\"", "client.ip", "req.http.none"] {
        for name in ["code", "name"] {
            assert_eq!(with("import geoip;", "", &format!("geoip.country_{name}({ip})")), "Unknown");
        }
    }
}

#[test]
fn names_become_directors() {
    let vcl = "vcl 4.1; import dynamic; import std; backend none none; acl six { \"::\"/0; } \
        sub vcl_init { new d = dynamic.director(port=\"81\", ttl=5m); new no = dynamic.director(whitelist=six); } \
        sub vcl_recv { set req.http.out = d.backend(\"127.0.0.1\") + \" \" + d.backend() + \" \" + d.backend(\"LOCALHOST\", \"http\") + \
            \" \" + std.healthy(d.backend(\"127.0.0.1\")) + std.healthy(d.backend(\"no.such.name.invalid\")) + \
            std.healthy(no.backend(\"127.0.0.1\")); }";
    let mut world = VmodsWorld::new(vcl);
    world.ctx.req.append("Host", "127.0.0.1:8080").expect("room");
    world.run(Method::Recv);
    let out = world.field("out");
    assert_eq!(out, "d(127.0.0.1:81) d(127.0.0.1:81) d(localhost:http) truefalsefalse");
    let names: Vec<String> = world.vcl.directors().iter().map(|director| director.name().to_owned()).collect();
    assert!(names.contains(&"d(127.0.0.1:81)".into()) && names.contains(&"d(127.0.0.1:http)".into()), "{names:?}");
    let refused = |args: &str| {
        let vcl =
            format!("vcl 4.1; import dynamic; backend b none; sub vcl_init {{ new d = dynamic.director({args}); }}");
        VmodsWorld::try_new(&vcl).err().unwrap_or_default()
    };
    assert!(refused("ttl_from=dns").contains("resolver and ttl_from aren't built into Lacquer"));
    assert!(refused("proxy_header=3").contains("proxy_header must be 0, 1 or 2"));
    assert!(refused("port=\"\"").contains("port may not be empty"));
}

#[test]
fn unknown_modules_are_named() {
    let reason =
        |name: &str| VmodsWorld::try_new(&format!("vcl 4.1; import {name}; backend b none;")).err().expect("unknown");
    assert!(
        reason("memcached").contains("asks memcached; not built into Lacquer. Instead: redis"),
        "{}",
        reason("memcached")
    );
    assert!(reason("nothing").contains("Could not find VMOD nothing\n\t(Lacquer loads no shared objects; built in: "));
}
