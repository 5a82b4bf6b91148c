"""A plugin of pytest: the tests of zarr-vectors run against ``zvf.compat``, and which of them are run.

    PYTHONPATH=crates/zvf-py/tests/reference python -m pytest -p zvf_as_reference TESTS-OF-ZARR-VECTORS

Tests are taken as they were published. Run are those of the public facade: ``FILES`` names them. A test that asks for
what the reference cannot do is run under the switch that says so (``SWITCHED``). What is different on purpose is in
``DIFFERENT`` with its reason, and is expected to fail: one that passes after all is an error, so that the list stays true.
"""

from __future__ import annotations

import pytest
import zvf.compat

zvf.compat.install()

FILES = frozenset(
    """
    integration/test_binning_sparsity.py integration/test_lazy_sharding_rechunk.py
    test_api_consistency.py test_api_facade.py test_api_groups_metadata.py test_api_level_attributes.py
    test_api_maintenance.py test_api_objects_grid.py test_attr_chunking.py test_building_contract.py
    test_chunk_helpers.py test_graphs.py test_headers.py test_lazy_level.py test_lazy_writer.py
    test_lines_parametric.py test_meshes.py test_points.py test_polylines.py test_rechunk_by_attribute.py
    test_scaffolding.py test_schema_declarations.py test_stability_manifest.py
    """.split()
)

SWITCHED = {
    "test_api_consistency.py::TestUnsupportedTermsSaySo": {"limits": "reference"},
    "test_api_facade.py::TestDeferredCapabilities": {"limits": "reference"},
}

DIFFERENT: dict[str, str] = {
    "test_building_contract.py::TestTheSurfaceItself::test_the_store_creating_writers_are_here": (
        "skeletons are written in one call (write_graph, zvf.create), not array by array (init_skeleton_store)"
    ),
}


def pytest_ignore_collect(collection_path, config):
    if collection_path.suffix == ".py" and collection_path.name.startswith("test_"):
        name = collection_path.as_posix().rpartition("/tests/")[2]
        return True if name not in FILES else None
    return None


def pytest_collection_modifyitems(items):
    names = {_name(item) for item in items}
    unknown = [known for known in DIFFERENT if known not in names]
    if unknown and len({name.partition("::")[0] for name in names}) == len(FILES):
        raise pytest.UsageError(f"no such test: {unknown}")
    for item in items:
        if _name(item) in DIFFERENT:
            item.add_marker(pytest.mark.xfail(reason=DIFFERENT[_name(item)], strict=True))


@pytest.fixture(autouse=True)
def switched(request):
    """The switches of a test."""
    for prefix, values in SWITCHED.items():
        if _name(request.node).startswith(prefix):
            with zvf.compat.config(**values):
                yield
            return
    yield


def _name(item):
    path = item.path.as_posix().rpartition("/tests/")[2]
    return f"{path}::{item.nodeid.partition('::')[2]}"
