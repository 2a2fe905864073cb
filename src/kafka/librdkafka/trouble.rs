//! What a client's errors mean in words, and saying each trouble once.

use std::time::Duration;

use crate::{
    clock::Instant,
    kafka::{
        client::{ClientError, ErrorKind, Trouble},
        overrides::without_logins,
    },
};

/// Says a trouble when it begins and when it is over, however often the client retries meanwhile. A value: events and
/// `now` in, what to say out.
///
/// That all brokers are down is at first a suspicion: the client says so for a moment whenever its only connection is
/// renewed. It becomes a trouble when no broker answers twice in a row.
#[derive(Debug, Default)]
pub(super) struct TroubleWatch {
    since: Option<Instant>,
    suspected: Option<Suspicion>,
    next_probe: Instant,
    /// The last connection failure: the reason when all brokers are found to be down.
    reason: Option<ClientError>,
}

#[derive(Debug)]
struct Suspicion {
    since: Instant,
    error: ClientError,
    failed_probes: u8,
}

/// How often to ask whether a trouble is over, where nothing else would show it.
const PROBE_EVERY: Duration = Duration::from_millis(500);

/// Failed questions that make a suspicion a trouble.
const PROBES: u8 = 2;

impl TroubleWatch {
    /// Remembers why a connection failed; one broker of many is no trouble by itself.
    pub(super) fn connection_failed(&mut self, error: ClientError) {
        self.reason = Some(error);
    }

    /// Something is wrong for certain; what to say, if it is new.
    pub(in crate::kafka) fn begin(&mut self, error: &ClientError, now: Instant) -> Option<Trouble> {
        if self.since.is_some() {
            return None;
        }
        let since = self.suspected.take().map_or(now, |suspicion| suspicion.since);
        self.since = Some(since);
        self.next_probe = now + PROBE_EVERY;
        Some(Trouble { message: error.message.clone(), since })
    }

    /// No broker seems to be there: ask, from the next poll on.
    pub(super) fn suspect(&mut self, error: ClientError, now: Instant) {
        if self.since.is_none() && self.suspected.is_none() {
            self.suspected = Some(Suspicion { since: now, error, failed_probes: 0 });
            self.next_probe = now + PROBE_EVERY;
        }
    }

    /// Nobody answered a question; what to say, if that settles a suspicion.
    pub(super) fn probe_failed(&mut self, now: Instant) -> Option<Trouble> {
        let suspicion = self.suspected.as_mut()?;
        suspicion.failed_probes += 1;
        if suspicion.failed_probes < PROBES {
            return None;
        }
        let error = self.reason.clone().unwrap_or_else(|| suspicion.error.clone());
        self.begin(&error, now)
    }

    /// The last connection failure, or `other` if there was none.
    pub(super) fn reason_or(&self, other: ClientError) -> ClientError {
        self.reason.clone().unwrap_or(other)
    }

    /// Something went well. `true`: a trouble is over, say so.
    #[must_use]
    pub(super) fn went_well(&mut self) -> bool {
        self.reason = None;
        self.suspected = None;
        self.since.take().is_some()
    }

    /// Whether there is a trouble.
    pub(super) const fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Whether it is time to ask a broker: in trouble if it is over, in suspicion if it is one.
    #[must_use]
    pub(super) fn probe_due(&mut self, now: Instant) -> bool {
        let due = (self.since.is_some() || self.suspected.is_some()) && now >= self.next_probe;
        if due {
            self.next_probe = now + PROBE_EVERY;
        }
        due
    }
}

/// A connection failure in words. `text` is librdkafka's, e.g. `sasl_ssl://kafka-1:9093/bootstrap: Connect to
/// ipv4#10.0.0.1:9093 failed: Connection refused (after 0ms in state CONNECT)`.
pub(in crate::kafka) fn connection_error(kind: ErrorKind, text: &str, brokers: &str) -> ClientError {
    let (broker, detail) = broker_and_detail(text);
    let broker = broker.unwrap_or(brokers);
    let detail = &*without_logins(without_state(detail));
    if let Some(size) = detail.split_once(ANOTHER_PROTOCOL).map(|(_, size)| size) {
        let begin = first_bytes(size);
        let message = format!(
            "what answers at {broker} does not speak Kafka's protocol (its answer begins with {begin}): check the port, and security.protocol"
        );
        return ClientError::new(ErrorKind::NotKafka, message);
    }
    let message = match kind {
        _ if is_tls(kind, detail) => {
            format!(
                "TLS with broker {broker} failed ({detail}): check security.protocol, the ssl.* properties, and that the port speaks TLS"
            )
        }
        ErrorKind::Authentication => {
            format!(
                "broker {broker} refused the credentials ({detail}): check sasl.mechanism, sasl.username and sasl.password"
            )
        }
        _ if detail.contains("resolve") => {
            format!("cannot find the host of broker {broker} ({detail}): check the name in `brokers`")
        }
        _ if speaks_something_else(detail) => format!(
            "what answers at {broker} does not speak Kafka's protocol as expected ({detail}): check the port, and security.protocol"
        ),
        // What librdkafka says when it has nothing to say: "2/2 brokers are down".
        _ if detail.ends_with("brokers are down") => {
            format!("no broker answers at {broker}: check `brokers`, and that Kafka runs there")
        }
        _ => format!("no broker answers at {broker} ({detail}): check `brokers`, and that Kafka runs there"),
    };
    ClientError::new(kind, message)
}

/// What librdkafka says of an answer whose first bytes are no length, of an HTTP server for example.
const ANOTHER_PROTOCOL: &str = "Invalid response size ";

/// The bytes that were taken for a length, which librdkafka shows as a number.
fn first_bytes(size: &str) -> String {
    let number = size.split(' ').next().and_then(|number| number.parse::<i32>().ok()).unwrap_or_default();
    format!("\"{}\"", number.to_be_bytes().escape_ascii())
}

