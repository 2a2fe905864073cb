//! Knows what was fed into a run, and checks what comes of it: while it goes on, at every commit, and at the end.
//!
//! What is checked:
//! 1. Every word of every record arrives, and is remembered: missing is a set difference, so no repeat can hide a loss.
//! 2. No offset is committed before everything below it has arrived, and, where there are stores, is in the changelog.
//! 3. Committed offsets and the changelog's commit numbers never go back, and no flush stands before what is committed.
//! 4. Nothing arrives that was not fed, and nothing twice where nothing went wrong.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    network::Network,
    pipeline::{COUNTS, GROUP, LINES, REMEMBER, SEEN, WORDS},
    view::{Committed, committed, partitions, read_on},
};
use crate::{
    kafka::{ChangelogOptions, LINEAGE_HEADER, record::Headers},
    state::{Position, RecordKey, StateKey, StateValue},
};

/// A topic that is read on from time to time.
#[derive(Debug, Default)]
struct Cursor {
    topic: String,
    at: Vec<i64>,
}

impl Cursor {
    fn new(topic: String) -> Self {
        Self { topic, at: Vec::new() }
    }

    fn read(&mut self, network: &Network, mut each: impl FnMut(&super::clients::Reading<'_>)) {
        if self.at.is_empty() {
            let count = usize::try_from(partitions(network, &self.topic)).unwrap_or(0);
            self.at.resize(count, 0);
        }
        if !self.at.is_empty() {
            read_on(network, &self.topic, &mut self.at, &mut |_, record| each(record));
        }
    }
}

/// The oracle of one run.
#[derive(Debug)]
pub(super) struct Oracle {
    network: Network,
    stores: bool,
    /// The record at each offset of each partition.
    fed: BTreeMap<i32, Vec<u32>>,
    records: u32,
    words: Cursor,
    seen_topic: Cursor,
    counts_topic: Cursor,
    /// Lineages by word, as they have arrived; and how many records that were.
    arrived: HashMap<String, HashSet<u64>>,
    arrivals: u64,
    /// Which records have arrived, by their own word, and which are remembered.
    unique: HashSet<u32>,
    remembered: HashSet<u32>,
    lineages: HashMap<String, HashSet<u64>>,
    counts: HashMap<String, u64>,
    committed: BTreeMap<i32, Committed>,
    position: Option<Position>,
    headers: Vec<u8>,
}

/// How many words come again and again.
const COMMON: u32 = 20;

/// The line of a record: a word that many have, and one that is its own.
pub(super) fn line(record: u32) -> String {
    format!("c{} u{record}", record % COMMON)
}

/// The number in a word that is a record's own.
fn own(word: &str) -> Option<u32> {
    word.strip_prefix('u')?.parse().ok()
}

impl Oracle {
    pub(super) fn new(network: Network, stores: bool) -> Self {
        let of = ChangelogOptions::new("", GROUP, "0", std::time::Duration::ZERO);
        Self {
            network,
            stores,
            fed: BTreeMap::new(),
            records: 0,
            words: Cursor::new(WORDS.to_owned()),
            seen_topic: Cursor::new(of.topic(REMEMBER, SEEN)),
            counts_topic: Cursor::new(of.topic(REMEMBER, COUNTS)),
            arrived: HashMap::new(),
            arrivals: 0,
            unique: HashSet::new(),
            remembered: HashSet::new(),
            lineages: HashMap::new(),
            counts: HashMap::new(),
            committed: BTreeMap::new(),
            position: None,
            headers: Vec::new(),
        }
    }

    /// A record was appended to a partition.
    pub(super) fn fed(&mut self, partition: i32, record: u32) {
        self.fed.entry(partition).or_default().push(record);
        self.records += 1;
    }

    /// Records that have arrived more than once, and all.
    pub(super) fn duplicates(&self) -> (u64, u64) {
        let distinct: usize = self.arrived.values().map(HashSet::len).sum();
        (self.arrivals - distinct as u64, self.arrivals)
    }

    /// What counts are too high by.
    fn counted_again(&self) -> u64 {
        let expected = |word: &str| self.lineages.get(word).map_or(0, HashSet::len) as u64;
        self.counts.iter().map(|(word, count)| count.saturating_sub(expected(word))).sum()
    }

    /// Whether everything that was fed is committed.
    pub(super) fn is_all_committed(&self) -> bool {
        self.fed.iter().all(|(partition, records)| {
            self.committed.get(partition).is_some_and(|found| found.next >= i64::try_from(records.len()).unwrap_or(0))
        })
    }

    fn read_words(&mut self) -> Result<(), String> {
        let (arrived, unique, headers) = (&mut self.arrived, &mut self.unique, &mut self.headers);
        let (arrivals, mut wrong) = (&mut self.arrivals, None);
        self.words.read(&self.network, |record| {
            let word = record.value.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
            record.headers(headers);
            let lineage = Headers::decode(headers).find(|(name, _)| *name == LINEAGE_HEADER.as_bytes());
            let digits = lineage.and_then(|(_, value)| std::str::from_utf8(value?).ok());
            let Some(lineage) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) else {
                wrong = Some(format!("{word:?} has arrived without its lineage"));
                return;
            };
            *arrivals += 1;
            unique.extend(own(word));
            match arrived.get_mut(word) {
                Some(lineages) => drop(lineages.insert(lineage)),
                None => drop(arrived.insert(word.to_owned(), HashSet::from([lineage]))),
            }
        });
        wrong.map_or(Ok(()), Err)
    }

