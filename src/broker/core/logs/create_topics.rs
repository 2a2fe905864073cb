//! CreateTopics and CreatePartitions, with the checks of Kafka's `ReplicationControlManager`.

use std::collections::BTreeMap;

use kafka_protocol::{
    error::ResponseError,
    messages::{
        BrokerId, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
        create_partitions_request::CreatePartitionsTopic,
        create_partitions_response::CreatePartitionsTopicResult,
        create_topics_request::{CreatableReplicaAssignment, CreatableTopic},
        create_topics_response::{CreatableTopicConfigs, CreatableTopicResult},
    },
    protocol::StrBytes,
};

use super::{
    Logs,
    config::{self, Overrides, Settings},
    describe_configs::effective,
    partition::Partition,
    topics::{CLUSTER_METADATA, INTERNAL, Refusal, check_name, is_internal, named},
    twice::named_twice,
};
use crate::broker::core::broker::NODE;

/// The bytes of a name as metrics have it.
fn in_metrics(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|byte| if byte == b'.' { b'_' } else { byte })
}

impl Logs {
    /// Answers CreateTopics: each topic by itself.
    pub(in crate::broker::core) fn create_topics(&mut self, request: &CreateTopicsRequest) -> CreateTopicsResponse {
        let twice = named_twice(request.topics.iter().map(|topic| &topic.name));
        let mut results: BTreeMap<_, CreatableTopicResult> = BTreeMap::new();
        for wanted in &request.topics {
            let created = if twice.contains(&wanted.name) {
                Err(Refusal::new(ResponseError::InvalidRequest, "Duplicate topic name."))
            } else {
                self.create_topic(wanted, request.validate_only)
            };
            let result = created.unwrap_or_else(|Refusal { error, message }| {
                let message = Some(StrBytes::from_string(message));
                let result = CreatableTopicResult::default().with_error_code(error.code()).with_error_message(message);
                result.with_num_partitions(-1).with_replication_factor(-1).with_configs(None)
            });
            results.insert(wanted.name.clone(), result.with_name(wanted.name.clone()));
        }
        CreateTopicsResponse::default().with_topics(results.into_values().collect())
    }

    fn create_topic(&mut self, wanted: &CreatableTopic, validate_only: bool) -> Result<CreatableTopicResult, Refusal> {
        check_name(&wanted.name).map_err(|why| Refusal::new(ResponseError::InvalidTopicException, why))?;
        if wanted.name.as_str() == CLUSTER_METADATA {
            let why = format!("Creation of internal topic {CLUSTER_METADATA} is prohibited.");
            return Err(Refusal::new(ResponseError::InvalidRequest, why));
        }
        self.check_unlike_others(&wanted.name)?;
        let partitions = self.partitions_wanted(wanted)?;
        let set = wanted.configs.iter().map(|config| config::check(&config.name, config.value.as_deref()));
        let overrides: Overrides =
            set.collect::<Result<_, _>>().map_err(|why| Refusal::new(ResponseError::InvalidConfig, why))?;
        Settings::check(&overrides).map_err(|why| Refusal::new(ResponseError::InvalidConfig, why))?;
        let configs = effective(&overrides, |definition, value, source| {
            CreatableTopicConfigs::default()
                .with_name(StrBytes::from_static_str(definition.name))
                .with_value(Some(value))
                .with_config_source(source)
        });
        let told = CreatableTopicResult::default()
            .with_num_partitions(i32::try_from(partitions).unwrap_or(i32::MAX))
            .with_replication_factor(1)
            .with_configs(Some(configs));
        if validate_only {
            return Ok(told);
        }
        let id = self.create(&named(&wanted.name), partitions, overrides)?;
        Ok(told.with_topic_id(id))
    }

    /// No topic has this name, or one that is the same in the names of metrics.
    fn check_unlike_others(&self, name: &str) -> Result<(), Refusal> {
        if self.topic(&named(name)).is_some() || is_internal(name) {
            return Err(Refusal::new(ResponseError::TopicAlreadyExists, format!("Topic '{name}' already exists.")));
        }
        let alike = |there: &&str| there.len() == name.len() && in_metrics(there).eq(in_metrics(name));
        let mut names = self.topics.keys().map(|there| there.as_str()).chain(INTERNAL);
        // Without either character a name is like no other but itself.
        let other = if name.contains(['.', '_']) { names.find(alike) } else { None };
        match other {
            Some(there) => Err(Refusal::new(
                ResponseError::InvalidTopicException,
                format!("Topic '{name}' collides with existing topic: {there}"),
            )),
            None => Ok(()),
        }
    }

