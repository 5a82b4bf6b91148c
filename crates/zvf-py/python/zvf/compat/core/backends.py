"""Where a URL leads."""

from __future__ import annotations

from urllib.parse import urlsplit


def detect_scheme(url: object) -> str:
    """The scheme of a URL; of a path, nothing.

    >>> detect_scheme("s3://bucket/a"), detect_scheme("/data/a")
    ('s3', '')
    """
    text = str(url)
    return urlsplit(text).scheme.lower() if "://" in text else ""
