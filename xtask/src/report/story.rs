//! What `report.md` and `index.html` say, for a reader who has never seen the project. It tells what the report holds
//! and adds no judgement of its own.

use serde_json::Value;
use tidegate_determinism::document::{Block, Span, Text, code, plain, strong};
use tidegate_simulator::Bug;

use super::bullets::BULLETS;
use super::glance;
use super::model::{Level, Outcome, Proof, Release, Report, Status};

pub(crate) const TITLE: &str = "Tidegate: may this version be released?";

pub(crate) fn tell(report: &Report) -> Vec<Block> {
    let picture = |title: &str, html: String| Block::Picture { title: title.to_owned(), html };
    let mut blocks = vec![
        Block::Title(TITLE.to_owned()),
        picture("", glance::banner(report)),
        Block::Paragraph(vec![plain(
            "Tidegate stands between agent sessions and the servers that they share, and restarts a server without losing \
             a session, an answer or a lock. Each version has to prove ten promises, the bullets, before it may be \
             released; this page says whether it did, and how to see for yourself.",
        )]),
        Block::Heading("Answer".to_owned()),
        Block::Paragraph(answer(report)),
    ];
    if !report.blockers.is_empty() {
        blocks.push(Block::List(report.blockers.iter().map(|blocker| vec![plain(blocker)]).collect()));
    }
    blocks.push(Block::Heading("The ten bullets".to_owned()));
    blocks.push(Block::Paragraph(vec![
        plain("Each is proved twice. "),
        strong("Simulated"),
        plain(": fake sessions under thousands of random schedules with faults. "),
        strong("Process"),
        plain(": real programs, real pipes, real kills. "),
        strong("External"),
        plain(": the same on a gateway that isn't ours, when one is configured."),
    ]));
    blocks.push(picture("At a glance", glance::grid(report)));
    blocks.push(bullets(report));
    blocks.push(Block::Heading("Evidence".to_owned()));
    blocks.push(evidence(report));
    blocks.push(Block::Heading("Simulation".to_owned()));
    blocks.push(Block::Paragraph(simulation(report.simulation.as_ref())));
    if let Some(hunts) = report.simulation.as_ref().and_then(|simulation| simulation["planted"].as_array()) {
        blocks.push(Block::Heading("Planted bugs".to_owned()));
        blocks.extend(planted(hunts));
    }
    if let Some(bench) = &report.bench {
        blocks.push(Block::Heading("Benchmark".to_owned()));
        blocks.extend(self::bench(bench));
    }
    blocks.push(Block::Heading("Determinism".to_owned()));
    blocks.push(Block::Paragraph(vec![plain(
        "A separate question: does the same program, started again from the same seed, do exactly the same? What the \
         check says about its subject never blocks a release. Beside the subject run programs whose answer is known \
         (controls); one that comes out wrong does block, because then the check itself is broken.",
    )]));
    blocks.push(Block::Paragraph(determinism(report.determinism.as_ref())));
    blocks.push(Block::Heading("See for yourself".to_owned()));
    blocks.push(Block::Commands(vec![
        format!("$ git checkout {}", report.commit.trim_end_matches("+changes")),
        "$ cargo xtask ci          # everything on this page".to_owned(),
        "$ cargo xtask suite       # the ten bullets alone".to_owned(),
        "$ cargo xtask simulate    # the simulation alone".to_owned(),
    ]));
    blocks.push(Block::Paragraph(vec![
        plain("The same in a form for programs: "),
        code("report.json"),
        plain(", described by "),
        code("schemas/report.schema.json"),
        plain("; "),
        code("docs/reports.md"),
        plain(" explains every file."),
    ]));
    if !report.links.is_empty() {
        blocks.push(Block::Heading("Belongs to".to_owned()));
        let link =
            |link: &super::model::Link| vec![Span::Link { text: link.title.clone(), url: link.url.clone() }];
        blocks.push(Block::List(report.links.iter().map(link).collect()));
    }
    blocks
}

fn answer(report: &Report) -> Text {
    let commit = [plain(" Commit "), code(&report.commit), plain(format!(", {}.", counted(report)))];
    let said = match report.release {
        Release::Allowed => strong("Yes, the release is allowed."),
        Release::Blocked => strong("No, the release is blocked."),
    };
    let mut text = vec![said];
    text.extend(commit);
    if report.release == Release::Blocked {
        text.push(plain(" What stands in the way:"));
    }
    text
}

fn counted(report: &Report) -> String {
    let parts = report.tests.partitions;
    format!("{} tests in {parts} {}", report.tests.total, if parts == 1 { "run" } else { "partitions" })
}

