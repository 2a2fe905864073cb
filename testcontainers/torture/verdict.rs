//! What is missing, and what is there more than once, of the words that occur in one line each.

use std::{collections::HashMap, fmt};

use crate::broker::Record;

/// What became of the lines.
#[derive(Debug)]
pub struct Verdict {
    found: usize,
    /// Lines whose word is not there.
    pub missing: Vec<u64>,
    /// How often words are there that were there already.
    pub surplus: u64,
}

impl Verdict {
    /// Of an output where each record is an occurrence; lines were written with seed 1, numbered from 0.
    pub fn of_occurrences(output: &[Record], lines: u64) -> Self {
        let mut counts = HashMap::new();
        for number in output.iter().filter_map(|record| number_of(&record.text().1)) {
            *counts.entry(number).or_insert(0) += 1;
        }
        Self::of(&counts, lines)
    }

    /// Of an output where the last record of a key is the count of the word that the key is.
    pub fn of_counts(output: &[Record], lines: u64) -> Self {
        let count = |record: &Record| {
            let (word, count) = record.text();
            Some((number_of(&word)?, count.parse().expect("a count")))
        };
        Self::of(&output.iter().filter_map(count).collect(), lines)
    }

    fn of(counts: &HashMap<u64, u64>, lines: u64) -> Self {
        let missing = (0..lines).filter(|number| !counts.contains_key(number)).collect();
        Self { found: counts.len(), missing, surplus: counts.values().map(|count| count.saturating_sub(1)).sum() }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first: Vec<_> = self.missing.iter().take(10).collect();
        write!(f, "{} lines found, {} missing {first:?}, {} repeated", self.found, self.missing.len(), self.surplus)
    }
}

/// The number of the line that the word `id-1-NUMBER` occurs in.
fn number_of(word: &str) -> Option<u64> {
    word.strip_prefix("id-1-")?.parse().ok()
}
