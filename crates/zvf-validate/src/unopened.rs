//! Stores that cannot be opened: the reason becomes the only finding.

use async_recursion::async_recursion as boxed;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_metadata::MetadataError;
use zvf_store::{OpenOptions, Store};

use crate::finding::{Finding, is_content};
use crate::findings::Findings;
use crate::options::{Checks, Observer};
use crate::report::Report;
use crate::rule::Rule;
use crate::rules::{M, S};
use crate::run::validate;

/// Opens the store at `address` and checks everything that `options` select; a store whose data
/// prevents opening has a report too.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use zvf_validate::{Observer, Checks, validate_at};
///
/// let report =
///     validate_at(path, Default::default(), &Checks::default(), &Observer::default()).await?;
/// assert!(report.is_clean());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Like [`validate`], and when the place does not exist.
#[boxed]
pub async fn validate_at(
    address: &str,
    open: OpenOptions,
    options: &Checks,
    observer: &Observer,
) -> Result<Report> {
    match Store::open(address, open).await {
        Ok(store) => validate(&store, options, observer).await,
        Err(error) => report_unopened(error, options),
    }
}

/// Returns the finding for the error with which a store failed to open.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use zvf_store::Store;
/// use zvf_validate::{Checks, report_unopened};
///
/// let nowhere = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
/// let error = Store::open(nowhere, Default::default()).await.unwrap_err();
/// let report = report_unopened(error, &Checks::default()).unwrap();
/// assert_eq!(report.findings[0].rule.id, "S1");
/// # }
/// ```
///
/// # Errors
///
/// Returns the error if it is not about the stored data: the place does not exist, or the backend fails.
pub fn report_unopened(error: Error, options: &Checks) -> Result<Report> {
    if !is_content(&error) || error.class() == Class::NotFound && error.key().is_none() {
        return Err(error);
    }
    let mut found = Findings::new(options.max_findings, options.strict);
    found.add(Finding::from_store(rule(&error), error.key().unwrap_or("zarr.json"), &error));
    let report = found.into_report(|rule| options.wants(rule));
    Ok(Report { complete: true, ..report })
}

/// Returns the rule whose violation prevents opening.
fn rule(error: &Error) -> &'static Rule {
    let subject = error.what().unwrap_or_default(); // what has no subject is about none of these
    let subject = subject.strip_prefix("attributes.").unwrap_or(subject);
    if error.class() == Class::NotFound {
        return S[1];
    }
    if subject == "layout" {
        return S[12];
    }
    if error.cause_as::<MetadataError>().is_none() || error.class() == Class::Truncated {
        return S[1];
    }
    let starts = |path: &str| subject.starts_with(path);
    let rules: [(&str, &'static Rule); 9] = [
        ("zarr_vectors.zv_version", S[11]),
        ("zarr_vectors.required_capabilities", S[11]),
        ("zarr_vectors.chunk_shape", M[3]),
        ("zarr_vectors.bounds", M[4]),
        ("zarr_vectors.base_bin_shape", M[7]),
        ("zarr_vectors.geometry_types", M[14]),
        ("multiscales[0].axes", M[2]),
        ("zarr_vectors.", M[1]),
        ("multiscales", M[1]),
    ];
    let rule = rules.iter().find(|(path, _)| starts(path)).map(|(_, rule)| *rule);
    match rule {
        Some(rule) if rule.id == M[2].id && subject != "multiscales[0].axes" => M[14],
        Some(rule) => rule,
        None if subject == "zarr_vectors" => S[2],
        None => S[1],
    }
}
