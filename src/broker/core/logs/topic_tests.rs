//! Topics and their configs, through requests.

use std::collections::BTreeMap;

use kafka_protocol::{
    error::ResponseError,
    messages::{
        AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
        IncrementalAlterConfigsRequest, MetadataRequest, ResponseKind, alter_configs_request as alter,
        create_partitions_request::CreatePartitionsTopic,
        create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig},
        create_topics_response::CreatableTopicResult,
        delete_topics_request::DeleteTopicState,
        describe_configs_request::DescribeConfigsResource,
        incremental_alter_configs_request as incremental,
        metadata_request::MetadataRequestTopic,
        metadata_response::MetadataResponseTopic,
    },
};

use super::{
    LogOptions,
    bench::{Bench, Sample, TOPIC},
    topics::named,
};

fn topic(name: &str) -> CreatableTopic {
    CreatableTopic::default().with_name(named(name)).with_num_partitions(1).with_replication_factor(1)
}

fn create(bench: &mut Bench, topic: CreatableTopic) -> CreatableTopicResult {
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    let Some(ResponseKind::CreateTopics(mut response)) = bench.ask(request, 7) else { panic!("no response") };
    response.topics.remove(0)
}

fn metadata(bench: &mut Bench, topics: Option<Vec<MetadataRequestTopic>>) -> Vec<MetadataResponseTopic> {
    let request = MetadataRequest::default().with_topics(topics).with_allow_auto_topic_creation(true);
    let Some(ResponseKind::Metadata(response)) = bench.ask(request, 12) else { panic!("no response") };
    assert_eq!(response.brokers.len(), 1);
    response.topics
}

fn by_name(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic::default().with_name(Some(named(name)))
}

#[test]
fn topics_are_refused_for_what_kafka_refuses_them_for() {
    let mut bench = Bench::new(&[]);
    let long = "x".repeat(250);
    for name in ["", ".", "..", "a b", "ä", "a/b", &long] {
        let result = create(&mut bench, topic(name));
        assert_eq!(result.error_code, ResponseError::InvalidTopicException.code(), "{name}");
    }
    let config = |name: &str, value: Option<&str>| {
        let config = CreatableTopicConfig::default().with_name(name.to_owned().into());
        vec![config.with_value(value.map(|value| value.to_owned().into()))]
    };
    let manual = |index: i32, broker: i32| {
        let assignment = CreatableReplicaAssignment::default().with_partition_index(index);
        let assignment = assignment.with_broker_ids(vec![broker.into()]);
        topic("m").with_num_partitions(-1).with_replication_factor(-1).with_assignments(vec![assignment])
    };
    let refused = [
        (topic(TOPIC), ResponseError::TopicAlreadyExists),
        (topic("__consumer_offsets"), ResponseError::TopicAlreadyExists),
        (topic("__transaction_state"), ResponseError::TopicAlreadyExists),
        (topic("__transaction.state"), ResponseError::InvalidTopicException),
        (topic("__cluster_metadata"), ResponseError::InvalidRequest),
        (topic("n").with_num_partitions(0), ResponseError::InvalidPartitions),
        (topic("n").with_num_partitions(-2), ResponseError::InvalidPartitions),
        (topic("n").with_replication_factor(0), ResponseError::InvalidReplicationFactor),
        (topic("n").with_replication_factor(2), ResponseError::InvalidReplicationFactor),
        (topic("n").with_num_partitions(i32::MAX), ResponseError::PolicyViolation),
        (topic("n").with_configs(config("no.such.config", Some("1"))), ResponseError::InvalidConfig),
        (topic("n").with_configs(config("retention.ms", Some("soon"))), ResponseError::InvalidConfig),
        (topic("n").with_configs(config("retention.ms", Some("-2"))), ResponseError::InvalidConfig),
        (topic("n").with_configs(config("segment.bytes", Some("1048575"))), ResponseError::InvalidConfig),
        (topic("n").with_configs(config("compression.gzip.level", Some("0"))), ResponseError::InvalidConfig),
        (topic("n").with_configs(config("min.cleanable.dirty.ratio", Some("1.1"))), ResponseError::InvalidConfig),
        (topic("n").with_configs(config("retention.ms", None)), ResponseError::InvalidConfig),
        (topic("n").with_configs(config("cleanup.policy", Some("delete,burn"))), ResponseError::InvalidConfig),
        (topic("n").with_configs(config("cleanup.policy", Some("compact,,delete"))), ResponseError::InvalidConfig),
        (manual(1, 1), ResponseError::InvalidReplicaAssignment),
        (manual(0, 2), ResponseError::InvalidReplicaAssignment),
        (manual(0, 1).with_num_partitions(1), ResponseError::InvalidRequest),
    ];
    for (topic, error) in refused {
        let said = format!("{topic:?}");
        assert_eq!(create(&mut bench, topic).error_code, error.code(), "{said}");
    }
    create(&mut bench, topic("a.b"));
    assert_eq!(create(&mut bench, topic("a_b")).error_code, ResponseError::InvalidTopicException.code(), "collides");
}

