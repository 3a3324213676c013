//! Ctrl-C and SIGTERM outside of a run: they end the process, as they do by default, but for what has to be ended first.
//!
//! A process that has once listened to a signal hears it for ever, so that the default is done here from then on.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};

use crate::workflow::Asking;

/// Shells add this to the number of the signal that ended a process.
const BY_SIGNAL: u8 = 128;

/// Those who take signals themselves.
static HANDLERS: AtomicUsize = AtomicUsize::new(0);

/// Whether a handler has taken a signal that the thread of the default has not heard yet: it may hear it when the handler is gone.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes signals itself, as long as it lives.
pub(super) struct Handler(());

impl Handler {
    pub(super) fn new() -> Self {
        HANDLERS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Takes a signal: the default does nothing for it, however late it hears it.
    pub(super) fn take(&self) {
        TAKEN.store(true, Ordering::SeqCst);
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        HANDLERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Drives what asks backends until it has ended, or until a signal comes: the code to end with then. What asked is
/// cancelled by then.
pub(super) fn until_signal(runtime: &Runtime, asks: Asking<'_>) -> Option<u8> {
    static DEFAULT: Once = Once::new();
    // If another takes signals, it decides what they end.
    let is_ours = HANDLERS.load(Ordering::SeqCst) == 0;
    let _handler = Handler::new();
    let ended = runtime.block_on(async {
        tokio::select! {
            biased;
            () = asks => None,
            code = signal(), if is_ours => code,
        }
    });
    DEFAULT.call_once(end_by_signal);
    ended
}

/// Leaves Ctrl-C to another program on the terminal, as long as the handler lives. `None`: it cannot be left.
#[cfg(unix)]
pub(super) fn leave_interrupts() -> Option<Handler> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let _entered = runtime.enter();
    // From the first time that it is listened to, it does not end the process any more.
    drop(signal(SignalKind::interrupt()).ok()?);
    Some(Handler::new())
}

/// Ends the process.
#[expect(clippy::exit, reason = "as the signal does by default")]
pub(super) fn exit(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

/// Ends the process by the next signal that no other takes, from a thread of its own.
fn end_by_signal() {
    let listen = || {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
            return;
        };
        while let Some(code) = runtime.block_on(signal()) {
            let is_taken = TAKEN.swap(false, Ordering::SeqCst);
            if !is_taken && HANDLERS.load(Ordering::SeqCst) == 0 {
                exit(code);
            }
        }
    };
    // Without it signals are taken by those alone who wait for one.
    drop(
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(listen),
    );
}

/// Waits for a signal; the code to end with. `None`: none can be heard.
async fn signal() -> Option<u8> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = SignalKind::interrupt();
        let (Ok(mut interrupts), Ok(mut terminates)) =
            (signal(interrupt), signal(SignalKind::terminate()))
        else {
            return std::future::pending().await;
        };
        let kind = tokio::select! {
            _ = interrupts.recv() => interrupt,
            _ = terminates.recv() => SignalKind::terminate(),
        };
        u8::try_from(kind.as_raw_value())
            .ok()
            .map(|number| BY_SIGNAL + number)
    }
    #[cfg(not(unix))]
    {
        tokio::signal::ctrl_c().await.ok().map(|()| BY_SIGNAL + 2)
    }
}
