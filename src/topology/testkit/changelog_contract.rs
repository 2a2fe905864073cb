//! What every changelog must do, whatever it keeps its flushes in.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    state::{Changes, OffsetRanges, Position, SourcePosition},
    topology::{
        CommitNumber, ComponentResult,
        changelog::{Changelog, ChangelogFactory, Flush, Restored, StoreFormat, StoreId},
    },
};

/// Longest wait of one call, and how many calls may find nothing.
const WAIT: Duration = Duration::from_millis(100);
const CALLS: usize = 600;

/// Store, key group and key of an entry.
type Place = (usize, u16, String);

/// What a changelog must hold: entries and position.
type Model = (BTreeMap<Place, String>, Option<Position>);

/// A rule of [`Changelog`]'s contract that a changelog has broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("contract Changelog {rule}: it {what}")]
pub struct BrokenContract {
    /// The rule's number.
    pub rule: u8,
    /// How.
    pub what: String,
}

/// Puts a changelog in which nothing was ever written through its contract.
///
/// # Errors
/// The first rule of [`Changelog`] that it has broken.
pub fn check_changelog(factory: &ChangelogFactory) -> Result<(), BrokenContract> {
    let nothing: Model = (BTreeMap::new(), None);
    let first =
        flush(1, &[(0, 0, "a", Some("1")), (0, 3, "b", Some("")), (0, 3, "", Some("2")), (1, 1, "a", Some("3"))]);
    let second = flush(2, &[(0, 0, "a", Some("4")), (0, 3, "b", None), (1, 0, "c", Some("5")), (1, 1, "z", None)]);
    let third = flush(3, &[(0, 0, "a", Some("6")), (0, 1, "d", Some("7")), (1, 1, "a", None)]);
    let (one, two) = (after(&nothing, &first), after(&after(&nothing, &first), &second));
    let three = after(&two, &third);

    let mut changelog = restored(factory, &[&nothing])?;
    durable(&mut *changelog, first)?;
    changelog.close(WAIT);
    let mut changelog = restored(factory, &[&one])?;
    durable(&mut *changelog, second)?;
    changelog.close(WAIT);

    let mut zombie = restored(factory, &[&two])?;
    let mut successor = opened(factory)?;
    is_fenced(&mut *zombie, third.clone())?;
    restore(&mut *successor, &[&two])?;

    // Whatever becomes of a flush whose writer is gone, it is whole.
    called(4, "is told to write", successor.write(third.clone()))?;
    let mut changelog = restored(factory, &[&two, &three])?;
    called(4, "is told to write", changelog.write(third.clone()))?;
    if changelog.write(third).is_ok() {
        return Err(broken(4, "takes a flush while another one is on its way"));
    }
    Ok(())
}

/// An opened changelog.
fn opened(factory: &ChangelogFactory) -> Result<Box<dyn Changelog>, BrokenContract> {
    let store = |store: &str| StoreFormat {
        component: "count".to_owned(),
        store: store.to_owned(),
        key: "text".to_owned(),
        value: "text".to_owned(),
        key_groups: 4,
    };
    let mut changelog = called(1, "is made", factory.make(&[store("counts"), store("seen")]))?;
    for _ in 0..CALLS {
        if called(1, "is opened", changelog.open(WAIT))? {
            return Ok(changelog);
        }
    }
    Err(broken(1, "does not open"))
}

/// An opened and restored changelog that holds what one of the models says.
fn restored(factory: &ChangelogFactory, expected: &[&Model]) -> Result<Box<dyn Changelog>, BrokenContract> {
    let mut changelog = opened(factory)?;
    restore(&mut *changelog, expected)?;
    Ok(changelog)
}

fn restore(changelog: &mut dyn Changelog, expected: &[&Model]) -> Result<(), BrokenContract> {
    let mut entries = BTreeMap::new();
    for _ in 0..CALLS {
        match called(1, "is restored", changelog.restore(WAIT))? {
            Restored::Nothing => {}
            Restored::Entries { store, group, entries: batch } => take(&mut entries, store, Some(group), &batch)?,
            Restored::Done(position) => {
                let found = (entries, position);
                if expected.iter().any(|model| **model == found) {
                    return Ok(());
                }
                return Err(broken(3, &format!("holds {found:?}, not {expected:?}")));
            }
        }
    }
    Err(broken(1, "is not restored"))
}

