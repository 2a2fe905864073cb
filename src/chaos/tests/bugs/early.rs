//! A process that reads its changelog before it has joined its group and fenced its predecessor: what that writes until
//! then it does not know.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::source::{MayJoin, joins_when};
use crate::{
    chaos::{
        pipeline::{COUNTS, GROUP, REMEMBER, SEEN},
        substitutes::Substitutes,
    },
    kafka::{
        ChangelogOptions,
        client::{
            ClientError, SourceClient,
            scan::{ScanClient, ScanRecord},
        },
    },
};

/// A record that was read early: its topic, partition, key and value.
type Kept = (Arc<str>, i32, Option<Vec<u8>>, Option<Vec<u8>>);

/// Looks after which there is no changelog yet, if nothing came.
const LOOKS: u32 = 30;

/// A reader, and what it has read before anybody asked.
struct Early {
    inner: Box<dyn ScanClient>,
    looks: u32,
    kept: Vec<Kept>,
    is_read: bool,
    topics: Vec<Arc<str>>,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Early>>);

impl Shared {
    fn early(&self) -> MutexGuard<'_, Early> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Early {
    /// Reads on. True if the source may join: at the end, or where there is nothing to be read.
    fn read_ahead(&mut self) -> bool {
        if self.is_read || self.looks > LOOKS {
            return true;
        }
        if self.looks == 0 {
            let of = ChangelogOptions::new("", GROUP, "0", Duration::ZERO);
            self.topics = [COUNTS, SEEN].map(|store| Arc::from(of.topic(REMEMBER, store))).to_vec();
            self.inner.start(&self.topics, None);
        }
        let before = self.kept.len();
        let (kept, topics) = (&mut self.kept, &self.topics);
        let each = &mut |record: &ScanRecord<'_>| {
            let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
            kept.push((Arc::clone(&topics[record.topic]), record.partition, key, value));
        };
        self.is_read = self.inner.read(1_000, Duration::ZERO, each).unwrap_or(false);
        self.looks = if kept.len() > before { 1 } else { self.looks + 1 };
        self.is_read
    }
}

impl ScanClient for Shared {
    fn start(&mut self, topics: &[Arc<str>], only: Option<i32>) {
        let mut early = self.early();
        early.topics = topics.to_vec();
        if !early.is_read {
            early.kept.clear();
            early.inner.start(topics, only);
        }
    }

    fn read(
        &mut self,
        most: usize,
        wait: Duration,
        each: &mut dyn FnMut(&ScanRecord<'_>),
    ) -> Result<bool, ClientError> {
        let early = &mut *self.early();
        if !early.is_read {
            return early.inner.read(most, wait, each);
        }
        for (topic, partition, key, value) in early.kept.drain(..) {
            let topic = early.topics.iter().position(|of| *of == topic).unwrap_or(0);
            each(&ScanRecord { topic, partition, key: key.as_deref(), value: value.as_deref() });
        }
        Ok(true)
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}

/// The clients of a changelog are made before its source.
pub(super) fn restores_before_it_joins() -> Substitutes {
    let newest: Arc<Mutex<Option<Shared>>> = Arc::default();
    let made = Arc::clone(&newest);
    let scan = move |inner| -> Box<dyn ScanClient> {
        let early = Early { inner, looks: 0, kept: Vec::new(), is_read: false, topics: Vec::new() };
        let shared = Shared(Arc::new(Mutex::new(early)));
        *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared.clone());
        Box::new(shared)
    };
    let source = move |inner| -> Box<dyn SourceClient> {
        let changelog = newest.lock().unwrap_or_else(PoisonError::into_inner).take();
        joins_when(inner, changelog.map(|changelog| -> MayJoin { Box::new(move || changelog.early().read_ahead()) }))
    };
    Substitutes { scan: Some(Arc::new(scan)), source: Some(Arc::new(source)), ..Substitutes::default() }
}
