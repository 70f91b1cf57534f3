//! The two pictures of a report, drawn as HTML tables that need no script: which runs were equal, and which factor moves
//! which records. Pure; colour never says anything that a sign or a word doesn't say too.

use std::fmt::Write as _;

use crate::ablation::{Ablation, Line};
use crate::document::{Block, escape};
use crate::factor::Factor;
use crate::record::{Cell, Record, SeedProbe};

/// Squares in one cell; a thousand runs are shown as a rate.
const MAX_SQUARES: u32 = 120;
/// Rows of the matrix that the page shows; `determinism.json` has the others.
const MAX_ROWS: usize = 60;
/// Rows that differ for the same factors are shown as one once there are this many of them in a row.
const RUN_OF_ROWS: usize = 4;

const STYLE: &str = "<style>\
.p{border-collapse:separate;border-spacing:2px;font-size:.85em}.p td,.p th{border:0;padding:.2rem .5rem;vertical-align:middle}\
.p thead th{vertical-align:bottom}.p .s{display:inline-block;width:.7em;height:.7em;margin:1px;border-radius:2px}\
.p .e{background:#2a9d5c}.p .r{background:#64748b}.p .d{background:#d1495b}.p td.m{background:#d1495b;color:#fff;text-align:center}\
.p td.n{background:#2a9d5c22;text-align:center}.p td.x{background:#8883;text-align:center}.p .t{font-family:ui-monospace,monospace;\
max-width:34rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}.k{font-size:.85em;opacity:.8}</style>";

/// Condition and part by seed, for every executor of the record.
pub(crate) fn runs(record: &Record) -> Block {
    let mut rows = String::new();
    let mut add = |executor: &str, cells: &[Cell], probe: Option<&SeedProbe>| {
        for (at, cell) in cells.iter().enumerate() {
            let other = probe.filter(|_| at == 0).map_or(String::new(), other_seed);
            _ = write!(
                rows,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{other}</td></tr>",
                escape(executor),
                cell.condition,
                escape(&cell.part),
                squares(cell),
                claim(cell)
            );
        }
    };
    add(&record.executor.name, &record.cells, record.observation.seed_probe.as_ref());
    for outcome in &record.beside {
        add(&outcome.executor.name, &outcome.cells, outcome.observation.seed_probe.as_ref());
    }
    let seeds = record.cells.first().map_or("the seed".to_owned(), |cell| format!("seed {}", cell.seed));
    Block::Picture {
        title: "Condition by seed: one square is one run".to_owned(),
        html: format!(
            "{STYLE}<table class=\"p\"><thead><tr><th>executor</th><th>condition</th><th>part</th><th>{seeds}, run after run</th>\
             <th>what that shows</th><th>another seed</th></tr></thead><tbody>{rows}</tbody></table>\
             <p class=\"k\"><span class=\"p\"><i class=\"s r\"></i> the run that others are compared with \
             <i class=\"s e\"></i> equal to it <i class=\"s d\"></i> ✕ different</span></p>"
        ),
    }
}

fn squares(cell: &Cell) -> String {
    let repetitions = cell.runs.saturating_sub(1);
    let shown = |count: u32, class: &str| {
        format!("<i class=\"s {class}\"></i>").repeat(usize::try_from(count).unwrap_or_default())
    };
    let different = repetitions.saturating_sub(cell.equal);
    if cell.runs > MAX_SQUARES {
        return format!("{} of {repetitions} repetitions equal", cell.equal);
    }
    let cross = if different > 0 { " ✕" } else { "" };
    let words = format!("{} of {repetitions} repetitions equal", cell.equal);
    format!(
        "<span title=\"{words}\" role=\"img\" aria-label=\"{words}\">{}{}{}</span>{cross}",
        shown(cell.runs.min(1), "r"),
        shown(cell.equal, "e"),
        shown(different, "d")
    )
}

fn claim(cell: &Cell) -> String {
    let repetitions = cell.runs.saturating_sub(1);
    match (cell.bound_95, cell.rate) {
        (Some(bound), _) => {
            format!("{} of {repetitions} equal; at 95 % fewer than {:.1} % differ", cell.equal, bound * 100.0)
        }
        (None, Some(rate)) => format!("{:.0} % differed, {} outcomes", rate * 100.0, cell.distinct),
        (None, None) => "nothing to compare".to_owned(),
    }
}

fn other_seed(probe: &SeedProbe) -> String {
    let said = if probe.differs { "gave something else" } else { "gave the same" };
    format!("seed {} {said}", probe.seed)
}

