# Makes the stores and files that the documentation names, in the current folder, and the home of
# the shell.
# TESTDATA is the folder of that name, UNPACK the example of the crate archives.
set -eE
trap 'echo "the stage: $BASH_COMMAND" >&2' ERR

mkdir -p "$HOME"/{bin,.zfunc,.config/fish/completions,.local/share/man/man1}
mkdir -p "$HOME/.local/share/bash-completion/completions"
# Stand-ins for tools that are not part of the project.
for tool in jq man; do
    printf '#!/bin/sh\ncat > /dev/null\n' > "$HOME/bin/$tool"
    chmod +x "$HOME/bin/$tool"
done

cp -r "$TESTDATA/docs/." .

# Demo stores, under their names in the documentation.
zvf demo stores
cp -r stores/point_cloud.zarrvectors scan.zarrvectors
cp -r stores/polyline.zarrvectors roads.zarrvectors
for name in brain tracts old-tracts new-tracts merged; do
    cp -r stores/streamline.zarrvectors $name.zarrvectors
done
cp -r stores/mesh.zarrvectors mesh.zarrvectors
cp -r stores/graph.zarrvectors net.zarrvectors
cp -r stores/skeleton.zarrvectors neurons.zarrvectors
rm -r stores

# Files of other formats, under their names on pages.
cp "$TESTDATA/tet/i16_7d.tet" store.tet
while read -r file name; do
    cp "$TESTDATA/formats/$file" "$name"
done <<END
las/f7.las scan.las
geojson/points.geojson places.geojson
geoparquet/points.parquet points.parquet
flatgeobuf/lines.fgb places.fgb
text_points/scan.pts scan.pts
h5ad/plain.h5ad cells.h5ad
tck/plain.tck fibers.tck
trx/full.trx full.trx
existing/box.obj box.obj
stl/several.stl part.stl
gltf/scene.glb scene.glb
vtk_polydata/lines_only42.vtk lines.vtk
vtk_polydata/pieces.vtp shapes.vtp
gifti/gzip.surf.gii lh.pial.surf.gii
freesurfer/lh.white lh.white
graphml/plain.graphml net.graphml
edgelist/graph.edges.csv streets.edges.csv
edgelist/graph.nodes.csv streets.nodes.csv
draco/mesh_l7.drc bunny.drc
END

# Archived stores whose output pages show.
for id in gr3_pyramid ms3_tri pc3_basic pc3_objects sl3_streamlines v070_sl3_pyramid; do
    "$UNPACK" $id $id.zarrvectors
done
"$UNPACK" v070_sl3_pyramid old.zarrvectors

# What is made from these.
links="--cross-level-storage explicit --cross-level-depth -1"
zvf create -q scan.ply neurons/*.swc cells.zarrvectors --triangles
zvf pyramid -q brain.zarrvectors --in-place --levels 2
zvf pyramid -q roads.zarrvectors --in-place --levels 2 $links
zvf pyramid -q tracts.zarrvectors --in-place --levels 2 $links
zvf convert -q tracts.trk tracts.trx
zvf edit -q tracts.zarrvectors --script fixes.jsonl
echo '{"op":"group.add","name":"left","members":[0,1,2,3]}' | zvf edit -q tracts.zarrvectors
for n in 1 2 3; do zvf edit move -q tracts.zarrvectors --object $n --index 0 --by 1,0,0; done
zvf edit move -q new-tracts.zarrvectors --object 1 --index 0 --by 1,0,0
zvf edit move -q new-tracts.zarrvectors --object 2 --index 0 --by 1,0,0
zvf divide -q tracts.zarrvectors sides --by group
for name in left right more; do cp -r sides/left.zarrvectors $name.zarrvectors; done
zvf rewrite -q brain.zarrvectors sharded.zarrvectors --shard 8
zvf pack -q scan.zarrvectors packed.tet
zvf tensor pack -q volume.tet grid=grid.zarr
zvf tensor convert -q square.zarr image.b2nd
zvf tensor convert -q image.b2nd labels.zarr
rm -r grid.zarr square.zarr sides
