//! The same job without an engine: one thread that polls, produces each word, and commits every 100 ms what the broker has
//! acknowledged.

use std::time::Duration;

use stormglass::{
    clock::Clock,
    kafka::{
        Connection, RdkafkaSink, RdkafkaSource, SinkOptions, SourceOptions,
        client::{
            CommitToken, DeliveryReport, FlushId, Position, SinkClient, SourceClient, SourceEvent,
            produce::{ProduceBatch, ProduceRecord},
        },
    },
};

use super::{Result, positions::Positions};

/// What the child says when it holds its partitions.
pub(crate) const READY: &str = "ready";

/// `by-hand BROKERS INPUT OUTPUT LINES`: ends when so many lines are through.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let [brokers, input, output, lines] = args else { return Err("by-hand BROKERS INPUT OUTPUT LINES".into()) };
    let clock = Clock::system();
    let connection = Connection { brokers: brokers.clone(), ..Connection::default() };
    let options = SourceOptions::new(connection.clone(), output.clone(), vec![input.clone()]);
    let job = Job {
        source: RdkafkaSource::new(options, clock.clone())?,
        sink: RdkafkaSink::new(&SinkOptions::new(connection), clock.clone())?,
        batch: ProduceBatch::new(output.as_str().into()),
        positions: Positions::new(),
        forwarded: 0,
    };
    job.run(lines.parse()?, &clock)
}

struct Job {
    source: RdkafkaSource,
    sink: RdkafkaSink,
    batch: ProduceBatch,
    positions: Positions,
    forwarded: u64,
}

impl Job {
    fn run(mut self, lines: u64, clock: &Clock) -> Result<()> {
        const EVERY: Duration = Duration::from_millis(100);
        let (mut events, mut last) = (Vec::new(), clock.now());
        while self.forwarded < lines || self.sink.in_flight() > 0 {
            self.source.poll(4096, Duration::from_millis(1), &mut events)?;
            for event in events.drain(..) {
                self.take(event)?;
            }
            self.send(Duration::ZERO)?;
            if clock.now() - last >= EVERY {
                last = clock.now();
                self.commit()?;
            }
        }
        self.source.close(Duration::from_secs(5))?;
        Ok(())
    }

    fn take(&mut self, event: SourceEvent) -> Result<()> {
        match event {
            SourceEvent::Records(block) => {
                for at in 0..block.len() {
                    let line = block.value(at).and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
                    for word in line.split_ascii_whitespace() {
                        let word = Some(word.as_bytes());
                        self.batch.push(&ProduceRecord {
                            key: word,
                            value: word,
                            headers: &[],
                            flush: FlushId(0),
                            tag: 0,
                        });
                    }
                }
                self.forwarded += block.len() as u64;
                self.positions.note(&block);
                self.source.recycle(block);
            }
            SourceEvent::Assigned { partitions, epoch, .. } => {
                self.positions.epoch = epoch;
                let from: Vec<_> = partitions.into_iter().map(|p| (p.partition, Position::Beginning)).collect();
                self.source.assign(&from)?;
                println!("{READY}");
            }
            _ => {}
        }
        Ok(())
    }

    /// Offers all that is there, and hears what has arrived.
    fn send(&mut self, wait: Duration) -> Result<()> {
        let (mut taken, mut reports) = (0, Vec::new());
        loop {
            taken += self.sink.produce(&self.batch, taken);
            self.sink.poll(wait, &mut reports)?;
            for report in reports.drain(..) {
                if let DeliveryReport::Failed(record) = report {
                    return Err(record.message.into());
                }
            }
            if taken >= self.batch.len() {
                self.batch.clear();
                return Ok(());
            }
        }
    }

    /// Waits until everything has arrived, as the engine does for its frozen trees, and commits.
    fn commit(&mut self) -> Result<()> {
        while self.sink.in_flight() > 0 {
            self.send(Duration::from_millis(1))?;
        }
        self.source.commit(self.positions.commits(), CommitToken(0));
        Ok(())
    }
}
