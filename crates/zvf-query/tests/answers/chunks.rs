//! Stored vertices without elements, and queries split by ranges of chunks.

use futures_util::TryStreamExt as _;
use zvf_model::{Batch, Bounds, Kind, ObjectId};
use zvf_query::{Order, Query};

use crate::fixtures::Data;
use crate::modes::{Random, elements, numbers, random};

const KINDS: [Kind; 5] =
    [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Skeleton, Kind::Mesh];

#[test]
fn parts_cover_every_vertex_once() {
    let bounds = Bounds::new(&[-4.0; 2], &[15.0; 2]).unwrap();
    for seed in 0..4 {
        let mut numbers_of = Random::new(seed + 7);
        for kind in KINDS {
            let fixture = random(kind, 2, &mut numbers_of).fixture();
            for query in [
                Query::all(),
                Query::all().in_region(bounds),
                Query::all().filter("x > 2 and v >= 3".parse().unwrap()),
            ] {
                let query = query.vertices_only();
                let batch = fixture.run(&query).unwrap().batch;
                assert!(batch.elements().is_none() && batch.parts().is_empty(), "{kind}");
                let chunks = fixture.wait(fixture.reader.chunks(&query)).unwrap();
                for at in 0..chunks.len() {
                    let end = chunks.get(at).copied();
                    let lower = fixture.run(&query.clone().in_chunks(None, end)).unwrap().batch;
                    let upper = fixture.run(&query.clone().in_chunks(end, None)).unwrap().batch;
                    let parts = [numbers(&lower), numbers(&upper)].concat();
                    assert_eq!(parts, numbers(&batch), "{kind} {query:?} at {at}");
                    let next = chunks.get(at + 1).copied();
                    let middle = fixture.run(&query.clone().in_chunks(end, next)).unwrap().batch;
                    let last = fixture.run(&query.clone().in_chunks(next, None)).unwrap().batch;
                    let last_len = if next.is_some() { last.len() } else { 0 };
                    assert_eq!(middle.len() + last_len, upper.len(), "{kind} {query:?} at {at}");
                }
            }
        }
    }
}

#[test]
fn links_of_ranges_cover_every_link_once() {
    let mut links = [0; 3];
    for seed in 0..6 {
        let mut numbers_of = Random::new(seed + 70);
        for (links, kind) in links.iter_mut().zip([Kind::Graph, Kind::Skeleton, Kind::Mesh]) {
            let fixture = random(kind, 2, &mut numbers_of).fixture();
            let ordered = elements(&fixture.run(&Query::all()).unwrap().batch);
            let mut all_links = ordered.clone();
            all_links.sort_unstable();
            *links += all_links.len();
            let chunks =
                fixture.wait(fixture.reader.chunks(&Query::all().vertices_only())).unwrap();
            let split_keys = chunks.iter().copied().map(Some).chain([None]);
            let (mut answered, mut streamed, mut first) = (Vec::new(), Vec::new(), None);
            for split_key in split_keys {
                let query = Query::all().with_links_of_chunks(first, split_key);
                let part = elements(&fixture.run(&query).unwrap().batch);
                let mut rest = ordered.iter();
                let is_ordered = part.iter().all(|link| rest.any(|next| next == link));
                assert!(is_ordered, "{kind}, seed {seed}: {part:?} of {ordered:?}");
                answered.extend(part);
                let batches: Vec<Batch> =
                    fixture.wait(fixture.reader.stream(query).try_collect()).unwrap();
                streamed.extend(batches.iter().flat_map(elements));
                first = split_key;
            }
            for mut parts in [answered, streamed] {
                parts.sort_unstable();
                assert_eq!(parts, all_links, "{kind}, seed {seed}");
            }
        }
    }
    assert!(links.iter().all(|links| *links > 20), "{links:?} links are too few to tell");
}

#[test]
fn vertices_only_are_returned_in_stored_order() {
    let bounds = Bounds::new(&[-4.0; 2], &[15.0; 2]).unwrap();
    let mut numbers_of = Random::new(3);
    for kind in KINDS {
        let fixture = random(kind, 2, &mut numbers_of).fixture();
        let all = fixture.run(&Query::all().vertices_only()).unwrap().batch;
        let inside = |row: &usize| {
            let at = |axis| all.positions().float(*row, axis).unwrap();
            (-4.0..=15.0).contains(&at(0)) && (-4.0..=15.0).contains(&at(1))
        };
        let expected = (0..all.len()).filter(inside).count();
        let found = fixture.run(&Query::all().in_region(bounds).vertices_only()).unwrap().batch;
        assert_eq!(found.len(), expected, "{kind}");
        let ordered = Query::all().vertices_only().order(Order::Objects);
        assert!(fixture.run(&ordered).unwrap_err().to_string().contains("as they are stored"));
    }
}

#[test]
fn chunks_are_those_of_the_requested_objects() {
    let points = (0..64).map(|i| vec![i as f32, 0.0]).collect();
    let objects = (0..8).map(|i| (8 * i..8 * (i + 1)).collect()).collect();
    let fixture = Data::new(Kind::Polyline, 8.0, points).objects(objects).fixture();
    let all = Query::all().vertices_only();
    assert_eq!(fixture.wait(fixture.reader.chunks(&all)).unwrap().len(), 8);
    let query = all.of_objects([ObjectId(3)]);
    let chunks = fixture.wait(fixture.reader.chunks(&query)).unwrap();
    assert_eq!(chunks.iter().map(ToString::to_string).collect::<Vec<_>>(), ["3.0"]);
    assert_eq!(fixture.run(&query).unwrap().batch.len(), 8);
}
