"""The codecs of the reference are internal to it; here, the native half does their work."""

raise ImportError(
    "zarr_vectors.encoding is internal to zarr-vectors and zvf.compat has nothing for it: "
    "use zarr_vectors.api, zarr_vectors.types, or the package zvf",
    name="zarr_vectors.encoding",
)
