//! SIGINT and SIGTERM: the first asks for an orderly stop, the second for one at once.

use std::thread::JoinHandle;

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use super::exit::{Cause, Failure, OrFail as _};

/// What a signal asks for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Finish and commit what is in flight, within the drain timeout.
    Drain,
    /// End now: what is in flight is abandoned, nothing that is committed is lost.
    Now,
}

/// Listens for as long as it lives.
#[derive(Debug)]
pub struct Signals {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Signals {
    /// Calls `on_signal` on a thread of its own: with [`Stop::Drain`] for the first signal, with [`Stop::Now`] for each
    /// further one.
    ///
    /// # Errors
    /// If the system does not let us listen.
    pub fn listen(mut on_signal: impl FnMut(Stop) + Send + 'static) -> Result<Self, Failure> {
        let runtime = runtime::Builder::new_current_thread().enable_io().build().or_fail(Cause::Software)?;
        let (interrupts, terminations) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        };
        let (mut interrupts, mut terminations) =
            (interrupts.or_fail(Cause::Software)?, terminations.or_fail(Cause::Software)?);
        let (stop, mut stopped) = oneshot::channel();
        let listen = async move {
            let mut asked = Stop::Drain;
            loop {
                // Each arm loses nothing when another one wins: a signal stays noted until it is received.
                tokio::select! {
                    biased;
                    _ = &mut stopped => return,
                    _ = interrupts.recv() => {}
                    _ = terminations.recv() => {}
                }
                on_signal(asked);
                asked = Stop::Now;
            }
        };
        let thread = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(listen))
            .or_fail(Cause::Software)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[test]
    fn the_first_signal_drains_and_the_second_does_not_wait() {
        let (seen, signals) = mpsc::sync_channel(2);
        let listening = Signals::listen(move |stop| seen.send(stop).unwrap()).unwrap();
        raise(Signal::SIGTERM).unwrap();
        assert_eq!(signals.recv_timeout(Duration::from_secs(10)), Ok(Stop::Drain));
        raise(Signal::SIGINT).unwrap();
        assert_eq!(signals.recv_timeout(Duration::from_secs(10)), Ok(Stop::Now));
        drop(listening);
    }
}
