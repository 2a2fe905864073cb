//! The course of a torture: events as planned, under load, then the last run.

use std::{
    fs,
    path::PathBuf,
    process, thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use stormglass::kafka::{Connection, admin::group::GroupAdmin};

use super::{
    Subject,
    plan::{Event, Plan},
    verdict::Verdict,
};
use crate::{
    broker::{Broker, Isolation, eventually},
    process::{Finished, Job, Process},
};

/// Lines written a second. Little enough that a process keeps up, so that what is not committed stays small.
const LINES_A_SECOND: u64 = 3_000;
const WORDS: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(30);

/// One course, with what it leaves behind if it fails.
pub struct Course {
    subject: Subject,
    seed: u64,
    job: Job,
    lines: u64,
    folder: PathBuf,
    began: Instant,
    events: Vec<String>,
    /// Output of every process that ended.
    ended: Vec<Finished>,
    /// Records that were not committed when a process ended, or lost its partitions.
    not_committed: u64,
}

impl Course {
    pub fn new(broker: &Broker, subject: Subject, seed: u64, plan: &Plan) -> Self {
        let folder = std::env::temp_dir().join(format!("stormglass-torture-{seed}-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder for what is left behind");
        let state_dir = format!("state_dir={}", folder.display());
        let flags = ["--topology", subject.topology(), "--log-format", "json", "--set", &state_dir];
        // Taken over at once after a kill, and lost now and then while it stands still.
        let identity = ["--set", "kafka.instance=victim", "--set", "kafka.session_timeout_ms=6000"];
        let job = Job::new(broker, &broker.topic("tortured", 4, &[]), &[&flags[..], &identity].concat());
        let lines = LINES_A_SECOND * plan.span.as_secs().max(1);
        let (began, events, ended) = (Instant::now(), Vec::new(), Vec::new());
        Self { subject, seed, job, lines, folder, began, events, ended, not_committed: 0 }
    }

    fn say(&mut self, what: &str) {
        let line = format!("torture seed {} {:>8.3} s  {what}", self.seed, self.began.elapsed().as_secs_f64());
        eprintln!("{line}");
        self.events.push(line);
    }

    /// Runs the plan; panics with the verdict if it is bad.
    pub fn run(mut self, broker: &mut Broker, plan: &Plan) {
        self.say(&format!("{:?}, {} lines into {}", self.subject, self.lines, self.job.input));
        let mut load = self.load();
        let mut victim = self.job.start(&[]);
        let mut frozen = false;
        for (pause, event) in &plan.steps {
            thread::sleep(*pause);
            if !victim.is_running() {
                // Who has lost its place in the group while it stood still may leave it to a service manager to go on.
                assert!(frozen, "a run ended by itself: {}", victim.stderr());
                self.say("ended by itself after it stood still; the next one goes on");
                self.ended.push(victim.wait());
                victim = self.job.start(&[]);
            }
            frozen = matches!(event, Event::Freeze(_));
            self.say(&format!("{event:?}"));
            victim = self.happen(broker, victim, *event);
        }
        let patience = Instant::now() + plan.span + Duration::from_secs(120);
        while load.is_running() {
            assert!(Instant::now() < patience, "the load does not end: {}", load.stderr());
            thread::sleep(Duration::from_millis(100));
        }
        load.wait().succeeded();
        self.say("all lines are written; the last stop and the last run");
        victim.signal(Signal::SIGTERM);
        self.end(broker, victim);
        let last = self.job.to_the_end().succeeded();
        self.say(&format!("the last run: {}", last.stdout.trim()));
        self.ended.push(last);
        self.judge(broker);
    }

    fn load(&self) -> Process {
        let (lines, rate, words) = (self.lines.to_string(), LINES_A_SECOND.to_string(), WORDS.to_string());
        let what = ["--topic", &self.job.input, "--lines", &lines, "--rate", &rate, "--words", &words, "--unique-ids"];
        Process::start(&[&["load", "--brokers", &self.job.brokers], &what[..]].concat())
    }

    fn happen(&mut self, broker: &mut Broker, victim: Process, event: Event) -> Process {
        match event {
            Event::Kill => {
                victim.signal(Signal::SIGKILL);
                self.end(broker, victim);
                self.job.start(&[])
            }
            Event::Drain => {
                victim.signal(Signal::SIGTERM);
                self.end(broker, victim);
                self.job.start(&[])
            }
            Event::Freeze(span) => {
                victim.signal(Signal::SIGSTOP);
                thread::sleep(span);
                // Whoever loses its partitions meanwhile repeats what it had not committed.
                self.not_committed += self.lag(broker);
                victim.signal(Signal::SIGCONT);
                victim
            }
            Event::Outage(span) => {
                broker.stop();
                thread::sleep(span);
                broker.start();
                self.not_committed += self.lag(broker);
                victim
            }
        }
    }

    /// Waits for the end of a process, and notes what it leaves to be repeated.
    fn end(&mut self, broker: &Broker, victim: Process) {
        let ended = victim.wait();
        assert!(matches!(ended.code, None | Some(0 | 75)), "{ended:#?}");
        if ended.code != Some(0) {
            let more = self.lag(broker);
            self.not_committed += more;
            self.say(&format!("ended with {:?}; {more} records are not committed", ended.code));
        }
        self.ended.push(ended);
    }

    /// Records that are written and not committed: what a process may have read that is gone.
    fn lag(&self, broker: &Broker) -> u64 {
        let connection = Connection { brokers: broker.bootstrap().to_owned(), ..Connection::default() };
        let group = GroupAdmin::new(&connection, &self.job.group, PATIENCE).expect("a client");
        let mut lag = None;
        eventually("offsets and ends are known", || {
            lag = group.watermarks(&self.job.input).ok().and_then(|ends| {
                let partitions: Vec<_> = ends.iter().map(|w| w.partition.clone()).collect();
                let committed = group.committed(&partitions).ok()?;
                let open = ends.iter().zip(committed).map(|(w, c)| w.high.0 - c.map_or(w.low.0, |c| c.next.0));
                Some(open.sum::<i64>())
            });
            lag.is_some()
        });
        u64::try_from(lag.unwrap_or_default()).unwrap_or(0)
    }

    fn judge(mut self, broker: &Broker) {
        let output = broker.read(&self.job.output, Isolation::ReadCommitted);
        let (verdict, repeats) = match self.subject {
            Subject::SplitWords => (Verdict::of_occurrences(&output, self.lines), self.not_committed),
            Subject::WordCount => (Verdict::of_counts(&output, self.lines), self.announced()),
        };
        let audit = self.job.audit(&["--kind", self.subject.kind()]);
        let missing = audit.number("missing");
        self.say(&format!("{verdict}; at most {repeats} may be; audit: {missing} words missing"));
        if verdict.missing.is_empty() && missing == 0 && verdict.surplus <= repeats {
            fs::remove_dir_all(&self.folder).ok();
            return;
        }
        self.leave_behind(broker);
        panic!("seed {}: {verdict}, at most {repeats} may be; see {}", self.seed, self.folder.display());
    }

    /// Records that may be repeated by what the runs said when they had restored their state.
    fn announced(&self) -> u64 {
        let lines = self.ended.iter().flat_map(|run| run.stderr.lines());
        let said = lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        said.filter_map(|line| line["fields"]["possible_repeats"].as_u64()).sum()
    }

    /// Everything that may tell why: events, output of the processes, topics.
    fn leave_behind(&self, broker: &Broker) {
        let write = |name: &str, text: String| fs::write(self.folder.join(name), text).expect("room for what is left");
        write("events.txt", self.events.join("\n"));
        for (n, run) in self.ended.iter().enumerate() {
            write(&format!("run-{n}.txt"), format!("{:?}\n{}\n{}", run.code, run.stdout, run.stderr));
        }
        for topic in [&self.job.input, &self.job.output] {
            let records = broker.read(topic, Isolation::ReadCommitted);
            let line = |r: &crate::broker::Record| format!("{:?}:{:?} {:?}\n", r.partition, r.offset, r.text());
            write(&format!("{topic}.txt"), records.iter().map(line).collect());
        }
    }
}
