//! Records of one partition that are not done, held in the blocks in which they came, so that a retry comes from memory.

use std::{collections::VecDeque, ops::Range};

use super::offsets::Seq;
use crate::{kafka::client::record::RecordBlock, topology::MessageId};

/// A record's name in the topology: 16 bits for the partition's slot, 48 for the record.
///
/// Records are counted on when a slot is used again, so a late ack never meets a record of another assignment.
#[must_use]
#[inline]
pub(super) const fn message_id(slot: usize, seq: Seq) -> MessageId {
    MessageId((slot as u64) << 48 | (seq.0 & SEQ_MASK))
}

/// Slot and record of a [`message_id`].
#[must_use]
#[inline]
pub(super) const fn unpack(id: MessageId) -> (usize, Seq) {
    ((id.0 >> 48) as usize, Seq(id.0 & SEQ_MASK))
}

const SEQ_MASK: u64 = (1 << 48) - 1;

/// Slots that a [`message_id`] can name.
pub(super) const MAX_SLOTS: usize = 1 << 16;

/// A block with at least one record that is not done; its place is kept until the blocks before it are gone.
#[derive(Debug)]
struct Held {
    first: u64,
    len: usize,
    /// Records at the block's beginning that are none of ours.
    skipped: usize,
    open: usize,
    /// `None` once all its records are done.
    block: Option<RecordBlock>,
    /// Bytes that the block holds on to.
    memory: usize,
}

/// The blocks of one partition, from the oldest with an open record to the newest.
#[derive(Debug)]
pub(super) struct Pending {
    held: VecDeque<Held>,
    /// The next record to emit for the first time, and the place of its block.
    cursor: u64,
    cursor_block: usize,
    end: u64,
    /// Records from the cursor on that are not to be emitted, in order.
    skips: VecDeque<Range<u64>>,
    bytes: usize,
    /// Where the last record was found: the next one is nearly always there too.
    hint: usize,
}

impl Pending {
    pub(super) const fn new(first: Seq) -> Self {
        Self {
            held: VecDeque::new(),
            cursor: first.0,
            cursor_block: 0,
            end: first.0,
            skips: VecDeque::new(),
            bytes: 0,
            hint: 0,
        }
    }

    /// Takes a block whose records from `range` on are `first` and following.
    pub(super) fn push(&mut self, block: RecordBlock, range: Range<usize>, first: Seq) {
        debug_assert_eq!(first.0, self.end, "blocks follow each other");
        let memory = block.memory();
        self.bytes += memory;
        self.end = first.0 + range.len() as u64;
        self.held.push_back(Held {
            first: first.0,
            len: range.len(),
            skipped: range.start,
            open: range.len(),
            block: Some(block),
            memory,
        });
    }

    /// Records never emitted.
    pub(super) const fn unemitted(&self) -> u64 {
        self.end - self.cursor
    }

    /// The next record to emit for the first time.
    pub(super) const fn cursor(&self) -> Seq {
        Seq(self.cursor)
    }

    /// Bytes that the blocks hold on to.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Up to `limit` records to emit for the first time: a block, the records' places in it, and the first one's name.
    #[inline]
    pub(super) fn fresh(&self, limit: u64) -> Option<(&RecordBlock, Range<usize>, Seq)> {
        let held = self.held.get(self.cursor_block)?;
        let at = usize::try_from(self.cursor - held.first).ok()?;
        let until_skip = self.skips.front().map_or(limit, |skip| limit.min(skip.start - self.cursor));
        let len = (held.len - at).min(usize::try_from(until_skip).unwrap_or(usize::MAX));
        let start = held.skipped + at;
        (len > 0).then_some((held.block.as_ref()?, start..start + len, Seq(self.cursor)))
    }

    /// `records` of [`Pending::fresh`] were emitted.
    #[inline]
    pub(super) fn emitted(&mut self, records: usize) {
        self.move_to(self.cursor + records as u64);
        self.pass_skips();
    }

    #[inline]
    fn move_to(&mut self, cursor: u64) {
        self.cursor = cursor;
        while self.held.get(self.cursor_block).is_some_and(|held| cursor >= held.first + held.len as u64) {
            self.cursor_block += 1;
        }
    }

    #[inline]
    fn pass_skips(&mut self) {
        while let Some(skip) = self.skips.pop_front_if(|skip| skip.start == self.cursor) {
            self.move_to(skip.end);
        }
    }

    /// A record was done before and is not to be emitted: each is told of once, in their order, before later ones are
    /// emitted. Gives the block back as [`Pending::done`] does.
    pub(super) fn skip(&mut self, seq: Seq) -> Option<RecordBlock> {
        match self.skips.back_mut() {
            Some(last) if last.end == seq.0 => last.end += 1,
            _ => self.skips.push_back(seq.0..seq.0 + 1),
        }
        self.pass_skips();
        self.done(seq)
    }

