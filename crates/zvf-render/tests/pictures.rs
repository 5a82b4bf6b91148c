//! Pictures of small stores: which pixel has which colour.
//!
//! A picture of 100 by 100 pixels has a margin of 2 on each side, so that bounds of 96 units are drawn at one pixel per
//! unit: from above, the point (x, y) is 2 + x pixels from the left and 98 - y from the top.

use std::path::Path;

use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Bounds, Column, Elements, Field, Kind, ObjectId, Parts};
use zvf_query::{Query, Reader};
use zvf_render::{ColourBy, ColourMap, Ground, Options, Picture, Size, View, render};
use zvf_store::{OpenOptions, Store};
use zvf_write::{Schema, WriteOptions, Writer};

const WHITE: [u8; 4] = [255; 4];

fn floats(values: &[f32], width: u32) -> Column {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
    Column::new(Dtype::FLOAT32, width, bytes.into()).unwrap()
}

async fn write_store(folder: &Path, batch: &Batch) -> Reader {
    let address = folder.join("store.zarrvectors").to_str().unwrap().to_owned();
    let axes = batch.positions().width() as usize;
    let chunk = ChunkShape::new(&vec![50.0; axes]).unwrap();
    let schema = Schema::new(batch.kind(), Axis::spatial(axes).unwrap(), chunk).unwrap();
    let mut writer = Writer::create(&address, schema, WriteOptions::default()).await.unwrap();
    writer.push(batch).unwrap();
    writer.finish().await.unwrap();
    Reader::new(Store::open(&address, OpenOptions::default()).await.unwrap())
}

async fn draw(batch: &Batch, query: &Query, options: &Options) -> Picture {
    let folder = tempfile::tempdir().unwrap();
    let reader = write_store(folder.path(), batch).await;
    render(&reader, query, options).await.unwrap()
}

/// Returns options for one pixel per unit, from above.
fn options(axes: usize) -> Options {
    Options {
        size: Size::new(100, 100).unwrap(),
        bounds: Some(Bounds::new(&vec![0.0; axes], &vec![96.0; axes]).unwrap()),
        view: Some(View::TOP),
        width: Some(1),
        ..Options::default()
    }
}

/// Returns the pixel at a position, from above.
fn at(picture: &Picture, x: u32, y: u32) -> [u8; 4] {
    picture.pixel(2 + x, 97 - y).unwrap()
}

fn count(picture: &Picture) -> usize {
    let columns = 0..picture.size().width();
    let pixels = columns.flat_map(|x| (0..picture.size().height()).map(move |y| (x, y)));
    pixels.filter(|(x, y)| picture.pixel(*x, *y) != Some(WHITE)).count()
}

fn mesh(positions: &[f32], faces: &[usize], heights: &[f32]) -> Batch {
    let elements = Elements::new(3, faces.to_vec()).unwrap();
    let batch = Batch::new(Kind::Mesh, floats(positions, 3)).with_elements(elements).unwrap();
    batch.with_field(Field::new("height", floats(heights, 1))).unwrap()
}

#[tokio::test]
async fn a_triangle_fills_its_pixels_across_chunks() {
    let batch = mesh(&[0., 0., 5., 80., 0., 5., 0., 80., 5.], &[0, 1, 2], &[0.0; 3]);
    let picture = draw(&batch, &Query::all(), &options(3)).await;
    assert_eq!((picture.points(), picture.lines(), picture.faces()), (0, 0, 1));
    for y in 0..96 {
        for x in 0..96 {
            let inside = f64::from(x) + 0.5 + f64::from(y) + 0.5 <= 80.0;
            assert_eq!(at(&picture, x, y) != WHITE, inside, "{x} {y}");
        }
    }
    assert_eq!(count(&picture), 80 * 81 / 2);
}

