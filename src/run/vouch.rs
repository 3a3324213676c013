//! Signs the newest records, by a person who has checked them.
//!
//! A signature over the newest commit of the records is one over all of them. This is the way on where records were written
//! without one, because the agent was gone, or if a key does not count any more.

use super::error::{self, Error};
use super::process::Process;
use crate::design::RunId;
use crate::record::Checkpoint;
use crate::repository::PushOutcome;

/// Signs the newest records under the lock, and publishes that; gives the newest run in them, if there is one.
///
/// # Errors
///
/// [`Error::NotSigned`], also if there is no key; [`Error::Untrusted`] if it is not that of an allowed signer;
/// [`Error::LockHeld`]; the records or the remote cannot be read or written.
pub fn vouch(process: Process<'_>) -> Result<Option<RunId>, Error> {
    let site = process.site;
    let store = site.store()?;
    let Some(run) = site.records(&store)?.state.site.last_run else {
        return Ok(None);
    };
    let held = process.take_as(None, process.holder(&run), b"")?;
    let sign = || -> Result<(), Error> {
        let records = site.records(&store)?;
        let state = records.state;
        if let (Some(signing), Some(tip)) = (&site.signing, state.tip) {
            signing.trust(tip);
        }
        site.ready(&state)?;
        let record = store
            .run(&state, &run)
            .map_err(error::records("read the record of the last run"))?
            .ok_or_else(|| Error::NoSuchRun {
                site: site.name.clone(),
                run: run.clone(),
            })?;
        let signing = "sign the records";
        let draft = store
            .draft(&state, &Checkpoint::of_run(&record, process.signature()))
            .map_err(error::records(signing))?;
        let has_key = site
            .signing
            .as_ref()
            .is_some_and(|signing| signing.has_key());
        let no_key = (!has_key).then(|| "git has no SSH key to sign with".to_owned());
        if let Some(why) = no_key.or_else(|| draft.unsigned.clone()) {
            return Err(Error::NotSigned { why });
        }
        let state = store.advance(draft).map_err(error::records(signing))?;
        let update = store.publication(&state, records.remote_tip);
        match site.push(&update.into_iter().collect::<Vec<_>>())? {
            PushOutcome::Published => Ok(()),
            PushOutcome::LostRace { .. } => Err(Error::Fenced { run: run.clone() }),
        }
    };
    let signed = sign();
    site.release(&held.lock)?;
    signed.map(|()| Some(run))
}
