//! Which broker a test gets, and what becomes of a test where there is none.

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{LazyLock, PoisonError, RwLock},
};

use libtest_mimic::{Completion, Failed, Trial};

use super::{
    process::Broker,
    tools::{kafka_sh, last_words},
};

/// Makes the named test functions of a module into trials: `trials!(shared: a, b)`, `trials!(alone: c)` or
/// `trials!(own: d)`.
#[macro_export]
macro_rules! trials {
    ($kind:ident: $($test:ident),+ $(,)?) => {
        vec![$($crate::broker::$kind(concat!(module_path!(), "::", stringify!($test)), $test)),+]
    };
}

/// A test that runs beside others: it has topics and groups of its own and leaves the broker alone.
pub fn shared(name: &str, test: fn(&Broker)) -> Trial {
    trial(name, move |broker| {
        test(&broker.read().unwrap_or_else(PoisonError::into_inner));
        Completion::Completed
    })
}

/// A test that stops the broker, so no other may use it meanwhile.
pub fn alone(name: &str, test: fn(&mut Broker)) -> Trial {
    trial(name, move |broker| {
        let mut broker = broker.write().unwrap_or_else(PoisonError::into_inner);
        if !broker.is_ours() {
            return Completion::ignored_with("the broker in KAFKA_BOOTSTRAP is not ours to stop");
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| test(&mut broker)));
        // The next test finds it running, however this one left it.
        broker.start();
        outcome.map_or_else(|panic| resume_unwind(panic), |()| Completion::Completed)
    })
}

/// A test with a broker of its own, which it may stop for as long as it likes.
pub fn own(name: &str, test: fn(&mut Broker)) -> Trial {
    Trial::ignorable_test(short(name), move || match Broker::new() {
        Ok(mut broker) => {
            test(&mut broker);
            broker.end();
            Ok(Completion::Completed)
        }
        Err(reason) if required() => Err(Failed::from(reason)),
        Err(reason) => Ok(Completion::ignored_with(reason)),
    })
}

/// A test against a process of the embedded broker, beside others. It needs nothing that this machine may not have.
pub fn embedded(name: &str, test: fn(&Broker)) -> Trial {
    Trial::test(short(name), move || {
        let broker = EMBEDDED.as_ref().map_err(|error| Failed::from(error.as_str()))?;
        test(&broker.read().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    })
}

/// [`embedded`], with Kafka's own tools: where they cannot be had, as without Java, it is ignored.
pub fn embedded_with_java(name: &str, test: fn(&Broker)) -> Trial {
    Trial::ignorable_test(short(name), move || {
        let broker = EMBEDDED.as_ref().map_err(|error| Failed::from(error.as_str()))?;
        if let Err(reason) = &*TOOLS {
            return if required() { Err(Failed::from(reason)) } else { Ok(Completion::ignored_with(reason)) };
        }
        test(&broker.read().unwrap_or_else(PoisonError::into_inner));
        Ok(Completion::Completed)
    })
}

fn short(name: &str) -> &str {
    name.split_once("::").map_or(name, |(_crate, rest)| rest)
}

fn trial(name: &str, run: impl FnOnce(&RwLock<Broker>) -> Completion + Send + 'static) -> Trial {
    Trial::ignorable_test(short(name), move || match &*BROKER {
        Ok(broker) => Ok(run(broker)),
        Err(reason) if required() => Err(Failed::from(reason)),
        Err(reason) => Ok(Completion::ignored_with(reason)),
    })
}

/// CI says `REQUIRE_KAFKA=1`: there, a test that could not run has failed.
fn required() -> bool {
    env::var_os("REQUIRE_KAFKA").is_some_and(|value| value != "0" && !value.is_empty())
}

/// Started by the first test that wants it; why there is none otherwise.
static BROKER: LazyLock<Result<RwLock<Broker>, String>> = LazyLock::new(|| {
    let broker = Broker::find();
    match &broker {
        Ok(broker) => eprintln!("Kafka tests use {}", broker.describe()),
        Err(reason) => eprintln!("Kafka tests have no broker: {reason}"),
    }
    broker.map(RwLock::new)
});

/// Whether Kafka's own tools can be had, or why not.
static TOOLS: LazyLock<Result<(), String>> = LazyLock::new(|| last_words(&kafka_sh(&["fetch"])));

static EMBEDDED: LazyLock<Result<RwLock<Broker>, String>> = LazyLock::new(|| Broker::embedded().map(RwLock::new));

/// Ends the brokers that tests had started. Statics are never dropped, so `main` has to say it; when the process dies
/// before that, kafka.sh's watch (jars), testcontainers' (Docker) or the end of its input (embedded) does it.
pub fn shut_down() {
    for broker in [&BROKER, &EMBEDDED] {
        if let Some(Ok(broker)) = LazyLock::get(broker) {
            broker.write().unwrap_or_else(PoisonError::into_inner).end();
        }
    }
}
