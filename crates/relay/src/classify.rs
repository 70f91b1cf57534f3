//! The class of a call: the operator's word, then a trusted server's, else `Mutating`. A tool's name is never evidence.

use crate::message::members;
use std::collections::BTreeMap;
use tidegate_core::WorkClass;

/// What is known of a call before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    /// Its class.
    pub class: WorkClass,
    /// Whether an idempotent call may be written again (the operator's `replay = true`).
    pub replay: bool,
}

impl Classified {
    const fn of(class: WorkClass) -> Self {
        Self { class, replay: false }
    }
}

/// What a server says of a tool. `None`: it doesn't say, or says something that isn't a boolean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Annotations {
    /// `readOnlyHint`.
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    pub idempotent: Option<bool>,
}

impl Annotations {
    /// Reads the JSON of one tool of a `tools/list`.
    #[must_use]
    pub fn of_tool(tool: &str) -> Self {
        let value = |object: &str, key: &str| -> Option<String> {
            let mut found = members(object).ok()?.into_iter().filter(|member| member.key == key);
            // Said twice is contradictory, and that is the same as not said.
            found.next().filter(|_| found.next().is_none()).map(|member| member.value.to_owned())
        };
        let Some(hints) = value(tool, "annotations") else { return Self::default() };
        let hint = |key| value(&hints, key).and_then(|text| text.parse().ok());
        Self {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
        }
    }

    fn class(self) -> WorkClass {
        match (self.read_only, self.destructive, self.idempotent) {
            (Some(true), Some(true), _) => WorkClass::Mutating,
            (Some(true), _, _) => WorkClass::ReadOnly,
            (_, _, Some(true)) => WorkClass::Idempotent,
            _ => WorkClass::Mutating,
        }
    }
}

/// Classifies the calls of one component.
///
/// # Examples
/// ```
/// use tidegate_core::WorkClass::{Mutating, ReadOnly};
/// use tidegate_relay::{Classified, Classifier};
/// let operator = [("read_*".to_owned(), Classified { class: ReadOnly, replay: false })];
/// let classifier = Classifier::new(operator, false);
/// assert_eq!(classifier.classify("tools/call", Some("read_file")).class, ReadOnly);
/// assert_eq!(classifier.classify("tools/call", Some("get_file")).class, Mutating);
/// assert_eq!(classifier.classify("resources/read", None).class, ReadOnly);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Classifier {
    rules: Vec<(String, Classified)>,
    trust_annotations: bool,
    annotations: BTreeMap<String, Annotations>,
}

impl Classifier {
    /// With the operator's globs on tool names (`*` any text, `?` any character).
    ///
    /// Of several that match, the one with the most literal characters counts; of equals, the more dangerous class.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = (String, Classified)>, trust_annotations: bool) -> Self {
        Self { rules: rules.into_iter().collect(), trust_annotations, annotations: BTreeMap::new() }
    }

    /// Takes what the current generation says of its tools.
    pub fn set_annotations(&mut self, annotations: BTreeMap<String, Annotations>) {
        self.annotations = annotations;
    }

    /// The class of a request: of a `tools/call` by its tool, of anything else by its method.
    #[must_use]
    pub fn classify(&self, method: &str, tool: Option<&str>) -> Classified {
        match (method, tool) {
            ("tools/call", Some(tool)) => self.tool(tool),
            ("tools/call", None) => Classified::of(WorkClass::Mutating),
            (method, _) => by_protocol(method),
        }
    }

    fn tool(&self, tool: &str) -> Classified {
        let matching = self.rules.iter().filter(|(glob, _)| glob_matches(glob, tool));
        let literal = |glob: &str| glob.chars().filter(|c| !"*?".contains(*c)).count();
        if let Some((_, word)) =
            matching.max_by_key(|(glob, word)| (literal(glob), word.class, std::cmp::Reverse(word.replay)))
        {
            return *word;
        }
        match self.annotations.get(tool) {
            Some(annotations) if self.trust_annotations => Classified::of(annotations.class()),
            _ => Classified::of(WorkClass::Mutating),
        }
    }
}

/// The class that the protocol itself gives a method. What it doesn't know may do anything.
fn by_protocol(method: &str) -> Classified {
    match method {
        "initialize"
        | "ping"
        | "tools/list"
        | "prompts/list"
        | "prompts/get"
        | "resources/list"
        | "resources/templates/list"
        | "resources/read"
        | "completion/complete" => Classified::of(WorkClass::ReadOnly),
        "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
            Classified { class: WorkClass::Idempotent, replay: true }
        }
        _ => Classified::of(WorkClass::Mutating),
    }
}

/// Whether `glob` matches all of `text`.
pub(crate) fn glob_matches(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut g, mut t) = (0, 0);
    // Where to go back to: the last star, and how much of the text it has swallowed.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if g < glob.len() && glob[g] == '*' {
            star = Some((g, t));
            g += 1;
        } else if g < glob.len() && (glob[g] == '?' || glob[g] == text[t]) {
            g += 1;
            t += 1;
        } else if let Some((at, swallowed)) = star {
            (g, t) = (at, swallowed + 1);
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|c| *c == '*')
}
