//! The events of runs, for those who follow them.
//!
//! A run that this service carries out is heard as it happens. Any other run, an ended one among them, is read from the
//! records, and followed there as long as it has listeners. All listeners of a run share one list of texts, so that a
//! further one costs its connection and a position in that list.
//!
//! The id of an event is its position among those of a run that are recorded. Progress, warnings and checkpoints are not
//! all recorded: they have no id, and a listener who comes again hears what came behind the last id.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::tally::Tally;
use super::view::RunProgress;
use crate::design::RunId;
use crate::plan::Plan;
use crate::record::Outcome;
use crate::report::json::line;
use crate::report::run::FORMAT_VERSION;
use crate::repository::CommitId;
use crate::run::{EventKind, RunEvent};
use crate::serve::answer::Refusal;
use crate::threads::lock;

/// The most bytes of events that are kept of a run; a listener who comes late learns how many are left out.
const MOST_BYTES: usize = 32 << 20;

/// The most bytes that are written at once.
const PIECE: usize = 1 << 16;

/// After how long without an event a comment is sent, so that a connection that is gone is noticed.
const QUIET: Duration = Duration::from_secs(15);

/// How long a stream lasts: a listener comes again then, and is authenticated again.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// An event as it is sent.
#[derive(Debug)]
struct Chunk {
    /// How many recorded events there were, this one included.
    number: u64,
    text: Bytes,
}

#[derive(Debug)]
struct Inner {
    chunks: VecDeque<Chunk>,
    /// Chunks that are not kept any more.
    dropped: u64,
    bytes: usize,
    numbered: u64,
    tally: Tally,
    is_over: bool,
    /// The records that it was read from last, and how many of their lines.
    pub(super) read: (Option<CommitId>, usize),
}

/// The events of a run.
#[derive(Debug)]
pub(in crate::serve) struct Feed {
    run: RunId,
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

/// An event as it is told: as `apply --format json` prints it, and with the line that `apply` prints.
#[derive(Serialize)]
struct Told<'a> {
    format_version: u32,
    #[serde(flatten)]
    event: &'a RunEvent,
    text: &'a str,
}

/// Whether an event is always recorded, and so has an id.
fn is_numbered(kind: &EventKind) -> bool {
    !matches!(
        kind,
        EventKind::RunStarted { .. }
            | EventKind::StepProgress { .. }
            | EventKind::Checkpoint { .. }
            | EventKind::Warning { .. }
            | EventKind::RunFinished { .. }
    )
}

