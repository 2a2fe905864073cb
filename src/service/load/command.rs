//! The command `load`: from its flags to its last line.

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use super::{
    input::Input,
    lines::{LineOptions, Lines},
    send::{Sender, Sent, Target},
};
use crate::{
    clock::{Clock, wall_millis},
    kafka::{RdkafkaSink, SinkOptions, admin::Admin, client::topics::TopicSpec},
    service::{
        cli::Load,
        config::{ClientSettings, legal_topic, no_topic},
        connect,
        dispatch::Session,
        exit::{Cause, Failure, Outcome},
        output,
        progress::{Progress, counted, grouped},
    },
};

/// Time between two looks of the progress line.
const SHOW: Duration = Duration::from_millis(200);
/// How long a line waits for others to share a request: enough for large requests when many lines come.
const LINGER: Duration = Duration::from_millis(5);
/// The same when lines come at a rate, and somebody may measure how long they take.
const PACED_LINGER: Duration = Duration::from_micros(500);

/// Records and kibibytes on their way to the broker: enough to keep it busy while lines are made.
const QUEUE_RECORDS: u32 = 200_000;
const QUEUE_KIB: u32 = 65_536;
/// Partitions of a topic that is made, if nothing else is said.
const PARTITIONS: u32 = 4;
/// Longest wait for a broker to answer.
const ANSWER: Duration = Duration::from_secs(15);

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    topic: &'a str,
    partitions: i32,
    topic_made: bool,
    #[serde(flatten)]
    sent: Sent,
    seconds: f64,
    lines_per_second: f64,
}

/// Runs the command.
///
/// # Errors
/// Wrong flags, a file that is not there, a broker that does not answer, lines that were not delivered.
pub(crate) fn load(session: &Session<'_>, args: &Load) -> Outcome {
    let settings = session.client()?;
    check(args)?;
    let mut input = input(args)?;
    let clock = Clock::system();
    let linger = if args.rate.is_some() { PACED_LINGER } else { LINGER };
    let connection = connect::producer(&settings);
    let options =
        SinkOptions { linger, queue_records: QUEUE_RECORDS, queue_kib: QUEUE_KIB, ..SinkOptions::new(connection) };
    // Before the topic: a client that cannot be made leaves none behind.
    let mut client = RdkafkaSink::new(&options, clock.clone())?;
    let (partitions, topic_made) = topic(&settings, args, &clock)?;
    if topic_made {
        tracing::info!(topic = args.topic, partitions, "made the topic");
    } else if let Some(wanted) = args.partitions.filter(|wanted| i64::from(*wanted) != i64::from(partitions)) {
        tracing::warn!(topic = args.topic, partitions, wanted, "the topic exists, and keeps its number of partitions");
    }
    let target = Target { topic: Arc::from(args.topic.as_str()), partitions, rate: args.rate };

    let progress = Progress::new(session.global);
    let (start, total, mut shown) = (clock.now(), input.left(), clock.now());
    let sent = Sender::new(&mut client, &target, &clock).send(&mut input, wall_millis(), &mut |sent| {
        let now = clock.now();
        if progress.is_shown() && now.saturating_since(shown) >= SHOW {
            shown = now;
            progress.show(line(sent, total, now.saturating_since(start)));
        }
    })?;
    drop(progress);

    let seconds = clock.now().saturating_since(start).as_secs_f64();
    let report = Report {
        topic: &args.topic,
        partitions,
        topic_made,
        lines_per_second: per_second(sent.lines, seconds),
        sent,
        seconds,
    };
    report_to_user(session, &report)
}

fn check(args: &Load) -> Outcome {
    if !legal_topic(&args.topic) {
        return Err(Failure::new(Cause::Usage, format!("--topic: {}", no_topic(&args.topic))));
    }
    if let Some(rate) = args.rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
        return Err(Failure::new(Cause::Usage, format!("--rate {rate} is no number of lines above 0")));
    }
    Ok(())
}

fn input(args: &Load) -> Result<Input, Failure> {
    if let Some(path) = &args.file {
        let (opened, shown) = if path.as_os_str() == "-" {
            (Input::standard(), "the standard input".to_owned())
        } else {
            (Input::file(path), path.display().to_string())
        };
        return opened.map_err(|error| Failure::new(Cause::NoInput, format!("{shown} cannot be read: {error}")));
    }
    let options = LineOptions {
        words: args.words,
        vocabulary: args.vocabulary,
        zipf: args.zipf,
        unique_ids: args.unique_ids,
        seed: args.seed,
    };
    let lines = Lines::new(options).map_err(|message| Failure::new(Cause::Usage, message))?;
    Ok(Input::Generated(lines, args.lines.unwrap_or(0)))
}

/// Makes the topic if it is absent: its partitions, and whether it was made.
fn topic(settings: &ClientSettings, args: &Load, clock: &Clock) -> Result<(i32, bool), Failure> {
    let admin = Admin::new(&connect::admin(settings), ANSWER, clock.clone())?;
    let wanted = i32::try_from(args.partitions.unwrap_or(PARTITIONS)).unwrap_or(i32::MAX);
    let (name, replication) = (args.topic.as_str().into(), settings.replication);
    let made = admin.ensure(&TopicSpec { name, partitions: wanted, replication, settings: Vec::new() })?;
    Ok((admin.partitions(&args.topic)?.unwrap_or(wanted), made))
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn per_second(lines: u64, seconds: f64) -> f64 {
    lines as f64 / seconds.max(f64::MIN_POSITIVE)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for people")]
fn line(sent: &Sent, total: Option<u64>, elapsed: Duration) -> String {
    let of = total.map(|total| format!(" of {}", grouped(total))).unwrap_or_default();
    let rate = per_second(sent.lines, elapsed.as_secs_f64()) as u64;
    format!("{}{of} lines, {} lines/s", grouped(sent.lines), grouped(rate))
}

fn report_to_user(session: &Session<'_>, report: &Report<'_>) -> Outcome {
    if session.global.json {
        return output::json(report);
    }
    output::data(&format!(
        "loaded {} ({}) into {} ({}) in {:.1} s: {:.0} lines/s\n",
        counted(report.sent.acknowledged, "line"),
        counted(report.sent.bytes, "byte"),
        report.topic,
        counted(u64::try_from(report.partitions).unwrap_or(0), "partition"),
        report.seconds,
        report.lines_per_second
    ))
}
