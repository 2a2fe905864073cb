//! Sets of offsets as ranges.

/// Offsets, as ranges that are sorted, not empty, and neither overlap nor touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OffsetRanges(Vec<(i64, i64)>);

impl OffsetRanges {
    /// No offset.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds the offsets from `start` up to, not including, `end`; they must lie above all that were added before. A
    /// range that touches the last one makes it longer, an empty one changes nothing.
    pub fn push(&mut self, start: i64, end: i64) {
        if start >= end {
            return;
        }
        match self.0.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => self.0.push((start, end)),
        }
    }

    /// Whether `offset` is in it.
    #[must_use]
    pub fn contains(&self, offset: i64) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= offset);
        after.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, end)| offset < *end)
    }

    /// The ranges (start, end exclusive), lowest first.
    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> {
        self.0.iter().copied()
    }

    /// Number of ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no offset is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of offsets from `start` up to, not including, `end` that are not in it.
    #[must_use]
    pub fn missing_between(&self, start: i64, end: i64) -> u64 {
        let inside: i64 = self.iter().map(|(from, to)| (to.min(end) - from.max(start)).max(0)).sum();
        u64::try_from((end - start).max(0) - inside).unwrap_or(0)
    }

    /// Them as ASCII text of at most `budget` bytes, for the metadata beside a committed offset: without the highest
    /// ranges if there is no room, so that what is left out is replayed and nothing else. Under two bytes of budget the
    /// text is empty, and says nothing.
    ///
    /// The text is the version of this form and then, for each range, the offsets left out before it (of the first range:
    /// where it starts) and its length, each but the first less one, as the base64 VLQ numbers of JavaScript source maps:
    /// 5 bits a character, the lowest first, and a sixth that says whether there are more.
    #[must_use]
    pub fn encode(&self, budget: usize) -> String {
        let mut text = VERSION.to_owned();
        if budget < text.len() {
            return String::new();
        }
        let mut before = None;
        for (start, end) in self.iter() {
            let fits = text.len();
            push_number(before.map_or(start.cast_unsigned(), |end| start.abs_diff(end) - 1), &mut text);
            push_number(end.abs_diff(start) - 1, &mut text);
            if text.len() > budget {
                text.truncate(fits);
                break;
            }
            before = Some(end);
        }
        text
    }

    /// Reads what [`OffsetRanges::encode`] has written. `None` if the text is another's, of another version, or damaged.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let mut digits = text.strip_prefix(VERSION)?.bytes().peekable();
        let (mut ranges, mut before) = (Self::new(), None::<i64>);
        while digits.peek().is_some() {
            let gap = take_number(&mut digits)?;
            let start = match before {
                None => gap.cast_signed(),
                Some(end) => end.checked_add_unsigned(gap)?.checked_add(1)?,
            };
            let end = start.checked_add_unsigned(take_number(&mut digits)?)?.checked_add(1)?;
            ranges.0.push((start, end));
            before = Some(end);
        }
        Some(ranges)
    }
}

/// What an encoded text begins with: the version of its format.
const VERSION: &str = "1.";

/// The digits of base64 (RFC 4648).
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bit of a digit that says that more follow, above [`BITS`] of the number.
const MORE: u8 = 1 << BITS;
const BITS: u32 = 5;

fn push_number(mut number: u64, text: &mut String) {
    loop {
        let low = (number & u64::from(MORE - 1)) as u8;
        number >>= BITS;
        let digit = if number == 0 { low } else { low | MORE };
        text.push(char::from(DIGITS[usize::from(digit)]));
        if number == 0 {
            return;
        }
    }
}

/// `None` at the end, at what is no digit, and for a number that has more than 64 bits or more digits than it needs.
fn take_number(digits: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(BITS as usize) {
        let character = digits.next()?;
        let digit = u8::try_from(DIGITS.iter().position(|digit| *digit == character)?).ok()?;
        let low = u64::from(digit & !MORE);
        if low << shift >> shift != low {
            return None;
        }
        number |= low << shift;
        if digit & MORE == 0 {
            return (low != 0 || shift == 0).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(ranges: &[(i64, i64)]) -> OffsetRanges {
        let mut all = OffsetRanges::new();
        ranges.iter().for_each(|(start, end)| all.push(*start, *end));
        all
    }

    /// Ranges made of gaps and lengths, small ones and large ones.
    fn any_ranges() -> impl Strategy<Value = OffsetRanges> {
        let length = prop_oneof![4 => 1..40_i64, 1 => 1..1_i64 << 50];
        prop::collection::vec((length.clone(), length), 0..40).prop_map(|steps| {
            let (mut ranges, mut at) = (OffsetRanges::new(), 0);
            for (gap, length) in steps {
                ranges.push(at + gap, at + gap + length);
                at += gap + length;
            }
            ranges
        })
    }

    #[test]
    fn the_text_of_ranges_is_pinned() {
        assert_eq!(OffsetRanges::new().encode(100), "1.");
        assert_eq!(of(&[(0, 1)]).encode(100), "1.AA");
        assert_eq!(of(&[(1000, 1001), (1002, 1040), (5000, 5001)]).encode(100), "1.ofAAlB37DA");
    }

    #[test]
    fn the_ends_of_what_an_offset_can_be_are_written_and_read() {
        for ranges in [of(&[(0, i64::MAX)]), of(&[(i64::MIN, i64::MAX)]), of(&[(i64::MAX - 1, i64::MAX)])] {
            assert_eq!(OffsetRanges::decode(&ranges.encode(100)), Some(ranges));
        }
    }

    #[test]
    fn text_of_others_is_no_ranges() {
        for text in ["", "1", "2.AA", "AA", "1.A", "1.AA ", "1.A-", "{\"version\":1}", "1.gA", "1.ünï"] {
            assert_eq!(OffsetRanges::decode(text), None, "{text}");
        }
        let past_the_end = format!("1.{}A", "/".repeat(12));
        assert_eq!(OffsetRanges::decode(&past_the_end), None);
    }

    proptest! {
        #[test]
        fn ranges_come_back_as_they_were(ranges in any_ranges()) {
            prop_assert_eq!(OffsetRanges::decode(&ranges.encode(usize::MAX)), Some(ranges));
        }

        #[test]
        fn a_budget_keeps_the_lowest_ranges(ranges in any_ranges(), budget in 0..200_usize) {
            let text = ranges.encode(budget);
            prop_assert!(text.len() <= budget && text.is_ascii());
            let kept = OffsetRanges::decode(&text).unwrap_or_default();
            prop_assert!(ranges.0.starts_with(&kept.0));
            let one_more = OffsetRanges(ranges.0.iter().take(kept.len() + 1).copied().collect());
            prop_assert!(kept == ranges || one_more.encode(usize::MAX).len() > budget, "as many as fit");
        }

        #[test]
        fn what_is_read_is_what_would_be_written(text in "1\\.[A-Za-z0-9+/]{0,12}|.{0,8}") {
            if let Some(ranges) = OffsetRanges::decode(&text) {
                prop_assert_eq!(ranges.encode(usize::MAX), text);
            }
        }
    }
}
