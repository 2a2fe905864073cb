//! What the clients over librdkafka have in common: making one, hearing what it says, its errors as sentences.

use std::{
    mem,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rdkafka::{
    ClientConfig, ClientContext, TopicPartitionList,
    client::Client,
    config::{NativeClientConfig, RDKafkaLogLevel},
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
    metadata::Metadata,
    types::{RDKafkaConfRes, RDKafkaRespErr, RDKafkaType},
};

use super::{native::BatchProducer, trouble::connection_error};
use crate::kafka::{
    client::{ClientError, ErrorKind},
    options::{
        Connection, Properties, SinkOptions, SourceOptions, TransactionOptions, admin_properties, reader_properties,
        scan_properties, sink_properties, source_properties, transaction_properties,
    },
    overrides::{is_secret, without_logins},
};

/// Something that a consumer said while its events were served.
#[derive(Debug)]
pub(in crate::kafka) enum Happening {
    /// The group gives these partitions.
    Give(Vec<(String, i32)>),
    /// The group takes these partitions; `lost`: has taken them already.
    Take { partitions: Vec<(String, i32)>, lost: bool },
    /// An error with librdkafka's text.
    Error(RDKafkaErrorCode, String),
    /// A line went to the log: there may be more to hear behind it.
    Logged,
}

/// Keeps what a consumer says until the code that serves its events looks: callbacks become values.
#[derive(Debug, Default)]
pub(in crate::kafka) struct Context {
    happenings: Mutex<Vec<Happening>>,
    /// Nobody above answers any more: partitions are given back at once.
    closing: AtomicBool,
}

impl Context {
    fn happened(&self, happening: Happening) {
        self.happenings.lock().unwrap_or_else(PoisonError::into_inner).push(happening);
    }

    /// What was said since the last call.
    pub(in crate::kafka) fn take(&self) -> Vec<Happening> {
        mem::take(&mut *self.happenings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(in crate::kafka) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
        self.happened(Happening::Logged);
    }

    fn stats_raw(&self, _: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        self.happened(Happening::Error(code, reason.to_owned()));
    }
}

impl ConsumerContext for Context {
    /// Only notes what the group wants: `assign` and `unassign` are calls of the logic above.
    fn rebalance(&self, consumer: &BaseConsumer<Self>, err: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if self.closing.load(Ordering::Relaxed) {
            // While it closes, the client takes this for every protocol.
            if let Err(error) = consumer.unassign() {
                tracing::debug!(%error, "giving partitions back at the end");
            }
            return;
        }
        let partitions = names(list);
        self.happened(if err == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            Happening::Give(partitions)
        } else {
            Happening::Take { partitions, lost: consumer.assignment_lost() }
        });
    }
}

/// The context of clients whose errors are answers to calls.
#[derive(Debug)]
pub(in crate::kafka) struct ToLog;

impl ClientContext for ToLog {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn stats_raw(&self, _: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason, "a client's own trouble");
    }
}

/// librdkafka repeats itself at each retry, so its lines are for those who look for a fault; what an operator must know
/// comes once, as an event.
pub(in crate::kafka) fn log_line(level: RDKafkaLogLevel, facility: &str, message: &str) {
    tracing::debug!(target: "librdkafka", ?level, facility, "{}", showable(facility, message));
}

/// The message without what must not be seen. `debug=conf` lists all properties, and the client knows only of a few
/// that they are secret: `--print-config` shows the values that may be seen.
fn showable(facility: &str, message: &str) -> String {
    match message.split_once(" = ") {
        Some((name, _)) if facility == "CONF" => format!("{name} = ***"),
        _ => without_logins(message),
    }
}

fn names(list: &TopicPartitionList) -> Vec<(String, i32)> {
    list.elements().iter().map(|e| (e.topic().to_owned(), e.partition())).collect()
}

pub(super) fn code_of(error: &KafkaError) -> RDKafkaErrorCode {
    error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)
}

/// A configuration with these properties.
pub(in crate::kafka) fn config(properties: &Properties) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Warning);
    for (name, value) in properties {
        config.set(name, value);
    }
    config
}

/// The configuration as librdkafka has accepted it.
///
/// # Errors
/// A property that it does not know, or a value that it does not accept.
pub(in crate::kafka) fn native(config: &ClientConfig) -> Result<NativeClientConfig, ClientError> {
    config.create_native_config().map_err(|error| creation_error(&error))
}

