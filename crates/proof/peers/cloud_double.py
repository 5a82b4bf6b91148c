"""A stand-in for Google Cloud Storage: objects in memory behind its XML interface, on loopback.

    cloud_double.py PORT

Only what a client of objects needs: put (also if absent), get with ranges and conditions, head, delete,
list by prefix with pages and delimiter. No authentication, no uploads in parts.
"""

import hashlib
import sys
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

LOCK = threading.Lock()
OBJECTS = {}  # (bucket, key) -> Object
LAST = [0]  # the newest generation


class Object:
    def __init__(self, body):
        LAST[0] += 1
        self.body, self.generation = body, LAST[0]
        self.tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        self.written = formatdate(usegmt=True)

    def headers(self):
        yield "ETag", self.tag
        yield "Last-Modified", self.written
        yield "x-goog-generation", str(self.generation)


class Refused(Exception):
    """A reply that is a status and nothing else."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self):
        """Every request comes by here."""
        where = urlsplit(self.path)
        bucket, _, key = unquote(where.path.lstrip("/")).partition("/")
        words = {name: values[0] for name, values in parse_qs(where.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            with LOCK:
                if self.command == "PUT":
                    self.put((bucket, key), body)
                elif self.command == "DELETE":
                    if OBJECTS.pop((bucket, key), None) is None:
                        raise Refused(404)
                    self.reply(204)
                elif key:
                    self.get((bucket, key))
                else:
                    self.list(bucket, words)
        except Refused as refused:
            self.reply(refused.args[0])

    do_GET = do_HEAD = do_PUT = do_DELETE = answer

    def reply(self, status, headers=(), body=b"", kind="application/octet-stream"):
        self.send_response(status)
        for name, value in [*headers, ("Content-Type", kind), ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def put(self, place, body):
        wanted = self.headers.get("x-goog-if-generation-match")
        there = OBJECTS[place].generation if place in OBJECTS else 0
        if wanted is not None and int(wanted) != there:
            raise Refused(412)
        OBJECTS[place] = Object(body)
        self.reply(200, OBJECTS[place].headers())

    def get(self, place):
        found = OBJECTS.get(place)
        if found is None:
            raise Refused(404)
        if self.headers.get("If-Match", found.tag) != found.tag:
            raise Refused(412)
        if self.headers.get("If-None-Match") == found.tag:
            raise Refused(304)
        span = self.headers.get("Range")
        if span is None:
            return self.reply(200, found.headers(), found.body)
        size = len(found.body)
        first, _, last = span.removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        if begin >= end:
            raise Refused(416)
        headers = [*found.headers(), ("Content-Range", f"bytes {begin}-{end - 1}/{size}")]
        return self.reply(206, headers, found.body[begin:end])

    def list(self, bucket, words):
        prefix, delimiter = words.get("prefix", ""), words.get("delimiter")
        after = words.get("continuation-token") or words.get("start-after", "")
        left = int(words.get("max-keys", 1000))
        result = ElementTree.Element("ListBucketResult")
        folders = set()
        for key in sorted(key for place, key in OBJECTS if place == bucket):
            if not key.startswith(prefix) or key <= after:
                continue
            below, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if found:
                folders.add(prefix + below + delimiter)
                continue
            if left == 0:
                ElementTree.SubElement(result, "NextContinuationToken").text = last
                break
            entry, item = ElementTree.SubElement(result, "Contents"), OBJECTS[bucket, key]
            facts = {"Key": key, "Size": len(item.body), "ETag": item.tag, "Generation": item.generation}
            for name, value in {**facts, "LastModified": "2026-01-01T00:00:00.000Z"}.items():
                ElementTree.SubElement(entry, name).text = str(value)
            left, last = left - 1, key
        truncated = result.find("NextContinuationToken") is not None
        ElementTree.SubElement(result, "IsTruncated").text = str(truncated).lower()
        for folder in sorted(folders):
            ElementTree.SubElement(ElementTree.SubElement(result, "CommonPrefixes"), "Prefix").text = folder
        self.reply(200, body=ElementTree.tostring(result, xml_declaration=True, encoding="utf-8"), kind="application/xml")


class Server(ThreadingHTTPServer):
    request_queue_size = 256  # clients ask for many objects at once
    daemon_threads = True


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
