// SPDX-License-Identifier: BSD-2-Clause
//! How urgent a response is (RFC 9218 4): the field `priority` and PRIORITY_UPDATE.

/// Priority parameters of RFC 9218.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 to 7, 0 first.
    pub urgency: u8,
    /// The client has use for a part of it.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Reads a dictionary (RFC 8941 3.2). What isn't known or out of its range is as if it weren't there.
    pub fn parse(field: &[u8]) -> Priority {
        let mut priority = Priority::default();
        for member in field.split(|&c| c == b',').map(<[u8]>::trim_ascii) {
            // Parameters of a member mean nothing here.
            let member = member.split(|&c| c == b';').next().unwrap_or_default().trim_ascii_end();
            match member {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries() {
        let check = |field: &str, urgency, incremental| {
            assert_eq!(Priority::parse(field.as_bytes()), Priority { urgency, incremental }, "{field}");
        };
        check("", 3, false);
        check("u=0", 0, false);
        check("u=7, i", 7, true);
        check("i=?1,u=5", 5, true);
        check("i;a=1 , u=2;b", 2, true);
        check("i, i=?0", 3, false);
        check("u=8", 3, false);
        check("u=-1,x=\"u=1\"", 3, false);
    }
}
