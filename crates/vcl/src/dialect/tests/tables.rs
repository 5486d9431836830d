// SPDX-License-Identifier: BSD-2-Clause
//! Tests of the objects usable in each subroutine and the actions it may return: two tables per dialect, written by
//! hand after the well-known ones. A `k` marks cells where a dialect is read more tolerantly than by its own compiler.

use super::*;

const SUBS: [&str; 9] =
    ["vcl_recv", "vcl_pipe", "vcl_pass", "vcl_hash", "vcl_miss", "vcl_hit", "vcl_fetch", "vcl_deliver", "vcl_error"];

/// An object, one of its variables to read, and one to set (empty if none can be set).
const OBJECTS: [(&str, &str, &str); 7] = [
    ("client", "client.ip", ""),
    ("server", "server.ip", ""),
    ("req", "req.url", "req.http.x"),
    ("bereq", "bereq.url", "bereq.http.x"),
    ("beresp", "beresp.http.x", "beresp.http.x"),
    ("obj", "obj.http.x", "obj.http.x"),
    ("resp", "resp.http.x", "resp.http.x"),
];

/// The rows of a table: a name, and a letter per column.
fn rows(table: &str) -> Vec<(&str, Vec<char>)> {
    let rows = table.lines().map(str::trim).filter(|line| !line.is_empty());
    rows.map(|line| {
        let mut words = line.split_whitespace();
        (words.next().unwrap(), words.map(|w| w.chars().next().unwrap()).collect())
    })
    .collect()
}

fn said(dialect: Dialect, sub: &str, statement: &str) -> Result<Migration, String> {
    made(&format!("{BACKEND}sub {sub} {{\n  {statement}\n}}\n"), Some(dialect))
}

/// Checks each cell: the result of reading (or setting) an object in a subroutine.
#[track_caller]
fn objects(dialect: Dialect, set: bool, table: &str) {
    let table = rows(table);
    assert_eq!(table.iter().map(|(name, _)| *name).collect::<Vec<_>>(), SUBS);
    for (sub, cells) in table {
        assert_eq!(cells.len(), OBJECTS.len());
        for ((name, read, write), cell) in OBJECTS.into_iter().zip(cells) {
            let statement = match (set, write) {
                (true, "") => continue,
                (true, _) => format!("set {write} = \"y\";"),
                (false, _) => format!("set req.http.q = {read};"),
            };
            let place = format!("{} {sub}: {statement}", dialect.name());
            match (cell, said(dialect, sub, &statement)) {
                ('x' | 'k', Err(reason)) => panic!("{place}: {reason}"),
                ('x' | 'k', Ok(_)) => {
                    let vcl = format!("{BACKEND}sub {sub} {{\n  {statement}\n}}\n");
                    compiles(&vcl, Some(dialect));
                }
                (_, Ok(_)) => panic!("{place}: is accepted"),
                (_, Err(reason)) => {
                    assert!(reason.contains("('old.vcl' Line 3 Pos "), "{place}: {reason}");
                    assert!(reason.contains(name), "{place}: {reason}");
                }
            }
        }
    }
}

#[test]
fn table_1_which_object_is_read_where() {
    //             client server req bereq beresp obj resp
    let v20 = "
        vcl_recv    x      x      x   -     -      -   -
        vcl_pipe    x      x      x   x     -      -   -
        vcl_pass    x      x      x   x     -      -   -
        vcl_hash    x      x      x   -     -      -   -
        vcl_miss    x      x      x   x     -      -   -
        vcl_hit     x      x      x   -     -      x   -
        vcl_fetch   x      x      x   x     k      x   -
        vcl_deliver x      x      k   -     -      -   x
        vcl_error   x      x      x   -     -      x   -";
    objects(Dialect::V20, false, v20);
    let v21 = "
        vcl_recv    x      x      x   -     -      -   -
        vcl_pipe    x      x      x   x     -      -   -
        vcl_pass    x      x      x   x     -      -   -
        vcl_hash    x      x      x   -     -      -   -
        vcl_miss    x      x      x   x     -      -   -
        vcl_hit     x      x      x   -     -      x   -
        vcl_fetch   x      x      x   x     x      k   -
        vcl_deliver x      x      x   -     -      -   x
        vcl_error   x      x      x   -     -      x   -";
    objects(Dialect::V21, false, v21);
    let v30 = "
        vcl_recv    x      x      x   -     -      -   -
        vcl_pipe    x      x      x   x     -      -   -
        vcl_pass    x      x      x   x     -      -   -
        vcl_hash    x      x      x   -     -      -   -
        vcl_miss    x      x      x   x     -      -   -
        vcl_hit     x      x      x   -     -      x   -
        vcl_fetch   x      x      x   x     x      -   -
        vcl_deliver x      x      x   -     -      -   x
        vcl_error   x      x      x   -     -      x   -";
    objects(Dialect::V30, false, v30);
}

