//! Tables of text, good and bad.

use zvf_formats::{ColumnRoles, Input, MAX_LINE_BYTES};
use zvf_model::Kind;

use crate::csv::read::*;
use crate::shared::{dump, dump_reader, fault, open};
use crate::{CSV, TSV};

fn options(columns: ColumnRoles) -> ReadOptions {
    ReadOptions { columns, ..ReadOptions::default() }
}

#[test]
fn reads_tables_of_every_form() {
    let roles = |positions: &[&str], object: Option<&str>, fields: Option<&[&str]>| ColumnRoles {
        positions: positions.iter().map(|name| (*name).to_owned()).collect(),
        object: object.map(str::to_owned),
        fields: fields.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        types: Vec::new(),
    };
    let none = ColumnRoles::default;
    let typed = ColumnRoles {
        types: vec![("n".into(), "uint8".parse::<Dtype>().unwrap())],
        ..ColumnRoles::default()
    };
    for (name, text, columns, expected) in [
        ("names only", "x,y\n", none(), "point_cloud of float64\n"),
        (
            "types inferred from values, in any order",
            "flag,Y,n,note,x,w,gap\r\ntrue,2,7,soma,1,0.5,\r\nFalse,4,-8,\"a,\"\"b\"\"\",3,1e3,2\r\n",
            none(),
            "point_cloud of float64, flag bool, n int64, note <U5, w float64, gap float64\n\
             x,Y,flag,n,note,w,gap\n1,2,true,7,soma,0.5,NaN\n3,4,false,-8,\"a,\"\"b\"\"\",1000,2\n",
        ),
        (
            "a type that is stated",
            "x,n\n1,200\n",
            typed,
            "point_cloud of float64, n uint8\nx,n\n1,200\n",
        ),
        (
            "columns by name, blank lines, a mark, no line feed at the end",
            "\u{feff}lon,lat,track,speed\n\n10,50,7,3\n11,51,,4",
            roles(&["lon", "lat"], Some("track"), Some(&[])),
            "point_cloud of float64\nlon,lat,object\n10,50,7\n11,51,\n",
        ),
        (
            "a line that breaks in quotes",
            "x,note\n1,\"two\nlines\"\n2,\n",
            none(),
            "point_cloud of float64, note <U9\nx,note\n1,\"two\nlines\"\n2,\n",
        ),
        (
            "what this crate writes",
            "x,y,part,object\n1,2,0,5\n3,4,1,5\n",
            none(),
            "point_cloud of float64\nx,y,object\n1,2,5\n3,4,5\n",
        ),
        (
            "nothing in a column",
            "x,a\n1,\n",
            none(),
            "point_cloud of float64, a float64\nx,a\n1,NaN\n",
        ),
    ] {
        assert_eq!(dump(&CSV, text.as_bytes(), &options(columns)).unwrap(), expected, "{name}");
    }
    let tabs = dump(&TSV, b"x\ty\n1\t2,\n", &ReadOptions::default());
    assert_eq!(fault(tabs, "TSV"), "Encoding, line 2, column \"y\": float64, found \"2,\"");
    let typed = ReadOptions { positions: Some(Dtype::FLOAT32), ..ReadOptions::default() };
    assert_eq!(dump(&TSV, b"x\ty\n1\t2\n", &typed).unwrap(), "point_cloud of float32\nx,y\n1,2\n");
}

#[test]
fn lines_may_end_with_carriage_returns() {
    let expected = "point_cloud of float64, note <U3\nx,y,note\n1,2,a\n3,4,b c\n";
    for text in [
        "x,y,note\r1,2,a\r3,4,b c\r",
        "x,y,note\r1,2,a\r3,4,b c",
        "x,y,note\r\n1,2,a\r\n3,4,b c\r\n",
        "\u{feff}x,y,note\r1,2,a\r\r3,4,b c\r",
    ] {
        assert_eq!(
            dump(&CSV, text.as_bytes(), &ReadOptions::default()).unwrap(),
            expected,
            "{text:?}"
        );
    }
    // In a file with line feeds, a lone carriage return is an ordinary character.
    let text = b"x,note\n1,a\rb\n";
    assert_eq!(
        dump(&CSV, text, &ReadOptions::default()).unwrap(),
        "point_cloud of float64, note <U3\nx,note\n1,\"a\rb\"\n" // the writer quotes it
    );
}

