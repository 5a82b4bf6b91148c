//! Orders, and rows that belong to several objects or to none.

use zvf_model::{Bounds, Kind, ObjectId};
use zvf_query::{BadQuery, Mode, Order, Query};

use crate::fixtures::Data;
use crate::modes::{numbers, parts};

#[test]
fn a_shared_row_is_returned_for_each_object() {
    // Two objects share a fragment, so the index lists it twice.
    let points = (0..6).map(|i| vec![i as f32, 0.0]).collect();
    let mut data =
        Data::new(Kind::PointCloud, 4.0, points).objects(vec![(0..3).collect(), (3..6).collect()]);
    data.shared = vec![(1, 0)];
    let fixture = data.fixture();
    let physical = fixture.run(&Query::all().order(Order::Storage).with_owners()).unwrap().batch;
    assert_eq!(numbers(&physical), [0, 1, 2, 3, 4, 5]);
    let owners: Vec<_> =
        physical.vertex_objects().unwrap().iter().map(|id| id.unwrap().0).collect();
    assert_eq!(owners, [0, 0, 0, 1, 1, 1]); // the first of the two owners
    let logical = fixture.run(&Query::all().order(Order::Objects)).unwrap().batch;
    assert_eq!(parts(&logical), [(0, vec![0, 1, 2]), (1, vec![3, 4, 5, 0, 1, 2])]);
    let query = Query::all().of_objects([ObjectId(1)]);
    assert_eq!(parts(&fixture.run(&query).unwrap().batch), [(1, vec![3, 4, 5, 0, 1, 2])]);
    // In the order of storage each row is returned once, with its owner among the requested
    // objects.
    let batch = fixture.run(&query.order(Order::Storage).with_owners()).unwrap().batch;
    assert_eq!(numbers(&batch), [0, 1, 2, 3, 4, 5]);
    assert!(batch.vertex_objects().unwrap().iter().all(|id| *id == Some(ObjectId(1))));
    let bounds = Bounds::new(&[1.0, 0.0], &[4.0, 0.0]).unwrap();
    let query = Query::all().of_objects([1, 0].map(ObjectId)).in_region(bounds);
    let batch = fixture.run(&query).unwrap().batch;
    assert_eq!(parts(&batch), [(1, vec![3, 4, 1, 2]), (0, vec![1, 2])]);
    let batch = fixture.run(&query.order(Order::Storage)).unwrap().batch;
    assert_eq!(numbers(&batch), [1, 2, 3, 4]);
}

#[test]
fn points_without_objects_have_no_owner() {
    let points = (0..4).map(|i| vec![i as f32, 0.0]).collect();
    let fixture = Data::new(Kind::PointCloud, 4.0, points).fixture();
    let batch = fixture.run(&Query::all().with_owners()).unwrap().batch;
    assert_eq!(batch.vertex_objects(), Some(&[None; 4][..]));
    let bounds = Bounds::new(&[1.0, 0.0], &[2.0, 0.0]).unwrap();
    let batch = fixture.run(&Query::all().in_region(bounds).with_owners()).unwrap().batch;
    assert_eq!(batch.vertex_objects(), Some(&[None; 2][..]));
}

#[test]
fn the_original_order_is_restored() {
    // Points that alternate between chunks; each is an object.
    let points: Vec<Vec<f32>> = [9.0, 1.0, 5.0, 0.0].map(|x| vec![x, 0.0]).into();
    let objects = (0..4).map(|i| vec![i]).collect();
    let fixture = Data::new(Kind::PointCloud, 4.0, points.clone()).objects(objects).fixture();
    let batch = fixture.run(&Query::all().order(Order::Original)).unwrap().batch;
    assert_eq!(numbers(&batch), [0, 1, 2, 3]);
    assert_eq!(numbers(&fixture.run(&Query::all()).unwrap().batch), [1, 3, 2, 0]);
    let fixture = Data::new(Kind::PointCloud, 4.0, points.clone()).fixture();
    let error = fixture.run(&Query::all().order(Order::Original)).unwrap_err();
    let text = "InvalidArgument, the original order is not possible for a point_cloud: the store does not \
               keep it: points come sorted by where they are";
    assert_eq!(error.to_string(), text);
    let fixture = Data::new(Kind::PointCloud, 4.0, points.clone()).one_object().fixture();
    assert_eq!(fixture.run(&Query::all().order(Order::Original)).unwrap_err().to_string(), text);
    let fixture = Data::new(Kind::Polyline, 4.0, points.clone()).one_object().fixture();
    assert_eq!(
        numbers(&fixture.run(&Query::all().order(Order::Original)).unwrap().batch),
        [0, 1, 2, 3]
    );
    let fixture = Data::new(Kind::Graph, 4.0, points).one_object().fixture();
    assert!(
        fixture
            .run(&Query::all().order(Order::Original))
            .unwrap_err()
            .cause_as::<BadQuery>()
            .is_some()
    );
}

#[test]
fn chains_are_returned_in_the_order_of_storage() {
    let points: Vec<Vec<f32>> = [9.0, 1.0, 5.0, 0.0, 10.0].map(|x| vec![x, 0.0]).into();
    let fixture =
        Data::new(Kind::Polyline, 4.0, points).objects(vec![vec![0, 1, 2], vec![3, 4]]).fixture();
    let stored = Query::all().order(Order::Storage);
    assert_eq!(numbers(&fixture.run(&stored).unwrap().batch), [1, 3, 2, 0, 4]);
    let query = Query::all().of_objects([ObjectId(1)]).order(Order::Storage).with_owners();
    let batch = fixture.run(&query).unwrap().batch;
    assert_eq!((numbers(&batch), batch.parts().len()), (vec![3, 4], 0));
    assert_eq!(batch.vertex_objects(), Some(&[Some(ObjectId(1)); 2][..]));
    let bounds = Bounds::new(&[0.0, 0.0], &[6.0, 0.0]).unwrap();
    let crop = Query::all().in_region(bounds).mode(Mode::Crop).order(Order::Storage);
    assert_eq!(numbers(&fixture.run(&crop.clone()).unwrap().batch), [1, 3, 2]);
    let answer = fixture.run(&crop.of_objects([0, 7].map(ObjectId))).unwrap();
    assert_eq!((numbers(&answer.batch), answer.unknown_objects), (vec![1, 2], vec![ObjectId(7)]));
    let query = Query::all().in_region(bounds).order(Order::Storage);
    assert!(fixture.run(&query).unwrap_err().cause_as::<BadQuery>().is_some());
}
