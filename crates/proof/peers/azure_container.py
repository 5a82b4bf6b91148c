"""Creates a container on an emulator of Azure Blob Storage.

    azure_container.py PORT ACCOUNT KEY NAME
"""

import base64
import hashlib
import hmac
import sys
from email.utils import formatdate
from urllib.request import Request, urlopen

port, account, key, name = sys.argv[1:]
headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
lines = ["PUT"] + [""] * 11 + [f"{header}:{value}" for header, value in sorted(headers.items())]
lines += [f"/{account}/{account}/{name}", "restype:container"]
digest = hmac.new(base64.b64decode(key), "\n".join(lines).encode(), hashlib.sha256).digest()
headers |= {"Authorization": f"SharedKey {account}:{base64.b64encode(digest).decode()}", "Content-Length": "0"}
where = f"http://127.0.0.1:{port}/{account}/{name}?restype=container"
urlopen(Request(where, method="PUT", headers=headers)).read()
