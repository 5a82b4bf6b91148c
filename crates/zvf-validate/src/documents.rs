//! Level 2: checks the documents of the root and of levels, each by the rules of the format crate,
//! and all for contradictions between them.

use zvf_format::Class;
use zvf_metadata::{Capability, MetadataRule as DocumentRule, validate, validate_attribute_name};
use zvf_store::ABSENT;

use crate::array::quote;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::rule::{Rule, Severity};
use crate::rules::M;
use crate::validation::Validation;

/// Checks everything that can be checked with documents alone.
pub(crate) fn check(run: &mut Validation, levels: &[LevelState]) {
    let named: Vec<_> =
        levels.iter().map(|level| (level.name.as_str(), level.node.meta())).collect();
    for finding in validate(run.store.root(), &named) {
        let rule = rule(finding.rule);
        let level = finding.level.and_then(|at| levels.get(at));
        let path = level.map_or_else(|| "zarr.json".to_owned(), |level| level.path("zarr.json"));
        let report = Finding::from_metadata(rule, path, &finding.error);
        // Stores with one axis work; only one rule of their version forbids them.
        let one_axis = rule.id == M[14].id && finding.error.path.starts_with("multiscales[0].axes");
        // Older versions have their own validation, so the version itself is not a finding.
        let old = rule.id == M[14].id
            && finding.error.path == "zarr_vectors.zv_version"
            && run.store.version().numbers() < FIRST_OF_C;
        // In pyramids of other tools, bins may be larger than chunks, or follow from the scale of
        // the level and not divide the chunks; neither affects readers.
        let is_scale = |level: &LevelState| {
            let meta = level.node.meta();
            meta.bin_shape.is_none() && meta.chunk_shape.is_none()
        };
        let harmless = finding.error.class() == Class::NonCanonical || level.is_some_and(is_scale);
        if rule.id == M[8].id && harmless {
            run.add(Finding { severity: Severity::Note, ..report });
        } else if !old {
            run.add(if one_axis { report.warning() } else { report });
        }
    }
    for level in levels.iter().flat_map(|level| &level.extra_kinds) {
        check_extra_level_number(run, level);
    }
    for level in levels.iter().flat_map(LevelState::with_extra_kinds) {
        check_attribute_names(run, level);
        check_capabilities(run, level);
        check_arrays_present(run, level);
    }
}

/// Checks the document of an extra geometry of a level: its number is the number of the level.
fn check_extra_level_number(run: &mut Validation, level: &LevelState) {
    let number = level.node.number().to_string();
    let found = validate(run.store.root(), &[(&number, level.node.meta())]);
    for finding in found.into_iter().filter(|finding| finding.level.is_some()) {
        let path = level.path("zarr.json");
        run.add(Finding::from_metadata(rule(finding.rule), path, &finding.error));
    }
}

/// Checks M19: names of attributes.
fn check_attribute_names(run: &mut Validation, level: &LevelState) {
    let columns = level.vertex_columns.iter().chain(&level.fragment_columns);
    let paths: Vec<String> = columns.map(|column| column.path.clone()).collect();
    for path in paths {
        let name = path.rsplit('/').next().unwrap_or(&path);
        if let Some(error) = validate_attribute_name(name) {
            run.add(Finding::from_metadata(M[19], &path, &error));
        }
    }
}

/// Checks M21: the root announces the features that a level uses.
fn check_capabilities(run: &mut Validation, level: &LevelState) {
    let meta = level.node.meta();
    let claims = [
        (meta.preserves_object_ids, Capability::PreservedObjectIds, "preserved_object_ids"),
        (meta.shared_fragments, Capability::SharedFragments, "shared_fragments"),
        (meta.fragment_link_groups, Capability::FragmentLinkGroups, "fragment_link_groups"),
    ];
    for (claimed, token, name) in claims {
        if claimed {
            run.check_announced(token, name);
        }
    }
}

/// Checks M22 and M24: what a level states that it has, and that it does not have.
fn check_arrays_present(run: &mut Validation, level: &LevelState) {
    let missing = level.node.meta().arrays_present.iter().filter(|name| !level.has_node(name));
    for name in missing {
        run.add(M[22].at(level.path("zarr.json")).expects(
            "arrays_present",
            format!("the array {}", quote(name)),
            "none",
        ));
    }
    for name in level.node.stated_absent().filter(|name| level.has_node(name)) {
        let finding = M[24].at(level.path("zarr.json"));
        run.add(finding.expects(ABSENT, "only nodes that are not stored", quote(name)));
    }
}

/// Returns the rule of the table for a rule of the format crate.
fn rule(rule: DocumentRule) -> &'static Rule {
    Rule::find(&rule.to_string()).expect("rules of documents are in the table")
}

const FIRST_OF_C: [u32; 3] = [0, 9, 0];
