//! The ways between two executors: one for tuples, and one for acks that tuples cannot fill.

use std::collections::VecDeque;

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
    /// What the ring had no room for. Bounded by what the spouts have in flight: they stop while it is not empty.
    overflow: VecDeque<Batch>,
    /// Acks that wait to be sent.
    pub(crate) pending_acks: AckBuffer,
    pub(crate) pending_failures: Vec<TreeFailure>,
    reader: Bed,
}

/// The receiving end of a link.
#[derive(Debug)]
pub(crate) struct Incoming {
    data: Consumer<Batch>,
    acks: Consumer<AckPacket>,
}

/// A link to the executor that sleeps in `reader`.
pub(crate) fn link(reader: Bed) -> (Outgoing, Incoming) {
    let (data, data_out) = RingBuffer::new(DATA_SLOTS);
    let (acks, acks_out) = RingBuffer::new(ACK_SLOTS);
    let outgoing = Outgoing {
        data,
        acks,
        overflow: VecDeque::new(),
        pending_acks: AckBuffer::default(),
        pending_failures: Vec::new(),
        reader,
    };
    (outgoing, Incoming { data: data_out, acks: acks_out })
}

impl Outgoing {
    /// Sends a batch, now or as soon as there is room.
    pub(crate) fn send(&mut self, batch: Batch) {
        if !self.overflow.is_empty() {
            self.overflow.push_back(batch);
        } else if let Err(rtrb::PushError::Full(batch)) = self.data.push(batch) {
            self.overflow.push_back(batch);
        } else {
            self.reader.wake();
        }
    }

    /// Sends what waits and fits now. True if something was sent.
    pub(crate) fn pump(&mut self) -> bool {
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
                acks: self.pending_acks.take(Vec::new()),
                failures: std::mem::take(&mut self.pending_failures),
            };
            // There is room: only this end fills it.
            sent |= self.acks.push(packet).is_ok();
        }
        if sent {
            self.reader.wake();
        }
        sent
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
        self.data.pop().ok()
    }

    pub(crate) fn next_acks(&mut self) -> Option<AckPacket> {
        self.acks.pop().ok()
    }

    /// When the tuples of the next batch were emitted, the oldest of them.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.data.peek().ok().map(|batch| batch.born)
    }
}
