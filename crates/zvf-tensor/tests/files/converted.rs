//! Arrays are converted from each form to every other, with the same values.

use std::path::Path;

use zvf_blosc::{Compressor, Shuffle};
use zvf_error::Result;
use zvf_format::Class;
use zvf_store::OpenOptions;
use zvf_tensor::{
    AnyArray, ArrayForm, BlockFile, ConvertOptions, Memory, NewBlocks, TensorFile, Weight, convert,
    gather,
};

fn testdata(path: &str) -> String {
    super::testdata(path).display().to_string()
}

async fn open(path: &str) -> AnyArray {
    AnyArray::open(path, None, &OpenOptions::default()).await.unwrap()
}

async fn all(array: &AnyArray) -> Vec<u8> {
    let start = vec![0; array.shape().len()];
    array.read(&start, array.shape(), &super::memory()).await.unwrap().to_vec()
}

/// Returns the values in little-endian order.
async fn little(array: &AnyArray) -> Vec<u8> {
    let mut bytes = all(array).await;
    if let Some(dtype) = array.dtype().filter(|dtype| dtype.big_endian) {
        bytes.chunks_exact_mut(dtype.size as usize).for_each(<[u8]>::reverse);
    }
    bytes
}

const SOURCES: [&str; 10] = [
    "tet/grid_f32_2d_ragged.tet",
    "tet/i32_5d_zstd.tet",
    "tet/u8_4d_ragged.tet",
    "caterva/frames/b2_seed_2d_i4.b2nd",
    "caterva/frames/b2_bigendian_2d_i4.b2nd",
    "caterva/frames/b2_3d_i4_lz4_bitshuffle_ragged8.b2nd",
    "caterva/frames/b2_chunk_larger_than_shape.b2nd",
    "caterva/frames/b2_sframe_3d_u1.b2frame.d",
    "caterva/frames/b2_nans_2d_f8.b2nd",
    "caterva/frames/b2_const_runs_2d_u4.b2nd",
];

#[tokio::test]
async fn every_form_is_converted_twice() {
    use ArrayForm::{B2nd, B2ndFolder, Caterva, Tet, Zarr};
    let dir = tempfile::tempdir().unwrap();
    let path = |name: String| dir.path().join(name).display().to_string();
    for (number, source) in SOURCES.iter().enumerate() {
        let source = open(&testdata(source)).await;
        let expected = little(&source).await;
        for (form, name) in [(Tet, "tet"), (B2nd, "b2nd"), (B2ndFolder, "folder"), (Zarr, "zarr")] {
            let first = path(format!("{number}.{name}"));
            let mut reported = Vec::new();
            let on_progress = |done, total| reported.push((done, total));
            convert(&source, &first, form, &ConvertOptions::default(), on_progress).await.unwrap();
            assert!(reported.last().is_some_and(|(done, total)| done == total), "{first}");
            let array = open(&first).await;
            assert_eq!(array.shape(), source.shape());
            assert_eq!(little(&array).await, expected, "{first}");
            for (second, suffix) in [(Tet, "tet"), (B2nd, "b2nd"), (Zarr, "zarr")] {
                let target = path(format!("{number}.{name}.{suffix}"));
                let options = ConvertOptions {
                    compressor: Some(Compressor::Zstd),
                    shuffle: Shuffle::Bits,
                    ..ConvertOptions::default()
                };
                convert(&array, &target, second, &options, |_, _| ()).await.unwrap();
                assert_eq!(little(&open(&target).await).await, expected, "{target}");
            }
        }
        let caterva = path(format!("{number}.caterva"));
        convert(&source, &caterva, Caterva, &ConvertOptions::default(), |_, _| ()).await.unwrap();
        let caterva = open(&caterva).await;
        assert_eq!((caterva.dtype(), all(&caterva).await), (None, all(&source).await));
    }
}

#[tokio::test]
async fn chunks_are_shards_and_blocks_are_inner_chunks() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let frame = open(&testdata("caterva/frames/b2_seed_2d_i4.b2nd")).await;
    let default = ConvertOptions::default();
    convert(&frame, &path("a.zarr"), ArrayForm::Zarr, &default, |_, _| ()).await.unwrap();
    let zarr = open(&path("a.zarr")).await;
    // Chunks of 4 x 3 in blocks of 2 x 2 are padded to 4 x 4.
    assert_eq!((zarr.chunk_shape(), zarr.block_shape()), (&[4, 4][..], Some(&[2, 2][..])));
    convert(&zarr, &path("b.b2nd"), ArrayForm::B2nd, &default, |_, _| ()).await.unwrap();
    let converted = open(&path("b.b2nd")).await;
    assert_eq!(
        (converted.chunk_shape(), converted.block_shape()),
        (&[4, 4][..], Some(&[2, 2][..]))
    );
    assert_eq!(converted.numpy_dtype().as_deref(), Some("<i4"));

    let chosen = ConvertOptions {
        chunk_shape: Some(vec![5, 5]),
        block_shape: Some(vec![5, 5]),
        compressor: None,
        ..ConvertOptions::default()
    };
    convert(&frame, &path("c.zarr"), ArrayForm::Zarr, &chosen, |_, _| ()).await.unwrap();
    let zarr = open(&path("c.zarr")).await;
    assert_eq!((zarr.chunk_shape(), zarr.block_shape()), (&[5, 5][..], None));
    let text = std::fs::read_to_string(path("c.zarr/zarr.json")).unwrap();
    assert!(!text.contains("sharding") && !text.contains("blosc"), "{text}");
    assert_eq!(all(&zarr).await, all(&frame).await);
}

