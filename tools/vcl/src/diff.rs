// SPDX-License-Identifier: BSD-2-Clause
//! A line diff in the format of `diff -u`. Algorithm: Myers, "An O(ND) Difference Algorithm and Its Variations", 1986.

const CONTEXT: usize = 3;
/// Maximum number of changed lines. Texts with more are shown as one change, since the memory for the search grows with the square.
const MAX: usize = 2000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line {
    Same,
    Old,
    New,
}

/// A unified diff from `old` to `new`. Empty if they are the same.
pub(crate) fn unified(name: &str, old: &[u8], new: &[u8]) -> Vec<u8> {
    let (a, b) = (lines(old), lines(new));
    let steps = steps(&a, &b);
    let mut out = Vec::new();
    // The position of each step in both texts.
    let mut places = Vec::with_capacity(steps.len());
    let (mut x, mut y) = (0, 0);
    for step in &steps {
        places.push((x, y));
        x += usize::from(*step != Line::New);
        y += usize::from(*step != Line::Old);
    }
    let mut at = 0;
    while let Some(first) = (at..steps.len()).find(|n| steps[*n] != Line::Same) {
        let mut last = first;
        let mut next = first + 1;
        while next < steps.len() && next <= last + 2 * CONTEXT {
            if steps[next] != Line::Same {
                last = next;
            }
            next += 1;
        }
        let (from, to) = (first.saturating_sub(CONTEXT).max(at), (last + 1 + CONTEXT).min(steps.len()));
        let count = |skip: Line| steps[from..to].iter().filter(|step| **step != skip).count();
        let (olds, news) = (count(Line::New), count(Line::Old));
        let (x, y) = places[from];
        if out.is_empty() {
            out.extend_from_slice(format!("--- {name}\n+++ {name}\n").as_bytes());
        }
        let start = |at: usize, len: usize| if len == 0 { at } else { at + 1 };
        out.extend_from_slice(format!("@@ -{},{olds} +{},{news} @@\n", start(x, olds), start(y, news)).as_bytes());
        for n in from..to {
            let (x, y) = places[n];
            let (sign, line) = match steps[n] {
                Line::Same => (b' ', a[x]),
                Line::Old => (b'-', a[x]),
                Line::New => (b'+', b[y]),
            };
            out.push(sign);
            out.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
        at = to;
    }
    out
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|c| *c == b'\n').collect()
}

fn steps(a: &[&[u8]], b: &[&[u8]]) -> Vec<Line> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[head..], &b[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - tail], &b[..b.len() - tail]);
    let mut out = vec![Line::Same; head];
    out.extend(middle(a, b));
    out.extend(vec![Line::Same; tail]);
    out
}

/// The shortest edit script between the texts.
fn middle(a: &[&[u8]], b: &[&[u8]]) -> Vec<Line> {
    let (n, m) = (a.len() as isize, b.len() as isize);
    let most = (a.len() + b.len()).min(MAX) as isize;
    // `ends[k + most + 1]`: the furthest position in `a` that is reachable on diagonal k.
    let mut ends = vec![0isize; 2 * most as usize + 3];
    let mut kept: Vec<Vec<isize>> = Vec::new();
    let at = |k: isize| (k + most + 1) as usize;
    for d in 0..=most {
        kept.push(ends.clone());
        for k in (-d..=d).step_by(2) {
            let down = k == -d || k != d && ends[at(k - 1)] < ends[at(k + 1)];
            let mut x = if down { ends[at(k + 1)] } else { ends[at(k - 1)] + 1 };
            while x < n && x - k < m && a[x as usize] == b[(x - k) as usize] {
                x += 1;
            }
            ends[at(k)] = x;
            if x >= n && x - k >= m {
                return way_back(&kept, d, n, m, most);
            }
        }
    }
    [vec![Line::Old; a.len()], vec![Line::New; b.len()]].concat()
}

fn way_back(kept: &[Vec<isize>], d: isize, n: isize, m: isize, most: isize) -> Vec<Line> {
    let at = |k: isize| (k + most + 1) as usize;
    let (mut x, mut y, mut out) = (n, m, Vec::new());
    for d in (0..=d).rev() {
        let ends = &kept[d as usize];
        let k = x - y;
        let down = k == -d || k != d && ends[at(k - 1)] < ends[at(k + 1)];
        let before = if down { k + 1 } else { k - 1 };
        let (bx, by) = (ends[at(before)], ends[at(before)] - before);
        while d > 0 && x > bx && y > by || d == 0 && x > 0 && y > 0 {
            out.push(Line::Same);
            (x, y) = (x - 1, y - 1);
        }
        if d > 0 {
            out.push(if down { Line::New } else { Line::Old });
            (x, y) = (bx, by);
        }
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(old: &str, new: &str) -> String {
        String::from_utf8(unified("f", old.as_bytes(), new.as_bytes())).unwrap()
    }

    #[test]
    fn changes_stand_among_what_stays() {
        assert_eq!(of("a\n", "a\n"), "");
        assert_eq!(
            of("1\n2\n3\n4\nx\n5\n6\n7\n8\n", "1\n2\n3\n4\ny\nz\n5\n6\n7\n8\n"),
            "--- f\n+++ f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-x\n+y\n+z\n 5\n 6\n 7\n"
        );
        assert_eq!(of("a", "a\n"), "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n");
        assert_eq!(of("", "a\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
        let far: String = (0..20).map(|n| format!("{n}\n")).collect();
        let both = far.replace("0\n1\n", "0\nx\n1\n").replace("18\n", "");
        assert_eq!(of(&far, &both).matches("@@ -").count(), 2, "{}", of(&far, &both));
    }

    #[test]
    fn the_steps_lead_from_one_text_to_the_other() {
        let mut seed = 7u32;
        let mut next = |n: u32| {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345);
            (seed >> 16) % n
        };
        for _ in 0..300 {
            let a: Vec<String> = (0..next(12)).map(|_| format!("{}\n", next(4))).collect();
            let b: Vec<String> = (0..next(12)).map(|_| format!("{}\n", next(4))).collect();
            let (a, b): (Vec<&[u8]>, Vec<&[u8]>) =
                (a.iter().map(|l| l.as_bytes()).collect(), b.iter().map(|l| l.as_bytes()).collect());
            let (mut x, mut y) = (0, 0);
            for step in steps(&a, &b) {
                assert!(step != Line::Same || a[x] == b[y], "{a:?} {b:?}");
                x += usize::from(step != Line::New);
                y += usize::from(step != Line::Old);
            }
            assert_eq!((x, y), (a.len(), b.len()));
        }
    }
}
