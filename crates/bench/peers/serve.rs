//! The loop that the programs of peers share: it reads one request per line and writes one answer
//! per line, as `serve.py` does for scripts.

use std::error::Error;
use std::io::Write as _;
use std::time::Instant;

use serde_json::{Value, json};

pub type Answer = Result<Value, Box<dyn Error>>;

/// Answers every request of standard input; an error is the answer `{"error"}`.
pub fn serve(mut answer: impl FnMut(&Value) -> Answer) -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lines() {
        let ask = serde_json::from_str(&line?)?;
        let answer = answer(&ask).unwrap_or_else(|error| json!({"error": error.to_string()}));
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Repeats work that returns a count for `enough` seconds; answers the mean time and the count.
pub fn measure(enough: f64, mut work: impl FnMut() -> Result<usize, Box<dyn Error>>) -> Answer {
    let (start, mut times) = (Instant::now(), 0_u32);
    loop {
        let count = work()?;
        times += 1;
        let seconds = start.elapsed().as_secs_f64();
        if seconds >= enough {
            return Ok(
                json!({"seconds": seconds / f64::from(times), "count": count, "times": times}),
            );
        }
    }
}
