use super::*;
use crate::{
    kafka::client::{ClientError, FailedRecord, FlushId},
    service::load::lines::{LineOptions, Lines},
};

/// Takes at most `room` records between two polls, acknowledges them at the next, and moves a manual clock as it waits.
struct FakeClient {
    clock: Clock,
    room: usize,
    taken: usize,
    seen: Vec<(i32, i64, usize)>,
    too_large: usize,
}

impl SinkClient for FakeClient {
    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> usize {
        let rows: Vec<_> = batch.rows().iter().skip(from).take(self.room - self.taken).copied().collect();
        self.taken += rows.len();
        self.seen.extend(rows.iter().map(|row| (row.partition, row.timestamp, row.value_len as usize)));
        rows.len()
    }

    fn poll(&mut self, max_wait: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        self.clock.advance(max_wait.max(Duration::from_micros(10)));
        let records = std::mem::take(&mut self.taken) as u64;
        if records > 0 {
            reports.push(DeliveryReport::Acked { flush: FlushId(0), records });
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.taken
    }

    fn flush_hint(&mut self) {}

    fn close(&mut self, _: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        for _ in 0..self.too_large {
            reports.push(DeliveryReport::Failed(Box::new(FailedRecord {
                flush: FlushId(0),
                tag: 0,
                topic: "lines".into(),
                key: None,
                value_len: 9,
                reason: DeliveryFailure::TooLarge,
                message: "a record of 9 bytes is too large".to_owned(),
                contents: None,
            })));
        }
        Ok(())
    }
}

fn input(n: u64) -> Input {
    let options = LineOptions { words: 3, vocabulary: 100, zipf: 1.0, unique_ids: false, seed: 1 };
    Input::Generated(Lines::new(options).unwrap(), n)
}

fn client(clock: &Clock, room: usize) -> FakeClient {
    FakeClient { clock: clock.clone(), room, taken: 0, seen: Vec::new(), too_large: 0 }
}

#[test]
fn every_line_is_sent_once_however_little_the_client_takes() {
    let (clock, target) = (Clock::manual(), Target { topic: "lines".into(), partitions: 4, rate: None });
    let mut client = client(&clock, 1000);
    let sent = Sender::new(&mut client, &target, &clock).send(&mut input(10_001), 0, &mut |_| {}).unwrap();
    assert_eq!((sent.lines, sent.acknowledged, sent.failed), (10_001, 10_001, 0));
    let in_partition = |p| client.seen.iter().filter(|(partition, ..)| *partition == p).count();
    assert_eq!([0, 1, 2, 3].map(in_partition), [2501, 2500, 2500, 2500]);
    assert_eq!(sent.bytes, client.seen.iter().map(|(_, _, len)| *len as u64).sum::<u64>());
}

#[test]
fn a_paced_line_carries_the_time_at_which_it_was_due() {
    let (clock, target) = (Clock::manual(), Target { topic: "lines".into(), partitions: 1, rate: Some(500.0) });
    let mut client = client(&clock, 7);
    let sent = Sender::new(&mut client, &target, &clock).send(&mut input(501), 1_000_000, &mut |_| {}).unwrap();
    assert_eq!(sent.lines, 501);
    let took = clock.now().saturating_since(crate::clock::Instant::ZERO);
    assert!((1000..1100).contains(&took.as_millis()), "{took:?}");
    let timestamps: Vec<_> = client.seen.iter().map(|(_, timestamp, _)| *timestamp).collect();
    let due: Vec<_> = (0..501).map(|n| 1_000_000 + n * 2).collect();
    assert_eq!(timestamps, due);
}

#[test]
fn lines_that_were_not_delivered_are_a_failure_with_the_first_reason() {
    let (clock, target) = (Clock::manual(), Target { topic: "lines".into(), partitions: 1, rate: None });
    let mut client = client(&clock, 10);
    client.too_large = 2;
    let failure = Sender::new(&mut client, &target, &clock).send(&mut input(5), 0, &mut |_| {}).unwrap_err();
    assert_eq!(failure.cause, Cause::Data);
    assert_eq!(
        failure.error.unwrap().to_string(),
        "2 of 5 lines were not delivered to lines; the first: a record of 9 bytes is too large"
    );
}
