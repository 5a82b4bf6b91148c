//! A model of the table of the signal handler, run by `cargo xtask loom` under every interleaving.

use loom::sync::Arc;
use loom::thread;

use self::place::Place;

#[path = "../signal/place.rs"]
mod place;

#[test]
fn the_handler_never_sees_half_of_a_range() {
    loom::model(|| {
        let place = Arc::new(Place::default());
        let writer = {
            let place = Arc::clone(&place);
            thread::spawn(move || {
                place.write(1000, 2000);
                place.write(5000, 6000);
            })
        };
        // Between the two: in a range with the start of one and the end of the other.
        assert!(!place.holds(3000));
        writer.join().unwrap();
        assert!(place.holds(5500) && !place.holds(1500));
    });
}
