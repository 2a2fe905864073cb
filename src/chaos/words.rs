//! What is fed in, as words by number; and the lineages that each word has come with.

use std::fmt;

use hashbrown::HashTable;

use crate::tuple::mix;

/// How many words come again and again.
const COMMON: u32 = 20;
/// Records for which there is room from the beginning, at most.
const MOST_ROOM: u32 = 1 << 16;

/// A word of a line: one that many records have, or one that is a record's own.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Word(u32);

impl Word {
    /// The words that many records have.
    pub(super) fn common() -> impl Iterator<Item = Self> {
        (0..COMMON).map(Self)
    }

    /// The one of the common words that a record has.
    pub(super) const fn common_of(record: u32) -> Self {
        Self(record % COMMON)
    }

    /// The word that only this record has.
    pub(super) const fn own(record: u32) -> Self {
        Self(COMMON + record)
    }

    /// Reads a word; `None` if no line of a record below `records` has it.
    pub(super) fn read(text: &[u8], records: u32) -> Option<Self> {
        let (kind, digits) = text.split_first()?;
        let number = number(digits)?;
        match kind {
            b'c' if number < COMMON.min(records) => Some(Self(number)),
            b'u' if number < records => Some(Self::own(number)),
            _ => None,
        }
    }

    /// How many records below `records` have it.
    pub(super) const fn count(self, records: u32) -> u64 {
        match self.0.checked_sub(COMMON) {
            None => ((records + COMMON - 1 - self.0) / COMMON) as u64,
            Some(record) => (record < records) as u64,
        }
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.checked_sub(COMMON) {
            None => write!(f, "\"c{}\"", self.0),
            Some(record) => write!(f, "\"u{record}\""),
        }
    }
}

/// A number in decimal digits; `None` if it is none, or too large.
fn number(digits: &[u8]) -> Option<u32> {
    let put = |number: u32, byte: &u8| number.checked_mul(10)?.checked_add(char::from(*byte).to_digit(10)?);
    if digits.is_empty() { None } else { digits.iter().try_fold(0, put) }
}

/// A lineage in its 16 hexadecimal digits; `None` if it is none.
pub(super) fn lineage(digits: &[u8]) -> Option<u64> {
    let put = |number: u64, byte: &u8| Some(number << 4 | u64::from(char::from(*byte).to_digit(16)?));
    if digits.len() == 16 { digits.iter().try_fold(0, put) } else { None }
}

/// How many words a line has.
pub(super) const WORDS_OF_A_LINE: u64 = 2;

/// Appends the line of a record: a word that many have, and one that is its own.
pub(super) fn push_line(record: u32, out: &mut Vec<u8>) {
    out.push(b'c');
    push_number(record % COMMON, out);
    out.extend_from_slice(b" u");
    push_number(record, out);
}

fn push_number(number: u32, out: &mut Vec<u8>) {
    let mut place = 10_u32.pow(number.checked_ilog10().unwrap_or(0));
    while place > 0 {
        out.push(b'0' + u8::try_from(number / place % 10).unwrap_or(0));
        place /= 10;
    }
}

/// A count for each word, by its number.
#[derive(Debug, Default)]
pub(super) struct Counts(Vec<u64>);

impl Counts {
    /// This is its count now.
    pub(super) fn set(&mut self, word: Word, count: u64) {
        *self.place(word) = count;
    }

    /// One more.
    pub(super) fn add(&mut self, word: Word) {
        *self.place(word) += 1;
    }

    fn place(&mut self, word: Word) -> &mut u64 {
        if self.0.len() <= word.index() {
            self.0.resize(word.index() + 1, 0);
        }
        &mut self.0[word.index()]
    }

    /// Its count; 0 if there is none.
    pub(super) fn of(&self, word: Word) -> u64 {
        self.0.get(word.index()).copied().unwrap_or(0)
    }
}

