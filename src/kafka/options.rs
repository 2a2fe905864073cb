//! How to reach Kafka, what to read and how to send: plain values, and the client's properties that come of them.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::overrides::without_logins;

/// How to reach the brokers; the same for every client of a process.
#[derive(Clone, Default)]
pub struct Connection {
    /// `host:port` of one or more brokers, comma-separated: `bootstrap.servers`.
    pub brokers: String,
    /// Names this process in the brokers' logs and quotas: `client.id`. Default: `stormglass`.
    pub client_id: Option<String>,
    /// Properties of librdkafka by name, applied last (TLS, SASL, tuning). See [`check_overrides`](super::check_overrides).
    pub overrides: BTreeMap<String, String>,
}

/// Names the overrides and shows none of their values: which are secret, only those who have set them know.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Connection");
        shown.field("brokers", &without_logins(&self.brokers)).field("client_id", &self.client_id);
        shown.field("overrides", &self.overrides.keys()).finish()
    }
}

/// How the members of a group share partitions: `partition.assignment.strategy`. All members must have the same.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Assignment {
    /// Moves only partitions that must move; the others go on meanwhile (KIP-429).
    #[default]
    CooperativeSticky,
    /// Neighbouring partitions of each topic; every change stops all members.
    Range,
    /// Partitions in turn; every change stops all members.
    RoundRobin,
}

impl Assignment {
    const fn strategy(self) -> &'static str {
        match self {
            Self::CooperativeSticky => "cooperative-sticky",
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
        }
    }
}

/// What a member of a consumer group reads, and as whom.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// How to reach the brokers.
    pub connection: Connection,
    /// The consumer group: `group.id`.
    pub group: String,
    /// Makes this a static member: `group.instance.id`. A second process with the same one fences the first.
    pub instance: Option<String>,
    /// How the group's members share partitions. Default [`Assignment::CooperativeSticky`].
    pub assignment: Assignment,
    /// Topics by name; a name that begins with `^` is a regular expression.
    pub topics: Vec<String>,
    /// After so long without a heartbeat the group gives this member's partitions to others: `session.timeout.ms`.
    /// Default 45 s, as in Java's client; a smaller value takes over faster after a crash and is more easily wrong.
    pub session_timeout: Duration,
    /// How long a broker may hold back a fetch that finds nothing: `fetch.wait.max.ms`. Default 500 ms. It costs no
    /// latency: the broker answers as soon as there is one byte.
    pub fetch_wait: Duration,
}

impl SourceOptions {
    /// Options that say who reads what, with the defaults for the rest.
    #[must_use]
    pub fn new(connection: Connection, group: impl Into<String>, topics: Vec<String>) -> Self {
        Self {
            connection,
            group: group.into(),
            instance: None,
            assignment: Assignment::default(),
            topics,
            session_timeout: Duration::from_secs(45),
            fetch_wait: Duration::from_millis(500),
        }
    }
}

/// How records are sent.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// How to reach the brokers.
    pub connection: Connection,
    /// How long a record waits for others to share its request: `linger.ms`, here in steps of a microsecond. Default 1 ms.
    pub linger: Duration,
    /// The most records taken and not yet acknowledged: `queue.buffering.max.messages`. Default 50,000.
    pub queue_records: u32,
    /// The most kibibytes taken and not yet acknowledged: `queue.buffering.max.kbytes`. Default 16,384.
    pub queue_kib: u32,
    /// After so long without acknowledgement a record counts as failed: `delivery.timeout.ms`. Default 5 minutes.
    pub delivery_timeout: Duration,
    /// The most records in one request: `batch.num.messages`. Default 10,000. With 1 a record that is too large takes no
    /// other down with it.
    pub request_records: u32,
}

impl SinkOptions {
    /// The defaults.
    #[must_use]
    pub const fn new(connection: Connection) -> Self {
        Self {
            connection,
            linger: Duration::from_millis(1),
            queue_records: 50_000,
            queue_kib: 16_384,
            delivery_timeout: Duration::from_secs(300),
            request_records: 10_000,
        }
    }
}