fn bullets(report: &Report) -> Block {
    let meaning =
        |id: u8| BULLETS.iter().find(|(bullet, ..)| *bullet == id).map_or("", |(_, _, meaning)| *meaning);
    let rows = report
        .bullets
        .iter()
        .map(|bullet| {
            let mut row = vec![
                vec![plain(bullet.id.to_string())],
                vec![strong(bullet.title), plain(format!(": {}", meaning(bullet.id)))],
            ];
            row.extend(
                Level::ALL.iter().map(|level| bullet.levels.get(level).map(status).unwrap_or_default()),
            );
            row
        })
        .collect();
    Block::Table { head: vec!["#", "bullet", "simulated", "process", "external"], rows }
}

fn status(proof: &Proof) -> Text {
    match (proof.status, &proof.pending) {
        (Status::Proven, _) => vec![plain("proven")],
        (Status::Failed, _) => vec![strong("failed")],
        (Status::Pending, Some(pending)) => {
            vec![plain(format!("pending: {} (", pending.reason)), code(&pending.issue), plain(")")]
        }
        (Status::Pending, None) => vec![plain("pending")],
        (Status::NotApplicable, _) => vec![plain("not applicable")],
    }
}

fn evidence(report: &Report) -> Block {
    let mut rows = Vec::new();
    for bullet in &report.bullets {
        for (level, proof) in &bullet.levels {
            for shown in &proof.evidence {
                rows.push(vec![
                    vec![plain(format!("{} {}", bullet.id, level.name()))],
                    vec![code(&shown.test)],
                    vec![match shown.outcome {
                        Outcome::Passed => plain("passed"),
                        Outcome::Failed => strong("failed"),
                    }],
                    vec![plain(shown.seeds.map(|seeds| seeds.to_string()).unwrap_or_default())],
                    vec![plain(format!("{:.1} s", shown.duration_ms as f64 / 1000.0))],
                ]);
            }
        }
    }
    if rows.is_empty() {
        return Block::Paragraph(vec![plain("No test left any.")]);
    }
    Block::Table { head: vec!["bullet", "test", "outcome", "schedules", "took"], rows }
}

fn simulation(simulation: Option<&Value>) -> Text {
    let Some(simulation) = simulation else { return vec![plain("It left no result.")] };
    let number = |key: &str| simulation[key].as_u64().unwrap_or(0);
    let hash = |key: &str| simulation[key].as_str().unwrap_or("(missing)").to_owned();
    let (first, second) = (hash("transcript_sha256"), hash("repeated_sha256"));
    let mut text = vec![plain(format!(
        "{} random schedules, {} steps, every bullet checked after each step. Run twice, in two processes: ",
        number("seeds"),
        number("steps")
    ))];
    if first == second {
        text.extend([plain("both gave the transcript "), code(first), plain(".")]);
    } else {
        text.extend([
            plain("they gave different transcripts, "),
            code(first),
            plain(" and "),
            code(second),
            plain("."),
        ]);
    }
    text
}

/// Every wrong decision that was planted, and what gave it away.
fn planted(hunts: &[Value]) -> [Block; 2] {
    let caught = hunts.iter().filter(|hunt| hunt["caught_by_seed"].is_u64()).count();
    let about = format!(
        "A check that can't fail proves nothing. So one wrong decision at a time is planted in the code, as somebody could have \
         written it, and schedules are run until a bullet is seen to break: {caught} of {} were caught. The schedule's seed \
         is all that is needed to see it again, step by step; a bug that isn't caught blocks the release.",
        hunts.len()
    );
    let row = |hunt: &Value| {
        let name = hunt["bug"].as_str().unwrap_or("(missing)");
        let what = Bug::named(name).map_or_else(|| name.to_owned(), |bug| bug.what.to_owned());
        let mut row = vec![vec![plain(hunt["bullet"].to_string())], vec![plain(what)]];
        match (hunt["caught_by_seed"].as_u64(), hunt["caught_as"].as_str()) {
            (Some(seed), Some(rule)) => row.extend([
                vec![plain(format!("schedule {seed}, step {}", hunt["steps"]))],
                vec![plain(rule)],
                vec![code(format!("cargo xtask simulate --planted {name} --seed {seed}"))],
            ]),
            _ => row.extend([
                vec![strong(format!("survived {} schedules", hunt["seeds"]))],
                Vec::new(),
                vec![code(format!("cargo xtask simulate --planted {name}"))],
            ]),
        }
        row
    };
    let head = vec!["bullet", "what is wrong", "caught by", "seen as", "see it"];
    [Block::Paragraph(vec![plain(about)]), Block::Table { head, rows: hunts.iter().map(row).collect() }]
}

