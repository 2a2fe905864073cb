//! `broker`: the embedded broker in a process of its own.

use std::{
    hash::{BuildHasher as _, RandomState},
    io,
    sync::Arc,
    thread,
    time::Duration,
};

use tokio::{runtime, sync::Notify};
use tracing::Level;

use super::{
    cli,
    dispatch::Session,
    exit::{Cause, Failure, OrFail as _, Outcome},
    output,
    signals::Signals,
};
use crate::{
    broker::{
        core::{BrokerOptions, LogOptions},
        wire::{Limits, Server, ServerError, ServerOptions},
    },
    clock,
};

/// Serves until a signal ends it, which is no failure.
///
/// # Errors
/// If the address may not or cannot be had, a topic cannot be made, or the broker has a bug.
pub(crate) fn broker(session: &Session<'_>, args: &cli::Broker) -> Outcome {
    let options = options(args)?;
    let server = Server::bind(options).map_err(|error| Failure { cause: cause(&error), error: Some(error.into()) })?;
    let stop = Arc::new(Notify::new());
    let stopping = Arc::clone(&stop);
    let _signals = Signals::listen(move |_| stopping.notify_one())?;
    if args.until_stdin_ends {
        watch_stdin(Arc::clone(&stop))?;
    }
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build().or_fail(Cause::Software)?;
    output::say(
        Level::WARN,
        "This broker is for demos and tests: it keeps everything in memory, and with it everything ends.",
    );
    let address = server.address();
    if session.global.json {
        output::json(&serde_json::json!({ "listening": address.to_string() }))?;
    } else {
        output::data(&format!("listening on {address}\n"))?;
    }
    let ended = runtime.block_on(server.run(stop.notified()));
    ended.map_err(|error| Failure { cause: cause(&error), error: Some(error.into()) })
}

/// Stops when whoever holds the other end of our input lets it go, as the kernel does for the dead. The thread ends with
/// the process: nothing can wake it from a terminal.
fn watch_stdin(stop: Arc<Notify>) -> Outcome {
    let watch = move || {
        io::copy(&mut io::stdin().lock(), &mut io::sink()).ok();
        stop.notify_one();
    };
    thread::Builder::new().name("stdin".to_owned()).spawn(watch).or_fail(Cause::Software)?;
    Ok(())
}

fn options(args: &cli::Broker) -> Result<ServerOptions, Failure> {
    let listen = args.listen;
    if !listen.ip().is_loopback() && !args.allow_remote {
        let reason = "other machines could read and write everything; say --allow-remote if they may";
        return Err(Failure::new(Cause::Usage, format!("{listen} is not a loopback address: {reason}")));
    }
    if listen.ip().is_unspecified() && args.advertise.is_none() {
        let reason = "is no address to connect to: say with --advertise HOST where clients find the broker";
        return Err(Failure::new(Cause::Usage, format!("{} {reason}", listen.ip())));
    }
    let limits =
        Limits { connections: args.max_connections as usize, frame: args.max_request as usize, ..Limits::default() };
    Ok(ServerOptions {
        listen,
        advertise: args.advertise.clone(),
        broker: BrokerOptions {
            epoch_ms: clock::wall_millis(),
            seed: RandomState::new().hash_one(listen),
            logs: LogOptions {
                max_bytes: usize::try_from(args.memory).unwrap_or(usize::MAX),
                // Quicker than by Kafka's default: tests wait for it.
                cleaner_backoff: Duration::from_secs(1),
                ..LogOptions::default()
            },
            ..BrokerOptions::default()
        },
        topics: args.topics.clone(),
        limits,
    })
}

const fn cause(error: &ServerError) -> Cause {
    match error {
        ServerError::InUse(_) | ServerError::Listen(..) => Cause::Unavailable,
        ServerError::Topic(..) => Cause::Usage,
        ServerError::Panic(_) => Cause::Software,
    }
}
