// SPDX-License-Identifier: BSD-2-Clause
//! Reads a configuration file: node statsd evaluates it as JavaScript, the Perl port reads JSON with comments. This takes
//! a superset of JSON5 (names without quotes, single quotes, comments, trailing commas, hexadecimal) with `#` comments,
//! and the few expressions that real files hold: `+` of texts and numbers, `||`, `process.env.NAME`, and
//! `require('os').hostname()` with `.split('.')[0]` and its like. Nothing is executed.

use std::fmt;

/// Objects and lists within each other; deeper is refused.
const DEPTH: usize = 64;
/// The longest file, in bytes.
pub const FILE_BYTES: usize = 1 << 20;

/// A value. Members keep their order; of two with one name the last counts.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptValue {
    /// `null`, `undefined`, or what isn't there.
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<ScriptValue>),
    Object(Vec<(String, ScriptValue)>),
}

impl ScriptValue {
    pub fn get(&self, name: &str) -> &ScriptValue {
        match self {
            ScriptValue::Object(members) => {
                members.iter().find(|(n, _)| n == name).map_or(&ScriptValue::Null, |(_, v)| v)
            }
            _ => &ScriptValue::Null,
        }
    }

    /// True if JavaScript takes it for true.
    pub fn truthy(&self) -> bool {
        match self {
            ScriptValue::Null => false,
            ScriptValue::Bool(b) => *b,
            ScriptValue::Number(n) => *n != 0.0 && !n.is_nan(),
            ScriptValue::Text(text) => !text.is_empty(),
            ScriptValue::List(_) | ScriptValue::Object(_) => true,
        }
    }

    /// The text of JavaScript's `String(value)`.
    pub fn show(&self) -> String {
        match self {
            ScriptValue::Null => "null".to_owned(),
            ScriptValue::Bool(b) => b.to_string(),
            ScriptValue::Number(n) => crate::number::show(*n),
            ScriptValue::Text(text) => text.clone(),
            ScriptValue::List(list) => {
                let items = list.iter().map(|v| if *v == ScriptValue::Null { String::new() } else { v.show() });
                items.collect::<Vec<_>>().join(",")
            }
            ScriptValue::Object(_) => "[object Object]".to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsdScriptError {
    pub line: usize,
    /// From 1, in bytes.
    pub column: usize,
    pub reason: String,
}

impl fmt::Display for StatsdScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}: {}", self.line, self.column, self.reason)
    }
}

impl std::error::Error for StatsdScriptError {}

/// Surroundings that a file may ask for.
pub trait ScriptWorld {
    fn host_name(&self) -> String;
    fn variable(&self, name: &str) -> Option<String>;
}

