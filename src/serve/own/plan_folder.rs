//! Plans that are kept between their making and their application: saved plans in the site's folder of the git folder.
//!
//! They are found again after a restart, by every service of the clone. A plan is a request and an expectation, never a
//! program, so that an altered file gains nothing: an application makes the plan again and compares its
//! effect. The oldest go if there are too many, if they are too old, or too large together.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::is_id;
use super::view::PlanView;
use crate::plan::{Plan, saved};
use crate::repository::{Links, read_file};
use crate::workflow::{Checkout, Failure, FailureKind, saved_plan};

/// The most plans that are plans.
const MOST: usize = 50;

/// How long a plan is plans.
const AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The most bytes of all plans together.
const MOST_BYTES: u64 = 1 << 30;

/// The largest description of a plan, in bytes.
const LARGEST_VIEW: u64 = 1 << 20;

/// The plans of a site.
pub(in crate::serve) struct PlanFolder {
    folder: PathBuf,
}

/// The description of a plan, and who asked for it in the forms that allowed signers have.
#[derive(Serialize, Deserialize)]
struct KeptView<V> {
    #[serde(flatten)]
    view: V,
    #[serde(default)]
    principals: Vec<Arc<str>>,
}

/// The plans of a site that are plans.
pub(in crate::serve) fn plan_folder(checkout: &Checkout<'_>) -> Result<PlanFolder, Failure> {
    let site = checkout.location.site.as_str();
    let folder = checkout.repository.common_dir().join("trueup").join(site);
    let folder = folder.join("plans");
    std::fs::create_dir_all(&folder).map_err(|error| {
        Failure::error(format!("the folder of the plans cannot be made: {error}"))
    })?;
    Ok(PlanFolder { folder })
}

impl PlanFolder {
    /// Keeps a plan, and lets the oldest go.
    pub(super) fn keep(
        &self,
        plan: &Plan,
        view: &PlanView,
        principals: &[Arc<str>],
    ) -> Result<(), Failure> {
        let failed =
            |error: std::io::Error| Failure::error(format!("the plan cannot be kept: {error}"));
        self.write(&self.plan_file(&view.id), |out| {
            saved::write_to(plan, out).map(drop)
        })
        .map_err(failed)?;
        // A plan is listed once its description is there.
        let principals = principals.to_vec();
        self.write(&self.view_file(&view.id), |out| {
            serde_json::to_writer(out, &KeptView { view, principals })
                .map_err(std::io::Error::other)
        })
        .map_err(failed)?;
        if let Err(error) = self.clean() {
            log::warn!("old plans were not removed: {error}");
        }
        Ok(())
    }

    /// Reads a plan.
    pub(in crate::serve) fn read(&self, id: &str) -> Result<Plan, Failure> {
        let path = self.plan_file(id);
        if !is_id(id) || !path.is_file() {
            return Err(unknown(id));
        }
        saved_plan(&self.folder, &path)
    }

    /// The description of a plan.
    pub(super) fn view(&self, id: &str) -> Result<PlanView, Failure> {
        Ok(self.kept(id)?.view)
    }

    /// The caller who asked for a plan, in the forms that allowed signers have.
    pub(in crate::serve) fn principals(&self, id: &str) -> Result<Vec<Arc<str>>, Failure> {
        let KeptView {
            view,
            mut principals,
        } = self.kept(id)?;
        principals.push(Arc::from(view.created_by));
        Ok(principals)
    }

