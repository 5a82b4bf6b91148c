"""A made-up format, which only the builds of CI know (the feature ``dots`` of zvf-convert)."""

import os
from pathlib import Path

import pytest

import zvf


def test_a_line_in_the_table_is_all_that_a_format_needs(tmp_path: Path) -> None:
    text = "dots\n0.5 1 7\n2 3 9\n"
    file, store, out = (tmp_path / name for name in ("a.dots", "a.zarrvectors", "b.dots"))
    file.write_text(text)
    if not os.environ.get("ZVF_HAS_DOTS"):
        with pytest.raises(zvf.Error, match="cannot tell the format"):
            zvf.ingest(file, store)
        return
    assert zvf.ingest(file, store).read()["weight"].tolist() == [7, 9]
    zvf.convert(store, out)
    assert out.read_text() == text
