//! A plan drawn: for a person, for a Markdown page, for Graphviz.

use std::fmt::Write;

use super::{ComponentPlan, EdgePlan, Plan, StorePlan, StreamInfo};

/// How [`Plan::graph`] draws.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// Indented lines.
    #[default]
    Text,
    /// A Mermaid flowchart, which GitHub renders in Markdown.
    Mermaid,
    /// Graphviz.
    Dot,
}

impl Plan {
    /// Draws the topology, with a line feed at the end.
    #[must_use]
    pub fn graph(&self, format: Format) -> String {
        let mut out = String::new();
        let written = match format {
            Format::Text => self.text(&mut out),
            Format::Mermaid => self.mermaid(&mut out),
            Format::Dot => self.dot(&mut out),
        };
        written.expect("writing into a string does not fail");
        out
    }

    fn text(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{}", self.name)?;
        for (id, component) in self.components.iter().enumerate() {
            writeln!(out, "  {}  [{}]", component.name, about(component))?;
            for store in self.stores_of(id) {
                writeln!(out, "    == {store}")?;
            }
            for edge in self.edges.iter().filter(|edge| edge.reader.index() == id) {
                if let Some(stream) = self.streams.get(edge.stream.index()) {
                    let grouping = &edge.grouping;
                    writeln!(out, "    <- {}.{}  {grouping:?}", stream.component, stream.name)?;
                }
            }
            for stream in component.outputs.iter().filter_map(|id| self.streams.get(id.index())) {
                writeln!(out, "    -> {}({})", stream.name, stream.fields.join(", "))?;
            }
        }
        Ok(())
    }

    /// The stores of a component, each with its types.
    fn stores_of(&self, component: usize) -> impl Iterator<Item = String> {
        let own = self.stores.iter().filter(move |store| store.component.index() == component);
        own.map(|StorePlan { format, .. }| format!("{}: {} -> {}", format.store, format.key, format.value))
    }

    /// What stands in the box of a component.
    fn label(&self, id: usize, component: &ComponentPlan) -> String {
        let mut label = format!("{}\n{}", component.name, about(component));
        for store in self.stores_of(id) {
            label.push('\n');
            label.push_str(&store);
        }
        label
    }

    fn mermaid(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "flowchart LR")?;
        for (id, component) in self.components.iter().enumerate() {
            let label = escape_mermaid(&self.label(id, component));
            let (open, close) = match component.factory.kind() {
                "spout" => ("([\"", "\"])"),
                "sink" => ("[[\"", "\"]]"),
                _ => ("[\"", "\"]"),
            };
            writeln!(out, "  c{id}{open}{label}{close}")?;
        }
        for (from, edge, stream) in self.arrows() {
            let label = escape_mermaid(&edge_label(stream, edge));
            writeln!(out, "  c{from} -->|\"{label}\"| c{}", edge.reader.0)?;
        }
        Ok(())
    }

    fn dot(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "digraph \"{}\" {{\n  rankdir=LR;", escape_dot(&self.name))?;
        for (id, component) in self.components.iter().enumerate() {
            let label = escape_dot(&self.label(id, component));
            let shape = match component.factory.kind() {
                "spout" => "invhouse",
                "sink" => "house",
                _ => "box",
            };
            writeln!(out, "  c{id} [shape={shape}, label=\"{label}\"];")?;
        }
        for (from, edge, stream) in self.arrows() {
            let label = escape_dot(&edge_label(stream, edge));
            writeln!(out, "  c{from} -> c{} [label=\"{label}\"];", edge.reader.0)?;
        }
        writeln!(out, "}}")
    }

    /// Edges with the number of the emitting component.
    fn arrows(&self) -> impl Iterator<Item = (usize, &EdgePlan, &StreamInfo)> {
        self.edges.iter().filter_map(|edge| {
            let stream = self.streams.get(edge.stream.index())?;
            let from = self.components.iter().position(|c| *c.name == *stream.component)?;
            Some((from, edge, stream))
        })
    }
}

fn about(component: &ComponentPlan) -> String {
    let tasks = component.tasks;
    let mut about = format!("{}, {tasks} task{}", component.factory.kind(), if tasks == 1 { "" } else { "s" });
    if component.stateful {
        about.push_str(", stateful");
    }
    about
}

fn edge_label(stream: &StreamInfo, edge: &EdgePlan) -> String {
    let grouping = &edge.grouping;
    match stream.name.as_str() {
        super::DEFAULT_STREAM => format!("{grouping:?}"),
        name => format!("{name}: {grouping:?}"),
    }
}

/// Mermaid takes HTML entities inside quotes, written with # instead of &.
fn escape_mermaid(label: &str) -> String {
    let mut out = String::with_capacity(label.len());
    for c in label.chars() {
        match c {
            '\n' => out.push_str("<br/>"),
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            '#' => out.push_str("#35;"),
            '`' => out.push_str("#96;"),
            c => out.push(c),
        }
    }
    out
}

fn escape_dot(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
