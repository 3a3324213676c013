//! Work on several threads: a list in its order, by items, halves or parts, two things at a time, and what they share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// How many threads work on a list. Each costs memory, and pipelines often have no more processors.
pub const THREADS: usize = 2;

/// Shorter lists are not worth a thread.
const FEWEST: usize = 16;

/// The result of a thread; its panic is raised here again.
///
/// # Panics
///
/// The thread did.
pub fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Locks what threads share, also if one of them had a panic: that is raised again if it is joined.
pub fn lock<T: ?Sized>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does two things at a time.
pub fn both<A, B: Send>(first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
    thread::scope(|scope| {
        let second = scope.spawn(second);
        (first(), joined(second))
    })
}

/// Maps parts, each on a thread of its own if there are several, in order.
pub fn in_parts<P: Send, R: Send>(
    parts: impl ExactSizeIterator<Item = P>,
    work: impl Fn(P) -> R + Sync,
) -> Vec<R> {
    if parts.len() < 2 {
        return parts.map(work).collect();
    }
    let work = &work;
    thread::scope(|scope| {
        let workers: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        workers.into_iter().map(joined).collect()
    })
}

/// Maps a list half by half, in order; a short list is one half.
pub fn halves<T: Sync, R: Send>(list: &[T], work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let half = match list.len() {
        0..FEWEST => return vec![work(list)],
        length => length / 2,
    };
    let (first, second) = list.split_at(half);
    <[R; 2]>::from(both(|| work(first), || work(second))).into()
}

/// Maps a list on up to [`THREADS`] threads, in order. A short list is not worth a thread.
pub fn map<T: Sync, R: Send>(list: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    match list.len() {
        0..FEWEST => list.iter().map(work).collect(),
        _ => spread(list, work),
    }
}

/// Maps a list on [`THREADS`] threads, in order; each takes the next free item, since they differ in size.
pub fn spread<T: Sync, R: Send>(list: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut results = Vec::with_capacity(list.len() / THREADS + 1);
        while let Some((position, item)) = {
            let position = next.fetch_add(1, Ordering::Relaxed);
            list.get(position).map(|item| (position, item))
        } {
            results.push((position, work(item)));
        }
        results
    };
    let (mut results, others) = both(take, take);
    results.extend(others);
    results.sort_unstable_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order() {
        for length in [0, 1, FEWEST, 10 * FEWEST] {
            let list: Vec<usize> = (0..length).collect();
            assert_eq!(map(&list, |each| *each), list);
            assert_eq!(spread(&list, |each| *each), list);
            assert_eq!(halves(&list, <[usize]>::to_vec).concat(), list);
            assert_eq!(
                in_parts(list.chunks(FEWEST), <[usize]>::to_vec).concat(),
                list
            );
        }
    }

    #[test]
    #[should_panic(expected = "of the other thread")]
    fn a_panic_is_raised_again() {
        both(|| (), || panic!("of the other thread"));
    }
}
