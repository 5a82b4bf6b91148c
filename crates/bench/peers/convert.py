"""zarr-vectors-tools making stores of files: the clock runs from the name of the file to the store."""

import warnings

from zarr_vectors_tools.convert.ingest.csv_points import ingest_csv
from zarr_vectors_tools.convert.ingest.obj import ingest_obj

import serve

warnings.simplefilter("ignore")
serve.ENOUGH = 0  # a store is made once, and removed by who asks
CHUNK = (12.5, 12.5, 12.5)


def csv(ask):
    ingest_csv(ask["from"], ask["to"], CHUNK, position_columns=["x", "y", "z"], attribute_columns=["weight"])
    return 0


def obj(ask):
    ingest_obj(ask["from"], ask["to"], CHUNK)
    return 0


serve.serve({"csv": csv, "obj": obj})
