#!/bin/sh
# What `make tiny` needs, in an environment of its own within VENV, so that neither users nor the
# tests install torch. It sees VENV's packages.
# usage: scripts/training.sh VENV
set -eu

venv=$1
own=$venv/training
packages='import sysconfig; print(sysconfig.get_path("purelib"))'

rm -rf "$own"
"$venv/bin/python" -m venv "$own"
"$venv/bin/python" -c "$packages" >"$("$own/bin/python" -c "$packages")/measured.pth"
"$own/bin/python" -m pip install --quiet --disable-pip-version-check -r training/requirements.txt
touch "$own/.ready"
