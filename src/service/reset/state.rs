//! The state of a topology begun anew: its changelog is removed, and made again with nothing in it but the offsets that it
//! belongs to.
//!
//! The order is such that the restart plan refuses whatever a crash leaves between two steps, and that the same command
//! completes it: without changelog but with offsets; with a changelog that names other offsets than are committed.

use std::time::Duration;

use serde::Serialize;

use super::PATIENCE;
use crate::{
    clock::{Clock, Instant},
    kafka::admin::Admin,
    service::{
        config::Settings,
        connect,
        exit::{Cause, Failure, Outcome},
        pipeline,
    },
    state::{OffsetRanges, Position, SourcePosition},
    topology::{
        ComponentError, Plan,
        changelog::{Changelog, Flush, Restored, StoreFormat},
    },
};

/// Longest wait of one call of the changelog.
const STEP: Duration = Duration::from_millis(200);

/// A partition with the offset that the state is to belong to.
pub(super) type Place = (String, i32, i64);

/// A store whose state is given up.
#[derive(Serialize)]
pub(super) struct Store {
    /// `COMPONENT/STORE`.
    pub(super) store: String,
    /// The changelog topic that holds it.
    pub(super) topic: String,
}

/// The stores that have a changelog now.
///
/// # Errors
/// No broker answers, access is denied.
pub(super) fn discarded(settings: &Settings, plan: &Plan, clock: &Clock) -> Result<Vec<Store>, Failure> {
    let mut stores = Vec::new();
    if plan.stores.is_empty() {
        return Ok(stores);
    }
    let admin = Admin::new(&connect::admin(&settings.kafka), PATIENCE, clock.clone())?;
    let options = pipeline::changelog_options(settings);
    for format in plan.stores.iter().map(|store| &store.format) {
        let topic = options.topic(&format.component, &format.store);
        if admin.partitions(&topic)?.is_some() {
            stores.push(Store { store: format!("{}/{}", format.component, format.store), topic });
        }
    }
    Ok(stores)
}

/// Removes what the stores have held, and writes that they hold nothing from before these places.
///
/// # Errors
/// No broker answers, access is denied, another process has the stores.
pub(super) fn begin_anew(settings: &Settings, plan: &Plan, places: &[Place], clock: &Clock) -> Outcome {
    let admin = Admin::new(&connect::admin(&settings.kafka), PATIENCE, clock.clone())?;
    let options = pipeline::changelog_options(settings);
    let formats: Vec<StoreFormat> = plan.stores.iter().map(|store| store.format.clone()).collect();
    for format in &formats {
        admin.delete_topic(&options.topic(&format.component, &format.store))?;
    }
    let mut changelog = pipeline::changelog(settings, clock).make(&formats).map_err(failed)?;
    let written = write(&mut *changelog, position(plan, places), clock);
    changelog.close(PATIENCE);
    written
}

fn position(plan: &Plan, places: &[Place]) -> Position {
    let spouts = plan.components.iter().filter(|component| component.factory.kind() == "spout");
    let at = |source: &str, (topic, partition, next): &Place| SourcePosition {
        source: source.to_owned(),
        topic: topic.clone(),
        partition: *partition,
        next: *next,
        done: OffsetRanges::new(),
        started: *next,
        committed: Some(*next),
    };
    let sources = spouts.flat_map(|spout| places.iter().map(|place| at(&spout.name, place)));
    Position { commit: 1, sources: sources.collect() }
}

fn write(changelog: &mut dyn Changelog, position: Position, clock: &Clock) -> Outcome {
    let deadline = clock.now() + PATIENCE;
    while !changelog.open(STEP).map_err(failed)? {
        in_time(deadline, clock)?;
    }
    loop {
        match changelog.restore(STEP).map_err(failed)? {
            Restored::Done(_) => break,
            Restored::Entries { .. } | Restored::Nothing => in_time(deadline, clock)?,
        }
    }
    changelog.write(Flush { position, changes: Vec::new() }).map_err(failed)?;
    while changelog.poll(STEP).map_err(failed)?.is_none() {
        in_time(deadline, clock)?;
    }
    Ok(())
}

fn failed(error: ComponentError) -> Failure {
    let cause = match error {
        _ if error.is_refusal() => Cause::Config,
        _ if error.is_denied() => Cause::Permission,
        _ => Cause::Unavailable,
    };
    Failure::new(cause, error)
}

fn in_time(deadline: Instant, clock: &Clock) -> Outcome {
    if clock.now() < deadline {
        return Ok(());
    }
    let sentence =
        format!("the changelog did not answer within {PATIENCE:?}: run the command again, which completes it");
    Err(Failure::new(Cause::Unavailable, sentence))
}
