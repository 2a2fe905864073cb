//! A partition against a naive reference: a list of records with flags, under random interleavings of everything that
//! changes a log and reads at both isolation levels.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kafka_protocol::{
    error::ResponseError,
    messages::{ResponseKind, fetch_response::PartitionData},
    records::Compression,
};
use proptest::prelude::*;

use super::{
    Marker,
    batch::{Batch, Header},
    bench::{Bench, Sample, decode},
    producers::Producers,
};

#[derive(Clone, Debug)]
enum Op {
    /// Keys of a batch; a producer of 0 is none, its codec by number.
    Append {
        producer: i64,
        keys: Vec<u8>,
        codec: usize,
    },
    /// One of the last batches of a producer comes again.
    Again {
        producer: i64,
        which: usize,
    },
    /// A batch that skips a sequence.
    Gap {
        producer: i64,
    },
    /// A batch in a transaction.
    Transact {
        producer: i64,
        keys: Vec<u8>,
        codec: usize,
    },
    End {
        producer: i64,
        commit: bool,
    },
    /// Everything before a part of the log, in eighths.
    Delete {
        eighths: i64,
    },
    Compact,
    /// Reads from a part of the log on, in eighths, in pieces of so many bytes.
    Read {
        eighths: i64,
        committed: bool,
        bytes: i32,
    },
}