    fn kept(&self, id: &str) -> Result<KeptView<PlanView>, Failure> {
        if !is_id(id) {
            return Err(unknown(id));
        }
        let bytes = read_file(&self.view_file(id), LARGEST_VIEW, Links::Refused);
        let bytes = bytes.map_err(|_| unknown(id))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::error(format!("plan {id} is broken: {error}")))
    }

    /// The descriptions of all plans, the newest first.
    pub(in crate::serve) fn views(&self) -> Result<Vec<PlanView>, Failure> {
        let mut ids = self
            .ids(".view.json")
            .map_err(|error| Failure::error(format!("the plans cannot be listed: {error}")))?;
        ids.sort_unstable();
        ids.reverse();
        Ok(ids.iter().filter_map(|id| self.view(id).ok()).collect())
    }

    fn plan_file(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.plan.json"))
    }

    fn view_file(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.view.json"))
    }

    fn ids(&self, ending: &str) -> std::io::Result<Vec<String>> {
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(ending));
            ids.extend(id.filter(|id| is_id(id)).map(str::to_owned));
        }
        Ok(ids)
    }

    fn write(
        &self,
        path: &Path,
        write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let file = tempfile::NamedTempFile::new_in(&self.folder)?;
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()?;
        let file = out
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.persist(path).map(drop).map_err(|error| error.error)
    }

    /// Removes the plans that are too many or too old, and what a crash left behind.
    fn clean(&self) -> std::io::Result<()> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let data = entry.metadata()?;
            let age = SystemTime::now().duration_since(data.modified()?);
            files.push((entry.file_name(), data.len(), age.unwrap_or_default()));
        }
        // Ids begin with their time: the newest come first.
        files.sort_unstable();
        files.reverse();
        let (mut ids, mut bytes): (Vec<String>, u64) = (Vec::new(), 0);
        for (name, length, age) in files {
            let name = name.to_string_lossy();
            let id = name.split('.').next().unwrap_or_default();
            if is_id(id) && ids.last().is_none_or(|last| last != id) {
                ids.push(id.to_owned());
            }
            bytes += length;
            let is_left_over = !is_id(id) && age > Duration::from_secs(3600);
            let is_too_much = ids.len() > MOST || bytes > MOST_BYTES && ids.len() > 1;
            if is_left_over || is_too_much && is_id(id) || age > AGE {
                std::fs::remove_file(self.folder.join(&*name))?;
                bytes -= length;
            }
        }
        Ok(())
    }
}

fn unknown(id: &str) -> Failure {
    Failure::new(FailureKind::NotFound, format!("there is no plan `{id}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the files of plans, whose ids end with these numbers.
    fn folder(numbers: std::ops::Range<usize>) -> (tempfile::TempDir, PlanFolder) {
        let folder = tempfile::tempdir().unwrap();
        let plans = PlanFolder {
            folder: folder.path().to_owned(),
        };
        for number in numbers {
            let id = format!("01JB{number:022}");
            std::fs::write(plans.plan_file(&id), "{}").unwrap();
            std::fs::write(plans.view_file(&id), "{}").unwrap();
        }
        (folder, plans)
    }

    #[test]
    fn the_oldest_plans_go_where_there_are_too_many() {
        let (_folder, plans) = folder(0..MOST + 7);
        plans.clean().unwrap();
        for ending in [".plan.json", ".view.json"] {
            let mut ids = plans.ids(ending).unwrap();
            ids.sort_unstable();
            assert_eq!(ids.len(), MOST);
            assert_eq!(ids[0], format!("01JB{:022}", 7));
        }
    }

    #[test]
    fn old_plans_and_left_overs_go() {
        let (_folder, plans) = folder(0..2);
        let old = SystemTime::now() - AGE - Duration::from_secs(60);
        let left_over = plans.folder.join(".tmpabc");
        std::fs::write(&left_over, "x").unwrap();
        let id = format!("01JB{:022}", 0);
        for path in [
            plans.plan_file(&id),
            plans.view_file(&id),
            left_over.clone(),
        ] {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_modified(old).unwrap();
        }
        plans.clean().unwrap();
        assert_eq!(plans.ids(".plan.json").unwrap(), [format!("01JB{:022}", 1)]);
        assert!(!left_over.exists());
    }

    #[test]
    fn no_id_names_a_file_elsewhere() {
        let (_folder, plans) = folder(0..1);
        for id in [
            "",
            "..",
            "../../config",
            "01JB/000000000000000000000",
            "a\0",
        ] {
            assert_eq!(plans.view(id).unwrap_err().kind, FailureKind::NotFound);
            assert_eq!(plans.read(id).unwrap_err().kind, FailureKind::NotFound);
        }
    }
}
