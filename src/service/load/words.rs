//! Words that can be spoken, made from their number: the same number is the same word, and no two numbers share one.

const CONSONANTS: &[u8; 20] = b"bcdfghjklmnprstvwxyz";
const VOWELS: &[u8; 5] = b"aeiou";
const SYLLABLES: u64 = 100;

/// Appends word number `index`. The first 100 words have one syllable, the next 10,000 two, and so on: frequent words
/// are short.
pub(crate) fn push_word(mut index: u64, out: &mut Vec<u8>) {
    loop {
        // Steps over the syllables, so that neighbours do not look alike: 37 and 100 have no common divisor.
        let syllable = usize::try_from((index % SYLLABLES) * 37 % SYLLABLES).unwrap_or(0);
        out.extend(CONSONANTS.get(syllable / VOWELS.len()));
        out.extend(VOWELS.get(syllable % VOWELS.len()));
        if index < SYLLABLES {
            return;
        }
        index = index / SYLLABLES - 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn word(index: u64) -> String {
        let mut out = Vec::new();
        push_word(index, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_are_short_and_can_be_spoken() {
        assert_eq!([0, 1, 2, 99, 100, 10_099, 10_100].map(word), ["ba", "ki", "tu", "ro", "baba", "roro", "bababa"]);
    }

    #[test]
    fn no_two_numbers_share_a_word() {
        let words: HashSet<_> = (0..200_000).map(word).collect();
        assert_eq!(words.len(), 200_000);
    }
}
