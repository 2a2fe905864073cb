//! Folding loses nothing.

use crate::{
    ack::{AckBuffer, AckMessage, Verdict},
    tuple::RootId,
};

const A: RootId = RootId::new(0, 1, 1);
const B: RootId = RootId::new(0, 2, 1);

fn drained(mut buffer: AckBuffer) -> Vec<AckMessage> {
    buffer.drain().collect()
}

#[test]
fn acks_of_one_tree_fold_while_they_follow_one_another() {
    let mut buffer = AckBuffer::default();
    buffer.ack(A, 0b001, 1);
    buffer.ack(A, 0b010, 0);
    buffer.ack(B, 0b100, 1);
    buffer.ack(A, 0b111, 1);
    let expected = [
        AckMessage { acks: 2, ..AckMessage::done(A, 0b011, 1) },
        AckMessage::done(B, 0b100, 1),
        AckMessage::done(A, 0b111, 1),
    ];
    assert_eq!(drained(buffer), expected);
}

#[test]
fn a_fail_never_folds() {
    let mut buffer = AckBuffer::default();
    buffer.ack(A, 1, 1);
    buffer.fail(A, 0);
    buffer.fail(A, 2);
    buffer.ack(A, 2, 1);
    buffer.ack(A, 4, 1);
    let verdicts: Vec<_> = drained(buffer).iter().map(|m| (m.verdict, m.acks, m.effects)).collect();
    let expected = [(Verdict::Done, 1, 1), (Verdict::Failed, 0, 0), (Verdict::Failed, 0, 2), (Verdict::Done, 2, 2)];
    assert_eq!(verdicts, expected);
}

#[test]
fn a_touch_folds_and_counts_no_ack() {
    let mut buffer = AckBuffer::default();
    buffer.touch(A);
    buffer.ack(A, 5, 1);
    buffer.touch(A);
    assert_eq!(drained(buffer), [AckMessage::done(A, 5, 1)]);
}

#[test]
fn what_a_message_cannot_count_goes_into_the_next() {
    let mut buffer = AckBuffer::default();
    for _ in 0..70_000 {
        buffer.ack(A, 1, 1);
    }
    buffer.ack(A, 1, u32::MAX);
    let messages = drained(buffer);
    assert!(messages.len() > 2);
    assert_eq!(messages.iter().map(|m| u64::from(m.acks)).sum::<u64>(), 70_001);
    assert_eq!(messages.iter().map(|m| u64::from(m.effects)).sum::<u64>(), 70_000 + u64::from(u32::MAX));
    assert_eq!(messages.iter().fold(0, |xor, m| xor ^ m.xor), 1);
}

#[test]
fn unanchored_inputs_send_nothing() {
    let mut buffer = AckBuffer::default();
    buffer.ack(RootId::NONE, 1, 1);
    buffer.fail(RootId::NONE, 1);
    buffer.touch(RootId::NONE);
    assert!(buffer.is_empty());
}

#[test]
fn a_taken_buffer_goes_on_with_the_spare_s_memory() {
    let mut buffer = AckBuffer::with_capacity(4);
    buffer.ack(A, 1, 1);
    let spare = vec![AckMessage::done(B, 9, 9); 100];
    let room = spare.capacity();
    let sent = buffer.take(spare);
    assert_eq!(sent, [AckMessage::done(A, 1, 1)]);
    assert!(buffer.is_empty());
    buffer.ack(B, 2, 0);
    assert_eq!(buffer.len(), 1);
    assert_eq!(buffer.take(sent).capacity(), room);
}
