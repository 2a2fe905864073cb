//! Lines to words.

use std::{slice, str::SplitWhitespace};

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
        for word in words(line) {
            out.emit(&[Value::Str(word)]);
        }
        Ok(())
    }
}

#[cold]
pub(super) fn not_text(field: &str, value: Value<'_>) -> ComponentError {
    ComponentError::permanent(format!("field \"{field}\" is {} and not text", value.kind()))
}

/// The words of a line, as `str::split_whitespace` would give them, eight bytes at a time where they are ASCII.
#[inline]
#[must_use]
pub fn words(line: &str) -> Words<'_> {
    if !line.is_ascii() {
        return Words { unicode: Some(line.split_whitespace()), ..Words::ascii("") };
    }
    Words::ascii(line)
}

/// See [`words`].
#[derive(Clone, Debug)]
pub struct Words<'a> {
    line: &'a str,
    eights: slice::Iter<'a, [u8; 8]>,
    /// What is left behind them, with blanks to end the last word.
    last: Option<[u8; 8]>,
    /// Where in the line the present eight bytes begin, and their spaces that were not looked at.
    base: usize,
    spaces: u64,
    /// Where the next word begins, or a space.
    start: usize,
    /// The words of a line that is not ASCII.
    unicode: Option<SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    #[inline]
    fn ascii(line: &'a str) -> Self {
        let (eights, rest) = line.as_bytes().as_chunks::<8>();
        let mut last = [b' '; 8];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        let base = 0_usize.wrapping_sub(8);
        Self { line, eights: eights.iter(), last: Some(last), base, spaces: 0, start: 0, unicode: None }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        if let Some(unicode) = &mut self.unicode {
            return unicode.next();
        }
        loop {
            while self.spaces == 0 {
                let eight = self.eights.next().copied().or_else(|| self.last.take())?;
                self.spaces = spaces(u64::from_le_bytes(eight));
                self.base = self.base.wrapping_add(8);
            }
            let (start, end) = (self.start, self.base + self.spaces.trailing_zeros() as usize / 8);
            self.spaces &= self.spaces - 1;
            self.start = end + 1;
            if start < end {
                return self.line.get(start..end);
            }
        }
    }
}

/// The ASCII part of Unicode's `White_Space`.
#[cfg(test)]
const fn is_space(byte: u8) -> bool {
    byte == b' ' || byte.wrapping_sub(b'\t') < 5
}

/// Of eight ASCII bytes, the top bit of each that is white space as Unicode's `White_Space` has it. No sum carries into the next byte,
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
            prop_assert_eq!(words(&line).collect::<Vec<_>>(), line.split_whitespace().collect::<Vec<_>>());
        }
    }
}
