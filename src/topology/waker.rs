//! How a part of a component that works elsewhere says that there is something to do.

use std::{fmt, sync::Arc};

/// Wakes the executor that hosts a task. Cheap, callable from any thread, at any time; too often does no harm.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls `wake`.
    #[must_use]
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// Says that there is something to do.
    #[inline]
    pub fn wake(&self) {
        (self.0)();
    }
}

/// A waker that wakes nobody: for tests, whose tasks never sleep.
impl Default for Waker {
    fn default() -> Self {
        Self::new(|| {})
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}