#[tokio::test]
async fn several_arrays_in_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.tet");
    let mut arrays = Vec::new();
    for (name, source) in ["one", "two/b", "three"].into_iter().zip(SOURCES) {
        arrays.push((name.to_owned(), open(&testdata(source)).await));
    }
    gather(&arrays, &path, &ConvertOptions::default(), |_, _| ()).await.unwrap();
    for (name, array) in &arrays {
        let address = path.to_str().unwrap();
        let found = AnyArray::open(address, Some(name), &OpenOptions::default()).await.unwrap();
        assert_eq!(all(&found).await, all(array).await);
    }
    let error = AnyArray::open(path.to_str().unwrap(), None, &OpenOptions::default()).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "InvalidArgument, dataset: expected the name of one, where a file has none or several, found \
         \"no name, where there is one, two/b, three\""
    );
}

#[tokio::test]
async fn each_check_has_its_message() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let convert_to = async |source: &str, name: &str, form, options: &ConvertOptions| {
        let source = open(&testdata(source)).await;
        let result: Result<()> = convert(&source, &path(name), form, options, |_, _| ()).await;
        result.unwrap_err()
    };
    let default = ConvertOptions::default();
    let lz4 = ConvertOptions { compressor: Some(Compressor::Lz4), ..ConvertOptions::default() };
    let structs = "caterva/frames/b2_struct_1d.b2nd";
    let seed = "caterva/frames/b2_seed_2d_i4.b2nd";
    let error = convert_to(structs, "a.zarr", ArrayForm::Zarr, &default).await;
    assert!(error.to_string().starts_with(
        "Unsupported, conversion: expected items that are numbers or text, found \"[('"
    ));
    let error =
        convert_to("caterva/frames/cat_seed_2d_i4.caterva", "a.tet", ArrayForm::Tet, &default);
    assert_eq!(
        error.await.to_string(),
        "Unsupported, conversion: expected items that are numbers or text, found \"4 bytes\""
    );
    let error = convert_to(seed, "a.tet", ArrayForm::Tet, &lz4).await;
    assert_eq!(
        error.to_string(),
        "Unsupported, conversion: expected zstd, in a .tet file, found \"lz4\""
    );
    for (form, name) in [(ArrayForm::Tet, "t"), (ArrayForm::B2nd, "b"), (ArrayForm::Zarr, "z")] {
        let frame = open(&testdata(seed)).await;
        convert(&frame, &path(name), form, &default, |_, _| ()).await.unwrap();
        assert_eq!(convert_to(seed, name, form, &default).await.class(), Class::AlreadyExists);
        let replace = ConvertOptions { replace: true, ..ConvertOptions::default() };
        convert(&frame, &path(name), form, &replace, |_, _| ()).await.unwrap();
    }
    let none = AnyArray::open(&path("none"), None, &OpenOptions::default()).await.unwrap_err();
    assert_eq!(none.class(), Class::NotFound);
}

#[tokio::test]
async fn a_stopped_conversion_writes_nothing() {
    use ArrayForm::{B2nd, B2ndFolder, Caterva, Tet, Zarr};
    let dir = tempfile::tempdir().unwrap();
    let source = open(&testdata(SOURCES[3])).await;
    for form in [Tet, B2nd, B2ndFolder, Caterva, Zarr] {
        let path = dir.path().join("new");
        let address = path.to_str().unwrap();
        let options = ConvertOptions::default();
        let stop = |_, _| assert!(options.gate.stop(), "nothing is visible yet");
        let error = convert(&source, address, form, &options, stop).await.unwrap_err();
        assert_eq!(error.class(), Class::Cancelled, "{form:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{form:?}");

        // A later request to stop is refused, and the array exists.
        let options = ConvertOptions::default();
        convert(&source, address, form, &options, |_, _| ()).await.unwrap();
        assert!(!options.gate.stop() && path.exists(), "{form:?}");
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[tokio::test]
async fn arrays_without_items_are_converted() {
    use ArrayForm::{B2nd, B2ndFolder, Caterva, Tet, Zarr};
    let dir = tempfile::tempdir().unwrap();
    let path = |name: String| dir.path().join(name).display().to_string();
    let forms = [(Tet, "tet"), (B2nd, "b2nd"), (B2ndFolder, "folder"), (Zarr, "zarr")];
    for (number, shape) in [&[0_u64][..], &[0, 5], &[5, 0], &[3, 0, 2], &[0, 0]].iter().enumerate()
    {
        let chunk: Vec<u64> = shape.iter().map(|extent| (*extent).min(2)).collect();
        let new = NewBlocks::new(shape, &chunk, &chunk, 4).unwrap().with_dtype("<i4");
        let first = path(format!("{number}.b2nd"));
        BlockFile::create(Path::new(&first), new, false, false).unwrap().publish().unwrap();
        let source = open(&first).await;
        for (form, name) in forms {
            let output = path(format!("{number}.one.{name}"));
            convert(&source, &output, form, &ConvertOptions::default(), |_, _| ()).await.unwrap();
            let array = open(&output).await;
            assert_eq!((array.shape(), array.dtype()), (*shape, source.dtype()), "{output}");
            assert_eq!(all(&array).await, [0_u8; 0], "{output}");
            if form == Tet {
                let file = TensorFile::open(&output, &OpenOptions::default()).await.unwrap();
                let faults = file.verify(true, &Memory::default()).await.unwrap();
                assert!(
                    faults.iter().all(|fault| fault.weight == Weight::Note),
                    "{output}: {faults:?}"
                );
            }
            for (second, suffix) in forms.into_iter().chain([(Caterva, "caterva")]) {
                let target = path(format!("{number}.{name}.{suffix}"));
                convert(&array, &target, second, &ConvertOptions::default(), |_, _| ())
                    .await
                    .unwrap();
                assert_eq!(open(&target).await.shape(), *shape, "{target}");
            }
        }
    }
}