fn durable(changelog: &mut dyn Changelog, flush: Flush) -> Result<(), BrokenContract> {
    let number = CommitNumber(flush.position.commit);
    called(4, "is told to write", changelog.write(flush))?;
    for _ in 0..CALLS {
        match called(4, "is polled", changelog.poll(WAIT))? {
            None => {}
            Some(durable) if durable == number => {
                return match called(4, "is polled", changelog.poll(Duration::ZERO))? {
                    None => Ok(()),
                    Some(_) => Err(broken(4, "tells a flush twice")),
                };
            }
            Some(durable) => return Err(broken(4, &format!("tells {durable:?} of {number:?}"))),
        }
    }
    Err(broken(4, "does not make a flush durable"))
}

/// A writer that was replaced cannot write, and hears that no new try will help.
fn is_fenced(zombie: &mut dyn Changelog, flush: Flush) -> Result<(), BrokenContract> {
    let mut outcome = zombie.write(flush);
    for _ in 0..CALLS {
        match outcome {
            Ok(()) => {}
            Err(error) if error.is_retriable() => {
                return Err(broken(2, &format!("tells one that was replaced to try again: {error}")));
            }
            Err(_) => return Ok(()),
        }
        outcome = match zombie.poll(WAIT) {
            Ok(Some(_)) => return Err(broken(2, "lets one write that was replaced")),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
    }
    Err(broken(2, "does not tell one that was replaced"))
}

fn called<T>(rule: u8, what: &str, outcome: ComponentResult<T>) -> Result<T, BrokenContract> {
    outcome.map_err(|error| broken(rule, &format!("fails when it {what}: {error:?}")))
}

fn broken(rule: u8, what: &str) -> BrokenContract {
    BrokenContract { rule, what: what.to_owned() }
}

/// Entries as (store, key group, key, value).
fn flush(number: u64, entries: &[(usize, u16, &str, Option<&str>)]) -> Flush {
    let mut done = OffsetRanges::new();
    done.push(12, 14);
    let source = SourcePosition {
        source: "lines".to_owned(),
        topic: "in".to_owned(),
        partition: 0,
        next: 10,
        done,
        started: 20,
        committed: number.checked_sub(1).map(|before| before.cast_signed()),
    };
    let of = |store: usize| {
        let mut changes = Changes::default();
        for (_, group, key, value) in entries.iter().filter(|entry| entry.0 == store) {
            changes.push(*group, key.as_bytes(), value.map(str::as_bytes));
        }
        (StoreId(store), changes)
    };
    Flush { position: Position { commit: number, sources: vec![source] }, changes: vec![of(0), of(1)] }
}

fn after(model: &Model, flush: &Flush) -> Model {
    let mut entries = model.0.clone();
    for (store, changes) in &flush.changes {
        // A flush names a key group with each entry.
        take(&mut entries, *store, None, changes).ok();
    }
    (entries, Some(flush.position.clone()))
}

/// Applies entries, which must be of `group` if there is one.
fn take(
    entries: &mut BTreeMap<Place, String>,
    store: StoreId,
    group: Option<u16>,
    changes: &Changes,
) -> Result<(), BrokenContract> {
    for change in changes.iter() {
        if group.is_some_and(|group| group != change.group) {
            return Err(broken(1, "restores entries of several key groups in one batch"));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let place = (store.0, change.group, text(change.key));
        match change.value {
            Some(value) => entries.insert(place, text(value)),
            None => entries.remove(&place),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::testkit::MemoryChangelog;

    #[test]
    fn a_changelog_in_memory_keeps_the_contract() {
        assert_eq!(check_changelog(&MemoryChangelog::new().factory()), Ok(()));
    }

    #[test]
    fn a_changelog_that_breaks_the_contract_is_told_so() {
        let memory = MemoryChangelog::new();
        memory.fail_next();
        let told = check_changelog(&memory.factory()).unwrap_err();
        insta::assert_snapshot!(told, @"contract Changelog 4: it fails when it is polled: Retriable: flush 1: no answer");

        let used = MemoryChangelog::new();
        assert_eq!(check_changelog(&used.factory()), Ok(()));
        assert!(check_changelog(&used.factory()).unwrap_err().rule == 3);
    }
}
