//! Whose changelog it is.

use std::time::Duration;

/// Whose changelog it is, and how it is kept.
#[derive(Clone, Debug)]
pub struct ChangelogOptions {
    /// The brokers, for sentences that say what to type.
    pub brokers: String,
    /// The app: its consumer group. The topics' names begin with it.
    pub app: String,
    /// Which of the app's processes this is. With the app it is the `transactional.id`: two processes that are the same
    /// slot fence each other.
    pub slot: String,
    /// Copies of each partition of a topic that is made; `None`: the broker's `default.replication.factor`. Default `None`.
    pub replication: Option<u16>,
    /// A flush that takes longer has failed. Default: two thirds of the session timeout, so that a transaction that a
    /// process has left does not outlive its membership.
    pub transaction_timeout: Duration,
    /// How long a process that stood still for longer than its transaction waits for the group to say whether another
    /// one has its place. Default: a fifth of the session timeout, which is three heartbeats.
    pub takeover_notice: Duration,
}

impl ChangelogOptions {
    /// The defaults for a member of a group with this session timeout.
    #[must_use]
    pub fn new(
        brokers: impl Into<String>,
        app: impl Into<String>,
        slot: impl Into<String>,
        session_timeout: Duration,
    ) -> Self {
        Self {
            brokers: brokers.into(),
            app: app.into(),
            slot: slot.into(),
            replication: None,
            // librdkafka takes no shorter one.
            transaction_timeout: (session_timeout * 2 / 3).max(Duration::from_secs(1)),
            takeover_notice: session_timeout / 5,
        }
    }

    /// The identity under which flushes are written. No slot has a slash in its name: with a hyphen between them, slot `eu-0`
    /// of `words` and slot `0` of `words-eu` would fence each other.
    #[must_use]
    pub fn transactional_id(&self) -> String {
        format!("{}/{}", self.app, self.slot)
    }

    /// The name of a store's topic.
    #[must_use]
    pub fn topic(&self, component: &str, store: &str) -> String {
        format!("{}-{component}-{store}-changelog", self.app)
    }
}
