// SPDX-License-Identifier: BSD-2-Clause
//! kvstore, urlplus and headerplus, as their documentation has them.

use vrt::Method;

use super::VmodsWorld;

const IMPORTS: &str = "import kvstore; import urlplus; import headerplus; import str; import querysort; backend b none; \
                       sub vcl_init { new kv = kvstore.init(); new own = kvstore.init(scope=REQUEST); own.set(\"a\", \"first\"); }";

fn world(body: &str) -> VmodsWorld {
    VmodsWorld::with(IMPORTS, body)
}

/// Compares `expr` after some statements; the transaction's URL is `url`.
#[track_caller]
fn check(url: &str, before: &str, expr: &str, wanted: &str) {
    let mut world = world(&format!("{before} set req.http.out = {expr};"));
    world.ctx.req.set_url(url).expect("room");
    assert_eq!(world.recv("out"), wanted, "{url}: {before} {expr}");
}

#[track_caller]
fn written(url: &str, before: &str, wanted: &str) {
    check(url, &format!("{before} urlplus.write();"), "req.url", wanted);
}

#[test]
fn urlplus_parts() {
    let url = "/shop/a.b/pic.tar.gz?q=1&r&s=";
    for (expr, wanted) in [
        ("urlplus.get_basename()", "pic.tar.gz"),
        ("urlplus.get_filename()", "pic.tar"),
        ("urlplus.get_extension()", "gz"),
        ("urlplus.get_dirname()", "/shop/a.b"),
        ("urlplus.url_get()", "/shop/a.b/pic.tar.gz"),
        ("urlplus.url_get(0, 0)", "/shop"),
        ("urlplus.url_get(start_range=-2, end_range=-2, leading_slash=FALSE, trailing_slash=TRUE)", "a.b/"),
        ("\"<\" + urlplus.url_get(3, 3) + \">\"", "<>"),
        ("urlplus.url_as_string(trailing_slash=TRUE)", "/shop/a.b/pic.tar.gz/"),
        ("urlplus.query_as_string(query_keep_equal_sign=true)", "q=1&r&s="),
        ("urlplus.as_string()", "/shop/a.b/pic.tar.gz?q=1&r&s"),
        (
            "urlplus.query_get(\"q\") + \"<\" + urlplus.query_get(\"r\", \"x\") + \">\" + urlplus.query_get(\"z\", \"none\")",
            "1<>none",
        ),
        ("urlplus.query_get_regex(\"^[a-q]$\") + urlplus.query_get_regex(\"x\", \"none\")", "1none"),
        ("urlplus.query_count() + \" \" + urlplus.url_count()", "3 3"),
    ] {
        check(url, "", expr, wanted);
    }
    for (url, dir) in [("/", "/"), ("/a", "/"), ("/a/", "/a"), ("/a/b/", "/a/b"), ("/a/b", "/a")] {
        check(url, "", "urlplus.get_dirname()", dir);
    }
    check(
        "/a/b.c/",
        "if (!urlplus.get_extension() && !urlplus.get_basename()) { set req.http.none = 1; }",
        "req.http.none",
        "1",
    );
    check(
        "/x",
        "urlplus.parse(\"http://h/y.z?a=b\");",
        "urlplus.get_extension() + urlplus.query_get(\"a\") + urlplus.as_string()",
        "zbhttp://h/y.z?a=b",
    );
    check("/x", "urlplus.parse(\"/y\"); urlplus.reset();", "urlplus.as_string()", "/x");
}

