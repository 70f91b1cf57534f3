//! Who an image runs as: from a name or number in its configuration to numbers, by its own user database. Pure.

use super::error::ImageError;

/// A user in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: String,
}

/// Reads `USER`, `USER:GROUP` or nothing, which is root; both may be numbers that no file knows.
pub(super) fn resolve(text: &str, passwd: &str, group: &str) -> Result<User, ImageError> {
    let none = || ImageError::NoUser { user: text.to_owned() };
    let (name, of) = text.split_once(':').map_or((text, None), |(name, group)| (name, Some(group)));
    let name = if name.is_empty() { "0" } else { name };
    let number: Option<u32> = name.parse().ok();
    let known = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| {
        fields.first() == Some(&name)
            || (number.is_some() && fields.get(2).and_then(|uid| uid.parse().ok()) == number)
    });
    let field = |at: usize| known.as_ref().and_then(|fields| fields.get(at).copied());
    let uid = number.or_else(|| field(2)?.parse().ok()).ok_or_else(none)?;
    let gid = match of {
        None => field(3).and_then(|gid| gid.parse().ok()).unwrap_or_default(),
        Some(name) => {
            let known = group.lines().find_map(|line| {
                let fields: Vec<&str> = line.split(':').collect();
                (fields.first() == Some(&name)).then(|| fields.get(2)?.parse().ok()).flatten()
            });
            known.or_else(|| name.parse().ok()).ok_or_else(none)?
        }
    };
    let home = field(5).filter(|home| !home.is_empty()).unwrap_or("/").to_owned();
    Ok(User { uid, gid, home })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1001::/home/node:/bin/sh\nbroken\nempty:x:7:8:::\n";
    const GROUP: &str = "root:x:0:\nnode:x:1001:\ntty:x:5:node\n";

    #[track_caller]
    fn check(text: &str, expected: Option<(u32, u32, &str)>) {
        let found = resolve(text, PASSWD, GROUP).ok();
        let found = found.as_ref().map(|user| (user.uid, user.gid, user.home.as_str()));
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn a_user_is_a_name_or_a_number_with_or_without_a_group() {
        check("", Some((0, 0, "/root")));
        check("root", Some((0, 0, "/root")));
        check("node", Some((1000, 1001, "/home/node")));
        check("1000", Some((1000, 1001, "/home/node")));
        check("1000:5", Some((1000, 5, "/home/node")));
        check("node:tty", Some((1000, 5, "/home/node")));
        check(":tty", Some((0, 5, "/root")));
        check("4242", Some((4242, 0, "/")));
        check("4242:4243", Some((4242, 4243, "/")));
        check("empty", Some((7, 8, "/")));
        check("nobody", None);
        check("node:wheel", None);
        check("broken", None);
        check("99999999999", None);
        check("-1", None);
    }
}