#[test]
fn partitions_that_would_be_too_many_are_refused_with_the_bound_and_what_to_do() {
    let mut bench = Bench::with(LogOptions { max_partitions: 10, ..LogOptions::default() }, &[]);
    create(&mut bench, topic("n").with_num_partitions(7));
    let refused = create(&mut bench, topic("m").with_num_partitions(3));
    assert_eq!(refused.error_code, ResponseError::PolicyViolation.code());
    let said = "3 more partition(s) are too many: there may be 10 in all topics together, and there are 8. Ask for \
                fewer, or delete topics first.";
    assert_eq!(refused.error_message.as_deref(), Some(said));
    assert_eq!(create(&mut bench, topic("m").with_num_partitions(2)).error_code, 0);
}

#[test]
fn topic_named_twice_in_a_request_is_not_created() {
    let mut bench = Bench::new(&[]);
    let request = CreateTopicsRequest::default().with_topics(vec![topic("n"), topic("n")]);
    let Some(ResponseKind::CreateTopics(response)) = bench.ask(request, 7) else { panic!("no response") };
    let codes: Vec<i16> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [ResponseError::InvalidRequest.code()]);
    assert!(bench.logs.topic(&named("n")).is_none());
}

#[test]
fn created_topic_is_told_with_its_configs_and_checked_only_where_asked() {
    let mut bench = Bench::new(&[]);
    let request = CreateTopicsRequest::default().with_topics(vec![topic("n")]).with_validate_only(true);
    let Some(ResponseKind::CreateTopics(response)) = bench.ask(request, 7) else { panic!("no response") };
    assert_eq!(response.topics[0].error_code, 0);
    assert!(bench.logs.topic(&named("n")).is_none());
    let created = create(&mut bench, topic("n").with_num_partitions(-1).with_replication_factor(-1));
    assert_eq!((created.num_partitions, created.replication_factor), (1, 1));
    assert!(created.configs.unwrap().iter().any(|config| config.name.as_str() == "cleanup.policy"));
    assert_eq!(Some(created.topic_id), bench.logs.topic(&named("n")).map(|topic| topic.id));
}

#[test]
fn metadata_names_what_is_there_and_creates_nothing_by_default() {
    let mut bench = Bench::new(&[]);
    create(&mut bench, topic("n").with_num_partitions(3));
    let all = metadata(&mut bench, None);
    let names: Vec<_> = all.iter().map(|topic| topic.name.clone().unwrap()).collect();
    assert_eq!(names, [named("n"), named(TOPIC)]);
    assert_eq!(all[0].partitions.len(), 3);
    assert_eq!(all[0].partitions[2].leader_id, 1);
    assert_eq!(metadata(&mut bench, Some(Vec::new())), []);
    let asked = metadata(&mut bench, Some(vec![by_name("unknown"), by_name("a b"), by_name("n")]));
    let codes: Vec<i16> = asked.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [3, 17, 0]);
    assert!(bench.logs.topic(&named("unknown")).is_none());
    let by_id = MetadataRequestTopic::default().with_name(None).with_topic_id(all[0].topic_id);
    assert_eq!(metadata(&mut bench, Some(vec![by_id]))[0].name, Some(named("n")));
    let by_id = MetadataRequestTopic::default().with_name(None).with_topic_id(uuid::Uuid::from_u64_pair(1, 1));
    assert_eq!(metadata(&mut bench, Some(vec![by_id.clone()]))[0].error_code, ResponseError::UnknownTopicId.code());
    let request = MetadataRequest::default().with_topics(Some(vec![by_id]));
    let Some(ResponseKind::Metadata(response)) = bench.ask(request, 11) else { panic!("no response") };
    assert_eq!(response.topics[0].error_code, ResponseError::InvalidRequest.code(), "not yet in this version");
}

