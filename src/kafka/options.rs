//! How to reach Kafka, what to read and how to send: plain values, and which of the client's own properties may be
//! overridden.

use std::{collections::BTreeMap, fmt, time::Duration};

/// How to reach the brokers; the same for every client of a process.
#[derive(Clone, Default)]
pub struct Connection {
    /// `host:port` of one or more brokers, comma-separated: `bootstrap.servers`.
    pub brokers: String,
    /// Names this process in the brokers' logs and quotas: `client.id`. Default: `stormglass`.
    pub client_id: Option<String>,
    /// Properties of librdkafka by name, applied last (TLS, SASL, tuning). See [`check_overrides`].
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

/// A property that may not be set, or only to some values.
struct Guarded {
    name: &'static str,
    /// Values that change nothing; empty: none.
    harmless: &'static [&'static str],
    why: &'static str,
}

/// What the promise depends on: who commits, what an acknowledgement means, what a reader sees, who is who.
const GUARDED: &[Guarded] = &[
    guarded("enable.auto.commit", &["false"], "offsets are committed only behind completed tuple trees"),
    guarded("enable.auto.offset.store", &["false"], "offsets are committed only behind completed tuple trees"),
    guarded("auto.commit.interval.ms", &[], "offsets are committed only behind completed tuple trees"),
    guarded("enable.partition.eof", &["true"], "the frontier crosses trailing offsets by it"),
    guarded("isolation.level", &["read_committed"], "records of aborted transactions would be counted"),
    guarded(
        "auto.offset.reset",
        &["error"],
        "records that are gone would be skipped unseen; `start` says where a new group begins",
    ),
    guarded("check.crcs", &["true"], "a damaged record would be counted as a good one"),
    guarded("enable.idempotence", &["true"], "a retried request would repeat records"),
    guarded("acks", &["all", "-1"], "an acknowledged record could be lost with one broker"),
    guarded("request.required.acks", &["all", "-1"], "an acknowledged record could be lost with one broker"),
    guarded(
        "max.in.flight.requests.per.connection",
        &["1", "2", "3", "4", "5"],
        "more than 5 lose the order of records",
    ),
    guarded("max.in.flight", &["1", "2", "3", "4", "5"], "more than 5 lose the order of records"),
    guarded("partitioner", &["murmur2_random", "murmur2"], "a key would not lie where other clients look for it"),
    guarded("delivery.report.only.error", &["false"], "acknowledgements gate the commit"),
    guarded("enable.gapless.guarantee", &["false"], "a record that is too large would stop all others"),
    guarded("allow.auto.create.topics", &["false"], "a mistyped topic would be made instead of reported"),
    guarded("partition.assignment.strategy", &[], "set `assignment` instead"),
    guarded("session.timeout.ms", &[], "set `session_timeout` instead"),
    guarded("transactional.id", &[], "it is made from the app and the slot"),
    guarded("group.id", &[], "set the source's `group` instead"),
    guarded("group.instance.id", &[], "set `instance` instead"),
    guarded("bootstrap.servers", &[], "set `brokers` instead"),
    guarded("metadata.broker.list", &[], "set `brokers` instead"),
    guarded("client.id", &[], "set `client_id` instead"),
    guarded("plugin.library.paths", &[], "a plugin could change anything, and runs as this process"),
    guarded("log.queue", &["true"], "the client's log goes through this process's log"),
];

const fn guarded(name: &'static str, harmless: &'static [&'static str], why: &'static str) -> Guarded {
    Guarded { name, harmless, why }
}

/// What is wrong with overriding these properties: one sentence each, in the order of the names, none if all may be
/// overridden. Whether librdkafka knows a property and accepts its value is checked when a client is made.
#[must_use]
pub fn check_overrides(overrides: &BTreeMap<String, String>) -> Vec<String> {
    overrides.iter().filter_map(|(name, value)| refusal(name, value)).collect()
}

fn refusal(name: &str, value: &str) -> Option<String> {
    if let Some(inner) = name.strip_prefix("topic.").filter(|inner| find(inner).is_some()) {
        return Some(format!("property {name:?} may not be set: it is an old name of {inner:?}"));
    }
    if name.starts_with("test.mock.") {
        return Some(format!("property {name:?} may not be set: the client would talk to itself, and to no broker"));
    }
    let guard = find(name)?;
    let value = value.trim();
    if guard.harmless.contains(&value) {
        return None;
    }
    let why = guard.why;
    Some(if guard.harmless.is_empty() {
        format!("property {name:?} may not be set: {why}")
    } else {
        let (value, allowed) = (without_logins(value), guard.harmless.join(" or "));
        format!("property {name:?} may not be {value:?}: {why}. Remove it (it is {allowed})")
    })
}

fn find(name: &str) -> Option<&'static Guarded> {
    GUARDED.iter().find(|guard| guard.name == name)
}