/// Whether librdkafka takes `value` for its property `name`. What several properties are together, it looks at when a
/// client is made: [`SourceOptions::check`] and its like.
///
/// # Errors
/// A property that it does not know, or a value that it does not accept, which is shown unless the property is a secret.
pub fn check_property(name: &str, value: &str) -> Result<(), ClientError> {
    native(&config(&vec![(name.to_owned(), value.to_owned())])).map(drop)
}

/// Whether librdkafka has a property of this name.
///
/// # Errors
/// A sentence that says so.
pub fn knows_property(name: &str) -> Result<(), ClientError> {
    let set = config(&vec![(name.to_owned(), String::new())]).create_native_config().map(drop);
    // Whatever else is wrong is so of the value.
    set.err().filter(is_unknown).map_or(Ok(()), |error| Err(creation_error(&error)))
}

fn is_unknown(error: &KafkaError) -> bool {
    matches!(error, KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..))
}

/// Makes a client of these properties, and drops it. It is given no broker, so it opens no connection: this takes
/// a few milliseconds.
fn check_client(properties: Properties, kind: RDKafkaType) -> Result<(), ClientError> {
    let alone = properties.into_iter().filter(|(name, _)| name != "bootstrap.servers").collect();
    let config = config(&alone);
    let native = native(&config)?;
    Client::new(&config, native, kind, ToLog).map(drop).map_err(|error| creation_error(&error))
}

impl SourceOptions {
    /// Whether librdkafka makes a client of them, for all that can be known without a broker.
    ///
    /// # Errors
    /// Properties that it does not accept together.
    pub fn check(&self) -> Result<(), ClientError> {
        check_client(source_properties(self), RDKafkaType::RD_KAFKA_CONSUMER)
    }
}

impl SinkOptions {
    /// See [`SourceOptions::check`].
    ///
    /// # Errors
    /// Properties that librdkafka does not accept together.
    pub fn check(&self) -> Result<(), ClientError> {
        check_client(sink_properties(self), RDKafkaType::RD_KAFKA_PRODUCER)
    }
}

impl TransactionOptions {
    /// See [`SourceOptions::check`].
    ///
    /// # Errors
    /// Properties that librdkafka does not accept together.
    pub fn check(&self) -> Result<(), ClientError> {
        check_client(transaction_properties(self), RDKafkaType::RD_KAFKA_PRODUCER)
    }
}

impl Connection {
    /// Whether librdkafka makes a client that only asks and administers of it. See [`SourceOptions::check`].
    ///
    /// # Errors
    /// Properties that librdkafka does not accept together.
    pub fn check_admin(&self) -> Result<(), ClientError> {
        check_client(admin_properties(self), RDKafkaType::RD_KAFKA_PRODUCER)?;
        self.check_reader()
    }

    /// Whether librdkafka makes clients that read without a group of it. See [`SourceOptions::check`].
    ///
    /// # Errors
    /// Properties that librdkafka does not accept together.
    pub fn check_reader(&self) -> Result<(), ClientError> {
        check_client(reader_properties(self), RDKafkaType::RD_KAFKA_CONSUMER)?;
        check_client(scan_properties(self), RDKafkaType::RD_KAFKA_CONSUMER)
    }
}

/// A producer that takes batches. Does not wait for a broker.
///
/// # Errors
/// See [`native`].
pub(super) fn batch_producer(properties: &Properties) -> Result<BatchProducer<ToLog>, ClientError> {
    let config = config(properties);
    let native = native(&config)?;
    BatchProducer::<ToLog>::switch_events_on(&native);
    let client =
        Client::new(&config, native, RDKafkaType::RD_KAFKA_PRODUCER, ToLog).map_err(|error| creation_error(&error))?;
    Ok(BatchProducer::new(client))
}

