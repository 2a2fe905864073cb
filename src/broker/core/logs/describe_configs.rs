//! DescribeConfigs: what a topic goes by and where that comes from, and what the broker was started with.

use kafka_protocol::{
    error::ResponseError,
    messages::{
        DescribeConfigsRequest, DescribeConfigsResponse,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym},
    },
    protocol::StrBytes,
};

use super::{
    Logs,
    config::{Definition, Kind, Overrides, TOPIC},
    topics::{Refusal, check_name, named},
};
use crate::broker::core::broker::NODE;

/// The numbers of resources in requests about configs.
pub(super) mod resource {
    pub(in crate::broker::core::logs) const TOPIC: i8 = 2;
    pub(in crate::broker::core::logs) const BROKER: i8 = 4;
}

/// The numbers of the places that a config comes from.
mod source {
    pub(super) const TOPIC: i8 = 1;
    pub(super) const ALL_BROKERS: i8 = 3;
    pub(super) const STATIC_BROKER: i8 = 4;
    pub(super) const DEFAULT: i8 = 5;
}

/// Every config of a topic with its value and the number of the place that it comes from.
pub(super) fn effective<T>(set: &Overrides, tell: impl Fn(&'static Definition, StrBytes, i8) -> T) -> Vec<T> {
    let told = TOPIC.iter().map(|definition| match set.get(definition.name) {
        Some(value) => tell(definition, StrBytes::from_string(value.clone()), source::TOPIC),
        None => tell(definition, StrBytes::from_static_str(definition.default), source::DEFAULT),
    });
    told.collect()
}

impl Logs {
    /// Answers DescribeConfigs.
    pub(in crate::broker::core) fn describe_configs(
        &self,
        request: &DescribeConfigsRequest,
    ) -> DescribeConfigsResponse {
        let results = request.resources.iter().map(|resource| {
            let result = DescribeConfigsResult::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone());
            match self.configs_of(resource, request) {
                Ok(configs) => result.with_configs(configs).with_error_message(None),
                Err(Refusal { error, message }) => {
                    result.with_error_code(error.code()).with_error_message(Some(StrBytes::from_string(message)))
                }
            }
        });
        DescribeConfigsResponse::default().with_results(results.collect())
    }

    fn configs_of(
        &self,
        resource: &DescribeConfigsResource,
        request: &DescribeConfigsRequest,
    ) -> Result<Vec<DescribeConfigsResourceResult>, Refusal> {
        let name = &resource.resource_name;
        let mut configs = match resource.resource_type {
            resource::TOPIC => {
                check_name(name).map_err(|why| Refusal::new(ResponseError::InvalidTopicException, why))?;
                let topic = self.topic(&named(name)).ok_or(ResponseError::UnknownTopicOrPartition)?;
                effective(&topic.overrides, |definition, value, source| described(definition, value, source, request))
            }
            resource::BROKER if name.is_empty() => vec![config_of_all_brokers(request)],
            resource::BROKER if name.as_str() == NODE.0.to_string() => self.configs_of_broker(),
            resource::BROKER => {
                let why = format!("Unexpected broker id, expected {} or empty string, but received {name}", NODE.0);
                return Err(Refusal::new(ResponseError::InvalidRequest, why));
            }
            other => {
                let why = format!("Unsupported resource type: {other}");
                return Err(Refusal::new(ResponseError::InvalidRequest, why));
            }
        };
        if let Some(keys) = &resource.configuration_keys {
            configs.retain(|config| keys.contains(&config.name));
        }
        Ok(configs)
    }

    /// What the broker was started with, by Kafka's names, with the numbers of their types.
    fn configs_of_broker(&self) -> Vec<DescribeConfigsResourceResult> {
        let options = &self.options;
        let told = [
            ("auto.create.topics.enable", options.auto_create_topics.to_string(), 1),
            ("log.cleaner.backoff.ms", options.cleaner_backoff.as_millis().to_string(), 5),
            ("log.retention.check.interval.ms", options.retention_check_interval.as_millis().to_string(), 5),
            ("node.id", NODE.0.to_string(), 3),
            ("num.partitions", options.num_partitions.to_string(), 3),
            ("producer.id.expiration.ms", options.producer_id_expiration.as_millis().to_string(), 3),
        ];
        let told = told.map(|(name, value, kind)| {
            DescribeConfigsResourceResult::default()
                .with_name(StrBytes::from_static_str(name))
                .with_value(Some(StrBytes::from_string(value)))
                .with_read_only(true)
                .with_config_source(source::STATIC_BROKER)
                .with_config_type(kind)
                .with_documentation(None)
        });
        told.into()
    }
}

/// The one config that Kafka sets for all brokers of a cluster together, and has since a new one is formatted (KIP-966).
fn config_of_all_brokers(request: &DescribeConfigsRequest) -> DescribeConfigsResourceResult {
    let (name, value) = (StrBytes::from_static_str("min.insync.replicas"), Some(StrBytes::from_static_str("1")));
    let synonym = DescribeConfigsSynonym::default().with_name(name.clone()).with_value(value.clone());
    let synonym = request.include_synonyms.then(|| synonym.with_source(source::ALL_BROKERS));
    DescribeConfigsResourceResult::default()
        .with_name(name)
        .with_value(value)
        .with_config_source(source::ALL_BROKERS)
        .with_synonyms(synonym.into_iter().collect())
        .with_config_type(Kind::Int(0, 0).number())
        .with_documentation(None)
}

fn described(
    definition: &'static Definition,
    value: StrBytes,
    from: i8,
    request: &DescribeConfigsRequest,
) -> DescribeConfigsResourceResult {
    let synonym = |name, value, source| {
        let synonym = DescribeConfigsSynonym::default().with_name(StrBytes::from_static_str(name));
        synonym.with_value(Some(value)).with_source(source)
    };
    let own = (from == source::TOPIC).then(|| synonym(definition.name, value.clone(), source::TOPIC));
    let default = (!definition.synonym.is_empty())
        .then(|| synonym(definition.synonym, StrBytes::from_static_str(definition.default), source::DEFAULT));
    let synonyms = own.into_iter().chain(default).filter(|_| request.include_synonyms).collect();
    let documentation = request.include_documentation.then(|| StrBytes::from_static_str(definition.documentation));
    DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_static_str(definition.name))
        .with_value(Some(value))
        .with_config_source(from)
        .with_synonyms(synonyms)
        .with_config_type(definition.kind.number())
        .with_documentation(documentation)
}