    fn partitions_wanted(&self, wanted: &CreatableTopic) -> Result<usize, Refusal> {
        let &CreatableTopic { num_partitions, replication_factor, ref assignments, .. } = wanted;
        let partitions = if assignments.is_empty() {
            check_replication_factor(replication_factor)?;
            match num_partitions {
                -1 => usize::try_from(self.options.num_partitions).unwrap_or(1),
                1.. => usize::try_from(num_partitions).unwrap_or(usize::MAX),
                _ => {
                    let why = "Number of partitions was set to an invalid non-positive value.";
                    return Err(Refusal::new(ResponseError::InvalidPartitions, why));
                }
            }
        } else {
            if replication_factor != -1 || num_partitions != -1 {
                let why = "A manual partition assignment was specified, but partitions or replication factor was not \
                           set to -1.";
                return Err(Refusal::new(ResponseError::InvalidRequest, why));
            }
            check_assignments(assignments)?;
            assignments.len()
        };
        self.check_room_for(partitions)?;
        Ok(partitions)
    }

    /// Answers CreatePartitions: each topic by itself.
    pub(in crate::broker::core) fn create_partitions(
        &mut self,
        request: &CreatePartitionsRequest,
    ) -> CreatePartitionsResponse {
        let twice = named_twice(request.topics.iter().map(|topic| &topic.name));
        let results = request.topics.iter().map(|wanted| {
            let result = CreatePartitionsTopicResult::default().with_name(wanted.name.clone());
            let added = if twice.contains(&wanted.name) {
                Err(Refusal::new(ResponseError::InvalidRequest, "Duplicate topic name."))
            } else {
                self.add_partitions(wanted, request.validate_only)
            };
            match added {
                Ok(()) => result.with_error_message(None),
                Err(Refusal { error, message }) => {
                    result.with_error_code(error.code()).with_error_message(Some(StrBytes::from_string(message)))
                }
            }
        });
        CreatePartitionsResponse::default().with_results(results.collect())
    }

    fn add_partitions(&mut self, wanted: &CreatePartitionsTopic, validate_only: bool) -> Result<(), Refusal> {
        let topic = self.topic(&wanted.name).ok_or(ResponseError::UnknownTopicOrPartition)?;
        let (there, count) = (topic.partitions.len(), wanted.count);
        let more = usize::try_from(count).unwrap_or(0).saturating_sub(there);
        if more == 0 {
            let why = if usize::try_from(count) == Ok(there) {
                format!("Topic already has {there} partition(s).")
            } else {
                let name = wanted.name.as_str();
                format!("The topic {name} currently has {there} partition(s); {count} would not be an increase.")
            };
            return Err(Refusal::new(ResponseError::InvalidPartitions, why));
        }
        if let Some(assignments) = &wanted.assignments {
            if assignments.len() != more {
                let why = format!("{more} additional partition(s), but {} assignment(s).", assignments.len());
                return Err(Refusal::new(ResponseError::InvalidReplicaAssignment, why));
            }
            assignments.iter().try_for_each(|assignment| check_replicas(&assignment.broker_ids))?;
        }
        self.check_room_for(more)?;
        if let Some(topic) = self.topics.get_mut(&wanted.name).filter(|_| !validate_only) {
            topic.partitions.resize_with(there + more, Partition::new);
        }
        Ok(())
    }
}

fn check_replication_factor(factor: i16) -> Result<(), Refusal> {
    let why = match factor {
        -1 | 1 => return Ok(()),
        2.. => format!(
            "Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be \
             reached because only 1 broker(s) are registered."
        ),
        _ => "Replication factor must be larger than 0, or -1 to use the default value.".to_owned(),
    };
    Err(Refusal::new(ResponseError::InvalidReplicationFactor, why))
}

fn check_assignments(assignments: &[CreatableReplicaAssignment]) -> Result<(), Refusal> {
    let mut indices: Vec<i32> = assignments.iter().map(|assignment| assignment.partition_index).collect();
    indices.sort_unstable();
    if !(0..).zip(&indices).all(|(want, index)| want == *index) {
        let why = "partitions should be a consecutive 0-based integer sequence";
        return Err(Refusal::new(ResponseError::InvalidReplicaAssignment, why));
    }
    assignments.iter().try_for_each(|assignment| check_replicas(&assignment.broker_ids))
}

fn check_replicas(brokers: &[BrokerId]) -> Result<(), Refusal> {
    if brokers == [NODE] {
        return Ok(());
    }
    let why = format!("The manual partition assignment includes other brokers than {}, or none.", NODE.0);
    Err(Refusal::new(ResponseError::InvalidReplicaAssignment, why))
}
