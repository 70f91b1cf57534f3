//! A rule on the CI workflow: its matrix names each partition once, and all of them together are the whole.

use super::Finding;

/// The workflow that runs the tests in partitions.
pub(crate) const PARTITIONS_FILE: &str = ".github/workflows/ci.yml";

/// `slice: [1, 2, 3]` in the matrix goes with `slice:${{ matrix.slice }}/3` in the command.
pub(super) fn matrix_is_complete(workflow: &str) -> Vec<Finding> {
    let slices: Option<Vec<usize>> = between(workflow, "slice: [", "]")
        .and_then(|list| list.split(',').map(|slice| slice.trim().parse().ok()).collect());
    match (slices, slice_count(workflow)) {
        (Some(slices), Some(count)) if slices == (1..=count).collect::<Vec<_>>() => Vec::new(),
        (Some(slices), Some(count)) => {
            vec![format!(
                "{PARTITIONS_FILE}: the matrix has slices {slices:?} but the command says there are {count}"
            )]
        }
        _ => vec![format!(
            "{PARTITIONS_FILE}: no `slice: [1, …]` with a `slice:${{{{ matrix.slice }}}}/N` found"
        )],
    }
}

/// How many slices the workflow's command divides the tests into.
pub(crate) fn slice_count(workflow: &str) -> Option<usize> {
    let rest = between(workflow, "slice:${{ matrix.slice }}/", "\n")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    Some(rest.split_once(end)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(matrix: &str, command: &str, complete: bool) {
        let workflow = format!("matrix:\n  slice: {matrix}\nsteps:\n  - run: {command}\n");
        let findings = matrix_is_complete(&workflow);
        assert_eq!(findings.is_empty(), complete, "{matrix} {command}: {findings:?}");
    }

    #[test]
    fn the_matrix_names_every_slice_once() {
        let of = |count: &str| format!("cargo xtask ci --partition slice:${{{{ matrix.slice }}}}/{count}");
        check("[1, 2]", &of("2"), true);
        check("[1, 2, 3]", &of("3"), true);
        check("[1, 2]", &of("3"), false);
        check("[1, 1]", &of("2"), false);
        check("[0, 1]", &of("2"), false);
        check("all", &of("2"), false);
        check("[1, 2]", "cargo xtask ci", false);
    }
}
