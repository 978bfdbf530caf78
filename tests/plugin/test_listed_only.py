"""A suite whose simulator is not here yet is listed from data alone, and refused when it is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.suite import shipped_text
from pytest_vla_shift.simulators.factories import is_listed_only, load_factory
from tests.plugin.toy_project import MODULE, ToyProject


@pytest.fixture
def project(tmp_path: Path) -> ToyProject:
    module = f"import pytest\npytestmark = pytest.mark.vla_suite('robocasa_shift')\n{MODULE}"
    return ToyProject(tmp_path, suite=shipped_text("robocasa_shift"), module=module)


def test_robocasa_shift_is_listed_without_its_simulator(project: ToyProject) -> None:
    out = project.run("--vla-list", policy=None, code=0)
    assert "960 nodes, 1040 rollouts: 960 shifted or null, 80 clean" in out.out
    assert "horizon 2400" in out.out


def test_and_is_refused_with_one_sentence_when_it_is_run(project: ToyProject) -> None:
    out = project.run(code=4)
    assert "the robocasa simulator is not available in this version" in out.out
    assert "Traceback" not in out.out
    assert not list(project.path.glob("reports/*/rollouts/results-*"))


def test_only_a_catalogued_simulator_without_an_entry_point_is_listed_only() -> None:
    assert is_listed_only("robocasa")
    assert not is_listed_only("libero")
    assert not is_listed_only("tests.fakes.toy_simulator:factory")
    assert not is_listed_only("unheard_of")
    with pytest.raises(UsageError, match="unknown simulator 'unheard_of'"):
        load_factory("unheard_of")
