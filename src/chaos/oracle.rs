//! Knows what was fed into a run, and checks what comes of it: while it goes on, at every commit, and at the end.
//!
//! What is checked:
//! 1. Every word of every record arrives, and is remembered: missing is a set difference, so no repeat can hide a loss.
//! 2. No offset is committed before everything below it has arrived, and, where there are stores, is in the changelog.
//! 3. Committed offsets and the changelog's commit numbers never go back, and no flush stands before what is committed. But
//!    where requests are held back, a commit may come late that was sent again over another connection: then an offset goes
//!    back to what was committed before, to the letter, by a request that was sent before the one that it undoes.
//! 4. Nothing arrives that was not fed, and nothing twice where nothing went wrong; but where a process has no time left to
//!    finish, no more than it says at its end.
//! 5. The processes' own count of repeats is right where they live to the end; where they do not, what is counted in the
//!    stores more than once was counted or announced.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{
    network::Network,
    pipeline::{COUNTS, GROUP, LINES, REMEMBER, SEEN, WORDS},
    process::Told,
    view::{Committed, committed, delete_records, end, partitions, read_on},
    words::{Counts, Lineages, WORDS_OF_A_LINE, Word, lineage},
};
use crate::{
    clock::Instant,
    kafka::{ChangelogOptions, LINEAGE_HEADER},
    state::{Position, RecordKey, SourcePosition, StateKey, StateValue},
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
    /// Words as they have arrived, and how many records that were.
    arrived: Lineages,
    arrivals: u64,
    /// Words as they are remembered, and how often each is counted.
    remembered: Lineages,
    counts: Counts,
    /// What the broker has committed of each partition, when the request for it was sent, and the highest that it had.
    at_broker: BTreeMap<i32, Committed>,
    sent: BTreeMap<i32, Instant>,
    highest: BTreeMap<i32, i64>,
    /// Everything that was committed, if commits may come late.
    earlier: Option<HashSet<(i32, Committed)>>,
    position: Option<Position>,
    /// Records below what is committed that have each of the common words.
    passed: Counts,
    /// Records that were deleted before they had arrived: nobody can ask for them.
    deleted: BTreeSet<u32>,
    /// Outputs that had arrived and that the broker has lost. Some of them were not acknowledged: they come once more, and
    /// whoever sends them again cannot know that they had arrived.
    lost: u64,
}

impl Oracle {
    /// `records`: the most that will be fed. `late`: requests of one connection may come after those of a later one.
    pub(super) fn new(network: Network, records: u32, stores: bool, late: bool) -> Self {
        let of = ChangelogOptions::new("", GROUP, "0", std::time::Duration::ZERO);
        Self {
            network,
            stores,
            fed: BTreeMap::new(),
            records: 0,
            words: Cursor::new(WORDS.to_owned()),
            seen_topic: Cursor::new(of.topic(REMEMBER, SEEN)),
            counts_topic: Cursor::new(of.topic(REMEMBER, COUNTS)),
            arrived: Lineages::of_records(records),
            arrivals: 0,
            remembered: Lineages::of_records(if stores { records } else { 0 }),
            counts: Counts::default(),
            at_broker: BTreeMap::new(),
            sent: BTreeMap::new(),
            highest: BTreeMap::new(),
            earlier: late.then(HashSet::new),
            position: None,
            passed: Counts::default(),
            deleted: BTreeSet::new(),
            lost: 0,
        }
    }

    /// A record was appended to a partition.
    pub(super) fn fed(&mut self, partition: i32, record: u32) {
        self.fed.entry(partition).or_default().push(record);
        self.records += 1;
    }

    /// The topics of the changelog.
    pub(super) fn changelog(&self) -> [&str; 2] {
        [&self.seen_topic.topic, &self.counts_topic.topic]
    }