#[test]
fn minus_one_means_no_object_for_points() {
    let text = b"x,y,object\n1,2,-1\n3,4,7\n5,6,\n";
    let read = |kind| {
        let options = ReadOptions { kind: Some(kind), ..ReadOptions::default() };
        dump(&CSV, text, &options)
    };
    let points = read(Kind::PointCloud).unwrap();
    assert!(points.ends_with("\n1,2,\n3,4,7\n5,6,\n"), "{points}");
    let text = b"x,y,object\n1,2,-1\n3,4,-1\n";
    let options = ReadOptions { kind: Some(Kind::Polyline), ..ReadOptions::default() };
    let lines = dump(&CSV, text, &options).unwrap();
    assert!(lines.contains(",-1\n"), "{lines}");
}

#[test]
fn never_rounds_integers() {
    let dumped = |text: &str, stated: Option<&str>| {
        let types = stated.map(|dtype| ("id".to_owned(), dtype.parse::<Dtype>().unwrap()));
        let columns = ColumnRoles { types: types.into_iter().collect(), ..ColumnRoles::default() };
        dump(&CSV, text.as_bytes(), &options(columns))
    };
    for (text, stated, expected) in [
        ("x,id\n1,9007199254740993\n", None, "id int64\nx,id\n1,9007199254740993\n"),
        (
            "x,id\n1,18446744073709551615\n2,0\n",
            None,
            "id uint64\nx,id\n1,18446744073709551615\n2,0\n",
        ),
        ("x,id\n1,9007199254740992\n2,\n", None, "id float64\nx,id\n1,9007199254740992\n2,NaN\n"),
        (
            "x,id\n1,9007199254740993\n2,\n",
            Some("float64"),
            "id float64\nx,id\n1,9007199254740992\n2,NaN\n",
        ),
    ] {
        assert_eq!(
            dumped(text, stated).unwrap(),
            format!("point_cloud of float64, {expected}"),
            "{text}"
        );
    }
    let message = |line: u32, column: &str, found: &str| {
        format!(
            "Encoding, line {line}, column {column:?}: a whole number that float64 holds \
             exactly, found {found}; the column has missing values or fractions: state its type, \
             float64 to have it rounded, int64 where none is missing, or text"
        )
    };
    for (text, line, column, found) in [
        ("x,id\n1,\n2,9007199254740993\n", 3, "id", "9007199254740993"),
        ("x,id\n1,0.5\n2,-9007199254740993\n", 3, "id", "-9007199254740993"),
        ("x,id\n1,-1\n2,18446744073709551615\n", 3, "id", "18446744073709551615"),
        ("x,id\n1,NA\n2,9007199254740993\n", 3, "id", "9007199254740993"),
        ("x,id\n9007199254740993,1\n", 2, "x", "9007199254740993"),
    ] {
        assert_eq!(fault(dumped(text, None), "CSV"), message(line, column, found), "{text}");
    }
}

#[test]
fn reports_words_read_as_missing_numbers() {
    let text = "x,mass,label,none\n1,0.5,NA,NA\n2,NA,a,NA\n3,null,b,NA\n4,,c,NA\n";
    let options = ReadOptions::default();
    let reader = open(Input::reader(text.as_bytes()), Some(&CSV), &options);
    assert_eq!(
        reader.unwrap().header().notes,
        [
            "\"NA\", \"null\" in column \"mass\": taken for missing values (a type stated for it, such as \
          mass=<U16, keeps them as text)"
        ]
    );
    let dumped = dump(&CSV, text.as_bytes(), &options).unwrap();
    assert!(
        dumped.ends_with("x,mass,label,none\n1,0.5,NA,NA\n2,NaN,a,NA\n3,NaN,b,NA\n4,NaN,c,NA\n"),
        "{dumped}"
    );
    // pandas gives its index no name.
    assert!(dump(&CSV, b",x\n7,1\n", &options).unwrap().ends_with("x,c0\n1,7\n"));
}

#[test]
fn runs_of_an_object_become_parts() {
    let text = "x,object,part\n0,7,0\n1,7,0\n2,7,1\n3,9,1\n4,7,2\n";
    let read = |kind, batch_rows| {
        let options = ReadOptions { kind: Some(kind), batch_rows, ..ReadOptions::default() };
        dump(&CSV, text.as_bytes(), &options).unwrap()
    };
    assert_eq!(
        read(Kind::Polyline, 100),
        "polyline of float64\nx,part,object\n0,0,7\n1,0,7\n2,1,7\n3,2,9\n4,3,7\n"
    );
    assert_eq!(
        read(Kind::Polyline, 2),
        "polyline of float64\nx,part,object\n0,0,7\n1,0,7\nx,part,object\n2,0,7\n3,1,9\n\
         x,part,object\n4,0,7\n"
    );
    assert!(read(Kind::PointCloud, 100).starts_with("point_cloud of float64\nx,object\n0,7\n"));
    let options = ReadOptions { kind: Some(Kind::Streamline), ..ReadOptions::default() };
    let alone = dump(&CSV, b"x\n1\n2\n", &options).unwrap();
    assert_eq!(alone, "streamline of float64\nx,part,object\n1,0,0\n2,0,0\n");
}

