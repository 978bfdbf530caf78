#!/bin/sh
# An environment of its own within VENV, so that neither users nor the tests install what is in
# REQUIREMENTS: what `make bench` compares with, or what `make tiny` trains with. It sees VENV's
# packages: the same LIBERO and MuJoCo run there.
# usage: scripts/beside.sh VENV NAME REQUIREMENTS
set -eu

venv=$1
own=$venv/$2
packages='import sysconfig; print(sysconfig.get_path("purelib"))'

rm -rf "$own"
"$venv/bin/python" -m venv "$own"
"$venv/bin/python" -c "$packages" >"$("$own/bin/python" -c "$packages")/measured.pth"
"$own/bin/python" -m pip install --quiet --disable-pip-version-check -r "$3"
touch "$own/.ready"
