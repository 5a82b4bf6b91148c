"""The size of a surface in Draco, with the settings that viewers take: 14 bits for each coordinate, best compression."""

import DracoPy
import trimesh

from serve import serve


def encode(ask):
    surface = trimesh.load(ask["from"], process=False)
    blob = DracoPy.encode(surface.vertices, surface.faces, quantization_bits=14, compression_level=10)
    return len(blob)


serve({"encode": encode})