/// Which lineages each word has come with: sets, so that no repeat can hide a loss.
#[derive(Debug)]
pub(super) struct Lineages {
    seen: HashTable<(Word, u64)>,
    /// How many lineages each word has.
    of: Counts,
}

impl Lineages {
    /// None, with room for those of so many records.
    pub(super) fn of_records(records: u32) -> Self {
        let room = records.min(MOST_ROOM) as usize * WORDS_OF_A_LINE as usize;
        Self { seen: HashTable::with_capacity(room), of: Counts::default() }
    }

    /// A word has come.
    pub(super) fn insert(&mut self, word: Word, lineage: u64) {
        let hash = |(word, lineage): &(Word, u64)| mix(lineage ^ u64::from(word.0) << 32);
        let pair = (word, lineage);
        let entry = self.seen.entry(hash(&pair), |other| *other == pair, hash);
        if let hashbrown::hash_table::Entry::Vacant(place) = entry {
            place.insert(pair);
            self.of.add(word);
        }
    }

    /// How many lineages a word has come with.
    pub(super) fn of(&self, word: Word) -> u64 {
        self.of.of(word)
    }

    /// Pairs of a word and its lineage.
    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_words_of_a_line_are_read_as_they_were_written() {
        let mut counts = BTreeMap::new();
        for record in 0..50 {
            let mut line = Vec::new();
            push_line(record, &mut line);
            let words: Vec<_> = line.split(|byte| *byte == b' ').map(|word| Word::read(word, 50)).collect();
            assert_eq!(line, format!("c{} u{record}", record % COMMON).as_bytes());
            assert_eq!(words, [Some(Word(record % COMMON)), Some(Word::own(record))]);
            words.into_iter().flatten().for_each(|word| *counts.entry(word.to_string()).or_insert(0) += 1);
        }
        assert_eq!(Word::common().map(|word| word.count(50)).sum::<u64>(), 50);
        for word in Word::common().chain((0..50).map(Word::own)) {
            assert_eq!(word.count(50), counts[&word.to_string()], "{word}");
        }
    }

    #[test]
    fn what_was_not_fed_is_no_word() {
        for text in ["", "c", "u", "c20", "u50", "x1", "u-1", "c1 u1"] {
            assert_eq!(Word::read(text.as_bytes(), 50), None, "{text:?}");
        }
        assert_eq!(Word::read(b"c3", 3), None);
    }

    #[test]
    fn the_count_that_was_set_last_stands() {
        let mut counts = Counts::default();
        for (word, count) in [(Word(7), 1), (Word(2), 5), (Word(7), 3)] {
            counts.set(word, count);
        }
        assert_eq!([7, 2, 3, 900].map(|word| counts.of(Word(word))), [3, 5, 0, 0]);
    }

    proptest! {
        #[test]
        fn numbers_are_read_from_their_digits(small: u32, large: u64) {
            prop_assert_eq!(number(small.to_string().as_bytes()), Some(small));
            prop_assert_eq!(number(format!("9{small:010}").as_bytes()), None);
            prop_assert_eq!(lineage(format!("{large:016x}").as_bytes()), Some(large));
            prop_assert_eq!(lineage(format!("{large:017x}").as_bytes()), None);
            prop_assert_eq!(lineage(format!("{large:015x}g").as_bytes()), None);
        }

        #[test]
        fn lineages_are_sets_by_word(pairs in prop::collection::vec((0..30_u32, 0..6_u64), 0..200)) {
            let (mut lineages, mut naive) = (Lineages::of_records(30), BTreeMap::<u32, BTreeSet<u64>>::new());
            for (word, lineage) in pairs {
                lineages.insert(Word(word), lineage);
                naive.entry(word).or_default().insert(lineage);
            }
            prop_assert_eq!(lineages.len(), naive.values().map(BTreeSet::len).sum::<usize>());
            for word in 0..40 {
                prop_assert_eq!(lineages.of(Word(word)), naive.get(&word).map_or(0, BTreeSet::len) as u64);
            }
        }
    }
}