#[test]
fn urlplus_changes() {
    written("/a?utm_x=1&b=2&utm_y=3&a=1", "urlplus.query_delete_regex(\"^utm_\");", "/a?a=1&b=2");
    written(
        "/a?c=3&b=2&page_id=7",
        "urlplus.query_keep(\"page_id\"); urlplus.query_keep_regex(\"^c\");",
        "/a?c=3&page_id=7",
    );
    written("/a?c=3", "urlplus.query_keep(\"none\");", "/a");
    written(
        "/a?c=3",
        "urlplus.query_keep(\"none\"); urlplus.query_add(\"n\", \"1\", keep=true); urlplus.query_add(\"m\");",
        "/a?n=1",
    );
    written("/a?c=3&c=4", "urlplus.query_add(\"b\"); urlplus.query_delete(\"c\");", "/a?b");
    written("/a?c=3&c=4", "urlplus.query_keep(\"c\"); urlplus.query_delete(\"c\");", "/a?c=3&c=4");
    written("/a?c=3&c=4", "urlplus.query_keep(\"c\"); urlplus.query_delete(\"c\", delete_keep=true);", "/a");
    written(
        "/a/b/c",
        "urlplus.url_add(\"v\", keep=1, position=0); urlplus.url_add(\"e\"); urlplus.url_add(\"p\", position=-2);",
        "/v/a/b/c/p/e",
    );
    written("/a/b/c/", "urlplus.url_delete(\"b\"); urlplus.url_delete_regex(\"^c\");", "/a/");
    written("/a/b/c", "urlplus.url_delete_range(0, 0);", "/b/c");
    written("/a/b/c", "urlplus.url_delete_range();", "/");
    written("/a/b/c", "urlplus.url_keep(\"a\"); urlplus.url_keep_regex(\"c\");", "/a/c");
    written("/A/b?C=D", "urlplus.tolower(URL);", "/a/b?C=D");
    written("/A/b?C=D", "urlplus.toupper(QUERY); urlplus.tolower();", "/a/b?c=d");
    written("//a///b?&&z=&a=", "", "/a/b?a&z");
    check("/a?b=1", "urlplus.query_add(\"c\");", "req.url", "/a?b=1");
    check("/b?z&a&z", "urlplus.write(sort_query=false, query_unique=KEY, trailing_slash=TRUE);", "req.url", "/b/?z&a");
}

#[test]
fn urlplus_errors() {
    check("/", "urlplus.url_add(\"a/b\");", "1", "Failed(urlplus.url_add(): a segment is a text without / and ?)");
    check("/", "urlplus.query_add(\"\");", "1", "Failed(urlplus.query_add(): a parameter has a name)");
    check(
        "/",
        "urlplus.query_keep_regex(\"(\");",
        "1",
        "Failed(urlplus.query_keep_regex(): bad pattern \"(\": missing closing parenthesis at 1)",
    );
}

/// The lines of req's head after some statements, without Host.
#[track_caller]
fn head(before: &str, wanted: &[&str]) {
    let mut world = world(before);
    for (name, value) in
        [("Host", "h"), ("X-A", "1"), ("x-a", "2"), ("X-B", "3"), ("CC", "max-age=3, public"), ("CC", "s=\"x, y\"")]
    {
        world.ctx.req.append(name, value).expect("room");
    }
    let action = world.run(Method::Recv);
    let lines: Vec<_> = world.ctx.req.iter().map(|field| String::from_utf8_lossy(field.line()).into_owned()).collect();
    assert_eq!(action, "Hash", "{before}");
    assert_eq!(lines.iter().filter(|line| *line != "Host: h").collect::<Vec<_>>(), wanted, "{before}");
}

