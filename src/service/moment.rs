//! Moments as people write them: `2026-11-29T20:20:20Z`, or `-1h` for an hour ago.

use jiff::{Span, SpanRelativeTo, Timestamp};

/// The milliseconds since 1970 that `text` means, if it is `now` milliseconds since 1970.
///
/// # Errors
/// A sentence that says what can be written.
pub(crate) fn parse(text: &str, now: i64) -> Result<i64, String> {
    let found = match text.strip_prefix('-') {
        Some(ago) => millis_of(ago).and_then(|millis| now.checked_sub(millis)),
        None => text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond),
    };
    found.filter(|millis| *millis >= 0).ok_or_else(|| {
        format!("\"{text}\" is no time: write it as 2026-11-29T20:20:20Z, or as -1h for an hour ago (d, h, m, s)")
    })
}

/// `1h`, `2d 30m`.
fn millis_of(span: &str) -> Option<i64> {
    let span: Span = span.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    i64::try_from(duration.as_millis()).ok().filter(|millis| *millis >= 0)
}

/// RFC 3339 in UTC; empty for what is no moment.
pub(crate) fn show(millis: i64) -> String {
    let moment = Timestamp::from_millisecond(millis).ok().filter(|_| millis >= 0);
    moment.map_or_else(String::new, |moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_796_000_000_000;

    #[test]
    fn moments_are_read_as_they_are_shown() {
        for millis in [0, 1, NOW, NOW + 999] {
            assert_eq!(parse(&show(millis), NOW), Ok(millis));
        }
        assert_eq!(parse("2026-11-29T21:20:20.5+01:00", NOW), parse("2026-11-29T20:20:20.500Z", NOW));
        assert_eq!(show(-1), "");
    }

    #[test]
    fn a_span_is_so_long_ago() {
        let ago = |text| parse(text, NOW).map(|millis| NOW - millis);
        assert_eq!(
            [ago("-1h"), ago("-90m"), ago("-2d"), ago("-1h 30s"), ago("-0s")],
            [3_600_000, 5_400_000, 172_800_000, 3_630_000, 0].map(Ok)
        );
    }

    #[test]
    fn what_is_no_moment_is_answered_with_how_to_write_one() {
        for text in ["", "yesterday", "1h", "-", "--1h", "-100000d", "2026-11-29", "2026-11-29T20:20:20", "1796000000"]
        {
            let sentence = parse(text, NOW).unwrap_err();
            assert!(sentence.starts_with(&format!("\"{text}\" is no time")), "{sentence}");
        }
    }
}