/// Why a client could not be made. The value of a property that is a secret is not shown, nor of one that librdkafka does
/// not know: it may be a secret with a mistyped name.
pub(in crate::kafka) fn creation_error(error: &KafkaError) -> ClientError {
    let message = match error {
        KafkaError::ClientConfig(_, _, name, _) if is_unknown(error) => {
            format!("librdkafka has no property {name:?} (its value is not shown): mend the name")
        }
        KafkaError::ClientConfig(_, _, name, _) if is_secret(name) => {
            format!("librdkafka does not accept the value of property {name:?} (not shown, it is a secret)")
        }
        KafkaError::ClientConfig(_, why, name, value) => {
            let (value, why) = (without_logins(value), without_logins(why));
            format!("librdkafka does not accept property {name:?} = {value:?}: {why}")
        }
        KafkaError::ClientCreation(why) => {
            format!("librdkafka does not accept its properties together: {}", without_logins(why))
        }
        other => format!("the Kafka client could not be made: {other}"),
    };
    ClientError::new(ErrorKind::Config, message)
}

/// What kind of error a code is.
pub(in crate::kafka) fn kind_of(code: RDKafkaErrorCode) -> ErrorKind {
    use RDKafkaErrorCode as E;
    #[expect(clippy::wildcard_enum_match_arm, reason = "a few of librdkafka's 200 codes")]
    match code {
        // A bad message is what a server of another protocol sends.
        E::BrokerTransportFailure | E::AllBrokersDown | E::Resolve | E::BrokerNotAvailable | E::BadMessage => {
            ErrorKind::Unavailable
        }
        E::Authentication | E::SaslAuthenticationFailed | E::SSL => ErrorKind::Authentication,
        E::TopicAuthorizationFailed
        | E::GroupAuthorizationFailed
        | E::ClusterAuthorizationFailed
        | E::TransactionalIdAuthorizationFailed => ErrorKind::Authorization,
        E::UnknownTopic | E::UnknownTopicOrPartition | E::UnknownPartition => ErrorKind::UnknownTopic,
        // What was asked for, no broker of this cluster would do.
        E::InvalidTopic
        | E::InvalidReplicationFactor
        | E::InvalidPartitions
        | E::InvalidConfig
        | E::PolicyViolation => ErrorKind::Config,
        E::OffsetOutOfRange | E::AutoOffsetReset => ErrorKind::OffsetOutOfRange,
        E::FencedInstanceId | E::ProducerFenced | E::Fenced | E::InvalidProducerEpoch => ErrorKind::Fenced,
        E::OperationTimedOut | E::RequestTimedOut | E::TimedOutQueue | E::MessageTimedOut => ErrorKind::TimedOut,
        _ => ErrorKind::Other,
    }
}

/// Error `code` with librdkafka's text, about `what`, as a sentence.
pub(in crate::kafka) fn sentence(code: RDKafkaErrorCode, text: &str, what: &str, brokers: &str) -> ClientError {
    let kind = kind_of(code);
    match kind {
        ErrorKind::Unavailable | ErrorKind::Authentication => connection_error(kind, text, brokers),
        ErrorKind::Authorization => {
            ClientError::new(kind, format!("{what}: access denied ({code}): give this user the right to it"))
        }
        ErrorKind::UnknownTopic => {
            ClientError::new(kind, format!("{what}: does not exist ({code}): make the topic, or mend its name"))
        }
        ErrorKind::Fenced => ClientError::new(
            kind,
            format!(
                "{what}: another process with the same identity took over ({code}): run one process for each `instance`"
            ),
        ),
        ErrorKind::Config => {
            ClientError::new(kind, format!("{what}: the brokers refuse it ({code}): {}", remedy(code)))
        }
        ErrorKind::TimedOut => ClientError::new(kind, format!("{what}: no answer from {brokers} in time ({code})")),
        ErrorKind::NotKafka | ErrorKind::OffsetOutOfRange | ErrorKind::TooLarge | ErrorKind::Other => {
            let text = if text.is_empty() { code.to_string() } else { text.to_owned() };
            ClientError::new(kind, format!("{what}: {text}"))
        }
    }
}

/// What to do about a setting that brokers refuse.
const fn remedy(code: RDKafkaErrorCode) -> &'static str {
    match code {
        RDKafkaErrorCode::InvalidReplicationFactor => {
            "lower `kafka.replication_factor`, of which there cannot be more than brokers, or start more of them"
        }
        RDKafkaErrorCode::InvalidTopic => "mend the topic's name",
        RDKafkaErrorCode::InvalidPartitions => "ask for another number of partitions",
        _ => "make the topic as the cluster's policy wants it, or ask whoever runs the cluster",
    }
}