/// A file's value, and whether it had `#` comments (only the Perl port has them).
pub fn read(text: &str, world: &dyn ScriptWorld) -> Result<(ScriptValue, bool), StatsdScriptError> {
    let mut reader = Reader { text: text.as_bytes(), at: 0, depth: 0, hashes: false, world };
    if text.starts_with('\u{feff}') {
        reader.at = 3;
    }
    let value = reader.expression()?;
    reader.space()?;
    while reader.eat(b';') {
        reader.space()?;
    }
    match reader.peek() {
        None => Ok((value, reader.hashes)),
        Some(_) => Err(reader.error("something follows the configuration's end")),
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    hashes: bool,
    world: &'a dyn ScriptWorld,
}

type Read<T> = Result<T, StatsdScriptError>;

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, b: u8) -> bool {
        let there = self.peek() == Some(b);
        self.at += usize::from(there);
        there
    }

    fn eat_text(&mut self, text: &str) -> bool {
        let there = self.text[self.at..].starts_with(text.as_bytes());
        self.at += if there { text.len() } else { 0 };
        there
    }

    fn expect(&mut self, b: u8) -> Read<()> {
        self.space()?;
        if self.eat(b) { Ok(()) } else { Err(self.error(&format!("expected `{}`", b as char))) }
    }

    fn error(&self, reason: &str) -> StatsdScriptError {
        let before = &self.text[..self.at.min(self.text.len())];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
        let found = match self.peek() {
            None => " at the end of the file".to_owned(),
            Some(b) if b.is_ascii_graphic() => format!(", found `{}`", b as char),
            Some(_) => String::new(),
        };
        StatsdScriptError { line, column, reason: format!("{reason}{found}") }
    }

    /// White space and comments.
    fn space(&mut self) -> Read<()> {
        loop {
            match self.text.get(self.at..).unwrap_or_default() {
                [b' ' | b'\t' | b'\r' | b'\n' | 0xb | 0xc, ..] => self.at += 1,
                [0xc2, 0xa0, ..] => self.at += 2,
                [b'#', ..] => {
                    self.hashes = true;
                    self.skip_line();
                }
                [b'/', b'/', ..] => self.skip_line(),
                [b'/', b'*', rest @ ..] => match memchr::memmem::find(rest, b"*/") {
                    Some(end) => self.at += end + 4,
                    None => return Err(self.error("this comment has no end")),
                },
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    }

    /// `a + b || c`
    fn expression(&mut self) -> Read<ScriptValue> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.error("this is nested too deeply"));
        }
        let mut value = self.sum()?;
        loop {
            self.space()?;
            if !self.eat_text("||") {
                break;
            }
            let other = self.sum()?;
            if !value.truthy() {
                value = other;
            }
        }
        self.depth -= 1;
        Ok(value)
    }

    fn sum(&mut self) -> Read<ScriptValue> {
        let mut value = self.primary()?;
        loop {
            self.space()?;
            if !self.eat(b'+') {
                return Ok(value);
            }
            let other = self.primary()?;
            value = match (value, other) {
                (ScriptValue::Number(a), ScriptValue::Number(b)) => ScriptValue::Number(a + b),
                (a, b) => {
                    let text = a.show() + &b.show();
                    if text.len() > FILE_BYTES {
                        return Err(self.error("this text is too long"));
                    }
                    ScriptValue::Text(text)
                }
            };
        }
    }

    fn primary(&mut self) -> Read<ScriptValue> {
        self.space()?;
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.list(),
            Some(b'(') => {
                self.at += 1;
                let value = self.expression()?;
                self.expect(b')')?;
                Ok(value)
            }
            Some(quote @ (b'"' | b'\'' | b'`')) => Ok(ScriptValue::Text(self.quoted(quote)?)),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number(),
            Some(b) if is_name_start(b) => self.word(),
            _ => Err(self.error("expected a value")),
        }
    }

    fn object(&mut self) -> Read<ScriptValue> {
        self.at += 1;
        let mut members: Vec<(String, ScriptValue)> = Vec::new();
        loop {
            self.space()?;
            if self.eat(b'}') {
                return Ok(ScriptValue::Object(members));
            }
            let name = self.member_name()?;
            self.expect(b':')?;
            let value = self.expression()?;
            match members.iter_mut().find(|(n, _)| *n == name) {
                Some(member) => member.1 = value,
                None => members.push((name, value)),
            }
            self.space()?;
            if !self.eat(b',') && self.peek() != Some(b'}') {
                return Err(self.error("expected `,` or `}`"));
            }
        }
    }

    fn member_name(&mut self) -> Read<String> {
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote),
            Some(b) if is_name_start(b) => Ok(self.name()),
            Some(b'0'..=b'9') => Ok(self.number()?.show()),
            _ => Err(self.error("expected a name")),
        }
    }

    fn name(&mut self) -> String {
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|b| !is_name_start(*b) && !b.is_ascii_digit()).unwrap_or(rest.len());
        self.at += end;
        String::from_utf8_lossy(&rest[..end]).into_owned()
    }

    fn list(&mut self) -> Read<ScriptValue> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.space()?;
            if self.eat(b']') {
                return Ok(ScriptValue::List(items));
            }
            items.push(self.expression()?);
            self.space()?;
            if !self.eat(b',') && self.peek() != Some(b']') {
                return Err(self.error("expected `,` or `]`"));
            }
        }
    }

    fn number(&mut self) -> Read<ScriptValue> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        if negative || self.peek() == Some(b'+') {
            self.at += 1;
        }
        self.space()?;
        let from = self.at;
        let mut before = 0;
        while let Some(b) = self.peek() {
            // A sign belongs to the number after its exponent's letter only.
            let exponent_sign = matches!(b, b'+' | b'-') && matches!(before, b'e' | b'E') && !self.is_hex(from);
            if !b.is_ascii_alphanumeric() && b != b'.' && !exponent_sign {
                break;
            }
            before = b;
            self.at += 1;
        }
        match crate::number::parse(&self.text[from..self.at]) {
            Some(n) if self.at > from => Ok(ScriptValue::Number(if negative { -n } else { n })),
            _ => {
                self.at = start;
                Err(self.error("this is no number"))
            }
        }
    }

    fn is_hex(&self, from: usize) -> bool {
        matches!(self.text.get(from..from + 2), Some([b'0', b'x' | b'X']))
    }

    fn quoted(&mut self, quote: u8) -> Read<String> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.peek() {
                None => return Err(self.error("this text has no end")),
                Some(b'\n') if quote != b'`' => return Err(self.error("this text has no end on its line")),
                Some(b) if b == quote => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&out).into_owned());
                }
                Some(b'\\') => self.escape(&mut out)?,
                Some(b'$') if quote == b'`' && self.text.get(self.at + 1) == Some(&b'{') => {
                    return Err(self.error("`${...}` isn't understood here: write 'text' + value"));
                }
                Some(b) => {
                    out.push(b);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Read<()> {
        self.at += 1;
        let Some(b) = self.peek() else { return Err(self.error("this text has no end")) };
        self.at += 1;
        match b {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'v' => out.push(11),
            b'0' => out.push(0),
            b'\n' => {}
            b'x' => self.code(2, out)?,
            b'u' => self.code(4, out)?,
            other => out.push(other),
        }
        Ok(())
    }

    /// `\xHH`, `\uHHHH`; half of a surrogate pair becomes U+FFFD.
    fn code(&mut self, digits: usize, out: &mut Vec<u8>) -> Read<()> {
        let hex = self.text.get(self.at..self.at + digits).and_then(|hex| std::str::from_utf8(hex).ok());
        let code =
            hex.filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit())).and_then(|h| u32::from_str_radix(h, 16).ok());
        let Some(code) = code else { return Err(self.error("expected hexadecimal digits")) };
        self.at += digits;
        let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn word(&mut self) -> Read<ScriptValue> {
        let start = self.at;
        let name = self.name();
        match name.as_str() {
            "true" => Ok(ScriptValue::Bool(true)),
            "false" => Ok(ScriptValue::Bool(false)),
            "null" | "undefined" => Ok(ScriptValue::Null),
            "NaN" => Ok(ScriptValue::Number(f64::NAN)),
            "Infinity" => Ok(ScriptValue::Number(f64::INFINITY)),
            "require" => {
                if self.call_of_os()? {
                    let host = self.world.host_name();
                    return self.methods(host);
                }
                self.at = start;
                Err(self.error("only require('os').hostname() is understood, code isn't run"))
            }
            "process" if self.eat_text(".env.") => {
                let variable = self.name();
                match self.world.variable(&variable) {
                    Some(text) => self.methods(text),
                    None => Ok(ScriptValue::Null),
                }
            }
            _ => {
                self.at = start;
                Err(self.error(&format!("`{name}` isn't understood here: code isn't run")))
            }
        }
    }

    /// Parses the call `('os').hostname()`.
    fn call_of_os(&mut self) -> Read<bool> {
        self.space()?;
        let Some(argument) = self.arguments()? else { return Ok(false) };
        self.space()?;
        Ok(argument == ["os"] && self.eat(b'.') && self.eat_text("hostname") && self.arguments()? == Some(Vec::new()))
    }

    /// Parses arguments like `('a', 'b')`.
    fn arguments(&mut self) -> Read<Option<Vec<String>>> {
        if !self.eat(b'(') {
            return Ok(None);
        }
        let mut all = Vec::new();
        loop {
            self.space()?;
            match self.peek() {
                Some(b')') => {
                    self.at += 1;
                    return Ok(Some(all));
                }
                Some(b',') => self.at += 1,
                Some(quote @ (b'"' | b'\'')) => all.push(self.quoted(quote)?),
                _ => return Ok(None),
            }
        }
    }

    /// `.split('.')[0]` and the other ways to shorten a host's name.
    fn methods(&mut self, mut text: String) -> Read<ScriptValue> {
        loop {
            self.space()?;
            if !self.eat(b'.') {
                return Ok(ScriptValue::Text(text));
            }
            let at = self.at;
            let name = self.name();
            let arguments = self.arguments()?.unwrap_or_default();
            text = match (name.as_str(), arguments.as_slice()) {
                ("split", [by]) => self.split(&text, by)?,
                ("replace", [from, to]) => text.replacen(from.as_str(), to, 1),
                ("replaceAll", [from, to]) if !from.is_empty() => text.replace(from.as_str(), to),
                ("toLowerCase", []) => text.to_lowercase(),
                ("toUpperCase", []) => text.to_uppercase(),
                ("toString" | "trim", []) => text.trim().to_owned(),
                _ => {
                    self.at = at;
                    return Err(self.error("expected split('x')[N], replace('a', 'b'), toLowerCase() or toUpperCase()"));
                }
            };
        }
    }

    fn split(&mut self, text: &str, by: &str) -> Read<String> {
        let parts: Vec<&str> =
            if by.is_empty() { text.split_terminator("").skip(1).collect() } else { text.split(by).collect() };
        self.space()?;
        if self.eat(b'[') {
            let index = self.number()?;
            self.expect(b']')?;
            let ScriptValue::Number(index) = index else { return Ok(String::new()) };
            return Ok(parts.get(index as usize).copied().unwrap_or_default().to_owned());
        }
        if self.eat_text(".shift()") {
            return Ok(parts.first().copied().unwrap_or_default().to_owned());
        }
        if self.eat_text(".reverse()") {
            let reversed: Vec<&str> = parts.into_iter().rev().collect();
            return self.join(&reversed);
        }
        self.join(&parts)
    }

    fn join(&mut self, parts: &[&str]) -> Read<String> {
        if !self.eat_text(".join") {
            return Err(self.error("expected [N], .shift(), .join('x') or .reverse().join('x') after split"));
        }
        match self.arguments()?.as_deref() {
            Some([by]) => Ok(parts.join(by)),
            _ => Err(self.error("expected join('x')")),
        }
    }
}