/// How a transactional producer writes.
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// How to reach the brokers.
    pub connection: Connection,
    /// The identity: `transactional.id`. Whoever takes it later fences whoever had it before.
    pub id: String,
    /// A transaction that is open for longer is ended by the broker: `transaction.timeout.ms`. Default 30 s. Shorter than
    /// the group's session timeout, or a successor would wait for it.
    pub timeout: Duration,
    /// The most records taken and not yet acknowledged: `queue.buffering.max.messages`. Default 50,000.
    pub queue_records: u32,
    /// The most kibibytes taken and not yet acknowledged: `queue.buffering.max.kbytes`. Default 16,384.
    pub queue_kib: u32,
}

impl TransactionOptions {
    /// The defaults.
    #[must_use]
    pub const fn new(connection: Connection, id: String) -> Self {
        Self { connection, id, timeout: Duration::from_secs(30), queue_records: 50_000, queue_kib: 16_384 }
    }
}

/// Properties of librdkafka in the order in which they are set; a later one replaces an earlier one.
pub(super) type Properties = Vec<(String, String)>;

fn common(connection: &Connection) -> Properties {
    let client_id = connection.client_id.as_deref().unwrap_or("stormglass");
    let mut properties = pairs(&[
        ("bootstrap.servers", connection.brokers.as_str()),
        ("client.id", client_id),
        // A broker that restarts answers again within a second or two; the default waits up to 10 s between tries.
        ("reconnect.backoff.ms", "50"),
        ("reconnect.backoff.max.ms", "1000"),
        // A broker that ends an idle connection is no news.
        ("log.connection.close", "false"),
        // Without a bound a machine that drops packets looks like one that is slow.
        ("socket.connection.setup.timeout.ms", "10000"),
        // Nagle's algorithm would hold back small requests for the acknowledgement of the one before.
        ("socket.nagle.disable", "true"),
    ]);
    properties.extend(pairs(&[("allow.auto.create.topics", "false")]));
    properties
}

/// What every reader needs: bounded memory, no waiting on a full queue, only committed records, ends of partitions.
///
/// `fetch.queue.backoff.ms` is 1,000 by default and costs a factor of 3; the bounds were as fast as larger ones in a
/// third to a tenth of the memory (docs/design, measured against Apache Kafka 4.4).
fn reader(connection: &Connection) -> Properties {
    let mut properties = common(connection);
    properties.extend(pairs(&[
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("enable.partition.eof", "true"),
        ("isolation.level", "read_committed"),
        ("auto.offset.reset", "error"),
        ("fetch.queue.backoff.ms", "5"),
        ("queued.min.messages", "5000"),
        ("queued.max.messages.kbytes", "1024"),
        ("max.partition.fetch.bytes", "1048576"),
        ("fetch.error.backoff.ms", "100"),
    ]));
    properties
}

/// The properties of a group member.
pub(super) fn source_properties(options: &SourceOptions) -> Properties {
    let mut properties = reader(&options.connection);
    properties.extend(pairs(&[
        ("group.id", options.group.as_str()),
        ("partition.assignment.strategy", options.assignment.strategy()),
        ("group.protocol", "classic"),
        // New partitions and topics that match a pattern are found within this time.
        ("topic.metadata.refresh.interval.ms", "30000"),
    ]));
    let session = options.session_timeout.as_millis().to_string();
    let heartbeat = (options.session_timeout.as_millis() / 15).clamp(100, 3000).to_string();
    properties.extend(pairs(&[
        ("session.timeout.ms", session.as_str()),
        ("heartbeat.interval.ms", heartbeat.as_str()),
        ("fetch.wait.max.ms", options.fetch_wait.as_millis().to_string().as_str()),
    ]));
    if let Some(instance) = &options.instance {
        properties.extend(pairs(&[("group.instance.id", instance.as_str())]));
    }
    with_overrides(properties, &options.connection)
}

/// The properties of a reader that belongs to no group. librdkafka wants a group name all the same.
pub(super) fn reader_properties(connection: &Connection) -> Properties {
    group_properties(connection, "stormglass-reader")
}

/// The properties of whoever looks at a group without joining it.
pub(super) fn group_properties(connection: &Connection, group: &str) -> Properties {
    let mut properties = reader(connection);
    properties.extend(pairs(&[("group.id", group)]));
    with_overrides(properties, connection)
}

