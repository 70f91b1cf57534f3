//! A document as blocks and spans, and its two renderings: Markdown and one static HTML page. It knows nothing of what it
//! says, and escapes everything that it is given except a picture's own drawing.

use std::fmt::Write as _;

/// A run of text within a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// Text.
    Plain(String),
    /// Text that stands out.
    Strong(String),
    /// Something that is typed or read by a program.
    Code(String),
    /// A link.
    Link {
        /// What is shown.
        text: String,
        /// Where it leads.
        url: String,
    },
}

/// What a paragraph, an item or a cell holds.
pub type Text = Vec<Span>;

/// One piece of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The document's title.
    Title(String),
    /// The title of a section.
    Heading(String),
    /// Running text.
    Paragraph(Text),
    /// Items without an order.
    List(Vec<Text>),
    /// A table with a head.
    Table {
        /// The titles of the columns.
        head: Vec<&'static str>,
        /// The cells, row by row.
        rows: Vec<Vec<Text>>,
    },
    /// What is typed at a terminal.
    Commands(Vec<String>),
    /// Lines of a program's output, as they are.
    Excerpt(Vec<String>),
    /// A picture for the page; Markdown has none and shows what else the document says.
    Picture {
        /// What it shows, for those who can't see it.
        title: String,
        /// Its drawing, as HTML that the maker of the picture has escaped.
        html: String,
    },
}

/// Text.
pub fn plain(text: impl Into<String>) -> Span {
    Span::Plain(text.into())
}

/// Text that stands out.
pub fn strong(text: impl Into<String>) -> Span {
    Span::Strong(text.into())
}

/// Something that is typed or read by a program.
pub fn code(text: impl Into<String>) -> Span {
    Span::Code(text.into())
}

