// SPDX-License-Identifier: BSD-2-Clause
//! Just enough JSON to read the case file.

use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Map(HashMap<String, Json>),
}

impl Json {
    pub fn parse(text: &str) -> Json {
        let mut chars = text.chars().peekable();
        value(&mut chars)
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        if let Json::Map(map) = self { map.get(key) } else { None }
    }

    pub fn text(&self) -> &str {
        if let Json::Text(text) = self { text } else { panic!("{self:?} is no string") }
    }

    pub fn list(&self) -> &[Json] {
        if let Json::List(list) = self { list } else { panic!("{self:?} is no list") }
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn blanks(chars: &mut Chars<'_>) {
    while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
}

fn value(chars: &mut Chars<'_>) -> Json {
    blanks(chars);
    match *chars.peek().expect("a value") {
        '"' => Json::Text(string(chars)),
        '{' => Json::Map(
            members(chars, '}', |chars| {
                blanks(chars);
                let key = string(chars);
                blanks(chars);
                assert_eq!(chars.next(), Some(':'));
                (key, value(chars))
            })
            .into_iter()
            .collect(),
        ),
        '[' => Json::List(members(chars, ']', value)),
        _ => {
            let mut word = String::new();
            while let Some(c) = chars.next_if(|c| !matches!(c, ',' | '}' | ']') && !c.is_ascii_whitespace()) {
                word.push(c);
            }
            match word.as_str() {
                "true" => Json::Bool(true),
                "false" => Json::Bool(false),
                "null" => Json::Null,
                number => Json::Number(number.parse().expect("a number")),
            }
        }
    }
}

fn members<T>(chars: &mut Chars<'_>, end: char, mut member: impl FnMut(&mut Chars<'_>) -> T) -> Vec<T> {
    chars.next();
    let mut all = Vec::new();
    loop {
        blanks(chars);
        match *chars.peek().expect("a member or the end") {
            ',' => drop(chars.next()),
            c if c == end => {
                chars.next();
                return all;
            }
            _ => all.push(member(chars)),
        }
    }
}

fn string(chars: &mut Chars<'_>) -> String {
    assert_eq!(chars.next(), Some('"'));
    let mut text = String::new();
    loop {
        match chars.next().expect("the end of a string") {
            '"' => return text,
            '\\' => text.push(match chars.next().expect("an escape") {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'u' => {
                    let hex: String = chars.by_ref().take(4).collect();
                    char::from_u32(u32::from_str_radix(&hex, 16).expect("hex")).expect("no surrogate in this file")
                }
                c => c,
            }),
            c => text.push(c),
        }
    }
}