/// `error` of a call about `what`.
pub(in crate::kafka) fn call_error(error: &KafkaError, what: &str, brokers: &str) -> ClientError {
    error.rdkafka_error_code().map_or_else(
        || ClientError::new(ErrorKind::Other, format!("{what}: {error}")),
        |code| sentence(code, &code.to_string(), what, brokers),
    )
}

/// What the brokers say about one topic, or about all.
pub(in crate::kafka) fn metadata<C: ClientContext>(
    client: &Client<C>,
    topic: Option<&str>,
    max_wait: Duration,
    brokers: &str,
) -> Result<Metadata, ClientError> {
    let what = topic.map_or_else(|| "the list of topics".to_owned(), |topic| format!("topic {topic:?}"));
    client.fetch_metadata(topic, max_wait).map_err(|error| call_error(&error, &what, brokers))
}

/// The number of partitions of a topic; `None` if it does not exist.
pub(in crate::kafka) fn partition_count<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    max_wait: Duration,
    brokers: &str,
) -> Result<Option<i32>, ClientError> {
    let metadata = metadata(client, Some(topic), max_wait, brokers)?;
    let Some(found) = metadata.topics().iter().find(|t| t.name() == topic) else {
        return Ok(None);
    };
    match found.error().map(RDKafkaErrorCode::from) {
        None => Ok(Some(i32::try_from(found.partitions().len()).unwrap_or(i32::MAX))),
        Some(code) if kind_of(code) == ErrorKind::UnknownTopic => Ok(None),
        Some(code) => Err(sentence(code, "", &format!("topic {topic:?}"), brokers)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overriding(name: &str, value: &str) -> Connection {
        Connection { overrides: [(name.to_owned(), value.to_owned())].into(), ..Connection::default() }
    }

    #[test]
    fn a_value_that_may_be_a_secret_is_in_no_message() {
        for name in ["ssl.key.passwrd", "sasl.passwd", "no.such.thing"] {
            let said = check_property(name, "hunter2").unwrap_err().message;
            assert_eq!(said, format!("librdkafka has no property {name:?} (its value is not shown): mend the name"));
            assert!(knows_property(name).is_err(), "{name}");
        }
        let said = check_property("linger.ms", "http://u:hunter2@host").unwrap_err().message;
        assert!(said.contains("\"linger.ms\" = \"http://***@host\"") && !said.contains("hunter2"), "{said}");
        assert!(["linger.ms", "sasl.password", "debug"].iter().all(|name| knows_property(name).is_ok()));
    }

    #[test]
    fn the_log_lists_names_of_properties_and_no_values() {
        assert_eq!(showable("CONF", "  sasl.kerberos.kinit.cmd = kinit -p hunter2"), "  sasl.kerberos.kinit.cmd = ***");
        assert_eq!(showable("FAIL", "http://u:hunter2@host: x = 1"), "http://***@host: x = 1");
    }

    #[test]
    fn what_librdkafka_refuses_of_a_client_is_known_without_a_broker() {
        let source = |name, value| SourceOptions::new(overriding(name, value), "g", vec!["t".to_owned()]).check();
        let sink = |name, value| SinkOptions::new(overriding(name, value)).check();
        assert_eq!([source("client.rack", "r"), sink("client.rack", "r")], [Ok(()), Ok(())]);
        for refused in [
            source("group.protocol", "consumer"),
            source("max.poll.interval.ms", "10"),
            sink("retries", "0"),
            sink("security.protocol", "SASL_PLAINTEXT"),
            TransactionOptions::new(overriding("retries", "0"), "i".to_owned()).check(),
            overriding("security.protocol", "SASL_PLAINTEXT").check_admin(),
            overriding("security.protocol", "SASL_PLAINTEXT").check_reader(),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Config, "{error}");
            assert!(error.message.starts_with("librdkafka does not accept its properties together: "), "{error}");
        }
    }

    #[test]
    fn what_brokers_refuse_of_a_topic_is_the_configurations_fault() {
        let code = RDKafkaErrorCode::InvalidReplicationFactor;
        let error = sentence(code, "", "making topic \"t\" with 1 partitions", "b:1");
        assert_eq!(error.kind, ErrorKind::Config);
        assert!(error.message.contains("lower `kafka.replication_factor`"), "{error}");
    }
}