#[test]
fn metadata_of_a_topic_named_twice_is_told_once() {
    let mut bench = Bench::new(&[]);
    let told = metadata(&mut bench, Some(vec![by_name("n"), by_name(TOPIC), by_name("n"), by_name(TOPIC)]));
    let names: Vec<_> = told.iter().map(|topic| topic.name.clone().unwrap()).collect();
    assert_eq!(names, [named("n"), named(TOPIC)]);
}

#[test]
fn topics_are_created_when_asked_for_where_both_sides_want_that() {
    let options = LogOptions { auto_create_topics: true, num_partitions: 2, ..LogOptions::default() };
    let mut bench = Bench::with(options, &[]);
    let created = metadata(&mut bench, Some(vec![by_name("new")]));
    assert_eq!((created[0].error_code, created[0].partitions.len()), (0, 2));
    let internal = metadata(&mut bench, Some(vec![by_name("__consumer_offsets")]));
    assert_eq!(internal[0].error_code, ResponseError::UnknownTopicOrPartition.code());
    let request = MetadataRequest::default().with_topics(Some(vec![by_name("newer")]));
    let request = request.with_allow_auto_topic_creation(false);
    let Some(ResponseKind::Metadata(response)) = bench.ask(request, 12) else { panic!("no response") };
    assert_eq!(response.topics[0].error_code, ResponseError::UnknownTopicOrPartition.code());
}

#[test]
fn deleted_topic_is_gone_and_its_successor_has_another_id() {
    let mut bench = Bench::new(&[]);
    bench.append(&Sample::values(&["x"]));
    let id = bench.logs.topic(&Bench::topic()).unwrap().id;
    let by_id = DeleteTopicState::default().with_name(None).with_topic_id(id);
    let mut delete = |topic: &DeleteTopicState| {
        let request = DeleteTopicsRequest::default().with_topics(vec![topic.clone()]);
        let Some(ResponseKind::DeleteTopics(mut response)) = bench.ask(request, 6) else { panic!("no response") };
        response.responses.remove(0)
    };
    let deleted = delete(&by_id);
    assert_eq!((deleted.error_code, deleted.name), (0, Some(Bench::topic())));
    assert_eq!(delete(&by_id).error_code, ResponseError::UnknownTopicId.code());
    let by_name = DeleteTopicState::default().with_name(Some(Bench::topic()));
    assert_eq!(delete(&by_name).error_code, ResponseError::UnknownTopicOrPartition.code());
    let created = create(&mut bench, topic(TOPIC));
    assert_ne!(created.topic_id, id);
    assert_eq!(bench.fetch(0, 0).high_watermark, 0);
}

#[test]
fn topic_that_is_to_be_deleted_twice_is_not_deleted() {
    let mut bench = Bench::new(&[]);
    let names = ["unknown", TOPIC, "unknown", TOPIC, "other"];
    let request = DeleteTopicsRequest::default().with_topic_names(names.map(named).to_vec());
    let Some(ResponseKind::DeleteTopics(response)) = bench.ask(request, 5) else { panic!("no response") };
    let told: Vec<_> = response.responses.iter().map(|result| (result.name.clone(), result.error_code)).collect();
    let (twice, unknown) = (ResponseError::InvalidRequest.code(), ResponseError::UnknownTopicOrPartition.code());
    assert_eq!(told, [(Some(named("unknown")), twice), (Some(named(TOPIC)), twice), (Some(named("other")), unknown),]);
    assert!(bench.logs.topic(&named(TOPIC)).is_some());
}

