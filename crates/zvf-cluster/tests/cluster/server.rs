//! An HTTP server for a store that can hold back chunks, so that a test can act during a scan.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

use archives::http::{Exchange, serve_files};

use crate::processes::TIMEOUT;

/// A gate that limits how many requests for chunks pass.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<ServerState>,
    changed: Condvar,
}

#[derive(Debug)]
struct ServerState {
    allowed: usize,
    requested: usize,
}

impl Gate {
    /// Creates a gate that lets `allowed` requests for chunks pass.
    pub(crate) fn new(allowed: usize) -> Arc<Self> {
        let state = Mutex::new(ServerState { allowed, requested: 0 });
        Arc::new(Self { state, changed: Condvar::new() })
    }

    /// Waits until a request is held back.
    pub(crate) fn wait_until_held(&self) {
        let state = self.state.lock().unwrap();
        let is_free = |state: &mut ServerState| state.requested <= state.allowed;
        let (_state, waited) = self.changed.wait_timeout_while(state, TIMEOUT, is_free).unwrap();
        assert!(!waited.timed_out(), "no chunk is requested");
    }

    /// Lets everything pass from now on.
    pub(crate) fn open(&self) {
        self.state.lock().unwrap().allowed = usize::MAX;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.requested += 1;
        let number = state.requested;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.allowed < number).unwrap());
    }
}

/// Serves the files below `root`, chunks through the gate.
pub(crate) fn serve(root: PathBuf, gate: Arc<Gate>) -> String {
    let address = serve_files(root, move |exchange| match exchange {
        Exchange::Asked(path) if path.contains("/vertices/c/") => gate.pass(),
        Exchange::Asked(_) | Exchange::Sent(_) => {}
    });
    format!("http://{}", address.unwrap())
}
