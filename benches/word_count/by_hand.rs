//! What a careful programmer would write without an engine: one thread that polls, splits, counts, and writes the changed
//! counts every 100 ms, committing what it has counted.

use std::{collections::HashSet, time::Duration};

use stormglass::{
    clock::Clock,
    kafka::{
        Connection, RdkafkaSink, RdkafkaSource, SinkOptions, SourceOptions,
        admin::Admin,
        client::{
            CommitToken, DeliveryReport, FlushId, Position, SinkClient, SourceClient, SourceEvent,
            produce::{ProduceBatch, ProduceRecord},
        },
    },
    metrics::process,
    topologies::words,
    tuple::KeyHash,
};

use super::{Result, counts::Counts, positions::Positions};

/// `by-hand BROKERS INPUT OUTPUT`; prints a summary as `run --json` does.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let [brokers, input, output] = args else { return Err("by-hand BROKERS INPUT OUTPUT".into()) };
    let clock = Clock::system();
    let connection = Connection { brokers: brokers.clone(), ..Connection::default() };
    Admin::new(&connection, Duration::from_secs(10), clock.clone())?.ensure_topic(output, 4, &[])?;
    let source =
        RdkafkaSource::new(SourceOptions::new(connection.clone(), output.clone(), vec![input.clone()]), clock.clone())?;
    let sink = RdkafkaSink::new(&SinkOptions::new(connection), clock.clone())?;
    let mut job = Job {
        source,
        sink,
        counts: Counts::default(),
        batch: ProduceBatch::new(output.as_str().into()),
        flush: FlushId(0),
        positions: Positions::new(),
        records: 0,
    };
    job.run(&clock)?;
    let usage = process::usage();
    println!(
        "{{\"records\":{},\"cpu_seconds\":{},\"peak_memory_bytes\":{}}}",
        job.records,
        usage.cpu.as_secs_f64(),
        usage.peak_memory_bytes
    );
    Ok(())
}

struct Job {
    source: RdkafkaSource,
    sink: RdkafkaSink,
    counts: Counts,
    batch: ProduceBatch,
    flush: FlushId,
    positions: Positions,
    records: u64,
}

impl Job {
    fn run(&mut self, clock: &Clock) -> Result<()> {
        const EVERY: Duration = Duration::from_millis(100);
        let (mut events, mut ended, mut assigned) = (Vec::new(), HashSet::new(), 0);
        let mut last = clock.now();
        loop {
            self.source.poll(4096, Duration::from_millis(10), &mut events)?;
            for event in events.drain(..) {
                match event {
                    SourceEvent::Records(block) => {
                        for at in 0..block.len() {
                            let line = block.value(at).and_then(|v| std::str::from_utf8(v).ok()).unwrap_or_default();
                            for word in words(line) {
                                self.counts.add(KeyHash::of_bytes(word.as_bytes()), word)?;
                            }
                        }
                        self.records += block.len() as u64;
                        self.positions.note(&block);
                        self.source.recycle(block);
                    }
                    SourceEvent::Assigned { partitions, epoch, .. } => {
                        assigned += partitions.len();
                        self.positions.epoch = epoch;
                        let from: Vec<_> = partitions.into_iter().map(|p| (p.partition, Position::Beginning)).collect();
                        self.source.assign(&from)?;
                    }
                    SourceEvent::EndOfPartition { partition, .. } => {
                        ended.insert(partition);
                    }
                    _ => {}
                }
            }
            let over = assigned > 0 && ended.len() == assigned;
            if clock.now() - last >= EVERY || over {
                last = clock.now();
                self.write()?;
            }
            if over {
                self.source.close(Duration::from_secs(5))?;
                return Ok(());
            }
        }
    }

    /// Writes the changed counts, waits until the broker has them, commits.
    fn write(&mut self) -> Result<()> {
        self.flush = FlushId(self.flush.0 + 1);
        let (batch, flush) = (&mut self.batch, self.flush);
        batch.clear();
        self.counts.drain_changed(|word, count| {
            let count = count.to_string();
            let (key, value) = (Some(word.as_bytes()), Some(count.as_bytes()));
            batch.push(&ProduceRecord { key, value, headers: &[], flush, tag: 0 });
        });
        let mut reports = Vec::new();
        let mut taken = 0;
        while taken < self.batch.len() || self.sink.in_flight() > 0 {
            taken += self.sink.produce(&self.batch, taken);
            self.sink.poll(Duration::from_millis(1), &mut reports)?;
            for report in reports.drain(..) {
                if let DeliveryReport::Failed(record) = report {
                    return Err(record.message.into());
                }
            }
        }
        self.source.commit(self.positions.commits(), CommitToken(flush.0.into()));
        Ok(())
    }
}
