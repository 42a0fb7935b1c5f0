//! The ids of users and groups by name, as this node knows them.

use nix::unistd::{Group, User};

/// The id of a user.
pub fn user_id(name: &str) -> Option<u32> {
    User::from_name(name).ok().flatten().map(|user| user.uid.as_raw())
}

/// The id of a group.
pub fn group_id(name: &str) -> Option<u32> {
    Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw())
}
