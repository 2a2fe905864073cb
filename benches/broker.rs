//! What the embedded broker costs: records a second and its CPU a record, through librdkafka, and how soon it answers.
//!
//! `cargo bench --bench broker [-- RECORDS]`. With `KAFKA_BOOTSTRAP` set, as by `testcontainers/kafka.sh with`, the same
//! for Apache Kafka.

#![expect(clippy::disallowed_methods, reason = "it measures real time and is told its broker by the environment")]
#![expect(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::{
    env,
    error::Error,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use stormglass::{
    clock::Clock,
    kafka::{
        Connection, RdkafkaSink, RdkafkaSource, SinkOptions, SourceOptions,
        admin::Admin,
        client::{
            Position, SinkClient as _, SourceClient as _, SourceEvent,
            produce::{ProduceBatch, ProduceRecord},
        },
    },
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// 75 bytes.
const LINE: &[u8] = b"lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempo";
const BATCH: usize = 64;
const ROUNDS: u32 = 3;
const STARTS: usize = 20;
/// ApiVersions, version 0.
const REQUEST: &[u8] = b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff";

/// A process of the embedded broker, which ends with this.
struct Embedded {
    child: Child,
    address: String,
}

impl Embedded {
    fn start() -> Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_stormglass"))
            .args(["broker", "--listen", "127.0.0.1:0", "--until-stdin-ends", "--memory", "4294967296"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut said = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut said)?;
        let address = said.trim_end().strip_prefix("listening on ").ok_or("it does not listen")?.to_owned();
        Ok(Self { child, address })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn main() -> Result<()> {
    let records = env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(2_000_000);
    starts()?;
    for _ in 0..ROUNDS {
        let broker = Embedded::start()?;
        measure("embedded", &broker.address, broker.child.id(), records)?;
    }
    match env::var("KAFKA_BOOTSTRAP") {
        Ok(address) => {
            let process = kafka_process(&address)?;
            (0..ROUNDS).try_for_each(|_| measure("Apache Kafka", &address, process, records))
        }
        Err(_) => {
            println!("KAFKA_BOOTSTRAP is not set: nothing to compare with");
            Ok(())
        }
    }
}

/// From the start of the process to the first answered request.
fn starts() -> Result<()> {
    let mut took = Vec::new();
    for _ in 0..STARTS {
        let start = Instant::now();
        let broker = Embedded::start()?;
        let mut client = TcpStream::connect(&broker.address)?;
        client.write_all(REQUEST)?;
        client.read_exact(&mut [0; 8])?;
        took.push(start.elapsed());
    }
    took.sort_unstable();
    if let (Some(median), Some(slowest)) = (took.get(STARTS / 2), took.last()) {
        println!("start to first answered request: median {median:.1?}, slowest of {STARTS} {slowest:.1?}");
    }
    Ok(())
}

/// The process of a broker that kafka.sh has started.
fn kafka_process(address: &str) -> Result<u32> {
    let (_, port) = address.rsplit_once(':').ok_or("no port")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/testcontainers/kafka.sh");
    let told = String::from_utf8(Command::new(script).args(["status", port]).output()?.stdout)?;
    let process = told.split("process ").nth(1).and_then(|rest| rest.split(',').next());
    Ok(process.ok_or("kafka.sh has not started it, so its process is not known")?.parse()?)
}

/// CPU that a process has taken, in seconds.
fn cpu(process: u32) -> Result<f64> {
    // User and system time in ticks of 10 ms, 11 fields behind the name in parentheses.
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = stat.rsplit_once(')').ok_or("no name")?.1;
    let ticks: u32 = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    Ok(f64::from(ticks) / 100.0)
}

fn measure(name: &str, address: &str, process: u32, records: u64) -> Result<()> {
    let connection = Connection { brokers: address.to_owned(), ..Connection::default() };
    let admin = Admin::new(&connection, Duration::from_secs(30), Clock::system())?;
    let topic = format!("bench-broker-{}-{}", std::process::id(), cpu(process)?);
    let timed = |what: &str, work: &dyn Fn() -> Result<()>| -> Result<()> {
        let (start, before) = (Instant::now(), cpu(process)?);
        work()?;
        let (wall, spent) = (start.elapsed().as_secs_f64(), cpu(process)? - before);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let count = records as f64;
        println!("{name:12} {what:16} {:9.0} records/s, broker {:6.3} us CPU each", count / wall, spent * 1e6 / count);
        Ok(())
    };
    admin.ensure_topic(&topic, 4, &[])?;
    timed("in", &|| produce(&connection, &topic, records))?;
    timed("out", &|| consume(&connection, &topic, records))?;
    admin.delete_topic(&topic)?;
    let topic = format!("{topic}-both");
    admin.ensure_topic(&topic, 4, &[])?;
    timed("in and out", &|| {
        thread::scope(|scope| {
            let producer = scope.spawn(|| produce(&connection, &topic, records));
            consume(&connection, &topic, records)?;
            producer.join().map_err(|_panic| "the producer panicked")?
        })
    })?;
    admin.delete_topic(&topic)?;
    Ok(())
}

fn produce(connection: &Connection, topic: &str, records: u64) -> Result<()> {
    let mut sink = RdkafkaSink::new(&SinkOptions::new(connection.clone()), Clock::system())?;
    let mut batch = ProduceBatch::new(topic.into());
    for _ in 0..BATCH {
        batch.push(&ProduceRecord { value: Some(LINE), ..ProduceRecord::default() });
    }
    let mut reports = Vec::new();
    for sent in 0..records / BATCH as u64 {
        let mut at = 0;
        while at < batch.len() {
            let taken = sink.produce(&batch, at);
            at += taken;
            if taken == 0 || sent.is_multiple_of(16) {
                sink.poll(Duration::from_millis(u64::from(taken == 0)), &mut reports)?;
                reports.clear();
            }
        }
    }
    sink.close(Duration::from_secs(60), &mut reports)?;
    Ok(())
}

fn consume(connection: &Connection, topic: &str, records: u64) -> Result<()> {
    let options = SourceOptions::new(connection.clone(), format!("{topic}-group"), vec![topic.to_owned()]);
    let mut source = RdkafkaSource::new(options, Clock::system())?;
    let (mut events, mut read) = (Vec::new(), 0);
    while read < records / BATCH as u64 * BATCH as u64 {
        source.poll(1024, Duration::from_millis(50), &mut events)?;
        for event in events.drain(..) {
            match event {
                SourceEvent::Records(block) => {
                    read += block.len() as u64;
                    source.recycle(block);
                }
                SourceEvent::Assigned { partitions, .. } => {
                    let from: Vec<_> = partitions.into_iter().map(|p| (p.partition, Position::Beginning)).collect();
                    source.assign(&from)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}
