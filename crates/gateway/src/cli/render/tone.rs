//! How important a word is, for whoever reads it in a terminal. Texts carry marks until they are printed: a mark is no control
//! character, so that what a terminal would obey can be escaped after a text is put together, whoever wrote its parts.

/// What a word says to somebody who glances at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Tone {
    Good,
    Doubtful,
    Bad,
    Strong,
}

/// Noncharacters, which Unicode keeps for use inside a program.
const MARKS: [(char, &str); 4] = [
    ('\u{fdd0}', "\u{1b}[32m"),
    ('\u{fdd1}', "\u{1b}[33m"),
    ('\u{fdd2}', "\u{1b}[31m"),
    ('\u{fdd3}', "\u{1b}[1m"),
];
const END: (char, &str) = ('\u{fdd4}', "\u{1b}[0m");

/// Text in a tone.
pub(in crate::cli) fn toned(tone: Tone, text: &str) -> String {
    let (mark, _) = MARKS[tone as usize];
    format!("{mark}{text}{}", END.0)
}

/// The text for a terminal that shows colours.
pub(in crate::cli) fn painted(text: &str) -> String {
    MARKS.iter().chain([&END]).fold(text.to_owned(), |text, (mark, code)| text.replace(*mark, code))
}

/// The text for everything else.
pub(in crate::cli) fn plain(text: &str) -> String {
    text.replace(is_mark, "")
}

/// How many characters of it are seen.
pub(super) fn width(text: &str) -> usize {
    text.chars().filter(|c| !is_mark(*c)).count()
}

fn is_mark(c: char) -> bool {
    c == END.0 || MARKS.iter().any(|(mark, _)| c == *mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_seen_in_colours_and_takes_no_room() {
        let text = toned(Tone::Bad, "down");
        assert_eq!(painted(&text), "\u{1b}[31mdown\u{1b}[0m");
        assert_eq!((plain(&text).as_str(), width(&text)), ("down", 4));
    }

    #[test]
    fn a_text_with_marks_of_its_own_makes_a_terminal_do_nothing_but_show_colours() {
        let forged = format!("\u{fdd2}{}\u{1b}[2J", "x");
        assert_eq!(plain(&crate::stderr::printable(&forged)), "x\\u{1b}[2J");
    }
}
