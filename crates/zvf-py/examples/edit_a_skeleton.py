"""A skeleton is moved in one transaction, looked at, and the change is taken back."""

import tempfile

import numpy as np
import zvf

at = tempfile.mkdtemp() + "/neuron.zarrvectors"
nodes = np.cumsum(np.random.default_rng(2).normal(size=(200, 3)), axis=0)
edges = [[child, child - 1] for child in range(1, 200)]
ds = zvf.graph(at, nodes, edges, tree=True)

before = ds.read(objects=[0]).positions.copy()
with ds.edit() as edit:
    edit.move(object=0, vertex=5, to=[1.0, 2.0, 3.0])
after = ds.read(objects=[0]).positions
# Vertices come chunk by chunk: what moved to another chunk stands elsewhere in the answer.
moved = {tuple(row) for row in after.tolist()} - {tuple(row) for row in before.tolist()}
assert moved == {(1.0, 2.0, 3.0)}
ds.undo()
assert (ds.read(objects=[0]).positions == before).all()
assert zvf.validate(ds, level=5).ok