#[test]
fn headerplus_fields() {
    let cc = "CC: max-age=3, public";
    let s = "CC: s=\"x, y\"";
    let plus = |text: &str, wanted: &[&str]| head(&format!("headerplus.init(req); {text} headerplus.write();"), wanted);
    plus("", &["X-A: 1", "x-a: 2", "X-B: 3", cc, s]);
    plus("headerplus.delete_regex(\"^(?i)x-\");", &[cc, s]);
    plus("headerplus.delete(\"X-a\"); headerplus.add(\"New\", \"n\");", &["X-B: 3", cc, s, "New: n"]);
    plus("headerplus.set(\"x-A\", \"9\"); headerplus.set(\"N\", \"n\");", &["X-A: 9", "X-B: 3", cc, s, "N: n"]);
    plus(
        "headerplus.keep(\"host\"); headerplus.keep_regex(\"B$\"); headerplus.add(\"n\", \"1\", keep=false);",
        &["X-B: 3"],
    );
    plus("headerplus.keep(\"x-b\"); headerplus.set(\"n\", \"1\"); headerplus.delete(\"n\");", &["X-B: 3", "n: 1"]);
    plus("headerplus.keep(\"X-A\"); headerplus.delete(\"X-A\"); headerplus.keep(\"host\");", &["X-A: 1", "x-a: 2"]);
    plus("headerplus.keep(\"X-A\"); headerplus.keep(\"host\"); headerplus.delete(\"X-A\", delete_keep=true);", &[]);
    plus("headerplus.rename(\"X-B\", \"Y\"); headerplus.collapse(\"X-A\");", &["Y: 3", cc, s, "X-A: 1, 2"]);
    plus("headerplus.collapse_regex(\"^(?i)x-\", \"all\", \"|\");", &[cc, s, "all: 1|2|3"]);
    plus(
        "headerplus.delete_regex(\"X|x\"); headerplus.split(\"CC\", \", \");",
        &["CC: max-age=3", "CC: public", "CC: s=\"x", "CC: y\""],
    );
    // What VCL sets meanwhile stays; what was changed before reset() doesn't.
    plus("set req.http.X-B = 4; headerplus.delete(\"X-A\");", &[cc, s, "X-B: 4"]);
    plus(
        "headerplus.delete_regex(\".\"); headerplus.reset(); headerplus.delete(\"CC\");",
        &["X-A: 1", "x-a: 2", "X-B: 3"],
    );
    head("headerplus.init_req(); headerplus.delete_regex(\".\");", &["X-A: 1", "x-a: 2", "X-B: 3", cc, s]);
}

#[test]
fn headerplus_attributes() {
    let cc = "CC: max-age=3, public";
    let s = "CC: s=\"x, y\"";
    let plus = |text: &str, wanted: &[&str]| {
        head(
            &format!("headerplus.init(req); headerplus.delete_regex(\"^(?i)x-\"); {text} headerplus.write();"),
            wanted,
        );
    };
    plus("headerplus.attr_set(\"CC\", \"max-age\", \"9\");", &["CC: max-age=9, public", s]);
    plus("headerplus.attr_set(\"CC\", \"S\", \"9\");", &[cc, "CC: S=9"]);
    plus("headerplus.attr_set(\"CC\", \"no-store\");", &["CC: max-age=3, public, no-store", s]);
    plus("headerplus.attr_set(\"CC\", \"max-age=\" + 7);", &["CC: max-age=7, public", s]);
    plus("headerplus.attr_set(\"Vary\", \"X-Ae\");", &[cc, s, "Vary: X-Ae"]);
    plus("headerplus.attr_delete(\"CC\", \"s\"); headerplus.attr_delete(\"CC\", \"none\");", &[cc]);
    plus("headerplus.attr_delete(\"CC\", \"Max-Age\");", &["CC: public", s]);
    let get = |expr: &str, wanted: &str| {
        check("/", "set req.http.c = \"a=1, b, q=\" + {\"\"x, y\"\"}; headerplus.init(req);", expr, wanted);
    };
    get(
        "headerplus.attr_get(\"C\", \"a\") + headerplus.attr_get(\"c\", \"b\") + headerplus.attr_get(\"c\", \"q\")",
        "1x, y",
    );
    get("headerplus.attr_get(\"c\", \"z\", def=\"none\")", "none");
    get("headerplus.attr_exists(\"c\", \"b\") + \" \" + headerplus.attr_exists(\"c\", \"y\")", "true false");
    get(
        "headerplus.get(\"C\") + headerplus.get(\"d\", def=\"none\") + headerplus.get_regex(\"^.$\")",
        "a=1, b, q=\"x, y\"nonea=1, b, q=\"x, y\"",
    );
    get("headerplus.as_list(BOTH, \";\", \"=\", name_case=UPPER) + headerplus.count()", "C=a=1, b, q=\"x, y\"1");
    get("headerplus.as_list(NAME, \";\") + headerplus.as_list(VALUE, \"\")", "ca=1, b, q=\"x, y\"");
    get(
        "\"\" + headerplus.attr_count(\"c\") + headerplus.attr_count(\"c\", \" \") + headerplus.attr_count(\"z\")",
        "330",
    );
    get(
        "headerplus.attr_get(\"c\", \"b, q\", \"|\", \"?\", \"no\") + headerplus.attr_get(\"c\", \"a\", \"|\")",
        "no1, b, q=\"x, y\"",
    );
    plus("headerplus.attr_set(\"CC\", \"n\", \"1\", how=ALL);", &["CC: max-age=3, public, n=1", "CC: s=\"x, y\", n=1"]);
    plus("headerplus.attr_set(\"CC\", \"s\", \"1\", how=UPDATE);", &[cc, "CC: s=1"]);
    plus("headerplus.attr_set(\"CC\", \"n\", \"1\", how=UPDATE);", &["CC: max-age=3, public, n=1", s]);
    plus("headerplus.attr_set(\"CC\", \"n\", \"1\", \"; \", \":\");", &["CC: max-age=3, public; n:1", s]);
    let twice = "headerplus.attr_set(\"CC\", \"n\", \"1\", how=ALL);";
    plus(&format!("{twice} headerplus.attr_delete(\"CC\", \"n\");"), &[cc, "CC: s=\"x, y\", n=1"]);
    plus(&format!("{twice} headerplus.attr_delete(\"CC\", \"n\", all=true);"), &[cc, s]);
}

