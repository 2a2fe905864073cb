//! What travels back from bolts to the ledger, and the buffer in which it folds.

use std::{mem, vec};

use crate::tuple::RootId;

/// How the processing of an input ended.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// Acked.
    Done,
    /// Failed: the whole tree fails, at once and without waiting for its other branches.
    Failed,
}

/// One or more acks of a tree's inputs, or one fail (Storm: `__ack_ack` and `__ack_fail`, one message an input and root).
///
/// 24 bytes. A tuple that is anchored in several trees is acked by one message for each.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct AckMessage {
    /// The tree.
    pub root: RootId,
    /// XOR of the ack values. The ack value of an input is its edge XOR the edges of all tuples that were anchored to it.
    pub xor: u64,
    /// Executions at components where a repeat would be seen from outside (stateful bolts, sinks).
    pub effects: u32,
    /// Acks folded into this message: 1 for a single one, 0 for a fail or a touch.
    pub acks: u16,
    /// Acked or failed.
    pub verdict: Verdict,
}

// A cache line holds two and a half; what is added here is paid once a word.
const _: () = assert!(size_of::<AckMessage>() == 24);

impl AckMessage {
    /// One input acked.
    #[must_use]
    #[inline]
    pub const fn done(root: RootId, xor: u64, effects: u32) -> Self {
        Self { root, xor, effects, acks: 1, verdict: Verdict::Done }
    }

    /// One input failed.
    #[must_use]
    #[inline]
    pub const fn failed(root: RootId, effects: u32) -> Self {
        Self { root, xor: 0, effects, acks: 0, verdict: Verdict::Failed }
    }

    /// Progress without an ack: an input that is held on purpose (Storm: `resetTimeout`).
    #[must_use]
    #[inline]
    pub const fn touch(root: RootId) -> Self {
        Self { root, xor: 0, effects: 0, acks: 0, verdict: Verdict::Done }
    }

    /// Acks and fails in this message: what a ledger counts if it has no tree for them.
    #[must_use]
    #[inline]
    pub fn inputs(&self) -> u64 {
        u64::from(self.acks) + u64::from(self.verdict == Verdict::Failed)
    }

    /// Takes `next` into this message, or refuses: another tree, a fail, or a count that would not fit.
    #[inline]
    fn fold(&mut self, next: &Self) -> bool {
        if self.root != next.root || self.verdict != Verdict::Done || next.verdict != Verdict::Done {
            return false;
        }
        let (Some(acks), Some(effects)) = (self.acks.checked_add(next.acks), self.effects.checked_add(next.effects))
        else {
            return false;
        };
        self.xor ^= next.xor;
        self.acks = acks;
        self.effects = effects;
        true
    }
}

/// Messages on their way to one ledger. Acks for one tree that come one after another fold into one message; a fail
/// never folds, and messages without a tree (unanchored inputs) are dropped here.
///
/// ```
/// use stormglass::{ack::AckBuffer, tuple::RootId};
///
/// let (line, next_line) = (RootId::new(0, 7, 1), RootId::new(0, 8, 1));
/// let mut buffer = AckBuffer::with_capacity(64);
/// for word in 1..=12 {
///     buffer.ack(line, word, 1);
/// }
/// buffer.ack(next_line, 99, 1);
///
/// let messages: Vec<_> = buffer.drain().collect();
/// assert_eq!(messages.len(), 2);
/// assert_eq!((messages[0].root, messages[0].acks, messages[0].effects), (line, 12, 12));
/// ```
#[derive(Debug)]
pub struct AckBuffer {
    messages: Vec<AckMessage>,
    /// The message that acks fold into, apart from the others: an ack of the same tree touches nothing else. Without a
    /// tree it is no message.
    open: AckMessage,
}

impl Default for AckBuffer {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl AckBuffer {
    /// An empty buffer with room for `capacity` messages; it grows when needed and keeps what it has.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { messages: Vec::with_capacity(capacity), open: AckMessage::touch(RootId::NONE) }
    }

    /// An input of `root` is acked; `xor` is its edge XOR the edges of all tuples anchored to it.
    #[inline]
    pub fn ack(&mut self, root: RootId, xor: u64, effects: u32) {
        self.push(AckMessage::done(root, xor, effects));
    }

    /// An input of `root` has failed.
    #[inline]
    pub fn fail(&mut self, root: RootId, effects: u32) {
        self.push(AckMessage::failed(root, effects));
    }

    /// An input of `root` is still being worked on.
    #[inline]
    pub fn touch(&mut self, root: RootId) {
        self.push(AckMessage::touch(root));
    }

    /// Adds a message, folding it into the last one where that loses nothing.
    #[inline]
    pub fn push(&mut self, message: AckMessage) {
        if !self.open.fold(&message) {
            self.open_with(message);
        }
    }

    /// Goes on with another message.
    fn open_with(&mut self, message: AckMessage) {
        if message.root.is_none() {
            return;
        }
        self.close();
        self.open = message;
    }

    /// Puts the open message to the others.
    fn close(&mut self) {
        let open = mem::replace(&mut self.open, AckMessage::touch(RootId::NONE));
        if !open.root.is_none() {
            self.messages.push(open);
        }
    }

    /// Messages after folding.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len() + usize::from(!self.open.root.is_none())
    }

    /// True if there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes all messages out, oldest first, and keeps the memory.
    pub fn drain(&mut self) -> vec::Drain<'_, AckMessage> {
        self.close();
        self.messages.drain(..)
    }

    /// Takes all messages out as one vector and goes on with `spare`'s memory, so that two vectors can travel to and fro.
    #[must_use]
    pub fn take(&mut self, mut spare: Vec<AckMessage>) -> Vec<AckMessage> {
        spare.clear();
        self.close();
        mem::replace(&mut self.messages, spare)
    }
}
