// SPDX-License-Identifier: BSD-2-Clause
//! vmod_basicauth(3) of vmod-basicauth: RFC 7617 against a file of Apache's htpasswd, which may change at any time: it is looked
//! at at each call, and read when it is another one ([`ParsedFiles`]). A password in a form that isn't known here (crypt's: DES, `$5$`, `$6$`) fails the transaction.

use md5::{Digest, Md5};
use sha1::Sha1;
use vrt::vmod::{BOOL, CallResult, VmodCall, give, wait};
use vrt::{Text, VclFailure};

use vmod_support::args::{fail, may_block};
use vmod_support::codec::ByteEncoding;
use vmod_support::files::ParsedFiles;

vrt::vmod! {
    /// Checks user names and passwords against a file of Apache's htpasswd
    pub(crate) static VMOD = basicauth;

    functions {
        /// Returns whether the value of an Authorization header has a user and password of the file (bcrypt, MD5, SHA-1 or
        /// plain)
        fn match(file: STRING, authorization: STRING) -> BOOL, local, blocks = matches;
    }
}

const MAX_BYTES: u64 = 16 << 20;

static FILES: ParsedFiles<Vec<u8>> = ParsedFiles::new(MAX_BYTES, Ok);

fn matches(call: &mut VmodCall<'_>, file: Option<&Text>, authorization: Option<&Text>) -> CallResult<BOOL> {
    let (Some(file), Some(field)) = (file, authorization) else { return give(false) };
    let Some((user, password)) = credentials(field) else { return give(false) };
    let name = file.lossy().into_owned();
    let known = move || judge(&name, &user, &password);
    if may_block(call.method) {
        return give(known()?);
    }
    wait(async { rt::blocking(known).await.map_err(rt::NoThread::text)? })
}

fn judge(file: &str, user: &[u8], password: &[u8]) -> Result<bool, VclFailure> {
    let text = match FILES.keep(file.as_ref()) {
        Ok(text) => text,
        Err(error) => return fail(format!("basicauth.match: {file}: {error}")),
    };
    match hash_of(&text, user).map(|hash| PasswordVerdict::of(hash, password)) {
        Some(PasswordVerdict::UnknownHash) => {
            let user = String::from_utf8_lossy(user);
            fail(format!("basicauth.match: {file}: {user}'s password is of crypt: make it with htpasswd -B or -m"))
        }
        verdict => Ok(verdict == Some(PasswordVerdict::Right)),
    }
}

/// User and password of `Basic ...`.
fn credentials(field: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = field.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let plain = ByteEncoding::parse("BASE64").decode(rest.trim_ascii(), None)?;
    let colon = plain.iter().position(|c| *c == b':')?;
    Some((plain[..colon].to_vec(), plain[colon + 1..].to_vec()))
}

/// The hash that the file has for a user: lines of `user:hash`.
fn hash_of<'t>(text: &'t [u8], user: &[u8]) -> Option<&'t [u8]> {
    let lines = text.split(|c| *c == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.starts_with(b"#"));
    let mut entries = lines.filter_map(|line| line.split_at_checked(line.iter().position(|c| *c == b':')?));
    let (_, hash) = entries.find(|(name, _)| *name == user)?;
    // A field more, as in /etc/passwd, isn't the hash's.
    hash[1..].split(|c| *c == b':').next()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PasswordVerdict {
    Right,
    Wrong,
    /// The hash is of a kind that isn't known, or damaged.
    UnknownHash,
}

impl PasswordVerdict {
    fn of(hash: &[u8], password: &[u8]) -> PasswordVerdict {
        let Ok(text) = std::str::from_utf8(hash) else { return PasswordVerdict::UnknownHash };
        if let Some(digest) = text.strip_prefix("{SHA}") {
            let encoded = ByteEncoding::parse("BASE64").encode(&Sha1::digest(password), false);
            return same(&encoded, digest.as_bytes()).into();
        }
        for magic in ["$apr1$", "$1$"] {
            if let Some(rest) = text.strip_prefix(magic) {
                let salt = rest.split('$').next().unwrap_or_default();
                let salt = &salt.as_bytes()[..salt.len().min(8)];
                return same(&md5_crypt(magic, salt, password), hash).into();
            }
        }
        if ["$2a$", "$2b$", "$2x$", "$2y$"].iter().any(|magic| text.starts_with(magic)) {
            return bcrypt::verify(password, text).map_or(PasswordVerdict::UnknownHash, PasswordVerdict::from);
        }
        let is_des = hash.len() == 13 && hash.iter().all(|c| c.is_ascii_alphanumeric() || b"./".contains(c));
        if text.starts_with('$') || text.starts_with('_') || is_des {
            return PasswordVerdict::UnknownHash;
        }
        same(password, hash).into()
    }
}

impl From<bool> for PasswordVerdict {
    fn from(is_right: bool) -> PasswordVerdict {
        if is_right { PasswordVerdict::Right } else { PasswordVerdict::Wrong }
    }
}

