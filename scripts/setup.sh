#!/bin/sh
# Set-up for `make demo` and `make test`: a virtual environment with everything in it, and the GL
# libraries that MuJoCo draws with. Uses apt where it may, and else says what to type.
# usage: scripts/setup.sh VENV
set -eu

venv=$1
graphics="libegl1 libegl-mesa0 libgl1-mesa-dri libgl1 libosmesa6 libglib2.0-0"

say() { printf 'setup: %s\n' "$*"; }

# apt_install WHY PACKAGE...: install, or print the line that does and stop.
apt_install() {
    why=$1
    shift
    as=
    if ! command -v apt-get >/dev/null 2>&1; then
        say "$why"
        say "There is no apt-get here; on Debian or Ubuntu this would install it:"
        printf '\n    sudo apt-get update && sudo apt-get install -y %s\n\n' "$*"
        exit 1
    fi
    if [ "$(id -u)" != 0 ]; then
        if ! sudo -n true 2>/dev/null; then
            say "$why Type this, then try again:"
            printf '\n    sudo apt-get update && sudo apt-get install -y %s\n\n' "$*"
            exit 1
        fi
        as="sudo -n"
    fi
    say "$why Installing $* by apt."
    $as apt-get update -q
    $as env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

# The simulator's wheels exist for Python 3.11 to 3.13.
fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

find_python() {
    for name in ${PYTHON:-} python3.11 python3.12 python3.13 python3 python; do
        if command -v "$name" >/dev/null 2>&1 && fits "$name"; then
            command -v "$name"
            return
        fi
    done
}

python=$(find_python)
if [ -z "$python" ]; then
    # A distribution's own python3 may be older, and have 3.11 beside it.
    package=python3
    if command -v apt-cache >/dev/null 2>&1 && apt-cache show python3.11-venv >/dev/null 2>&1; then
        package=python3.11
    fi
    apt_install "No Python 3.11 to 3.13 here." "$package" "$package-venv"
    python=$(find_python)
    if [ -z "$python" ]; then
        say "Still no Python 3.11 to 3.13: install one, and give it as PYTHON=/path/to/python3.11."
        exit 1
    fi
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    apt_install "$python cannot make virtual environments." "python$minor-venv"
fi

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1 || ! fits "$venv/bin/python"; then
    say "making $venv with $python"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

say "installing packages into $venv (LIBERO's are 2 GB; the first time takes a minute or more)"
if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    -e '.[libero,tiny,video,dev]'; then
    say "pip could not install the packages; its own words are above. Is there a network?"
    exit 1
fi
# Real peers that some tests talk to; without what they ask for, which would replace our NumPy.
peers=tests/conformance/requirements.txt
if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$peers"
then
    say "pip could not install the packages of $peers; its own words are above. Is there a network?"
    exit 1
fi

# Draws a picture, in a process of its own, with what MuJoCo will use.
draws() {
    "$venv/bin/python" -m pytest_vla_shift.commands.checks.render_probe 2>&1
}
said=$(MUJOCO_GL=${MUJOCO_GL:-egl} draws) || true
case $said in
*'"renderer"'*) ;;
*)
    # shellcheck disable=SC2086  # a list of packages
    apt_install "MuJoCo cannot draw here: the GL libraries are not all there." $graphics
    said=$(MUJOCO_GL=${MUJOCO_GL:-egl} draws) || true
    case $said in
    *'"renderer"'*) ;;
    *)
        say "MuJoCo still cannot draw:"
        printf '%s\n' "$said"
        say "$venv/bin/vla-shift doctor tells more."
        exit 1
        ;;
    esac
    ;;
esac

touch "$venv/.ready"
say "ready"
