//! What a changelog costs against Apache Kafka: keys a second and CPU of a restore, and the time of a flush by the number
//! of key groups that it touches.
//!
//! `KAFKA_BOOTSTRAP=127.0.0.1:9092 cargo bench --bench restore [-- KEYS [ROUNDS]]`. Without a broker it does nothing.

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
    kafka::{ChangelogConnections, ChangelogOptions, Connection, KafkaChangelog},
    state::{Changes, Position},
    topology::{
        ComponentError,
        changelog::{Changelog, Flush, Restored, StoreFormat, StoreId},
    },
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const STEP: Duration = Duration::from_millis(50);

/// Entries of one flush while a changelog is filled.
const FLUSH: u64 = 100_000;

/// The time between commits that the engine has by default.
const INTERVAL: Duration = Duration::from_millis(100);

fn main() -> Result<()> {
    let Ok(brokers) = env::var("KAFKA_BOOTSTRAP") else {
        println!("KAFKA_BOOTSTRAP is not set: nothing measured");
        return Ok(());
    };
    let numbers: Vec<u64> = env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let keys = numbers.first().copied().unwrap_or(1_000_000);
    let rounds = numbers.get(1).copied().unwrap_or(5);
    restores(&brokers, keys, rounds)?;
    flushes(&brokers)
}

/// CPU of all threads of this process.
fn cpu() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.cast_unsigned()))
}

fn told(error: &ComponentError) -> Box<dyn Error> {
    error.to_string().into()
}

/// Makes the changelog of one store, and opens it.
fn open(brokers: &str, app: &str, key_groups: u16) -> Result<Box<dyn Changelog>> {
    let of = || Connection { brokers: brokers.to_owned(), ..Connection::default() };
    let clients = ChangelogConnections { admin: of(), consumer: of(), producer: of() }.clients(Clock::system());
    let options = ChangelogOptions::new(brokers, app, "0", Duration::from_secs(45));
    let (component, store) = ("count".to_owned(), "counts".to_owned());
    let format = StoreFormat { component, store, key: "text".to_owned(), value: "uint".to_owned(), key_groups };
    let made = KafkaChangelog::new(options, &[format], &clients, Clock::system());
    let mut changelog = Box::new(made.map_err(|error| told(&error))?);
    while !changelog.open(STEP).map_err(|error| told(&error))? {}
    Ok(changelog)
}

/// Reads everything; how many entries there were, and the position.
fn restore(changelog: &mut dyn Changelog) -> Result<(u64, Option<Position>)> {
    let mut entries = 0;
    loop {
        match changelog.restore(STEP).map_err(|error| told(&error))? {
            Restored::Nothing => {}
            Restored::Entries { entries: batch, .. } => {
                // As a store would: look at each.
                entries += batch.iter().filter(|change| change.value.is_some()).count() as u64;
            }
            Restored::Done(position) => return Ok((entries, position)),
        }
    }
}

/// A key of 15 bytes and a value of 8 for each number; key groups in turn.
fn changes(numbers: std::ops::Range<u64>, key_groups: u64) -> Changes {
    let mut changes = Changes::default();
    for n in numbers {
        let group = u16::try_from(n % key_groups).unwrap_or_default();
        changes.push(group, format!("{n:015}").as_bytes(), Some(&n.to_be_bytes()));
    }
    changes
}

fn flush(changelog: &mut dyn Changelog, commit: u64, changes: Changes) -> Result<()> {
    let position = Position { commit, sources: Vec::new() };
    changelog.write(Flush { position, changes: vec![(StoreId(0), changes)] }).map_err(|error| told(&error))?;
    while changelog.poll(STEP).map_err(|error| told(&error))?.is_none() {}
    Ok(())
}

fn restores(brokers: &str, keys: u64, rounds: u64) -> Result<()> {
    const GROUPS: u16 = 64;
    // The first run fills it.
    let app = format!("bench-restore-{keys}");
    let mut changelog = open(brokers, &app, GROUPS)?;
    let (mut commit, mut at) = (restore(&mut *changelog)?.1.map_or(0, |position| position.commit), 0);
    if commit == 0 {
        while at < keys {
            let end = keys.min(at + FLUSH);
            commit += 1;
            flush(&mut *changelog, commit, changes(at..end, u64::from(GROUPS)))?;
            at = end;
        }
    }
    changelog.close(STEP);
    drop(changelog);

    println!("restore of {keys} keys of 15 bytes with values of 8, {GROUPS} key groups");
    println!("| ms to open | ms to restore | M keys / s, both | CPU ns / key |");
    println!("|---|---|---|---|");
    for _ in 0..rounds {
        let (start, before) = (Instant::now(), cpu()?);
        let mut changelog = open(brokers, &app, GROUPS)?;
        let opened = start.elapsed();
        let (entries, _) = restore(&mut *changelog)?;
        let (all, spent) = (start.elapsed(), cpu()?.saturating_sub(before));
        assert_eq!(entries, keys, "every key comes back");
        changelog.close(STEP);
        println!(
            "| {} | {} | {:.2} | {:.0} |",
            opened.as_millis(),
            (all - opened).as_millis(),
            entries as f64 / all.as_secs_f64() / 1e6,
            spent.as_nanos() as f64 / entries as f64
        );
    }
    Ok(())
}

fn flushes(brokers: &str) -> Result<()> {
    const ROUNDS: usize = 50;
    println!(
        "\na flush every {INTERVAL:?}, median and 90th percentile of {ROUNDS} ms from `write` to durable, CPU of this process"
    );
    println!("| key groups | 1,000 entries | p90 | CPU ms | 10,000 entries | p90 | CPU ms |");
    println!("|---|---|---|---|---|---|---|");
    for groups in [1_u16, 4, 8, 16, 32, 64] {
        let app = format!("bench-flush-{}-{groups}", std::process::id());
        let mut changelog = open(brokers, &app, groups)?;
        restore(&mut *changelog)?;
        let mut commit = 0;
        let mut row = String::new();
        for entries in [1_000, 10_000] {
            let mut times = Vec::with_capacity(ROUNDS);
            let before = cpu()?;
            for _ in 0..ROUNDS {
                std::thread::sleep(INTERVAL);
                commit += 1;
                let changes = changes(0..entries, u64::from(groups));
                let start = Instant::now();
                flush(&mut *changelog, commit, changes)?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            let spent = cpu()?.saturating_sub(before).as_secs_f64() * 1e3 / ROUNDS as f64;
            times.sort_by(f64::total_cmp);
            let [half, most] = [ROUNDS / 2, ROUNDS * 9 / 10].map(|at| times.get(at).copied().unwrap_or(f64::NAN));
            row.push_str(&format!(" {half:.1} | {most:.1} | {spent:.1} |"));
        }
        println!("| {groups} |{row}");
        changelog.close(STEP);
    }
    Ok(())
}