fn is_name_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b == b'$' || b >= 0x80
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Position;

    impl ScriptWorld for Position {
        fn host_name(&self) -> String {
            "web1.example.com".to_owned()
        }

        fn variable(&self, name: &str) -> Option<String> {
            (name == "SET").then(|| "yes".to_owned())
        }
    }

    fn check(text: &str, expected: &str) {
        let got = match read(text, &Position) {
            Ok((value, _)) => plain(&value),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected, "{text}");
    }

    fn plain(value: &ScriptValue) -> String {
        match value {
            ScriptValue::Text(text) => format!("{text:?}"),
            ScriptValue::List(list) => format!("[{}]", list.iter().map(plain).collect::<Vec<_>>().join(" ")),
            ScriptValue::Object(all) => {
                format!("{{{}}}", all.iter().map(|(n, v)| format!("{n}:{}", plain(v))).collect::<Vec<_>>().join(" "))
            }
            other => other.show(),
        }
    }

    #[test]
    fn both_originals_files() {
        check(
            "{ graphitePort: 2003\n, graphiteHost: \"graphite.localdomain\"\n, backends: [ \"./backends/graphite\" ]\n}\n",
            "{graphitePort:2003 graphiteHost:\"graphite.localdomain\" backends:[\"./backends/graphite\"]}",
        );
        check("{ \"log\" : { \"backend\" : \"stdout\", } }", "{log:{backend:\"stdout\"}}");
        check("# Perl\n{ 'a' : 1, # one\n // two\n /* three */ b: [1,2,], }", "{a:1 b:[1 2]}");
    }

    #[test]
    fn values() {
        check(
            "({a: -0x1F, b: .5, c: +1e3, d: null, e: Infinity, f: !0})",
            "line 1 column 54: expected a value, found `!`",
        );
        check("{a: -Infinity, b: --1}", "line 1 column 19: this is no number, found `-`");
        check(
            "{a: -0x1F, b: .5, c: +1e3, d: null, true: true, 5: undefined};",
            "{a:-31 b:0.5 c:1000 d:null true:true 5:null}",
        );
        check(r#"['a\'b', "\x41\u00e9\n", `c`]"#, r#"["a'b" "Aé\n" "c"]"#);
        check("{a: 1, a: 2}", "{a:2}");
        check("{a: 'x' + 1 + 'y', b: 1 + 2}", "{a:\"x1y\" b:3}");
    }

    #[test]
    fn expressions_of_real_files() {
        check("require('os').hostname().split('.')[0]", "\"web1\"");
        check("'a.' + require(\"os\").hostname().split('.').reverse().join('.')", "\"a.com.example.web1\"");
        check("require('os').hostname().replace('.', '_').toUpperCase()", "\"WEB1_EXAMPLE.COM\"");
        check("process.env.SET || 'no'", "\"yes\"");
        check("process.env.UNSET || 'no'", "\"no\"");
    }

    #[test]
    fn errors_name_the_place() {
        check("", "line 1 column 1: expected a value at the end of the file");
        check("{a: 1 b: 2}", "line 1 column 7: expected `,` or `}`, found `b`");
        check(
            "{\n  a: fs.readFileSync('x')}",
            "line 2 column 6: `fs` isn't understood here: code isn't run, found `f`",
        );
        check(
            "{a: require('fs')}",
            "line 1 column 5: only require('os').hostname() is understood, code isn't run, found `r`",
        );
        check("{} x", "line 1 column 4: something follows the configuration's end, found `x`");
        check(&"[".repeat(100), "line 1 column 65: this is nested too deeply, found `[`");
        check("/* x", "line 1 column 1: this comment has no end, found `/`");
        check("'x\n'", "line 1 column 3: this text has no end on its line");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_text_is_read_or_refused(text in "(\\PC|[{}\\[\\]:,'\"+|/*#\n. ]|require|process\\.env\\.|split|\\('os'\\)|\\.hostname\\(\\)|0x|1e){0,60}") {
            let _ = read(&text, &Position);
        }
    }
}
