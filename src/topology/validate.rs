//! Is a topology as it should be? All mistakes at once; what is right comes out as depths.

use std::collections::BTreeMap;

use super::{
    BuildError, BuildErrors, Factory, Grouping, TopologyBuilder,
    build_error::ReadOf,
    builder::{Declared, Read},
    depth::longest_ways,
};

/// What a sound topology's check has found out.
#[derive(Debug)]
pub(super) struct Checked {
    /// The longest way from a spout to each component, in edges.
    pub(super) depths: Vec<usize>,
}

/// Checks everything.
pub(super) fn check(topology: &TopologyBuilder) -> Result<Checked, BuildErrors> {
    let mut errors = Vec::new();
    of_topology(topology, &mut errors);
    for component in &topology.components {
        of_component(topology, component, &mut errors);
        of_streams(component, &mut errors);
        of_stores(component, &mut errors);
        of_reads(topology, component, &mut errors);
    }
    of_kept_names(topology, &mut errors);
    let depths = longest_ways(topology.components.len(), &edges(topology)).unwrap_or_else(|cycles| {
        errors.extend(cycles.iter().map(|cycle| cycle_error(topology, cycle)));
        Vec::new()
    });
    if errors.is_empty() {
        return Ok(Checked { depths });
    }
    Err(BuildErrors { topology: topology.name.clone(), errors })
}

fn of_topology(topology: &TopologyBuilder, errors: &mut Vec<BuildError>) {
    check_name("topology".to_owned(), &topology.name, errors);
    if topology.key_groups == 0 {
        errors.push(BuildError::NoKeyGroups);
    }
    if !topology.components.iter().any(is_spout) {
        errors.push(BuildError::NoSpout);
    }
    for (name, times) in repeated(topology.components.iter().map(|c| c.name.as_str())) {
        errors.push(BuildError::DuplicateComponent { name: name.to_owned(), times });
    }
}

fn of_component(topology: &TopologyBuilder, component: &Declared, errors: &mut Vec<BuildError>) {
    let (kind, name) = (component.factory.kind(), component.name.clone());
    check_name(kind.to_owned(), &name, errors);
    if component.tasks == 0 {
        errors.push(BuildError::NoTasks { kind, component: name.clone() });
    }
    let by_key = component.reads.iter().any(|read| matches!(read.grouping, Grouping::Fields(_)));
    let (tasks, key_groups) = (component.tasks, topology.key_groups);
    if by_key && key_groups > 0 && tasks > key_groups {
        errors.push(BuildError::TooManyTasks { kind, component: name.clone(), tasks, key_groups });
    }
    if let Some(interval) = component.tick.filter(|interval| interval.is_zero()) {
        errors.push(BuildError::NoTickInterval { component: name.clone(), interval });
    }
    match component.factory {
        Factory::Spout(_) if component.streams.is_empty() => {
            errors.push(BuildError::SilentSpout { component: name.clone() });
        }
        Factory::Bolt(_) | Factory::AckingBolt(_) | Factory::Sink(_) if component.reads.is_empty() => {
            errors.push(BuildError::NotFed { kind, component: name.clone() });
        }
        Factory::Spout(_) | Factory::Bolt(_) | Factory::AckingBolt(_) | Factory::Sink(_) => {}
    }
    let misused = misuses(component);
    errors.extend(misused.into_iter().map(|misuse| BuildError::Misused { kind, component: name.clone(), misuse }));
}

