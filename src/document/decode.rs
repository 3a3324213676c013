//! Bytes of a file to the text that marks point into.
//!
//! Everything later counts in bytes of this text, so it is made once, here: the byte order mark is
//! cut off, line breaks stay as they are, and what is not UTF-8 is refused.

use std::sync::Arc;

use super::Limits;
use crate::diagnostic::Diagnostic;

/// The text of a file, to be given to [`crate::diagnostic::Sources::add`] and to
/// [`load`](super::load).
///
/// # Errors
///
/// A diagnostic about the file `path` when it is larger than the limit (`yaml-file-too-large`), is
/// UTF-16 or UTF-32 (`yaml-utf-16`), or is not valid UTF-8 (`yaml-not-utf-8`, which names the byte,
/// counted from 1, line and column).
pub fn decode(path: &str, bytes: &[u8], limits: &Limits) -> Result<Arc<str>, Box<Diagnostic>> {
    let most = limits.file_bytes.min(u32::MAX as usize - 1);
    if bytes.len() > most {
        let message = format!("file has {} bytes, at most {most} are read", bytes.len());
        return Err(refuse("yaml-file-too-large", path, message));
    }
    if matches!(bytes, [0xfe, 0xff, ..] | [0xff, 0xfe, ..]) {
        let message = "file is written in UTF-16 or UTF-32, documents are read in UTF-8 only";
        let diagnostic = refuse("yaml-utf-16", path, message.to_owned());
        return Err(Box::new(diagnostic.hint(
            "save it as UTF-8, for example with `iconv -f UTF-16 -t UTF-8`",
        )));
    }
    let body = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(body) {
        Ok(text) => Ok(Arc::from(text)),
        Err(error) => {
            let at = error.valid_up_to();
            let sound = String::from_utf8_lossy(&body[..at]);
            let line = sound.matches('\n').count() + 1;
            let column = sound.rsplit('\n').next().unwrap_or("").chars().count() + 1;
            let byte = at + (bytes.len() - body.len()) + 1;
            let message = format!(
                "byte {byte} (line {line}, column {column}) is not valid UTF-8: {:#04x}",
                body[at]
            );
            Err(refuse("yaml-not-utf-8", path, message))
        }
    }
}

fn refuse(code: &'static str, path: &str, message: String) -> Box<Diagnostic> {
    Box::new(Diagnostic::error_in(code, Some(path), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(bytes: &[u8]) -> (&'static str, String) {
        let error = decode("a.yaml", bytes, &Limits::default()).unwrap_err();
        (error.code.0, error.message)
    }

    #[test]
    fn a_byte_order_mark_is_cut_off_and_line_breaks_stay() {
        let text = decode(
            "a.yaml",
            b"\xef\xbb\xbfa: 1\r\nb: 2\r\n",
            &Limits::default(),
        );
        assert_eq!(&*text.unwrap(), "a: 1\r\nb: 2\r\n");
    }

    #[test]
    fn bytes_that_are_no_utf_8_are_named_with_their_position() {
        let (code, message) = code(b"\xef\xbb\xbfa: 1\n\xc3\xbc: \xff\n");
        assert_eq!(code, "yaml-not-utf-8");
        assert_eq!(
            message,
            "byte 13 (line 2, column 4) is not valid UTF-8: 0xff"
        );
    }

    #[test]
    fn utf_16_is_refused_with_a_way_out() {
        assert_eq!(code(b"\xff\xfea\0").0, "yaml-utf-16");
        assert_eq!(code(b"\xfe\xff\0a").0, "yaml-utf-16");
    }

    #[test]
    fn a_file_over_the_limit_is_not_read() {
        let limits = Limits {
            file_bytes: 3,
            ..Limits::default()
        };
        let error = decode("a.yaml", b"abcd", &limits).unwrap_err();
        assert_eq!(error.code.0, "yaml-file-too-large");
    }
}
