// SPDX-License-Identifier: BSD-2-Clause
//! Copies of few bytes: a call of memcpy takes longer than they do.

/// Copies `from` to `to`, which is as long.
#[inline]
pub fn copy(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "copied to a place of another length");
    match from.len() {
        33.. => to.copy_from_slice(from),
        16.. => ends::<16>(to, from),
        8.. => ends::<8>(to, from),
        4.. => ends::<4>(to, from),
        _ => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
    }
}

/// The first and the last `N` bytes, which are all there are.
#[inline]
fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        let (first, last) = (*first, *last);
        to.first_chunk_mut().into_iter().for_each(|to| *to = first);
        to.last_chunk_mut().into_iter().for_each(|to| *to = last);
    }
}

#[cfg(test)]
mod tests {
    use super::copy;

    #[test]
    fn every_length() {
        let from: Vec<u8> = (1..=100).collect();
        for len in 0..=100 {
            let mut to = [0; 100];
            copy(&mut to[..len], &from[..len]);
            assert_eq!((&to[..len], to[len..].iter().all(|&b| b == 0)), (&from[..len], true), "{len} bytes");
        }
    }
}
