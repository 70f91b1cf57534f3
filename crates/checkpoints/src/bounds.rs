//! Text that fits.

/// `text`, or as much of its beginning as fits into `limit` bytes together with a mark that something is missing.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limit.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..end])
}
