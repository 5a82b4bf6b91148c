#!/usr/bin/env bash
# Makes the archives of this folder with a program: make.sh ZVF. Needs tar, zstd and strace.
# Each archive has a folder's files, and commands.txt: EXIT EXPECTED ARGUMENTS, where EXPECTED is a file of the output or `-`.
set -euo pipefail
zvf=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
# Plans keep absolute paths: this one is the folder that a program runs in, wherever that is.
cwd=/proc/self/cwd
trap 'rm -rf "$work"' EXIT

# begin NAME STORE: a folder with a copy of an archived store, s.zarrvectors.
begin() {
    name=$1
    mkdir "$work/$name" && cd "$work/$name"
    tar --zstd -xf "$here/../zvf/$2.tar.zst"
    mv ./*.zarrvectors s.zarrvectors
    find . -mindepth 1 -maxdepth 1 ! -name s.zarrvectors -exec rm -r {} +
    answers=0
}

# edits: three commits to polylines.
edits() {
    for script in '{"op":"object.add","positions":[[0,0.5],[1,1.5]]}' \
        '{"op":"vertex.move","vertices":{"object":1,"index":0},"by":[0.25,0.5]}' \
        '{"op":"object.remove","objects":[2]}'; do
        commit <<<"$script"
    done
}

commit() { "$zvf" edit s.zarrvectors --script - --message "commit of $name" >/dev/null; }

# line EXIT ARGUMENTS: a command of which only the exit code counts. The program that makes the archive does it later.
line() { echo "$1 - ${*:2}" >>commands.txt; }

# answer ARGUMENTS: a command of which the output counts.
answer() {
    answers=$((answers + 1))
    echo "0 answer-$answers.txt $*" >>commands.txt
}

# killed_before N ARGUMENTS: a commit that is killed before its Nth rename of a file of the store, once its record is in
# the log.
killed_before() {
    if strace -f -qq -o /dev/null -e trace=rename -e inject=rename:signal=KILL:when="$1" \
        "$zvf" "${@:2}" >/dev/null 2>&1; then
        echo "$name: it was not killed"
        exit 1
    fi
}

# end: lets the program do the commands on a copy, keeps its answers, and packs the folder as it was before.
end() {
    cp -a . "$work/copy"
    while read -r code expected arguments; do
        local found=0
        # shellcheck disable=SC2086
        (cd "$work/copy" && "$zvf" $arguments) >"$work/output" 2>"$work/errors" || found=$?
        if [ "$found" -ne "$code" ]; then
            echo "$name: $arguments: exit $found"
            cat "$work/errors"
            exit 1
        fi
        [ "$expected" = - ] || cp "$work/output" "$expected"
    done <commands.txt
    rm -r "$work/copy"
    tar --sort=name --owner=0 --group=0 --numeric-owner -c . | zstd -q -19 -f -o "$here/$name.tar.zst"
}

rest_of_history() {
    answer query s.zarrvectors --format csv
    line 0 validate s.zarrvectors
    line 0 history undo s.zarrvectors
    answer query s.zarrvectors --format csv
    line 0 history undo s.zarrvectors --to 1
    answer query s.zarrvectors --format csv
    line 0 history undo s.zarrvectors --to 0
    answer query s.zarrvectors --format csv
    line 0 edit rm s.zarrvectors --objects 3
    answer query s.zarrvectors --format csv
    line 0 validate s.zarrvectors
}

begin committed pl2_negative
edits
answer history log s.zarrvectors --json
answer history show s.zarrvectors 2 --json
rest_of_history
end

begin pending pl2_negative
edits
killed_before 1 edit move s.zarrvectors --all --by 0.5,0.25
rest_of_history
end

begin half_applied pl2_negative
edits
killed_before 6 edit add s.zarrvectors 4,4 5,5
rest_of_history
end

begin undone pl2_negative
edits
"$zvf" history undo s.zarrvectors >/dev/null
answer history log s.zarrvectors --json
rest_of_history
end

begin undo_pending pl2_negative
edits
killed_before 6 history undo s.zarrvectors
rest_of_history
end

begin task_validate sl3_pyramid
"$zvf" task plan validate $cwd/s.zarrvectors --work-dir plan --shares 3 >/dev/null
"$zvf" task run plan --task 0 >/dev/null
line 0 task run plan --all
answer task finish plan --json
line 0 task remove plan
end

begin task_convert sl3_streamlines
"$zvf" task plan convert $cwd/s.zarrvectors $cwd/parts --to csv --work-dir plan --shares 3 >/dev/null
"$zvf" task run plan --task 1 >/dev/null
line 0 task run plan --all
answer task finish plan --json
answer convert parts/part-00000.csv - --to csv
answer convert parts/part-00002.csv - --to csv
end

begin task_pyramid sl3_streamlines
"$zvf" task plan pyramid $cwd/s.zarrvectors --levels 2 --work-dir plan >/dev/null
"$zvf" task run plan --task 0 >/dev/null
line 0 task run plan --all
line 0 task finish plan --remove
answer query s.zarrvectors --level 1 --format csv
answer query s.zarrvectors --level 2 --format csv
line 0 validate s.zarrvectors
end

begin task_vacuum pl2_negative
edits
"$zvf" task plan vacuum $cwd/s.zarrvectors --work-dir plan --shares 2 >/dev/null
"$zvf" task run plan --task 0 >/dev/null
line 0 task run plan --all
line 0 task finish plan --remove
answer query s.zarrvectors --format csv
line 0 history undo s.zarrvectors
line 0 validate s.zarrvectors
end

begin ingest pc3_basic
"$zvf" query s.zarrvectors -o points.csv -q
touch -d @1700000000 points.csv
"$zvf" ingest plan $cwd/points.csv $cwd/new.zarrvectors --shares 2 >/dev/null
"$zvf" ingest run $cwd/new.zarrvectors --task 0 >/dev/null
line 0 ingest run $cwd/new.zarrvectors --all
line 0 ingest finish $cwd/new.zarrvectors
answer query new.zarrvectors --format csv
line 0 validate new.zarrvectors
end
ls -l "$here"
