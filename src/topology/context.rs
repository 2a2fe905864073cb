//! What a task is told about itself.

use std::sync::Arc;

use super::{ComponentError, ComponentResult, Delivery, Waker, changelog::StoreFormat};
use crate::tuple::StreamId;

/// An output stream of a component, by its place in the declaration. Resolved by name from the [`TaskContext`].
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct OutStream(pub(crate) usize);

impl OutStream {
    /// The stream that was declared first.
    pub const DEFAULT: Self = Self(0);
}

/// A declared stream: who emits it, its name, its fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamInfo {
    /// Its number in the topology; what [`Tuple::stream`](crate::tuple::Tuple::stream) tells.
    pub id: StreamId,
    /// The emitting component.
    pub component: String,
    /// The stream's name, `default` unless declared otherwise.
    pub name: String,
    /// Its fields, in order.
    pub fields: Vec<String>,
}

impl StreamInfo {
    /// The position of a field.
    ///
    /// # Errors
    /// If the stream has no such field; the sentence lists those that it has.
    pub fn position(&self, field: &str) -> ComponentResult<usize> {
        self.fields.iter().position(|f| f == field).ok_or_else(|| {
            ComponentError::permanent(format!(
                "stream \"{}\" of \"{}\" has no field \"{field}\"; it has: {}",
                self.name,
                self.component,
                self.fields.join(", ")
            ))
        })
    }
}

/// What a task is told about itself when it is opened or prepared.
#[derive(Clone, Debug)]
pub struct TaskContext {
    /// The topology's name.
    pub topology: Arc<str>,
    /// The component's name.
    pub component: Arc<str>,
    /// The task's place among the component's tasks, from 0.
    pub index: usize,
    /// How many tasks the component has.
    pub tasks: usize,
    /// The promise that the topology runs under.
    pub delivery: Delivery,
    /// The streams that the component reads.
    pub inputs: Arc<[StreamInfo]>,
    /// The streams that the component emits, in the order of declaration.
    pub outputs: Arc<[StreamInfo]>,
    /// The stores that the component declares, in the order of declaration.
    pub stores: Arc<[StoreFormat]>,
    /// Wakes the task's executor: for a companion that has something for its spout.
    pub waker: Waker,
}

impl TaskContext {
    /// The position of `field` in the only input stream.
    ///
    /// # Errors
    /// If there are several input streams (use [`TaskContext::input`]), or the field is not there.
    pub fn field(&self, field: &str) -> ComponentResult<usize> {
        let [stream] = &*self.inputs else {
            return Err(ComponentError::permanent(format!(
                "\"{}\" reads {} streams: say which with input(component, stream)",
                self.component,
                self.inputs.len()
            )));
        };
        stream.position(field)
    }

    /// The input stream called `stream` of `component`.
    ///
    /// # Errors
    /// If this component does not read it.
    pub fn input(&self, component: &str, stream: &str) -> ComponentResult<&StreamInfo> {
        self.inputs.iter().find(|s| s.component == component && s.name == stream).ok_or_else(|| {
            ComponentError::permanent(format!(
                "\"{}\" does not read stream \"{stream}\" of \"{component}\"",
                self.component
            ))
        })
    }

    /// The output stream called `name`.
    ///
    /// # Errors
    /// If the component does not declare it.
    pub fn output(&self, name: &str) -> ComponentResult<OutStream> {
        self.outputs
            .iter()
            .position(|s| s.name == name)
            .map(OutStream)
            .ok_or_else(|| ComponentError::permanent(format!("\"{}\" declares no stream \"{name}\"", self.component)))
    }
}
