// SPDX-License-Identifier: BSD-2-Clause
//! Options, and two servers whose responses are known.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

fn options(words: &str) -> Result<CompareOptions, String> {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    parse_compare(&words).map(|options| options.expect("no help"))
}

#[test]
fn words() {
    let parsed = options("a:1 b:2 x.log --rate 5 --header X-Origin --host a.org --time 9s").expect("options");
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        parsed.names,
        parsed.headers,
        parsed.host,
        (parsed.rate, parsed.count, parsed.time)
    );
    assert_eq!(shown, "[\"a:1\", \"b:2\"] [\"X-Origin\"] Some(\"a.org\") (5, 1000, 9s)");
    for (words, error) in [
        ("a:1", "--compare wants the old server's address, ours, and a log or a list of URLs"),
        ("a:1 b:2", "which log or list of URLs?"),
        ("a b c --rate 0", "--rate 0: not a number from 1 to 1000"),
        ("a b c --header x:y", "--header x:y: the name of a header is wanted"),
    ] {
        assert_eq!(options(words).map(|_| ()), Err(error.to_owned()));
    }
    for (text, address, is_tls) in [
        ("http://127.0.0.1/", "127.0.0.1:80", false),
        ("https://127.0.0.1", "127.0.0.1:443", true),
        ("https://[::1]:8443/", "[::1]:8443", true),
        ("127.0.0.1:443", "127.0.0.1:443", false),
    ] {
        let server = ComparedServer::of(text).expect("an address");
        assert_eq!((server.address.to_string().as_str(), server.tls.is_some()), (address, is_tls), "{text}");
    }
}

#[test]
fn requests_of_a_log() {
    let dir = std::env::temp_dir().join(format!("lacquer-compare-{}", std::process::id()));
    let log = "192.0.2.1 - - [10/Oct/2020:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 5\n192.0.2.1 - - [10/Oct/2020:13:55:36 +0000] \"POST /b HTTP/1.1\" 200 5\n\
               192.0.2.1 - - [10/Oct/2020:13:55:37 +0000] \"GET /a HTTP/1.1\" 200 5\nhttps://b.org/c?d\nnonsense\n";
    std::fs::write(&dir, log).expect("a temporary file");
    let requests = read(&options(&format!("127.0.0.1:9 b:2 {} --host a.org", dir.display())).expect("options"));
    std::fs::remove_file(&dir).expect("it is there");
    let shown: Vec<String> =
        requests.all.iter().map(|r| format!("{} {}{} {}", r.method(), r.host, r.target, r.is_tls)).collect();
    assert_eq!(shown, ["GET a.org/a false", "GET b.org/c?d true"]);
    assert_eq!(requests.skipped, 2);
}

/// A server that sends a response for each connection, by the path in the request.
fn server(count: usize, respond: fn(&str, usize) -> String) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let thread = std::thread::spawn(move || {
        for number in 0..count {
            let (mut socket, _) = listener.accept().expect("a client");
            let mut line = String::new();
            let mut from = BufReader::new(socket.try_clone().expect("a copy"));
            from.read_line(&mut line).expect("a request");
            let mut rest = String::new();
            while from.read_line(&mut rest).is_ok_and(|read| read > 2) {}
            let path = line.split(' ').nth(1).unwrap_or_default();
            socket.write_all(respond(path, number).as_bytes()).expect("a client that reads");
        }
    });
    (address, thread)
}

fn long(letter: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n{}", letter.repeat(3_000_000))
}

#[test]
fn two_servers() {
    let of = |target: &str| ComparedRequest {
        is_head: false,
        host: "a".to_owned(),
        target: target.to_owned(),
        is_tls: false,
    };
    let requests = [of("/same"), of("/moved"), of("/hit"), of("/broken"), of("/long")];
    let old = |path: &str, _| match path {
        "/long" => long("x"),
        "/moved" => "HTTP/1.1 301 M\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "/hit" => "HTTP/1.1 200 OK\r\nX-Cache: HIT\r\nContent-Length: 1\r\n\r\nx".to_owned(),
        _ => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".to_owned(),
    };
    let new = |path: &str, _| match path {
        "/long" => long("y"),
        "/moved" => "HTTP/1.1 302 M\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "/hit" => "HTTP/1.1 200 OK\r\nX-Varnish: 3\r\nContent-Length: 1\r\n\r\nx".to_owned(),
        "/broken" => "SSH-2.0\r\n\r\n".to_owned(),
        _ => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".to_owned(),
    };
    let ((old, first), (new, second)) = (server(10, old), server(10, new));
    let options = options(&format!("{old} {new} none --rate 1000")).expect("options");
    let servers = [old, new].map(|address| ComparedServer { address, tls: None });
    let comparison = compare(&options, &servers, &requests);
    [first, second].into_iter().for_each(|thread| thread.join().expect("no panic"));
    let found = Requests { all: requests.to_vec(), ..Requests::default() };
    let text = comparison.text(&found);
    let begins = [
        "GET a/moved: status: 301 / 302".to_owned(),
        "GET a/moved: Location: /x / /y".to_owned(),
        "GET a/hit: second response: hit / no hit".to_owned(),
        "GET a/long: body: 3000000 bytes, ".to_owned(),
        format!("GET a/broken: no response: {new}: an answer that is no HTTP/1"),
        "4 of 5 requests compared: 3 differ, 1 without a response; for 1 both servers tell hits".to_owned(),
    ];
    assert!(
        text.lines().count() == 6 && text.lines().zip(begins).all(|(line, begin)| line.starts_with(&begin)),
        "{text}"
    );
    assert_eq!(comparison.json(&found)["differing"][1]["differences"][0]["new"], "no hit");
}
