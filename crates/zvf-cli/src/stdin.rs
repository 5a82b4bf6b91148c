//! Standard input, which a signal ends.

use std::io::{self, Cursor, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::interrupt::{Interrupt, Interrupted};

/// Standard input, read by a thread of its own, so that a signal ends the wait for it.
pub(crate) struct Stdin {
    chunks: Receiver<io::Result<Vec<u8>>>,
    rest: Cursor<Vec<u8>>,
    interrupt: Interrupt,
}

impl Stdin {
    pub(crate) fn new(interrupt: &Interrupt) -> Self {
        let (sender, chunks) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let mut buffer = vec![0; CHUNK];
            loop {
                let read = io::stdin().read(&mut buffer);
                let is_end = matches!(read, Ok(0) | Err(_));
                let chunk = read.map(|len| buffer.get(..len).unwrap_or_default().to_vec());
                if sender.send(chunk).is_err() || is_end {
                    return;
                }
            }
        });
        Self { chunks, rest: Cursor::default(), interrupt: interrupt.clone() }
    }
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.rest.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            match self.chunks.recv_timeout(LOOK) {
                Ok(chunk) => match chunk? {
                    chunk if chunk.is_empty() => return Ok(0),
                    chunk => self.rest = Cursor::new(chunk),
                },
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) if self.interrupt.has_signal() => {
                    return Err(io::Error::other(Interrupted));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// The largest number of bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// How often a waiting command looks for a signal.
const LOOK: Duration = Duration::from_millis(50);