#[test]
fn refuses_invalid_tables() {
    let missing =
        |name: &str| ColumnRoles { positions: vec![name.into()], ..ColumnRoles::default() };
    let typed = |name: &str| ColumnRoles {
        types: vec![(name.into(), Dtype::INT64)],
        ..ColumnRoles::default()
    };
    let none = ColumnRoles::default;
    for (text, columns, message) in [
        (&b""[..], none(), "Truncated, line 1: names of columns, found an empty file"),
        (
            b"a,b\n1,2\n",
            none(),
            "InvalidArgument, names of columns: a column \"x\", and \"y\", \"z\", \"t\" where \
             there are any, found \"a\", \"b\"; name the columns of positions, as in --positions \
             x,y,z",
        ),
        (
            b"id,x_um,y_um,n_z\n",
            none(),
            "InvalidArgument, names of columns: a column \"x\", and \"y\", \"z\", \"t\" where \
             there are any, found \"id\", \"x_um\", \"y_um\", \"n_z\"; name the columns of \
             positions, as in --positions x_um,y_um,n_z",
        ),
        (
            b"x;y\n",
            none(),
            "InvalidArgument, names of columns: a column \"x\", and \"y\", \"z\", \"t\" where \
             there are any, found \"x;y\"; set what separates columns, as in --separator ';'",
        ),
        (
            b"x,x\n",
            none(),
            "Duplicate, names of columns: another name for each column, found \"x\" twice",
        ),
        (
            b"x,y\n",
            missing("lon"),
            "InvalidArgument, names of columns: a column \"lon\", found \"x\", \"y\"",
        ),
        (
            b"x,y\n",
            typed("n"),
            "InvalidArgument, names of columns: a column \"n\", found \"x\", \"y\"",
        ),
        (b"x,y\n1,2\n3\n", none(), "CountMismatch, line 3: 2 values, found 1"),
        (b"x,y\n1,2\n3,4,5\n", none(), "CountMismatch, line 3: 2 values, found 3"),
        (b"x,y\n1,2\n3,four\n", none(), "Encoding, line 3, column \"y\": float64, found \"four\""),
        (b"x,y\n1,\n", none(), "Encoding, line 2, column \"y\": float64, found \"\""),
        (b"x,n\n1,5\n2,5.5\n", typed("n"), "Encoding, line 3, column \"n\": int64, found \"5.5\""),
        (b"x,object\n1,a\n", none(), "Encoding, line 2, column \"object\": int64, found \"a\""),
        (b"x,n\n1,\"2\n\n", none(), "Truncated, line 2: a closing quote, found the end"),
        (
            b"x\n1\n\xff\n",
            none(),
            "Encoding, line 3: text in UTF-8, found other bytes after 0 of them",
        ),
    ] {
        let found = fault(dump(&CSV, text, &options(columns)), "CSV");
        assert_eq!(found, message, "{}", String::from_utf8_lossy(text));
    }
    let graph = ReadOptions { kind: Some(Kind::Graph), ..ReadOptions::default() };
    assert_eq!(
        fault(dump(&CSV, b"x\n", &graph), "CSV"),
        "Unsupported, the file: edges or faces of a graph, found vertices only; choose \
             points, lines, polylines or streamlines with --kind"
    );
    let chain = ReadOptions { kind: Some(Kind::Polyline), ..ReadOptions::default() };
    assert_eq!(
        fault(dump(&CSV, b"x,object\n1,\n", &chain), "CSV"),
        "Encoding, line 2, column \"object\": int64, found \"\""
    );
}

#[test]
fn refuses_lines_without_an_end() {
    let long = vec![b'1'; MAX_LINE_BYTES + 1];
    let error = dump(&CSV, &[b"x\n", &long[..]].concat(), &ReadOptions::default());
    assert_eq!(
        fault(error, "CSV"),
        "LimitExceeded, line 2: a line of at most 1048576 bytes, found a longer one"
    );
    let open: Vec<u8> =
        b"x\n\"".iter().copied().chain(b"1\n".repeat(MAX_LINE_BYTES / 2 + 1)).collect();
    let error = dump(&CSV, &open, &ReadOptions::default());
    assert_eq!(
        fault(error, "CSV"),
        "LimitExceeded, line 2: at most 1048576 bytes before the closing quote, found more"
    );
}