#[test]
fn headerplus_names_and_values() {
    let cc = "CC: max-age=3, public";
    let s = "CC: s=\"x, y\"";
    let (a1, a2, b) = ("X-A: 1", "x-a: 2", "X-B: 3");
    let plus = |text: &str, wanted: &[&str]| head(&format!("headerplus.init(req); {text} headerplus.write();"), wanted);
    plus("headerplus.append(\"x-A\", \"9\");", &["X-A: 1, 9", a2, b, cc, s]);
    plus("headerplus.append(\"x-A\", \"9\", delim=\";\", all=true);", &["X-A: 1;9", "x-a: 2;9", b, cc, s]);
    plus("headerplus.append(\"n\", \"9\");", &[a1, a2, b, cc, s, "n: 9"]);
    plus("headerplus.keep(\"cc\"); headerplus.append(\"n\", \"9\", keep=false);", &[cc, s]);
    plus("headerplus.prefix(\"-a|B$\", \"Y-\");", &["Y-X-A: 1", "Y-x-a: 2", "Y-X-B: 3", cc, s]);
    plus("headerplus.suffix(\"^X-B\", \"-C\", remove=false);", &[a1, a2, b, cc, s, "X-B-C: 3"]);
    plus("headerplus.rename(\"X-B\", \"Y\", remove=false);", &[a1, a2, b, cc, s, "Y: 3"]);
    plus("headerplus.regsub_name(\"^x-(.)\", \"\\1\");", &["A: 1", "a: 2", "B: 3", cc, s]);
    plus("headerplus.regsub_name(\"c\", \"D\", all=true);", &[a1, a2, b, "DD: max-age=3, public", "DD: s=\"x, y\""]);
    plus("headerplus.regsub_name(\"^x-b$\", \"N\", remove=false);", &[a1, a2, b, cc, s, "N: 3"]);
    plus(
        "headerplus.regsub_value(\"^c\", \"[a-z]\", \"<\\0>\");",
        &[a1, a2, b, "CC: <m>ax-age=3, public", "CC: <s>=\"x, y\""],
    );
    plus(
        "headerplus.regsub_value(\"^c\", \"[xX]\", \"z\", true);",
        &[a1, a2, b, "CC: maz-age=3, public", "CC: s=\"z, y\""],
    );
    plus("headerplus.collapse(\"X-A\", \"all\", delim=\"|\");", &[b, cc, s, "all: 1|2"]);
    let get = |expr: &str, wanted: &str| {
        check("/", "set req.http.b = \"2\"; set req.http.A = \"1\"; headerplus.init(req);", expr, wanted);
    };
    get("headerplus.get(\"a\", \"2\", \"no\") + headerplus.get(\"B\", value_re=\"2\")", "no2");
    get("headerplus.get_regex(\".\", \"1\") + headerplus.get_regex(\".\", \"x\", \"no\")", "1no");
    get(
        "headerplus.get_name_regex(\"^[AB]\") + headerplus.get_name_regex(value_re=\"1\") + headerplus.get_name_regex(\"q\")",
        "bA",
    );
    get(
        "\"\" + headerplus.count() + headerplus.count(\"a\") + headerplus.count(\"c\") + headerplus.count_regex(\"^[aB]$\")",
        "2102",
    );
    get(
        "headerplus.as_list() + headerplus.as_list(NAME, \"\", sort=false) + headerplus.as_list(NAME, \",\", name_case=LOWER)",
        "A: 1, b: 2bAa,b",
    );
}