    /// Deletes records of the input: all that are committed, and so many that are not. How many may be missing now at most;
    /// `None`: nothing was deleted.
    pub(super) fn delete_input(
        &mut self,
        now: Instant,
        partition: i32,
        uncommitted: i64,
    ) -> Result<Option<usize>, String> {
        self.commit(now)?;
        self.read_words()?;
        let (Some(&committed), Some(of)) = (self.highest.get(&partition), self.fed.get(&partition)) else {
            return Ok(None);
        };
        let below = (committed + uncommitted).min(i64::try_from(of.len()).unwrap_or(0));
        if !delete_records(&self.network, LINES, partition, below) {
            return Ok(None);
        }
        let read = usize::try_from(committed).unwrap_or(0)..usize::try_from(below).unwrap_or(0);
        let unread = of.get(read).unwrap_or_default();
        self.deleted.extend(unread);
        Ok(Some(unread.len()))
    }

    /// The broker loses the last records of every partition of the output, and what it had acknowledged of them. They have
    /// arrived, as far as anybody can know who wrote them. How many are lost.
    pub(super) fn lose_output(&mut self, unflushed: i64) -> Result<i64, String> {
        self.read_words()?;
        let mut lost = 0;
        for (partition, at) in (0..).zip(&mut self.words.at) {
            let last = end(&self.network, WORDS, partition);
            if unflushed > 0 && last > 0 {
                self.network.lose_tail(WORDS, partition, last.saturating_sub(unflushed).max(0));
                *at = end(&self.network, WORDS, partition);
                lost += last - *at;
            }
        }
        self.lost += lost.unsigned_abs();
        Ok(lost)
    }

    /// The topic of the output is about to be deleted and made anew.
    pub(super) fn output_is_made_anew(&mut self) -> Result<(), String> {
        self.read_words()?;
        self.lost += self.words.at.iter().map(|at| at.unsigned_abs()).sum::<u64>();
        self.words.at.fill(0);
        Ok(())
    }

    /// Records that have arrived more than once, and all.
    pub(super) fn duplicates(&self) -> (u64, u64) {
        (self.arrivals - self.arrived.len() as u64, self.arrivals)
    }

    /// What counts are too high by.
    fn counted_again(&self) -> u64 {
        self.words().map(|word| self.counts.of(word).saturating_sub(self.remembered.of(word))).sum()
    }

    /// Whether everything that was fed is committed.
    pub(super) fn is_all_committed(&self) -> bool {
        self.fed.iter().all(|(partition, records)| {
            self.highest.get(partition).is_some_and(|next| *next >= i64::try_from(records.len()).unwrap_or(0))
        })
    }

    /// Every word that may have come.
    fn words(&self) -> impl Iterator<Item = Word> + use<> {
        Word::common().chain((0..self.records).map(Word::own))
    }

    fn read_words(&mut self) -> Result<(), String> {
        let (arrived, arrivals, records) = (&mut self.arrived, &mut self.arrivals, self.records);
        let mut wrong = None;
        self.words.read(&self.network, |record| {
            let text = record.value.unwrap_or_default();
            let Some(word) = Word::read(text, records) else {
                wrong = Some(unfed(text, "has arrived"));
                return;
            };
            let Some(lineage) = record.header(LINEAGE_HEADER.as_bytes()).and_then(lineage) else {
                wrong = Some(format!("{word} has arrived without its lineage"));
                return;
            };
            *arrivals += 1;
            arrived.insert(word, lineage);
        });
        wrong.map_or(Ok(()), Err)
    }

