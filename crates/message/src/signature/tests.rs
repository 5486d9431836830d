// SPDX-License-Identifier: BSD-2-Clause
//! The base strings of RFC 9421, and requests that have none.

use proptest::prelude::*;

use super::*;

/// The request of RFC 9421 appendix B.2, with more header fields.
fn request(more: &[(&str, &str)]) -> Head {
    let digest = "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:";
    let fields = [
        ("Host", "example.com"),
        ("Date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("Content-Type", "application/json"),
        ("Content-Digest", digest),
        ("Content-Length", "18"),
    ];
    made("POST", "/foo?param=Value&Pet=dog", &[&fields, more].concat())
}

fn made(method: &str, url: &str, fields: &[(&str, &str)]) -> Head {
    let mut head = Head::new();
    head.start_request(method.as_bytes(), url.as_bytes(), b"HTTP/1.1").unwrap();
    fields.iter().for_each(|(name, value)| head.append(name, value).unwrap());
    head
}

fn base(request: &Head, is_https: bool, input: &str) -> Result<String, String> {
    let mut head = request.clone();
    head.append("Signature-Input", format!("s={input}")).unwrap();
    head.append("Signature", "s=:AA==:").unwrap();
    let signature = signatures(&head).map_err(|fault| fault.to_string())?.remove(0);
    let base = signature.base(&mut SignedRequest::new(&head, is_https)).map_err(|fault| fault.to_string())?;
    Ok(String::from_utf8(base).unwrap())
}

/// The lines of the base above the signature's parameters.
fn lines(request: &Head, is_https: bool, components: &str) -> Result<String, String> {
    let base = base(request, is_https, &format!("({components})"))?;
    let (lines, last) = base.rsplit_once('\n').unwrap_or(("", &base));
    assert_eq!(last, format!("\"@signature-params\": ({components})"));
    Ok(lines.to_owned())
}

/// RFC 9421, B.2.1, B.2.2, B.2.3, B.2.5 and B.2.6.
#[test]
fn the_bases_of_the_rfc() {
    let request = request(&[]);
    let digest = String::from_utf8_lossy(request.get("Content-Digest").unwrap()).into_owned();
    let whole = "\"date\" \"@method\" \"@path\" \"@query\" \"@authority\" \"content-type\" \"content-digest\" \"content-length\"";
    for (input, want) in [
        ("();created=1618884473;keyid=\"test-key-rsa-pss\";nonce=\"b3k2pp5k7z-50gnwp.yemd\"".to_owned(), String::new()),
        (
            "(\"@authority\" \"content-digest\" \"@query-param\";name=\"Pet\");created=1618884473;\
             keyid=\"test-key-rsa-pss\";tag=\"header-example\""
                .to_owned(),
            format!("\"@authority\": example.com\n\"content-digest\": {digest}\n\"@query-param\";name=\"Pet\": dog\n"),
        ),
        (
            format!("({whole});created=1618884473;keyid=\"test-key-rsa-pss\""),
            format!(
                "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@method\": POST\n\"@path\": /foo\n\
                 \"@query\": ?param=Value&Pet=dog\n\"@authority\": example.com\n\"content-type\": application/json\n\
                 \"content-digest\": {digest}\n\"content-length\": 18\n"
            ),
        ),
        (
            "(\"date\" \"@authority\" \"content-type\");created=1618884473;keyid=\"test-shared-secret\"".to_owned(),
            "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@authority\": example.com\n\"content-type\": application/json\n"
                .to_owned(),
        ),
    ] {
        assert_eq!(base(&request, true, &input), Ok(format!("{want}\"@signature-params\": {input}")));
    }
}

/// RFC 9421, 2.1 to 2.1.3.
#[test]
fn fields_of_the_rfc() {
    let request = request(&[
        ("X-OWS-Header", "  Leading and trailing whitespace. "),
        ("Cache-Control", "max-age=60"),
        ("Cache-Control", "   must-revalidate"),
        ("Example-Dict", " a=1,    b=2;x=1;y=2,   c=(a   b   c), d"),
        ("Example-Header", "value, with, lots"),
        ("Example-Header", "of, commas"),
        ("X-Empty-Header", ""),
        ("Priority", "u=1,   i"),
        ("Sec-CH-UA", "\"a\";v=\"1\",\"b\""),
        ("Incremental", " ?1;x"),
    ]);
    for (component, want) in [
        ("\"x-ows-header\"", "Leading and trailing whitespace."),
        ("\"cache-control\"", "max-age=60, must-revalidate"),
        ("\"example-dict\"", "a=1,    b=2;x=1;y=2,   c=(a   b   c), d"),
        ("\"example-dict\";key=\"a\"", "1"),
        ("\"example-dict\";key=\"b\"", "2;x=1;y=2"),
        ("\"example-dict\";key=\"c\";sf", "(a b c)"),
        ("\"example-dict\";sf;key=\"d\"", "?1"),
        ("\"example-header\"", "value, with, lots, of, commas"),
        ("\"example-header\";bs", ":dmFsdWUsIHdpdGgsIGxvdHM=:, :b2YsIGNvbW1hcw==:"),
        ("\"x-empty-header\"", ""),
        ("\"priority\";sf", "u=1, i"),
        ("\"sec-ch-ua\";sf", "\"a\";v=\"1\", \"b\""),
        ("\"incremental\";sf", "?1;x"),
    ] {
        assert_eq!(lines(&request, true, component), Ok(format!("{component}: {want}")));
    }
}

/// RFC 9421, 2.2.2 to 2.2.8.
#[test]
fn derived_components_of_the_rfc() {
    let host = [("Host", "WWW.Example.com:443")];
    let long = "/parameters?var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+whitespace&fa%C3%A7ade%22%3A%20=something";
    for (method, url, component, want) in [
        ("POST", "/path?param=value", "\"@target-uri\"", "https://www.example.com/path?param=value"),
        ("POST", "/path?param=value", "\"@authority\"", "www.example.com"),
        ("POST", "/path?param=value", "\"@scheme\"", "https"),
        ("POST", "/path?param=value", "\"@request-target\"", "/path?param=value"),
        ("OPTIONS", "*", "\"@request-target\"", "*"),
        ("OPTIONS", "*", "\"@target-uri\"", "https://www.example.com"),
        ("OPTIONS", "*", "\"@path\"", "/"),
        ("GET", "/path?param=value&foo=bar&baz=bat%2Dman", "\"@query\"", "?param=value&foo=bar&baz=bat%2Dman"),
        ("POST", "/path?queryString", "\"@query\"", "?queryString"),
        ("POST", "/path", "\"@query\"", "?"),
        ("POST", "/a%20b/", "\"@path\"", "/a%20b/"),
        ("GET", "/path?param=value&foo=bar&baz=batman&qux=", "\"@query-param\";name=\"qux\"", ""),
        ("GET", "/path?param=value&foo", "\"@query-param\";name=\"foo\"", ""),
        ("GET", long, "\"@query-param\";name=\"var\"", "this%20is%20a%20big%0Amultiline%20value"),
        ("GET", long, "\"@query-param\";name=\"bar\"", "with%20plus%20whitespace"),
        ("GET", long, "\"@query-param\";name=\"fa%C3%A7ade%22%3A%20\"", "something"),
    ] {
        assert_eq!(lines(&made(method, url, &host), true, component), Ok(format!("{component}: {want}")), "{url}");
    }
    let plain = |host| lines(&made("GET", "/", &[("Host", host)]), false, "\"@target-uri\"");
    assert_eq!(plain("a.example:80"), Ok("\"@target-uri\": http://a.example/".to_owned()));
    assert_eq!(plain("a.example:443"), Ok("\"@target-uri\": http://a.example:443/".to_owned()));
    assert_eq!(plain("[2001:DB8::1]:"), Ok("\"@target-uri\": http://[2001:db8::1]/".to_owned()));
}

#[test]
fn what_has_no_value_has_a_reason() {
    let request = request(&[("X", "a=1"), ("X-Bad", "a=1 b"), ("X-Utf8", "ü"), ("X-Line", "a\nb")]);
    let twice = made("GET", "/?a=1&a=2", &[]);
    for (request, component, why) in [
        (&request, "\"x-none\"", "isn't in the request"),
        (&request, "\"X\"", "isn't in the request"),
        (&request, "\"x\";key=\"b\"", "isn't in the request"),
        (&request, "\"@query-param\";name=\"pet\"", "isn't in the request"),
        (&twice, "\"@authority\"", "isn't in the request"),
        (&twice, "\"@target-uri\"", "isn't in the request"),
        (&twice, "\"@query-param\";name=\"a\"", "is in the request more than once"),
        (&request, "\"@status\"", "isn't a component of requests"),
        (&request, "\"@signature-params\"", "isn't a component of requests"),
        (&request, "\"@query-param\"", "isn't a component of requests"),
        (&request, "\"@method\";x", "has a parameter that isn't allowed there"),
        (&request, "\"@query-param\";name=1", "has a parameter that isn't allowed there"),
        (&request, "\"x\";bs;sf", "has a parameter that isn't allowed there"),
        (&request, "\"x\";bs;key=\"a\"", "has a parameter that isn't allowed there"),
        (&request, "\"x\";sf=?0", "has a parameter that isn't allowed there"),
        (&request, "\"x\";other", "has a parameter that isn't allowed there"),
        (&request, "\"@method\";req", "req is for signatures of responses"),
        (&request, "\"x\";tr", "trailers come after the request was judged"),
        (&request, "\"x\";sf", "the type of this structured field isn't known"),
        (&request, "\"x-bad\";key=\"a\"", "isn't a structured field"),
        (&request, "\"x-utf8\"", "has bytes other than ASCII"),
        (&request, "\"x-line\"", "has bytes other than ASCII"),
    ] {
        assert_eq!(lines(request, true, component), Err(format!("{component}: {why}")));
    }
    let repeated = "\"x\";key=\"a\";sf \"x\";sf;key=\"a\"";
    assert_eq!(lines(&request, true, repeated), Err("\"x\";sf;key=\"a\": is covered twice".to_owned()));
    assert!(lines(&request, true, "\"x\" \"x\";bs \"x\";key=\"a\"").is_ok());
}

fn parsed(input: &str, signature: &str) -> Result<Vec<MessageSignature>, String> {
    let fields = [("Signature-Input", input), ("Signature", signature)];
    let fields: Vec<_> = fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    signatures(&made("GET", "/", &fields)).map_err(|fault| fault.to_string())
}

#[test]
fn signatures_have_a_label_in_both_fields() {
    assert_eq!(parsed("", ""), Ok(Vec::new()));
    let both = parsed("a=(), b=(\"@path\");alg=\"x\";created=1", "b=:AQI=:, a=:AA==:").unwrap();
    assert_eq!((both[1].label(), both[1].signature()), (&b"b"[..], &[1, 2][..]));
    assert_eq!((both[1].text("alg"), both[1].time("created"), both[1].time("alg")), (Some("x"), Some(1), None));
    assert!(both[1].covers("@path") && !both[0].covers("@path"));
    let many = |member: &str| (0..17).map(|n| format!("s{n}={member}")).collect::<Vec<_>>().join(", ");
    let wide = format!("a=({})", "\"x\" ".repeat(33));
    for (input, signature, why) in [
        ("a=()", "", "a isn't in both Signature-Input and Signature"),
        ("", "a=:AA==:", "a isn't in both Signature-Input and Signature"),
        ("a=()", "b=:AA==:", "b isn't in both Signature-Input and Signature"),
        ("a=(", "a=:AA==:", "Signature-Input is malformed"),
        ("a=(x)", "a=:AA==:", "Signature-Input is malformed"),
        ("a=1", "a=:AA==:", "Signature-Input is malformed"),
        ("a=()", "a=\"AA\"", "Signature is malformed"),
        ("a=()", "a=:!:", "Signature is malformed"),
        (&many("()"), &many(":AA==:"), "more than 16 signatures"),
        (&wide, "a=:AA==:", "more than 32 components are covered"),
    ] {
        assert_eq!(parsed(input, signature), Err(why.to_owned()), "{input}");
    }
}

#[test]
fn an_agent_is_one_that_the_signature_covers() {
    let of = |components: &str, agent: &[&str]| {
        let input = format!("sig=({components})");
        let mut fields = vec![("Signature-Input", &input[..]), ("Signature", "sig=:AA==:")];
        fields.extend(agent.iter().map(|agent| ("Signature-Agent", *agent)));
        let head = made("GET", "/", &fields);
        signatures(&head).unwrap().remove(0).agent(&mut SignedRequest::new(&head, true))
    };
    let uri = |uri: &str| Ok(SignatureAgent::Uri(uri.to_owned()));
    let whole = "\"signature-agent\"";
    let malformed = Err(SignatureFault::Malformed("Signature-Agent"));
    assert_eq!(of(whole, &[]), Ok(SignatureAgent::Absent));
    assert_eq!(of(whole, &[" \"https://a.test\""]), uri("https://a.test"));
    assert_eq!(of(whole, &["x=\"https://a.test\""]), uri("https://a.test"));
    assert_eq!(of("\"signature-agent\";sf", &["x=\"https://a.test\";type=directory"]), uri("https://a.test"));
    assert_eq!(
        of("\"signature-agent\";key=\"x\"", &["y=\"https://b.test\"", "x=\"https://a.test\""]),
        uri("https://a.test")
    );
    let two = "\"signature-agent\";key=\"x\" \"signature-agent\";key=\"sig\"";
    assert_eq!(of(two, &["x=\"https://b.test\", sig=\"https://a.test\""]), uri("https://a.test"));
    assert_eq!(of(two, &["x=\"https://a.test\""]), uri("https://a.test"));
    for (components, agent) in [
        ("", "\"https://a.test\""),
        ("\"signature-agent\";key=\"x\"", "\"https://a.test\""),
        ("\"signature-agent\";key=\"x\"", "y=\"https://a.test\""),
        (whole, "x=\"https://b.test\", y=\"https://a.test\""),
    ] {
        assert_eq!(of(components, &[agent]), Ok(SignatureAgent::NotCovered), "{components} {agent}");
    }
    let other = SignatureAgent::OtherType("cimd".to_owned());
    assert_eq!(of(whole, &["sig=\"https://a.test/card\";type=cimd"]), Ok(other));
    for agent in ["\"https://a.test", "sig=1", "\"a\", \"b\"", "https://a.test", "sig=(\"a\")"] {
        assert_eq!(of(whole, &[agent]), malformed, "{agent}");
    }
}

/// The signatures over these components, as many as labels, in the time in which the field is read once.
fn bases(value: &str, components: &str, labels: &[&str]) -> Vec<Result<usize, String>> {
    let join = |member: &str| labels.iter().map(|label| format!("{label}={member}")).collect::<Vec<_>>().join(", ");
    let (input, signature) = (join(&format!("({components})")), join(":AA==:"));
    let head = made("GET", "/", &[("X", value), ("Signature-Input", &input), ("Signature", &signature)]);
    let mut request = SignedRequest::new(&head, true);
    let base = |signature: &MessageSignature| signature.base(&mut request).map(|base| base.len());
    let bases = signatures(&head).unwrap().iter().map(base).collect::<Vec<_>>();
    bases.into_iter().map(|base| base.map_err(|fault| fault.to_string())).collect()
}

#[test]
fn all_bases_of_a_request_have_one_bound() {
    let labels = ["a", "b", "c", "d"];
    let members = (0..1000).map(|n| format!("k{n}")).collect::<Vec<_>>().join(",");
    let keys = |count: usize| (0..count).map(|n| format!("\"x\";key=\"k{n}\"")).collect::<Vec<_>>().join(" ");
    assert!(bases(&members, &keys(10), &labels).iter().all(Result::is_ok), "a field is parsed once");
    let many = bases(&members, &keys(32), &labels);
    assert!(many[0].is_ok());
    assert_eq!(many[3], Err("\"x\";key=\"k0\": the covered components are too long".to_owned()));
    let long = bases(&"x".repeat(20_000), "\"x\"", &labels);
    assert!(long[..3].iter().all(Result::is_ok));
    assert_eq!(long[3], Err("\"x\": the covered components are too long".to_owned()));
}

#[test]
fn an_absolute_target_isnt_the_one_that_was_signed() {
    let mut head = made("GET", "http://www.example/a", &[("Host", "www.example")]);
    assert!(crate::authority::rewrite_absolute(&mut head, false).unwrap());
    let fault = "\"@request-target\": was an absolute URL, which isn't kept";
    assert_eq!(lines(&head, false, "\"@request-target\""), Err(fault.to_owned()));
    assert_eq!(lines(&head, false, "\"@target-uri\""), Ok("\"@target-uri\": http://www.example/a".to_owned()));
    let mut copy = made("GET", "/", &[]);
    copy.copy_from(&head);
    assert!(lines(&copy, false, "\"@request-target\"").is_err());
    copy.clear();
    assert!(!copy.had_absolute_target());
}

proptest! {
    #[test]
    fn any_fields_have_a_base_or_a_reason(
        input in "([a-c]|=|\\(|\\)|\"@query-param\"|\"x\"|\"@path\"|;|key|sf|bs|name|,| |\"|:|\\?1){0,24}",
        value in proptest::collection::vec(any::<u8>(), 0..40),
        url in "/[a-c%&=?]{0,20}",
    ) {
        let mut head = made("GET", &url, &[("Host", "a")]);
        for (name, value) in [("Signature-Input", input.as_bytes()), ("Signature", b"a=:AA==:"), ("X", &value)] {
            head.append(name, value).unwrap();
        }
        let mut request = SignedRequest::new(&head, true);
        for signature in signatures(&head).unwrap_or_default() {
            let _ = (signature.base(&mut request), signature.agent(&mut request));
        }
    }

    #[test]
    fn any_values_of_a_field_stay_on_their_line(value in proptest::collection::vec(any::<u8>(), 0..40), how in "(;bs)?") {
        let mut head = made("GET", "/", &[]);
        head.append("X", &value).unwrap();
        if let Ok(base) = base(&head, true, &format!("(\"x\"{how})")) {
            prop_assert_eq!(base.lines().count(), 2);
        }
    }
}