#[tokio::test]
async fn the_nearer_face_hides_the_farther_one() {
    let sheet = |z: f32| [[10., 10., z], [60., 10., z], [10., 60., z]].concat();
    let positions = [sheet(20.0), sheet(70.0)].concat();
    let batch = mesh(&positions, &[0, 1, 2, 3, 4, 5], &[0., 0., 0., 1., 1., 1.]);
    let folder = tempfile::tempdir().unwrap();
    let reader = write_store(folder.path(), &batch).await;
    let by_height = Options {
        colour: ColourBy::Named("height".into()),
        map: ColourMap::Grey,
        range: Some([-1.0, 1.0]),
        ..options(3)
    };
    let from_above = render(&reader, &Query::all(), &by_height).await.unwrap();
    let options = Options { view: Some(View { turn: 0.0, lift: -90.0 }), ..by_height };
    let from_below = render(&reader, &Query::all(), &options).await.unwrap();
    // Both sheets are perpendicular to the view and lit equally: the colour of the map times 0.87.
    assert_eq!(at(&from_above, 20, 20), [222, 222, 222, 255]);
    assert_eq!(from_below.pixel(2 + 20, 2 + 20), Some([111, 111, 111, 255]));
    assert_eq!(from_above.range(), Some([-1.0, 1.0]));
    // A legend has the map from its left to its right end, its title above and the numbers below.
    let small = Options { legend: Some(true), ..options };
    let refused = render(&reader, &Query::all(), &small).await.unwrap_err().sentence();
    assert_eq!(refused, "size: expected at least 212x80 for a legend, found 100x100");
    let large = Options { size: Size::new(320, 240).unwrap(), ..small };
    let picture = render(&reader, &Query::all(), &large).await.unwrap();
    assert_eq!([124, 303].map(|x| picture.pixel(x, 194).unwrap()[0]), [0, 255]);
    let letters = |rows: std::ops::Range<u32>| {
        let pixels = rows.flat_map(|y| (124..304).map(move |x| (x, y)));
        pixels.filter(|(x, y)| picture.pixel(*x, *y) == Some([23, 26, 32, 255])).count()
    };
    assert!(letters(176..189) > 50 && letters(208..221) > 10);
}

#[tokio::test]
async fn points_have_the_colour_of_their_value() {
    let positions = floats(&[10.5, 10.5, 1., 20.5, 10.5, 2., 30.5, 10.5, 3., 40.5, 10.5, 4.], 3);
    let values = Field::new("v", floats(&[-2.0, 0.0, 2.0, f32::NAN], 1));
    let batch = Batch::new(Kind::PointCloud, positions).with_field(values).unwrap();
    let by_value =
        Options { colour: ColourBy::Named("v".into()), map: ColourMap::Coolwarm, ..options(3) };
    let picture = draw(&batch, &Query::all(), &by_value).await;
    assert_eq!(picture.range(), Some([-2.0, 2.0]));
    for (x, colour) in [
        (10, [59, 76, 192, 255]),
        (20, [221, 220, 220, 255]),
        (30, [180, 4, 38, 255]),
        (40, [150, 150, 150, 255]),
    ] {
        assert_eq!(at(&picture, x, 10), colour, "{x}");
    }
    assert_eq!((count(&picture), picture.points()), (4, 4));
    let filtered = Query::all().filter("v > 1".parse().unwrap());
    assert_eq!(count(&draw(&batch, &filtered, &by_value).await), 1);
}

#[tokio::test]
async fn objects_have_different_colours_and_lines_cross_chunks() {
    let positions = floats(&[5.5, 5.5, 0., 90.5, 5.5, 0., 5.5, 40.5, 0., 5.5, 90.5, 0.], 3);
    let parts = Parts::new(vec![0, 2, 4], vec![ObjectId(0), ObjectId(1)]).unwrap();
    let batch = Batch::new(Kind::Polyline, positions).with_parts(parts).unwrap();
    let picture = draw(&batch, &Query::all(), &options(3)).await;
    assert_eq!(picture.lines(), 2);
    let [first, second] = [at(&picture, 7, 5), at(&picture, 5, 60)];
    assert!(first != second && first != WHITE && second != WHITE);
    assert!((5..90).all(|x| at(&picture, x, 5) == first));
    assert!((40..90).all(|y| at(&picture, 5, y) == second));
    assert_eq!(at(&picture, 5, 30), WHITE);
    let uniform = Options { colour: ColourBy::Plain, ..options(3) };
    let uniform = draw(&batch, &Query::all(), &uniform).await;
    assert_eq!(at(&uniform, 7, 5), at(&uniform, 5, 60));
    let clipped = Query::all().in_region(Bounds::new(&[0.0; 3], &[50.0; 3]).unwrap());
    let clipped_picture = draw(&batch, &clipped.mode(zvf_query::Mode::Clip), &options(3)).await;
    assert_eq!((at(&clipped_picture, 49, 5), at(&clipped_picture, 52, 5)), (first, WHITE));
}

