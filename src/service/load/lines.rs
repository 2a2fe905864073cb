//! Lines of words: pure, and the same bytes for the same options.

use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, weighted::WeightedAliasIndex};
use rand_pcg::Pcg64Mcg;

use super::words::push_word;

/// What lines are to look like.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LineOptions {
    /// Words in a line, at least 1.
    pub(crate) words: u32,
    /// Distinct words, at least 1.
    pub(crate) vocabulary: u32,
    /// The frequency of the k-th word is proportional to 1/k^`zipf`; at 0 all words are equally frequent.
    pub(crate) zipf: f64,
    /// Whether the first word of a line is one that occurs in no other line.
    pub(crate) unique_ids: bool,
    /// Chooses among the possible sequences.
    pub(crate) seed: u64,
}

/// Which word comes next.
#[derive(Debug)]
enum Choice {
    Uniform(u32),
    Weighted(WeightedAliasIndex<f64>),
}

/// A sequence of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    options: LineOptions,
    rng: Pcg64Mcg,
    choice: Choice,
    /// All words, each with a space behind it.
    arena: Vec<u8>,
    /// Where each word begins, and the end of the last.
    starts: Vec<u32>,
    next: u64,
}

impl Lines {
    /// The sequence that `options` describe.
    ///
    /// # Errors
    /// A sentence, if the exponent is not finite or negative, or leaves words without weight.
    pub(crate) fn new(options: LineOptions) -> Result<Self, String> {
        if !(0.0..=20.0).contains(&options.zipf) {
            return Err(format!("--zipf {} is out of range: at least 0, at most 20", options.zipf));
        }
        let choice = if options.zipf == 0.0 {
            Choice::Uniform(options.vocabulary)
        } else {
            let weights = (1..=options.vocabulary).map(|k| f64::from(k).powf(-options.zipf)).collect();
            Choice::Weighted(WeightedAliasIndex::new(weights).map_err(|e| format!("--zipf {}: {e}", options.zipf))?)
        };
        let (mut arena, mut starts) = (Vec::new(), vec![0]);
        for index in 0..options.vocabulary {
            push_word(u64::from(index), &mut arena);
            arena.push(b' ');
            starts.push(u32::try_from(arena.len()).map_err(|_| "the vocabulary is too large".to_owned())?);
        }
        let rng = Pcg64Mcg::seed_from_u64(options.seed);
        Ok(Self { options, rng, choice, arena, starts, next: 0 })
    }

    /// Appends the next line, without a line end.
    pub(crate) fn push_line(&mut self, out: &mut Vec<u8>) {
        let mut words = self.options.words;
        if self.options.unique_ids {
            push_id(self.options.seed, self.next, out);
            words = words.saturating_sub(1);
        }
        self.next += 1;
        for _ in 0..words {
            let index = match &self.choice {
                Choice::Uniform(words) => self.rng.random_range(0..*words) as usize,
                Choice::Weighted(weights) => weights.sample(&mut self.rng),
            };
            if let Some(&[start, end]) = self.starts.get(index..index + 2) {
                out.extend_from_slice(self.arena.get(start as usize..end as usize).unwrap_or_default());
            }
        }
        // The space behind the last word.
        out.pop();
    }
}

/// `id-SEED-NUMBER `: no generated word has a hyphen or a digit.
fn push_id(seed: u64, number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("id-{seed}-{number} ").as_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    const OPTIONS: LineOptions = LineOptions { words: 12, vocabulary: 1000, zipf: 1.0, unique_ids: false, seed: 7 };

    fn lines(options: LineOptions, n: usize) -> Vec<String> {
        let mut lines = Lines::new(options).unwrap();
        let line = |_| {
            let mut out = Vec::new();
            lines.push_line(&mut out);
            String::from_utf8(out).unwrap()
        };
        (0..n).map(line).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_for_ever() {
        assert_eq!(lines(OPTIONS, 100), lines(OPTIONS, 100));
        assert_ne!(lines(OPTIONS, 100), lines(LineOptions { seed: 8, ..OPTIONS }, 100));
        assert_eq!(lines(LineOptions { words: 4, ..OPTIONS }, 2), ["de ba pimo miki", "keki ki du pu"]);
    }

    #[test]
    fn a_line_has_its_words_and_single_spaces() {
        for line in lines(OPTIONS, 100) {
            assert_eq!(line.split(' ').count(), 12, "{line:?}");
            assert!(line.split(' ').all(|word| !word.is_empty()), "{line:?}");
        }
    }

    #[test]
    fn every_line_has_one_word_that_no_other_has() {
        let three = lines(LineOptions { unique_ids: true, words: 3, ..OPTIONS }, 1000);
        let ids: HashSet<_> = three.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(three.iter().all(|line| line.split(' ').count() == 3));
        let only_ids = LineOptions { unique_ids: true, words: 1, ..OPTIONS };
        assert_eq!(lines(only_ids, 2), ["id-7-0", "id-7-1"]);
    }

    #[test]
    fn frequencies_follow_zipfs_law_and_are_even_at_zero() {
        let share = |zipf, n: usize| {
            let mut counts: HashMap<String, u32> = HashMap::new();
            for line in lines(LineOptions { zipf, ..OPTIONS }, n) {
                line.split(' ').for_each(|word| *counts.entry(word.to_owned()).or_default() += 1);
            }
            f64::from(counts["ba"]) / (n * 12) as f64
        };
        // The harmonic number of 1,000 is 7.485.
        assert!((share(1.0, 20_000) - 1.0 / 7.485).abs() < 0.005);
        assert!((share(0.0, 20_000) - 0.001).abs() < 0.000_3);
    }

    #[test]
    fn an_exponent_that_makes_no_sense_is_refused() {
        for zipf in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Lines::new(LineOptions { zipf, ..OPTIONS }).is_err(), "{zipf}");
        }
    }
}
