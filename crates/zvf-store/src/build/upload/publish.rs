//! Publishing what was uploaded: it is compared with what was sent, and then the root document is created.

use std::collections::BTreeSet;

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_publish::Disk;

use super::super::check::check_uploads;
use super::super::claim::Claim;
use super::{
    INTENT, LIST_PAUSE, MAX_LIST_ATTEMPTS, Uploads, is_store_name, store_exists_error, write_down,
};
use crate::error::commit_unknown_error;
use crate::key::Key;
use crate::source::remote::Created;

impl Uploads {
    /// Creates the root document, after everything else has arrived and fits it; `nodes` are those of the build.
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
            write_down(&Disk::default(), work, INTENT, root)
                .map_err(|error| Error::io("publish", error))?;
        }
        // From here on what lies there may be a store, also when the caller no longer waits for the answer.
        self.shared.state().done = true;
        let created = match self.remote.create(key, root, None).await {
            Ok(created) => created,
            Err(error) if error.class() == Class::CommitUnknown => {
                claim.keep_claim();
                return Err(error);
            }
            Err(error) => {
                self.shared.state().done = error.class() == Class::AlreadyExists;
                // Nothing of ours is there, and what somebody else put there later is not ours.
                let _left = self.work.as_ref().map(|work| std::fs::remove_file(work.join(INTENT)));
                return Err(error);
            }
        };
        self.confirm(claim, key, root, created).await?;
        // One that stays is found to be dead by whoever cares, and no reader does.
        let _released = claim.release().await;
        Ok(created)
    }

    /// Makes sure that the prefix was still claimed when the root document came into being.
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
            // Who asks for nothing else cannot have lost it.
            Err(error) if error.class() != Class::Conflict && claim.is_fresh() => Ok(()),
            confirmed => confirmed,
        };
        confirmed.map_err(|error| {
            claim.keep_claim();
            commit_unknown_error(error)
        })
    }

    /// Compares what lies below the prefix with what was sent.
    async fn check_objects(&self) -> Result<()> {
        let mut tries = 0;
        loop {
            let mut found = 0;
            for (name, len) in self.remote.list_all(&Key::root()).await? {
                let is_sent = self.shared.was_sent(&name, len);
                found += usize::from(is_sent);
                if !is_sent && is_store_name(&name) {
                    let error = Error::new(
                        Class::Conflict,
                        "objects",
                        "nothing but what this build put there",
                        "another's",
                    );
                    return Err(error.at_key(&Key::root().join(&name)?));
                }
            }
            let sent = self.shared.state().sent.len();
            if found == sent {
                return Ok(());
            }
            tries += 1;
            if tries == MAX_LIST_ATTEMPTS {
                return Err(Error::new(
                    Class::Conflict,
                    "objects of this build below the prefix",
                    to_u64(sent),
                    found,
                ));
            }
            // A list may be older than what was put.
            self.remote.sleep(LIST_PAUSE).await;
        }
    }
}
