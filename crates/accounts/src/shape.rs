// SPDX-License-Identifier: BSD-2-Clause
//! The shape of a request: which of the header fields it has that a browser adds in the course of a visit. Nothing is assumed of a shape. Its
//! newcomers show whether it is one of readers, so a crawler that copies it makes it one of crawlers.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    #[default]
    Unnamed,
    Own,
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub referer: Origin,
    pub has_cookie: bool,
    pub has_language: bool,
    /// A field of Fetch Metadata (`Sec-Fetch-Site` and the like).
    pub has_metadata: bool,
}

impl Shape {
    pub(crate) const COUNT: usize = 24;

    pub(crate) fn index(self) -> usize {
        let flags = [self.has_cookie, self.has_language, self.has_metadata];
        flags.into_iter().fold(self.referer as usize, |index, flag| index * 2 + usize::from(flag))
    }
}

/// An object that is asked for, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// A number that stands for the object, such as the first bytes of its digest.
    pub object: u64,
    pub shape: Shape,
}

impl From<u64> for Ask {
    fn from(object: u64) -> Self {
        Ask { object, shape: Shape::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_has_a_number_of_its_own() {
        let bits = [false, true];
        let mut seen = [false; Shape::COUNT];
        for referer in [Origin::Unnamed, Origin::Own, Origin::Other] {
            for (has_cookie, has_language, has_metadata) in
                bits.into_iter().flat_map(|a| bits.into_iter().flat_map(move |b| bits.map(|c| (a, b, c))))
            {
                let index = Shape { referer, has_cookie, has_language, has_metadata }.index();
                assert!(!std::mem::replace(&mut seen[index], true), "{index}");
            }
        }
        assert!(seen.iter().all(|seen| *seen));
    }
}
