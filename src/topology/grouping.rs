//! Which task of the reading component gets a tuple: a pure choice.

use std::{fmt, sync::Arc};

use crate::tuple::{KeyGroups, KeyHash, Value};

/// How the tuples of a stream are spread over the tasks of a component that reads it.
#[derive(Clone)]
pub enum Grouping {
    /// Evenly, in turn.
    Shuffle,
    /// Evenly over the reader's tasks on the same executor, if there are any; else as shuffle.
    LocalOrShuffle,
    /// Equal values of these fields go to the same task. At most [`Grouping::MAX_KEY_FIELDS`] fields.
    Fields(Vec<String>),
    /// Equal values of these fields go to one of two tasks, the less loaded one: for skewed keys.
    PartialKey(Vec<String>),
    /// To every task.
    All,
    /// To the first task.
    Global,
    /// To the task that the emitting component names with `emit_direct`.
    Direct,
    /// As a user's own rule says.
    Custom(Arc<dyn CustomGrouping>),
}

impl Grouping {
    /// Most fields that a key can be made of.
    pub const MAX_KEY_FIELDS: usize = 8;

    /// Equal values of these fields go to the same task (Storm's `fieldsGrouping`).
    #[must_use]
    pub fn fields<S: Into<String>>(fields: impl IntoIterator<Item = S>) -> Self {
        Self::Fields(fields.into_iter().map(Into::into).collect())
    }

    /// Equal values of these fields go to one of two tasks (Storm's `partialKeyGrouping`).
    #[must_use]
    pub fn partial_key<S: Into<String>>(fields: impl IntoIterator<Item = S>) -> Self {
        Self::PartialKey(fields.into_iter().map(Into::into).collect())
    }

    /// As `rule` says (Storm's `customGrouping`).
    #[must_use]
    pub fn custom(rule: impl CustomGrouping + 'static) -> Self {
        Self::Custom(Arc::new(rule))
    }

    /// The grouping's name, as `graph` shows it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Shuffle => "shuffle",
            Self::LocalOrShuffle => "local-or-shuffle",
            Self::Fields(_) => "fields",
            Self::PartialKey(_) => "partial-key",
            Self::All => "all",
            Self::Global => "global",
            Self::Direct => "direct",
            Self::Custom(_) => "custom",
        }
    }

    /// The fields that make the key, if it has one.
    #[must_use]
    pub fn key_fields(&self) -> &[String] {
        match self {
            Self::Fields(fields) | Self::PartialKey(fields) => fields,
            Self::Shuffle | Self::LocalOrShuffle | Self::All | Self::Global | Self::Direct | Self::Custom(_) => &[],
        }
    }
}

impl fmt::Debug for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key_fields() {
            [] => f.write_str(self.name()),
            fields => write!(f, "{}({})", self.name(), fields.join(", ")),
        }
    }
}

/// A user's own grouping (Storm's `CustomStreamGrouping`). It is shared by all emitting tasks, so it decides from the
/// values and the count alone.
pub trait CustomGrouping: Send + Sync {
    /// Appends to `chosen` the tasks (0 to `tasks` - 1) that get the tuple. A number that is too large fails the
    /// emitting tuple.
    fn choose(&self, values: &[Value<'_>], tasks: usize, chosen: &mut Vec<usize>);
}

/// A grouping made ready for one emitting task: field names are positions, and the turn is kept.
pub(crate) enum Router {
    /// In turn over these lanes.
    Turn { lanes: Vec<usize>, next: usize },
    /// By key group.
    Key { positions: Vec<usize>, groups: KeyGroups },
    /// By the less loaded of two.
    TwoChoices { positions: Vec<usize>, sent: Vec<u64> },
    /// To every lane.
    All,
    /// Only what is emitted directly.
    Direct,
    /// As the user's rule says.
    Custom(Arc<dyn CustomGrouping>),
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turn { .. } => "in turn",
            Self::Key { .. } => "by key",
            Self::TwoChoices { .. } => "by the less loaded of two",
            Self::All => "to all",
            Self::Direct => "direct",
            Self::Custom(_) => "custom",
        })
    }
}

