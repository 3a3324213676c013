//! Documents of a real site.

use trueup::diagnostic::{Severity, Sources};
use trueup::document::{LoadSettings, decode, load};

use crate::shared::{shared, yaml_files};

#[test]
fn a_real_site_loads_without_an_error() {
    let Some(site) = shared("data/treasuremap-v1.9") else {
        return;
    };
    let settings = LoadSettings::default();
    let mut sources = Sources::new();
    let (mut documents, mut errors) = (0, Vec::new());
    for path in yaml_files(&site) {
        let bytes = std::fs::read(&path).unwrap();
        let path = path
            .strip_prefix(&site)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let text = decode(&path, &bytes, &settings.limits).unwrap();
        let id = sources.add(path.as_str(), text.clone());
        let file = load(id, &text, &settings);
        documents += file.documents.len();
        for problem in &file.diagnostics {
            if problem.severity == Severity::Error {
                errors.push(format!(
                    "{} {} {}",
                    sources.place(problem.mark.unwrap()),
                    problem.code,
                    problem.message
                ));
            }
        }
    }
    assert_eq!(errors, Vec::<String>::new());
    assert!(documents > 400, "{documents}");
}
