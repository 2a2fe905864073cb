//! The port of whoever keeps topics of its own.

use std::time::Duration;

use kafka_protocol::{
    error::ResponseError as E,
    messages::{
        CreateTopicsRequest, DescribeConfigsRequest, DescribeConfigsResponse, MetadataRequest, ResponseKind,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        describe_configs_request::DescribeConfigsResource,
    },
    protocol::StrBytes,
};

use super::{CREATE_TOPICS, DESCRIBE_CONFIGS, LATER, METADATA, PATIENCE, error, metadata, text, topic_name};
use crate::{
    chaos::{
        host::Host,
        link::{Call, Heard, Link},
    },
    clock::Instant,
    kafka::client::{
        ClientError, ErrorKind,
        topics::{TopicFacts, TopicSpec, TopicsClient},
    },
};

/// What the type of a resource is that is a topic.
const TOPIC: i8 = 2;
const POLICY: &str = "cleanup.policy";

#[derive(Debug)]
enum Stage {
    Start,
    Making(Call),
    Counting(Call),
    Describing(Call, Vec<i32>),
}

/// Makes topics and looks at them, see [`TopicsClient`].
#[derive(Debug)]
pub struct SimTopics {
    host: Host,
    link: Link,
    stage: Stage,
    not_before: Instant,
}

impl SimTopics {
    /// A client without connection.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { link: host.link(), stage: Stage::Start, not_before: Instant::ZERO, host }
    }

    fn make(topics: &[TopicSpec]) -> CreateTopicsRequest {
        let one = |spec: &TopicSpec| {
            let configs = spec.settings.iter().map(|(name, value)| {
                let value = Some(StrBytes::from_static_str(value));
                CreatableTopicConfig::default().with_name(StrBytes::from_static_str(name)).with_value(value)
            });
            CreatableTopic::default()
                .with_name(topic_name(&spec.name))
                .with_num_partitions(spec.partitions)
                .with_replication_factor(-1)
                .with_configs(configs.collect())
        };
        CreateTopicsRequest::default().with_topics(topics.iter().map(one).collect()).with_timeout_ms(30_000)
    }

    fn count(topics: &[TopicSpec]) -> MetadataRequest {
        metadata::about(topics.iter().map(|topic| &topic.name))
    }

    fn describe(topics: &[TopicSpec]) -> DescribeConfigsRequest {
        let one = |spec: &TopicSpec| {
            let keys = Some(vec![StrBytes::from_static_str(POLICY)]);
            let resource = DescribeConfigsResource::default().with_resource_type(TOPIC);
            resource.with_resource_name(text(&spec.name)).with_configuration_keys(keys)
        };
        DescribeConfigsRequest::default().with_resources(topics.iter().map(one).collect())
    }

    fn facts(
        topics: &[TopicSpec],
        counted: Vec<i32>,
        answer: &DescribeConfigsResponse,
    ) -> Result<Vec<TopicFacts>, ClientError> {
        let refused = answer.results.iter().find_map(|result| {
            let code = error(result.error_code)?;
            Some(format!("settings of topic {:?}: {code:?}", result.resource_name))
        });
        if let Some(sentence) = refused {
            return Err(ClientError::new(ErrorKind::Other, sentence));
        }
        let policy = |spec: &TopicSpec| {
            let of = answer.results.iter().find(|result| *result.resource_name == *spec.name)?;
            let found = of.configs.iter().find(|config| &*config.name == POLICY)?;
            found.value.as_ref().map(ToString::to_string)
        };
        let facts = topics.iter().zip(counted);
        Ok(facts.map(|(spec, partitions)| TopicFacts { partitions, cleanup_policy: policy(spec) }).collect())
    }

    fn later(&mut self) {
        (self.stage, self.not_before) = (Stage::Start, self.host.now() + LATER);
    }
}

impl TopicsClient for SimTopics {
    fn ensure(&mut self, topics: &[TopicSpec], _: Duration) -> Result<Option<Vec<TopicFacts>>, ClientError> {
        self.host.call()?;
        if self.host.now() < self.not_before || !self.link.is_ready() {
            return Ok(None);
        }
        match std::mem::replace(&mut self.stage, Stage::Start) {
            Stage::Start => {
                self.stage = Stage::Making(self.link.ask(CREATE_TOPICS, Self::make(topics).into(), PATIENCE))
            }
            Stage::Making(call) => match self.link.hear(call) {
                Heard::Nothing => self.stage = Stage::Making(call),
                Heard::Answer(ResponseKind::CreateTopics(answer)) => {
                    let refused = answer.topics.iter().find_map(|topic| {
                        let code = error(topic.error_code).filter(|code| *code != E::TopicAlreadyExists)?;
                        Some(format!("topic {:?}: {code:?}", topic.name.0))
                    });
                    if let Some(sentence) = refused {
                        return Err(ClientError::new(ErrorKind::Other, sentence));
                    }
                    self.stage = Stage::Counting(self.link.ask(METADATA, Self::count(topics).into(), PATIENCE));
                }
                Heard::Answer(_) | Heard::Lost => self.later(),
            },
            Stage::Counting(call) => match self.link.hear(call) {
                Heard::Nothing => self.stage = Stage::Counting(call),
                Heard::Answer(ResponseKind::Metadata(answer)) => {
                    let found = metadata::counts(&answer);
                    let counted: Option<Vec<_>> = topics.iter().map(|t| found.get(&*t.name).copied()).collect();
                    match counted {
                        Some(counted) => {
                            let call = self.link.ask(DESCRIBE_CONFIGS, Self::describe(topics).into(), PATIENCE);
                            self.stage = Stage::Describing(call, counted);
                        }
                        None => self.later(),
                    }
                }
                Heard::Answer(_) | Heard::Lost => self.later(),
            },
            Stage::Describing(call, counted) => match self.link.hear(call) {
                Heard::Nothing => self.stage = Stage::Describing(call, counted),
                Heard::Answer(ResponseKind::DescribeConfigs(answer)) => {
                    let facts = Self::facts(topics, counted, &answer)?;
                    self.link.close();
                    return Ok(Some(facts));
                }
                Heard::Answer(_) | Heard::Lost => self.later(),
            },
        }
        Ok(None)
    }
}
