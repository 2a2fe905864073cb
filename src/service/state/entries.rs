//! `state get` and `state scan`: what a store holds.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;
use serde_json::Value as Json;
use tracing::Level;

use crate::{
    kafka::changelog::{StoreReader, StoreTopic},
    service::{
        cli::StateScan,
        dispatch::Session,
        exit::{Cause, Failure, OrFail as _, Outcome},
        output,
    },
    state::{DecodeError, FormatRecord, KeyType, ValueType},
};

/// What `--json` prints of an entry.
#[derive(Serialize)]
struct Shown {
    key: Json,
    value: Json,
}

/// Key and key group -> value, all encoded: in the order of keys.
type Entries = BTreeMap<(Vec<u8>, u16), Vec<u8>>;

/// The types of a store, which say what its bytes mean.
struct Types {
    key: KeyType,
    value: ValueType,
}

impl Types {
    fn of(format: &FormatRecord) -> Result<Self, Failure> {
        let key = format.key.parse().or_fail(Cause::Data)?;
        let value = format.value.parse().or_fail(Cause::Data)?;
        Ok(Self { key, value })
    }
}

pub(super) fn get(session: &Session<'_>, reader: &StoreReader, store: StoreTopic, key: &str) -> Outcome {
    let types = Types::of(&store.format)?;
    let wanted = types.key.parse(key).or_fail(Cause::Usage)?;
    let found = read(reader, &store, &|key| key == wanted)?;
    if found.is_empty() {
        let sentence = format!("store \"{}\" has no key \"{key}\"", store.name());
        return Err(Failure::new(Cause::No, sentence));
    }
    if session.global.json {
        return show(session, &types, &found);
    }
    // A key that is finer than its grouping key may stand in several key groups.
    let lines = found.values().map(|value| Ok(escaped(&types.value.print(value)?) + "\n"));
    output::data(&lines.collect::<Result<String, DecodeError>>().or_fail(Cause::Data)?)
}

pub(super) fn scan(session: &Session<'_>, reader: &StoreReader, store: StoreTopic, args: &StateScan) -> Outcome {
    let types = Types::of(&store.format)?;
    let wanted = |key: &[u8]| match &args.prefix {
        Some(prefix) => types.key.print(key).is_ok_and(|key| key.starts_with(prefix)),
        None => true,
    };
    let mut found = read(reader, &store, &wanted)?;
    let all = found.len();
    let limit = args.limit.unwrap_or(usize::MAX);
    if let Some(first) = found.keys().nth(limit).cloned() {
        found.split_off(&first);
    }
    show(session, &types, &found)?;
    if found.len() < all && !session.global.json {
        output::say(Level::INFO, format_args!("... and {} more", all - found.len()));
    }
    Ok(())
}

/// The entries whose keys are wanted.
fn read(reader: &StoreReader, store: &StoreTopic, wanted: &dyn Fn(&[u8]) -> bool) -> Result<Entries, Failure> {
    let mut entries = Entries::new();
    let _position = reader.read(std::slice::from_ref(store), &mut |record| {
        if !wanted(record.key) {
            return;
        }
        let place = (record.key.to_vec(), record.group);
        match record.value {
            Some(value) => entries.insert(place, value.to_vec()),
            None => entries.remove(&place),
        };
    })?;
    Ok(entries)
}

/// One line an entry, key and value with a tab between them; or a JSON array.
fn show(session: &Session<'_>, types: &Types, entries: &Entries) -> Outcome {
    if session.global.json {
        let shown = entries
            .iter()
            .map(|((key, _), value)| Ok(Shown { key: types.key.to_json(key)?, value: types.value.to_json(value)? }));
        let shown: Vec<_> = shown.collect::<Result<_, DecodeError>>().or_fail(Cause::Data)?;
        return output::json(&shown);
    }
    let mut text = String::new();
    for ((key, _), value) in entries {
        let key = types.key.print(key).or_fail(Cause::Data)?;
        let value = types.value.print(value).or_fail(Cause::Data)?;
        writeln!(text, "{}\t{}", escaped(&key), escaped(&value)).unwrap_or_default();
    }
    output::data(&text)
}

/// Line ends, tabs and what a terminal would obey are written as in Rust: an entry is one line, and moves no cursor.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut line, c| {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_escaped() {
        assert_eq!(escaped("a\tb\nc\u{1b}[0m ü"), "a\\tb\\nc\\u{1b}[0m ü");
    }
}
