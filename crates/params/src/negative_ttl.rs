// SPDX-License-Identifier: BSD-2-Clause
//! How long answers that say that something is wrong are kept, as the parameter `negative_ttl` lists it: `404:10s, 5xx:1s`.

#[derive(Clone, Copy, Debug, PartialEq)]
struct NegativeTtlEntry {
    /// Least and greatest status.
    statuses: (u16, u16),
    seconds: f64,
}

impl NegativeTtlEntry {
    fn of(word: &str) -> Option<NegativeTtlEntry> {
        let (status, time) = word.split_once(':')?;
        let statuses = match status.strip_suffix("xx") {
            Some(class) => {
                let hundred = class.parse::<u16>().ok().filter(|class| (4..=5).contains(class))? * 100;
                (hundred, hundred + 99)
            }
            None => {
                let status = status.parse::<u16>().ok().filter(|status| (400..=599).contains(status))?;
                (status, status)
            }
        };
        let seconds = match time.parse::<u32>() {
            Ok(seconds) => f64::from(seconds),
            Err(_) => base::text::parse_duration(time).filter(|seconds| *seconds >= 0.0 && *seconds < 1e9)?,
        };
        Some(NegativeTtlEntry { statuses, seconds })
    }
}

fn listed(text: &str) -> impl Iterator<Item = Option<NegativeTtlEntry>> {
    text.split([' ', '\t', ',']).filter(|word| !word.is_empty()).map(NegativeTtlEntry::of)
}

pub fn is_valid(text: &str) -> bool {
    listed(text).all(|entry| entry.is_some())
}

/// Seconds for that status; the first entry that it is in counts.
pub fn of(text: &str, status: u16) -> Option<f64> {
    let entry = listed(text).flatten().find(|entry| (entry.statuses.0..=entry.statuses.1).contains(&status));
    entry.map(|entry| entry.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_counts() {
        let text = "404:10s, 410:1h 5xx:0.5s,500:9,4xx:2";
        let times = [404, 410, 500, 599, 403, 200, 600].map(|status| of(text, status));
        assert_eq!(times, [Some(10.0), Some(3600.0), Some(0.5), Some(0.5), Some(2.0), None, None]);
        assert_eq!(of("", 404), None);
    }

    #[test]
    fn what_is_no_entry() {
        let texts =
            ["", "404:10s", "404", "404:", "404:x", "200:1s", "3xx:1s", "6xx:1s", "404:-1s", "404:10s;500:1s", "xx:1"];
        assert_eq!(texts.map(is_valid), [true, true, false, false, false, false, false, false, false, false, false]);
    }
}
