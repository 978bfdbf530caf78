#!/bin/sh
# What `make bench` compares with, in an environment of its own within VENV, so that neither users
# nor the tests install it. It sees VENV's packages: both sides run on the same LIBERO and MuJoCo.
# usage: scripts/bench.sh VENV
set -eu

venv=$1
peer=$venv/bench
packages='import sysconfig; print(sysconfig.get_path("purelib"))'

rm -rf "$peer"
"$venv/bin/python" -m venv "$peer"
"$venv/bin/python" -c "$packages" >"$("$peer/bin/python" -c "$packages")/measured.pth"
"$peer/bin/python" -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
touch "$peer/.ready"
