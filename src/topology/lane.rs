//! A batch in the making: the way from one emitting task to one reading task.

use std::{mem, ops::Range};

use crate::{
    clock::Instant,
    tuple::{Anchor, Batch, BatchFull, Edge, KeyHash, Mark, RootId, StreamId, TaskId, Value},
};

/// Tuples of one stream for one task that were not sent yet.
///
/// What an `execute` has put in can be taken back until the next one starts: the first push of an execution notes the
/// length before it, and only then is a full batch sealed.
#[derive(Debug)]
pub(crate) struct Lane {
    batch: Batch,
    width: usize,
    before: Mark,
    execution: u64,
    /// Where in the batch the text begins that parts are of.
    text: usize,
}

/// Batches on their way out, and the memory of batches that came back.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Sealed, oldest first.
    pub(crate) sealed: Vec<Batch>,
    /// Emptied batches to fill again.
    pub(super) spare: Vec<Batch>,
    /// Tuples sealed since the last look, by stream.
    pub(crate) emitted: Vec<(StreamId, u64)>,
}

impl Outbox {
    /// Emptied batches that are kept for reuse: enough for every lane of a task, without hoarding.
    const MAX_SPARE: usize = 64;
    /// A batch that has grown beyond this (bytes) is freed instead of kept.
    const MAX_SPARE_BYTES: usize = 256 * 1024;

    /// Takes back the memory of a batch that was worked on.
    pub(crate) fn recycle(&mut self, mut batch: Batch) {
        if self.spare.len() < Self::MAX_SPARE && batch.capacity() <= Self::MAX_SPARE_BYTES {
            batch.clear();
            self.spare.push(batch);
        }
    }

    fn note_emitted(&mut self, stream: StreamId, tuples: u64) {
        match self.emitted.iter_mut().find(|(of, _)| *of == stream) {
            Some((_, sum)) => *sum += tuples,
            None => self.emitted.push((stream, tuples)),
        }
    }

    fn fresh(&mut self, stream: StreamId, target: TaskId, width: usize, rows: usize) -> Batch {
        match self.spare.pop() {
            Some(mut batch) => {
                batch.redirect(stream, target, width);
                batch
            }
            None => Batch::new(stream, target, width, rows),
        }
    }
}

impl Lane {
    pub(crate) fn new(stream: StreamId, target: TaskId, width: usize) -> Self {
        Self { batch: Batch::new(stream, target, width, 0), width, before: Mark::default(), execution: 0, text: 0 }
    }

    pub(crate) const fn target(&self) -> TaskId {
        self.batch.target
    }

    /// Readies the lane for a push of this execution.
    #[inline]
    pub(crate) fn touch(&mut self, execution: u64, limit: usize, now: Instant, outbox: &mut Outbox) {
        // Whether the execution has pushed here before is a toss-up where it emits to several lanes: no branch depends on it.
        let is_first = self.execution != execution;
        if is_first & (self.batch.len() >= limit) {
            self.seal(outbox, limit);
        }
        if self.batch.is_empty() {
            self.batch.born = now;
        }
        self.execution = execution;
        self.before = Mark::select(is_first, self.batch.mark(), self.before);
    }

    #[expect(clippy::inline_always, reason = "see Output::emit_on")]
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        root: RootId,
        edge: Edge,
        key: KeyHash,
        values: &[Value<'_>],
    ) -> Result<(), BatchFull> {
        self.batch.push(root, edge, key, values)
    }

    /// Texts that no tuple is a part of are only in the way.
    #[inline]
    pub(super) fn forget_text(&mut self) {
        if self.batch.is_empty() {
            self.batch.clear();
        }
    }

    /// Takes a text that tuples will be parts of.
    #[inline]
    pub(super) fn share(&mut self, text: &str) -> Result<(), BatchFull> {
        self.text = self.batch.push_text(text)?;
        Ok(())
    }

    /// A tuple of one value, these bytes of the text that was taken last.
    #[inline]
    pub(super) fn push_part(&mut self, root: RootId, edge: Edge, key: KeyHash, part: Range<usize>) {
        self.batch.push_part(root, edge, key, self.text + part.start..self.text + part.end);
    }

    pub(crate) fn push_anchor(&mut self, anchor: Anchor) {
        self.batch.push_anchor(anchor);
    }

    /// Takes back what `execution` has pushed.
    pub(crate) fn take_back(&mut self, execution: u64) {
        if self.execution == execution {
            self.batch.truncate(self.before);
        }
    }

    /// When the oldest tuple was put in; `None` if there is none.
    pub(crate) fn born(&self) -> Option<Instant> {
        (!self.batch.is_empty()).then_some(self.batch.born)
    }

    /// Sends what is there.
    pub(crate) fn seal(&mut self, outbox: &mut Outbox, rows: usize) {
        if self.batch.is_empty() {
            return;
        }
        // Room for as many as came this time: where few come, most of a full batch's memory would never be touched.
        let rows = self.batch.len().next_power_of_two().min(rows);
        let fresh = outbox.fresh(self.batch.stream, self.batch.target, self.width, rows);
        outbox.note_emitted(self.batch.stream, self.batch.len() as u64);
        outbox.sealed.push(mem::replace(&mut self.batch, fresh));
        self.before = Mark::default();
    }
}
