//! The report at a glance, for the page in a browser: the answer, and a cell for each bullet and level. It says nothing that
//! the text beside it doesn't say in words, and runs no script.

use std::fmt::Write as _;

use tidegate_determinism::document::escape;

use super::model::{Level, Proof, Release, Report, Status};

/// How a status looks: ground, mark, and the word for it. Readable on paper and by those who see no colours.
fn look(status: Status) -> (&'static str, &'static str, &'static str) {
    match status {
        Status::Proven => ("#1a7f37", "✓", "proven"),
        Status::Failed => ("#cf222e", "✗", "failed"),
        Status::Pending => ("#9a6700", "…", "pending"),
        Status::NotApplicable => ("#6e7781", "–", "not applicable"),
    }
}

/// The answer as a banner.
pub(super) fn banner(report: &Report) -> String {
    let (ground, word) = match report.release {
        Release::Allowed => ("#1a7f37", "allowed"),
        Release::Blocked => ("#cf222e", "blocked"),
    };
    let of = |wanted: Status| {
        report
            .bullets
            .iter()
            .flat_map(|bullet| bullet.levels.values())
            .filter(|it| it.status == wanted)
            .count()
    };
    let counts: Vec<String> = [Status::Proven, Status::Failed, Status::Pending]
        .into_iter()
        .filter(|status| of(*status) > 0 || *status == Status::Proven)
        .map(|status| format!("{} {}", of(status), look(status).2))
        .collect();
    format!(
        "<div style=\"background:{ground};color:#fff;border-radius:.5rem;padding:.8rem 1.2rem\">\
         <span style=\"font-size:1.6rem;font-weight:700\">{word}</span> \
         <span style=\"margin-left:1rem\">{} · {} tests · commit {}</span></div>",
        counts.join(", "),
        report.tests.total,
        escape(report.commit.get(..12).unwrap_or(&report.commit))
    )
}

/// Ten bullets, three levels each.
pub(super) fn grid(report: &Report) -> String {
    let mut html = String::from(
        "<div style=\"display:grid;grid-template-columns:minmax(12rem,1fr) repeat(3,minmax(6rem,10rem));gap:.25rem;max-width:52rem\">\
         <span></span>",
    );
    for level in Level::ALL {
        // Writing to a String can't fail.
        let _ = write!(html, "<strong style=\"text-align:center\">{}</strong>", level.name());
    }
    for bullet in &report.bullets {
        let _ = write!(html, "<span>{} {}</span>", bullet.id, escape(bullet.title));
        for level in Level::ALL {
            match bullet.levels.get(&level) {
                Some(proof) => html.push_str(&cell(proof)),
                None => html.push_str("<span></span>"),
            }
        }
    }
    html + "</div>"
}

fn cell(proof: &Proof) -> String {
    let (ground, mark, word) = look(proof.status);
    let tests = proof.evidence.len();
    let took: u64 = proof.evidence.iter().map(|shown| shown.duration_ms).sum();
    let told = match (tests, &proof.pending) {
        (_, Some(pending)) => format!("{word}: {}", pending.reason),
        (0, None) => word.to_owned(),
        (1, None) => format!("{word} by 1 test in {:.1} s", took as f64 / 1000.0),
        (n, None) => format!("{word} by {n} tests in {:.1} s", took as f64 / 1000.0),
    };
    format!(
        "<span title=\"{}\" style=\"background:{ground};color:#fff;border-radius:.25rem;text-align:center;padding:.1rem .4rem\">{mark} \
         {word}</span>",
        escape(&told)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::decide::{Input, decide, tests::complete};

    #[test]
    fn the_banner_says_the_answer_and_how_much_is_proven() {
        let allowed = banner(&decide(complete()));
        assert!(allowed.contains(">allowed<") && allowed.contains("20 proven"), "{allowed}");
        let blocked = banner(&decide(Input::default()));
        assert!(blocked.contains(">blocked<") && blocked.contains("20 failed"), "{blocked}");
    }

    #[test]
    fn the_grid_has_a_cell_for_each_bullet_and_level_that_needs_no_colours() {
        let grid = grid(&decide(complete()));
        assert_eq!(grid.matches("✓ proven").count(), 20, "{grid}");
        assert_eq!(grid.matches("– not applicable").count(), 10, "{grid}");
        assert!(grid.contains("proven by 1 test in"), "{grid}");
    }

    #[test]
    fn what_a_test_or_a_commit_is_called_cannot_break_the_page() {
        let mut report = decide(complete());
        report.commit = "<script>".to_owned();
        assert!(!banner(&report).contains("<script>"));
    }
}
