"""Nothing that this package reads is ever executed: no call in it could."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_vla_shift

PACKAGE = Path(pytest_vla_shift.__file__).parent

MODULES = frozenset(
    "pickle cPickle dill cloudpickle joblib marshal shelve yaml jsonpickle".split()  # noqa: SIM905
)
"""Reading with these can run what was read."""

CALLS = frozenset({"eval", "exec", "compile", "torch.load", "read_pickle", "load_module"})
"""So can these; ``re.compile`` is meant by none of them."""


def found(source: str) -> Iterator[str]:
    """Every import and every call of ``source`` that could run what it reads, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call):
            if _runs_what_it_reads(node):
                yield f"line {node.lineno}: {ast.unparse(node.func)}"
            continue
        else:
            continue
        for name in names:
            if name.partition(".")[0] in MODULES:
                yield f"line {node.lineno}: import {name}"


def _runs_what_it_reads(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name in CALLS or name.rpartition(".")[2] in {"read_pickle", "load_module"}:
        return True
    loads = name in {"np.load", "numpy.load"} or name.endswith(("read_array", "fromfile_object"))
    allowed = {keyword.arg: keyword.value for keyword in call.keywords}.get("allow_pickle")
    refused = isinstance(allowed, ast.Constant) and allowed.value is False
    if loads:
        return not refused
    return allowed is not None and not refused


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from cloudpickle import loads",
        "import yaml",
        "import marshal as m",
        "np.load(path)",
        "numpy.load(path, allow_pickle=True)",
        "npy.read_array(stream, allow_pickle=wanted)",
        "np.savez(path, a, allow_pickle=True)",
        "torch.load(path)",
        "pandas.read_pickle(path)",
        "eval(text)",
        "exec(text)",
    ],
)
def test_the_search_finds_what_it_is_for(source: str) -> None:
    assert list(found(source))


@pytest.mark.parametrize(
    "source", ["np.load(path, allow_pickle=False)", "re.compile('a')", "json.loads(text)"]
)
def test_the_search_leaves_what_is_harmless(source: str) -> None:
    assert list(found(source)) == []


def test_nothing_in_the_package_could_execute_what_it_reads() -> None:
    sources = sorted(PACKAGE.rglob("*.py"))
    assert len(sources) > 100
    hits = [
        f"{path.relative_to(PACKAGE)}, {hit}"
        for path in sources
        for hit in found(path.read_text("utf-8"))
    ]
    assert hits == []
