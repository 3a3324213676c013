//! The bounds of a list that a server gives page by page: whatever it answers, the list comes to an end.

use std::time::Duration;

use tokio::time::Instant;

/// Most pages of a list: ten million machines of Ironic, five million objects of an API server. A test does not wait for
/// so many.
const MOST: usize = if cfg!(test) { 64 } else { 10_000 };
/// Most bytes of all pages.
const MOST_BYTES: usize = 4 << 30;
/// The longest time that a list may take.
const LONGEST: Duration = Duration::from_secs(600);

/// The pages of a list so far.
pub(super) struct Pages {
    pages: usize,
    bytes: usize,
    until: Instant,
}

impl Pages {
    /// A list that begins now.
    pub(super) fn begin() -> Self {
        Self {
            pages: 0,
            bytes: 0,
            until: Instant::now() + LONGEST,
        }
    }

    /// Takes in a page after which there are more.
    ///
    /// # Errors
    ///
    /// The list is longer than any that is meant; by what.
    pub(super) fn and_more(&mut self, bytes: usize) -> Result<(), String> {
        self.pages += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let why = match () {
            () if self.pages >= MOST => format!("{MOST} pages"),
            () if self.bytes > MOST_BYTES => format!("{} GiB", MOST_BYTES >> 30),
            () if Instant::now() > self.until => format!("{} minutes", LONGEST.as_secs() / 60),
            () => return Ok(()),
        };
        Err(format!("a list has no end within {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_ends_by_its_bytes_and_by_its_time_too() {
        let mut pages = Pages::begin();
        pages.and_more(MOST_BYTES).unwrap();
        assert!(pages.and_more(1).unwrap_err().contains("4 GiB"));
        let mut pages = Pages::begin();
        tokio::time::advance(LONGEST).await;
        pages.and_more(0).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(pages.and_more(0).unwrap_err().contains("10 minutes"));
    }
}
