// SPDX-License-Identifier: BSD-2-Clause
//! Command lines, right and wrong.

use super::*;

fn check(line: &str, want: &str) {
    let args: Vec<String> = line.split('|').map(str::to_owned).filter(|w| !w.is_empty()).collect();
    let got = match parse(&args) {
        Err(error) => error,
        Ok(None) => "help".into(),
        Ok(Some(ReplayInvocation::Serve(serve))) => format!("serve {}", serve.address),
        Ok(Some(ReplayInvocation::Compare(names, format))) => format!("compare {} {format:?}", names.join(" ")),
        Ok(Some(ReplayInvocation::Run(o))) => format!("{:?} {} {:?}", o.pace, o.connections, o.plan.sources.files),
    };
    assert_eq!(got, want, "{line}");
}

#[test]
fn words() {
    let to = "--to|127.0.0.1:80";
    check(&format!("{to}|a"), r#"Closed { from: 0, to: 0 } 10 ["a"]"#);
    check(&format!("{to}|-|--think=1s-1500ms|-c|3"), r#"Closed { from: 1000000000, to: 1500000000 } 3 ["-"]"#);
    check(&format!("{to}|a|--rate|5|--random-gaps"), r#"Rate { rate: 5.0, is_random: true } 1000 ["a"]"#);
    check(&format!("{to}|--speed|2x|--|-a"), r#"Log { speed: 2.0 } 1000 ["-a"]"#);
    check("--help", "help");
    check("--compare|a|b|--format=json", "compare a b Json");
    check("--compare|a|b|c", "compare a b c Text");
    check("--compare|a", "--compare needs two reports or more");
    check(&format!("--compare{}", "|a".repeat(27)), "--compare: 27 reports; at most 26");
    check("", "no source (--help shows the usage)");
    check("a", "where to? --to, --map or --each-host");
    check(&format!("{to}|a|--rate|5|--speed|2"), "--rate or --speed, not both");
    check(&format!("{to}|a|--rate|0"), "--rate 0: not a number above 0");
    check(&format!("{to}|a|--loop"), "--loop without an end: give --duration or --requests");
    check(&format!("{to}|-|--loop|-d|1"), "standard input can't be read again (--loop)");
    check(&format!("{to}|a|--quiet=x"), "--quiet takes no value");
    check(&format!("{to}|a|--nope"), "no option --nope (--help shows the usage)");
    check(&format!("{to}|a|--http3"), "--http3 is spoken by TLS alone: --to https://HOST, --map HOST=https://HOST");
    check("--to|https://127.0.0.1|--no-verify|--http3|a", r#"Closed { from: 0, to: 0 } 10 ["a"]"#);
    check("--to|https://127.0.0.1|--http2|--http3|a", "--http2 or --http3, not both");
    check(&format!("{to}|a|-d"), "-d needs a value");
    check(&format!("{to}|a|-H|x y: z"), "-H x y: z: not understood (--help shows the usage)");
    check("--map|a|x", "--map a: HOST=ADDRESS");
    check("--to|https://127.0.0.1|--no-verify|a", r#"Closed { from: 0, to: 0 } 10 ["a"]"#);
    check(
        &format!("{to}|a|--no-verify"),
        "--sni, --ca, --no-verify and --no-resume are for TLS: --to https://HOST, --map or --each-host",
    );
    check("--to|https://127.0.0.1|--ca|/nonexistent|a", "--ca /nonexistent: No such file or directory");
    check("--to|https://127.0.0.1|--ca|/dev/null|--no-verify|a", "--no-verify or --ca, not both");
}
