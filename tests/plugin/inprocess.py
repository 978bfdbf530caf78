"""pytest within this process: a fraction of what a process of its own takes, which is its imports.

pytester forgets whatever such a run has imported, and NumPy and SciPy refuse to be imported twice
in one process. So everything heavy that a run imports is imported here, once.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import pytest_vla_shift.hooks
import pytest_vla_shift.reporting.allure_writer
import pytest_vla_shift.reporting.audit_tables
import pytest_vla_shift.reporting.publish
import pytest_vla_shift.reporting.tables
from pytest_vla_shift.protocol.suite import load_suite
from pytest_vla_shift.rollouts.request import check_axes
from tests.fakes import lane_policies, toy_policies, toy_simulator
from tests.plugin.toy_project import EXPERT, Finished, ToyProject

__all__ = ["Inside", "run"]

_KEPT = (pytest_vla_shift, lane_policies, toy_policies, toy_simulator)
check_axes(load_suite("quickstart"))


def run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run pytest in pytester's folder, in this process."""
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *args)


@dataclass(slots=True)
class Inside(ToyProject):
    """A toy project in pytester's folder whose runs are in this process, simulator included.

    Not for what is about processes, signals or the order of imports; under xdist there is a process
    as always.
    """

    pytester: pytest.Pytester | None = None

    def run(self, *args: str, policy: str | None = EXPERT, code: int | None = None) -> Finished:
        """As a process would."""
        assert self.pytester is not None
        if any(arg.startswith("-n") for arg in args):
            return ToyProject.run(self, *args, policy=policy, code=code)
        assert "--vla-envs=0" in self.options
        chosen = [] if policy is None else [f"--vla-policy={policy}"]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.path)
            patch.setenv("COLUMNS", "80")
            patch.delenv("MUJOCO_GL", raising=False)
            for name, value in self.environment.items():
                patch.setenv(name, value)
            done = run(self.pytester, *chosen, *self.options, *args)
        out = f"{done.stderr}\n{done.stdout}\n"
        assert code is None or done.ret == code, f"exit {done.ret}\n{out}"
        return Finished(int(done.ret), out)
