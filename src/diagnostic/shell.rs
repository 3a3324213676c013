//! Words as they are typed in a shell.

/// The words of a program as a shell takes them.
pub fn in_shell<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:=@%+,~".contains(letter);
    let words = words
        .into_iter()
        .map(|word| match word.chars().all(is_plain) {
            // The tilde is that of a folder at the beginning alone.
            true if !word.is_empty() && !word.starts_with('~') => word.to_owned(),
            _ => format!("'{}'", word.replace('\'', r"'\''")),
        });
    words.collect::<Vec<_>>().join(" ")
}
