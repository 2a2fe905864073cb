//! `word-count`: lines -> split -> count -> counts.

use super::{Counts, Ends, Numbers, Split, split::not_text};
use crate::{
    topology::{
        Bolt, ComponentResult, Grouping, Output, TaskContext, TopologyBuilder,
        declared::{SinkKind, SpoutKind},
    },
    tuple::{KeyHash, Tuple, Value},
};

/// Which results are emitted.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum EmitMode {
    /// Every new count at once, in the tree of the word that made it.
    Every,
    /// At each commit, the latest count of each word that changed.
    #[default]
    LatestPerKey,
}

/// Counts the words of its input's field `word`, and emits (word, count).
///
/// The counts live in memory as long as the instance does.
#[derive(Debug, Default)]
pub struct Count {
    emit: EmitMode,
    word: usize,
    counts: Counts,
}

impl Count {
    /// Counts nothing yet.
    #[must_use]
    pub fn new(emit: EmitMode) -> Self {
        Self { emit, ..Self::default() }
    }
}

impl Bolt for Count {
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        self.word = context.field("word")?;
        Ok(())
    }

    #[inline]
    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        let Some(word) = input.str(self.word) else { return Err(not_text("word", input.get(self.word))) };
        // A grouping without a key carries no hash.
        let key = if input.key().0 == 0 { KeyHash::of(&[Value::Str(word)]) } else { input.key() };
        let count = self.counts.add(key, word)?;
        if self.emit == EmitMode::Every {
            out.emit(&[Value::Str(word), as_value(count)]);
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Output) -> ComponentResult {
        let every = self.emit == EmitMode::Every;
        self.counts.drain_changed(|word, count| {
            if !every {
                out.emit(&[Value::Str(word), as_value(count)]);
            }
        });
        Ok(())
    }
}

fn as_value(count: u64) -> Value<'static> {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Draws the topology. `split_tasks` and `count_tasks` are its numbers.
pub(super) fn draw(numbers: &Numbers, emit: EmitMode, ends: Ends) -> TopologyBuilder {
    let mut t = TopologyBuilder::new("word-count");
    t.component::<SpoutKind>("lines", ends.source).tasks(ends.source_tasks).fields(["line"]);
    t.bolt("split", Split::default)
        .tasks(numbers.of("split_tasks"))
        .reads("lines", Grouping::LocalOrShuffle)
        .fields(["word"]);
    t.bolt("count", move || Count::new(emit))
        .tasks(numbers.of("count_tasks"))
        .reads("split", Grouping::fields(["word"]))
        .fields(["word", "count"])
        .stateful();
    let mut sink = t.component::<SinkKind>("counts", ends.sink);
    sink.tasks(ends.sink_tasks).reads("count", Grouping::fields(["word"]));
    if emit == EmitMode::Every {
        sink.writes_lineage();
    }
    t
}
