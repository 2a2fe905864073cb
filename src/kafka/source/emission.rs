//! What the spout emits, and what becomes of what has failed.

use super::{
    KafkaSpout, Slot,
    format::{Scratch, Undecodable},
    offsets::Seq,
    options::{KafkaSpoutOptions, RecordField},
    partition::Partition,
    pending::message_id,
    retry::Verdict,
    round::Round,
};
use crate::{
    clock::Instant,
    kafka::{
        client::record::{NO_TIMESTAMP, RecordBlock},
        dead_letters::Letter,
    },
    metrics::{DeadLetterReason, DuplicateOutcome, ReplayReason},
    topology::{ComponentError, ComponentResult, Failure, SpoutOutput, TaskContext},
    tuple::Value,
};

/// Most fields of a record.
const MAX_FIELDS: usize = 6;

/// How many of the records that were given up are remembered.
const GIVEN_UP: usize = 4096;

/// How soon the spout looks again for the answer to dead letters, and for room among them.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(2);

/// Records that were decided without being emitted; kept from call to call.
#[derive(Debug, Default)]
pub(super) struct Decided {
    done: Vec<Seq>,
    bad: Vec<(Seq, Undecodable)>,
}

/// A record, its name and its values, on their way out.
struct Emitter<'a, 'o> {
    options: &'a KafkaSpoutOptions,
    scratch: &'a mut Scratch,
    out: &'a mut SpoutOutput<'o>,
}

/// What one record came to.
enum Emitted {
    Yes,
    Nothing,
    Bad(Undecodable),
}

impl Emitter<'_, '_> {
    #[inline]
    fn emit(&mut self, slot: usize, partition: (&Partition, &RecordBlock), at: usize, seq: Seq) -> Emitted {
        let (partition, block) = partition;
        let Some(head) = block.records().get(at) else { return Emitted::Nothing };
        let value = match self.options.decoder.decode(block.value(at), self.scratch) {
            Ok(Some(value)) => value,
            Ok(None) => return Emitted::Nothing,
            Err(bad) => return Emitted::Bad(bad),
        };
        let (id, lineage) = (message_id(slot, seq), partition.lineage.record(head.offset));
        if let [RecordField::Value] = *self.options.fields {
            self.out.emit(id, lineage, &[value]);
            return Emitted::Yes;
        }
        let mut values = [Value::Null; MAX_FIELDS];
        for (place, field) in values.iter_mut().zip(&self.options.fields) {
            *place = match field {
                RecordField::Value => value,
                RecordField::Key => {
                    block.key(at).map_or(Value::Null, |key| str::from_utf8(key).map_or(Value::Bytes(key), Value::Str))
                }
                RecordField::Topic => Value::Str(&partition.id.topic),
                RecordField::Partition => Value::Int(partition.id.partition.into()),
                RecordField::Offset => Value::Int(head.offset.0),
                RecordField::Timestamp if head.timestamp == NO_TIMESTAMP => Value::Null,
                RecordField::Timestamp => Value::Int(head.timestamp),
            };
        }
        self.out.emit(id, lineage, values.get(..self.options.fields.len()).unwrap_or_default());
        Emitted::Yes
    }
}

impl KafkaSpout {
    /// Whether the options fit the declaration.
    pub(super) fn check(&self, context: &TaskContext) -> ComponentResult {
        let fields = self.options.fields.len();
        if fields == 0 || fields > MAX_FIELDS {
            return Err(ComponentError::permanent(format!(
                "spout {:?} emits {fields} fields of a record; it must be 1 to {MAX_FIELDS}",
                context.component
            )));
        }
        match context.outputs.first() {
            Some(stream) if stream.fields.len() != fields => Err(ComponentError::permanent(format!(
                "spout {:?} declares {} fields and its options name {fields}",
                context.component,
                stream.fields.len()
            ))),
            _ => Ok(()),
        }
    }

    /// Emits retries that are due, then new records; says how many records it dealt with.
    pub(super) fn emit(&mut self, budget: usize, out: &mut SpoutOutput<'_>) -> usize {
        let mut dealt = 0;
        for slot in 0..self.slots.len() {
            while dealt < budget && self.emit_retry(slot, out) {
                dealt += 1;
            }
        }
        // One partition a call, in turns: its records stay together in the cache and the batch.
        for _ in 0..self.slots.len() {
            let room = self.options.max_pending_records.saturating_sub(self.in_flight);
            let limit = (budget - dealt).min(room);
            if limit == 0 || self.letters.is_full() {
                break;
            }
            let (slot, end) = (self.turn % self.slots.len(), dealt + limit);
            self.turn = slot + 1;
            // A run ends with its block, and before what an earlier reader had done.
            while dealt < end && !self.letters.is_full() {
                let run = self.emit_fresh(slot, end - dealt, out);
                dealt += run;
                if run == 0 {
                    break;
                }
            }
        }
        dealt
    }

