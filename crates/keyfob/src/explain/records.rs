//! Who has proved access to the image, by the records of pulls, and whether that is another than whoever pulls now.

use std::path::Path;

use keyfob_api::Chain;
use keyfob_images::{PullAccess, RecordsError, RecordsReader, recorded_name};
use keyfob_keyring::ServiceAccountCoordinates;

use super::report::{Problem, Record};
use crate::{explain::command::quoted, lookup::Found, pull::access};

/// The records of one directory, and whom they are about to be compared with.
pub(super) struct Recorded<'a> {
    root: &'a Path,
    /// Nothing if nothing was ever pulled there.
    reader: Option<RecordsReader>,
}

impl<'a> Recorded<'a> {
    pub(super) fn open(root: &'a Path) -> Result<Self, RecordsError> {
        Ok(Self { root, reader: RecordsReader::open(root)? })
    }

    /// What is recorded of the image, by the name that a pod writes, and what is wrong with it for whoever pulls.
    pub(super) fn about(&self, image: &str, found: &Found) -> (Vec<Record>, Vec<Problem>) {
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        let (Some(reader), Ok(name)) = (&self.reader, recorded_name(image)) else {
            return (records, problems);
        };
        let (all, errors) = reader.records();
        for record in all {
            let Some(access) = record.credential_mapping.get(&name) else { continue };
            problems.extend(account(found).and_then(|account| of_recreated(account, access)));
            let who = access::with_uids(access);
            records.push(Record { image_id: record.image_ref.clone(), who });
        }
        problems.extend(errors.iter().map(|error| self.of_unreadable(error)));
        (records, problems)
    }

    fn of_unreadable(&self, error: &RecordsError) -> Problem {
        let root = quoted(&self.root.to_string_lossy());
        Problem::new(
            format!("a record cannot be read: {}", Chain(error)),
            format!("see what is left: keyfob records list --records-dir {root}"),
        )
    }
}

/// As whom providers were asked.
fn account(found: &Found) -> Option<&ServiceAccountCoordinates> {
    found.reports.iter().find_map(|report| Some(&*report.identity.as_ref()?.account))
}

/// About an account that was deleted and recreated since it proved access.
fn of_recreated(account: &ServiceAccountCoordinates, access: &PullAccess) -> Option<Problem> {
    if access.node_pods_accessible || access.service_accounts.contains(account) {
        return None;
    }
    let earlier: Vec<&str> =
        access.earlier_accounts(account).map(|each| each.uid.as_str()).collect();
    (!earlier.is_empty()).then(|| {
        Problem::new(
            format!(
                "service account {account} is recorded with uid {} and has uid {} now: it was deleted and recreated, and counts as \
                 another",
                earlier.join(", "),
                account.uid
            ),
            "let it prove its access by a pull, with a pull policy other than Never; then it is recorded too",
        )
    })
}
