// SPDX-License-Identifier: BSD-2-Clause
//! The fields of a response that name its tags, as the parameter `tag_fields` lists them: names between blanks or commas, each with the
//! custom by which its values are taken apart, or with another one behind a `=`.

/// The fields of vmod_xkey(3).
pub const XKEY: &str = "xkey X-HashTwo";

/// Separators of tags in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Blanks or commas separate.
    Both,
    /// Blanks: a comma is part of a tag.
    Blanks,
    /// Commas, with blanks around them: one inside is part of a tag.
    Commas,
}

/// One field with tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagField<'a> {
    /// Name of the field.
    pub name: &'a str,
    /// Separators of its values.
    pub between: Between,
}

/// The custom of fields that others have made known.
const CUSTOMS: [(&str, Between); 3] =
    [("Surrogate-Key", Between::Blanks), ("Cache-Tag", Between::Commas), ("Edge-Cache-Tag", Between::Commas)];

impl<'a> TagField<'a> {
    fn of(word: &'a str) -> Option<TagField<'a>> {
        let (name, between) = match word.split_once('=') {
            Some((name, "blank")) => (name, Between::Blanks),
            Some((name, "comma")) => (name, Between::Commas),
            Some((name, "both")) => (name, Between::Both),
            Some(_) => return None,
            None => {
                let custom = CUSTOMS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
                (word, custom.map_or(Between::Both, |(_, between)| *between))
            }
        };
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        is_name.then_some(TagField { name, between })
    }
}

/// The fields that a text lists; `None` in the place of a word that names none.
pub fn listed(text: &str) -> impl Iterator<Item = Option<TagField<'_>>> {
    text.split([' ', '\t', ',']).filter(|word| !word.is_empty()).map(TagField::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_their_customs() {
        let field = |name, between| Some(TagField { name, between });
        let all: Vec<_> = listed("xkey, surrogate-key Cache-Tag,a=comma b=both c=blank d=e =comma a:b").collect();
        let expected = [
            field("xkey", Between::Both),
            field("surrogate-key", Between::Blanks),
            field("Cache-Tag", Between::Commas),
            field("a", Between::Commas),
            field("b", Between::Both),
            field("c", Between::Blanks),
            None,
            None,
            None,
        ];
        assert_eq!(all, expected);
        assert!(listed("").next().is_none());
    }
}
