"""The viewer in a notebook: a server of this process on this machine, and the page in a cell."""

from __future__ import annotations

import html
import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from ._jobs import start_command
from ._words import count_of
from .errors import TimedOutError


class View:
    """A store that is looked at: the server runs until :meth:`close`, or until nothing refers to it.

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.random.default_rng(0).random((100, 3)))
    >>> with ds.view() as view:
    ...     view.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, address: str, storage: list[tuple[str, str]], height: int = 480) -> None:
        self.height = count_of("height", height)
        self._port = _free_port()
        self._job = start_command("serve", address, "--bind", f"127.0.0.1:{self._port}", storage=storage)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The page with the stores that are served."""
        return f"http://127.0.0.1:{self._port}/"

    @property
    def page(self) -> str:
        """The viewer of the store."""
        with urllib.request.urlopen(f"{self.url}api/stores", timeout=5) as reply:
            name = json.load(reply)[0]["name"]
        state = json.dumps({"store": f"../data/{name}/"}, separators=(",", ":"))
        return f"{self.url}view/#!{urllib.parse.quote(state, safe='{}:,./')}"

    def _wait(self) -> None:
        """Returns when the server answers; raises what it failed with."""
        end = time.monotonic() + 10
        while True:
            try:
                urllib.request.urlopen(f"{self.url}healthz", timeout=1).close()
                return
            except (urllib.error.URLError, OSError):
                if self._job.is_done():
                    self._job.wait()  # raises
                if time.monotonic() > end:
                    raise TimedOutError(f"the server at {self.url} did not answer within 10 s", op="view") from None
                time.sleep(0.02)

    def close(self) -> None:
        """Stop the server."""
        self._job.cancel()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_job"):
            self.close()

    def _repr_html_(self) -> str:
        return f'<iframe src="{html.escape(self.page)}" width="100%" height="{self.height}" style="border:0"></iframe>'

    def __repr__(self) -> str:
        return f"<zvf.View {self.url}>"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


__all__ = ["View"]