impl Feed {
    pub(super) fn new(run: &RunId, plan: &Plan) -> Self {
        Self {
            run: run.clone(),
            inner: Mutex::new(Inner {
                chunks: VecDeque::new(),
                dropped: 0,
                bytes: 0,
                numbered: 0,
                tally: Tally::new(run, plan),
                is_over: false,
                read: (None, 0),
            }),
            changed: watch::channel(()).0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Takes an event in.
    pub(in crate::serve) fn on_event(&self, event: &RunEvent) {
        self.lock().on_event(event);
        self.changed.send_replace(());
    }

    /// The run.
    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    /// How far the run is.
    pub(in crate::serve) fn progress(&self) -> RunProgress {
        self.lock().tally.progress()
    }

    /// The newest lines, and the id of the event behind which a listener misses nothing.
    pub(in crate::serve) fn lines(&self) -> (Vec<String>, u64) {
        let inner = self.lock();
        (inner.tally.lines(inner.is_over), inner.numbered)
    }

    /// Whether no event comes any more.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// The records that it was read from last, and how many of their lines.
    pub(super) fn read(&self) -> (Option<CommitId>, usize) {
        self.lock().read
    }

    /// Notes the records that it was read from.
    pub(super) fn has_read(&self, tip: Option<CommitId>, lines: usize) {
        self.lock().read = (tip, lines);
    }

    /// Ends the feed: the run has ended so, or no process is at work on it.
    pub(super) fn end(&self, outcome: Option<Outcome>) {
        let mut inner = self.lock();
        if let Some(outcome) = outcome {
            inner.tally.ended(outcome);
        } else if inner.tally.outcome() == Outcome::Running.to_string() {
            inner.tally.ended(Outcome::Interrupted);
        }
        inner.is_over = true;
        drop(inner);
        self.changed.send_replace(());
    }
}

impl Inner {
    fn on_event(&mut self, event: &RunEvent) {
        let is_numbered = is_numbered(&event.kind);
        let text = self.tally.on_event(event, is_numbered);
        let told = line(&Told {
            format_version: FORMAT_VERSION,
            event,
            text: &text,
        });
        let id = match is_numbered {
            true => {
                self.numbered += 1;
                format!("id: {}\n", self.numbered)
            }
            false => String::new(),
        };
        let text = Bytes::from(format!("{id}data: {}\n\n", told.unwrap_or_default()));
        self.bytes += text.len();
        self.chunks.push_back(Chunk {
            number: self.numbered,
            text,
        });
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.chunks.pop_front()
        {
            self.bytes -= oldest.text.len();
            self.dropped += 1;
        }
    }

    /// The position behind the event of an id.
    fn behind(&self, id: u64) -> u64 {
        if id == 0 {
            return 0;
        }
        let before = self.chunks.partition_point(|chunk| chunk.number < id);
        self.dropped + before as u64 + u64::from(before < self.chunks.len())
    }

    /// The texts from a position on, and the position behind them.
    fn from(&self, position: u64) -> (Vec<u8>, u64) {
        let mut out = Vec::new();
        let missed = self.dropped.saturating_sub(position);
        if missed > 0 {
            out.extend(format!("event: gap\ndata: {{\"left_out\":{missed}}}\n\n").into_bytes());
        }
        let mut position = position.max(self.dropped);
        let from = usize::try_from(position - self.dropped).unwrap_or(usize::MAX);
        for chunk in self.chunks.iter().skip(from) {
            if !out.is_empty() && out.len() + chunk.text.len() > PIECE {
                break;
            }
            out.extend_from_slice(&chunk.text);
            position += 1;
        }
        (out, position)
    }

    fn end(&self, run: &RunId) -> Vec<u8> {
        let end = serde_json::json!({"run": run.as_str(), "outcome": self.tally.outcome()});
        format!("event: end\ndata: {end}\n\n").into_bytes()
    }
}

/// All feeds of a service.
#[derive(Debug)]
pub(in crate::serve) struct Feeds {
    live: Mutex<BTreeMap<RunId, Arc<Feed>>>,
    followed: Mutex<BTreeMap<RunId, Weak<Feed>>>,
    places: Arc<Semaphore>,
    closing: watch::Sender<bool>,
}

impl Feeds {
    /// Feeds for so many listeners at once.
    pub(in crate::serve) fn new(streams: usize) -> Self {
        Self {
            live: Mutex::default(),
            followed: Mutex::default(),
            places: Arc::new(Semaphore::new(streams)),
            closing: watch::channel(false).0,
        }
    }

    /// Begins the feed of a run that this service carries out.
    pub(in crate::serve) fn begin(&self, run: &RunId, plan: &Plan) -> Arc<Feed> {
        let feed = Arc::new(Feed::new(run, plan));
        lock(&self.live).insert(run.clone(), feed.clone());
        feed
    }

    /// Ends the feed of a run that this service carried out.
    pub(in crate::serve) fn end(&self, feed: &Feed) {
        feed.end(None);
        lock(&self.live).remove(&feed.run);
    }

    /// The feed of a run that has listeners, or that this service carries out.
    pub(super) fn find(&self, run: &RunId) -> Option<Arc<Feed>> {
        let live = lock(&self.live).get(run).cloned();
        live.or_else(|| lock(&self.followed).get(run)?.upgrade())
    }

    /// Keeps the feed of a run that is read from the records, as long as it has listeners; the one that was kept meanwhile,
    /// if there is one.
    pub(super) fn keep(&self, feed: Feed) -> (Arc<Feed>, bool) {
        let mut followed = lock(&self.followed);
        followed.retain(|_, feed| feed.strong_count() > 0);
        if let Some(known) = followed.get(&feed.run).and_then(Weak::upgrade) {
            return (known, false);
        }
        let feed = Arc::new(feed);
        followed.insert(feed.run.clone(), Arc::downgrade(&feed));
        (feed, true)
    }

    /// Ends all streams: the service is about to end.
    pub(in crate::serve) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Hears that the service is about to end.
    pub(super) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// The events behind an id as the body of an answer.
    pub(super) fn stream(&self, feed: Arc<Feed>, after: u64) -> Result<Body, Refusal> {
        let place = self.places.clone().try_acquire_owned();
        let place =
            place.map_err(|_| Refusal::unavailable("too many streams of events are open"))?;
        let position = feed.lock().behind(after);
        let listener = Listener {
            changed: feed.changed.subscribe(),
            closing: self.closing(),
            feed,
            position,
            until: Instant::now() + LONGEST,
            state: State::Begins,
            _place: place,
        };
        let chunks = stream::unfold(listener, |mut listener| async move {
            let piece = listener.next().await?;
            Some((Ok::<_, Infallible>(piece), listener))
        });
        Ok(Body::from_stream(chunks))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begins,
    Listens,
    Over,
}

/// A listener of a feed.
struct Listener {
    feed: Arc<Feed>,
    changed: watch::Receiver<()>,
    closing: watch::Receiver<bool>,
    position: u64,
    until: Instant,
    state: State,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    /// The next bytes; `None`: the stream ends.
    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            State::Over => return None,
            State::Begins => {
                self.state = State::Listens;
                // How long a listener waits before it comes again.
                return Some(Bytes::from_static(b"retry: 2000\n\n"));
            }
            State::Listens => {}
        }
        loop {
            self.changed.mark_unchanged();
            if let Some(piece) = self.piece() {
                return Some(piece);
            }
            if Instant::now() >= self.until || *self.closing.borrow() {
                return None;
            }
            let quiet = tokio::time::sleep(QUIET);
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                _ = self.closing.changed() => return None,
                () = quiet => return Some(Bytes::from_static(b":\n\n")),
            }
        }
    }

    /// The events since; with the end, if the run is over.
    fn piece(&mut self) -> Option<Bytes> {
        let inner = self.feed.lock();
        let (piece, position) = inner.from(self.position);
        self.position = position;
        if !piece.is_empty() {
            return Some(piece.into());
        }
        if inner.is_over {
            self.state = State::Over;
            return Some(inner.end(&self.feed.run).into());
        }
        None
    }
}
