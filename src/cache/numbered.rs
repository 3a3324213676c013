//! Values that many have in common, each written once and named by a number.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Numbers for values, in the order in which they come; a value is known by a key, which may be itself.
#[derive(Debug)]
pub struct Numbered<K, V = K> {
    numbers: FxHashMap<K, u32>,
    values: Vec<V>,
}

impl<K, V> Default for Numbered<K, V> {
    fn default() -> Self {
        Self {
            numbers: FxHashMap::default(),
            values: Vec::new(),
        }
    }
}

impl<K: Eq + Hash, V> Numbered<K, V> {
    /// The number of the value of a key, which is made if it is missing.
    pub fn number_of(&mut self, key: K, value: impl FnOnce() -> V) -> u32 {
        let next = self.values.len() as u32;
        *self.numbers.entry(key).or_insert_with(|| {
            self.values.push(value());
            next
        })
    }

    /// All values, by their numbers.
    #[must_use]
    pub fn into_values(self) -> Vec<V> {
        self.values
    }
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    /// The number of a value.
    pub fn number(&mut self, value: &T) -> u32 {
        match self.numbers.get(value) {
            Some(number) => *number,
            None => self.number_of(value.clone(), || value.clone()),
        }
    }
}
