//! The client port of whoever keeps topics of its own.

use std::{sync::Arc, time::Duration};

use super::ClientError;

/// A topic as it is to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicSpec {
    /// Its name.
    pub name: Arc<str>,
    /// Number of partitions.
    pub partitions: i32,
    /// Copies of each partition; `None`: the broker's `default.replication.factor`.
    pub replication: Option<u16>,
    /// Settings by name, `cleanup.policy` for example.
    pub settings: Vec<(&'static str, &'static str)>,
}

/// A topic as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicFacts {
    /// Number of partitions.
    pub partitions: i32,
    /// `cleanup.policy`; `None` if the broker hides it.
    pub cleanup_policy: Option<String>,
}

/// Makes topics and looks at them.
pub trait TopicsClient: Send {
    /// Makes those topics that do not exist, and tells of each, in order, how it is: one that exists is left as it is.
    /// Waits at most `max_wait`. `None`: there is no answer yet, call again with the same topics.
    ///
    /// # Errors
    /// No broker answers, access is denied, the broker does not accept a name or a setting.
    fn ensure(&mut self, topics: &[TopicSpec], max_wait: Duration) -> Result<Option<Vec<TopicFacts>>, ClientError>;
}