/// Factor by record; nothing without an ablation.
pub(crate) fn factors(ablation: &Ablation) -> Block {
    let head: String = ablation
        .factors
        .iter()
        .map(|moved| {
            let title = if moved.runs == 0 { "not moved: " } else { "" };
            format!(
                "<th scope=\"col\" title=\"{title}{}\">{}<br>{}</th>",
                escape(&moved.change),
                moved.factor.name().replace('_', " "),
                if moved.runs == 0 { "not moved".to_owned() } else { moved.differing.to_string() }
            )
        })
        .collect();
    let groups = grouped(&ablation.lines);
    let mut rows = String::new();
    for (line, more) in groups.iter().take(MAX_ROWS) {
        row(&mut rows, ablation, line, *more);
    }
    let hidden = groups.len().saturating_sub(MAX_ROWS) + ablation.lines_left_out;
    let hidden =
        if hidden == 0 { String::new() } else { format!(" {hidden} more rows are in determinism.json.") };
    Block::Picture {
        title: "Factor by record: what changes when one thing alone is changed".to_owned(),
        html: format!(
            "<table class=\"p\"><thead><tr><th>record</th><th>what stands there, everything pinned</th>{head}</tr></thead>\
             <tbody>{rows}</tbody></table><p class=\"k\">● differs when this factor alone is changed. The number below a \
             factor counts the records that it moves. {} records were moved by none.{hidden}</p>",
            ablation.lines_steady
        ),
    }
}

/// Neighbours that the same factors move, as one row with the number of the others.
fn grouped(lines: &[Line]) -> Vec<(&Line, usize)> {
    let same = |a: &&Line, b: &&Line| {
        a.stream == b.stream && a.factors == b.factors && a.steady == b.steady && a.index + 1 == b.index
    };
    let lines: Vec<&Line> = lines.iter().collect();
    lines
        .chunk_by(same)
        .flat_map(|run| match run {
            [first, rest @ ..] if run.len() >= RUN_OF_ROWS => vec![(*first, rest.len())],
            run => run.iter().map(|line| (*line, 0)).collect(),
        })
        .collect()
}

fn row(rows: &mut String, ablation: &Ablation, line: &Line, more: usize) {
    let cell = |moved: &crate::ablation::Moved| match (moved.runs, line.factors.contains(&moved.factor)) {
        (0, _) => "<td class=\"x\">–</td>",
        (_, true) => "<td class=\"m\">●</td>",
        (_, false) => "<td class=\"n\">·</td>",
    };
    let cells: String = ablation.factors.iter().map(cell).collect();
    let to = if more == 0 { String::new() } else { format!("–{}", line.index + more) };
    let unsteady = if line.steady { "" } else { " (differs with everything pinned too)" };
    let text = line.text.as_deref().unwrap_or("(more records than that)");
    _ = write!(
        rows,
        "<tr><th scope=\"row\">{} {}{to}</th><td class=\"t\" title=\"{text}\">{text}{unsteady}</td>{cells}</tr>",
        escape(&line.stream),
        line.index,
        text = escape(text)
    );
}

/// How often each factor moves something, for those who read the text.
pub(crate) fn summary(ablation: &Ablation) -> Vec<(Factor, String, String)> {
    ablation
        .factors
        .iter()
        .map(|moved| {
            let effect = match moved.runs {
                0 => "not moved".to_owned(),
                _ => format!("{} records differ", moved.differing),
            };
            (moved.factor, moved.change.clone(), effect)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(index: usize, factors: &[Factor]) -> Line {
        let text = Some(format!("<record {index}>"));
        Line { stream: "stdout".to_owned(), index, text, steady: true, factors: factors.to_vec() }
    }

    #[test]
    fn neighbours_that_the_same_factors_move_are_one_row() {
        let clock = [Factor::RtcBase];
        let mut lines: Vec<Line> = (0..5).map(|index| line(index, &clock)).collect();
        lines.push(line(5, &[Factor::Seed]));
        lines.push(line(9, &clock));
        let groups: Vec<_> = grouped(&lines).into_iter().map(|(line, more)| (line.index, more)).collect();
        assert_eq!(groups, [(0, 4), (5, 0), (9, 0)]);
    }

    #[test]
    fn a_run_that_differs_is_marked_by_a_sign_and_not_by_colour_alone() {
        let cell = |equal| crate::verdict::cell(crate::Condition::Idle, "boot", 1, 5, equal, 2);
        assert!(squares(&cell(3)).ends_with("✕") && squares(&cell(3)).contains("3 of 4"));
        assert!(!squares(&cell(4)).contains('✕'));
        assert_eq!(squares(&cell(4)).matches("class=\"s e\"").count(), 4);
    }

    #[test]
    fn what_a_subject_wrote_is_escaped_in_the_matrix() {
        let ablation = Ablation {
            executor: "vm".to_owned(),
            part: "boot".to_owned(),
            pinned_runs: 2,
            pinned_equal: 1,
            factors: Vec::new(),
            lines: vec![line(0, &[])],
            lines_left_out: 0,
            lines_steady: 0,
        };
        let Block::Picture { html, .. } = factors(&ablation) else { panic!("a picture") };
        assert!(html.contains("&lt;record 0&gt;") && !html.contains("<record"), "{html}");
    }
}