/// The document as Markdown.
pub fn markdown(blocks: &[Block]) -> String {
    let spans = |text: &Text| text.iter().map(markdown_span).collect::<String>();
    let mut out = String::new();
    for block in blocks {
        match block {
            Block::Title(text) => _ = writeln!(out, "# {text}"),
            Block::Heading(text) => _ = writeln!(out, "## {text}"),
            Block::Paragraph(text) => _ = writeln!(out, "{}", spans(text)),
            Block::List(items) => {
                for item in items {
                    _ = writeln!(out, "- {}", spans(item));
                }
            }
            Block::Table { head, rows } => {
                _ = writeln!(out, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
                for row in rows {
                    let cells: Vec<_> = row.iter().map(spans).collect();
                    _ = writeln!(out, "| {} |", cells.join(" | "));
                }
            }
            Block::Commands(lines) => _ = writeln!(out, "```console\n{}\n```", lines.join("\n")),
            Block::Excerpt(lines) => {
                for line in lines {
                    _ = writeln!(out, "    {}", one_line(line));
                }
            }
            Block::Picture { .. } => continue,
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn markdown_span(span: &Span) -> String {
    // Line breaks and bars would end a cell or a list item.
    let flat = |text: &str| one_line(&text.replace('\n', " ")).replace('|', "\\|");
    match span {
        Span::Plain(text) => flat(text).replace('<', "\\<"),
        Span::Strong(text) => format!("**{}**", flat(text)),
        Span::Code(text) => format!("`{}`", flat(text).replace('`', "'")),
        Span::Link { text, url } => format!("[{}](<{}>)", flat(text), flat(url)),
    }
}

/// Control characters as escapes, so that a terminal obeys nothing that it is shown.
fn one_line(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// The document as one page that needs nothing else.
pub fn html(title: &str, blocks: &[Block]) -> String {
    let spans = |text: &Text| text.iter().map(html_span).collect::<String>();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n",
        escape(title)
    );
    for block in blocks {
        match block {
            Block::Title(text) => _ = writeln!(out, "<h1>{}</h1>", escape(text)),
            Block::Heading(text) => _ = writeln!(out, "<h2>{}</h2>", escape(text)),
            Block::Paragraph(text) => _ = writeln!(out, "<p>{}</p>", spans(text)),
            Block::List(items) => {
                out.push_str("<ul>\n");
                for item in items {
                    _ = writeln!(out, "<li>{}</li>", spans(item));
                }
                out.push_str("</ul>\n");
            }
            Block::Table { head, rows } => {
                let head: String = head.iter().map(|cell| format!("<th>{}</th>", escape(cell))).collect();
                _ = writeln!(out, "<table>\n<tr>{head}</tr>");
                for row in rows {
                    let cells: String = row.iter().map(|cell| format!("<td>{}</td>", spans(cell))).collect();
                    _ = writeln!(out, "<tr>{cells}</tr>");
                }
                out.push_str("</table>\n");
            }
            Block::Commands(lines) | Block::Excerpt(lines) => {
                let lines: Vec<String> = lines.iter().map(|line| escape(&one_line(line))).collect();
                _ = writeln!(out, "<pre>{}</pre>", lines.join("\n"));
            }
            Block::Picture { title, html } => {
                _ = writeln!(out, "<figure><figcaption>{}</figcaption>\n{html}\n</figure>", escape(title));
            }
        }
    }
    out.push_str("</html>\n");
    out
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse}td,th{border:1px solid #8888;padding:.3rem .6rem;text-align:left;vertical-align:top}\
pre,code{font-family:ui-monospace,monospace;font-size:.9em}pre{padding:.6rem;background:#8882;overflow:auto}\
figure{margin:1rem 0;overflow-x:auto}figcaption{font-weight:600;margin-bottom:.4rem}";

fn html_span(span: &Span) -> String {
    match span {
        Span::Plain(text) => escape(text),
        Span::Strong(text) => format!("<strong>{}</strong>", escape(text)),
        Span::Code(text) => format!("<code>{}</code>", escape(text)),
        Span::Link { text, url } => format!("<a href=\"{}\">{}</a>", escape(url), escape(text)),
    }
}

/// Text as a page may hold it.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(block: Block, in_markdown: &str, in_html: &str) {
        assert_eq!(markdown(std::slice::from_ref(&block)), format!("{in_markdown}\n"));
        let page = html("t", &[block]);
        assert!(page.contains(in_html), "{page}");
    }

    #[test]
    fn each_block_has_two_renderings() {
        check(Block::Title("A".into()), "# A", "<h1>A</h1>");
        check(
            Block::Paragraph(vec![plain("a "), strong("b"), code("c")]),
            "a **b**`c`",
            "<p>a <strong>b</strong><code>c</code></p>",
        );
        check(
            Block::List(vec![vec![plain("a")], vec![plain("b")]]),
            "- a\n- b",
            "<ul>\n<li>a</li>\n<li>b</li>\n</ul>",
        );
        check(
            Block::Table { head: vec!["x", "y"], rows: vec![vec![vec![plain("1")], vec![plain("2")]]] },
            "| x | y |\n|---|---|\n| 1 | 2 |",
            "<tr><th>x</th><th>y</th></tr>\n<tr><td>1</td><td>2</td></tr>",
        );
        check(Block::Commands(vec!["$ true".into()]), "```console\n$ true\n```", "<pre>$ true</pre>");
        check(Block::Excerpt(vec!["- a".into(), "+ b".into()]), "    - a\n    + b", "<pre>- a\n+ b</pre>");
        let picture = Block::Picture { title: "a < b".into(), html: "<svg></svg>".into() };
        check(picture, "", "<figcaption>a &lt; b</figcaption>\n<svg></svg>");
    }

    #[test]
    fn what_a_subject_wrote_cannot_break_the_page() {
        check(Block::Paragraph(vec![plain("a|b\n<i>")]), "a\\|b \\<i>", "<p>a|b\n&lt;i&gt;</p>");
        check(Block::Paragraph(vec![code("a`b")]), "`a'b`", "<code>a`b</code>");
        check(Block::Excerpt(vec!["\u{1b}[2J<".into()]), "    \\u{1b}[2J<", "<pre>\\u{1b}[2J&lt;</pre>");
        check(
            Block::Paragraph(vec![Span::Link { text: "t".into(), url: "https://e.org/\"x\"".into() }]),
            "[t](<https://e.org/\"x\">)",
            "<a href=\"https://e.org/&quot;x&quot;\">t</a>",
        );
    }
}
