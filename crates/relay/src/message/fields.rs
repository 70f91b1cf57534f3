//! The few parameters the relay looks at, as ranges of the line.

use super::object::{members, range_in};
use super::{MessageError, not_json, once};
use std::ops::Range;

/// Where the parameters stand that decide something or are rewritten. Each may occur once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Params {
    pub(crate) name: Option<Range<usize>>,
    pub(crate) task: Option<Range<usize>>,
    pub(crate) cursor: Option<Range<usize>>,
    pub(crate) request_id: Option<Range<usize>>,
    pub(crate) token: Option<Range<usize>>,
    pub(crate) meta_token: Option<Range<usize>>,
    pub(crate) uri: Option<Range<usize>>,
    pub(crate) level: Option<Range<usize>>,
    pub(crate) protocol_version: Option<Range<usize>>,
    meta: Option<Range<usize>>,
}

impl Params {
    /// Reads the object `params`, which is a slice of `line`.
    pub(super) fn of(line: &str, params: &str) -> Result<Self, MessageError> {
        let mut found = Self::default();
        for member in members(params).map_err(|error| not_json(&error))? {
            let place = match member.key.as_ref() {
                "name" => &mut found.name,
                "task" => &mut found.task,
                "cursor" => &mut found.cursor,
                "requestId" => &mut found.request_id,
                "progressToken" => &mut found.token,
                "uri" => &mut found.uri,
                "level" => &mut found.level,
                "protocolVersion" => &mut found.protocol_version,
                "_meta" => &mut found.meta,
                _ => continue,
            };
            once(place, range_in(line, member.value), &member.key)?;
        }
        if let Some(meta) = found.meta.clone().map(|range| &line[range])
            && meta.starts_with('{')
        {
            for member in members(meta).map_err(|error| not_json(&error))? {
                if member.key == "progressToken" {
                    once(&mut found.meta_token, range_in(line, member.value), &member.key)?;
                }
            }
        }
        Ok(found)
    }
}
