// SPDX-License-Identifier: BSD-2-Clause
//! The static table (RFC 7541 Appendix A), and which of its names a field has.

use message::chars::is_name;

/// The index of the first entry that isn't static.
pub const FIRST_DYNAMIC: u64 = FIELDS.len() as u64 + 1;

const FIELDS: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The static entry of this index, which counts from 1.
#[inline]
pub fn static_field(index: u64) -> Option<(&'static [u8], &'static [u8])> {
    let at = usize::try_from(index.checked_sub(1)?).ok()?;
    FIELDS.get(at).map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

/// Places of the hash table: enough that most names are found or missed at the first look.
const PLACES: usize = 256;

/// For each place the index of an entry, 0 for none. The first of several entries with one name.
static BY_NAME: [u8; PLACES] = {
    let (mut table, mut i) = ([0; PLACES], 0);
    while i < FIELDS.len() {
        let name = FIELDS[i].0.as_bytes();
        let is_first = i == 0 || !same(name, FIELDS[i - 1].0.as_bytes());
        if is_first {
            let mut place = place_of(name);
            while table[place] != 0 {
                place = (place + 1) % PLACES;
            }
            table[place] = i as u8 + 1;
        }
        i += 1;
    }
    table
};

const fn same(a: &[u8], b: &[u8]) -> bool {
    let (mut same, mut i) = (a.len() == b.len(), 0);
    while same && i < a.len() {
        same = a[i] == b[i];
        i += 1;
    }
    same
}

/// Hash by length, first, middle and last letter in any case.
#[inline]
const fn place_of(name: &[u8]) -> usize {
    let (first, middle, last) = (name[0] | 0x20, name[name.len() / 2] | 0x20, name[name.len() - 1] | 0x20);
    (name.len() * 7 + first as usize * 5 + middle as usize * 31 + last as usize * 3) % PLACES
}

/// The index of the first static entry with this name, in any case; 0 when there is none.
#[inline]
pub fn name_index(name: &[u8]) -> u8 {
    if name.is_empty() {
        return 0;
    }
    let mut place = place_of(name);
    while BY_NAME[place] != 0 {
        let index = BY_NAME[place];
        if is_name(name, FIELDS[usize::from(index) - 1].0.as_bytes()) {
            return index;
        }
        place = (place + 1) % PLACES;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_indices() {
        assert_eq!(static_field(1), Some((&b":authority"[..], &b""[..])));
        assert_eq!(static_field(61), Some((&b"www-authenticate"[..], &b""[..])));
        assert_eq!((static_field(0), static_field(62)), (None, None));
        for (i, (name, _)) in FIELDS.iter().enumerate() {
            let first = FIELDS.iter().position(|(other, _)| other == name).unwrap();
            assert_eq!(usize::from(name_index(name.as_bytes())), first + 1, "{name} at {i}");
            assert_eq!(usize::from(name_index(name.to_ascii_uppercase().as_bytes())), first + 1, "{name}");
        }
        for unknown in ["", "x", "x-varnish", "hosts", "Agf"] {
            assert_eq!(name_index(unknown.as_bytes()), 0, "{unknown}");
        }
        // A search always ends.
        assert!(BY_NAME.contains(&0));
    }
}
