// SPDX-License-Identifier: BSD-2-Clause
//! Keys of objects in header fields, as vmod_xkey(3) reads them: words between blanks and commas, in any number of fields.

use crate::Head;

/// The fields that carry keys.
pub const FIELDS: [&str; 2] = ["xkey", "X-HashTwo"];

/// The keys in a field's value, or in what a purge names.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| matches!(b, b' ' | b'\t' | b',')).filter(|word| !word.is_empty())
}

/// The keys in a head.
pub fn keys(head: &Head) -> Vec<Box<[u8]>> {
    FIELDS.iter().flat_map(|name| head.get_all(name.as_bytes())).flat_map(words).map(Box::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_fields_in_any_case() {
        let mut head = Head::new();
        for (name, value) in
            [("xkey", "a  b,c"), ("XKEY", ",d, e \tf,"), ("X-HashTwo", "g"), ("Other", "h"), ("xkey", "")]
        {
            head.append(name, value).expect("room");
        }
        let keys = keys(&head);
        let keys: Vec<_> = keys.iter().map(|key| String::from_utf8_lossy(key)).collect();
        assert_eq!(keys, ["a", "b", "c", "d", "e", "f", "g"]);
    }
}
