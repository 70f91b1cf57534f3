//! A server's lists as it gave them: joined from pages, cached, and asked which tools came and went.

use crate::classify::Annotations;
use crate::message::members;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// One of the lists a server may offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    ResourceTemplates,
}

impl List {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::ResourceTemplates];

    /// The request that asks for it.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::ResourceTemplates => "resources/templates/list",
        }
    }

    /// The member of the result that holds the items.
    #[must_use]
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
        }
    }

    /// The server's capability that it belongs to.
    #[must_use]
    pub fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::ResourceTemplates => "resources",
        }
    }

    /// The list that `method` asks for.
    #[must_use]
    pub fn asked_by(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.method() == method)
    }

    /// The lists that a notification says have changed.
    #[must_use]
    pub fn changed_by(notification: &str) -> &'static [Self] {
        match notification {
            "notifications/tools/list_changed" => &[Self::Tools],
            "notifications/prompts/list_changed" => &[Self::Prompts],
            "notifications/resources/list_changed" => &[Self::Resources, Self::ResourceTemplates],
            _ => &[],
        }
    }
}

/// A list, page by page.
///
/// # Examples
/// ```
/// use tidegate_relay::{List, Pages};
/// let mut pages = Pages::new(List::Tools);
/// assert_eq!(pages.add(r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#)?, Some("\"2\"".to_owned()));
/// assert_eq!(pages.add(r#"{"tools":[{"name":"b"}]}"#)?, None);
/// assert_eq!(pages.finish(), r#"{"tools":[{"name":"a"},{"name":"b"}]}"#);
/// # Ok::<(), tidegate_relay::ListError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pages {
    list: List,
    items: Vec<String>,
    bytes: usize,
}

/// The most bytes of one list: as much as one line may have.
pub const MAX_LIST_BYTES: usize = crate::MAX_LINE_BYTES;

/// A list that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The result isn't one of this list.
    #[error("the server's answer to {method} has no list of {member}")]
    NotAList {
        /// What was asked.
        method: &'static str,
        /// What should be there.
        member: &'static str,
    },
    /// More than [`MAX_LIST_BYTES`].
    #[error("the server's answer to {method} has more than {MAX_LIST_BYTES} bytes")]
    TooLong {
        /// What was asked.
        method: &'static str,
    },
}

impl Pages {
    /// No page yet.
    #[must_use]
    pub fn new(list: List) -> Self {
        Self { list, items: Vec::new(), bytes: 0 }
    }

    /// Takes the result of one page; the JSON text of the cursor to the next one, where there is one.
    ///
    /// # Errors
    /// [`ListError`].
    pub fn add(&mut self, result: &str) -> Result<Option<String>, ListError> {
        let (method, member) = (self.list.method(), self.list.member());
        let top = members(result).map_err(|_| ListError::NotAList { method, member })?;
        let find = |key: &str| top.iter().find(|m| m.key == key).map(|m| m.value);
        let items = find(member).and_then(array).ok_or(ListError::NotAList { method, member })?;
        self.bytes += items.iter().map(|item| item.len()).sum::<usize>();
        if self.bytes > MAX_LIST_BYTES {
            return Err(ListError::TooLong { method });
        }
        self.items.extend(items.into_iter().map(str::to_owned));
        Ok(find("nextCursor").filter(|cursor| cursor.starts_with('"')).map(str::to_owned))
    }

    /// The whole list as one result.
    #[must_use]
    pub fn finish(self) -> String {
        format!(r#"{{"{}":[{}]}}"#, self.list.member(), self.items.join(","))
    }
}

/// The items of an array, as they stand.
fn array(json: &str) -> Option<Vec<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

/// The lists that clients get while nothing reaches the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListCache {
    results: BTreeMap<List, String>,
}

impl ListCache {
    /// Takes a whole result. An empty list never replaces one that isn't: a server that warms up offers nothing yet.
    /// Says whether it was taken.
    pub fn set(&mut self, list: List, result: String) -> bool {
        let old_has_some = self.results.get(&list).is_some_and(|old| !items(list, old).is_empty());
        let taken = !(old_has_some && items(list, &result).is_empty());
        if taken {
            self.results.insert(list, result);
        }
        taken
    }

    /// The result to answer with.
    #[must_use]
    pub fn get(&self, list: List) -> Option<&str> {
        self.results.get(&list).map(String::as_str)
    }

    /// The tools by name, with what the server says of them.
    #[must_use]
    pub fn tools(&self) -> BTreeMap<String, Annotations> {
        let tools = self.get(List::Tools).map(|result| items(List::Tools, result)).unwrap_or_default();
        let name = |tool: &str| {
            let all = members(tool).ok()?;
            let name = all.iter().find(|member| member.key == "name")?;
            serde_json::from_str::<String>(name.value).ok()
        };
        tools.into_iter().filter_map(|tool| Some((name(tool)?, Annotations::of_tool(tool)))).collect()
    }
}

fn items(list: List, result: &str) -> Vec<&str> {
    let top = members(result).unwrap_or_default();
    top.iter().find(|m| m.key == list.member()).and_then(|m| array(m.value)).unwrap_or_default()
}