#[tokio::test]
async fn streamlines_have_the_colour_of_their_direction_and_points_that_of_their_height() {
    let positions = floats(&[5.5, 5.5, 9., 90.5, 5.5, 9., 5.5, 40.5, 9., 5.5, 90.5, 9.], 3);
    let parts = Parts::new(vec![0, 2, 4], vec![ObjectId(0), ObjectId(1)]).unwrap();
    let batch = Batch::new(Kind::Streamline, positions.clone()).with_parts(parts).unwrap();
    for (view, turned) in [(View::TOP, false), (View { turn: 180.0, lift: 90.0 }, true)] {
        let options = Options { view: Some(view), ..options(3) };
        let picture = draw(&batch, &Query::all(), &options).await;
        let at = |x, y| if turned { at(&picture, 95 - x, 95 - y) } else { at(&picture, x, y) };
        assert_eq!((at(30, 5), at(5, 60)), ([255, 0, 0, 255], [0, 255, 0, 255]), "{view}");
    }
    let oblique = floats(&[0., 0., 0., 30., 40., 0.], 3);
    let edges = Elements::new(2, vec![0, 1]).unwrap();
    let graph = Batch::new(Kind::Graph, oblique).with_elements(edges).unwrap();
    let by_direction = Options { colour: ColourBy::Direction, ..options(3) };
    let picture = draw(&graph, &Query::all(), &by_direction).await;
    assert_eq!(at(&picture, 15, 20), [153, 204, 0, 255]);

    let points = Batch::new(Kind::PointCloud, floats(&[5.5, 5.5, 7., 60.5, 5.5, 19.], 3));
    let picture = draw(&points, &Query::all(), &options(3)).await;
    assert_eq!(picture.range(), Some([7.0, 19.0]));
    let by_first = Options { colour: ColourBy::Named("x".into()), ..options(3) };
    assert_eq!(draw(&points, &Query::all(), &by_first).await.range(), Some([5.5, 60.5]));
}

#[tokio::test]
async fn a_large_picture_has_a_scale_bar_and_axes() {
    let points = Batch::new(Kind::PointCloud, floats(&[96., 96., 0.], 3));
    let base = Options { size: Size::new(424, 200).unwrap(), ..options(3) };
    let picture = draw(&points, &Query::all(), &base).await;
    let row = |y: u32| (0..212).filter(|x| picture.pixel(*x, y) == Some([23, 26, 32, 255])).count();
    // 192 pixels are 96 units: the longest round length within 180 pixels is 50 units.
    assert_eq!((row(184), row(185), row(186)), (101, 101, 0));
    // From above, the first axis goes to the right and the second one up.
    let colours = [[16 + 28 + 6 + 20, 124], [16 + 28 + 6, 124 - 20]];
    let colours = colours.map(|[x, y]| picture.pixel(x, y).unwrap());
    assert_eq!(colours, [[255, 0, 0, 255], [0, 200, 0, 255]]);
    let low = Options { size: Size::new(424, 160).unwrap(), ..base.clone() };
    let bounds = Some(Bounds::new(&[-8.9e307; 3], &[8.9e307; 3]).unwrap());
    let endless = draw(&points, &Query::all(), &Options { bounds, ..low }).await;
    assert_eq!(endless.points(), 1);
    let without = Options { legend: Some(false), ..base };
    assert_eq!(count(&draw(&points, &Query::all(), &without).await), 1);
}

#[tokio::test]
async fn draws_the_edges_and_nodes_of_a_graph() {
    let positions = floats(&[5.5, 5.5, 60.5, 5.5, 30.5, 80.5], 2);
    let edges = Elements::new(2, vec![0, 1]).unwrap();
    let batch = Batch::new(Kind::Graph, positions).with_elements(edges).unwrap();
    let picture = draw(&batch, &Query::all(), &options(2)).await;
    assert_eq!(picture.lines(), 1);
    assert!((5..60).all(|x| at(&picture, x, 5) != WHITE));
    assert_ne!(at(&picture, 30, 80), WHITE, "a node without an edge");
}

