//! One Apache Kafka broker for all Kafka tests of a process, however this machine can have one; and the embedded one.
//!
//! A test is a function that takes the broker: `fn(&Broker)` runs beside others, `fn(&mut Broker)` runs alone and may
//! stop and start it. The borrow checker keeps the two apart. One that stops it for long has a broker of its own, so that
//! the others go on meanwhile. Tests register with [`trials!`](crate::trials).

use std::{
    collections::HashSet,
    env,
    hash::{BuildHasher, Hasher, RandomState},
    io::{BufRead, Write},
    net::TcpListener,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process::{self, Child, Command, Output, Stdio},
    sync::{
        LazyLock, Mutex, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use libtest_mimic::{Completion, Failed, Trial};
use rdkafka::{
    ClientContext, Message, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    config::ClientConfig,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, KafkaResult},
    message::{DeliveryResult, Header, Headers, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer, ProducerContext},
    types::RDKafkaErrorCode,
};
use testcontainers::{
    Container, GenericImage, ImageExt,
    core::{ExecCommand, IntoContainerPort, WaitFor},
    runners::SyncRunner,
};

/// Longer than any step takes on a busy two-core machine, short enough to see which one hung.
const PATIENCE: Duration = Duration::from_secs(60);
const KAFKA_SH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testcontainers/kafka.sh");

/// Makes the named test functions of a module into trials: `trials!(shared: a, b)`, `trials!(alone: c)` or
/// `trials!(own: d)`.
#[macro_export]
macro_rules! trials {
    ($kind:ident: $($test:ident),+ $(,)?) => {
        vec![$($crate::broker::$kind(concat!(module_path!(), "::", stringify!($test)), $test)),+]
    };
}

/// A test that runs beside others: it has topics and groups of its own and leaves the broker alone.
pub fn shared(name: &str, test: fn(&Broker)) -> Trial {
    trial(name, move |broker| {
        test(&broker.read().unwrap_or_else(PoisonError::into_inner));
        Completion::Completed
    })
}

/// A test that stops the broker, so no other may use it meanwhile.
pub fn alone(name: &str, test: fn(&mut Broker)) -> Trial {
    trial(name, move |broker| {
        let mut broker = broker.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(broker.origin, Origin::Given) {
            return Completion::ignored_with("the broker in KAFKA_BOOTSTRAP is not ours to stop");
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| test(&mut broker)));
        // The next test finds it running, however this one left it.
        broker.start();
        outcome.map_or_else(|panic| resume_unwind(panic), |()| Completion::Completed)
    })
}

/// A test with a broker of its own, which it may stop for as long as it likes.
pub fn own(name: &str, test: fn(&mut Broker)) -> Trial {
    Trial::ignorable_test(short(name), move || match Broker::new() {
        Ok(mut broker) => {
            test(&mut broker);
            broker.end();
            Ok(Completion::Completed)
        }
        Err(reason) if required() => Err(Failed::from(reason)),
        Err(reason) => Ok(Completion::ignored_with(reason)),
    })
}

