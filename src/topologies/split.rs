//! Lines to words.

use std::str::SplitWhitespace;

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
        out.emit_parts(line, words(line));
        Ok(())
    }
}

#[cold]
pub(super) fn not_text(field: &str, value: Value<'_>) -> ComponentError {
    ComponentError::permanent(format!("field \"{field}\" is {} and not text", value.kind()))
}

/// The words of a line, as `str::split_whitespace` would give them, 64 bytes at a time where they are ASCII.
#[inline]
#[must_use]
pub fn words(line: &str) -> Words<'_> {
    let unicode = if line.is_ascii() { None } else { Some(line.split_whitespace()) };
    Words { line, spaces: 0, base: 0, next: 0, start: 0, unicode }
}

/// See [`words`].
#[derive(Clone, Debug)]
pub struct Words<'a> {
    line: &'a str,
    /// The white space of the present 64 bytes that was not looked at, a bit each, and where they begin.
    spaces: u64,
    base: usize,
    /// Where the next 64 bytes begin.
    next: usize,
    /// Where the next word begins, or a space.
    start: usize,
    /// The words of a line that is not ASCII.
    unicode: Option<SplitWhitespace<'a>>,
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    #[expect(clippy::inline_always, reason = "its state is to stay in registers from word to word")]
    #[inline(always)]
    fn next(&mut self) -> Option<&'a str> {
        if let Some(unicode) = &mut self.unicode {
            return unicode.next();
        }
        loop {
            while self.spaces == 0 {
                let ahead = self.line.as_bytes().get(self.next..)?;
                (self.spaces, self.base) = (spaces_and_end(ahead), self.next);
                self.next += BLOCK;
            }
            let (start, end) = (self.start, self.base + self.spaces.trailing_zeros() as usize);
            self.spaces &= self.spaces - 1;
            self.start = end + 1;
            if start < end {
                return self.line.get(start..end);
            }
        }
    }
}

/// Bytes that are looked at together: where one word ends and the next begins is a question to the processor that it guesses
/// wrong, so it is asked once for seven words and not for each.
const BLOCK: usize = 64;

/// Of the first 64 bytes, those that are white space, and what is behind the last byte of the line: it ends a word too.
#[inline]
fn spaces_and_end(ahead: &[u8]) -> u64 {
    match ahead.first_chunk::<BLOCK>() {
        Some(block) => spaces(block),
        None => {
            let mut block = [b'a'; BLOCK];
            if let Some(room) = block.get_mut(..ahead.len()) {
                room.copy_from_slice(ahead);
            }
            spaces(&block) | 1 << ahead.len()
        }
    }
}

/// The ASCII part of Unicode's `White_Space`.
const fn is_space(byte: u8) -> bool {
    (byte == b' ') | (byte.wrapping_sub(b'\t') < 5)
}

/// The bytes that are white space, a bit each.
#[inline]
fn spaces(block: &[u8; BLOCK]) -> u64 {
    // A loop over bytes, which the compiler does sixteen at a time.
    let ones = block.map(|byte| u8::from(is_space(byte)));
    let (eights, _) = ones.as_chunks::<8>();
    // A product that gathers the lowest bits of eight bytes in its highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let bits = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56;
    eights.iter().rev().fold(0, |all, eight| all << 8 | bits(eight))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_ascii_byte_is_judged_alike_wherever_it_stands() {
        for byte in 0..128_u8 {
            for place in 0..BLOCK {
                let mut block = [b'a'; BLOCK];
                block[place] = byte;
                let expected = u64::from(char::from(byte).is_whitespace()) << place;
                assert_eq!(spaces(&block), expected, "{byte} at {place}");
            }
        }
    }

    #[test]
    fn words_end_where_blocks_do() {
        for length in 0..200 {
            let line = "a".repeat(length) + " b";
            assert!(words(&line).eq(line.split_whitespace()), "{length}");
            let line = " ".repeat(length) + "b";
            assert!(words(&line).eq(["b"]), "{length}");
        }
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_standard_library(line in "[ -~\\x00-\\x20]{0,40}|[a ]{0,200}|.{0,40}|[ a\u{a0}\u{85}\u{2003}ü\\t\\x0b]{0,20}") {
            prop_assert_eq!(words(&line).collect::<Vec<_>>(), line.split_whitespace().collect::<Vec<_>>());
        }
    }
}