#[test]
fn errors_mention_an_inferred_type() {
    let rows: String = (0..50).map(|n| format!("{n},{n}\n")).collect();
    let text = format!("x,n\n{rows}50,half\n");
    let small = ReadOptions { memory: 1000, ..ReadOptions::default() };
    assert_eq!(
        fault(dump(&CSV, text.as_bytes(), &small), "CSV"),
        "Encoding, line 52, column \"n\": int64, found \"half\"; its type was inferred from \
             the first lines: state it"
    );
    assert!(dump(&CSV, text.as_bytes(), &ReadOptions::default()).unwrap().contains("n <U4"));
}

/// A stream that yields at most 40 bytes at a time, so that no block of lines is in a buffer.
struct Trickle(std::io::Cursor<Vec<u8>>);

impl std::io::Read for Trickle {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let max_bytes = into.len().min(40);
        self.0.read(&mut into[..max_bytes])
    }
}

/// Returns a table with plain and empty lines, quotes, line breaks in quotes, blanks around values, and comments.
fn mixed_table(lines: u64) -> String {
    let line = |n: u64| {
        let note = match n % 1013 {
            0 => "\"a, b\"".to_owned(),
            1 => "\"two\nlines\"".to_owned(),
            2 => "\u{e9}\u{20ac}".to_owned(),
            rest => format!("n{rest}"),
        };
        let end = if n.is_multiple_of(7) { "\r\n" } else { "\n" };
        let mass =
            if n.is_multiple_of(11) { "NA".to_owned() } else { format!("{}", n as f64 / 7.0) };
        let blank = if n.is_multiple_of(501) { "\n\r\n" } else { "" };
        let comment = if n % 4001 == 9 { "# 1,2,3\n" } else { "" };
        format!("{blank}{comment}{}, {}.5 ,{mass},{},{note}{end}", n / 3, n % 90, n / 1000)
    };
    "x,y,mass,object,note\n".to_owned() + &(0..lines).map(line).collect::<String>()
}

#[test]
fn blocks_give_the_same_rows_as_single_lines() {
    let text = mixed_table(20_000);
    for (kind, batch_rows) in
        [(Kind::PointCloud, 65_536), (Kind::PointCloud, 999), (Kind::Polyline, 4096)]
    {
        let types = vec![("note".into(), "<U12".parse::<Dtype>().unwrap())];
        let mut options = options(ColumnRoles { types, ..ColumnRoles::default() });
        options.text.comment = Some(b'#');
        let options = ReadOptions { kind: Some(kind), batch_rows, memory: 1000, ..options };
        let trickle = Trickle(std::io::Cursor::new(text.clone().into_bytes()));
        let reader = open(Input::reader(trickle), Some(&CSV), &options);
        let one_by_one = dump_reader(reader).unwrap();
        assert!(one_by_one.lines().count() >= 20_000);
        assert!(dump(&CSV, text.as_bytes(), &options).unwrap() == one_by_one, "{kind}");
    }
}

#[test]
fn errors_name_the_bad_line_of_a_block() {
    let rows: String = (0..30_000).map(|n| format!("{n},{n}.25\n")).collect();
    let small = ReadOptions { memory: 1000, ..ReadOptions::default() };
    for (bad, message) in [
        ("1,2,3\n", "CountMismatch, line 30002: 2 values, found 3"),
        ("1,b\n", "Encoding, line 30002, column \"y\": float64, found \"b\""),
    ] {
        let text = format!("x,y\n{rows}{bad}{rows}");
        assert_eq!(fault(dump(&CSV, text.as_bytes(), &small), "CSV"), message);
    }
}

#[test]
fn a_table_has_the_rules_of_a_file_of_vertices() {
    let folder = tempfile::tempdir().unwrap();
    let table = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        read_table(&path).map_err(|error| error.to_string())
    };
    let read =
        table("a.csv", "\u{feff}id,\"a, \"\"b\"\"\"\r\n\r\n1,\"x\ry\nz\"\r\n2, w\n").unwrap();
    assert_eq!(read.names, ["id", "a, \"b\""]);
    let rows: Vec<(u64, Vec<&str>)> = read
        .rows
        .iter()
        .map(|row| (row.line, row.values.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(rows, [(3, vec!["1", "x\ry\nz"]), (5, vec!["2", " w"])]);
    assert_eq!(table("a.tsv", "id\ta,b\n").unwrap().names, ["id", "a,b"]);
    for (text, expected) in [
        ("a,a\n", "\"a\" twice"),
        ("a,b\n1\n", "line 2"),
        ("a,b\n1,\"2\n", "a closing quote"),
        ("", "names of columns"),
    ] {
        let error = table("b.csv", text).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}
