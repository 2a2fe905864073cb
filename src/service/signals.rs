//! SIGINT and SIGTERM: the first asks for an orderly stop, the second for one at once. SIGHUP asks for an orderly stop,
//! however often it comes: who closes a terminal sends several.

use std::{fs, future::pending, thread::JoinHandle};

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
    /// further one, but for SIGHUP, which asks for nothing more than a stop. A process that was started to ignore it
    /// (`nohup`) does.
    ///
    /// # Errors
    /// If the system does not let us listen.
    pub fn listen(mut on_signal: impl FnMut(Stop) + Send + 'static) -> Result<Self, Failure> {
        let runtime = runtime::Builder::new_current_thread().enable_io().build().or_fail(Cause::Software)?;
        let listen = |kind| {
            let _inside = runtime.enter();
            signal(kind).or_fail(Cause::Software)
        };
        let (mut interrupts, mut terminations) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let mut hangups = if ignores_hangup() { None } else { Some(listen(SignalKind::hangup())?) };
        let (stop, mut stopped) = oneshot::channel();
        let listen = async move {
            let mut asked = Stop::Drain;
            loop {
                let hangup = async {
                    match &mut hangups {
                        Some(hangups) => hangups.recv().await,
                        None => pending().await,
                    }
                };
                // Each arm loses nothing when another one wins: a signal stays noted until it is received.
                tokio::select! {
                    biased;
                    _ = &mut stopped => return,
                    _ = interrupts.recv() => {}
                    _ = terminations.recv() => {}
                    _ = hangup => if asked == Stop::Now { continue },
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

/// Whether the process was started to ignore SIGHUP. Where there is no `/proc` nobody can tell without unsafe code.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    // SIGHUP is signal 1.
    mask.is_some_and(|mask| mask & 1 == 1)
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
    use std::{
        sync::{Mutex, PoisonError, mpsc},
        time::Duration,
    };

    use nix::sys::signal::{Signal, raise};

    use super::*;

    /// A signal reaches everybody in this process who listens.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    #[test]
    fn the_first_signal_drains_and_the_second_does_not_wait() {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, signals) = mpsc::sync_channel(2);
        let listening = Signals::listen(move |stop| seen.send(stop).unwrap()).unwrap();
        raise(Signal::SIGTERM).unwrap();
        assert_eq!(signals.recv_timeout(Duration::from_secs(10)), Ok(Stop::Drain));
        raise(Signal::SIGINT).unwrap();
        assert_eq!(signals.recv_timeout(Duration::from_secs(10)), Ok(Stop::Now));
        drop(listening);
    }

    #[test]
    fn a_hangup_drains_and_no_second_one_cuts_that_short() {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, signals) = mpsc::sync_channel(3);
        let listening = Signals::listen(move |stop| seen.send(stop).unwrap()).unwrap();
        raise(Signal::SIGHUP).unwrap();
        assert_eq!(signals.recv_timeout(Duration::from_secs(10)), Ok(Stop::Drain));
        raise(Signal::SIGHUP).unwrap();
        assert!(signals.recv_timeout(Duration::from_millis(200)).is_err());
        drop(listening);
    }
}