#[tokio::test]
async fn draws_a_single_point_and_an_empty_answer() {
    let point = Batch::new(Kind::PointCloud, floats(&[7., 7., 7.], 3));
    let base = Options { size: Size::new(9, 5).unwrap(), width: Some(1), ..Options::default() };
    // The bounds of one point have no extent, so it is in the middle.
    let picture = draw(&point, &Query::all(), &base).await;
    assert_eq!(count(&picture), 1);
    assert_ne!(picture.pixel(4, 2), Some(WHITE));
    let clear = Options { ground: Ground::Transparent, ..base.clone() };
    let outside = Query::all().in_region(Bounds::new(&[50.0; 3], &[60.0; 3]).unwrap());
    let picture = draw(&point, &outside, &clear).await;
    assert_eq!((picture.pixel(4, 2), picture.range(), picture.points()), (Some([0; 4]), None, 0));
    assert_eq!(picture.pixel(9, 0), None);
    assert_eq!(picture.pixel(0, 5), None);
    let dark = Options { ground: Ground::BLACK, ..base };
    let picture = draw(&point, &outside, &dark).await;
    assert_eq!(picture.pixel(4, 2), Some([0, 0, 0, 255]));
}

#[tokio::test]
async fn a_png_file_has_the_pixels_of_the_picture() {
    let point = Batch::new(Kind::PointCloud, floats(&[7., 7., 7.], 3));
    for ground in [Ground::WHITE, Ground::Transparent] {
        let options = Options { size: Size::new(31, 17).unwrap(), ground, ..Options::default() };
        let picture = draw(&point, &Query::all(), &options).await;
        let mut file = Vec::new();
        picture.write_png(&mut file).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.width, info.height), (31, 17));
        let samples = info.color_type.samples();
        for (index, pixel) in bytes.chunks(samples).enumerate() {
            let (x, y) = (index as u32 % 31, index as u32 / 31);
            assert_eq!(picture.pixel(x, y).unwrap()[..samples], *pixel, "{x} {y}");
        }
    }
}

#[tokio::test]
async fn invalid_options_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let positions = floats(&[0., 0., 0., 5., 5., 5.], 3);
    let reader = write_store(folder.path(), &Batch::new(Kind::PointCloud, positions)).await;
    let base = Options::default;
    let by_name = ColourBy::Named("mass".into());
    let endless = Bounds::new(&[0.0; 3], &[f64::INFINITY; 3]).unwrap();
    let square = Bounds::new(&[0.0; 2], &[1.0; 2]).unwrap();
    for (options, message) in [
        (
            Options { axes: Some(vec![0, 3]), ..base() },
            "axes: expected one to three different axes of the store, found [0, 3] of 3",
        ),
        (
            Options { axes: Some(vec![1, 0, 1]), ..base() },
            "axes: expected one to three different axes of the store, found [1, 0, 1] of 3",
        ),
        (
            Options { axes: Some(vec![]), ..base() },
            "axes: expected one to three different axes of the store, found [] of 3",
        ),
        (
            Options { bounds: Some(endless), ..base() },
            "bounds: expected a finite box, its lowest corner first, found [0.0, 0.0, 0.0] to \
             [inf, inf, inf]",
        ),
        (
            Options { bounds: Some(square), ..base() },
            "bounds: expected a finite box, its lowest corner first, found [0.0, 0.0, NaN] to \
             [1.0, 1.0, NaN]",
        ),
        (
            Options { colour: by_name, ..base() },
            "there is no vertex attribute \"mass\": there is none",
        ),
        (
            Options { colour: ColourBy::Direction, ..base() },
            "colour: expected a kind with lines or edges for their direction, found point_cloud",
        ),
    ] {
        let error = render(&reader, &Query::all(), &options).await.unwrap_err();
        assert_eq!(error.sentence(), message);
    }
    // Axes may be in any order.
    let options = Options { axes: Some(vec![2, 0]), ..base() };
    assert_eq!(render(&reader, &Query::all(), &options).await.unwrap().points(), 2);
}
