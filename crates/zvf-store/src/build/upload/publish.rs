//! Publishes an uploaded store: compares the objects with those sent, then creates the root
//! document.

use std::collections::BTreeSet;

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_publish::Disk;

use super::super::check::check_uploads;
use super::super::claim::Claim;
use super::{
    INTENT, LIST_PAUSE, MAX_LIST_ATTEMPTS, Uploads, is_store_name, store_exists_error, write_down,
};
use crate::error::{WithOp as _, commit_unknown_error};
use crate::key::Key;
use crate::source::remote::Created;

impl Uploads {
    /// Creates the root document after everything else has arrived and is consistent; `nodes` are
    /// the nodes of the build.
    pub(crate) async fn publish(
        &self,
        key: &Key,
        root: &Bytes,
        nodes: &BTreeSet<Key>,
    ) -> Result<Created> {
        self.flush().await?;
        let Some(claim) = &self.claim else { return Err(store_exists_error()) };
        claim.verify().await?;
        if !self.is_shared() {
            self.check_objects().await?;
        }
        check_uploads(self, root, nodes).await?;
        if let Some(work) = &self.work {
            write_down(&Disk::default(), work, INTENT, root).with_op("publish")?;
        }
        // From here on the objects may be a store, even if the caller no longer waits for the
        // response.
        self.shared.state().done = true;
        let created = match self.remote.create(key, root, None).await {
            Ok(created) => created,
            Err(error) if error.class() == Class::CommitUnknown => {
                claim.keep_claim();
                return Err(error);
            }
            Err(error) => {
                self.shared.state().done = error.class() == Class::AlreadyExists;
                // Nothing of this build is there, and what another program put there later is not
                // ours.
                let _left = self.work.as_ref().map(|work| std::fs::remove_file(work.join(INTENT)));
                return Err(error);
            }
        };
        self.confirm(claim, key, root, created).await?;
        // A claim that remains is found dead by the next build, and readers ignore it.
        let _released = claim.release().await;
        Ok(created)
    }

    /// Checks that the prefix was still claimed when the root document was created.
    async fn confirm(
        &self,
        claim: &Claim,
        key: &Key,
        root: &Bytes,
        created: Created,
    ) -> Result<()> {
        let confirmed = match claim.verify().await {
            Ok(()) if created == Created::Looked => match self.remote.read(key).await {
                Ok(Some(found)) if found == *root => Ok(()),
                Ok(_) => Err(store_exists_error()),
                Err(error) => Err(error),
            },
            // A claim that is still fresh cannot have been lost.
            Err(error) if error.class() != Class::Conflict && claim.is_fresh() => Ok(()),
            confirmed => confirmed,
        };
        confirmed.map_err(|error| {
            claim.keep_claim();
            commit_unknown_error(error)
        })
    }

    /// Compares the objects below the prefix with those that were sent.
    async fn check_objects(&self) -> Result<()> {
        let mut tries = 0;
        loop {
            let mut found = 0;
            for (name, len) in self.remote.list_all(&Key::root()).await? {
                let is_sent = self.shared.was_sent(&name, len);
                found += usize::from(is_sent);
                if !is_sent && is_store_name(&name) {
                    let expected = "nothing but what this build put there";
                    let error = Error::new(Class::Conflict, "objects", expected, "another's");
                    return Err(error.at_key(Key::parse(&name)?));
                }
            }
            let sent = self.shared.state().sent.len();
            if found == sent {
                return Ok(());
            }
            tries += 1;
            if tries == MAX_LIST_ATTEMPTS {
                let what = "objects of this build below the prefix";
                return Err(Error::new(Class::Conflict, what, sent, found));
            }
            // A listing may be older than the last put.
            self.remote.sleep(LIST_PAUSE).await;
        }
    }
}
