//! Stores of several kinds: a query names a kind, and its answer ignores the others.

use archives::inline;
use zvf_model::{Bounds, Kind, LevelId, LevelReader, ObjectId};
use zvf_query::{Query, Reader};
use zvf_store::{OpenOptions, Store};

fn reader(files: &[(String, Vec<u8>)]) -> Reader {
    let opened = inline(async {
        let memory = archives::in_memory(files).await;
        Store::from_object_store(memory, &"".into(), OpenOptions::default()).await
    });
    Reader::new(opened.unwrap())
}

#[test]
fn each_kind_answers_as_if_it_were_alone() {
    let ids = ["sl3_streamlines", "gr3_links", "ms3_quad"];
    let readers = ids.map(|id| reader(&archives::files(id)));
    let pairs = [
        (
            archives::files_with_extra_kind("sl3_streamlines", "graph", "gr3_links", 0),
            Kind::Streamline,
            0,
        ),
        (
            archives::files_with_extra_kind("sl3_streamlines", "graph", "gr3_links", 0),
            Kind::Graph,
            1,
        ),
        (archives::files_with_extra_kind("gr3_links", "mesh", "ms3_quad", 0), Kind::Graph, 1),
        (archives::files_with_extra_kind("gr3_links", "mesh", "ms3_quad", 0), Kind::Mesh, 2),
    ];
    let cube = Bounds::new(&[40.0; 3], &[160.0; 3]).unwrap();
    for (files, kind, at) in pairs {
        let combined = reader(&files);
        for query in
            [Query::all(), Query::all().in_region(cube), Query::all().of_objects([ObjectId(0)])]
        {
            let found = inline(combined.run(&query.clone().of_kind(kind))).unwrap();
            let answer = inline(readers[at].run(&query)).unwrap();
            assert!(!answer.batch.is_empty());
            assert_eq!(found.batch, answer.batch, "{kind}");
        }
    }
}

#[test]
fn the_kinds_of_a_level_and_of_its_objects() {
    let files = archives::files_with_extra_kind("sl3_streamlines", "graph", "gr3_links", 100);
    let reader = reader(&files);
    let level = inline(reader.level(LevelId(0))).unwrap();
    assert_eq!(level.kinds(), [Kind::Streamline]);
    assert_eq!(level.extra_kinds().collect::<Vec<_>>(), [Kind::Graph]);
    let graph = inline(reader.level_of_kind(LevelId(0), Kind::Graph)).unwrap();
    assert_eq!(
        (graph.kinds(), graph.links_convention().as_str()),
        (&[Kind::Graph][..], "explicit")
    );
    assert!(inline(graph.groups()).unwrap().is_some(), "groups are those of the level");
    let kind = |id| inline(reader.find_kind(LevelId(0), ObjectId(id))).unwrap();
    assert_eq!((kind(5), kind(100)), (Some(Kind::Streamline), Some(Kind::Graph)));
    assert_eq!(kind(-1), None);
    assert_eq!(
        inline(reader.run(&Query::all().of_kind(Kind::Mesh))).unwrap_err().to_string(),
        "InvalidArgument, the store holds no mesh"
    );
}

#[test]
fn geometries_with_and_without_fragments_are_distinguished() {
    let reader = reader(&archives::files("composite"));
    let level = inline(reader.level(LevelId(0))).unwrap();
    assert_eq!((level.kinds(), level.extra_kinds().count()), (&[Kind::PointCloud][..], 1));
    let error = inline(LevelReader::open_kind(&level, Kind::Graph)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Unsupported in 0/geometry_index, geometry: expected a geometry with fragments: this one has vertices and links \
         alone, as `geometries` reads, found graph"
    );
}