/// The properties of a producer whose records come in transactions. Nobody else writes under its name at the same time.
pub(super) fn transactional_properties(options: &SinkOptions, name: &str) -> Properties {
    let mut properties = sink_properties(options);
    let timeout = options.delivery_timeout.as_millis().to_string();
    properties.extend(pairs(&[("transactional.id", name), ("transaction.timeout.ms", timeout.as_str())]));
    properties
}

/// The properties of a reader of whole topics: a few large fetches, and no waiting at an end, where the broker would hold
/// back its answer for more records.
pub(super) fn scan_properties(connection: &Connection) -> Properties {
    let mut properties = reader(connection);
    properties.extend(pairs(&[
        ("group.id", "stormglass-scan"),
        ("fetch.wait.max.ms", "10"),
        ("queued.min.messages", "100000"),
        ("queued.max.messages.kbytes", "16384"),
    ]));
    with_overrides(properties, connection)
}

/// What every producer needs: nothing lost or doubled, and each partition's records in their order.
fn writer(connection: &Connection) -> Properties {
    let mut properties = common(connection);
    properties.extend(pairs(&[
        ("enable.idempotence", "true"),
        ("acks", "all"),
        ("max.in.flight.requests.per.connection", "5"),
        // Java's partitioner, so that a key lies where every other client looks for it.
        ("partitioner", "murmur2_random"),
    ]));
    properties
}

/// The properties of a transactional producer. Its records share the fate of their transaction, and so its timeout.
pub(super) fn transaction_properties(options: &TransactionOptions) -> Properties {
    let mut properties = writer(&options.connection);
    let timeout = options.timeout.as_millis().to_string();
    properties.extend(pairs(&[
        ("transactional.id", options.id.as_str()),
        ("transaction.timeout.ms", timeout.as_str()),
        ("linger.ms", "1"),
        ("queue.buffering.max.messages", options.queue_records.to_string().as_str()),
        ("queue.buffering.max.kbytes", options.queue_kib.to_string().as_str()),
    ]));
    let mut properties = with_overrides(properties, &options.connection);
    properties.extend(pairs(&[("delivery.timeout.ms", timeout.as_str())]));
    properties
}

/// The properties of a producer.
pub(super) fn sink_properties(options: &SinkOptions) -> Properties {
    let mut properties = writer(&options.connection);
    let linger = format!("{:.3}", options.linger.as_secs_f64() * 1000.0);
    properties.extend(pairs(&[
        ("linger.ms", linger.as_str()),
        ("queue.buffering.max.messages", options.queue_records.to_string().as_str()),
        ("queue.buffering.max.kbytes", options.queue_kib.to_string().as_str()),
        ("batch.num.messages", options.request_records.to_string().as_str()),
        ("delivery.timeout.ms", options.delivery_timeout.as_millis().to_string().as_str()),
    ]));
    with_overrides(properties, &options.connection)
}

/// The properties of a client that only asks and administers.
pub(super) fn admin_properties(connection: &Connection) -> Properties {
    with_overrides(common(connection), connection)
}

fn with_overrides(mut properties: Properties, connection: &Connection) -> Properties {
    properties.extend(connection.overrides.iter().map(|(name, value)| (name.clone(), value.clone())));
    properties
}

fn pairs(list: &[(&str, &str)]) -> Properties {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs(list).into_iter().collect()
    }

    #[test]
    fn an_override_comes_last() {
        let connection = Connection { overrides: overrides(&[("linger.ms", "50")]), ..Connection::default() };
        let properties = sink_properties(&SinkOptions::new(connection));
        assert_eq!(properties.last(), Some(&("linger.ms".to_owned(), "50".to_owned())));
    }

    #[test]
    fn a_connection_shows_the_values_of_no_property() {
        let overrides = overrides(&[("sasl.password", "hunter2"), ("ssl.ca.location", "hunter2")]);
        let shown = format!("{:?}", SinkOptions::new(Connection { overrides, ..Connection::default() }));
        assert!(shown.contains("sasl.password") && !shown.contains("hunter2"), "{shown}");
    }
}
