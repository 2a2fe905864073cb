//! Metrics and health over HTTP: `/metrics`, `/livez`, `/readyz`, `/version`. Nothing here shows a record or changes
//! anything.
//!
//! It runs on one thread of its own, so that a scrape cannot slow a task.

mod limits;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    thread::JoinHandle,
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{runtime, sync::oneshot};

use self::limits::Limited;
use super::exit::{Cause, Failure, OrFail as _};
use crate::metrics::Metrics;

/// Longest wait of a stop for an answer that is being written.
const STOP: Duration = Duration::from_secs(1);

/// A server that is running. Dropping it stops it.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Debug)]
struct Shared {
    metrics: Metrics,
    librdkafka: String,
}

impl HttpServer {
    /// Listens on `address` (port 0: any) and answers from `metrics`.
    ///
    /// # Errors
    /// If the address cannot be had, with what to do about it.
    pub fn start(address: SocketAddr, metrics: Metrics, librdkafka: &str) -> Result<Self, Failure> {
        let listener = TcpListener::bind(address).map_err(|error| unavailable(address, &error))?;
        listener.set_nonblocking(true).or_fail(Cause::Software)?;
        let address = listener.local_addr().or_fail(Cause::Software)?;
        let runtime =
            runtime::Builder::new_current_thread().enable_io().enable_time().build().or_fail(Cause::Software)?;
        let (stop, stopped) = oneshot::channel();
        let shared = Shared { metrics, librdkafka: librdkafka.to_owned() };
        let thread = std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || {
                if let Err(error) = runtime.block_on(serve(listener, shared, stopped)) {
                    tracing::error!(%error, "metrics and health are served no more");
                }
                runtime.shutdown_timeout(STOP);
            })
            .or_fail(Cause::Software)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // The thread ends when the sender is gone; a panic there was reported already.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn unavailable(address: SocketAddr, error: &io::Error) -> Failure {
    let message = if error.kind() == io::ErrorKind::AddrInUse {
        format!("{address} is in use by another process: choose another with --http IP:PORT, or none with --no-http")
    } else {
        format!("cannot listen on {address}: {error}; choose another with --http IP:PORT, or none with --no-http")
    };
    Failure::new(Cause::Unavailable, message)
}

async fn serve(listener: TcpListener, shared: Shared, stopped: oneshot::Receiver<()>) -> io::Result<()> {
    let listener = Limited::new(tokio::net::TcpListener::from_std(listener)?);
    let (last, ended) = oneshot::channel();
    let signal = async move {
        // An error says that the sender is gone, which is the signal.
        stopped.await.ok();
        last.send(()).ok();
    };
    let server = axum::serve(listener, routes(shared)).with_graceful_shutdown(signal);
    let deadline = async move {
        ended.await.ok();
        tokio::time::sleep(STOP).await;
    };
    // Both arms may be dropped at any point: answers in flight are given up.
    tokio::select! {
        result = server => result,
        () = deadline => Ok(()),
    }
}

fn routes(shared: Shared) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(|| std::future::ready("alive\n")))
        .route("/readyz", get(ready))
        .route("/version", get(version))
        .with_state(shared)
}

async fn metrics(State(shared): State<Shared>) -> Response {
    match shared.metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn ready(State(shared): State<Shared>) -> Response {
    match shared.metrics.readiness().check() {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn version(State(shared): State<Shared>) -> Response {
    let body = serde_json::json!({ "version": env!("CARGO_PKG_VERSION"), "librdkafka": shared.librdkafka });
    ([(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpStream,
    };

    use super::*;

    fn start() -> (HttpServer, Metrics) {
        let metrics = Metrics::new("2.12.1").unwrap();
        let server = HttpServer::start("127.0.0.1:0".parse().unwrap(), metrics.clone(), "2.12.1").unwrap();
        (server, metrics)
    }

    fn get(server: &HttpServer, path: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn readiness_follows_brokers_assignment_and_draining() {
        let (server, metrics) = start();
        let answer = get(&server, "/readyz");
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("brokers unreachable"), "{answer}");
        metrics.readiness().set_brokers_reachable();
        assert!(get(&server, "/readyz").contains("nothing assigned"));
        metrics.readiness().set_assigned(true);
        assert!(get(&server, "/readyz").starts_with("HTTP/1.1 200"));
        metrics.readiness().set_draining();
        assert!(get(&server, "/readyz").contains("draining"));
        assert!(get(&server, "/livez").starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn metrics_and_version_are_served_and_nothing_else() {
        let (server, metrics) = start();
        metrics.component("count").executed.add(5);
        let answer = get(&server, "/metrics");
        assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("stormglass_component_executed_total{component=\"count\"} 5"), "{answer}");
        assert!(get(&server, "/version").contains(r#""librdkafka":"2.12.1""#));
        assert!(get(&server, "/").starts_with("HTTP/1.1 404"));
        assert!(get(&server, "/metrics/../etc/passwd").starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn a_port_in_use_is_said_with_what_to_do() {
        let (server, metrics) = start();
        let failure = HttpServer::start(server.address(), metrics, "x").unwrap_err();
        assert_eq!(failure.cause, Cause::Unavailable);
        let message = failure.error.unwrap().to_string();
        assert!(message.contains("is in use by another process: choose another with --http"), "{message}");
    }

    #[test]
    fn it_stops_although_a_client_says_nothing() {
        let (server, _) = start();
        let address = server.address();
        let _silent = TcpStream::connect(address).unwrap();
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }
}