fn ops() -> impl Strategy<Value = Op> {
    let keys = || prop::collection::vec(0..4_u8, 1..4);
    prop_oneof![
        3 => (0..3_i64, keys(), 0..5_usize).prop_map(|(producer, keys, codec)| Op::Append { producer, keys, codec }),
        1 => (1..3_i64, 0..7_usize).prop_map(|(producer, which)| Op::Again { producer, which }),
        1 => (1..3_i64).prop_map(|producer| Op::Gap { producer }),
        3 => (10..13_i64, keys(), 0..5_usize).prop_map(|(producer, keys, codec)| Op::Transact { producer, keys, codec }),
        3 => (10..13_i64, any::<bool>()).prop_map(|(producer, commit)| Op::End { producer, commit }),
        1 => (0..9_i64).prop_map(|eighths| Op::Delete { eighths }),
        1 => Just(Op::Compact),
        3 => (0..8_i64, any::<bool>(), 1..400_i32)
            .prop_map(|(eighths, committed, bytes)| Op::Read { eighths, committed, bytes }),
    ]
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Fate {
    Plain,
    Open(i64),
    Committed,
    Aborted,
    Marker,
}

#[derive(Clone, Debug)]
struct Row {
    offset: i64,
    key: u8,
    fate: Fate,
}

/// The reference.
#[derive(Debug, Default)]
struct Naive {
    rows: Vec<Row>,
    start: i64,
    end: i64,
    last_base: i64,
    /// First offset of each open transaction.
    open: BTreeMap<i64, i64>,
    /// First sequence, keys and offset of what a producer has sent.
    sent: BTreeMap<i64, VecDeque<(i32, Vec<u8>, i64)>>,
    sequences: BTreeMap<i64, i32>,
}

impl Naive {
    fn push(&mut self, keys: &[u8], fate: Fate) {
        self.last_base = self.end;
        let first = self.end;
        self.rows.extend((first..).zip(keys).map(|(offset, key)| Row { offset, key: *key, fate }));
        self.end += i64::try_from(keys.len()).unwrap();
    }

    fn stable(&self) -> i64 {
        self.open.values().min().map_or(self.end, |first| (*first).max(self.start))
    }

    fn part(&self, eighths: i64) -> i64 {
        self.start + (self.end - self.start) * eighths / 8
    }

    fn decide(&mut self, producer: i64, commit: bool) {
        let fate = if commit { Fate::Committed } else { Fate::Aborted };
        self.rows.iter_mut().filter(|row| row.fate == Fate::Open(producer)).for_each(|row| row.fate = fate);
        self.open.remove(&producer);
        self.push(&[0], Fate::Marker);
    }

    fn compact(&mut self) {
        if self.last_base < self.start {
            return;
        }
        let until = self.last_base.min(self.stable());
        let counts = |row: &Row| row.offset < until && matches!(row.fate, Fate::Plain | Fate::Committed);
        let latest: BTreeMap<u8, i64> =
            self.rows.iter().filter(|row| counts(row)).map(|row| (row.key, row.offset)).collect();
        self.rows.retain(|row| {
            row.offset >= until || row.fate == Fate::Marker || (counts(row) && latest[&row.key] == row.offset)
        });
    }

    fn visible(&self, from: i64, committed: bool) -> Vec<i64> {
        let end = if committed { self.stable() } else { self.end };
        let there = self.rows.iter().filter(|row| (from..end).contains(&row.offset)).filter(|row| match row.fate {
            Fate::Marker => false,
            Fate::Aborted | Fate::Open(_) => !committed,
            Fate::Plain | Fate::Committed => true,
        });
        there.map(|row| row.offset).collect()
    }
}

/// Reads to the end as a consumer does, which leaves out what it is told was aborted.
fn consume(bench: &mut Bench, from: i64, committed: bool, bytes: i32) -> Vec<i64> {
    let (mut position, mut offsets) = (from, Vec::new());
    loop {
        let mut request = Bench::fetch_request(position, i8::from(committed));
        request.topics[0].partitions[0].partition_max_bytes = bytes;
        let Some(ResponseKind::Fetch(mut response)) = bench.ask(request, 12) else { panic!("no response") };
        let data: PartitionData = response.responses.remove(0).partitions.remove(0);
        assert_eq!(data.error_code, 0);
        let bytes_read = data.records.as_ref().unwrap();
        let Some(next) = after(bytes_read) else { return offsets };
        let records = decode(bytes_read);
        let mut aborted: VecDeque<(i64, i64)> =
            data.aborted_transactions.iter().flatten().map(|a| (a.first_offset, a.producer_id.0)).collect();
        aborted.make_contiguous().sort_unstable();
        let mut dropped = BTreeSet::new();
        for record in records {
            while let Some((_, producer)) = aborted.front().copied().filter(|(first, _)| *first <= record.offset) {
                dropped.insert(producer);
                aborted.pop_front();
            }
            if record.control {
                // The type stands behind the version.
                let abort = record.key.is_some_and(|key| key[3] == 0);
                if abort {
                    dropped.remove(&record.producer_id);
                }
            } else if record.offset >= position && !(record.transactional && dropped.contains(&record.producer_id)) {
                offsets.push(record.offset);
            }
        }
        position = next;
    }
}

/// The offset after the last batch, which may end in a hole.
fn after(mut records: &[u8]) -> Option<i64> {
    let mut next = None;
    while let Some(header) = Header::read(records) {
        next = Some(header.last_offset() + 1);
        records = &records[header.size..];
    }
    next
}

fn sample(keys: &[u8], codec: usize) -> Sample {
    let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    let keys: Vec<String> = keys.iter().map(u8::to_string).collect();
    Sample::new(&keys.iter().map(|key| (Some(key.as_str()), Some("value"))).collect::<Vec<_>>()).packed(codecs[codec])
}

struct Both {
    bench: Bench,
    naive: Naive,
}

impl Both {
    fn new() -> Self {
        let configs = [("cleanup.policy", "compact,delete"), ("retention.ms", "-1")];
        Self { bench: Bench::new(&configs), naive: Naive::default() }
    }

    fn append(&mut self, producer: i64, keys: &[u8], codec: usize, transactional: bool) {
        let count = i32::try_from(keys.len()).unwrap();
        let mut sample = sample(keys, codec);
        if producer > 0 {
            let sequence = self.naive.sequences.entry(producer).or_default();
            sample = sample.by(producer, 0, *sequence);
            let sent = self.naive.sent.entry(producer).or_default();
            sent.push_back((*sequence, keys.to_vec(), self.naive.end));
            *sequence += count;
        }
        sample.transactional = transactional;
        assert_eq!(self.bench.append(&sample), self.naive.end);
        if transactional {
            self.naive.open.entry(producer).or_insert(self.naive.end);
        }
        self.naive.push(keys, if transactional { Fate::Open(producer) } else { Fate::Plain });
    }

    fn again(&mut self, producer: i64, which: usize) {
        let Some(sent) = self.naive.sent.get(&producer) else { return };
        let Some((sequence, keys, offset)) = sent.iter().rev().nth(which) else { return };
        let sent = sample(keys, 0).by(producer, 0, *sequence).encode();
        let response = self.bench.produce(&sent);
        if which < 5 {
            assert_eq!((response.error_code, response.base_offset), (0, *offset));
        } else {
            assert_eq!(response.error_code, ResponseError::OutOfOrderSequenceNumber.code());
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Append { producer, keys, codec } => self.append(*producer, keys, *codec, false),
            Op::Transact { producer, keys, codec } => self.append(*producer, keys, *codec, true),
            Op::Again { producer, which } => self.again(*producer, *which),
            Op::Gap { producer } => {
                let Some(next) = self.naive.sequences.get(producer) else { return };
                let sent = sample(&[1], 0).by(*producer, 0, next + 1).encode();
                assert_eq!(self.bench.refused(&sent), ResponseError::OutOfOrderSequenceNumber.code());
            }
            Op::End { producer, commit } => {
                let marker =
                    Marker { producer_id: *producer, producer_epoch: 0, coordinator_epoch: 0, commit: *commit };
                let written = self.bench.logs.write_marker(&Bench::topic(), 0, marker, self.bench.now);
                assert_eq!(written, Ok(self.naive.end));
                self.naive.decide(*producer, *commit);
            }
            Op::Delete { eighths } => {
                self.naive.start = self.naive.part(*eighths);
                let start = self.naive.start;
                self.bench.logs.change(&Bench::topic(), 0, |log, _| log.delete_before(start)).unwrap();
            }
            Op::Compact => {
                self.bench.logs.compact_now(&Bench::topic(), self.bench.now);
                self.naive.compact();
            }
            Op::Read { eighths, committed, bytes } => self.read(self.naive.part(*eighths), *committed, *bytes),
        }
        let log = self.bench.logs.partition(&Bench::topic(), 0).unwrap();
        assert_eq!(
            (log.start(), log.last_stable_offset(), log.end()),
            (self.naive.start, self.naive.stable(), self.naive.end)
        );
        let cost: usize = log.batches.iter().map(Batch::cost).sum();
        assert_eq!((log.cost, self.bench.logs.cost), (cost, cost));
        let producers = log.producers.count();
        assert_eq!(producers.all - producers.idle, self.naive.open.len());
        assert_eq!(self.bench.logs.remembered.bytes(), Producers::size(producers.all));
    }

    fn read(&mut self, from: i64, committed: bool, bytes: i32) {
        let read = consume(&mut self.bench, from, committed, bytes);
        assert_eq!(read, self.naive.visible(from, committed), "from {from}, committed: {committed}");
    }
}

proptest! {
    #[test]
    fn log_reads_as_a_list_of_records_does(ops in prop::collection::vec(ops(), 1..80)) {
        let mut both = Both::new();
        for op in &ops {
            both.apply(op);
        }
        both.read(both.naive.start, false, 1 << 20);
        both.read(both.naive.start, true, 1 << 20);
    }
}