fn is_tls(kind: ErrorKind, detail: &str) -> bool {
    // With or without the word "handshake", depending on who closes first.
    ["SSL handshake", "SSL connection"].iter().any(|sign| detail.contains(sign))
        || (kind == ErrorKind::Authentication && (detail.contains("SSL") || detail.contains("certificate")))
}

fn speaks_something_else(detail: &str) -> bool {
    [
        "ApiVersion",
        "Invalid response",
        "SSL listener",
        "invalid message",
        "Unknown protocol",
        "protocol error",
        "CorrId",
    ]
    .iter()
    .any(|sign| detail.contains(sign))
}

/// Parts `[protocol://]host:port/id: detail`; no broker if the text begins otherwise.
fn broker_and_detail(text: &str) -> (Option<&str>, &str) {
    let Some((name, detail)) = text.split_once(": ") else {
        return (None, text);
    };
    let Some((address, _id)) = name.rsplit_once('/') else {
        return (None, text);
    };
    let address = address.rsplit_once("//").map_or(address, |(_, address)| address);
    let known = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if known { (Some(address), detail) } else { (None, text) }
}

/// Without librdkafka's ` (after 3ms in state CONNECT)`, which differs at each try.
fn without_state(detail: &str) -> &str {
    detail.find(" (after ").map_or(detail, |at| detail.get(..at).unwrap_or(detail)).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> ClientError {
        ClientError::new(ErrorKind::Unavailable, "down")
    }

    #[test]
    fn a_trouble_is_said_once_and_its_end_once() {
        let mut watch = TroubleWatch::default();
        let now = Instant::from_nanos(7);
        assert_eq!(watch.begin(&error(), now).map(|t| t.since), Some(now));
        assert_eq!(watch.begin(&error(), now + PROBE_EVERY), None);
        assert!(watch.went_well());
        assert!(!watch.went_well());
        assert!(watch.begin(&error(), now).is_some());
    }

    #[test]
    fn a_suspicion_becomes_a_trouble_when_nobody_answers_twice() {
        let mut watch = TroubleWatch::default();
        let now = Instant::from_nanos(7);
        watch.suspect(error(), now);
        assert!(watch.probe_due(now + PROBE_EVERY));
        assert_eq!(watch.probe_failed(now + PROBE_EVERY), None);
        assert_eq!(watch.probe_failed(now + PROBE_EVERY).map(|t| t.since), Some(now));
        assert_eq!(watch.probe_failed(now + PROBE_EVERY), None);
        assert!(watch.went_well());
    }

    #[test]
    fn a_suspicion_that_is_not_confirmed_is_never_said() {
        let mut watch = TroubleWatch::default();
        watch.suspect(error(), Instant::ZERO);
        assert_eq!(watch.probe_failed(Instant::ZERO), None);
        assert!(!watch.went_well());
        assert!(!watch.probe_due(Instant::FAR_FUTURE));
    }

    #[test]
    fn a_probe_is_due_only_in_trouble_and_now_and_then() {
        let mut watch = TroubleWatch::default();
        let start = Instant::ZERO;
        assert!(!watch.probe_due(start + PROBE_EVERY));
        let _said = watch.begin(&error(), start);
        assert!(!watch.probe_due(start));
        assert!(watch.probe_due(start + PROBE_EVERY));
        assert!(!watch.probe_due(start + PROBE_EVERY));
    }

    #[test]
    fn librdkafkas_texts_become_sentences() {
        let say = |kind, text| connection_error(kind, text, "a:1,b:2").message;
        insta::assert_snapshot!(say(
            ErrorKind::Unavailable,
            "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)"
        ), @"no broker answers at 127.0.0.1:1 (Connect to ipv4#127.0.0.1:1 failed: Connection refused): check `brokers`, and that Kafka runs there");
        insta::assert_snapshot!(say(
            ErrorKind::Unavailable,
            "nowhere.invalid:9092/bootstrap: Failed to resolve 'nowhere.invalid:9092': Name or service not known (after 3ms in state CONNECT)"
        ), @"cannot find the host of broker nowhere.invalid:9092 (Failed to resolve 'nowhere.invalid:9092': Name or service not known): check the name in `brokers`");
        insta::assert_snapshot!(say(
            ErrorKind::Authentication,
            "sasl_plaintext://k:9092/bootstrap: SASL authentication error: Authentication failed (after 9ms in state AUTH_REQ)"
        ), @"broker k:9092 refused the credentials (SASL authentication error: Authentication failed): check sasl.mechanism, sasl.username and sasl.password");
        insta::assert_snapshot!(say(
            ErrorKind::Unavailable,
            "k:80/bootstrap: Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol configuration"
        ), @"what answers at k:80 does not speak Kafka's protocol as expected (Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol configuration): check the port, and security.protocol");
        insta::assert_snapshot!(say(
            ErrorKind::Unavailable,
            "k:80/bootstrap: Receive failed: Invalid response size 1213486160 (0..100000000): increase receive.message.max.bytes (after 0ms in state APIVERSION_QUERY)"
        ), @r#"what answers at k:80 does not speak Kafka's protocol (its answer begins with "HTTP"): check the port, and security.protocol"#);
        let tls = say(ErrorKind::Unavailable, "ssl://k:9092/bootstrap: Disconnected: SSL connection closed by peer");
        assert!(tls.starts_with("TLS with broker k:9092 failed (Disconnected: "), "{tls}");
        insta::assert_snapshot!(say(ErrorKind::Unavailable, "3/3 brokers are down"),
            @"no broker answers at a:1,b:2: check `brokers`, and that Kafka runs there");
    }
}
