//! The form of a segment: columns of fixed width, each with its checksum.
//!
//! A segment begins with a magic word, the version of the format and the number of columns. Then comes,
//! for each column, its length and its CRC-32, and after that the columns themselves. All numbers are
//! little-endian. Texts are two columns: where each ends, and the bytes of all.

use flate2::Crc;

/// The version of the format of a segment.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"trueupca";
const HEADER: usize = 16;
const COLUMN_HEADER: usize = 12;

/// Collects the columns of a segment.
#[derive(Debug, Default)]
pub struct Writer {
    columns: Vec<Vec<u8>>,
}

impl Writer {
    /// A segment without columns.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column of bytes.
    pub fn bytes(&mut self, bytes: Vec<u8>) {
        self.columns.push(bytes);
    }

    /// Adds a column of numbers.
    pub fn numbers(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.bytes(numbers.into_iter().flat_map(u32::to_le_bytes).collect());
    }

    /// Adds a column of large numbers.
    pub fn large(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.bytes(numbers.into_iter().flat_map(u64::to_le_bytes).collect());
    }

    /// Adds texts, of 4 GiB in all at most: what is longer cannot be read again.
    pub fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for text in texts {
            bytes.extend_from_slice(text.as_bytes());
            ends.extend((bytes.len() as u32).to_le_bytes());
        }
        self.bytes(ends);
        self.bytes(bytes);
    }

    /// The bytes of the segment.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let length: usize = self.columns.iter().map(Vec::len).sum();
        let head = HEADER + COLUMN_HEADER * self.columns.len();
        let mut segment = Vec::with_capacity(head + length);
        segment.extend_from_slice(MAGIC);
        segment.extend(FORMAT_VERSION.to_le_bytes());
        segment.extend((self.columns.len() as u32).to_le_bytes());
        for column in &self.columns {
            segment.extend((column.len() as u64).to_le_bytes());
            segment.extend(sum(column).to_le_bytes());
        }
        for column in self.columns {
            segment.extend(column);
        }
        segment
    }
}

/// Gives the columns of a segment in the order in which they were written.
#[derive(Debug)]
pub struct Reader<'a> {
    columns: std::vec::IntoIter<&'a [u8]>,
}

impl<'a> Reader<'a> {
    /// Checks a whole segment; `None` where it is none, or is damaged.
    #[must_use]
    pub fn open(segment: &'a [u8]) -> Option<Self> {
        let rest = segment.strip_prefix(MAGIC)?;
        let (version, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        if u32::from_le_bytes(*version) != FORMAT_VERSION {
            return None;
        }
        let count = u32::from_le_bytes(*count) as usize;
        let (heads, mut rest) = rest.split_at_checked(count.checked_mul(COLUMN_HEADER)?)?;
        let mut columns = Vec::with_capacity(count);
        for head in heads.chunks_exact(COLUMN_HEADER) {
            let (length, checksum) = head.split_first_chunk()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (column, behind) = rest.split_at_checked(length)?;
            if sum(column).to_le_bytes() != *checksum {
                return None;
            }
            columns.push(column);
            rest = behind;
        }
        rest.is_empty().then(|| Self {
            columns: columns.into_iter(),
        })
    }

    /// The next column as bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        self.columns.next()
    }

    /// The next column as numbers.
    pub fn numbers(&mut self) -> Option<Numbers<'a>> {
        let (bytes, rest) = self.bytes()?.as_chunks();
        rest.is_empty().then_some(Numbers { bytes })
    }

    /// The next column as large numbers.
    pub fn large(&mut self) -> Option<impl ExactSizeIterator<Item = u64> + use<'a>> {
        let (numbers, rest) = self.bytes()?.as_chunks();
        let numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        rest.is_empty().then_some(numbers)
    }

    /// The next two columns as texts.
    pub fn texts(&mut self) -> Option<Texts<'a>> {
        let ends = self.numbers()?;
        let text = std::str::from_utf8(self.bytes()?).ok()?;
        Some(Texts { ends, text })
    }
}

/// A column of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a> {
    bytes: &'a [[u8; 4]],
}

impl<'a> Numbers<'a> {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<u32> {
        self.bytes
            .get(position)
            .map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.bytes.iter().map(|bytes| u32::from_le_bytes(*bytes))
    }
}

/// A column of texts.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    ends: Numbers<'a>,
    text: &'a str,
}

impl<'a> Texts<'a> {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One of them; `None` too where its end is no place in the texts.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<&'a str> {
        let end = self.ends.get(position)? as usize;
        let start = match position.checked_sub(1) {
            Some(before) => self.ends.get(before)? as usize,
            None => 0,
        };
        self.text.get(start..end)
    }
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment() -> Vec<u8> {
        let mut writer = Writer::new();
        writer.numbers([1, 2, u32::MAX]);
        writer.texts(["", "wörter", "b"]);
        writer.large([7, u64::MAX]);
        writer.bytes(vec![9; 5]);
        writer.finish()
    }

    #[test]
    fn what_was_written_is_read_again_column_by_column() {
        let segment = segment();
        let mut reader = Reader::open(&segment).unwrap();
        let numbers: Vec<u32> = reader.numbers().unwrap().iter().collect();
        assert_eq!(numbers, [1, 2, u32::MAX]);
        let texts = reader.texts().unwrap();
        let read: Vec<_> = (0..texts.len()).filter_map(|at| texts.get(at)).collect();
        assert_eq!(read, ["", "wörter", "b"]);
        assert_eq!(texts.get(3), None);
        assert_eq!(reader.large().unwrap().collect::<Vec<_>>(), [7, u64::MAX]);
        assert_eq!(reader.bytes(), Some(&[9; 5][..]));
        assert!(reader.bytes().is_none());
    }

    #[test]
    fn an_empty_segment_has_no_columns() {
        assert!(
            Reader::open(&Writer::new().finish())
                .unwrap()
                .bytes()
                .is_none()
        );
        assert!(Reader::open(&[]).is_none());
    }

    proptest! {
        #[test]
        fn a_segment_that_is_damaged_anywhere_or_cut_off_is_none(
            at in 0usize..200,
            flip in 1u8..,
            cut in 0usize..200,
        ) {
            let whole = segment();
            let mut damaged = whole.clone();
            let at = at % damaged.len();
            damaged[at] ^= flip;
            prop_assert!(Reader::open(&damaged).is_none());
            prop_assert!(Reader::open(&whole[..cut % whole.len()]).is_none());
            let longer = [&whole[..], &[0]].concat();
            prop_assert!(Reader::open(&longer).is_none());
        }

        #[test]
        fn whatever_the_bytes_are_nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut writer = Writer::new();
            writer.bytes(bytes.clone());
            writer.bytes(bytes);
            let segment = writer.finish();
            let mut reader = Reader::open(&segment).unwrap();
            if let Some(texts) = reader.texts() {
                for at in 0..=texts.len() {
                    let _ = texts.get(at);
                }
            }
        }
    }
}