#[test]
fn partitions_are_only_added() {
    let mut bench = Bench::new(&[]);
    let mut ask = |name: &str, count, validate_only| {
        let topic = CreatePartitionsTopic::default().with_name(named(name)).with_count(count).with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_validate_only(validate_only);
        let Some(ResponseKind::CreatePartitions(response)) = bench.ask(request, 3) else { panic!("no response") };
        response.results[0].error_code
    };
    assert_eq!(ask(TOPIC, 3, true), 0);
    assert_eq!(ask(TOPIC, 3, false), 0);
    assert_eq!(ask(TOPIC, 3, false), ResponseError::InvalidPartitions.code());
    assert_eq!(ask(TOPIC, 2, false), ResponseError::InvalidPartitions.code());
    assert_eq!(ask(TOPIC, i32::MAX, false), ResponseError::PolicyViolation.code());
    assert_eq!(ask("unknown", 2, false), ResponseError::UnknownTopicOrPartition.code());
    assert_eq!(bench.logs.topic(&Bench::topic()).unwrap().partitions.len(), 3);
}

/// Value and source of each config of the topic.
fn configs(bench: &mut Bench) -> BTreeMap<String, (String, i8)> {
    let resource = DescribeConfigsResource::default().with_resource_type(2).with_resource_name(TOPIC.into());
    let request = DescribeConfigsRequest::default().with_resources(vec![resource.with_configuration_keys(None)]);
    let Some(ResponseKind::DescribeConfigs(response)) = bench.ask(request, 4) else { panic!("no response") };
    let configs = response.results[0].configs.iter();
    configs.map(|c| (c.name.to_string(), (c.value.as_ref().unwrap().to_string(), c.config_source))).collect()
}

fn incrementally(bench: &mut Bench, name: &str, operation: i8, value: Option<&str>) -> i16 {
    let config = incremental::AlterableConfig::default().with_name(name.to_owned().into());
    let config = config.with_config_operation(operation).with_value(value.map(|value| value.to_owned().into()));
    let resource = incremental::AlterConfigsResource::default().with_resource_type(2).with_resource_name(TOPIC.into());
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource.with_configs(vec![config])]);
    let Some(ResponseKind::IncrementalAlterConfigs(response)) = bench.ask(request, 1) else { panic!("no response") };
    response.responses[0].error_code
}

#[test]
fn configs_are_told_with_their_source_and_altered_one_by_one() {
    let mut bench = Bench::new(&[("retention.ms", "1000")]);
    let there = configs(&mut bench);
    assert_eq!(there["retention.ms"], ("1000".to_owned(), 1));
    assert_eq!(there["max.message.bytes"], ("1048588".to_owned(), 5));
    assert_eq!(incrementally(&mut bench, "max.message.bytes", 0, Some("100")), 0);
    assert_eq!(incrementally(&mut bench, "retention.ms", 1, None), 0);
    assert_eq!(incrementally(&mut bench, "cleanup.policy", 2, Some("compact")), 0);
    assert_eq!(incrementally(&mut bench, "cleanup.policy", 3, Some("delete")), 0);
    let there = configs(&mut bench);
    assert_eq!(there["retention.ms"], ("604800000".to_owned(), 5));
    assert_eq!(there["max.message.bytes"], ("100".to_owned(), 1));
    assert_eq!(there["cleanup.policy"], ("compact".to_owned(), 1));
}

#[test]
fn list_is_kept_with_each_item_once() {
    let mut bench = Bench::new(&[("cleanup.policy", "delete,delete")]);
    let mut policy = |operation, value| {
        assert_eq!(incrementally(&mut bench, "cleanup.policy", operation, Some(value)), 0);
        configs(&mut bench).remove("cleanup.policy").unwrap().0
    };
    assert_eq!(policy(3, "compact"), "delete");
    assert_eq!(policy(0, " compact , delete,compact "), "compact,delete");
    assert_eq!(policy(2, "delete,delete"), "compact,delete");
    assert_eq!(policy(0, ""), "");
}

