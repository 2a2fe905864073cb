//! Lines to words.

use crate::{
    topology::{Bolt, ComponentError, ComponentResult, Output, TaskContext},
    tuple::{Tuple, Value},
};

/// Emits each word of its input's first field: what stands between white space, as Unicode defines it. A line without
/// words emits nothing. A field that is not text fails for good, so that it goes to the dead-letter topic.
#[derive(Debug, Default)]
pub struct Split {
    line: usize,
}

impl Bolt for Split {
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        self.line = context.field("line")?;
        Ok(())
    }

    #[inline]
    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        let Some(line) = input.str(self.line) else { return Err(not_text("line", input.get(self.line))) };
        for_each_word(line, |word| out.emit(&[Value::Str(word)]));
        Ok(())
    }
}

#[cold]
pub(super) fn not_text(field: &str, value: Value<'_>) -> ComponentError {
    ComponentError::permanent(format!("field \"{field}\" is {} and not text", value.kind()))
}

/// Calls `found` with each word, as `str::split_whitespace` would give them.
#[inline]
pub fn for_each_word(line: &str, mut found: impl FnMut(&str)) {
    if !line.is_ascii() {
        return line.split_whitespace().for_each(found);
    }
    let mut start = 0;
    let mut space_at = |at: usize| {
        if start < at {
            found(line.get(start..at).unwrap_or_default());
        }
        start = at + 1;
    };
    let (chunks, rest) = line.as_bytes().as_chunks::<8>();
    for (at, chunk) in (0..).step_by(8).zip(chunks) {
        let mut spaces = spaces(u64::from_le_bytes(*chunk));
        while spaces != 0 {
            space_at(at + spaces.trailing_zeros() as usize / 8);
            spaces &= spaces - 1;
        }
    }
    for (at, &byte) in (line.len() - rest.len()..).zip(rest) {
        if is_space(byte) {
            space_at(at);
        }
    }
    space_at(line.len());
}

/// The ASCII part of Unicode's `White_Space`.
#[inline]
const fn is_space(byte: u8) -> bool {
    byte == b' ' || byte.wrapping_sub(b'\t') < 5
}

/// The same for eight ASCII bytes at once: the top bit of each that is white space. No sum carries into the next byte,
/// for both its terms are below 128.
#[inline]
const fn spaces(eight: u64) -> u64 {
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);
    const fn all(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    let at_least_tab = eight + all(0x80 - b'\t');
    let above_return = eight + all(0x80 - b'\r' - 1);
    let not_blank = (eight ^ all(b' ')) + all(0x7f);
    (at_least_tab & !above_return | !not_blank) & TOPS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_ascii_byte_is_judged_alike_one_by_one_and_in_eights() {
        for byte in 0..128 {
            for place in 0..8 {
                let mut eight = [b'a'; 8];
                eight[place] = byte;
                let found = spaces(u64::from_le_bytes(eight));
                assert_eq!(found, if is_space(byte) { 0x80 << (8 * place) } else { 0 }, "{byte} at {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_standard_library(line in "[ -~\\x00-\\x20]{0,40}|.{0,40}|[ a\u{a0}\u{85}\u{2003}ü\\t\\x0b]{0,20}") {
            let mut words = Vec::new();
            for_each_word(&line, |word| words.push(word.to_owned()));
            prop_assert_eq!(words, line.split_whitespace().collect::<Vec<_>>());
        }
    }
}
