//! A broker's start and its end.

use std::{
    env,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::{self, Child, Command, Stdio},
    time::Duration,
};

use rdkafka::consumer::Consumer as _;
use testcontainers::{
    Container, GenericImage, ImageExt as _,
    core::{ExecCommand, IntoContainerPort as _, WaitFor},
    runners::SyncRunner as _,
};

use super::{
    Isolation, eventually, text,
    tools::{kafka_sh, last_words, succeeded},
};

#[derive(Debug)]
pub struct Broker {
    bootstrap: String,
    origin: Origin,
    running: bool,
}

#[derive(Debug)]
enum Origin {
    /// `KAFKA_BOOTSTRAP` names it.
    Given,
    Docker(Box<Container<GenericImage>>),
    Jars,
    /// `stormglass broker`.
    Embedded(Child),
}

impl Broker {
    pub(super) fn find() -> Result<Self, String> {
        if let Some(bootstrap) = env::var_os("KAFKA_BOOTSTRAP").filter(|value| !value.is_empty()) {
            let broker = Self::at(bootstrap.to_string_lossy().into_owned(), Origin::Given);
            return broker
                .answers()
                .then_some(broker)
                .ok_or_else(|| format!("nothing answers at KAFKA_BOOTSTRAP={}", bootstrap.display()));
        }
        Self::new()
    }

    /// A new one.
    pub(super) fn new() -> Result<Self, String> {
        Self::in_docker().or_else(|docker| Self::from_jars().map_err(|jars| format!("{docker}; {jars}")))
    }

    /// Ends the broker for good, unless it was given.
    pub(super) fn end(&mut self) {
        match std::mem::replace(&mut self.origin, Origin::Given) {
            Origin::Given => {}
            Origin::Docker(container) => drop(container),
            Origin::Jars => drop(kafka_sh(&["stop", self.port()])),
            Origin::Embedded(mut child) => {
                child.kill().expect("the embedded broker runs");
                child.wait().expect("the embedded broker ends");
            }
        }
    }