/// What the types of [`Declaration`](super::Declaration) make impossible, and a component made from a [`Factory`] not.
fn misuses(component: &Declared) -> Vec<&'static str> {
    let mut misuses = Vec::new();
    let mut check = |wrong: bool, misuse| {
        if wrong {
            misuses.push(misuse);
        }
    };
    let (reads, emits) = (!component.reads.is_empty(), !component.streams.is_empty());
    let (ticks, stateful) = (component.tick.is_some(), component.stateful);
    let is_sink = matches!(component.factory, Factory::Sink(_));
    check(component.lineage && !is_sink, "writes lineages: only sinks do. Remove .writes_lineage");
    match component.factory {
        Factory::Spout(_) => {
            check(reads, "reads: a spout is a beginning. Remove .reads, or make it a bolt");
            check(ticks, "is ticked: only bolts are. Use the clock that next() is given");
            check(stateful, "is stateful: only bolts are. A spout's own memory is its offsets");
        }
        Factory::Sink(_) => {
            check(emits, "declares streams: a sink is an end. Remove them, or make it a bolt");
            check(ticks, "is ticked: only bolts are. Use the clock that poll() is given");
            check(stateful, "is stateful: only bolts are. Put a bolt before it that remembers");
        }
        Factory::Bolt(_) | Factory::AckingBolt(_) => {}
    }
    misuses
}

fn of_streams(component: &Declared, errors: &mut Vec<BuildError>) {
    let emitter = &component.name;
    for (stream, times) in repeated(component.streams.iter().map(|(name, _)| name.as_str())) {
        let (component, stream) = (emitter.clone(), stream.to_owned());
        errors.push(BuildError::DuplicateStream { component, stream, times });
    }
    for (stream, fields) in &component.streams {
        check_name(format!("stream of \"{emitter}\""), stream, errors);
        for field in fields.iter().filter(|f| f.is_empty() || f.contains(char::is_control)) {
            let (component, stream) = (emitter.clone(), stream.clone());
            errors.push(BuildError::OddField { component, stream, field: field.clone() });
        }
        for (field, times) in repeated(fields.iter().map(String::as_str)) {
            let (component, stream, field) = (emitter.clone(), stream.clone(), field.to_owned());
            errors.push(BuildError::DuplicateField { component, stream, field, times });
        }
    }
}