/// Every row of the benchmark, with the machine that it is of.
fn bench(bench: &Value) -> [Block; 2] {
    let words = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let figure = |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let machine = &bench["machine"];
    let mut about = format!(
        "On {}, {} processors, {}, {}; ours to theirs, measured in turns.",
        words(&machine["processor"]),
        machine["processors"],
        words(&machine["kernel"]),
        words(&machine["file_system"]),
    );
    if bench["effort"] == "quick" {
        about
            .push_str(" A quick run, too short to compare with the goals: cargo xtask bench takes its time.");
    }
    let row = |row: &Value| {
        let ratio = &row["ratio"];
        let spread = format!("{} to {}", figure(&ratio["least"]), figure(&ratio["most"]));
        let verdict =
            row["reason"].as_str().map_or_else(|| words(&row["verdict"]), |why| format!("not run: {why}"));
        let what = format!("{} / {}", words(&row["ours"]), words(&row["theirs"]));
        vec![
            vec![code(words(&row["name"]))],
            vec![plain(what)],
            vec![plain(figure(&ratio["median"]))],
            vec![plain(spread)],
            vec![plain(words(&row["goal"]))],
            vec![plain(verdict)],
        ]
    };
    let rows = bench["rows"].as_array().into_iter().flatten().map(row).collect();
    let head = vec!["row", "ours / theirs", "ratio", "spread", "goal", "verdict"];
    [Block::Paragraph(vec![plain(about)]), Block::Table { head, rows }]
}

fn determinism(determinism: Option<&Value>) -> Text {
    let Some(determinism) = determinism else { return vec![plain("It left no result.")] };
    let words = |value: &Value| value.as_str().unwrap_or("(missing)").to_owned();
    let list = |value: &Value| {
        let items: Vec<_> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if items.is_empty() { String::new() } else { format!(" ({})", items.join(", ")) }
    };
    let controls = determinism["controls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let passed = controls.iter().filter(|control| control["passed"] == true).count();
    let argv: Vec<_> =
        determinism["subject"]["argv"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut text = Vec::new();
    if !argv.is_empty() {
        text.extend([plain("Subject: "), code(argv.join(" ")), plain(". ")]);
    }
    text.extend([
        plain("Level: "),
        strong(words(&determinism["verdict"]["level"])),
        plain(list(&determinism["verdict"]["qualifiers"])),
        plain(format!("; {passed} of {} controls came out as they must; recommendation: ", controls.len())),
        strong(words(&determinism["recommendation"]["decision"])),
        plain(". The whole answer is in "),
        code("determinism/determinism.md"),
        plain("."),
    ]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::decide::{decide, tests::complete};
    use tidegate_determinism::document::{html, markdown};

    #[test]
    fn a_stranger_reads_what_it_is_the_answer_and_how_to_repeat_it() {
        let page = markdown(&tell(&decide(complete())));
        for expected in [
            "# Tidegate: may this version be released?",
            "restarts a server without losing",
            "**Yes, the release is allowed.** Commit `c0ffee`, 2 tests in 1 run.",
            "| 4 | **unsafe mutation blocks restart**: a server isn't stopped while",
            "| proven | proven | not applicable |",
            "| 1 simulated | `bullet_1_simulated` | passed | 1000 | 0.0 s |",
            "1000 random schedules, 61234 steps",
            "until a bullet is seen to break: 1 of 1 were caught.",
            "| 1 | an operator approves what they asked for themselves | schedule 18, step 412 | no unilateral restart | \
             `cargo xtask simulate --planted own-request-approved --seed 18` |",
            "1 of 1 controls came out as they must",
            "On A Processor, 2 processors, Linux 6, ext4",
            "| `freshness` | a check / a clock | 2.500 | 2.400 to 2.700 | \\<= 3 | reached |",
            "not run: no etcd",
            "$ cargo xtask ci",
        ] {
            assert!(page.contains(expected), "{expected:?} is not in\n{page}");
        }
    }

    #[test]
    fn a_blocked_release_says_what_stands_in_the_way() {
        let mut input = complete();
        input.parts[0].evidence.pop();
        let page = markdown(&tell(&decide(input)));
        assert!(page.contains("**No, the release is blocked.**"), "{page}");
        assert!(
            page.contains(
                "- bullet 10 (no chat reconstruction), process: bullet_10_process: left no evidence"
            ),
            "{page}"
        );
        assert!(page.contains("| proven | **failed** | not applicable |"), "{page}");
    }

    #[test]
    fn a_planted_bug_that_survives_is_told_with_what_it_is() {
        let mut input = complete();
        let hunts = serde_json::json!([{
            "bug": "closing-does-not-close", "bullet": 2, "caught_by_seed": null, "caught_as": null, "steps": 0, "seeds": 1500,
        }]);
        input.parts[0].simulation.as_mut().unwrap()["planted"] = hunts;
        let page = markdown(&tell(&decide(input)));
        let row = "| 2 | a closed gate admits | **survived 1500 schedules** |  | `cargo xtask simulate --planted closing-does-not-close` |";
        assert!(page.contains(row), "{page}");
    }

    #[test]
    fn the_page_for_browsers_says_the_same() {
        let page = html(TITLE, &tell(&decide(complete())));
        assert!(page.contains("<strong>Yes, the release is allowed.</strong>"), "{page}");
    }
}