    fn read_changelog(&mut self) -> Result<(), String> {
        let (remembered, records) = (&mut self.remembered, self.records);
        let (mut wrong, mut scratch) = (None, Vec::new());
        self.seen_topic.read(&self.network, |record| {
            let Some(RecordKey::Entry(key)) = record.key.and_then(RecordKey::decode) else { return };
            let Ok((text, lineage)) = <(String, u64)>::decode(key, &mut scratch) else { return };
            match Word::read(text.as_bytes(), records) {
                Some(word) => remembered.insert(word, lineage),
                None => wrong = Some(unfed(text.as_bytes(), "is remembered")),
            }
        });
        let (counts, position) = (&mut self.counts, &mut self.position);
        self.counts_topic.read(&self.network, |record| match record.key.and_then(RecordKey::decode) {
            Some(RecordKey::Entry(key)) => {
                let text = <String as StateKey>::decode(key, &mut scratch);
                let count = <u64 as StateValue>::decode(record.value.unwrap_or_default());
                let (Ok(text), Ok(count)) = (text, count) else { return };
                match Word::read(text.as_bytes(), records) {
                    Some(word) if count < counts.of(word) => {
                        let before = counts.of(word);
                        wrong = Some(format!("the changelog's count of {word} went from {before} to {count}"));
                    }
                    Some(word) => counts.set(word, count),
                    None => wrong = Some(unfed(text.as_bytes(), "is counted")),
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

    /// A commit has reached the broker that was sent then.
    pub(super) fn commit(&mut self, sent: Instant) -> Result<(), String> {
        let count = self.fed.keys().last().map_or(0, |last| last + 1);
        let Some(found) = committed(&self.network, GROUP, LINES, count) else { return Ok(()) };
        if found == self.at_broker {
            return Ok(());
        }
        self.read_words()?;
        if self.stores {
            self.read_changelog()?;
        }
        for (partition, now) in &found {
            let before = self.at_broker.get(partition);
            let sent_before = if before == Some(now) { None } else { self.sent.insert(*partition, sent) };
            let came_late = |earlier: &HashSet<_>| {
                sent_before.is_some_and(|before| sent < before) && earlier.contains(&(*partition, now.clone()))
            };
            let before = before.map_or(0, |before| before.next);
            if now.next < before && !self.earlier.as_ref().is_some_and(came_late) {
                return Err(format!(
                    "{LINES}-{partition}: the committed offset went back from {before} to {}",
                    now.next
                ));
            }
            let highest = self.highest.get(partition).copied().unwrap_or(0);
            if now.next < highest {
                continue;
            }
            let of = self.fed.get(partition).map(Vec::as_slice).unwrap_or_default();
            let (from, to) = (usize::try_from(highest).unwrap_or(0), usize::try_from(now.next).unwrap_or(0));
            let Some(passed) = of.get(from..to) else {
                return Err(format!("{LINES}-{partition}: {} is committed, beyond the end", now.next));
            };
            for record in passed.iter().filter(|record| !self.deleted.contains(record)) {
                if self.arrived.of(Word::own(*record)) == 0 {
                    return Err(format!(
                        "{LINES}-{partition}: {} is committed, and record {record} below has not arrived",
                        now.next
                    ));
                }
                if self.stores && self.remembered.of(Word::own(*record)) == 0 {
                    return Err(format!(
                        "{LINES}-{partition}: {} is committed, and record {record} below is not in the changelog",
                        now.next
                    ));
                }
                self.passed.add(Word::common_of(*record));
            }
            self.highest.insert(*partition, now.next);
        }
        all_passed(&self.passed, &self.arrived, "arrived")?;
        if self.stores {
            all_passed(&self.passed, &self.remembered, "are in the changelog")?;
        }
        if let Some(earlier) = &mut self.earlier {
            earlier.extend(found.iter().map(|(partition, now)| (*partition, now.clone())));
        }
        self.at_broker = found;
        Ok(())
    }

    /// Records whose own word was counted more than once.
    fn repeated(&self) -> u64 {
        (0..self.records).filter(|record| self.counts.of(Word::own(*record)) > 1).count() as u64
    }

    /// Whether the processes have told the truth about what was repeated. `counted`: by them, if they know of everything.
    fn told(&self, told: &Told, counted: Option<u64>) -> Result<(), String> {
        let (again, _) = self.duplicates();
        let (repeats, unknown) = if self.stores { (self.counted_again(), 0) } else { (again, self.lost) };
        if let Some(counted) = counted.filter(|counted| !(*counted..=counted + unknown).contains(&repeats)) {
            return Err(format!("{counted} repeats were counted by the processes, and there were {repeats}"));
        }
        let missing = self.deleted.iter().filter(|record| self.arrived.of(Word::own(**record)) == 0).count() as u64;
        if missing > told.lost {
            return Err(format!("{missing} records were deleted unread, and the processes knew of {}", told.lost));
        }
        if self.repeated() > told.duplicates + told.possible_repeats {
            return Err(format!(
                "{} records are counted more than once: {} repeats were counted, and {} records announced after deaths",
                self.repeated(),
                told.duplicates,
                told.possible_repeats
            ));
        }
        Ok(())
    }

    /// The run is over. `calm`: nothing went wrong in it.
    pub(super) fn finish(&mut self, now: Instant, calm: bool, told: &Told, counted: Option<u64>) -> Result<(), String> {
        self.commit(now)?;
        self.read_words()?;
        complete((self.records, &self.deleted), &self.arrived, ("has not arrived", "has arrived"))?;
        if self.stores {
            self.read_changelog()?;
            complete((self.records, &self.deleted), &self.remembered, ("is not remembered", "is remembered"))?;
            for word in self.words() {
                let (count, lineages) = (self.counts.of(word), self.remembered.of(word));
                if count < lineages {
                    return Err(format!("{word} is counted {count} times, and it came {lineages} times"));
                }
            }
        }
        let (again, _) = self.duplicates();
        // Whoever runs out of time says what is not committed.
        let announced = if told.cut_short > 0 { told.left_unfinished * WORDS_OF_A_LINE } else { 0 };
        if calm && again.max(self.counted_again()) > announced {
            return Err(format!(
                "{again} records came twice, {} were counted twice, and nothing went wrong",
                self.counted_again()
            ));
        }
        self.told(told, counted)
    }
}

/// Whether each common word has come with as many lineages as records below what is committed have it: a tree is done only with
/// its last word.
fn all_passed(passed: &Counts, there: &Lineages, what: &str) -> Result<(), String> {
    for word in Word::common() {
        let (records, found) = (passed.of(word), there.of(word));
        if found < records {
            return Err(format!("{records} records with {word} are below what is committed, and {found} {what}"));
        }
    }
    Ok(())
}

fn unfed(text: &[u8], what: &str) -> String {
    format!("{:?} {what}, and was never fed", String::from_utf8_lossy(text))
}

/// Whether every record's own word is there, and each common one with as many lineages as records that hold it.
fn complete(
    (records, deleted): (u32, &BTreeSet<u32>),
    there: &Lineages,
    (is_not, is): (&str, &str),
) -> Result<(), String> {
    let is_missing = |record: &u32| there.of(Word::own(*record)) == 0 && !deleted.contains(record);
    let missing = || (0..records).filter(is_missing);
    if let Some(first) = missing().next() {
        return Err(format!("{} of {records} records: the first that {is_not} is {first}", missing().count()));
    }
    for word in Word::common() {
        let (found, expected) = (there.of(word), word.count(records));
        let excused = deleted.iter().filter(|record| Word::common_of(**record) == word).count() as u64;
        if !(expected - excused..=expected).contains(&found) {
            return Err(format!("{word} {is} with {found} lineages of {expected}"));
        }
    }
    Ok(())
}

/// What is wrong if a position follows another.
fn went_back(last: &Position, next: &Position) -> Option<String> {
    if next.commit <= last.commit {
        return Some(format!("the changelog's commit number went from {} to {}", last.commit, next.commit));
    }
    let is_gone = |last: &&SourcePosition| next.sources.iter().all(|next| next.partition != last.partition);
    if let Some(gone) = last.sources.iter().find(is_gone) {
        return Some(format!("the changelog does not know {LINES}-{} any more", gone.partition));
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

#[cfg(test)]
mod tests;