#[test]
fn table_1_which_object_is_set_where() {
    //             client server req bereq beresp obj resp
    let v20 = "
        vcl_recv    -      -      x   -     -      -   -
        vcl_pipe    -      -      x   x     -      -   -
        vcl_pass    -      -      x   x     -      -   -
        vcl_hash    -      -      x   -     -      -   -
        vcl_miss    -      -      x   x     -      -   -
        vcl_hit     -      -      x   -     -      -   -
        vcl_fetch   -      -      x   x     k      x   -
        vcl_deliver -      -      k   -     -      -   x
        vcl_error   -      -      x   -     -      x   -";
    objects(Dialect::V20, true, v20);
    let v21 = "
        vcl_recv    -      -      x   -     -      -   -
        vcl_pipe    -      -      x   x     -      -   -
        vcl_pass    -      -      x   x     -      -   -
        vcl_hash    -      -      x   -     -      -   -
        vcl_miss    -      -      x   x     -      -   -
        vcl_hit     -      -      x   -     -      -   -
        vcl_fetch   -      -      x   x     x      k   -
        vcl_deliver -      -      x   -     -      -   x
        vcl_error   -      -      x   -     -      x   -";
    objects(Dialect::V21, true, v21);
    let v30 = "
        vcl_recv    -      -      x   -     -      -   -
        vcl_pipe    -      -      x   x     -      -   -
        vcl_pass    -      -      x   x     -      -   -
        vcl_hash    -      -      x   -     -      -   -
        vcl_miss    -      -      x   x     -      -   -
        vcl_hit     -      -      x   -     -      -   -
        vcl_fetch   -      -      x   x     x      -   -
        vcl_deliver -      -      x   -     -      -   x
        vcl_error   -      -      x   -     -      x   -";
    objects(Dialect::V30, true, v30);
    for sub in SUBS {
        let reason = said(Dialect::V30, sub, "set client.ip = \"127.0.0.1\";").unwrap_err();
        assert!(reason.starts_with("client.ip can't be set.\n"), "{sub}: {reason}");
    }
}

#[test]
fn a_wrong_place_is_told_with_the_right_ones() {
    let says = |dialect, sub, statement, text: &str| {
        let reason = said(dialect, sub, statement).unwrap_err();
        assert!(reason.starts_with(text), "{reason}");
    };
    says(
        Dialect::V30,
        "vcl_recv",
        "set bereq.url = \"/\";",
        "bereq.url can't be set in vcl_recv; it can in vcl_pipe, vcl_pass, vcl_miss, vcl_fetch.\n",
    );
    says(
        Dialect::V30,
        "vcl_deliver",
        "set req.http.q = beresp.status;",
        "beresp.status can't be read in vcl_deliver; it can in vcl_fetch.\n",
    );
    says(
        Dialect::V20,
        "vcl_recv",
        "set req.http.q = obj.http.x;",
        "obj.http can't be read in vcl_recv; it can in vcl_hit, vcl_fetch, vcl_error.\n",
    );
    says(
        Dialect::V21,
        "vcl_recv",
        "set resp.status = 200;",
        "resp.status can't be set in vcl_recv; it can in vcl_deliver.\n",
    );
    says(
        Dialect::V30,
        "vcl_fetch",
        "set obj.ttl = 1h;",
        "obj.ttl can't be set in vcl_fetch; it can in vcl_hit, vcl_error.\nThe response in vcl_fetch is beresp since 2.1.\n",
    );
}

const WORDS: [&str; 12] =
    ["pass", "lookup", "error", "restart", "deliver", "fetch", "pipe", "hit_for_pass", "hash", "discard", "keep", "ok"];

