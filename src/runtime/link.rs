//! The ways between two executors: one for tuples, one for acks that tuples cannot fill, and back for the memory of both. What
//! one thread allocates and another one frees costs them a lock each time.

use std::{collections::VecDeque, time::Duration};

use rtrb::{Consumer, Producer, RingBuffer};

use super::wake::Bed;
use crate::{
    ack::{AckBuffer, AckMessage},
    clock::Instant,
    topology::TreeFailure,
    tuple::Batch,
};

/// Batches that a ring holds. Small, so that back-pressure is felt soon; what does not fit waits with its producer.
const DATA_SLOTS: usize = 64;
/// Batches that wait in a ring before its reader is woken for them, as long as the writer has more to do: to wake a thread
/// costs as much as working on some hundred tuples, and a reader that is faster than the writer would sleep after each batch.
const WAKE_AFTER: usize = 16;
/// How long they wait at most.
const WAKE_WITHIN: Duration = Duration::from_micros(500);
/// Ack packets that a ring holds; what does not fit goes on folding with its producer.
const ACK_SLOTS: usize = 16;

/// Acks on their way to the ledger of another executor.
#[derive(Debug, Default)]
pub(crate) struct AckPacket {
    pub(crate) acks: Vec<AckMessage>,
    pub(crate) failures: Vec<TreeFailure>,
}

/// The sending end of a link.
#[derive(Debug)]
pub(crate) struct Outgoing {
    data: Producer<Batch>,
    acks: Producer<AckPacket>,
    /// What the reader is done with.
    emptied: Consumer<Batch>,
    read: Consumer<Vec<AckMessage>>,
    /// What the ring had no room for. Bounded by what the spouts have in flight: they stop while it is not empty.
    overflow: VecDeque<Batch>,
    /// Acks that wait to be sent.
    pub(crate) pending_acks: AckBuffer,
    pub(crate) pending_failures: Vec<TreeFailure>,
    reader: Bed,
    /// Batches in the ring that the reader was not woken for, and since when.
    untold: usize,
    untold_since: Instant,
}

/// The receiving end of a link.
#[derive(Debug)]
pub(crate) struct Incoming {
    data: Consumer<Batch>,
    acks: Consumer<AckPacket>,
    emptied: Producer<Batch>,
    read: Producer<Vec<AckMessage>>,
    /// Batches that came and were not given back.
    owed: usize,
}

/// A link to the executor that sleeps in `reader`.
pub(crate) fn link(reader: Bed) -> (Outgoing, Incoming) {
    let (data, data_out) = RingBuffer::new(DATA_SLOTS);
    let (acks, acks_out) = RingBuffer::new(ACK_SLOTS);
    let (emptied, emptied_out) = RingBuffer::new(DATA_SLOTS);
    let (read, read_out) = RingBuffer::new(ACK_SLOTS);
    let outgoing = Outgoing {
        data,
        acks,
        emptied: emptied_out,
        read: read_out,
        overflow: VecDeque::new(),
        pending_acks: AckBuffer::default(),
        pending_failures: Vec::new(),
        reader,
        untold: 0,
        untold_since: Instant::FAR_FUTURE,
    };
    (outgoing, Incoming { data: data_out, acks: acks_out, emptied, read, owed: 0 })
}

impl Outgoing {
    /// Sends a batch, now or as soon as there is room.
    pub(crate) fn send(&mut self, batch: Batch) {
        if !self.overflow.is_empty() {
            self.overflow.push_back(batch);
        } else if let Err(rtrb::PushError::Full(batch)) = self.data.push(batch) {
            self.overflow.push_back(batch);
        } else {
            self.untold += 1;
            if self.untold >= WAKE_AFTER {
                self.wake();
            }
        }
    }

    fn wake(&mut self) {
        (self.untold, self.untold_since) = (0, Instant::FAR_FUTURE);
        self.reader.wake();
    }

    /// Sends what waits and fits now. `idle`: there is nothing else to do. True if something was sent.
    pub(crate) fn pump(&mut self, now: Instant, idle: bool) -> bool {
        let mut sent = false;
        while let Some(batch) = self.overflow.pop_front() {
            if let Err(rtrb::PushError::Full(batch)) = self.data.push(batch) {
                self.overflow.push_front(batch);
                break;
            }
            sent = true;
        }
        let acks = !self.pending_acks.is_empty() || !self.pending_failures.is_empty();
        if acks && self.acks.slots() > 0 {
            let packet = AckPacket {
                acks: self.pending_acks.take(self.read.pop().unwrap_or_default()),
                failures: std::mem::take(&mut self.pending_failures),
            };
            // There is room: only this end fills it.
            sent |= self.acks.push(packet).is_ok();
        }
        if self.untold > 0 {
            self.untold_since = self.untold_since.min(now);
        }
        if sent || (self.untold > 0 && (idle || now - self.untold_since >= WAKE_WITHIN)) {
            self.wake();
        }
        sent
    }

