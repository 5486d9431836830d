// SPDX-License-Identifier: BSD-2-Clause
//! Averages over the last so many samples: exact while there are fewer, then fading.

#[derive(Clone, Copy, Debug)]
pub struct SampleWindow {
    /// Samples so far, at most the window.
    pub n: u32,
    pub average: f64,
    max: u32,
}

impl SampleWindow {
    pub const fn new(max: u32) -> SampleWindow {
        SampleWindow { n: 0, average: 0.0, max }
    }

    pub fn add(&mut self, sample: f64) {
        self.n = (self.n + 1).min(self.max);
        self.average += (sample - self.average) / f64::from(self.n);
    }
}

#[derive(Clone, Copy, Debug)]
pub struct StatWindows(pub [SampleWindow; 3]);

impl Default for StatWindows {
    fn default() -> StatWindows {
        StatWindows([10, 100, 1000].map(SampleWindow::new))
    }
}

impl StatWindows {
    pub fn add(&mut self, sample: f64) {
        self.0.iter_mut().for_each(|window| window.add(sample));
    }
}

/// The hit rate: what of the lookups since the last sample were hits.
#[derive(Clone, Copy, Debug, Default)]
pub struct HitRate {
    last: Option<(u64, u64)>,
    pub windows: StatWindows,
}

impl HitRate {
    /// Takes the counters' values. What was before the first ones isn't known: they count as no lookups, as in Varnish's tool.
    pub fn add(&mut self, hit: u64, miss: u64) {
        let (last_hit, last_miss) = self.last.replace((hit, miss)).unwrap_or((hit, miss));
        let (hits, misses) = (hit.wrapping_sub(last_hit) as f64, miss.wrapping_sub(last_miss) as f64);
        let all = hits + misses;
        self.windows.add(if all > 0.0 { hits / all } else { 0.0 });
    }

    /// Lets the averages begin again. The next sample is still compared with the last one.
    pub fn reset(&mut self) {
        self.windows = StatWindows::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let mut rate = HitRate::default();
        rate.add(100, 100);
        for i in 1..=20 {
            rate.add(100 + i * 9, 100 + i);
        }
        let [ten, hundred, _] = rate.windows.0;
        assert_eq!((ten.n, hundred.n), (10, 21));
        // The first ones counted as nothing; the short window forgets them with time.
        assert!((0.86..0.9).contains(&ten.average) && (hundred.average - 0.9 * 20.0 / 21.0).abs() < 1e-9);
        rate.reset();
        rate.add(100 + 180 + 1, 100 + 20 + 3);
        let [ten, _, thousand] = rate.windows.0;
        assert_eq!((ten.n, ten.average, thousand.n, thousand.average), (1, 0.25, 1, 0.25));
    }
}
