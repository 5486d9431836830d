// SPDX-License-Identifier: BSD-2-Clause
//! Servers as an operator names them.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogServer {
    pub host: String,
    pub port: u16,
}

impl LogServer {
    /// `HOST`, `HOST:PORT`, `[::1]`, `[::1]:PORT`.
    pub(crate) fn parse(text: &str, port: u16) -> Option<LogServer> {
        let (host, rest) = match text.strip_prefix('[') {
            Some(text) => text.split_once(']').filter(|(host, _)| host.contains(':'))?,
            None => text.find(':').map_or((text, ""), |at| text.split_at(at)),
        };
        let port = match rest.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port != 0)?,
            None if rest.is_empty() => port,
            None => return None,
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        (!host.is_empty() && host.bytes().all(is_name)).then(|| LogServer { host: host.to_owned(), port })
    }
}

impl std::fmt::Display for LogServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let check = |text: &str, wanted: Option<&str>| {
            assert_eq!(LogServer::parse(text, 4222).map(|server| server.to_string()).as_deref(), wanted, "{text}");
        };
        check("a", Some("a:4222"));
        check("a.example:1", Some("a.example:1"));
        check("127.0.0.1", Some("127.0.0.1:4222"));
        check("[::1]", Some("[::1]:4222"));
        check("[::1]:7", Some("[::1]:7"));
        for bad in ["", ":1", "a:", "a:0", "a:70000", "::1", "[::1]7", "[a]", "a b", "a/b"] {
            check(bad, None);
        }
    }
}
