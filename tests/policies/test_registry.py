from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.baselines import Random, Zero
from pytest_vla_shift.policies.guard import ask, begin
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.replay import Replay
from pytest_vla_shift.protocol.errors import MissingAsset, UsageError
from tests.policies.observations import INFO, observation

SOURCE = '''
import numpy as np

from pytest_vla_shift.policies.baselines import Zero
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.errors import MissingAsset


class Mine(Zero):
    def __init__(self, gain: str = "1") -> None:
        self.spec = PolicySpec(name="whatever", revision="weights-3", seeded=True)
        self._gain = float(gain)

    def act(self, observation):
        return np.full((1, 7), self._gain)


def make(gain):
    return Mine(gain)


def plain(observation):
    return np.full((1, 7), 0.25)


def scaled(obs, gain="1"):
    return np.full((1, 7), float(gain))

scaled.cameras = ("agentview",)


class Call:
    """An object that is called, made with arguments."""

    def __init__(self, gain="1"):
        self._gain = float(gain)

    def __call__(self, observation):
        return np.full((1, 7), self._gain)


ready = Mine("3")
number = 3


class Half:
    spec = PolicySpec(name="half", revision="1")

    def act(self, observation):
        return np.zeros((1, 7))


class WrongSpec(Zero):
    spec = PolicySpec(name="w", revision="1", chunk=2, replan=4)


class DictSpec(Zero):
    spec = {"name": "w"}


class Breaks(Zero):
    def __init__(self):
        raise RuntimeError("no CUDA device")


class NoWeights(Zero):
    def __init__(self):
        raise MissingAsset("model.safetensors")
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module ``my_policy_module`` in the working directory, forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "my_policy_module.py").write_text(SOURCE)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("my_policy_")]:
        del sys.modules[name]


def first_value(name: str, args: dict[str, str]) -> float:
    policy = resolve(f"my_policy_module:{name}", args)
    begin(policy, INFO, 0)
    return float(ask(policy, observation())[0, 0])


def test_shipped_names() -> None:
    assert isinstance(resolve("zero", {}), Zero)
    assert isinstance(resolve("random", {}), Random)


def test_arguments_are_passed_on(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 7)))
    assert isinstance(resolve("replay", {"file": str(tmp_path / "a.npy")}), Replay)


@pytest.mark.parametrize(
    "attribute, args, value",
    [
        ("Mine", {}, 1.0),
        ("Mine", {"gain": "0.5"}, 0.5),
        ("make", {"gain": "0.5"}, 0.5),
        ("plain", {}, 0.25),
        ("scaled", {}, 1.0),
        ("scaled", {"gain": "0.5"}, 0.5),
        ("Call", {"gain": "0.5"}, 0.5),
        ("ready", {}, 3.0),
    ],
)
@pytest.mark.usefixtures("mine")
def test_a_class_a_factory_a_function_and_an_instance_all_work(
    attribute: str, args: dict[str, str], value: float
) -> None:
    assert first_value(attribute, args) == value


@pytest.mark.usefixtures("mine")
def test_a_function_declares_by_attributes_and_by_arguments() -> None:
    spec = resolve("my_policy_module:scaled", {"chunk": "8", "gain": "2"}).spec
    assert (spec.cameras, spec.chunk, spec.replan) == (("agentview",), 8, 8)
    assert spec.name == "my_policy_module:scaled"


def test_the_name_is_what_was_asked_and_the_revision_follows_the_source(mine: Path) -> None:
    spec = resolve("my_policy_module:Mine", {}).spec
    assert spec.name == "my_policy_module:Mine"
    assert spec.seeded
    own, _, digest = spec.revision.partition(" ")
    assert own == "weights-3"
    assert digest.startswith("sha256:")
    assert digest == resolve("my_policy_module:plain", {}).spec.revision
    with (mine / "my_policy_module.py").open("a") as file:
        file.write("# edited\n")
    assert resolve("my_policy_module:Mine", {}).spec.revision != spec.revision


def test_the_revision_of_a_package_covers_all_its_files_and_no_absolute_path(
    mine: Path,
) -> None:
    def revision() -> str:
        return resolve("my_policy_package:plain", {}).spec.revision

    package = mine / "my_policy_package"
    package.mkdir()
    (package / "__init__.py").write_text("from my_policy_package.inner import plain\n")
    (package / "inner.py").write_text("def plain(observation): ...\n")
    (package / "helper.py").write_text("A = 1\n")
    before = revision()
    (package / "helper.py").write_text("A = 2\n")
    assert revision() != before
    (package / "helper.py").write_text("A = 1\n")
    assert revision() == before
    for name in [name for name in sys.modules if name.startswith("my_policy_")]:
        del sys.modules[name]
    (mine / "elsewhere").mkdir()
    package.rename(mine / "elsewhere" / package.name)
    sys.path.insert(0, str(mine / "elsewhere"))
    assert revision() == before


def test_a_folder_given_as_path_is_searched(mine: Path) -> None:
    (mine / "root").mkdir()
    (mine / "root" / "my_policy_other.py").write_text("def plain(observation): ...\n")
    with pytest.raises(UsageError, match="No module named 'my_policy_other'"):
        resolve("my_policy_other:plain", {})
    assert resolve("my_policy_other:plain", {}, paths=[mine / "root"]).spec.chunk == 1


@pytest.mark.parametrize(
    "name, args, message",
    [
        ("zeros", {}, "unknown policy 'zeros'. Did you mean 'zero'"),
        ("gr00d", {}, "unknown policy 'gr00d'.* Known: gr00t, .*random, replay, scripted, .*zero"),
        ("zero", {"speed": "1"}, "'zero' cannot be made with speed=1: .*'speed'"),
        ("replay", {}, "cannot be made: missing a required argument: 'file'. It takes file"),
        ("replay", {"file": "no.npy"}, "cannot read 'no.npy'"),
        ("no_such_module:f", {}, "No module named 'no_such_module'"),
        (":f", {}, "cannot be loaded"),
        ("my_policy_module:", {}, "cannot be loaded"),
        ("my_policy_module:absent", {}, "has no attribute 'absent'"),
        ("my_policy_module:number", {}, "is of type int: neither a policy nor callable"),
        ("my_policy_module:make", {}, "missing a required argument: 'gain'"),
        ("my_policy_module:Mine", {"again": "1"}, "unexpected keyword argument 'again'"),
        ("my_policy_module:plain", {"gain": "1"}, "unexpected keyword argument 'gain'.*chunk"),
        ("my_policy_module:plain", {"chunk": "x"}, "chunk must be a whole number"),
        ("my_policy_module:ready", {"gain": "1"}, "made already and takes no arguments: gain=1"),
        ("my_policy_module:Half", {}, "gives a Half, which has no unsupported, reset, close"),
        ("my_policy_module:WrongSpec", {}, "replan 4 is more than its chunk 2"),
        ("my_policy_module:DictSpec", {}, "spec is a dict, not a PolicySpec"),
        ("my_policy_module:Breaks", {}, "cannot be made: RuntimeError: no CUDA device"),
    ],
)
@pytest.mark.usefixtures("mine")
def test_what_cannot_be_resolved_is_a_usage_error_that_says_why(
    name: str, args: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(name, args)


@pytest.mark.parametrize(
    "name, takes",
    [
        ("replay", "file (needed)"),
        ("zero", "nothing"),
        ("pi05", "profile (libero if not given), chunk, seeded, metadata (key if not given)"),
        ("openvla-oft", "profile (oft-libero if not given), chunk, seeded, encoded (false"),
    ],
)
def test_the_arguments_that_there_are_are_told_in_words(name: str, takes: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(name, {"no_such": "1"})
    said = str(refused.value)
    assert f"It takes {takes}" in said
    assert not any(code in said.partition("It takes")[2] for code in ("'", "|", ":", "settings"))


@pytest.mark.usefixtures("mine")
def test_an_infrastructure_error_of_a_constructor_stays_one() -> None:
    with pytest.raises(MissingAsset, match=r"model\.safetensors"):
        resolve("my_policy_module:NoWeights", {})


@pytest.mark.parametrize(
    "text, message",
    [
        ("import no_such_dependency\n", "No module named 'no_such_dependency'"),
        ("def f(:\n", "SyntaxError"),
        ("raise RuntimeError('no licence')\n", "RuntimeError: no licence"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
    ],
)
def test_whatever_goes_wrong_while_importing_is_quoted(text: str, message: str, mine: Path) -> None:
    (mine / "my_policy_broken.py").write_text(text)
    with pytest.raises(UsageError, match=message):
        resolve("my_policy_broken:f", {})


def test_what_a_policy_draws_when_it_is_made_is_the_same_in_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_at_random.py").write_text(
        "import random\n"
        "import numpy as np\n"
        "from pytest_vla_shift.policies.baselines import Zero\n"
        "AT_IMPORT = random.random()\n"
        "class Policy(Zero):\n"
        "    def __init__(self):\n"
        "        self.weights = (AT_IMPORT, random.random(), float(np.random.random()))\n"
    )
    found = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        monkeypatch.delitem(sys.modules, "made_at_random", raising=False)
        made = resolve("made_at_random:Policy", {}, paths=[tmp_path])
        found.append(made._policy.weights)  # type: ignore[attr-defined]
        drawn = random.random()
        random.seed(seed)
        assert drawn == random.random()  # the process's own are where they were
    assert found[0] == found[1]


def test_a_policy_whose_method_is_no_method_is_told_which(
    tmp_path: Path,
) -> None:
    (tmp_path / "half_made.py").write_text(
        "from pytest_vla_shift.policies.baselines import Zero\n"
        "class Policy(Zero):\n"
        "    act = None\n"
    )
    with pytest.raises(UsageError, match="which has no act;"):
        resolve("half_made:Policy", {}, paths=[tmp_path])
