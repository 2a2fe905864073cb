//! `state list`: which stores there are.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt::Write as _,
};

use serde::Serialize;

use crate::{
    kafka::changelog::{EntryRecord, StoreReader, StoreTopic},
    service::{
        dispatch::Session,
        exit::Outcome,
        output,
        progress::{counted, grouped},
    },
};

/// What `--json` prints of a store.
#[derive(Serialize)]
struct Listed<'a> {
    component: &'a str,
    store: &'a str,
    topic: &'a str,
    key: &'a str,
    value: &'a str,
    key_groups: u16,
    entries: u64,
    /// Bytes of keys and values.
    bytes: u64,
    /// The last commit that is in it.
    commit: Option<u64>,
}

/// The entries of one store: key group and key, and bytes of the value.
type Live = HashMap<(u16, Vec<u8>), usize>;

pub(super) fn list(session: &Session<'_>, reader: &StoreReader, stores: &[StoreTopic]) -> Outcome {
    let mut live = vec![Live::new(); stores.len()];
    let position = reader.read(stores, &mut |record| {
        if let Some(live) = live.get_mut(record.store) {
            take(live, record);
        }
    })?;
    let commit = position.map(|position| position.commit);
    let listed: Vec<_> = stores.iter().zip(&live).map(|(store, live)| listed(store, live, commit)).collect();
    if session.global.json {
        return output::json(&listed);
    }
    output::data(&table(&listed))
}

fn take(live: &mut Live, record: EntryRecord<'_>) {
    match (live.entry((record.group, record.key.to_vec())), record.value) {
        (Entry::Occupied(entry), None) => {
            entry.remove();
        }
        (Entry::Vacant(_), None) => {}
        (entry, Some(value)) => {
            entry.insert_entry(value.len());
        }
    }
}

fn listed<'a>(store: &'a StoreTopic, live: &Live, commit: Option<u64>) -> Listed<'a> {
    let format = &store.format;
    Listed {
        component: &format.component,
        store: &format.store,
        topic: &store.topic,
        key: &format.key,
        value: &format.value,
        key_groups: format.key_groups,
        entries: live.len() as u64,
        bytes: live.iter().map(|((_, key), value)| (key.len() + value) as u64).sum(),
        commit,
    }
}

fn table(listed: &[Listed<'_>]) -> String {
    let mut text = String::new();
    for store in listed {
        let Listed { component, store: name, topic, key, value, key_groups, .. } = store;
        let entries =
            if store.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", grouped(store.entries)) };
        let (bytes, groups) = (counted(store.bytes, "byte"), counted(u64::from(*key_groups), "key group"));
        let commit = store.commit.map_or_else(String::new, |commit| format!(", as of commit {commit}"));
        writeln!(text, "{component}/{name}: {key} -> {value}, {entries}, {bytes}{commit}").unwrap_or_default();
        writeln!(text, "  topic {topic}, {groups}").unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_record_of_a_key_counts() {
        let mut live = Live::new();
        let record = |group, key: &'static [u8], value| EntryRecord { store: 0, group, key, value };
        for record in [
            record(1, b"a", Some(&b"12"[..])),
            record(2, b"a", Some(b"")),
            record(1, b"a", Some(b"3")),
            record(1, b"b", Some(b"4")),
            record(1, b"b", None),
            record(1, b"c", None),
        ] {
            take(&mut live, record);
        }
        assert_eq!((live.len(), live[&(1, b"a".to_vec())]), (2, 1));
    }
}
