//! AlterConfigs (all of a topic's at once) and IncrementalAlterConfigs (one by one, KIP-339).

use std::collections::BTreeSet;

use kafka_protocol::{
    error::ResponseError,
    messages::{
        AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
        alter_configs_response::AlterConfigsResourceResponse as Altered,
        incremental_alter_configs_request::AlterableConfig,
        incremental_alter_configs_response::AlterConfigsResourceResponse as IncrementallyAltered,
    },
    protocol::StrBytes,
};

use super::{
    Logs,
    config::{self, Kind, Overrides, Settings, list},
    describe_configs::resource,
    topics::{Refusal, named},
    twice::named_twice,
};

/// A resource by its kind and name.
type Resource<'a> = (i8, &'a StrBytes);

/// What is given for a resource, as far as it can be refused without a look at the resource.
struct Given<'a> {
    resource: Resource<'a>,
    /// The configs that are to be set to nothing.
    nulls: Vec<&'a StrBytes>,
    /// The request has an operation that there is not, on whatever resource.
    unknown_operation: bool,
}

impl Logs {
    /// Answers AlterConfigs.
    pub(in crate::broker::core) fn alter_configs(&mut self, request: &AlterConfigsRequest) -> AlterConfigsResponse {
        let named = request.resources.iter().map(|resource| (resource.resource_type, &resource.resource_name));
        let twice = named_twice(named);
        let responses = request.resources.iter().map(|asked| {
            let resource = (asked.resource_type, &asked.resource_name);
            let set = asked.configs.iter().map(|config| config::check(&config.name, config.value.as_deref()));
            let set = |_: &Overrides| set.collect::<Result<_, _>>().map_err(invalid);
            let nulls = asked.configs.iter().filter(|config| config.value.is_none()).map(|config| &config.name);
            let given = Given { resource, nulls: nulls.collect(), unknown_operation: false };
            let (code, message) = told(self.alter(given, &twice, request.validate_only, set));
            Altered::default()
                .with_error_code(code)
                .with_error_message(message)
                .with_resource_type(asked.resource_type)
                .with_resource_name(asked.resource_name.clone())
        });
        AlterConfigsResponse::default().with_responses(responses.collect())
    }

    /// Answers IncrementalAlterConfigs.
    pub(in crate::broker::core) fn incremental_alter_configs(
        &mut self,
        request: &IncrementalAlterConfigsRequest,
    ) -> IncrementalAlterConfigsResponse {
        let named = request.resources.iter().map(|resource| (resource.resource_type, &resource.resource_name));
        let twice = named_twice(named);
        let mut steps = request.resources.iter().flat_map(|asked| &asked.configs);
        let unknown_operation = steps.any(|step| !(SET..=SUBTRACT).contains(&step.config_operation));
        let responses = request.resources.iter().map(|asked| {
            let resource = (asked.resource_type, &asked.resource_name);
            let step = |there: &Overrides| {
                let mut names = BTreeSet::new();
                if !asked.configs.iter().all(|config| names.insert(&config.name)) {
                    return Err(Refusal::new(ResponseError::InvalidRequest, "A config is given twice"));
                }
                asked.configs.iter().try_fold(there.clone(), altered)
            };
            let set_to_null = |config: &&AlterableConfig| config.value.is_none() && config.config_operation != DELETE;
            let nulls = asked.configs.iter().filter(set_to_null).map(|config| &config.name);
            let given = Given { resource, nulls: nulls.collect(), unknown_operation };
            let (code, message) = told(self.alter(given, &twice, request.validate_only, step));
            IncrementallyAltered::default()
                .with_error_code(code)
                .with_error_message(message)
                .with_resource_type(asked.resource_type)
                .with_resource_name(asked.resource_name.clone())
        });
        IncrementalAlterConfigsResponse::default().with_responses(responses.collect())
    }

    fn alter(
        &mut self,
        Given { resource: (kind, name), nulls, unknown_operation }: Given<'_>,
        twice: &BTreeSet<Resource<'_>>,
        validate_only: bool,
        alter: impl FnOnce(&Overrides) -> Result<Overrides, Refusal>,
    ) -> Result<(), Refusal> {
        if twice.contains(&(kind, name)) {
            return Err(Refusal::new(ResponseError::InvalidRequest, "A resource is given twice"));
        }
        if !nulls.is_empty() {
            let nulls: Vec<&str> = nulls.iter().map(|name| name.as_str()).collect();
            let why = format!("Null value not supported for : {}", nulls.join(","));
            return Err(Refusal::new(ResponseError::InvalidRequest, why));
        }
        if kind != resource::TOPIC {
            let why = "Only the configs of topics can be altered: the broker's are those that it was started with";
            return Err(Refusal::new(ResponseError::InvalidRequest, why));
        }
        if unknown_operation {
            // Kafka fails at it, and has no words for that.
            return Err(Refusal::new(ResponseError::UnknownServerError, ""));
        }
        let topic = self.topics.get_mut(&named(name)).ok_or(ResponseError::UnknownTopicOrPartition)?;
        let overrides = alter(&topic.overrides)?;
        Settings::check(&overrides).map_err(invalid)?;
        if !validate_only {
            topic.settings = Settings::new(&overrides);
            topic.overrides = overrides;
        }
        Ok(())
    }
}

fn invalid(why: String) -> Refusal {
    Refusal::new(ResponseError::InvalidConfig, why)
}

fn told(altered: Result<(), Refusal>) -> (i16, Option<StrBytes>) {
    match altered {
        Ok(()) => (0, None),
        Err(Refusal { error, message }) => {
            (error.code(), Some(message).filter(|m| !m.is_empty()).map(StrBytes::from_string))
        }
    }
}

/// What is done to a config.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// One step: set, delete, append to a list or subtract from it.
fn altered(mut there: Overrides, step: &AlterableConfig) -> Result<Overrides, Refusal> {
    let name = step.name.as_str();
    if step.config_operation == DELETE {
        // What nobody knows is not set either.
        there.remove(name);
        return Ok(there);
    }
    let definition = config::defined(name).ok_or_else(|| invalid(format!("Unknown topic config name: {name}")))?;
    let value = step.value.as_deref();
    let value = match (step.config_operation, definition.kind) {
        (APPEND | SUBTRACT, Kind::List(_)) => {
            let now = there.get(definition.name).map_or(definition.default, String::as_str);
            let (mut items, given): (Vec<&str>, Vec<&str>) =
                (list(now).collect(), list(value.unwrap_or_default()).collect());
            items.retain(|item| !given.contains(item));
            if step.config_operation == APPEND {
                items.extend(given);
            }
            Some(items.join(","))
        }
        (APPEND | SUBTRACT, _) => {
            let verb = if step.config_operation == APPEND { "APPEND to" } else { "SUBTRACT from" };
            return Err(invalid(format!("Can't {verb} key {name} because its type is not LIST.")));
        }
        _ => value.map(str::to_owned),
    };
    let (name, value) = config::check(name, value.as_deref()).map_err(invalid)?;
    there.insert(name, value);
    Ok(there)
}