/// Whether the value of a property is a secret, to be shown as `***` everywhere.
#[must_use]
pub fn is_secret(property: &str) -> bool {
    /// Secrets whose names do not say so.
    const BY_NAME: &[&str] = &[
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.oauthbearer.config",
        "ssl.keystore.pem",
        "sasl.oauthbearer.assertion.file",
    ];
    const BY_WORD: &[&str] = &["password", "passphrase", "secret", "token", "key.pem", "private.key", "credential"];
    /// Names with such a word whose values are not secret.
    const NOT: &[&str] = &["sasl.oauthbearer.token.endpoint.url"];
    let name = property.to_ascii_lowercase();
    !NOT.contains(&name.as_str())
        && (BY_NAME.contains(&name.as_str()) || BY_WORD.iter().any(|word| name.contains(word)))
}

/// `text` as it may be shown: in the place of user and password of an address (`https://user:password@host`) stands `***`.
#[must_use]
pub fn without_logins(text: &str) -> String {
    let hidden = |word: &str| {
        // A password may hold anything, so the last @ counts.
        let parts = word.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1)));
        parts.map_or_else(|| word.to_owned(), |(scheme, rest)| format!("{scheme}://***@{rest}"))
    };
    text.split_inclusive(char::is_whitespace).map(hidden).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs(list).into_iter().collect()
    }

    #[test]
    fn what_the_promise_depends_on_is_refused_with_a_sentence() {
        let bad = overrides(&[
            ("enable.auto.commit", "true"),
            ("acks", "1"),
            ("isolation.level", "read_uncommitted"),
            ("transactional.id", "mine"),
            ("max.in.flight", "6"),
            ("topic.acks", "0"),
            ("test.mock.num.brokers", "1"),
        ]);
        let sentences = check_overrides(&bad);
        assert_eq!(sentences.len(), bad.len());
        assert_eq!(
            sentences.first().map(String::as_str),
            Some(
                "property \"acks\" may not be \"1\": an acknowledged record could be lost with one broker. Remove it (it is all or -1)"
            )
        );
    }

    #[test]
    fn tuning_tls_and_values_that_change_nothing_are_allowed() {
        let good = overrides(&[
            ("enable.auto.commit", "false"),
            ("acks", "all"),
            ("max.in.flight", "1"),
            ("compression.type", "zstd"),
            ("security.protocol", "SASL_SSL"),
            ("sasl.password", "hunter2"),
            ("queued.min.messages", "1000"),
        ]);
        assert_eq!(check_overrides(&good), Vec::<String>::new());
    }

    #[test]
    fn our_own_properties_pass_our_own_guard() {
        let connection = Connection::default();
        let settings = [
            "group.id",
            "bootstrap.servers",
            "client.id",
            "group.instance.id",
            "partition.assignment.strategy",
            "session.timeout.ms",
        ]
        .map(str::to_owned);
        let mut source = SourceOptions::new(connection.clone(), "g", vec!["t".into()]);
        source.instance = Some("i".into());
        let all = source_properties(&source)
            .into_iter()
            .chain(sink_properties(&SinkOptions::new(connection.clone())))
            .chain(reader_properties(&connection))
            .filter(|(name, _)| !settings.contains(name));
        assert_eq!(check_overrides(&all.collect()), Vec::<String>::new());
    }

    #[test]
    fn an_override_comes_last() {
        let connection = Connection { overrides: overrides(&[("linger.ms", "50")]), ..Connection::default() };
        let properties = sink_properties(&SinkOptions::new(connection));
        assert_eq!(properties.last(), Some(&("linger.ms".to_owned(), "50".to_owned())));
    }

    #[test]
    fn secrets_are_known_by_name() {
        for secret in [
            "sasl.password",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.key.pem",
            "sasl.jaas.config",
            "sasl.oauthbearer.client.secret",
            "sasl.kerberos.kinit.cmd",
            "SASL.Password",
        ] {
            assert!(is_secret(secret), "{secret}");
        }
        for open in ["sasl.username", "ssl.ca.location", "sasl.oauthbearer.token.endpoint.url", "acks"] {
            assert!(!is_secret(open), "{open}");
        }
    }

    #[test]
    fn the_login_in_an_address_is_not_shown() {
        for (text, shown) in [
            ("https://u:hunter2@host/x", "https://***@host/x"),
            ("cannot reach \"https://u:hun/t@er2@host\": gone", "cannot reach \"https://***@host\": gone"),
            ("https://host/x", "https://host/x"),
            ("sasl_ssl://k:9092/1: who@where", "sasl_ssl://k:9092/1: who@where"),
        ] {
            assert_eq!(without_logins(text), shown);
        }
    }

    #[test]
    fn a_connection_shows_the_values_of_no_property() {
        let overrides = overrides(&[("sasl.password", "hunter2"), ("ssl.ca.location", "hunter2")]);
        let shown = format!("{:?}", SinkOptions::new(Connection { overrides, ..Connection::default() }));
        assert!(shown.contains("sasl.password") && !shown.contains("hunter2"), "{shown}");
    }
}
