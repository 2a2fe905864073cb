//! `graph`: a picture of a topology. Needs no broker, and no topics.

use super::{
    cli::{Graph, GraphFormat},
    dispatch::Session,
    exit::{Cause, OrFail as _, Outcome},
    output,
};
use crate::{
    topologies::{Ends, TopologyOptions, topology},
    topology::{
        Format,
        testkit::{MockSink, MockSpout},
    },
};

/// Draws.
///
/// # Errors
/// A topology that there is none of.
pub(crate) fn graph(session: &Session<'_>, args: &Graph) -> Outcome {
    // Stand-ins: a picture shows that there is a source and a sink, not which.
    let ends = Ends::new(|| MockSpout::new(Vec::new()), MockSink::default);
    let name = session.topology();
    let plan =
        topology(&name, &TopologyOptions::default(), ends).or_fail(Cause::Config)?.build().or_fail(Cause::Config)?;
    output::data(&plan.graph(match args.format {
        GraphFormat::Text => Format::Text,
        GraphFormat::Mermaid => Format::Mermaid,
        GraphFormat::Dot => Format::Dot,
    }))
}
