//! Parts that queries do not cover: tables of objects and groups, links by their ends.

use zvf_format::key::Delta;
use zvf_model::{Kind, LevelId, LevelReader, RowAttribute};
use zvf_store::{Caching, Store};

/// Compares the parts of both.
pub(crate) async fn same(id: &str, old: &Store, new: &Store) {
    for number in old.list_levels().await.unwrap() {
        let [was, is] = [old, new].map(|store| async {
            parts(&LevelReader::open(store, LevelId(number)).await.unwrap()).await
        });
        let (was, is) = (was.await, is.await);
        assert!(was.len() > 2, "{id}");
        assert_eq!(was, is, "{id} level {number}");
    }
}

async fn parts(level: &LevelReader) -> Vec<String> {
    let mut parts = vec![format!("chunks {:?}", level.chunks().await.unwrap())];
    let keys: Vec<_> = level.chunks().await.unwrap().iter().collect();
    for fragments in level.fragments(&keys).await {
        parts.push(format!("{:?}", fragments.unwrap().blob()));
    }
    if let Some(index) = level.objects().await.unwrap() {
        let rows: Vec<u64> = (0..index.slots()).collect();
        for (manifest, id) in
            index.manifests(&rows).await.unwrap().iter().zip(index.ids_of(&rows).await.unwrap())
        {
            parts.push(format!("{id} {:?}", manifest.references().collect::<Vec<_>>()));
        }
        for name in level.object_attribute_names().await.unwrap().names {
            let values = level.object_attribute(&name).await.unwrap().unwrap();
            parts.push(table(&values).await);
        }
    }
    if let Some(groups) = level.groups().await.unwrap() {
        let all: Vec<u64> = (0..groups.len()).collect();
        parts.push(format!("{:?}", groups.members(&all).await.unwrap()));
        for name in level.group_attribute_names().await.unwrap().names {
            let values = level.group_attribute(&name).await.unwrap().unwrap();
            parts.push(table(&values).await);
        }
    }
    let chains = level.kinds().iter().all(|kind| kind.is_chain());
    for delta in (-3..=3).map(Delta).filter(|delta| !(chains && *delta == Delta::SAME)) {
        parts.extend(links(level, delta).await);
    }
    parts
}

async fn table(values: &RowAttribute) -> String {
    let column = values.range(0..values.len()).await.unwrap();
    let width = values.width() as usize;
    let cells = (0..column.column().len()).map(|row| (0..width).map(move |c| (row, c)));
    let cells: Vec<_> = cells.flatten().map(|(row, c)| column.value(row, c)).collect();
    format!("{} {:?} {cells:?}", values.name(), values.dtype())
}

/// Returns the links to one level, sorted, with the values of their attributes.
async fn links(level: &LevelReader, delta: Delta) -> Vec<String> {
    let Some(family) = level.links(delta).await.unwrap() else { return Vec::new() };
    let mut names = Vec::new();
    for name in level.link_attribute_names().await.unwrap().names {
        names.extend(family.attribute(&name).await.unwrap());
    }
    let mut all = Vec::new();
    for (number, segment) in family.segments().iter().enumerate() {
        let places: Vec<usize> = (0..segment.cells().await.unwrap().len()).collect();
        let read = segment.read(&places, Caching::Once).await;
        let read: Vec<_> = read.into_iter().map(Result::unwrap).collect();
        let mut values = Vec::new();
        for name in &names {
            values.push(name.values(number, &places, &read, Caching::Once).await);
        }
        for (place, cell) in read.iter().enumerate() {
            for i in (0..cell.len()).filter(|i| cell.is_leading(*i)) {
                let ends: Vec<_> = cell.endpoints(i).map(|(c, row)| format!("{c}/{row}")).collect();
                let values: Vec<_> = values
                    .iter()
                    .map(|v| v[place].as_ref().unwrap().as_ref().map(|v| v.row(i).to_vec()))
                    .map(|row| row.unwrap_or_else(|| f32::NAN.to_le_bytes().to_vec())) // the only type in these stores
                    .collect();
                all.push(format!("{delta} {ends:?} {values:?}"));
            }
        }
    }
    all.sort();
    all
}

/// Checks that bridges join the last row of a run with the first one of the next.
#[tokio::test]
async fn bridges_name_rows() {
    let unpacked = archives::Unpacked::new("v070_sl3_pyramid");
    let old = unpacked.open().await;
    let dir = archives::scratch();
    let address = dir.path().join("new").to_str().unwrap().to_owned();
    let build = zvf_store::Build::begin(&address, Default::default()).await.unwrap();
    let plan = zvf_migrate::Plan::build(&old).await.unwrap();
    plan.apply(&Default::default(), build, |_| ()).await.unwrap();
    let new = Store::open(&address, Default::default()).await.unwrap();
    let level = LevelReader::open(&new, LevelId(0)).await.unwrap();
    assert_eq!(level.kinds(), [Kind::Streamline]);
    let links = links(&level, Delta::SAME).await;
    let mut expected = Vec::new();
    let index = level.objects().await.unwrap().unwrap();
    let rows: Vec<u64> = (0..index.slots()).collect();
    for manifest in index.manifests(&rows).await.unwrap() {
        let mut before = None;
        for (chunk, fragment) in manifest.references() {
            let found = level.fragments(&[chunk]).await.pop().unwrap().unwrap();
            let rows: Vec<u64> = found.view().get(fragment).unwrap().rows().collect();
            if let Some((from, row)) = before.filter(|(from, _)| *from != chunk) {
                expected.push(format!(
                    "0 {:?} []",
                    [format!("{from}/{row}"), format!("{chunk}/{}", rows[0])]
                ));
            }
            before = Some((chunk, *rows.last().unwrap()));
        }
    }
    expected.sort();
    assert!(links.len() > 20);
    assert_eq!(links, expected);
}