    /// A new process of the embedded broker.
    pub(super) fn embedded() -> Result<Self, String> {
        // The pipe to its input is never written to: when we are gone, by whatever end, it closes and the broker ends.
        let mut child = Command::new(env!("CARGO_BIN_EXE_stormglass"))
            .args(["broker", "--listen", "127.0.0.1:0", "--until-stdin-ends"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut said = String::new();
        let stdout = child.stdout.take().ok_or("it has no output")?;
        BufReader::new(stdout).read_line(&mut said).map_err(|error| error.to_string())?;
        let bootstrap = said.trim_end().strip_prefix("listening on ").ok_or(format!("it said {said:?}"))?;
        Ok(Self::at(bootstrap.to_owned(), Origin::Embedded(child)))
    }

    fn in_docker() -> Result<Self, String> {
        // The image's port has the host's number, so that the one advertised address is right on both sides.
        let port = free_port();
        let image = GenericImage::new("apache/kafka", "4.4.0")
            .with_wait_for(WaitFor::message_on_stdout("Kafka Server started"))
            .with_mapped_port(port, port.tcp());
        [
            ("PROCESS_ROLES", "broker,controller"),
            ("NODE_ID", "1"),
            ("LISTENERS", &format!("PLAINTEXT://:{port},CONTROLLER://localhost:19093")),
            ("ADVERTISED_LISTENERS", &format!("PLAINTEXT://127.0.0.1:{port}")),
            ("CONTROLLER_LISTENER_NAMES", "CONTROLLER"),
            ("CONTROLLER_QUORUM_VOTERS", "1@localhost:19093"),
            ("OFFSETS_TOPIC_REPLICATION_FACTOR", "1"),
            ("TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1"),
            ("TRANSACTION_STATE_LOG_MIN_ISR", "1"),
            ("SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR", "1"),
            ("SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR", "1"),
            ("GROUP_INITIAL_REBALANCE_DELAY_MS", "0"),
            ("GROUP_MIN_SESSION_TIMEOUT_MS", "1000"),
            ("AUTO_CREATE_TOPICS_ENABLE", "false"),
        ]
        .into_iter()
        .fold(image, |image, (name, value)| image.with_env_var(format!("KAFKA_{name}"), value))
        .start()
        .map(|container| Self::at(format!("127.0.0.1:{port}"), Origin::Docker(Box::new(container))))
        .map_err(|error| format!("Docker: {error}"))
    }

    fn from_jars() -> Result<Self, String> {
        // The watch ends the broker when this process is gone, even by SIGKILL.
        let output = kafka_sh(&["start", "0", "--watch", &process::id().to_string()]);
        last_words(&output)?;
        let bootstrap = text(&output.stdout).trim().to_owned();
        Ok(Self::at(bootstrap, Origin::Jars))
    }

    fn at(bootstrap: String, origin: Origin) -> Self {
        Self { bootstrap, origin, running: true }
    }

    pub(super) fn describe(&self) -> String {
        let origin = match &self.origin {
            Origin::Given => "KAFKA_BOOTSTRAP",
            Origin::Docker(_) => "Docker",
            Origin::Jars => "its jars",
            Origin::Embedded(_) => return format!("the embedded broker at {}", self.bootstrap),
        };
        format!("Apache Kafka from {origin} at {}", self.bootstrap)
    }

    /// `HOST:PORT`, the same over all restarts.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    fn port(&self) -> &str {
        self.bootstrap.rsplit_once(':').map_or("", |(_host, port)| port)
    }

    /// Ends the broker gracefully; its data stays.
    pub fn stop(&mut self) {
        match &self.origin {
            Origin::Given | Origin::Embedded(_) => unreachable!("tests that stop a broker have Kafka's"),
            Origin::Docker(container) => container.stop().expect("Docker stops the broker"),
            Origin::Jars => succeeded("kafka.sh stop", kafka_sh(&["stop", self.port(), "--keep"])),
        }
        self.running = false;
    }

    /// Starts the broker again with its data, and returns when it answers. Nothing happens if it runs.
    pub fn start(&mut self) {
        if std::mem::replace(&mut self.running, true) {
            return;
        }
        match &self.origin {
            Origin::Given | Origin::Embedded(_) => unreachable!("tests that stop a broker have Kafka's"),
            Origin::Docker(container) => container.start().expect("Docker starts the broker"),
            Origin::Jars => succeeded("kafka.sh start", kafka_sh(&["start", self.port()])),
        }
        eventually("the broker answers", || self.answers());
    }

    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    fn answers(&self) -> bool {
        let client = self.consumer(Isolation::ReadCommitted);
        client.fetch_metadata(None, Duration::from_secs(10)).is_ok_and(|answer| !answer.brokers().is_empty())
    }

    /// Whether a test may stop it.
    pub(super) const fn is_ours(&self) -> bool {
        !matches!(self.origin, Origin::Given)
    }

    /// What a program of Kafka's prints inside of the broker's container; `None`: it is in none.
    pub(super) fn in_container(&self, name: &str, arguments: &[&str]) -> Option<String> {
        let Origin::Docker(container) = &self.origin else { return None };
        let program = format!("/opt/kafka/bin/{name}.sh");
        let command = [program.as_str(), "--bootstrap-server", &self.bootstrap];
        let mut result =
            container.exec(ExecCommand::new(command.iter().chain(arguments).copied())).expect("Docker runs the tool");
        // To its end, before the exit code is asked for.
        let (stdout, stderr) = (result.stdout_to_vec(), result.stderr_to_vec());
        let code = result.exit_code().expect("the tool's exit code");
        assert_eq!(code, Some(0), "{name}: {}", text(&stderr.unwrap_or_default()));
        Some(text(&stdout.expect("the tool's output")))
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its number").port()
}
