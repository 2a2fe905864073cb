//! Which of the client's own properties may be set beside ours, and which values may be seen.

use std::collections::BTreeMap;

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
    use crate::kafka::{
        Connection, SinkOptions, SourceOptions,
        options::{reader_properties, sink_properties, source_properties},
    };

    fn overrides(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
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
}