fn of_stores(component: &Declared, errors: &mut Vec<BuildError>) {
    let names = || component.stores.iter().map(|store| store.name.as_str());
    let owner = || component.name.clone();
    for (store, times) in repeated(names()) {
        errors.push(BuildError::DuplicateStore { component: owner(), store: store.to_owned(), times });
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_odd = |name: &&str| !(1..=BuildError::MAX_NAME).contains(&name.len()) || !name.chars().all(allowed);
    for store in names().filter(is_odd) {
        errors.push(BuildError::OddStoreName { component: owner(), store: store.to_owned() });
    }
    if component.stores.is_empty() {
        return;
    }
    for read in component.reads.iter().filter(|read| !matches!(read.grouping, Grouping::Fields(_))) {
        let (read, grouping) = (read_of(component, read), read.grouping.name());
        errors.push(BuildError::StoreNotByKey { read, grouping });
    }
}

/// A store's changelog is named after component and store.
fn of_kept_names(topology: &TopologyBuilder, errors: &mut Vec<BuildError>) {
    let mut kept = BTreeMap::<String, (&str, &str)>::new();
    for component in &topology.components {
        for store in &component.stores {
            let this = (component.name.as_str(), store.name.as_str());
            let other = *kept.entry(format!("{}-{}", this.0, this.1)).or_insert(this);
            if other.0 != this.0 {
                errors.push(BuildError::SameKeptName {
                    component: this.0.to_owned(),
                    store: this.1.to_owned(),
                    other: other.0.to_owned(),
                    other_store: other.1.to_owned(),
                });
            }
        }
    }
}

fn of_reads(topology: &TopologyBuilder, reader: &Declared, errors: &mut Vec<BuildError>) {
    let ids = |read: &Read| (read.component.clone(), read.stream.clone());
    let mut seen = BTreeMap::<_, usize>::new();
    reader.reads.iter().for_each(|read| *seen.entry(ids(read)).or_default() += 1);
    for read in &reader.reads {
        check_source(topology, reader, read, errors);
        // Said once, where the stream is read first.
        if let Some(times) = seen.remove(&ids(read)).filter(|times| *times > 1) {
            errors.push(BuildError::ReadTwice { read: read_of(reader, read), times });
        }
    }
}

fn check_source(topology: &TopologyBuilder, reader: &Declared, read: &Read, errors: &mut Vec<BuildError>) {
    let Some(source) = topology.components.iter().find(|c| c.name == read.component) else {
        return errors.push(unknown_component(topology, reader, read));
    };
    let read_of = read_of(reader, read);
    let Some((_, fields)) = source.streams.iter().find(|(name, _)| *name == read.stream) else {
        let declared = source.streams.iter().map(|(name, _)| name.clone()).collect();
        return errors.push(BuildError::UnknownStream { read: read_of, declared });
    };
    if matches!(read.grouping, Grouping::Direct) && is_spout(source) {
        errors.push(BuildError::DirectFromSpout { read: read_of.clone() });
    }
    if !matches!(read.grouping, Grouping::Fields(_) | Grouping::PartialKey(_)) {
        return;
    }
    let keys = read.grouping.key_fields();
    let twice = !repeated(keys.iter().map(String::as_str)).is_empty();
    if keys.is_empty() || keys.len() > Grouping::MAX_KEY_FIELDS || twice {
        let (grouping, fields) = (read.grouping.name(), keys.len());
        errors.push(BuildError::BadKey { read: read_of.clone(), grouping, fields });
    }
    for field in keys.iter().filter(|key| !fields.contains(key)) {
        let (read, field, declared) = (read_of.clone(), field.clone(), fields.clone());
        errors.push(BuildError::UnknownField { read, field, declared });
    }
}

fn unknown_component(topology: &TopologyBuilder, reader: &Declared, read: &Read) -> BuildError {
    let emitting = topology.components.iter().filter(|c| !c.streams.is_empty() && c.name != reader.name);
    let declared: Vec<String> = emitting.map(|c| c.name.clone()).collect();
    let alike = declared.iter().map(|name| (strsim::jaro_winkler(name, &read.component), name));
    // Below 0.8 a suggestion is a guess.
    let nearest = alike.filter(|(alike, _)| *alike >= 0.8).max_by(|(a, _), (b, _)| a.total_cmp(b));
    BuildError::UnknownComponent {
        kind: reader.factory.kind(),
        reader: reader.name.clone(),
        component: read.component.clone(),
        nearest: nearest.map(|(_, name)| name.clone()),
        declared,
    }
}

fn read_of(reader: &Declared, read: &Read) -> ReadOf {
    ReadOf {
        kind: reader.factory.kind(),
        reader: reader.name.clone(),
        component: read.component.clone(),
        stream: read.stream.clone(),
    }
}

fn cycle_error(topology: &TopologyBuilder, cycle: &[usize]) -> BuildError {
    let name = |at: &usize| topology.components.get(*at).map(|c| c.name.clone());
    BuildError::Cycle { way: cycle.iter().filter_map(name).collect() }
}

/// Who reads whom, as indexes; reads of what is not there are left out.
fn edges(topology: &TopologyBuilder) -> Vec<(usize, usize)> {
    let readers = topology.components.iter().enumerate();
    let reads = readers.flat_map(|(at, c)| c.reads.iter().map(move |read| (at, read)));
    let edge = |(reader, read): (usize, &Read)| {
        let source = topology.components.iter().position(|c| c.name == read.component)?;
        Some((source, reader))
    };
    reads.filter_map(edge).collect()
}

fn is_spout(component: &Declared) -> bool {
    matches!(component.factory, Factory::Spout(_))
}

fn check_name(what: String, name: &str, errors: &mut Vec<BuildError>) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !starts_well || name.len() > BuildError::MAX_NAME || !name.chars().all(allowed) {
        errors.push(BuildError::OddName { what, name: name.to_owned() });
    }
}

/// What occurs more than once, and how often.
fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut times = BTreeMap::new();
    names.for_each(|name| *times.entry(name).or_default() += 1);
    times.retain(|_, times| *times > 1);
    times
}
