//! What the Kafka client costs by itself, all threads counted: nanoseconds of CPU a record, through the client ports.
//!
//! `KAFKA_BOOTSTRAP=127.0.0.1:9092 cargo bench --bench client [-- RECORDS PROPERTY=VALUE...]`. Without a broker it does nothing.

#![expect(clippy::disallowed_methods, reason = "it measures real time and is told its broker by the environment")]
#![expect(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::{
    env,
    error::Error,
    time::{Duration, Instant},
};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use stormglass::{
    clock::Clock,
    kafka::{
        Connection, RdkafkaSink, RdkafkaSource, SinkOptions, SourceOptions,
        admin::Admin,
        client::{
            Position, SinkClient, SourceClient, SourceEvent,
            produce::{ProduceBatch, ProduceRecord},
        },
    },
};

const BATCH: usize = 64;

/// The bytes that differ between records, from a number and a line of text.
type Sample = dyn Fn(u64, &[u8]) -> Vec<u8>;

/// CPU of all threads of this process.
fn cpu() -> Result<Duration, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.cast_unsigned()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let Ok(brokers) = env::var("KAFKA_BOOTSTRAP") else {
        println!("KAFKA_BOOTSTRAP is not set: nothing measured");
        return Ok(());
    };
    let records = env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(2_000_000);
    let properties = env::args().skip(1).filter_map(|argument| {
        let (name, value) = argument.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let connection = Connection { brokers, overrides: properties.collect(), ..Connection::default() };
    let admin = Admin::new(&connection, Duration::from_secs(30), Clock::system())?;
    let topic = format!("bench-client-{}", std::process::id());
    admin.ensure_topic(&topic, 4, &[])?;
    let lines: &Sample = &|_, line| line.to_vec();
    let words: &Sample = &|n, _| format!("{:015}", n % 10_000).into_bytes();
    for round in 0..6 {
        let (what, sample) = if round % 2 == 0 { ("unkeyed 75 B", lines) } else { ("keyed 24 B", words) };
        produce(&connection, &topic, what, records, sample)?;
        consume(&connection, &topic, round)?;
        admin.delete_topic(&topic)?;
        admin.ensure_topic(&topic, 4, &[])?;
    }
    admin.delete_topic(&topic)?;
    Ok(())
}

/// A keyed record has a 15-byte key and a 9-byte value.
fn produce(
    connection: &Connection,
    topic: &str,
    what: &str,
    records: u64,
    bytes: &Sample,
) -> Result<(), Box<dyn Error>> {
    let line = b"lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempo";
    let mut sink = RdkafkaSink::new(&SinkOptions::new(connection.clone()), Clock::system())?;
    let keyed = what.starts_with("keyed");
    let samples: Vec<Vec<u8>> = (0..10_000).map(|n| bytes(n, line)).collect();
    let (start, cpu_start) = (Instant::now(), cpu()?);
    let mut batch = ProduceBatch::new(topic.into());
    let mut reports = Vec::new();
    let mut sent = 0_u64;
    while sent < records {
        batch.clear();
        for n in sent..sent + BATCH as u64 {
            let sample = &samples[(n % 10_000) as usize];
            let (key, value) = if keyed { (Some(&sample[..]), &b"123456789"[..]) } else { (None, &sample[..]) };
            batch.push(&ProduceRecord { key, value: Some(value), ..Default::default() });
        }
        let mut at = 0;
        while at < batch.len() {
            let taken = sink.produce(&batch, at);
            at += taken;
            let wait = Duration::from_millis(u64::from(taken == 0));
            if taken == 0 || sent.is_multiple_of(64 * 16) {
                sink.poll(wait, &mut reports)?;
                reports.clear();
            }
        }
        sent += batch.len() as u64;
    }
    sink.close(Duration::from_secs(60), &mut reports)?;
    report(&format!("produce {what}"), sent, start, cpu_start)
}

fn consume(connection: &Connection, topic: &str, round: u32) -> Result<(), Box<dyn Error>> {
    let group = format!("{topic}-{round}");
    let options = SourceOptions::new(connection.clone(), group, vec![topic.to_owned()]);
    let (start, cpu_start) = (Instant::now(), cpu()?);
    let mut source = RdkafkaSource::new(options, Clock::system())?;
    let mut events = Vec::new();
    let (mut records, mut bytes, mut open, mut polls) = (0_u64, 0_usize, usize::MAX, 0_u64);
    while open > 0 {
        source.poll(1024, Duration::from_millis(50), &mut events)?;
        polls += 1;
        for event in events.drain(..) {
            match event {
                SourceEvent::Records(block) => {
                    records += block.len() as u64;
                    bytes += (0..block.len()).map(|i| block.value(i).map_or(0, <[u8]>::len)).sum::<usize>();
                    source.recycle(block);
                }
                SourceEvent::Assigned { partitions, .. } => {
                    open = partitions.len();
                    let from: Vec<_> = partitions.into_iter().map(|p| (p.partition, Position::Beginning)).collect();
                    source.assign(&from)?;
                }
                SourceEvent::EndOfPartition { .. } => open -= 1,
                other => println!("{other:?}"),
            }
        }
    }
    report(&format!("consume ({bytes} bytes, {} records a poll)", records / polls), records, start, cpu_start)
}

fn report(what: &str, records: u64, start: Instant, cpu_start: Duration) -> Result<(), Box<dyn Error>> {
    let (wall, cpu) = (start.elapsed(), cpu()?.saturating_sub(cpu_start));
    let each = |d: Duration| d.as_nanos() as f64 / records as f64;
    println!("{what:48} {records:9} records {:5.0} ns CPU each, {:5.0} ns wall", each(cpu), each(wall));
    Ok(())
}
