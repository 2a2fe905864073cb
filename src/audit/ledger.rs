//! Two numbers a word: how often the input has it, and how often the output says so.

use std::hash::RandomState;

use hashbrown::HashMap;

use super::verdict::Verdict;

/// What is known of one word.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Occurrences in the input.
    pub expected: u64,
    /// What the output says.
    pub found: u64,
}

/// The recount. It holds each distinct word once: about 80 bytes and the word itself.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    words: HashMap<String, Tally, RandomState>,
}

impl Ledger {
    /// Adds the words of a line of the input.
    pub fn expect_line(&mut self, line: &[u8]) {
        for word in String::from_utf8_lossy(line).split_whitespace() {
            self.tally(word).expected += 1;
        }
    }

    /// Adds one occurrence that the output has.
    pub fn find_occurrence(&mut self, word: &[u8]) {
        self.tally(&String::from_utf8_lossy(word)).found += 1;
    }

    /// Takes over the count that the output has for `word`: a later one replaces an earlier one. `None` is a tombstone:
    /// the word is no longer counted.
    pub fn find_count(&mut self, word: &[u8], count: Option<u64>) {
        self.tally(&String::from_utf8_lossy(word)).found = count.unwrap_or(0);
    }

    fn tally(&mut self, word: &str) -> &mut Tally {
        self.words.entry_ref(word).or_default()
    }

    /// Every word with its tally, in no order.
    pub fn words(&self) -> impl Iterator<Item = (&str, Tally)> {
        self.words.iter().map(|(word, tally)| (word.as_str(), *tally))
    }

    /// Compares; lists at most `differences` words that differ most, and the `top` most frequent words of the output.
    #[must_use]
    pub fn verdict(&self, differences: usize, top: usize) -> Verdict {
        Verdict::of(self, differences, top)
    }
}
