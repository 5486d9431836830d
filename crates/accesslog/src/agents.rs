// SPDX-License-Identifier: BSD-2-Clause
//! Which program a User-Agent field names: the browser, robot or library without its version.

use std::borrow::Cow;

/// Words that name a browser, in the order in which they count: each of them also says the names below.
const BROWSERS: [(&str, &str); 14] = [
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("EdgiOS/", "Edge"),
    ("Edge/", "Edge"),
    ("OPR/", "Opera"),
    ("Opera", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("MSIE ", "Internet Explorer"),
    ("Trident/", "Internet Explorer"),
    ("Safari/", "Safari"),
];

/// Parts of the names of robots, in small letters.
const ROBOTS: [&str; 8] =
    ["bot", "crawl", "spider", "slurp", "fetcher", "facebookexternalhit", "mediapartners", "preview"];

pub fn class(agent: &[u8]) -> Cow<'_, [u8]> {
    let text = String::from_utf8_lossy(agent);
    if let Some(robot) = robot(&text) {
        return Cow::Owned(robot.into_bytes());
    }
    let browser = BROWSERS.iter().find(|(word, _)| text.contains(word)).map(|(_, name)| *name);
    if let Some(name) = browser {
        let is_mobile = text.contains("Mobile") || text.contains("Android");
        return if is_mobile {
            Cow::Owned(format!("{name} (mobile)").into_bytes())
        } else {
            Cow::Borrowed(name.as_bytes())
        };
    }
    // `curl/7.88.1`, `python-requests/2.31`, `Go-http-client/1.1`
    let end = agent.iter().position(|b| matches!(b, b'/' | b' ' | b'(' | b';')).unwrap_or(agent.len());
    Cow::Borrowed(&agent[..end])
}

/// The word of it that is a robot's name, without its version. Robots say that they are browsers, too.
fn robot(text: &str) -> Option<String> {
    let words = text.split([' ', ';', '(', ')', ',', '+']).map(|word| word.split('/').next().unwrap_or(word));
    let is_robot = |word: &&str| {
        let small = word.to_ascii_lowercase();
        // A link says whose robot it is, not which one.
        !word.contains([':', '.', '@']) && ROBOTS.iter().any(|robot| small.contains(robot))
    };
    words.into_iter().find(is_robot).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        for (agent, name) in [
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
                "Chrome",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36 Edg/120.0",
                "Edge",
            ),
            ("Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0", "Firefox"),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1 Version/17.0 Mobile/15E148 Safari/604.1",
                "Safari (mobile)",
            ),
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", "Internet Explorer"),
            ("Mozilla/5.0 (Windows NT 6.1; Trident/7.0; rv:11.0) like Gecko", "Internet Explorer"),
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot"),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/103.0 Safari/537.36",
                "bingbot",
            ),
            ("Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)", "Slurp"),
            ("curl/7.88.1", "curl"),
            ("python-requests/2.31.0", "python-requests"),
            ("Opera/9.80 (Windows NT 6.1) Presto/2.12 Version/12.16", "Opera"),
            ("", ""),
            ("\u{fffd}\0", "\u{fffd}\0"),
        ] {
            assert_eq!(String::from_utf8_lossy(&class(agent.as_bytes())), name, "{agent}");
        }
    }
}