    fn read_changelog(&mut self) -> Result<(), String> {
        let (remembered, lineages) = (&mut self.remembered, &mut self.lineages);
        self.seen_topic.read(&self.network, |record| {
            let mut scratch = Vec::new();
            let Some(RecordKey::Entry(key)) = record.key.and_then(RecordKey::decode) else { return };
            let Ok((word, lineage)) = <(String, u64)>::decode(key, &mut scratch) else { return };
            remembered.extend(own(word));
            lineages.entry(word.to_owned()).or_default().insert(lineage);
        });
        let (counts, position, mut wrong) = (&mut self.counts, &mut self.position, None);
        self.counts_topic.read(&self.network, |record| match record.key.and_then(RecordKey::decode) {
            Some(RecordKey::Entry(key)) => {
                let mut scratch = Vec::new();
                let word = <String as StateKey>::decode(key, &mut scratch);
                let count = <u64 as StateValue>::decode(record.value.unwrap_or_default());
                if let (Ok(word), Ok(count)) = (word, count) {
                    counts.insert(word.to_owned(), count);
                }
            }
            Some(RecordKey::Position) => {
                let Ok(next) = Position::decode(record.value.unwrap_or_default()) else { return };
                if let Some(last) = position.as_ref() {
                    wrong = wrong.take().or_else(|| went_back(last, &next));
                }
                *position = Some(next);
            }
            Some(RecordKey::Format) | None => {}
        });
        wrong.map_or(Ok(()), Err)
    }

    /// A commit has reached the broker.
    pub(super) fn commit(&mut self) -> Result<(), String> {
        let count = self.fed.keys().last().map_or(0, |last| last + 1);
        let found = committed(&self.network, GROUP, LINES, count);
        if found == self.committed {
            return Ok(());
        }
        self.read_words()?;
        if self.stores {
            self.read_changelog()?;
        }
        for (partition, now) in &found {
            let before = self.committed.get(partition).map_or(0, |before| before.next);
            if now.next < before {
                return Err(format!(
                    "{LINES}-{partition}: the committed offset went back from {before} to {}",
                    now.next
                ));
            }
            let of = self.fed.get(partition).map(Vec::as_slice).unwrap_or_default();
            let (from, to) = (usize::try_from(before).unwrap_or(0), usize::try_from(now.next).unwrap_or(0));
            let Some(passed) = of.get(from..to) else {
                return Err(format!("{LINES}-{partition}: {} is committed, beyond the end", now.next));
            };
            for record in passed {
                if !self.unique.contains(record) {
                    return Err(format!(
                        "{LINES}-{partition}: {} is committed, and record {record} below has not arrived",
                        now.next
                    ));
                }
                if self.stores && !self.remembered.contains(record) {
                    return Err(format!(
                        "{LINES}-{partition}: {} is committed, and record {record} below is not in the changelog",
                        now.next
                    ));
                }
            }
        }
        self.committed = found;
        Ok(())
    }

    /// The run is over. `calm`: nothing went wrong in it.
    pub(super) fn finish(&mut self, calm: bool) -> Result<(), String> {
        self.commit()?;
        self.read_words()?;
        let all: HashSet<u32> = self.fed.values().flatten().copied().collect();
        missing("has not arrived", &all, &self.unique)?;
        common(&all, &self.arrived, "has arrived")?;
        if self.stores {
            self.read_changelog()?;
            missing("is not remembered", &all, &self.remembered)?;
            common(&all, &self.lineages, "is remembered")?;
            let in_order: BTreeMap<_, _> = self.lineages.iter().collect();
            for (word, lineages) in in_order {
                let count = self.counts.get(word).copied().unwrap_or(0);
                if count < lineages.len() as u64 {
                    return Err(format!("{word:?} is counted {count} times, and it came {} times", lineages.len()));
                }
            }
        }
        let (again, _) = self.duplicates();
        if calm && (again > 0 || self.counted_again() > 0) {
            return Err(format!(
                "{again} records came twice, {} were counted twice, and nothing went wrong",
                self.counted_again()
            ));
        }
        Ok(())
    }
}

fn missing(what: &str, all: &HashSet<u32>, there: &HashSet<u32>) -> Result<(), String> {
    match all.difference(there).min() {
        None => Ok(()),
        Some(first) => {
            Err(format!("{} of {} records: the first that {what} is {first}", all.difference(there).count(), all.len()))
        }
    }
}

/// Whether each common word has as many lineages as records that hold it.
fn common(all: &HashSet<u32>, lineages: &HashMap<String, HashSet<u64>>, what: &str) -> Result<(), String> {
    for n in 0..COMMON {
        let (word, expected) = (format!("c{n}"), all.iter().filter(|record| *record % COMMON == n).count());
        let found = lineages.get(&word).map_or(0, HashSet::len);
        if found != expected {
            return Err(format!("{word:?} {what} with {found} lineages of {expected}"));
        }
    }
    Ok(())
}

/// What is wrong if a position follows another.
fn went_back(last: &Position, next: &Position) -> Option<String> {
    if next.commit <= last.commit {
        return Some(format!("the changelog's commit number went from {} to {}", last.commit, next.commit));
    }
    // After a crash between a flush and its commit the offsets are behind the state, and what follows repeats; but nothing
    // stands before what was committed.
    next.sources.iter().find_map(|source| {
        let committed = source.committed.filter(|committed| source.next < *committed)?;
        Some(format!(
            "the changelog is at {} of {LINES}-{}, and {committed} is committed",
            source.next, source.partition
        ))
    })
}
