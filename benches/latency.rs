//! Latency from a record's timestamp to its output's in the broker's log, at 500 and at 20,000 lines a second.
//!
//! `KAFKA_BOOTSTRAP=127.0.0.1:9092 cargo bench --bench latency [-- SECONDS]`. One-word lines, `emit = "every"`. The loader
//! stamps each record with the moment it was *due*, so a loader or an engine that falls behind is seen. The output topic
//! has `message.timestamp.type=LogAppendTime`: the broker itself says when it had the output, by the same clock. Beside the
//! engine a loop without one does the same job in the same minutes: what the broker, the loader and the machine take is in both.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark prints its table, and is told by the environment where the broker is"
)]

use std::{
    env,
    error::Error,
    io::BufRead as _,
    ops::ControlFlow,
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use hdrhistogram::Histogram;
use stormglass::{
    clock::Clock,
    kafka::{
        Connection,
        admin::{Admin, reader::TopicReader},
    },
};

#[path = "latency/by_hand.rs"]
mod by_hand;
#[path = "word_count/positions.rs"]
mod positions;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What the first lines of a run take is not measured.
const WARM_UP_MILLIS: i64 = 3_000;

const STORMGLASS: &str = env!("CARGO_BIN_EXE_stormglass");

/// The first argument of the process that does the job without the engine.
const BY_HAND: &str = "by-hand";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, rest)) if first == BY_HAND => by_hand::main(rest),
        _ => measure(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latency: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<()> {
    let Ok(brokers) = env::var("KAFKA_BOOTSTRAP") else {
        println!("KAFKA_BOOTSTRAP is not set: nothing measured");
        return Ok(());
    };
    let seconds: u64 = env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(20);
    println!("| lines/s | | records | p50 ms | p99 ms | p99.9 ms | max ms |\n|---|---|---|---|---|---|---|");
    for rate in [500, 20_000] {
        for (name, contender) in [("loop by hand", Contender::ByHand), ("engine", Contender::Engine)] {
            let seen = at_rate(&brokers, contender, rate, seconds)?;
            let ms = |q: f64| seen.value_at_quantile(q);
            println!(
                "| {rate} | {name} | {} | {} | {} | {} | {} |",
                seen.len(),
                ms(0.5),
                ms(0.99),
                ms(0.999),
                seen.max()
            );
        }
    }
    Ok(())
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Contender {
    ByHand,
    Engine,
}

impl Contender {
    /// A process that holds its partitions.
    fn start(self, brokers: &str, input: &str, output: &str, lines: u64) -> Result<Child> {
        match self {
            Self::ByHand => {
                let mut run = Command::new(env::current_exe()?)
                    .args([BY_HAND, brokers, input, output, &lines.to_string()])
                    .stdout(Stdio::piped())
                    .spawn()?;
                let mut said = String::new();
                std::io::BufReader::new(run.stdout.take().ok_or("no output")?).read_line(&mut said)?;
                if said.trim() == by_hand::READY {
                    Ok(run)
                } else {
                    Err(format!("the loop by hand said {said:?}").into())
                }
            }
            Self::Engine => {
                let mut run = Command::new(STORMGLASS)
                    .args(["run", "--brokers", brokers, "--input", input, "--output", output, "--group", output])
                    .args(["--topology", "split-words", "--emit", "every", "--http", "127.0.0.1:9465", "-q"])
                    .stdout(Stdio::null())
                    .spawn()?;
                wait_until_ready(&mut run)?;
                Ok(run)
            }
        }
    }

    fn stop(self, run: &mut Child) -> Result<()> {
        if self == Self::Engine {
            let pid = nix::unistd::Pid::from_raw(i32::try_from(run.id())?);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
        }
        let status = run.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the run ended with {status}").into()) }
    }
}

fn at_rate(brokers: &str, contender: Contender, rate: u64, seconds: u64) -> Result<Histogram<u64>> {
    let unique = format!("latency-{contender:?}-{rate}-{}", std::process::id());
    let (input, output) = (format!("{unique}-in"), format!("{unique}-out"));
    let connection = Connection { brokers: brokers.to_owned(), ..Connection::default() };
    let clock = Clock::system();
    let admin = Admin::new(&connection, Duration::from_secs(10), clock.clone())?;
    admin.ensure_topic(&input, 4, &[])?;
    admin.ensure_topic(&output, 4, &[("message.timestamp.type", "LogAppendTime")])?;
    let mut run = contender.start(brokers, &input, &output, rate * seconds)?;
    let loaded = load(brokers, &input, rate, rate * seconds);
    contender.stop(&mut run)?;
    loaded?;
    compare(&connection, &input, &output, &clock)
}

/// The engine must hold its partitions before the first line is due.
fn wait_until_ready(run: &mut Child) -> Result<()> {
    use std::io::{Read as _, Write as _};
    for _ in 0..600 {
        if let Some(status) = run.try_wait()? {
            return Err(format!("the run ended early with {status}").into());
        }
        if let Ok(mut stream) = std::net::TcpStream::connect("127.0.0.1:9465") {
            let mut answer = String::new();
            stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            stream.read_to_string(&mut answer)?;
            if answer.starts_with("HTTP/1.1 200") {
                return Ok(());
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("the run was not ready within 30 s".into())
}

fn load(brokers: &str, topic: &str, rate: u64, lines: u64) -> Result<()> {
    let (rate, lines) = (rate.to_string(), lines.to_string());
    let status = Command::new(STORMGLASS)
        .args([
            "load",
            "--brokers",
            brokers,
            "--topic",
            topic,
            "--lines",
            &lines,
            "--rate",
            &rate,
            "--words",
            "1",
            "-q",
        ])
        .args(["-X", "linger.ms=0"])
        .stdout(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("load ended with {status}").into()) }
}

/// The topology keeps the order of its input but for the spread over partitions, so the i-th output belongs to the i-th
/// line: sorted times of append against sorted times due. (Outputs that overtake each other swap their latencies, which
/// leaves the sum and, but for the swapped pair, the percentiles as they are.)
fn compare(connection: &Connection, input: &str, output: &str, clock: &Clock) -> Result<Histogram<u64>> {
    let stamps = |topic: &str| -> Result<Vec<i64>> {
        let mut stamps = Vec::new();
        let mut reader = TopicReader::new(connection, Duration::from_secs(10), clock.clone())?;
        reader.read_all(topic, &mut |block| {
            stamps.extend(block.records().iter().map(|record| record.timestamp));
            ControlFlow::Continue(())
        })?;
        stamps.sort_unstable();
        Ok(stamps)
    };
    let (due, appended) = (stamps(input)?, stamps(output)?);
    if due.len() != appended.len() {
        return Err(format!("{} lines in, {} words out", due.len(), appended.len()).into());
    }
    // The first seconds are the loader's and the client's own start: connections, metadata, the first long poll.
    let warm = due.first().copied().unwrap_or(0) + WARM_UP_MILLIS;
    let mut seen = Histogram::new(3)?;
    for (due, appended) in due.iter().zip(&appended).filter(|(due, _)| **due >= warm) {
        seen.record(u64::try_from(appended - due).unwrap_or(0))?;
    }
    Ok(seen)
}