/// Where one tuple goes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// To one lane.
    One(usize, KeyHash),
    /// To every lane.
    Every,
    /// To the lanes in the scratch list.
    Listed,
    /// Nowhere: the stream is emitted directly.
    Nowhere,
}

impl Router {
    /// Makes a grouping ready. `local` are the lanes on the emitter's executor.
    pub(crate) fn new(
        grouping: &Grouping,
        positions: Vec<usize>,
        lanes: usize,
        local: Vec<usize>,
        groups: &KeyGroups,
    ) -> Self {
        match grouping {
            Grouping::LocalOrShuffle if !local.is_empty() => Self::Turn { lanes: local, next: 0 },
            Grouping::Shuffle | Grouping::LocalOrShuffle => Self::Turn { lanes: (0..lanes).collect(), next: 0 },
            Grouping::Fields(_) => Self::Key { positions, groups: groups.clone() },
            Grouping::PartialKey(_) => Self::TwoChoices { positions, sent: vec![0; lanes] },
            Grouping::All => Self::All,
            Grouping::Global => Self::Turn { lanes: vec![0], next: 0 },
            Grouping::Direct => Self::Direct,
            Grouping::Custom(rule) => Self::Custom(Arc::clone(rule)),
        }
    }

    /// Starts the turn elsewhere, so that emitting tasks do not all begin with the first reader.
    pub(crate) fn start_turn_at(&mut self, at: usize) {
        if let Self::Turn { lanes, next } = self {
            *next = at % lanes.len().max(1);
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "where it is emitted the kind of the key is known: hashing it is one loop"
    )]
    #[inline(always)]
    pub(crate) fn choose(&mut self, values: &[Value<'_>], lanes: usize, listed: &mut Vec<usize>) -> Choice {
        match self {
            Self::Key { positions, groups } => {
                let key = key_of(positions, values);
                Choice::One(groups.owner(key), key)
            }
            Self::Turn { lanes, next } => {
                let lane = lanes.get(*next).copied().unwrap_or(0);
                *next = if *next + 1 < lanes.len() { *next + 1 } else { 0 };
                Choice::One(lane, KeyHash(0))
            }
            Self::TwoChoices { positions, sent } => {
                let key = key_of(positions, values);
                let lane = less_loaded(key, sent);
                Choice::One(lane, key)
            }
            Self::All => Choice::Every,
            Self::Direct => Choice::Nowhere,
            Self::Custom(rule) => {
                listed.clear();
                rule.choose(values, lanes, listed);
                Choice::Listed
            }
        }
    }
}

#[expect(clippy::inline_always, reason = "see choose")]
#[inline(always)]
fn key_of(positions: &[usize], values: &[Value<'_>]) -> KeyHash {
    // By reference: a copy of the value costs more than its hash.
    if let &[position] = positions
        && let Some(Value::Str(text)) = values.get(position)
    {
        return KeyHash::of_bytes(text.as_bytes());
    }
    composite_key(positions, values)
}

#[inline(never)]
fn composite_key(positions: &[usize], values: &[Value<'_>]) -> KeyHash {
    let at = |p: usize| values.get(p).copied().unwrap_or(Value::Null);
    // KeyHash::of knows the keys of one text or bytes value; the array holds the others.
    let mut key = [Value::Null; Grouping::MAX_KEY_FIELDS];
    for (part, position) in key.iter_mut().zip(positions) {
        *part = at(*position);
    }
    KeyHash::of(key.get(..positions.len()).unwrap_or(&key))
}

/// The power of two choices (Nasir et al., ICDE 2015; Storm's `PartialKeyGrouping`): two hashes of the key name two
/// lanes, the one that was sent less gets the tuple.
fn less_loaded(key: KeyHash, sent: &mut [u64]) -> usize {
    let lanes = sent.len().max(1);
    let first = key.0 as usize % lanes;
    // An odd multiplier is a bijection, so the second choice spreads as well as the first.
    let other = key.0.wrapping_mul(0x9e37_79b1).rotate_left(15) as usize % lanes;
    // Two different lanes wherever there are two.
    let second = if other == first { (first + 1) % lanes } else { other };
    let load = |lane: usize| sent.get(lane).copied().unwrap_or(0);
    let lane = if load(second) < load(first) { second } else { first };
    if let Some(count) = sent.get_mut(lane) {
        *count += 1;
    }
    lane
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(grouping: &Grouping, lanes: u16, local: Vec<usize>) -> Router {
        Router::new(grouping, vec![0], lanes.into(), local, &KeyGroups::new(64, lanes))
    }

    fn lanes_of(router: &mut Router, word: &str, lanes: usize) -> Vec<usize> {
        let mut listed = Vec::new();
        match router.choose(&[Value::Str(word)], lanes, &mut listed) {
            Choice::One(lane, _) => vec![lane],
            Choice::Every => (0..lanes).collect(),
            Choice::Listed => listed,
            Choice::Nowhere => vec![],
        }
    }

    #[test]
    fn shuffle_is_even() {
        let mut shuffle = router(&Grouping::Shuffle, 3, vec![]);
        let chosen: Vec<_> = (0..6).flat_map(|_| lanes_of(&mut shuffle, "w", 3)).collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn local_or_shuffle_stays_on_the_executor_where_it_can() {
        let mut local = router(&Grouping::LocalOrShuffle, 4, vec![1, 3]);
        let chosen: Vec<_> = (0..4).flat_map(|_| lanes_of(&mut local, "w", 4)).collect();
        assert_eq!(chosen, [1, 3, 1, 3]);
        let mut elsewhere = router(&Grouping::LocalOrShuffle, 2, vec![]);
        assert_eq!(lanes_of(&mut elsewhere, "w", 2), [0]);
    }

    #[test]
    fn fields_sends_one_key_to_one_task_whoever_emits() {
        let grouping = Grouping::Fields(vec!["word".into()]);
        for word in ["storm", "glass", "", "ünïcode"] {
            let one = lanes_of(&mut router(&grouping, 4, vec![]), word, 4);
            let other = lanes_of(&mut router(&grouping, 4, vec![]), word, 4);
            assert_eq!(one, other);
        }
    }

    #[test]
    fn partial_key_uses_two_tasks_a_key_and_evens_out_a_hot_one() {
        let mut partial = router(&Grouping::PartialKey(vec!["word".into()]), 5, vec![]);
        let mut sent = [0_u32; 5];
        for _ in 0..1_000 {
            sent[lanes_of(&mut partial, "the", 5)[0]] += 1;
        }
        sent.sort_unstable();
        assert_eq!(sent, [0, 0, 0, 500, 500]);
    }

    #[test]
    fn all_reaches_every_task_global_the_first_direct_none() {
        assert_eq!(lanes_of(&mut router(&Grouping::All, 3, vec![]), "w", 3), [0, 1, 2]);
        assert_eq!(lanes_of(&mut router(&Grouping::Global, 3, vec![]), "w", 3), [0]);
        assert!(lanes_of(&mut router(&Grouping::Direct, 3, vec![]), "w", 3).is_empty());
    }

    #[test]
    fn a_custom_rule_chooses_any_tasks() {
        struct ByLength;
        impl CustomGrouping for ByLength {
            fn choose(&self, values: &[Value<'_>], tasks: usize, chosen: &mut Vec<usize>) {
                let length = values.iter().filter_map(|v| v.as_str()).map(str::len).sum::<usize>();
                chosen.extend([length % tasks, 0]);
            }
        }
        let mut custom = router(&Grouping::Custom(Arc::new(ByLength)), 4, vec![]);
        assert_eq!(lanes_of(&mut custom, "abc", 4), [3, 0]);
    }
}
