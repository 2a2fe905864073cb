//! `word-count`: lines -> split -> count -> counts.

use super::{Ends, Numbers, Split, split::not_text};
use crate::{
    topology::{
        Bolt, ComponentResult, Grouping, Output, StoreHandle, TaskContext, TopologyBuilder,
        declared::{SinkKind, SpoutKind},
    },
    tuple::{Tuple, Value},
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

/// Counts the words of its input's field `word`, and emits (word, count). It must be declared with
/// `.store::<String, u64>(Count::STORE)`.
#[derive(Debug, Default)]
pub struct Count {
    emit: EmitMode,
    word: usize,
    counts: StoreHandle<String, u64>,
}

impl Count {
    /// The name of the store that the counts are in.
    pub const STORE: &str = "counts";

    /// A counter that emits these results.
    #[must_use]
    pub fn new(emit: EmitMode) -> Self {
        Self { emit, ..Self::default() }
    }
}

impl Bolt for Count {
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        self.word = context.field("word")?;
        self.counts = context.store(Self::STORE)?;
        Ok(())
    }

    #[inline]
    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
        let Some(word) = input.str(self.word) else { return Err(not_text("word", input.get(self.word))) };
        let count = out.store(&self.counts).update(input.key(), word, |count| count.unwrap_or(0) + 1);
        if self.emit == EmitMode::Every {
            out.emit(&[Value::Str(word), as_value(count)]);
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Output) -> ComponentResult {
        if self.emit == EmitMode::LatestPerKey {
            out.scan_changed(&self.counts, |out, word, count| {
                out.emit(&[Value::Str(word), as_value(count.unwrap_or(0))]);
            });
        }
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
        .store::<String, u64>(Count::STORE);
    let mut sink = t.component::<SinkKind>("counts", ends.sink);
    sink.tasks(ends.sink_tasks).reads("count", Grouping::fields(["word"]));
    if emit == EmitMode::Every {
        sink.writes_lineage();
    }
    t
}