/// Checks each cell: whether a subroutine may return a word. A refusal lists the allowed words.
#[track_caller]
fn returns(dialect: Dialect, table: &str) {
    let table = rows(table);
    assert_eq!(table.iter().map(|(name, _)| *name).collect::<Vec<_>>(), SUBS);
    for (sub, cells) in table {
        assert_eq!(cells.len(), WORDS.len());
        let mut legal: Vec<&str> =
            WORDS.into_iter().zip(&cells).filter(|(_, cell)| **cell == 'x').map(|(word, _)| word).collect();
        legal.sort_unstable();
        for (word, cell) in WORDS.into_iter().zip(cells) {
            let place = format!("{} {sub}: return ({word})", dialect.name());
            let statement = format!("return ({word});");
            match (cell, said(dialect, sub, &statement)) {
                ('x' | 'k', Err(reason)) => panic!("{place}: {reason}"),
                ('x' | 'k', Ok(_)) => {
                    compiles(&format!("{BACKEND}sub {sub} {{\n  {statement}\n}}\n"), Some(dialect));
                }
                (_, Ok(_)) => panic!("{place}: is accepted"),
                (cell, Err(reason)) => {
                    assert!(reason.contains("('old.vcl' Line 3 Pos 11)"), "{place}: {reason}");
                    if cell == '?' {
                        assert!(reason.starts_with("Expected return action name.\n"), "{place}: {reason}");
                        continue;
                    }
                    let list = reason.split("what it may return is: ").nth(1).and_then(|rest| rest.split(".\n").next());
                    let mut listed: Vec<&str> =
                        list.unwrap_or_else(|| panic!("{place}: {reason}")).split(", ").collect();
                    listed.sort_unstable();
                    assert_eq!(listed, legal, "{place}");
                }
            }
        }
    }
}

#[test]
fn table_2_what_may_be_returned() {
    //             pass lookup error restart deliver fetch pipe hit_for_pass hash discard keep ok
    let v20 = "
        vcl_recv    x    x      x     -       -       -     x    ?            -    -       -    -
        vcl_pipe    -    -      x     -       -       -     x    ?            -    -       -    -
        vcl_pass    x    -      x     x       -       -     -    ?            -    -       -    -
        vcl_hash    -    -      -     -       -       -     -    ?            x    -       -    -
        vcl_miss    x    -      x     x       -       x     -    ?            -    -       -    -
        vcl_hit     x    -      x     x       x       -     -    ?            -    -       -    -
        vcl_fetch   x    -      x     x       x       -     -    k            -    -       -    -
        vcl_deliver -    -      x     x       x       -     -    ?            -    -       -    -
        vcl_error   -    -      -     x       x       -     -    ?            -    -       -    -";
    returns(Dialect::V20, v20);
    returns(Dialect::V21, v20);
    let v30 = "
        vcl_recv    x    x      x     -       -       -     x    -            -    -       -    -
        vcl_pipe    -    -      x     -       -       -     x    -            -    -       -    -
        vcl_pass    x    -      x     x       -       -     -    -            -    -       -    -
        vcl_hash    -    -      -     -       -       -     -    -            x    -       -    -
        vcl_miss    x    -      x     x       -       x     -    -            -    -       -    -
        vcl_hit     x    -      x     x       x       -     -    -            -    -       -    -
        vcl_fetch   k    -      x     x       x       -     -    x            -    -       -    -
        vcl_deliver -    -      x     x       x       -     -    -            -    -       -    -
        vcl_error   -    -      -     x       x       -     -    -            -    -       -    -";
    returns(Dialect::V30, v30);
}

#[test]
fn bare_words_are_2_0_alone() {
    for (sub, word) in [("vcl_recv", "lookup"), ("vcl_recv", "pass"), ("vcl_fetch", "deliver"), ("vcl_miss", "fetch")] {
        let statement = format!("{word};");
        compiles(&format!("{BACKEND}sub {sub} {{ {statement} }}\n"), Some(Dialect::V20));
        for later in [Dialect::V21, Dialect::V30] {
            let reason = said(later, sub, &statement).unwrap_err();
            assert!(reason.contains(&format!("please change \"{word};\" to \"return ({word});\"")), "{reason}");
        }
    }
    let reason = said(Dialect::V20, "vcl_recv", "deliver;").unwrap_err();
    assert!(reason.contains("what it may return is: error, pass, pipe, lookup."), "{reason}");
}
