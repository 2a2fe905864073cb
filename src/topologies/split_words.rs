//! `split-words`: lines -> split -> words. Without state: each word of each line is an output record.

use super::{EmitMode, Ends, Numbers, Split};
use crate::topology::{
    Grouping, TopologyBuilder,
    declared::{SinkKind, SpoutKind},
};

/// Draws the topology. `split_tasks` is its number; each word is emitted, whatever the emit mode.
pub(super) fn draw(numbers: &Numbers, _: EmitMode, ends: Ends) -> TopologyBuilder {
    let mut t = TopologyBuilder::new("split-words");
    t.component::<SpoutKind>("lines", ends.source).tasks(ends.source_tasks).fields(["line"]);
    t.bolt("split", Split::default).tasks(numbers.of("split_tasks")).reads("lines", Grouping::Shuffle).fields(["word"]);
    t.component::<SinkKind>("words", ends.sink)
        .tasks(ends.sink_tasks)
        .reads("split", Grouping::LocalOrShuffle)
        .writes_lineage();
    t
}
