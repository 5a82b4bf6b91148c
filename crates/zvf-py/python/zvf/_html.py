"""Tables and small pictures, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_MOST_DRAWN = 2_000_000  # vertices of a picture that nobody asked for


def picture(thing: Any, vertices: int) -> str:
    """A small picture of what can be rendered, as HTML; nothing where it would take long."""
    if not 0 < vertices <= _MOST_DRAWN:
        return ""
    import base64

    try:
        png = base64.b64encode(thing.render(160, 120)).decode()
    except Exception:  # a picture is a courtesy: the table is the answer
        return ""
    return f'<img width="160" height="120" src="data:image/png;base64,{png}"/>'


def escaped(text: str) -> str:
    """Text as HTML."""
    import html

    return html.escape(text)


def table_html(rows: Iterable[tuple[str, Any]]) -> str:
    """Rows of a name and a value as HTML."""
    lines = (f"<tr><th>{escaped(k)}</th><td>{escaped(str(v))}</td></tr>" for k, v in rows)
    return f"<table>{''.join(lines)}</table>"