#[test]
fn headerplus_errors() {
    check("/", "headerplus.delete(\"a\");", "1", "Failed(headerplus.delete(): init() comes first)");
    check(
        "/",
        "headerplus.init(req); headerplus.split(\"a\", \"\");",
        "1",
        "Failed(headerplus.split(): the separator must not be empty)",
    );
    check(
        "/",
        "headerplus.init(req); headerplus.attr_set(\"a\", \"b;c\");",
        "1",
        "Failed(headerplus.attr_set(): \"b;c\" is no name of an attribute)",
    );
    check(
        "/",
        "headerplus.init(req); headerplus.add(\"a b\", \"c\"); headerplus.write();",
        "1",
        "Failed(Bad header name \"a b\")",
    );
    check(
        "/",
        "headerplus.init(req);",
        "headerplus.attr_get(\"a\", \"b\", \"\")",
        "Failed(headerplus.attr_get(): a delimiter must not be empty)",
    );
    let reason = VmodsWorld::try_new(&format!("vcl 4.1; {IMPORTS} sub vcl_recv {{ headerplus.write_req0(); }}"))
        .err()
        .expect("refused");
    assert!(reason.contains("Hint: That isn't built into Lacquer. Instead: headerplus.write."), "{reason}");
    let reason = VmodsWorld::try_new(&format!("vcl 4.1; {IMPORTS} sub vcl_recv {{ kv.init_conf(\"x\"); }}"))
        .err()
        .expect("refused");
    assert!(reason.contains("Hint: That isn't built into Lacquer. Instead: init_file"), "{reason}");
}

#[test]
fn kvstore_keys_and_lives() {
    check(
        "/",
        "kv.set(\"a\", \"1\"); kv.set(\"b\", req.http.none);",
        "kv.get(\"a\") + kv.get(\"b\", \"x\") + kv.get(\"c\", \"y\")",
        "1y",
    );
    check("/", "kv.set(\"a\", \"1\"); kv.delete(\"a\"); kv.delete(\"none\");", "\"<\" + kv.get(\"a\") + \">\"", "<>");
    check(
        "/",
        "kv.counter(\"n\", 5); kv.counter(\"n\", -2);",
        "kv.counter(\"n\") + kv.get(\"n\") + kv.counter(\"n\", 0)",
        "444",
    );
    check("/", "kv.set(\"n\", \"7x\");", "kv.counter(\"n\", 1)", "8");
    let mut world = world(
        "set req.http.out = kv.get(\"n\", \"none\") + kv.compact(); kv.set(\"n\", \"1\", 10s); kv.counter(\"c\", 1, 10s);",
    );
    let mut turn = |seconds: u64| {
        world.ctx.clock_mut().advance(std::time::Duration::from_secs(seconds));
        world.run(Method::Recv);
        world.field("out")
    };
    assert_eq!([turn(0), turn(9), turn(11)], ["none0", "10", "none1"]);
}

#[test]
fn kvstore_limits_and_size() {
    check(
        "/",
        "",
        "\"\" + kv.limit(\"n\", 2) + kv.limit(\"n\", 2) + kv.limit(\"n\", 2) + kv.get(\"n\") + kv.limit(\"n\", 9, 7) + kv.get(\"n\") + kv.limit(\"n\", 9, count=1)",
        "truetruefalse2true9false",
    );
    check("/", "kv.set(\"a\", \"\");", "\"\" + kv.contains(\"a\") + kv.contains(\"b\") + kv.size()", "truefalse1");
    check(
        "/",
        "own.set(\"a\", \"x\"); own.set(\"b\", \"x\"); set req.http.two = own.size(); own.delete(\"a\"); own.delete(\"c\");",
        "req.http.two + own.size() + own.contains(\"a\") + own.contains(\"b\") + own.limit(\"z\", 0) + own.limit(\"z\", 1)",
        "21falsetruefalsetrue",
    );
}

