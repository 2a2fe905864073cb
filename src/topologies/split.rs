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
    for (at, &byte) in line.as_bytes().iter().enumerate() {
        if is_space(byte) {
            if start < at {
                found(line.get(start..at).unwrap_or_default());
            }
            start = at + 1;
        }
    }
    if start < line.len() {
        found(line.get(start..).unwrap_or_default());
    }
}

/// The ASCII part of Unicode's White_Space.
#[inline]
const fn is_space(byte: u8) -> bool {
    byte == b' ' || byte.wrapping_sub(b'\t') < 5
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_are_those_of_the_standard_library(line in "[ -~\\x00-\\x20]{0,40}|.{0,40}|[ a\u{a0}\u{85}\u{2003}ü\\t\\x0b]{0,20}") {
            let mut words = Vec::new();
            for_each_word(&line, |word| words.push(word.to_owned()));
            prop_assert_eq!(words, line.split_whitespace().collect::<Vec<_>>());
        }
    }
}
