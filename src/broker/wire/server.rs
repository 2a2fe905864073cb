//! The listener, and a task for each client.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use kafka_protocol::{
    error::{ParseResponseErrorCode as _, ResponseError},
    messages::{
        ApiKey, CreateTopicsRequest, RequestKind, ResponseKind, TopicName, create_topics_request::CreatableTopic,
    },
    protocol::StrBytes,
};
use tokio::task::{JoinError, JoinSet};

use super::{
    connection,
    hub::{Hub, Word},
    limits::{Budget, Limits},
};
use crate::broker::core::{BrokerOptions, Request};

/// Pause after the system had no connection for us: it has too many open.
const BREATH: Duration = Duration::from_millis(50);

/// The version of CreateTopics in which the broker asks itself.
const CREATE_TOPICS: i16 = 7;

/// Time that the broker gives itself for new topics, milliseconds.
const CREATE_TOPICS_MS: i32 = 10_000;

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen; port 0: any free one.
    pub listen: SocketAddr,
    /// The host that clients are told to connect to; `None`: the address of `listen`.
    pub advertise: Option<String>,
    /// The core's; its host and port are those of this server.
    pub broker: BrokerOptions,
    /// Topics to begin with.
    pub topics: Vec<TopicSpec>,
    /// What clients may take.
    pub limits: Limits,
}

/// A topic to begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicSpec {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: i32,
}

impl FromStr for TopicSpec {
    type Err = String;

    /// `NAME` or `NAME:PARTITIONS`; no topic's name has a colon.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, partitions) = text.split_once(':').unwrap_or((text, "1"));
        match partitions.parse() {
            Ok(partitions @ 1..) if !name.is_empty() => Ok(Self { name: name.to_owned(), partitions }),
            _ => Err("a topic is NAME or NAME:PARTITIONS, with one partition or more".to_owned()),
        }
    }
}

/// Why there is no server, or no more.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be had.
    #[error("{0} is in use by another process: choose another with --listen IP:PORT")]
    InUse(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// A topic to begin with cannot be made.
    #[error("topic {0} cannot be made: {1}")]
    Topic(String, String),
    /// The core has panicked: what it holds is not to be trusted any more.
    #[error("the broker has a bug and cannot go on: {0}")]
    Panic(JoinError),
}

/// A broker that listens, and serves once it is run.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    hub: Arc<Hub>,
}

impl Server {
    /// Listens and makes the topics. Who connects from now on is served as soon as it runs.
    ///
    /// # Errors
    /// If the address cannot be had, or a topic cannot be made.
    pub fn bind(options: ServerOptions) -> Result<Self, ServerError> {
        let ServerOptions { listen, advertise, broker, topics, limits } = options;
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => ServerError::InUse(listen),
            _ => ServerError::Listen(listen, error),
        };
        let listener = TcpListener::bind(listen).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let host = advertise.unwrap_or_else(|| address.ip().to_string());
        let hub = Arc::new(Hub::new(BrokerOptions { host, port: address.port(), ..broker }));
        make_topics(&hub, topics)?;
        Ok(Self { listener, address, limits, hub })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`; then every connection is closed.
    ///
    /// # Errors
    /// If the listener cannot be used, or the core has panicked.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Self { listener, address, limits, hub } = self;
        let listener =
            tokio::net::TcpListener::from_std(listener).map_err(|error| ServerError::Listen(address, error))?;
        let (requests, responses) = (Budget::new(&limits), Budget::new(&limits));
        let mut tasks = JoinSet::new();
        let timer = Arc::clone(&hub);
        tasks.spawn(async move { timer.keep_time().await });
        let mut stop = std::pin::pin!(stop);
        loop {
            // Accepting may be dropped: a connection that was not taken stays in the kernel's queue.
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                panic = panicked(&mut tasks) => return Err(ServerError::Panic(panic)),
                accepted = listener.accept() => match accepted {
                    // The timer's task is one of them.
                    Ok((_, peer)) if tasks.len() > limits.connections => {
                        tracing::warn!(%peer, "closed at once: {} connections are the most", limits.connections);
                    }
                    Ok((stream, peer)) => {
                        stream.set_nodelay(true).ok();
                        let budgets = (requests.clone(), responses.clone());
                        tasks.spawn(connection::serve(Arc::clone(&hub), stream, peer, limits, budgets));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "no connection");
                        tokio::time::sleep(BREATH).await;
                    }
                },
            }
        }
    }
}

/// The first panic of a task; those that end well are let go.
async fn panicked(tasks: &mut JoinSet<()>) -> JoinError {
    loop {
        match tasks.join_next().await {
            Some(Err(panic)) => return panic,
            Some(Ok(())) => {}
            None => std::future::pending().await,
        }
    }
}

fn make_topics(hub: &Hub, topics: Vec<TopicSpec>) -> Result<(), ServerError> {
    for TopicSpec { name, partitions } in topics {
        let topic = CreatableTopic::default()
            .with_name(TopicName(StrBytes::from(name.clone())))
            .with_num_partitions(partitions)
            .with_replication_factor(1);
        let body = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(CREATE_TOPICS_MS);
        let (connection, mut told) = hub.connect(None);
        let (api, version, client_id) = (ApiKey::CreateTopics, CREATE_TOPICS, None);
        let body = RequestKind::CreateTopics(body);
        hub.ask(Request { connection, correlation: 0, api, version, client_id, body });
        let answer = told.try_recv();
        hub.disconnect(connection);
        let error = match answer {
            Ok(Word::Response(response)) => refusal(&response.body),
            _ => Some(ResponseError::UnsupportedVersion.to_string()),
        };
        error.map_or(Ok(()), |error| Err(ServerError::Topic(name, error)))?;
    }
    Ok(())
}

/// Why a topic was not made; `None`: it was.
fn refusal(response: &ResponseKind) -> Option<String> {
    let ResponseKind::CreateTopics(answer) = response else { return Some("no answer".to_owned()) };
    answer.topics.iter().find_map(|topic| {
        let error = topic.error_code.err()?;
        Some(topic.error_message.as_ref().map_or_else(|| error.to_string(), ToString::to_string))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_noticed_though_another_task_has_ended_well_before() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async {});
        tasks.spawn(async {
            tokio::task::yield_now().await;
            panic!("a bug");
        });
        tasks.spawn(std::future::pending());
        assert!(panicked(&mut tasks).await.is_panic());
        assert_eq!(tasks.len(), 1);
    }
}
