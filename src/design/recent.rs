//! Values that were made lately and are given again, so that many that are the same are held once.
//!
//! Each thread reads one value after the other, and neighbours are mostly alike: a table of a fixed size,
//! in which a new value takes the place of another one, finds nearly all of them again and never grows.

use std::convert::Infallible;
use std::hash::{BuildHasher, BuildHasherDefault, Hash};
use std::sync::Arc;

use rustc_hash::FxHasher;

/// Values of a thread that were made lately.
#[derive(Debug)]
pub struct Recent<T: 'static, const SLOTS: usize>(Vec<Option<Arc<T>>>);

impl<T, const SLOTS: usize> Default for Recent<T, SLOTS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const SLOTS: usize> Recent<T, SLOTS> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value of a key: one that was made lately and is it, else a new one.
    pub fn get<K: Hash>(
        &mut self,
        key: &K,
        is_it: impl FnOnce(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> Arc<T> {
        let Ok(value) = self.get_or_try(key, is_it, || Ok::<_, Infallible>(new()));
        value
    }

    /// The same, if a new value may fail to be made.
    ///
    /// # Errors
    ///
    /// It failed.
    pub fn get_or_try<K: Hash, E>(
        &mut self,
        key: &K,
        is_it: impl FnOnce(&T) -> bool,
        new: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if self.0.is_empty() {
            self.0.resize(SLOTS, None);
        }
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(key);
        let slot = &mut self.0[hash as usize % SLOTS];
        Ok(match slot {
            Some(value) if is_it(value) => value.clone(),
            _ => slot.insert(Arc::new(new()?)).clone(),
        })
    }
}