    /// A batch to fill again, if one came back.
    pub(crate) fn take_emptied(&mut self) -> Option<Batch> {
        self.emptied.pop().ok()
    }

    /// Tuples that wait for room.
    pub(crate) fn waiting_tuples(&self) -> usize {
        self.overflow.iter().map(Batch::len).sum()
    }

    /// True if tuples wait for room.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.overflow.is_empty()
    }

    /// True if anything waits to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.is_blocked() || !self.pending_acks.is_empty() || !self.pending_failures.is_empty()
    }

    /// When the oldest waiting tuple was emitted.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.overflow.iter().map(|batch| batch.born).min()
    }
}

impl Incoming {
    pub(crate) fn next_batch(&mut self) -> Option<Batch> {
        let batch = self.data.pop().ok()?;
        self.owed += 1;
        Some(batch)
    }

    /// Gives back as many batches as came, those in `spare`, as far as there are and as there is room.
    pub(crate) fn give_back(&mut self, spare: &mut Vec<Batch>) {
        while self.owed > 0
            && self.emptied.slots() > 0
            && let Some(batch) = spare.pop()
        {
            // There is room: only this end fills it.
            self.owed -= usize::from(self.emptied.push(batch).is_ok());
        }
    }

    /// Gives back what acks came in.
    pub(crate) fn give_back_acks(&mut self, acks: Vec<AckMessage>) {
        // Without room it is freed.
        drop(self.read.push(acks));
    }

    pub(crate) fn next_acks(&mut self) -> Option<AckPacket> {
        self.acks.pop().ok()
    }

    /// When the tuples of the next batch were emitted, the oldest of them.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.data.peek().ok().map(|batch| batch.born)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuple::{StreamId, TaskId};

    fn batch() -> Batch {
        Batch::new(StreamId(0), TaskId(0), 1, 4)
    }

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    #[test]
    fn a_reader_is_woken_for_many_batches_and_for_few_when_the_writer_has_nothing_else_to_do() {
        let bed = Bed::default();
        let (mut outgoing, _incoming) = link(bed.clone());
        for n in 1..=2 * WAKE_AFTER {
            outgoing.send(batch());
            assert_eq!(bed.was_called(), n % WAKE_AFTER == 0, "batch {n}");
        }
        outgoing.send(batch());
        outgoing.pump(at(0), false);
        assert!(!bed.was_called(), "there is more to do");
        outgoing.pump(at(1), true);
        assert!(bed.was_called());
        outgoing.pump(at(2), true);
        assert!(!bed.was_called(), "it was told");
    }

    #[test]
    fn a_batch_does_not_wait_for_others_for_long() {
        let bed = Bed::default();
        let (mut outgoing, _incoming) = link(bed.clone());
        let wait = u64::try_from(WAKE_WITHIN.as_micros()).unwrap();
        outgoing.send(batch());
        for (us, woken) in [(1_000, false), (1_000 + wait - 1, false), (1_000 + wait, true), (1_000 + 2 * wait, false)]
        {
            outgoing.pump(at(us), false);
            assert_eq!(bed.was_called(), woken, "after {us} us");
        }
    }

    #[test]
    fn a_reader_is_woken_for_acks_at_once() {
        let bed = Bed::default();
        let (mut outgoing, mut incoming) = link(bed.clone());
        outgoing.pending_acks.ack(crate::tuple::RootId::new(0, 1, 1), 7, 0);
        assert!(outgoing.pump(at(0), false) && bed.was_called());
        let acks = incoming.next_acks().unwrap().acks;
        let memory = acks.as_ptr();
        incoming.give_back_acks(acks);
        outgoing.pending_acks.ack(crate::tuple::RootId::new(0, 2, 1), 7, 0);
        outgoing.pump(at(1), false);
        outgoing.pending_acks.ack(crate::tuple::RootId::new(0, 3, 1), 7, 0);
        outgoing.pump(at(2), false);
        let memories: Vec<_> = std::iter::from_fn(|| incoming.next_acks()).map(|packet| packet.acks.as_ptr()).collect();
        assert_eq!((memories.len(), memories.get(1)), (2, Some(&memory)), "what came back is filled again");
    }

    #[test]
    fn as_many_batches_come_back_as_were_sent() {
        let (mut outgoing, mut incoming) = link(Bed::default());
        let mut spare = vec![batch(), batch(), batch()];
        incoming.give_back(&mut spare);
        assert_eq!(spare.len(), 3, "none came");
        outgoing.send(batch());
        outgoing.send(batch());
        spare.extend(std::iter::from_fn(|| incoming.next_batch()));
        incoming.give_back(&mut spare);
        incoming.give_back(&mut spare);
        assert_eq!(spare.len(), 3);
        assert_eq!(std::iter::from_fn(|| outgoing.take_emptied()).count(), 2);
    }
}