#[test]
fn kvstore_of_a_request() {
    let mut world = world(
        "set req.http.out = own.get(\"a\", \"none\") + own.get(\"n\", \"none\"); own.set(\"a\", \"mine\"); own.counter(\"n\"); \
         set req.http.then = own.get(\"a\") + own.get(\"n\"); own.delete(\"a\"); set req.http.gone = own.get(\"a\", \"gone\");",
    );
    for _ in 0..2 {
        world.run(Method::Recv);
        let values = ["out", "then", "gone"].map(|name| world.ctx.req.get(name).map(<[u8]>::to_vec));
        assert_eq!(values, [&b"firstnone"[..], b"mine1", b"gone"].map(|text| Some(text.to_vec())));
        world.end_task();
    }
}

#[test]
fn kvstore_from_a_file() {
    let path = std::env::temp_dir().join(format!("lacquer-kvstore-{}", std::process::id()));
    std::fs::write(&path, "a,1\nb,2,3\n").expect("a file");
    let load = format!("kv.set(\"old\", \"x\"); set req.http.n = kv.init_file(\"{}\");", path.display());
    check("/", &load, "req.http.n + kv.get(\"a\") + kv.get(\"b\") + kv.get(\"old\", \"gone\")", "212,3gone");
    std::fs::write(&path, "a 1\n").expect("a file");
    let reason = format!("Failed(kvstore: kv.init_file(): {}: line 1 has no separator)", path.display());
    check("/", &load, "1", &reason);
    std::fs::remove_file(&path).expect("it is there");
    check(
        "/",
        &load,
        "1",
        &format!("Failed(kvstore: kv.init_file(): {}: No such file or directory (os error 2))", path.display()),
    );
    check("/", "kv.init_file(\"/x\", \"\");", "1", "Failed(kvstore: kv.init_file(): a separator must not be empty)");
}

#[test]
fn str_as_enterprise_has_it() {
    check(
        "/",
        "",
        "str.len(\"abc\") + \" \" + str.len(req.http.none) + \" \" + str.substr(\"abcdef\", 2, 3) + str.substr(\"abc\", 9)",
        "3 0 deabc",
    );
}

#[test]
fn querysort_is_std_s() {
    check("/b?z&a", "", "querysort.querysort(req.url) + querysort.querysort(req.http.none)", "/b?a&z");
}

mod any {
    use proptest::prelude::*;

    use super::{IMPORTS, Method, VmodsWorld};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Whatever a URL and a field are, nothing panics, and what is written once is written the same again.
        #[test]
        fn urls_and_fields(url in "/[!-~]{0,40}", value in "[ -~]{0,40}", name in "[!-~]{1,8}", n in -4i64..5) {
            let mut world = VmodsWorld::new(&format!(
                "vcl 4.1; {IMPORTS} sub vcl_recv {{ urlplus.write(query_keep_equal_sign=true); set req.http.one = req.url; \
                 urlplus.reset(); urlplus.write(query_keep_equal_sign=true); set req.http.two = req.url; \
                 set req.http.part = urlplus.url_get({n}, 2) + urlplus.get_dirname() + urlplus.get_extension(); \
                 urlplus.url_delete_range({n}); urlplus.url_add(\"x\", position={n}); \
                 headerplus.init(req); headerplus.attr_set(\"field\", \"new\", req.http.name); \
                 if (headerplus.attr_get(\"field\", \"new\") != req.http.name) {{ set req.http.bad = 1; }} \
                 headerplus.attr_delete(\"field\", req.http.name); headerplus.split(\"field\", \"x\"); headerplus.collapse(\"field\"); \
                 return (hash); }}"
            ));
            world.ctx.req.set_url(&url).expect("room");
            world.ctx.req.append("field", &value).expect("room");
            world.ctx.req.append("name", &name).expect("room");
            prop_assert_eq!(world.run(Method::Recv), "Hash");
            prop_assert_eq!(world.ctx.req.get("one"), world.ctx.req.get("two"));
            // What is open in quotes takes in what is added behind it.
            let is_open = value.contains('"');
            // A string in quotes is taken as such.
            let is_quoted = name.len() > 1 && name.starts_with('"') && name.ends_with('"');
            prop_assert!(is_open || is_quoted || world.ctx.req.get("bad").is_none(), "{value} {name}");
        }
    }
}
