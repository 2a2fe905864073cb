//! A whole topology, run to its end in process.

use std::collections::BTreeMap;

use super::{
    Emitted, MockSpout, Observed, Row, Violation,
    course::{Counted, Course, Schedule},
    violation,
    watch::Watch,
    watched::Tap,
};
use crate::topology::{BuildErrors, Factory, Grouping, Plan, TopologyBuilder};

/// The components that read every stream, so that the kit sees what is emitted: as one task, and where tuples are sent to
/// tasks by number.
const TAPS: [&str; 2] = ["testkit-tap", "testkit-tap-direct"];

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
/// use stormglass::runtime::testkit::{MockSink, MockSpout, complete_topology, row, rows};
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
        if !topology.replace_spout(name, Factory::spout(move || MockSpout::new(rows.clone()))) {
            return Err(violation("build", name, "is mocked, but there is no spout of that name"));
        }
    }
    run(topology, Schedule::FRIENDLY)
}

/// Runs a topology with a tap on every stream.
pub(super) fn run(mut topology: TopologyBuilder, schedule: Schedule) -> Result<Completed, Violation> {
    let broken = |errors: BuildErrors| violation("build", &errors.topology, &errors.to_string());
    let watch = Watch::default();
    let untapped = topology.build().map_err(broken)?;
    tap(&mut topology, &untapped, &watch);
    let plan = topology.build().map_err(broken)?;
    let (mut seen, counted) = Course::new(&plan, &watch, schedule)?.run()?;
    let mut components: BTreeMap<_, _> = plan
        .components
        .iter()
        .zip(counted)
        .filter(|(c, _)| !TAPS.contains(&&*c.name))
        .map(|(c, counted)| {
            let errors = seen.errors.remove(&*c.name).unwrap_or_default();
            let Counted { acked, failed, held, stores } = counted;
            (c.name.to_string(), Observed { emitted: Vec::new(), acked, failed, held, stores, errors })
        })
        .collect();
    for stream in &plan.streams {
        let Some(of) = components.get_mut(&stream.component) else { continue };
        let rows = seen.emitted.remove(&stream.id).unwrap_or_default();
        of.emitted.extend(rows.into_iter().map(|values| Emitted { stream: stream.name.clone(), values }));
        of.emitted.sort();
    }
    Ok(Completed { components })
}

fn tap(topology: &mut TopologyBuilder, plan: &Plan, watch: &Watch) {
    let sink = || {
        let watch = watch.clone();
        move || Tap(watch.clone())
    };
    if !plan.streams.is_empty() {
        let mut tap = topology.sink(TAPS[0], sink());
        for stream in &plan.streams {
            tap.reads_stream(&stream.component, &stream.name, Grouping::Global);
        }
    }
    let direct = plan.edges.iter().filter(|edge| matches!(edge.grouping, Grouping::Direct));
    let tasks = direct.clone().filter_map(|edge| plan.components.get(edge.reader.index())).map(|c| c.tasks).max();
    let Some(tasks) = tasks else { return };
    let mut tap = topology.sink(TAPS[1], sink());
    tap.tasks(tasks);
    for stream in &plan.streams {
        if direct.clone().any(|edge| edge.stream == stream.id) {
            tap.reads_stream(&stream.component, &stream.name, Grouping::Direct);
        }
    }
}
