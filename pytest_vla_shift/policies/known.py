"""Policies of the two papers that cannot be asked by their names alone: what each needs first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.settings import PolicySettings

PAGE = "docs/reference/policies.md"


def _refuse(
    name: str,
    why: str,
    does: str,
    /,
    *,
    settings: PolicySettings,  # noqa: ARG001
    **args: str,  # noqa: ARG001
) -> NoReturn:
    """Say what a policy needs, whatever it is given.

    Args:
        name: what ``--vla-policy`` calls it.
        why: there is no asking it as it is.
        does: what a class of the user's has to do.
        settings, args: of the run.

    Raises:
        UsageError: always.
    """
    module = f"my_{name}:Policy"
    raise UsageError(
        f"--vla-policy={name} needs a class of yours first: {why}.\n"
        f"Write a policy that {does}; {PAGE}#{name} has more, and check_policy tells whether it"
        " keeps the contract. Then either\n"
        f"  in this process:  pytest --vla-policy={module} ...\n"
        "  or, where the model's packages and the simulator's do not go together, behind a server"
        " in the model's own environment:\n"
        f"    vla-shift serve --wire vla-eval --policy {module}     (Python >= 3.11; pictures"
        " arrive as they are)\n"
        "    pytest --vla-policy=vla-eval --vla-policy-url=ws://HOST:8000 ...\n"
        "  or behind a model server of vla-eval's own, whose Python may be older, asked in the same"
        " way."
    )


univla = partial(
    _refuse,
    "univla",
    "UniVLA's code runs it in the process of its own evaluation,"
    " experiments/robot/libero/run_libero_eval.py, and has no server",
    "loads the checkpoint and the action decoder, keeps the history of latent action tokens and"
    " the decoder's window from call to call, forgets both in reset, crops pictures at their"
    " centre as the script does, and un-normalises with the suite's key",
)
"""UniVLA (OpenDriveLab/UniVLA)."""

predvla = partial(
    _refuse,
    "predvla",
    "PredVLA's code runs it in its own process (on a CPU), under Python 3.10, numpy < 2 and"
    " mujoco 2.3.7, and has no server",
    "loads one of its checkpoints with the ResNet18, MiniLM and PCA front end, which is not in"
    " the checkpoint, keeps the state of its online optimisation from call to call, and begins"
    " it anew in reset",
)
"""PredVLA (hiroki-oist/PredVLA)."""

minerva = partial(
    _refuse,
    "minerva",
    "no public code of MINERVA was found when this was written, so that there is nothing to"
    " check an adapter against",
    "maps the instruction of the clean task to its task index, and says language=False in its"
    " spec, so that the language axis is recorded as an identity, as the paper has it",
)
"""MINERVA, LIBERO-CTRL's auxiliary control."""
