//! Reads scenario lines. It knows no verb: meaning belongs to the test that runs the scenario.

use std::str::FromStr;

/// A line that can't be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ScenarioError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

/// A whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scenario {
    /// The comments at the top, joined.
    pub title: String,
    /// The steps; their times never go back.
    pub steps: Vec<Step>,
}

/// One line: at this time, this actor does that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The line, counted from 1.
    pub line: usize,
    /// Milliseconds from the beginning.
    pub at_ms: u64,
    /// Who acts.
    pub actor: String,
    /// What they do.
    pub verb: String,
    /// To what, in order.
    pub args: Vec<String>,
    /// How, in order: `NAME=VALUE`.
    pub options: Vec<(String, String)>,
}

impl FromStr for Scenario {
    type Err = ScenarioError;
    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let mut scenario = Self::default();
        for (index, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), index + 1);
            if let Some(comment) = line.strip_prefix('#') {
                if scenario.steps.is_empty() {
                    let gap = if scenario.title.is_empty() { "" } else { "\n" };
                    scenario.title += &format!("{gap}{}", comment.trim());
                }
            } else if !line.is_empty() {
                let step = Step::parse(number, line)?;
                if scenario.steps.last().is_some_and(|last| step.at_ms < last.at_ms) {
                    return Err(step.error("time goes back"));
                }
                scenario.steps.push(step);
            }
        }
        Ok(scenario)
    }
}

impl Step {
    fn parse(line: usize, text: &str) -> Result<Self, ScenarioError> {
        let error = |message: String| ScenarioError { line, message };
        let mut words = words(text).map_err(error)?.into_iter();
        let mut next = |what| words.next().ok_or_else(|| error(format!("{what} is missing")));
        let at_ms = parse_millis(&next("the time")?).map_err(error)?;
        let (actor, verb) = (next("the actor")?, next("the verb")?);
        let (mut args, mut options) = (Vec::new(), Vec::new());
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => options.push((name.to_owned(), value.to_owned())),
                None => args.push(word),
            }
        }
        Ok(Self { line, at_ms, actor, verb, args, options })
    }

    /// An error about this line.
    #[must_use]
    pub fn error(&self, message: impl ToString) -> ScenarioError {
        ScenarioError { line: self.line, message: message.to_string() }
    }

    /// The argument at `index`, read as a `T`.
    ///
    /// # Errors
    /// [`ScenarioError`] when it is missing or isn't a `T`.
    pub fn arg<T: FromStr<Err: ToString>>(&self, index: usize) -> Result<T, ScenarioError> {
        let text =
            self.args.get(index).ok_or_else(|| self.error(format!("argument {} is missing", index + 1)))?;
        text.parse().map_err(|e: T::Err| self.error(e.to_string()))
    }

    /// The option `name`, read as a `T`, where it is given.
    ///
    /// # Errors
    /// [`ScenarioError`] when it isn't a `T`.
    pub fn option<T: FromStr<Err: ToString>>(&self, name: &str) -> Result<Option<T>, ScenarioError> {
        let read =
            |text: &str| text.parse().map_err(|e: T::Err| self.error(format!("{name}: {}", e.to_string())));
        self.find(name).map(read).transpose()
    }

    /// The option `name`, a length of time that has to be given.
    ///
    /// # Errors
    /// [`ScenarioError`] when it is missing or isn't a length of time.
    pub fn millis(&self, name: &str) -> Result<u64, ScenarioError> {
        self.option_millis(name)?.ok_or_else(|| self.error(format!("{name}=… is missing")))
    }

    /// The option `name`, a length of time, where it is given.
    ///
    /// # Errors
    /// [`ScenarioError`] when it isn't a length of time.
    pub fn option_millis(&self, name: &str) -> Result<Option<u64>, ScenarioError> {
        self.find(name).map(|text| parse_millis(text).map_err(|e| self.error(e))).transpose()
    }

    /// The error for a verb that the test doesn't know.
    #[must_use]
    pub fn unknown_verb(&self) -> ScenarioError {
        self.error(format!("no such verb: {}", self.verb))
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Splits at white space, outside double quotes; the quotes go.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for c in text.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quoted { Err("a quote isn't closed".to_owned()) } else { Ok(words) }
}

/// Reads `250ms`, `1.200s`, `5m` or `2h` as milliseconds.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_millis(text: &str) -> Result<u64, String> {
    let bad = || format!("a length of time is written 250ms, 1.200s, 5m or 2h; {text:?} is not");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
    let (number, unit) = text.split_at(split);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(bad()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |part: &str| if part.bytes().all(|b| b.is_ascii_digit()) { part.parse::<u64>().ok() } else { None };
    let scale = u32::try_from(fraction.len()).ok().and_then(|n| 10_u64.checked_pow(n)).ok_or_else(bad)?;
    let whole_ms = digits(whole).and_then(|n| n.checked_mul(unit_ms)).ok_or_else(bad)?;
    let fraction_ms = digits(fraction).and_then(|n| n.checked_mul(unit_ms)).ok_or_else(bad)? / scale;
    whole_ms.checked_add(fraction_ms).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let got = match text.parse::<Scenario>() {
            Ok(scenario) => format!("{:?}", scenario.steps),
            Err(error) => error.to_string(),
        };
        assert!(got.contains(expected), "{text:?}: {got}");
    }

    #[test]
    fn every_error_names_its_line() {
        check("# a title\n\n0s s1", "line 3: the verb is missing");
        check("0s s1 go\n1 s1 go", "line 2: a length of time is written");
        check("2s s1 go\n1.999s s1 go", "line 2: time goes back");
        check("0s s1 note \"open", "line 1: a quote isn't closed");
    }

    #[test]
    fn words_become_arguments_and_options() {
        check("0s s1 note files why=\"a b\"", r#"args: ["files"], options: [("why", "a b")]"#);
        check("0s s1 note why=", r#"options: [("why", "")]"#);
        let scenario: Scenario = "5s s1 take x ttl=1.5s n=2".parse().unwrap();
        let step = &scenario.steps[0];
        assert_eq!(step.arg::<String>(0).unwrap(), "x");
        assert_eq!(step.arg::<String>(1).unwrap_err().to_string(), "line 1: argument 2 is missing");
        assert_eq!((step.millis("ttl").unwrap(), step.option::<u8>("n").unwrap()), (1_500, Some(2)));
        assert_eq!(step.millis("grace").unwrap_err().to_string(), "line 1: grace=… is missing");
        assert_eq!(
            step.option::<u8>("ttl").unwrap_err().to_string(),
            "line 1: ttl: invalid digit found in string"
        );
        assert_eq!(step.unknown_verb().to_string(), "line 1: no such verb: take");
    }

    #[test]
    fn lengths_of_time_are_exact_or_refused() {
        for (text, ms) in [("250ms", 250), ("1.200s", 1_200), ("0s", 0), ("5m", 300_000), ("0.5h", 1_800_000)]
        {
            assert_eq!(parse_millis(text), Ok(ms), "{text}");
        }
        for text in [
            "",
            "s",
            "1",
            "-1s",
            "+1s",
            "1.s",
            "1d",
            "1 s",
            "99999999999999999999s",
            "0.00000000000000000000001s",
        ] {
            assert!(parse_millis(text).is_err(), "{text}");
        }
    }
}