    fn emit_retry(&mut self, at: usize, out: &mut SpoutOutput<'_>) -> bool {
        let Some(Some(Slot { partition, .. })) = self.slots.get_mut(at) else { return false };
        if partition.leaving {
            return false;
        }
        let Some((seq, reason)) = partition.retries.pop_due(self.now) else { return false };
        let mut emitter = Emitter { options: &self.options, scratch: &mut self.scratch, out };
        // A record that is open is held, and one that was emitted decodes again.
        let mut pending = std::mem::replace(&mut partition.pending, super::pending::Pending::new(Seq(0)));
        if let Some((block, place)) = pending.record(seq)
            && matches!(emitter.emit(at, (partition, block), place, seq), Emitted::Yes)
        {
            self.in_flight += 1;
            partition.in_flight += 1;
            self.metrics.replayed(reason).add(1);
        }
        partition.pending = pending;
        true
    }

    fn emit_fresh(&mut self, at: usize, limit: usize, out: &mut SpoutOutput<'_>) -> usize {
        let Some(Some(Slot { partition, .. })) = self.slots.get_mut(at) else { return 0 };
        let limit = partition.emittable(self.options.max_ahead).min(limit as u64);
        let Some((block, range, first)) = partition.pending.fresh(limit) else { return 0 };
        let tracked = out.is_tracked();
        let mut emitter = Emitter { options: &self.options, scratch: &mut self.scratch, out };
        let (records, mut emitted) = (range.len(), 0);
        let heads = block.records().get(range.clone()).unwrap_or_default();
        let started = heads.last().map(|head| head.offset.next());
        let before = partition.again_below.map_or(i64::MIN, |before| before.0);
        let again = heads.partition_point(|head| head.offset.0 < before) as u64;
        for (seq, place) in (first.0..).map(Seq).zip(range) {
            match emitter.emit(at, (partition, block), place, seq) {
                Emitted::Yes if tracked => emitted += 1,
                Emitted::Yes | Emitted::Nothing => self.decided.done.push(seq),
                Emitted::Bad(bad) => self.decided.bad.push((seq, bad)),
            }
        }
        partition.emitted(records, started);
        if again > 0 {
            self.metrics.replayed(partition.replay_reason).add(again);
        }
        partition.in_flight += emitted;
        self.in_flight += emitted;
        let mut decided = std::mem::take(&mut self.decided);
        for seq in decided.done.drain(..) {
            self.finish(at, seq);
        }
        for (seq, bad) in decided.bad.drain(..) {
            self.give_up((at, seq), (bad.reason, &bad.message), "");
        }
        self.decided = decided;
        records
    }

    /// Decides what becomes of a record whose tree has failed.
    pub(super) fn judge(&mut self, now: Instant, (at, seq): (usize, Seq), failure: Failure<'_>, effects: u64) {
        let Some(Some(Slot { partition, .. })) = self.slots.get_mut(at) else { return };
        if !partition.frontier.is_open(seq) {
            return;
        }
        let (component, error, retriable, reason) = match failure {
            Failure::Failed { component, error, retriable } => (component, error, retriable, ReplayReason::Fail),
            Failure::TimedOut => ("", "its tree made no progress for the tree timeout", true, ReplayReason::Timeout),
        };
        match partition.retries.fail(now, seq, retriable, reason) {
            // What this attempt has done will be done again.
            Verdict::Retry { .. } => self.metrics.duplicates(DuplicateOutcome::Visible).add(effects),
            Verdict::Permanent => self.give_up((at, seq), (DeadLetterReason::Permanent, error), component),
            Verdict::Exhausted => self.give_up((at, seq), (DeadLetterReason::RetriesExhausted, error), component),
        }
    }

    /// Sends a record to the dead-letter topic; it is done when the broker has it there.
    fn give_up(&mut self, (at, seq): (usize, Seq), (reason, error): (DeadLetterReason, &str), component: &str) {
        let Some(Some(Slot { partition, .. })) = self.slots.get_mut(at) else { return };
        let attempts = partition.retries.failures(seq).max(1).to_string();
        let Some((block, place)) = partition.pending.record(seq) else { return };
        let Some(head) = block.records().get(place) else { return };
        let (number, offset) = (block.partition.partition.to_string(), head.offset.to_string());
        let timestamp = head.timestamp.to_string();
        let letter = Letter {
            key: block.key(place),
            value: block.value(place),
            headers: block.headers_encoded(place),
            reason,
            about: &[
                ("source-topic", &block.partition.topic),
                ("source-partition", &number),
                ("source-offset", &offset),
                ("source-timestamp", &timestamp),
                ("error", error),
                ("component", component),
                ("attempts", &attempts),
            ],
        };
        self.letters.push(&letter, (at, seq));
        partition.in_flight += 1;
        if self.given_up.len() == GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back(message_id(at, seq));
    }

    /// When there is something to do without any news.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let retries = self.live().filter(|partition| !partition.leaving).filter_map(|p| p.retries.next_due());
        let letters = (self.letters.in_flight() > 0).then(|| now + LOOK_AGAIN);
        let orders = self.orders.as_ref().is_some_and(|orders| !orders.has_room()).then(|| now + LOOK_AGAIN);
        let again = self.ahead.as_ref().and_then(Round::send_again_at);
        retries.chain(letters).chain(orders).chain(again).min()
    }
}
