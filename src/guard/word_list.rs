//! Lists of words on the command line: how they are divided, and how they are typed.

/// The words of a list of nodes. A comma divides them, but for one in the braces or brackets of a glob, or behind a `\`.
#[must_use]
pub fn split_words(lists: &[String]) -> Vec<String> {
    lists.iter().flat_map(|list| words_of(list)).collect()
}

/// The words of one list.
#[must_use]
pub fn words_of(list: &str) -> Vec<String> {
    let commas = commas(list);
    let starts = std::iter::once(0).chain(commas.iter().map(|comma| comma + 1));
    let ends = commas.iter().copied().chain([list.len()]);
    let words = starts.zip(ends).map(|(start, end)| &list[start..end]);
    words.map(|word| word.replace("\\,", ",")).collect()
}

/// Where the last word of a list begins.
#[must_use]
pub fn start_of_last_word(list: &str) -> usize {
    commas(list).last().map_or(0, |comma| comma + 1)
}

/// A word as it stands in a list.
#[must_use]
pub fn in_list(word: &str) -> String {
    word.replace(',', "\\,")
}

/// Where the commas are that divide a list.
fn commas(list: &str) -> Vec<usize> {
    let (mut commas, mut depth) = (Vec::new(), 0_usize);
    let mut letters = list.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' if letters.peek().is_some_and(|(_, next)| *next == ',') => drop(letters.next()),
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => commas.push(at),
            _ => {}
        }
    }
    commas
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_comma_divides_words_but_for_one_in_a_glob_or_behind_a_backslash() {
        for (list, expected) in [
            ("a,b", &["a", "b"][..]),
            ("edge-{1,2},b", &["edge-{1,2}", "b"]),
            ("edge-[1,2]", &["edge-[1,2]"]),
            ("rack:Rack 1\\, row A,b", &["rack:Rack 1, row A", "b"]),
            ("edge\\*,a}", &["edge\\*", "a}"]),
            ("", &[""]),
            ("a,", &["a", ""]),
        ] {
            assert_eq!(super::words_of(list), expected, "{list}");
            let words = expected.iter().map(|word| super::in_list(word));
            let typed = words.collect::<Vec<_>>().join(",");
            assert_eq!(super::words_of(&typed), expected, "{typed}");
        }
    }
}
