//! Whether input and output agree, and where they do not.

use std::{
    cmp::Reverse,
    fmt::{self, Display},
};

use serde::Serialize;

use super::ledger::Ledger;

/// A word whose two numbers differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// The word.
    pub word: String,
    /// Occurrences in the input.
    pub expected: u64,
    /// What the output says.
    pub found: u64,
}

/// A word and what the output says of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WordCount {
    /// The word.
    pub word: String,
    /// Its count.
    pub count: u64,
}

/// The comparison, in all and by word.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// Whether every word has the same number on both sides.
    pub equal: bool,
    /// Occurrences in the input.
    pub expected: u64,
    /// Occurrences by the output.
    pub found: u64,
    /// Occurrences that the output lacks, over all words.
    pub missing: u64,
    /// Occurrences that the output has too many, over all words.
    pub surplus: u64,
    /// Distinct words of either side.
    pub distinct_words: u64,
    /// Words whose two numbers differ.
    pub differing_words: u64,
    /// Those that differ most, the largest difference first.
    pub differences: Vec<Difference>,
    /// The most frequent words of the output, the most frequent first.
    pub top: Vec<WordCount>,
}

impl Verdict {
    pub(super) fn of(ledger: &Ledger, differences: usize, top: usize) -> Self {
        let mut verdict = Self {
            equal: true,
            expected: 0,
            found: 0,
            missing: 0,
            surplus: 0,
            distinct_words: 0,
            differing_words: 0,
            differences: Vec::new(),
            top: Vec::new(),
        };
        let (mut differing, mut all) = (Vec::new(), Vec::new());
        for (word, tally) in ledger.words() {
            verdict.distinct_words += 1;
            verdict.expected += tally.expected;
            verdict.found += tally.found;
            verdict.missing += tally.expected.saturating_sub(tally.found);
            verdict.surplus += tally.found.saturating_sub(tally.expected);
            if tally.expected != tally.found {
                differing.push((Reverse(tally.expected.abs_diff(tally.found)), word, tally));
            }
            if top > 0 && tally.found > 0 {
                all.push((Reverse(tally.found), word));
            }
        }
        verdict.equal = differing.is_empty();
        verdict.differing_words = differing.len() as u64;
        differing.sort_unstable_by_key(|(size, word, _)| (*size, *word));
        let shown = differing.into_iter().take(differences);
        let difference = |(_, word, t): (_, &str, super::Tally)| Difference {
            word: word.to_owned(),
            expected: t.expected,
            found: t.found,
        };
        verdict.differences = shown.map(difference).collect();
        all.sort_unstable();
        let most = all.into_iter().take(top);
        verdict.top = most.map(|(Reverse(count), word)| WordCount { word: word.to_owned(), count }).collect();
        verdict
    }
}

/// A table for people: top words, differences, sums, and the verdict as its last line.
impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.top.is_empty() {
            writeln!(f, "{:>12}  word", "count")?;
        }
        for WordCount { word, count } in &self.top {
            writeln!(f, "{count:>12}  {}", shown(word))?;
        }
        if !self.differences.is_empty() {
            writeln!(f, "{:>12} {:>12} {:>12} {:>12}  word", "expected", "found", "missing", "surplus")?;
        }
        for Difference { word, expected, found } in &self.differences {
            let (missing, surplus) = (expected.saturating_sub(*found), found.saturating_sub(*expected));
            writeln!(f, "{expected:>12} {found:>12} {missing:>12} {surplus:>12}  {}", shown(word))?;
        }
        let hidden = self.differing_words - self.differences.len() as u64;
        if hidden > 0 {
            writeln!(f, "... and {hidden} more words that differ")?;
        }
        writeln!(
            f,
            "expected {}, found {}, missing {}, surplus {}",
            self.expected, self.found, self.missing, self.surplus
        )?;
        if self.equal {
            writeln!(f, "equal: all {} distinct words agree", self.distinct_words)
        } else {
            writeln!(f, "NOT equal: {} of {} distinct words differ", self.differing_words, self.distinct_words)
        }
    }
}

/// A word as a terminal may see it: control characters escaped, at most 60 characters.
fn shown(word: &str) -> String {
    let mut text: String = word
        .chars()
        .take(60)
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect();
    if word.chars().nth(60).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(input: &[&str], counts: &[(&str, u64)]) -> Ledger {
        let mut ledger = Ledger::default();
        input.iter().for_each(|line| ledger.expect_line(line.as_bytes()));
        counts.iter().for_each(|(word, count)| ledger.find_count(word.as_bytes(), Some(*count)));
        ledger
    }

    #[test]
    fn equal_counts_are_equal() {
        let verdict = ledger(&["a b\u{2003}a", "", " \t "], &[("b", 1), ("a", 1), ("a", 2)]).verdict(10, 1);
        assert!(verdict.equal);
        assert_eq!((verdict.expected, verdict.found, verdict.missing, verdict.surplus), (3, 3, 0, 0));
        assert_eq!(verdict.top, [WordCount { word: "a".to_owned(), count: 2 }]);
        assert_eq!(
            verdict.to_string(),
            "       count  word\n           2  a\nexpected 3, found 3, missing 0, surplus 0\nequal: all 2 distinct words agree\n"
        );
    }

    #[test]
    fn one_missing_and_one_surplus_do_not_make_it_equal() {
        let verdict = ledger(&["a b b"], &[("a", 2), ("b", 1)]).verdict(10, 0);
        assert!(!verdict.equal);
        assert_eq!((verdict.expected, verdict.found, verdict.missing, verdict.surplus), (3, 3, 1, 1));
        assert_eq!(verdict.differing_words, 2);
    }

    #[test]
    fn the_largest_differences_come_first_and_the_rest_is_counted() {
        let verdict = ledger(&["a b b b c c"], &[("zz", 9)]).verdict(2, 0);
        let words: Vec<_> = verdict.differences.iter().map(|d| d.word.as_str()).collect();
        assert_eq!(words, ["zz", "b"]);
        assert!(verdict.to_string().contains("... and 2 more words that differ\n"));
    }

    #[test]
    fn occurrences_are_summed_and_tombstones_forget() {
        let mut ledger = ledger(&["a a b"], &[]);
        ledger.find_occurrence(b"a");
        ledger.find_occurrence(b"a");
        ledger.find_count(b"b", Some(1));
        ledger.find_count(b"b", None);
        let verdict = ledger.verdict(10, 0);
        assert_eq!((verdict.missing, verdict.surplus), (1, 0));
    }

    #[test]
    fn a_word_cannot_write_to_the_terminal() {
        assert_eq!(shown("\u{1b}[2J"), "\\u{1b}[2J");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), 61);
    }
}
