"""The digest of a policy's source, for the key of its rollouts."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def source_digest(name: str, target: object) -> str:
    """``sha256:`` and the digest of the source behind ``module:attr``.

    Covers the module that ``name`` names, the module where ``target`` is defined if that is
    another, and every Python file of a module that is a package. Module names and relative
    paths go in with the content, absolute paths do not: two checkouts agree.

    Returns:
        ``no source`` if neither module has a file (typed at a prompt, say).
    """
    modules = {name.partition(":")[0]}
    defined = getattr(target, "__module__", None) or getattr(type(target), "__module__", None)
    if isinstance(defined, str) and defined != "builtins":
        modules.add(defined)
    digest = hashlib.sha256()
    seen = False
    for module in sorted(modules):
        origin = getattr(sys.modules.get(module), "__file__", None)
        if origin is None:
            continue
        for relative, file in _files(Path(origin)):
            seen = True
            content = file.read_bytes()
            digest.update(f"{module}\0{relative}\0{len(content)}\0".encode())
            digest.update(content)
    return f"sha256:{digest.hexdigest()}" if seen else "no source"


def _files(origin: Path) -> list[tuple[str, Path]]:
    if origin.name != "__init__.py":
        return [(origin.name, origin)]
    root = origin.parent
    return sorted((file.relative_to(root).as_posix(), file) for file in root.rglob("*.py"))
