// SPDX-License-Identifier: BSD-2-Clause
//! Fields of caching as the model reads them: directives (RFC 9111 5.2), targeted ones (RFC 9213 2.1), dates (RFC 9110 5.6.7).
//! Written apart from `message`, which it is to judge: slow, and one step after the other.

pub(super) type Fields = Vec<(String, String)>;

pub(super) fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// All values of a field, joined as RFC 9110 5.3 does.
pub(super) fn joined(fields: &[(String, String)], name: &str) -> Option<String> {
    let lines = fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let lines: Vec<&str> = lines.map(|(_, value)| value.as_str()).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

pub(super) fn remove(fields: &mut Fields, name: &str) {
    fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
}

/// Directives by their names, in lower case, each with its argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directives(Vec<(String, Option<String>)>);

impl Directives {
    /// `Cache-Control: a, b=1, c="x, y"`
    pub fn parse(text: &str) -> Self {
        let mut all = Vec::new();
        for member in members(text) {
            let (name, argument) = match member.split_once('=') {
                Some((name, argument)) => (name.trim(), Some(argument.trim().trim_matches('"').to_owned())),
                None => (member.as_str(), None),
            };
            all.push((name.to_ascii_lowercase(), argument));
        }
        Directives(all)
    }

    /// A targeted field: a dictionary whose members are names, or names with a whole number. `None`: it is none, or empty.
    pub fn parse_targeted(text: &str) -> Option<Self> {
        let is_name = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_lowercase())
                && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        let mut all = Vec::new();
        for member in text.split(',') {
            let member = member.trim();
            let (name, argument) = member.split_once('=').map_or((member, None), |(name, value)| (name, Some(value)));
            let is_number = argument.is_none_or(|value| !value.is_empty() && value.chars().all(|c| c.is_ascii_digit()));
            if !is_name(name) || !is_number {
                return None;
            }
            // Of members with one name the last counts (RFC 9651 4.2.2).
            all.retain(|(other, _)| other != name);
            all.push((name.to_owned(), argument.map(str::to_owned)));
        }
        Some(Directives(all))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    /// Without an argument, or with an empty one.
    pub fn has_whole(&self, name: &str) -> bool {
        self.0.iter().any(|(other, argument)| other == name && argument.as_deref().is_none_or(str::is_empty))
    }

    pub fn names(&self, name: &str) -> Vec<String> {
        if self.has_whole(name) {
            return Vec::new();
        }
        let arguments = self.0.iter().filter(|(other, _)| other == name).filter_map(|(_, argument)| argument.as_ref());
        arguments.flat_map(|text| text.split(',')).map(|text| text.trim().to_owned()).collect()
    }

    /// The seconds of the first such directive with an argument; what is no number is 0, as RFC 9111 4.2.1 encourages.
    pub fn seconds(&self, name: &str) -> Option<f64> {
        self.argument(name).map(|text| seconds(text).unwrap_or(0.0))
    }

    /// The seconds of the first such directive that has any; without an argument it is as good as any number.
    pub fn strict_seconds(&self, name: &str) -> Option<f64> {
        let all = self.0.iter().filter(|(other, _)| other == name).map(|(_, argument)| argument.as_deref());
        all.flat_map(|argument| argument.map_or(Some(f64::INFINITY), seconds)).next()
    }

    fn argument(&self, name: &str) -> Option<&str> {
        self.0.iter().filter(|(other, _)| other == name).find_map(|(_, argument)| argument.as_deref())
    }
}

/// delta-seconds (RFC 9111 1.2.2).
pub(super) fn seconds(text: &str) -> Option<f64> {
    let is_number = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| text.parse::<f64>().unwrap_or(f64::MAX).min(2_147_483_648.0))
}

/// Members of a list; commas in quotes are theirs.
pub(super) fn members(text: &str) -> Vec<String> {
    let (mut all, mut member, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        if c == '"' {
            is_quoted = !is_quoted;
        }
        if c == ',' && !is_quoted {
            all.push(std::mem::take(&mut member));
        } else {
            member.push(c);
        }
    }
    all.push(member);
    all.iter().map(|member| member.trim().to_owned()).filter(|member| !member.is_empty()).collect()
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

fn days_in(year: i64, month: usize) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        1 => 28 + i64::from(is_leap),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

pub(super) fn date(time: i64) -> String {
    let (mut days, second) = (time.div_euclid(86_400), time.rem_euclid(86_400));
    let weekday = DAYS[days.rem_euclid(7) as usize];
    let (mut year, mut month) = (1970, 0);
    while days >= days_in(year, month) {
        days -= days_in(year, month);
        month += 1;
        if month == 12 {
            (year, month) = (year + 1, 0);
        }
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT", days + 1, MONTHS[month])
}

pub(super) fn parse_date(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split([' ', ':']).collect();
    let [_, day, month, year, hour, minute, second, "GMT"] = words[..] else { return None };
    let number = |text: &str| text.parse::<i64>().ok();
    let (year, month) = (number(year)?, MONTHS.iter().position(|name| *name == month)?);
    let mut days = number(day)? - 1;
    days += (1970..year).flat_map(|year| (0..12).map(move |month| days_in(year, month))).sum::<i64>();
    days += (0..month).map(|month| days_in(year, month)).sum::<i64>();
    Some(((days * 24 + number(hour)?) * 60 + number(minute)?) * 60 + number(second)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_they_are_written() {
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        for time in [0, 951_782_400, 999_999_999, 1_000_000_000, 4_102_444_799] {
            assert_eq!(parse_date(&date(time)), Some(time));
        }
        assert_eq!(parse_date("0"), None);
    }

    #[test]
    fn directives_and_their_arguments() {
        let all = Directives::parse("Max-Age=\"10\", no-cache=\"a, b\",, x , max-age=5");
        assert_eq!((all.seconds("max-age"), all.seconds("s-maxage")), (Some(10.0), None));
        assert_eq!(all.names("no-cache"), ["a", "b"]);
        assert!(!all.has_whole("no-cache") && all.has_whole("x"));
        assert_eq!(Directives::parse("max-age=1.5").seconds("max-age"), Some(0.0));
        assert_eq!(Directives::parse_targeted("max-age=1, &&"), None);
        assert_eq!(Directives::parse_targeted(""), None);
        assert_eq!(Directives::parse_targeted("a=1, no-store, a=2").unwrap().seconds("a"), Some(2.0));
    }
}
