//! Random geometry of every kind is read back unchanged.

use proptest::prelude::*;
use zvf_metadata::LinkStore;
use zvf_model::Kind;
use zvf_store::CodecPipeline;
use zvf_write::WriteOptions;

use crate::given::{Given, objects, run};

/// Difficult coordinates: on chunk boundaries, of both signs, distant.
fn coordinate() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-40_i32..40).prop_map(|n| f64::from(n) * 0.75),
        2 => (-6_i32..6).prop_map(|n| f64::from(n) * 8.0),
        1 => Just(-0.0),
        1 => prop_oneof![Just(1e6), Just(-1e6), Just(8e8)],
    ]
}

fn vertices(axes: usize, max_rows: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
    prop::collection::vec(prop::collection::vec(coordinate(), axes), 1..max_rows)
}

/// Divides `rows` vertices into objects, some without any.
fn parts(rows: usize, ids: &[i64], split_rows: &[usize]) -> Vec<(i64, usize)> {
    let mut ends: Vec<usize> = split_rows.iter().map(|row| row % (rows + 1)).collect();
    ends.truncate(ids.len() - 1);
    ends.push(rows);
    ends.sort_unstable();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).zip(ids).map(|((start, end), id)| (*id, end - start)).collect()
}

fn ids() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::btree_set(
        prop_oneof![0..9_i64, Just(-5), Just(1 << 40), Just(i64::MAX)],
        1..7,
    )
    .prop_map(|ids| ids.into_iter().collect::<Vec<_>>())
    .prop_shuffle()
}

pub(crate) fn any_given() -> impl Strategy<Value = Given> {
    let kinds = prop::sample::select(vec![
        Kind::PointCloud,
        Kind::Polyline,
        Kind::Streamline,
        Kind::Line,
        Kind::Graph,
        Kind::Skeleton,
        Kind::Mesh,
    ]);
    (kinds, 1_usize..=6).prop_flat_map(|(kind, axes)| any_of(kind, axes))
}

/// Random geometry of one kind.
pub(crate) fn any_of(kind: Kind, axes: usize) -> impl Strategy<Value = Given> {
    (any::<bool>(), any::<bool>()).prop_flat_map(move |(narrow, owned)| {
        let elements = prop::collection::vec(any::<(usize, usize, usize, usize)>(), 0..40);
        let split_rows = prop::collection::vec(any::<usize>(), 6);
        let all = (vertices(axes, 60), ids(), split_rows, elements);
        all.prop_map(move |(mut positions, ids, split_rows, picks)| {
            let owned = owned || kind.is_chain();
            let mut divided = parts(positions.len(), &ids, &split_rows);
            if kind == Kind::Line {
                divided = ids.iter().map(|id| (*id, 2)).collect();
                while positions.len() < 2 * ids.len() {
                    positions.push(positions[0].clone());
                }
                positions.truncate(2 * ids.len());
            }
            let rows = positions.len();
            let pick = |n: &usize| n % rows;
            let elements = match kind {
                Kind::Graph => picks.iter().map(|(a, b, ..)| vec![pick(a), pick(b)]).collect(),
                Kind::Mesh => {
                    let wide = picks.first().is_some_and(|(.., d)| d % 2 == 0);
                    let corner = |(a, b, c, d): &(usize, usize, usize, usize)| {
                        let mut face = vec![pick(a), pick(b), pick(c)];
                        face.extend(wide.then(|| pick(d)));
                        face
                    };
                    picks.iter().map(corner).collect()
                }
                Kind::Skeleton => forest(&divided, &picks, owned),
                _ => Vec::new(),
            };
            Given { kind, axes, narrow, positions, parts: divided, owned, elements }
        })
    })
}

/// One tree for each object: every vertex but the root has a parent with a larger row.
fn forest(
    parts: &[(i64, usize)],
    picks: &[(usize, usize, usize, usize)],
    owned: bool,
) -> Vec<Vec<usize>> {
    let (mut start, mut edges) = (0, Vec::new());
    for (_, count) in parts {
        // The root is the last vertex, so that input order is not depth first.
        for at in 0..count.saturating_sub(1) {
            let pick = picks.get((start + at) % picks.len().max(1)).map_or(0, |pick| pick.0);
            let later_count = count - 1 - at;
            let is_root = !owned && pick.is_multiple_of(5);
            if !is_root {
                edges.push(vec![start + at, start + at + 1 + pick % later_count]);
            }
        }
        start += count;
    }
    edges.reverse();
    edges
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// In batches of any size, in memory or through the scratch folder, with our cells or those of
    /// the reference: the output equals the input.
    #[test]
    fn written_geometry_is_read_back(
        given in any_given(),
        size in 1_usize..70,
        memory in prop::sample::select(vec![0_u64, 1 << 20]),
        compat: bool,
        duplicate: bool,
        directed: bool,
        sharded: bool,
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let options = WriteOptions {
            memory,
            compat,
            scratch: Some(scratch.path().to_owned()),
            ..WriteOptions::default()
        };
        let mut schema = given.schema(8.0);
        if given.kind == Kind::PointCloud {
            schema = schema.with_bins(&vec![4.0; given.axes]).unwrap();
        }
        if given.kind.has_links() {
            let store = if duplicate { LinkStore::Duplicate } else { LinkStore::Canonical };
            schema = schema.with_links(store);
        }
        if sharded {
            let codecs = CodecPipeline::zstd(1).with_crc32c();
            schema = schema.with_codecs(codecs).with_shard_shape(&vec![2; given.axes]).unwrap();
        }
        if directed && given.kind == Kind::Graph {
            schema = schema.with_directed_links();
        }
        let report = run(given.check(schema, options, size));
        prop_assert_eq!(report.spilled_bytes > 0, memory == 0);
        prop_assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    /// The bytes do not depend on the number of threads or on the batches.
    #[test]
    fn bytes_do_not_depend_on_threads_or_batches(given in any_given(), size in 1_usize..70) {
        let single_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let five_threads = rayon::ThreadPoolBuilder::new().num_threads(5).build().unwrap();
        let bytes = |pool: &rayon::ThreadPool, size, memory| {
            let options = WriteOptions { memory, ..WriteOptions::default() };
            pool.install(|| run(async {
                let (store, _) = given.write(given.schema(8.0), options, size).await.unwrap();
                objects(&store).await
            }))
        };
        let expected = bytes(&single_thread, usize::MAX, 1 << 20);
        prop_assert_eq!(&bytes(&five_threads, usize::MAX, 1 << 20), &expected);
        prop_assert_eq!(&bytes(&five_threads, size, 1 << 20), &expected);
        prop_assert_eq!(&bytes(&single_thread, size, 0), &expected);
    }
}
