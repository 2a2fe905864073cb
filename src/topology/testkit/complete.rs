//! A whole topology, run to its end in process.

use std::collections::BTreeMap;

use super::{
    MockSink, MockSpout, Observed, Row, Violation,
    driver::{Driver, Schedule, Seen},
    violation,
};
use crate::topology::{Factory, Grouping, TopologyBuilder};

/// The component that reads every stream, so that the kit sees what is emitted.
const TAP: &str = "testkit-tap";

/// What every component of a topology did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completed {
    components: BTreeMap<String, Observed>,
}

impl Completed {
    /// What a component did; nothing, if there is none of that name.
    #[must_use]
    pub fn of(&self, component: &str) -> Observed {
        self.components.get(component).cloned().unwrap_or_default()
    }
}

/// Runs a topology to its end on this thread, in virtual time: the named spouts emit the given rows instead of what they
/// would (Storm's `Testing.completeTopology` with `MockedSources`). When every tree has ended, ticking components are
/// ticked once more, everything is flushed, and the components are closed.
///
/// ```
/// use stormglass::topologies::{Ends, TopologyOptions, topology};
/// use stormglass::topology::testkit::{MockSink, MockSpout, complete_topology, row, rows};
///
/// let ends = Ends::new(|| MockSpout::new(vec![]), || MockSink);
/// let word_count = topology("word-count", &TopologyOptions::default(), ends).unwrap();
/// let ran = complete_topology(&word_count, [("lines", rows(["to be or", "not to be"]))]).unwrap();
/// assert_eq!(ran.of("lines").acked, 2);
/// assert!(ran.of("count").rows("default").contains(&row(&["be".into(), 2.into()])));
/// ```
///
/// # Errors
/// If the topology is not sound (contract `build`), there is no such spout, or a component breaks a contract.
pub fn complete_topology<'a>(
    topology: &TopologyBuilder,
    sources: impl IntoIterator<Item = (&'a str, Vec<Row>)>,
) -> Result<Completed, Violation> {
    let mut topology = topology.clone();
    for (name, rows) in sources {
        let spout = topology.components.iter_mut().find(|c| c.name == name && c.factory.kind() == "spout");
        let Some(spout) = spout else {
            return Err(violation("build", name, "is mocked, but there is no spout of that name"));
        };
        spout.tasks = 1;
        spout.factory = Factory::spout(move || MockSpout::new(rows.clone()));
    }
    run(topology, Schedule::FRIENDLY)
}

/// Runs a topology with a tap on every stream.
pub(super) fn run(mut topology: TopologyBuilder, schedule: Schedule) -> Result<Completed, Violation> {
    let broken = |errors: crate::topology::BuildErrors| violation("build", &errors.topology, &errors.to_string());
    topology.build().map_err(broken)?;
    let declared = topology.components.iter();
    let streams: Vec<_> =
        declared.flat_map(|c| c.streams.iter().map(|(stream, _)| (c.name.clone(), stream.clone()))).collect();
    let tap = (!streams.is_empty()).then_some(topology.components.len());
    if tap.is_some() {
        let mut sink = topology.sink(TAP, || MockSink);
        for (component, stream) in streams {
            sink.reads_stream(component, stream, Grouping::Global);
        }
    }
    let plan = topology.build().map_err(broken)?;
    let seen = Driver::new(&plan, tap, schedule)?.run()?;
    let names = plan.components.iter().map(|c| c.name.to_string());
    let components = names.zip(seen).filter(|(name, _)| name != TAP).map(|(name, seen)| (name, observed(seen)));
    Ok(Completed { components: components.collect() })
}

fn observed(seen: Seen) -> Observed {
    let Seen { mut emitted, acked, failed, held, errors } = seen;
    emitted.sort();
    Observed { emitted, acked, failed, held, errors }
}
