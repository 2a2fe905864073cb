//! Emitting the parts of a text, as the words of a line, for less than emitting one after the other.

use super::{
    OutStream, Output, Reader, Router, Stream,
    execution::Run,
    lane::{Lane, Outbox},
    output::too_large,
};
use crate::tuple::{BatchFull, KeyGroups, KeyHash, Value};

impl Output {
    /// Emits each of `parts`, which are parts of `text`, as a tuple of one value on the first declared stream, anchored to
    /// the input: what [`Output::emit`] does for each of them, for less where one component reads the stream by its key.
    #[inline]
    pub fn emit_parts<'v>(&mut self, text: &'v str, parts: impl IntoIterator<Item = &'v str>) {
        let Self { streams, execution, outbox, misuse, .. } = self;
        if let Some(Stream { width: 1, readers, .. }) = streams.get_mut(OutStream::DEFAULT.0)
            && let [Reader { router: Router::Key { groups, .. }, lanes }] = readers.as_mut_slice()
            && let Some(mut run) = execution.run()
        {
            let mut ways = Ways { text, groups, lanes, outbox };
            let sent = if ways.are_few() { ways.share(&mut run, parts) } else { ways.copy(&mut run, parts) };
            if sent.is_err() {
                too_large(misuse);
            }
            execution.has_run(run);
            return;
        }
        parts.into_iter().for_each(|part| self.emit(&[Value::Str(part)]));
    }
}

/// The ways that the parts of a text may go, by their keys.
struct Ways<'a> {
    text: &'a str,
    groups: &'a KeyGroups,
    lanes: &'a mut [Lane],
    outbox: &'a mut Outbox,
}

impl Ways<'_> {
    /// Whether the text is to go every way as a whole: a few copies of it cost less than one of each part, whose length and
    /// way no processor can guess. In bytes of text: so many for each way that it pays, and no more than is read soon.
    #[inline]
    const fn are_few(&self) -> bool {
        const MOST_LANES: usize = 8;
        const BYTES_OF_A_LANE: usize = 8;
        const MOST_BYTES: usize = 512;
        let (lanes, bytes) = (self.lanes.len(), self.text.len());
        lanes <= MOST_LANES && bytes >= BYTES_OF_A_LANE * lanes && bytes <= MOST_BYTES
    }

    /// Every way gets the text, and tuples that are parts of it.
    #[inline]
    fn share<'v>(&mut self, run: &mut Run, parts: impl IntoIterator<Item = &'v str>) -> Result<(), BatchFull> {
        for lane in &mut *self.lanes {
            run.share(lane, self.text, self.outbox)?;
        }
        for part in parts {
            let Some(at) = place(self.text, part) else {
                self.copy(run, [part])?;
                continue;
            };
            let key = key(self.text, at, part.len());
            if let Some(lane) = self.lanes.get_mut(self.groups.owner(key)) {
                run.send_part(lane, key, at..at + part.len());
            }
        }
        Ok(())
    }

    /// Every part is copied.
    #[inline]
    fn copy<'v>(&mut self, run: &mut Run, parts: impl IntoIterator<Item = &'v str>) -> Result<(), BatchFull> {
        for part in parts {
            let key = place(self.text, part)
                .map_or_else(|| KeyHash::of_bytes(part.as_bytes()), |at| key(self.text, at, part.len()));
            if let Some(lane) = self.lanes.get_mut(self.groups.owner(key)) {
                run.send(lane, key, &[Value::Str(part)], self.outbox)?;
            }
        }
        Ok(())
    }
}

/// Where a part begins in its text, if it is one: memory that lies in both is the same.
#[inline]
fn place(text: &str, part: &str) -> Option<usize> {
    let at = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let room = text.len().checked_sub(at)?;
    (part.len() <= room).then_some(at)
}

/// The key that is a part of a text. A short one is hashed with what stands around it in the text, so that no branch depends
/// on how short it is.
#[expect(clippy::inline_always, reason = "a call for each word costs as much as its hash")]
#[inline(always)]
fn key(text: &str, at: usize, len: usize) -> KeyHash {
    let text = text.as_bytes();
    // Eight bytes from the part on; near the end of the text the last eight, of which those before the part are shifted away.
    let from = text.len().checked_sub(8).map(|last| last.min(at));
    let eight = from.and_then(|from| Some((from, text.get(from..)?.first_chunk::<8>()?)));
    match eight {
        Some((from, eight)) if len <= eight.len() => {
            let before = 8 * (at - from) as u32;
            KeyHash::of_short(u64::from_le_bytes(*eight).wrapping_shr(before).to_le_bytes(), len)
        }
        _ => KeyHash::of_bytes(text.get(at..at + len).unwrap_or_default()),
    }
}
