//! `state`: stores as their changelogs hold them, read afresh, without joining the group.
//!
//! Files in reading order: `list` (which stores there are), `entries` (what one of them holds).

mod entries;
mod list;

use std::{sync::Arc, time::Duration};

use super::{
    cli::{State, StateAction},
    config::ClientSettings,
    connect,
    dispatch::Session,
    exit::{Cause, Failure, Outcome},
};
use crate::{
    clock::Clock,
    kafka::{
        RdkafkaScan,
        admin::Admin,
        changelog::{StoreReader, StoreTopic},
        client::ClientError,
    },
};

/// Longest silence of the brokers.
const PATIENCE: Duration = Duration::from_secs(15);

/// Runs the command.
///
/// # Errors
/// Wrong flags, no such store or key, a broker that does not answer.
pub(crate) fn state(session: &Session<'_>, args: &State) -> Outcome {
    let (settings, group) = session.app()?;
    let connection = connect::consumer(&settings);
    let scan = move || RdkafkaScan::new(&connection, PATIENCE, Clock::system());
    let reader = StoreReader::new(Arc::new(move || Ok(Box::new(scan()?))));
    let stores = reader.stores(&group, topics(&settings)?)?;
    if stores.is_empty() {
        return Err(no_changelog(&group));
    }
    match &args.action {
        StateAction::List => list::list(session, &reader, &stores),
        StateAction::Get(get) => {
            let store = chosen(&group, stores, get.store.as_deref())?;
            entries::get(session, &reader, store, &get.key)
        }
        StateAction::Scan(scan) => {
            let store = chosen(&group, stores, scan.store.as_deref())?;
            entries::scan(session, &reader, store, scan)
        }
    }
}

fn topics(settings: &ClientSettings) -> Result<Vec<String>, ClientError> {
    Admin::new(&connect::admin(settings), PATIENCE, Clock::system())?.topics()
}

fn no_changelog(group: &str) -> Failure {
    let sentence =
        format!("group \"{group}\" has no changelog: its topology has no store, or has committed nothing yet");
    Failure::new(Cause::NoInput, sentence)
}

/// The store that was named, or the only one.
fn chosen(group: &str, stores: Vec<StoreTopic>, name: Option<&str>) -> Result<StoreTopic, Failure> {
    let names: Vec<_> = stores.iter().map(StoreTopic::name).collect();
    let names = names.join(", ");
    let Some(name) = name else {
        let mut stores = stores.into_iter();
        return match (stores.next(), stores.next()) {
            (Some(store), None) => Ok(store),
            _ => Err(Failure::new(
                Cause::Usage,
                format!("group \"{group}\" has several stores: choose with --store one of {names}"),
            )),
        };
    };
    stores
        .into_iter()
        .find(|store| store.name() == name)
        .ok_or_else(|| Failure::new(Cause::NoInput, format!("group \"{group}\" has no store \"{name}\", but {names}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::FormatRecord;

    fn store(name: &str) -> StoreTopic {
        let format = FormatRecord {
            app: "g".to_owned(),
            component: "count".to_owned(),
            store: name.to_owned(),
            key: "text".to_owned(),
            value: "uint".to_owned(),
            key_groups: 8,
        };
        StoreTopic { topic: "t".into(), format }
    }

    #[test]
    fn the_only_store_need_not_be_named() {
        assert_eq!(chosen("g", vec![store("a")], None).unwrap(), store("a"));
        assert_eq!(chosen("g", vec![store("a"), store("b")], Some("count/b")).unwrap(), store("b"));
        let told = |stores: &[&str], name| {
            let failure = chosen("g", stores.iter().map(|s| store(s)).collect(), name).unwrap_err();
            format!("{} {}", failure.cause.code(), failure.error.unwrap())
        };
        insta::assert_snapshot!(told(&["a", "b"], None), @r#"64 group "g" has several stores: choose with --store one of count/a, count/b"#);
        insta::assert_snapshot!(told(&["a", "b"], Some("b")), @r#"66 group "g" has no store "b", but count/a, count/b"#);
    }

    #[test]
    fn a_group_without_changelog_is_said_with_66() {
        let failure = no_changelog("g");
        assert_eq!(failure.cause.code(), 66);
        insta::assert_snapshot!(failure.error.unwrap(), @r#"group "g" has no changelog: its topology has no store, or has committed nothing yet"#);
    }
}
