//! Tests GeoArrow columns and functions of geometry on them.

use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use zvf::{OpenOptions, Query};

use crate::check::number;

fn session() -> SessionContext {
    let context = SessionContext::new();
    zvf_datafusion::register(&context, OpenOptions::default());
    context
}

/// Returns the total length of all objects, in the plane of the first two axes and in space.
async fn expected_lengths(path: &str) -> (f64, f64) {
    let reader = zvf::open(path, OpenOptions::default()).await.unwrap();
    let batch = reader.run(&Query::all()).await.unwrap().batch;
    let step = |row: usize, axes: usize| {
        let coordinate = |row: usize, axis: usize| batch.positions().float(row, axis).unwrap();
        let square = |axis: usize| (coordinate(row, axis) - coordinate(row - 1, axis)).powi(2);
        (0..axes).map(square).sum::<f64>().sqrt()
    };
    let rows: Vec<usize> = batch.parts().iter().flat_map(|part| part.rows.skip(1)).collect();
    (rows.iter().map(|row| step(*row, 2)).sum(), rows.iter().map(|row| step(*row, 3)).sum())
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn geometry_columns_hold_lines_and_points() {
    let folder = archives::scratch();
    let path = archives::unpack_cached(folder.path(), "sl3_streamlines").display().to_string();
    let context = session();
    let (plane, space) = expected_lengths(&path).await;
    assert!(plane > 0.0 && space > plane);
    let lines = format!("zvf('{path}', 'objects', 'geometry')");
    let sql = format!("SELECT sum(st_3dlength(geometry)) FROM {lines}");
    assert!(is_near(number(&context, &sql).await.unwrap(), space));
    let sql = format!("SELECT sum(st_length(geometry)) FROM {lines}");
    assert!(is_near(number(&context, &sql).await.unwrap(), plane));
    let schema = context.sql(&format!("SELECT geometry FROM {lines}")).await.unwrap();
    let field = schema.schema().field(0).clone();
    assert_eq!(field.metadata()["ARROW:extension:name"], "geoarrow.linestring");
    assert!(matches!(field.data_type(), DataType::List(_)));

    let points = format!("zvf('{path}', 'geometry')");
    let count = format!("SELECT count(*) FROM {points} WHERE");
    let expected = format!("{count} sqrt(power(x - 10, 2) + power(y - 10, 2)) < 150");
    let sql = format!("{count} st_distance(geometry, st_point(10, 10)) < 150");
    let (expected, actual) =
        (number(&context, &expected).await.unwrap(), number(&context, &sql).await.unwrap());
    assert!(expected == actual && expected > 0.0, "{expected} {actual}");
    let expected =
        format!("{count} sqrt(power(x - 10, 2) + power(y - 10, 2) + power(z - 5, 2)) < 150");
    let sql = format!("{count} st_3ddistance(geometry, st_pointz(10, 10, 5)) < 150");
    let (expected, actual) =
        (number(&context, &expected).await.unwrap(), number(&context, &sql).await.unwrap());
    assert!(expected == actual && expected > 0.0, "{expected} {actual}");
    let first_point = "(SELECT geometry FROM (SELECT * FROM p ORDER BY chunk, row) LIMIT 1)";
    let table = format!(
        "CREATE EXTERNAL TABLE p STORED AS ZVF LOCATION '{path}' OPTIONS ('geometry' 'true')"
    );
    context.sql(&table).await.unwrap().collect().await.unwrap();
    let sql = format!("SELECT count(*) FROM p WHERE st_3ddistance(geometry, {first_point}) = 0");
    assert!(number(&context, &sql).await.unwrap() >= 1.0);
    let box_of = "st_makebox2d(st_point(0, 0), st_point(50, 50))";
    let sql =
        format!("{count} st_xmin({box_of}) <= x AND x <= st_xmax({box_of}) AND y BETWEEN 0 AND 50");
    let expected = format!("{count} x BETWEEN 0 AND 50 AND y BETWEEN 0 AND 50");
    assert_eq!(number(&context, &sql).await.unwrap(), number(&context, &expected).await.unwrap());
    let polygon = "ST_GeomFromText('POLYGON((0 0, 50 0, 50 50, 0 50, 0 0))')";
    let sql = format!("{count} st_within(geometry, {polygon})");
    let expected = format!("{count} x > 0 AND x < 50 AND y > 0 AND y < 50");
    assert_eq!(number(&context, &sql).await.unwrap(), number(&context, &expected).await.unwrap());
    assert_eq!(number(&context, &format!("SELECT st_area({polygon})")).await.unwrap(), 2500.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsupported_geometry_columns_are_refused() {
    let folder = archives::scratch();
    let mesh = archives::unpack_cached(folder.path(), "ms3_tri").display().to_string();
    let context = session();
    for table in ["objects", "links", "levels"] {
        let sql = format!("SELECT * FROM zvf('{mesh}', '{table}', 'geometry')");
        assert!(context.sql(&sql).await.is_err(), "{sql}");
    }
}