/// A test against a process of the embedded broker, beside others. It needs nothing that this machine may not have.
pub fn embedded(name: &str, test: fn(&Broker)) -> Trial {
    Trial::test(short(name), move || {
        let broker = EMBEDDED.as_ref().map_err(|error| Failed::from(error.as_str()))?;
        test(&broker.read().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    })
}

/// [`embedded`], with Kafka's own tools: where they cannot be had, as without Java, it is ignored.
pub fn embedded_with_java(name: &str, test: fn(&Broker)) -> Trial {
    Trial::ignorable_test(short(name), move || {
        let broker = EMBEDDED.as_ref().map_err(|error| Failed::from(error.as_str()))?;
        if let Err(reason) = &*TOOLS {
            return if required() { Err(Failed::from(reason)) } else { Ok(Completion::ignored_with(reason)) };
        }
        test(&broker.read().unwrap_or_else(PoisonError::into_inner));
        Ok(Completion::Completed)
    })
}

fn short(name: &str) -> &str {
    name.split_once("::").map_or(name, |(_crate, rest)| rest)
}

fn trial(name: &str, run: impl FnOnce(&RwLock<Broker>) -> Completion + Send + 'static) -> Trial {
    Trial::ignorable_test(short(name), move || match &*BROKER {
        Ok(broker) => Ok(run(broker)),
        Err(reason) if required() => Err(Failed::from(reason)),
        Err(reason) => Ok(Completion::ignored_with(reason)),
    })
}

/// CI says `REQUIRE_KAFKA=1`: there, a test that could not run has failed.
fn required() -> bool {
    env::var_os("REQUIRE_KAFKA").is_some_and(|value| value != "0" && !value.is_empty())
}

/// Started by the first test that wants it; why there is none otherwise.
static BROKER: LazyLock<Result<RwLock<Broker>, String>> = LazyLock::new(|| {
    let broker = Broker::find();
    match &broker {
        Ok(broker) => eprintln!("Kafka tests use {}", broker.describe()),
        Err(reason) => eprintln!("Kafka tests have no broker: {reason}"),
    }
    broker.map(RwLock::new)
});

/// Whether Kafka's own tools can be had, or why not.
static TOOLS: LazyLock<Result<(), String>> = LazyLock::new(|| last_words(&kafka_sh(&["fetch"])));

static EMBEDDED: LazyLock<Result<RwLock<Broker>, String>> = LazyLock::new(|| Broker::embedded().map(RwLock::new));

/// Ends the brokers that tests had started. Statics are never dropped, so `main` has to say it; when the process dies
/// before that, kafka.sh's watch (jars), testcontainers' (Docker) or the end of its input (embedded) does it.
pub fn shut_down() {
    for broker in [&BROKER, &EMBEDDED] {
        if let Some(Ok(broker)) = LazyLock::get(broker) {
            broker.write().unwrap_or_else(PoisonError::into_inner).end();
        }
    }
}

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
    fn find() -> Result<Self, String> {
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
    fn new() -> Result<Self, String> {
        Self::in_docker().or_else(|docker| Self::from_jars().map_err(|jars| format!("{docker}; {jars}")))
    }

    /// Ends the broker for good, unless it was given.
    fn end(&mut self) {
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
    fn embedded() -> Result<Self, String> {
        // The pipe to its input is never written to: when we are gone, by whatever end, it closes and the broker ends.
        let mut child = Command::new(env!("CARGO_BIN_EXE_stormglass"))
            .args(["broker", "--listen", "127.0.0.1:0", "--until-stdin-ends"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut said = String::new();
        let stdout = child.stdout.take().ok_or("it has no output")?;
        std::io::BufReader::new(stdout).read_line(&mut said).map_err(|error| error.to_string())?;
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

    fn describe(&self) -> String {
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

    /// What one of Kafka's own console tools prints, e.g. `tool("kafka-topics", &["--list"])`.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> String {
        if let Origin::Docker(container) = &self.origin {
            let program = format!("/opt/kafka/bin/{name}.sh");
            let command = [program.as_str(), "--bootstrap-server", &self.bootstrap];
            let mut result = container
                .exec(ExecCommand::new(command.iter().chain(arguments).copied()))
                .expect("Docker runs the tool");
            // To its end, before the exit code is asked for.
            let (stdout, stderr) = (result.stdout_to_vec(), result.stderr_to_vec());
            let code = result.exit_code().expect("the tool's exit code");
            assert_eq!(code, Some(0), "{name}: {}", text(&stderr.unwrap_or_default()));
            return text(&stdout.expect("the tool's output"));
        }
        self.tool_with_input(name, arguments, "")
    }

    /// [`Broker::tool`] with something on its standard input. Not inside of Docker.
    pub fn tool_with_input(&self, name: &str, arguments: &[&str], input: &str) -> String {
        let mut tool = Command::new(KAFKA_SH)
            .args(["tool", name])
            .args(arguments)
            .env("KAFKA_BOOTSTRAP", &self.bootstrap)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kafka.sh runs");
        // Short enough for the pipe; dropped, so that the tool sees its end.
        tool.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it is read");
        let output = tool.wait_with_output().expect("the tool ends");
        assert!(output.status.success(), "{name}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// A name for a topic or group that no other test has, in this run or an earlier one against the same broker.
    pub fn unique(&self, name: &str) -> String {
        static RUN: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        format!("{name}-{:x}-{}", *RUN, COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a topic, e.g. `topic("counts", 4, &[("cleanup.policy", "compact")])`, and returns its unique name.
    pub fn topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) -> String {
        let name = self.unique(name);
        self.make_topic(&name, partitions, config);
        name
    }

    /// Makes a topic of this name.
    pub fn make_topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let topic =
            config.iter().fold(NewTopic::new(name, partitions, TopicReplication::Fixed(1)), |topic, (key, value)| {
                topic.set(key, value)
            });
        let results = self.administer(async |admin, options| admin.create_topics([&topic], options).await);
        for result in results {
            result.unwrap_or_else(|(name, error)| panic!("topic {name}: {error}"));
        }
        // The answer comes before every client can see the topic.
        eventually("the new topic has leaders", || self.partitions(name).is_some_and(|n| n == partitions));
    }

    pub fn delete_topic(&self, name: &str) {
        let results = self.administer(async |admin, options| admin.delete_topics(&[name], options).await);
        for result in results {
            result.unwrap_or_else(|(name, error)| panic!("topic {name}: {error}"));
        }
        eventually("the topic is gone", || self.partitions(name).is_none());
    }

    /// Deletes the records of a partition below `low`, as retention does in time.
    pub fn delete_records(&self, topic: &str, partition: i32, low: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(low)).expect("a valid offset");
        let done = self.administer(async |admin, options| admin.delete_records(&list, options).await);
        done.elements().iter().for_each(|element| element.error().expect("the records are deleted"));
    }

    /// Calls an admin client.
    pub fn administer<T>(
        &self,
        call: impl AsyncFnOnce(&AdminClient<DefaultClientContext>, &AdminOptions) -> KafkaResult<T>,
    ) -> T {
        let admin: AdminClient<_> = self.client().create().expect("an admin client");
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(call(&admin, &options)).expect("the broker answers")
    }

    fn partitions(&self, topic: &str) -> Option<i32> {
        let client = self.consumer(Isolation::ReadCommitted);
        let metadata = client.fetch_metadata(Some(topic), PATIENCE).ok()?;
        let partitions = metadata.topics().first().filter(|topic| topic.error().is_none())?.partitions();
        partitions
            .iter()
            .all(|p| p.error().is_none() && p.leader() >= 0)
            .then(|| i32::try_from(partitions.len()).ok())?
    }

    /// Writes records, in order, and returns when the broker has acknowledged all. A `&str` is a record with only a
    /// value, `(key, value)` one with both.
    pub fn produce<R: Into<Record>>(&self, topic: &str, records: impl IntoIterator<Item = R>) {
        let producer: BaseProducer<Refusals> = self
            .client()
            .set("enable.idempotence", "true")
            .set("linger.ms", "2")
            // Java's partitioner, so that keys lie where other clients would put them.
            .set("partitioner", "murmur2_random")
            .create_with_context(Refusals::default())
            .expect("a producer");
        for record in records.into_iter().map(Into::into) {
            let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header { key, value: value.as_deref() })
            });
            let mut next = BaseRecord::<[u8], [u8]>::to(topic).headers(headers);
            next.key = record.key.as_deref();
            next.payload = record.value.as_deref();
            next.partition = record.partition;
            next.timestamp = record.timestamp;
            while let Err((error, refused)) = producer.send(next) {
                assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::QueueFull), "{error}");
                producer.poll(Duration::from_millis(10));
                next = refused;
            }
            producer.poll(Duration::ZERO);
        }
        producer.flush(PATIENCE).expect("all records are acknowledged");
        let refusals = producer.context().0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(refusals.is_empty(), "refused by the broker: {refusals:?}");
    }

    /// All records that a reader of this isolation sees now, in the order of offsets within each partition.
    pub fn read(&self, topic: &str, isolation: Isolation) -> Vec<Record> {
        let consumer = self.consumer(isolation);
        let partitions = self.partitions(topic).unwrap_or_else(|| panic!("no topic {topic}"));
        let mut start = TopicPartitionList::new();
        for partition in 0..partitions {
            start.add_partition_offset(topic, partition, Offset::Beginning).expect("a valid offset");
        }
        consumer.assign(&start).expect("an assignment");

        let deadline = Instant::now() + PATIENCE;
        let mut open: HashSet<i32> = (0..partitions).collect();
        let mut records = Vec::new();
        while !open.is_empty() {
            assert!(Instant::now() < deadline, "the end of {topic}, partitions {open:?}, was not reached");
            match consumer.poll(Duration::from_millis(100)) {
                None => {}
                Some(Ok(message)) => records.push(Record::from_message(&message)),
                Some(Err(KafkaError::PartitionEOF(partition))) => drop(open.remove(&partition)),
                Some(Err(error)) => panic!("reading {topic}: {error}"),
            }
        }
        records
    }

    /// The offset that a group has committed, per partition.
    pub fn committed(&self, group: &str, topic: &str) -> Vec<Option<i64>> {
        let consumer: BaseConsumer = self.client().set("group.id", group).create().expect("a consumer");
        let mut wanted = TopicPartitionList::new();
        let partitions = self.partitions(topic).unwrap_or_else(|| panic!("no topic {topic}"));
        wanted.add_partition_range(topic, 0, partitions - 1);
        let mut found = TopicPartitionList::new();
        // A broker that has just started does not know at once which groups are its own.
        eventually("the group's coordinator answers", || match consumer.committed_offsets(wanted.clone(), PATIENCE) {
            Ok(offsets) => {
                found = offsets;
                true
            }
            Err(KafkaError::MetadataFetch(
                RDKafkaErrorCode::NotCoordinator
                | RDKafkaErrorCode::CoordinatorLoadInProgress
                | RDKafkaErrorCode::CoordinatorNotAvailable,
            )) => false,
            Err(error) => panic!("the offsets of group {group}: {error}"),
        });
        found.elements().iter().map(|element| element.offset().to_raw().filter(|raw| *raw >= 0)).collect()
    }

    /// `LAG` of each partition, as Kafka's own tool sees it.
    pub fn lags(&self, group: &str, topic: &str) -> Vec<String> {
        let described = self.tool("kafka-consumer-groups", &["--describe", "--group", group]);
        let rows = described.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG ...
        rows.filter(|row| row.get(1) == Some(&topic)).map(|row| row[5].to_owned()).collect()
    }

    /// A client's configuration that knows the address, for whatever a test wants to make of it.
    pub fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    fn consumer(&self, isolation: Isolation) -> BaseConsumer {
        let isolation = match isolation {
            Isolation::ReadCommitted => "read_committed",
            Isolation::ReadUncommitted => "read_uncommitted",
        };
        self.client()
            .set("group.id", "reads-without-committing")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", isolation)
            .create()
            .expect("a consumer")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    ReadCommitted,
    ReadUncommitted,
}

/// A record to write, or one that was read (then partition, offset and timestamp are there).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub partition: Option<i32>,
    pub timestamp: Option<i64>,
    pub offset: Option<i64>,
}

impl Record {
    fn from_message(message: &impl Message) -> Self {
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        Self {
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect(),
            partition: Some(message.partition()),
            timestamp: message.timestamp().to_millis(),
            offset: Some(message.offset()),
        }
    }

    /// Key and value as text, for assertions; null is "".
    pub fn text(&self) -> (String, String) {
        (text(self.key.as_deref().unwrap_or_default()), text(self.value.as_deref().unwrap_or_default()))
    }
}

impl From<&str> for Record {
    fn from(value: &str) -> Self {
        Self { value: Some(value.into()), ..Self::default() }
    }
}

impl From<(&str, &str)> for Record {
    fn from((key, value): (&str, &str)) -> Self {
        Self { key: Some(key.into()), ..Self::from(value) }
    }
}

/// What the broker did not take: `flush` alone does not tell.
#[derive(Default)]
struct Refusals(Mutex<Vec<KafkaError>>);

impl ClientContext for Refusals {}

impl ProducerContext for Refusals {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(error.clone());
        }
    }
}

/// Waits for what happens in another process and cannot be waited for otherwise.
pub fn eventually(what: &str, mut happens: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happens() {
        assert!(Instant::now() < deadline, "did not happen within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Lets time pass that a test is about, an outage of a minute, say; never a way to wait for something.
pub fn pass(span: Duration) {
    thread::sleep(span);
}

fn kafka_sh(arguments: &[&str]) -> Output {
    Command::new(KAFKA_SH).args(arguments).output().expect("kafka.sh runs")
}

/// What kafka.sh ended with: its last line is the sentence, what stands above are details.
fn last_words(output: &Output) -> Result<(), String> {
    let reason = || output.stderr.lines().map_while(Result::ok).last().unwrap_or_default();
    output.status.success().then_some(()).ok_or_else(reason)
}

fn succeeded(what: &str, output: Output) {
    assert!(output.status.success(), "{what}: {}", text(&output.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its number").port()
}
