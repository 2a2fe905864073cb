//! The topics that a source subscribes to: names, and patterns that begin with `^`.

use std::{sync::Arc, time::Duration};

use rdkafka::{ClientContext, client::Client};
use regex::bytes::{Regex, RegexBuilder};

use super::shared::{metadata, partition_count};
use crate::kafka::client::{ClientError, ErrorKind, TopicPartition};

/// Names and patterns.
#[derive(Debug)]
pub(in crate::kafka) struct Subscription {
    names: Vec<String>,
    patterns: Vec<Regex>,
}

impl Subscription {
    /// # Errors
    /// No topic, or a pattern that is no regular expression.
    pub(in crate::kafka) fn new(topics: &[String]) -> Result<Self, ClientError> {
        let config = |message| ClientError::new(ErrorKind::Config, message);
        if topics.is_empty() {
            return Err(config("a source needs at least one topic".to_owned()));
        }
        let (patterns, names): (Vec<_>, Vec<_>) = topics.iter().cloned().partition(|name| name.starts_with('^'));
        let compile = |pattern: &String| {
            // Topic names are ASCII.
            RegexBuilder::new(pattern)
                .unicode(false)
                .build()
                .map_err(|error| config(format!("topic pattern {pattern:?} is no regular expression: {error}")))
        };
        Ok(Self { names, patterns: patterns.iter().map(compile).collect::<Result<_, _>>()? })
    }

    fn matches(&self, topic: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_match(topic.as_bytes()))
    }

    /// All partitions of the topics that exist now, sorted.
    ///
    /// # Errors
    /// A topic that is named does not exist, no broker answers, access is denied.
    pub(in crate::kafka) fn partitions<C: ClientContext>(
        &self,
        client: &Client<C>,
        max_wait: Duration,
        brokers: &str,
    ) -> Result<Vec<TopicPartition>, ClientError> {
        let mut all = Vec::new();
        for name in &self.names {
            let count = partition_count(client, name, max_wait, brokers)?.ok_or_else(|| {
                ClientError::new(
                    ErrorKind::UnknownTopic,
                    format!("topic {name:?} does not exist on {brokers}: make the topic, or mend its name"),
                )
            })?;
            add(&mut all, name, count);
        }
        if !self.patterns.is_empty() {
            for topic in metadata(client, None, max_wait, brokers)?.topics() {
                if self.matches(topic.name()) {
                    add(&mut all, topic.name(), i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX));
                }
            }
        }
        all.sort();
        all.dedup();
        Ok(all)
    }
}

fn add(all: &mut Vec<TopicPartition>, topic: &str, count: i32) {
    let topic: Arc<str> = topic.into();
    all.extend((0..count).map(|partition| TopicPartition { topic: Arc::clone(&topic), partition }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_pattern_and_a_pattern_matches_anywhere_after_its_anchor() {
        let topics = ["lines", "^log[.]"].map(str::to_owned);
        let subscription = Subscription::new(&topics).unwrap();
        assert_eq!(subscription.names, ["lines"]);
        assert!(subscription.matches("log.eu") && !subscription.matches("blog.eu"));
        assert!(!subscription.matches("lines"));
    }

    #[test]
    fn a_broken_pattern_is_refused_with_its_text() {
        let error = Subscription::new(&["^log(".to_owned()]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Config);
        assert!(error.message.starts_with("topic pattern \"^log(\" is no regular expression"), "{error}");
    }
}
