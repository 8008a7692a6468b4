//! The user who called sudo, as whom the command runs: loading a scheduler takes root, the work doesn't.

use anyhow::{Context, bail};
use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist, setgid, setgroups, setuid};
use std::env;
use std::ffi::{CString, OsString};
use std::io;

/// A user, with all that root takes on to be that user.
#[derive(Debug, PartialEq)]
pub struct Caller {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    /// What sudo has set to root's.
    pub variables: Vec<(&'static str, OsString)>,
}

impl Caller {
    /// Who called sudo; none without sudo, and when root did.
    pub fn of_sudo() -> anyhow::Result<Option<Self>> {
        // `sudo -u somebody` asks for that user.
        if !geteuid().is_root() {
            return Ok(None);
        }
        Self::from_ids(env::var_os("SUDO_UID"), env::var_os("SUDO_GID"))
    }

    fn from_ids(uid: Option<OsString>, gid: Option<OsString>) -> anyhow::Result<Option<Self>> {
        let Some(uid) = uid else { return Ok(None) };
        let number = |id: Option<OsString>| id.and_then(|id| id.to_str()?.parse::<u32>().ok());
        let (Some(uid), Some(gid)) = (number(Some(uid)), number(gid)) else {
            bail!("SUDO_UID and SUDO_GID aren't the numbers that sudo sets: unset both, or use --as-root");
        };
        if uid == 0 {
            return Ok(None);
        }
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        let user = User::from_uid(uid).with_context(|| format!("user {uid}, who called sudo, can't be looked up"))?;
        // One that no database knows has a number, and no more.
        let Some(user) = user else { return Ok(Some(Self { uid, gid, groups: vec![gid], variables: Vec::new() })) };
        let groups = getgrouplist(&CString::new(user.name.as_str())?, gid)
            .with_context(|| format!("the groups of {}, who called sudo, can't be looked up", user.name))?;
        let name = OsString::from(user.name);
        let variables =
            vec![("HOME", user.dir.into()), ("SHELL", user.shell.into()), ("USER", name.clone()), ("LOGNAME", name)];
        Ok(Some(Self { uid, gid, groups, variables }))
    }

    /// Makes the calling process this user's, for good. Only system calls, so that it may be called between fork and exec.
    pub fn become_user(&self) -> io::Result<()> {
        // The user last: nobody else may change the groups.
        setgroups(&self.groups)?;
        setgid(self.gid)?;
        Ok(setuid(self.uid)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: Option<&str>, gid: Option<&str>) -> anyhow::Result<Option<Caller>> {
        Caller::from_ids(uid.map(OsString::from), gid.map(OsString::from))
    }

    #[test]
    fn without_sudo_and_when_root_called_it_nobody_else_is_meant() {
        assert_eq!(caller(None, Some("1000")).unwrap(), None);
        assert_eq!(caller(Some("0"), Some("0")).unwrap(), None);
    }

    #[test]
    fn who_called_sudo_has_the_home_and_groups_of_the_user_database() {
        // Debian's `daemon` is in every Linux system's database.
        let daemon = User::from_name("daemon").unwrap().expect("there is a user daemon");
        let (uid, gid) = (daemon.uid.to_string(), daemon.gid.to_string());
        let found = caller(Some(&uid), Some(&gid)).unwrap().expect("somebody called sudo");
        assert_eq!((found.uid, found.gid), (daemon.uid, daemon.gid));
        assert!(found.groups.contains(&daemon.gid) && !found.groups.contains(&Gid::from_raw(0)), "{found:?}");
        assert!(found.variables.contains(&("HOME", daemon.dir.into())), "{found:?}");
        assert!(found.variables.contains(&("USER", "daemon".into())), "{found:?}");
    }

    #[test]
    fn a_user_whom_no_database_knows_has_a_group_and_no_home() {
        let found = caller(Some("3999999999"), Some("3999999998")).unwrap().expect("somebody called sudo");
        assert_eq!((found.groups, found.variables), (vec![Gid::from_raw(3_999_999_998)], vec![]));
    }

    #[test]
    fn what_is_no_number_is_refused_and_not_run_as_root() {
        for (uid, gid) in [("", "1"), ("me", "1"), ("-1", "1"), ("1", "")] {
            assert!(caller(Some(uid), Some(gid)).unwrap_err().to_string().contains("--as-root"), "{uid}, {gid}");
        }
        assert!(caller(Some("1000"), None).is_err());
    }
}