#[test]
fn brokers_have_configs_together_and_each_its_own() {
    let mut bench = Bench::new(&[]);
    let mut ask = |name: &'static str| {
        let resource = DescribeConfigsResource::default().with_resource_type(4).with_resource_name(name.into());
        let request = DescribeConfigsRequest::default().with_resources(vec![resource.with_configuration_keys(None)]);
        let Some(ResponseKind::DescribeConfigs(response)) = bench.ask(request, 4) else { panic!("no response") };
        let result = &response.results[0];
        let configs = result.configs.iter().map(|config| (config.name.to_string(), config.config_source)).collect();
        (result.error_code, configs)
    };
    let together: Vec<(String, i8)> = vec![("min.insync.replicas".to_owned(), 3)];
    assert_eq!(ask(""), (0, together));
    let (error, own) = ask("1");
    assert!(error == 0 && own.contains(&("node.id".to_owned(), 4)));
    assert_eq!(ask("7"), (ResponseError::InvalidRequest.code(), Vec::new()));
}

#[test]
fn config_that_is_set_counts_at_once() {
    let mut bench = Bench::new(&[]);
    assert_eq!(incrementally(&mut bench, "max.message.bytes", 0, Some("100")), 0);
    assert_eq!(incrementally(&mut bench, "cleanup.policy", 0, Some("compact")), 0);
    assert_eq!(bench.refused(&Sample::values(&[&"x".repeat(100)]).encode()), ResponseError::MessageTooLarge.code());
    assert_eq!(bench.refused(&Sample::values(&["x"]).encode()), ResponseError::InvalidRecord.code());
}

#[test]
fn invalid_steps_change_nothing() {
    let mut bench = Bench::new(&[]);
    let there = configs(&mut bench);
    let invalid = ResponseError::InvalidConfig.code();
    assert_eq!(incrementally(&mut bench, "retention.ms", 2, Some("1")), invalid);
    assert_eq!(incrementally(&mut bench, "no.such.config", 0, Some("1")), invalid);
    assert_eq!(incrementally(&mut bench, "retention.ms", 0, None), ResponseError::InvalidRequest.code());
    assert_eq!(incrementally(&mut bench, "cleanup.policy", 2, None), ResponseError::InvalidRequest.code());
    assert_eq!(incrementally(&mut bench, "no.such.config", 1, None), 0, "it is not set, as was asked for");
    assert_eq!(incrementally(&mut bench, "retention.ms", 42, Some("1")), ResponseError::UnknownServerError.code());
    assert_eq!(incrementally(&mut bench, "retention.ms", 42, None), ResponseError::InvalidRequest.code());
    assert_eq!(configs(&mut bench), there);
}

#[test]
fn value_of_a_config_has_at_most_32767_characters() {
    let mut bench = Bench::new(&[]);
    let mut set = |length| incrementally(&mut bench, "retention.ms", 0, Some(&format!("{:0>length$}", 1)));
    assert_eq!([set(32_767), set(32_768)], [0, ResponseError::InvalidConfig.code()]);
}

#[test]
fn configs_that_contradict_each_other_are_invalid() {
    let mut bench = Bench::new(&[("max.compaction.lag.ms", "5")]);
    assert_eq!(incrementally(&mut bench, "min.compaction.lag.ms", 0, Some("6")), ResponseError::InvalidConfig.code());
    assert_eq!(incrementally(&mut bench, "min.compaction.lag.ms", 0, Some("5")), 0);
}

#[test]
fn altering_all_configs_sets_what_is_given_and_nothing_else() {
    let mut bench = Bench::new(&[("retention.ms", "1000"), ("segment.ms", "5")]);
    let config = alter::AlterableConfig::default().with_name("retention.ms".into()).with_value(Some("2000".into()));
    let resource = alter::AlterConfigsResource::default().with_resource_type(2).with_resource_name(TOPIC.into());
    let request = AlterConfigsRequest::default().with_resources(vec![resource.with_configs(vec![config])]);
    let Some(ResponseKind::AlterConfigs(response)) = bench.ask(request, 2) else { panic!("no response") };
    assert_eq!(response.responses[0].error_code, 0);
    let there = configs(&mut bench);
    assert_eq!(there["retention.ms"], ("2000".to_owned(), 1));
    assert_eq!(there["segment.ms"], ("604800000".to_owned(), 5));
}

#[test]
fn every_default_is_a_value_that_may_be_set() {
    for definition in super::config::TOPIC {
        let set = super::config::check(definition.name, Some(definition.default));
        assert_eq!(set, Ok((definition.name, definition.default.to_owned())));
    }
}