/// Compares in a time that tells nothing of where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// crypt(3)'s scheme with MD5, and Apache's, which differs in `magic`.
fn md5_crypt(magic: &str, salt: &[u8], password: &[u8]) -> Vec<u8> {
    let mut all = Md5::new();
    for part in [password, magic.as_bytes(), salt] {
        all.update(part);
    }
    let mut digest = Md5::new_with_prefix(password).chain_update(salt).chain_update(password).finalize();
    for at in (0..password.len()).step_by(16) {
        all.update(&digest[..(password.len() - at).min(16)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        all.update(if bits & 1 == 1 { &[0][..] } else { &password[..1] });
        bits >>= 1;
    }
    digest = all.finalize();
    for round in 0..1000 {
        let mut next = Md5::new();
        next.update(if round & 1 == 1 { password } else { &digest });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if round & 1 == 1 { &digest[..] } else { password });
        digest = next.finalize();
    }
    const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let mut out = [magic.as_bytes(), salt, b"$"].concat();
    for [a, b, c] in ORDER {
        let bits = u32::from(digest[a]) << 16 | u32::from(digest[b]) << 8 | u32::from(digest[c]);
        letters(&mut out, bits, 4);
    }
    letters(&mut out, digest[11].into(), 2);
    out
}

/// Six bits each, lowest first.
fn letters(out: &mut Vec<u8>, mut bits: u32, count: usize) {
    const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for _ in 0..count {
        out.push(LETTERS[(bits & 63) as usize]);
        bits >>= 6;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hashes made by openssl passwd and htpasswd.
    #[test]
    fn hashes_of_all_kinds() {
        let long = "a much longer password than sixteen bytes";
        for (password, hash) in [
            ("secret", "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/"),
            ("", "$apr1$x$tMwYqBfQwi3FYAr0aJc8M/"),
            (long, "$apr1$abcdefgh$Eqv4oIyMsS.tjfvQCJYY1/"),
            ("secret", "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1"),
            ("", "$1$x$fwjfZtMwarkdetsjiQreU1"),
            (long, "$1$abcdefgh$fW3178yKPY70TFejaM1Fv."),
            ("password", "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g="),
            ("U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
            ("plain text", "plain text"),
        ] {
            let verdict = |password: &[u8]| PasswordVerdict::of(hash.as_bytes(), password);
            assert_eq!(verdict(password.as_bytes()), PasswordVerdict::Right, "{hash}");
            assert_eq!(verdict(b"other"), PasswordVerdict::Wrong, "{hash}");
        }
        for hash in ["$5$salt$hash", "$6$salt$hash", "abJnggxhB/yWI", "_J9..rasmBYk8r9AiWNc", "$2y$damaged"] {
            assert_eq!(PasswordVerdict::of(hash.as_bytes(), b"x"), PasswordVerdict::UnknownHash, "{hash}");
        }
    }

    #[test]
    fn the_field_and_the_file() {
        let of =
            |field: &str| credentials(field.as_bytes()).map(|(u, p)| [u, p].map(|b| String::from_utf8(b).unwrap()));
        assert_eq!(of("Basic dTpw"), Some(["u".to_owned(), "p".to_owned()]));
        assert_eq!(of("basic  dTpwOnE="), Some(["u".to_owned(), "p:q".to_owned()]));
        for wrong in ["", "Basic", "Basic ", "Basic !", "Bearer dTpw", "Basic dQ=="] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        let file = b"# users\r\nu:one\r\n\r\nuu:two:3\nno colon\n:empty\n";
        assert_eq!(hash_of(file, b"u"), Some(&b"one"[..]));
        assert_eq!(hash_of(file, b"uu"), Some(&b"two"[..]));
        assert_eq!(hash_of(file, b""), Some(&b"empty"[..]));
        assert_eq!((hash_of(file, b"no"), hash_of(file, b"# users")), (None, None));
    }

    proptest! {
        #[test]
        fn any_field_and_file(field: Vec<u8>, text in "(user|:|#|\\n|\\$(apr1|2y|1)\\$|\\PC){0,12}", user in "(user|\\PC)?") {
            let _ = (credentials(&field), credentials(&[b"Basic ", &field[..]].concat()));
            if let Some(hash) = hash_of(text.as_bytes(), user.as_bytes()) {
                prop_assert!(!hash.contains(&b'\n') && !hash.contains(&b':'));
            }
        }

        #[test]
        fn credentials_are_read_as_written(user in "[^:]{0,9}", password in "\\PC{0,9}") {
            let code = ByteEncoding::parse("BASE64").encode(format!("{user}:{password}").as_bytes(), false);
            let field = [b"basic ", &code[..]].concat();
            prop_assert_eq!(credentials(&field), Some((user.into_bytes(), password.into_bytes())));
        }
    }
}
