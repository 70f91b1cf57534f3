//! Divergences and their causes in words, and the matrix of factors. Pure.

use super::name_of;
use crate::ablation::Ablation;
use crate::document::{Block, Span, code, plain, strong};
use crate::pictures;
use crate::record::{Cause, Confidence, Divergence};

/// Where, and what it looks like.
pub(super) fn place(divergence: &Divergence) -> String {
    format!("`{}` record {}, {}", divergence.stream, divergence.index, cause(divergence))
}

fn cause(divergence: &Divergence) -> String {
    match (divergence.confidence, divergence.cause) {
        (_, Cause::Unclassified) => "cause unclassified".to_owned(),
        (confidence, cause) => format!("{} cause: {}", name_of(&confidence), meaning(cause)),
    }
}

fn meaning(cause: Cause) -> &'static str {
    match cause {
        Cause::Clock => "the clock",
        Cause::Entropy => "random numbers",
        Cause::Pid => "a process number",
        Cause::Address => "a place in memory",
        Cause::Schedule => "scheduling (the same answers in another order)",
        Cause::Order => {
            "order (the same words or records in another order: scheduling or a hash seed, which look the same here)"
        }
        Cause::Unclassified => "unclassified",
    }
}

/// Every divergence with what came before it.
pub(super) fn listed(divergences: &[Divergence], none: &str) -> Vec<Block> {
    if divergences.is_empty() {
        return vec![Block::Paragraph(vec![plain(none)])];
    }
    // Several causes of one difference are told together.
    let same = |a: &Divergence, b: &Divergence| {
        (&a.condition, a.run, &a.stream, a.index) == (&b.condition, b.run, &b.stream, b.index)
    };
    divergences.chunk_by(same).flat_map(together).collect()
}

fn together(divergences: &[Divergence]) -> Vec<Block> {
    let Some(divergence) = divergences.first() else { return Vec::new() };
    let runs = match divergence.run {
        0 => "one condition's run 0 against the other's".to_owned(),
        run => format!("run {run} against run 0"),
    };
    let mut text = vec![
        strong(format!("{}, {runs}", divergence.condition)),
        plain(": "),
        code(&divergence.stream),
        plain(format!(" record {}.", divergence.index)),
    ];
    divergences.iter().for_each(|divergence| text.extend(explained(divergence)));
    let end = "(the stream had ended)";
    let mut lines: Vec<String> =
        divergence.context.before.iter().map(|before| format!("  {before}")).collect();
    lines.push(format!("- {}", divergence.context.expected.as_deref().unwrap_or(end)));
    lines.push(format!("+ {}", divergence.context.observed.as_deref().unwrap_or(end)));
    vec![Block::Paragraph(text), Block::Excerpt(lines)]
}

fn explained(divergence: &Divergence) -> Vec<Span> {
    let cause = cause(divergence);
    let mut text = vec![plain(format!(" {}{}", cause[..1].to_uppercase(), &cause[1..]))];
    if !divergence.levers.is_empty() {
        let (before, after) = match divergence.confidence {
            Confidence::Confirmed => (" (changed alone, these move it: ", ")"),
            _ => (" (", " could confirm it)"),
        };
        text.push(plain(before));
        text.extend(levers(&divergence.levers));
        text.push(plain(after));
    }
    text.push(plain("."));
    text
}

fn levers(names: &[String]) -> Vec<Span> {
    let mut spans = Vec::new();
    for name in names {
        if !spans.is_empty() {
            spans.push(plain(", "));
        }
        spans.push(code(name));
    }
    spans
}

/// The matrix: a picture for the page, a summary for everybody.
pub(super) fn ablation(ablation: &Ablation) -> Vec<Block> {
    let again = ablation.pinned_runs.saturating_sub(1);
    let rows = pictures::summary(ablation)
        .into_iter()
        .map(|(factor, change, effect)| {
            vec![vec![code(factor.name())], vec![plain(change)], vec![plain(effect)]]
        })
        .collect();
    vec![
        Block::Paragraph(vec![
            plain("Under "),
            code(&ablation.executor),
            plain(format!(
                " ({}), one factor was changed at a time and everything else left pinned. With everything pinned, before and \
                 after that, {} of {again} repetitions were equal. A factor that moves a record is one of its causes; causes \
                 stack, so a record may have several.",
                ablation.part, ablation.pinned_equal
            )),
        ]),
        Block::Table { head: vec!["factor", "change", "effect"], rows },
        pictures::factors(ablation),
    ]
}