    #[inline]
    fn find(&mut self, seq: Seq) -> Option<usize> {
        let is_in = |held: &Held| (held.first..held.first + held.len as u64).contains(&seq.0);
        if !self.held.get(self.hint).is_some_and(is_in) {
            let after = self.held.partition_point(|held| held.first <= seq.0);
            self.hint = after.checked_sub(1)?;
        }
        self.held.get(self.hint).is_some_and(is_in).then_some(self.hint)
    }

    /// The block of a record that is not done, and the record's place in it.
    pub(super) fn record(&mut self, seq: Seq) -> Option<(&RecordBlock, usize)> {
        let found = self.find(seq)?;
        let held = self.held.get(found)?;
        let at = usize::try_from(seq.0 - held.first).ok()?;
        Some((held.block.as_ref()?, held.skipped + at))
    }

    /// A record is done, for the first time. Gives the block back if it was the last open one in it.
    #[inline]
    pub(super) fn done(&mut self, seq: Seq) -> Option<RecordBlock> {
        let found = self.find(seq)?;
        let held = self.held.get_mut(found)?;
        held.open = held.open.saturating_sub(1);
        if held.open > 0 {
            return None;
        }
        self.bytes = self.bytes.saturating_sub(held.memory);
        let freed = held.block.take();
        while self.held.front().is_some_and(|held| held.block.is_none()) && self.cursor_block > 0 {
            self.held.pop_front();
            self.cursor_block -= 1;
            self.hint = self.hint.saturating_sub(1);
        }
        freed
    }

    /// All blocks, when the partition leaves.
    pub(super) fn into_blocks(self) -> impl Iterator<Item = RecordBlock> {
        self.held.into_iter().filter_map(|held| held.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::client::{AssignmentEpoch, Offset, TopicPartition};

    fn block(offsets: Range<i64>) -> RecordBlock {
        let mut block = RecordBlock::new(TopicPartition::new("t", 0), AssignmentEpoch(1));
        for offset in offsets {
            block.push(Offset(offset), 0, None, Some(offset.to_string().as_bytes()), b"");
        }
        block
    }

    #[test]
    fn an_id_gives_back_slot_and_record() {
        let id = message_id(MAX_SLOTS - 1, Seq(SEQ_MASK));
        assert_eq!(unpack(id), (MAX_SLOTS - 1, Seq(SEQ_MASK)));
    }

    #[test]
    fn a_blocks_bytes_go_when_all_its_records_are_done_whatever_is_before_it() {
        let mut pending = Pending::new(Seq(100));
        pending.push(block(0..3), 0..3, Seq(100));
        pending.push(block(3..6), 1..3, Seq(103));
        assert_eq!(pending.unemitted(), 5);
        let (_, range, first) = pending.fresh(2).unwrap();
        assert_eq!((range, first), (0..2, Seq(100)));
        pending.emitted(2);
        assert_eq!(pending.fresh(9).unwrap().1, 2..3);
        pending.emitted(1);
        assert_eq!(pending.fresh(9).unwrap().1, 1..3);
        pending.emitted(2);
        assert!(pending.fresh(9).is_none());

        let before = pending.bytes();
        assert!(pending.done(Seq(103)).is_none());
        assert_eq!(pending.done(Seq(104)).unwrap().len(), 3);
        assert!(pending.bytes() < before);
        let (held, at) = pending.record(Seq(101)).unwrap();
        assert_eq!(held.value(at), Some(&b"1"[..]));
        assert!(pending.record(Seq(104)).is_none());
        for seq in 100..103 {
            pending.done(Seq(seq));
        }
        assert_eq!((pending.bytes(), pending.held.len()), (0, 0));
        pending.push(block(6..7), 0..1, Seq(105));
        assert_eq!(pending.fresh(9).unwrap().2, Seq(105));
    }

    #[test]
    fn records_that_were_done_before_are_never_emitted() {
        let mut pending = Pending::new(Seq(0));
        pending.push(block(0..6), 0..6, Seq(0));
        pending.push(block(6..8), 0..2, Seq(6));
        pending.push(block(8..10), 0..2, Seq(8));
        assert!([0, 2, 3].into_iter().all(|seq| pending.skip(Seq(seq)).is_none()));
        // A whole block.
        assert!(pending.skip(Seq(6)).is_none() && pending.skip(Seq(7)).is_some());
        let mut emitted = Vec::new();
        while let Some((_, range, first)) = pending.fresh(9) {
            emitted.extend(first.0..first.0 + range.len() as u64);
            let len = range.len();
            pending.emitted(len);
        }
        assert_eq!(emitted, [1, 4, 5, 8, 9]);
        let freed = emitted.into_iter().filter_map(|seq| pending.done(Seq(seq))).count();
        assert_eq!((freed, pending.bytes(), pending.held.len(), pending.skips.len()), (2, 0, 0, 0));
    }
}
