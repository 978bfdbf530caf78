"""The session of one process: its suites and cells, its engine, and the pairs that it gives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

import pytest

from pytest_vla_shift import devices, policy_server
from pytest_vla_shift.contract import check_contract, start_simulators
from pytest_vla_shift.error_streak import ErrorStreak, GivenUp
from pytest_vla_shift.executors import open_executor
from pytest_vla_shift.options import RunConfig
from pytest_vla_shift.outcomes import ReportFacts, told_by_transition
from pytest_vla_shift.pair import Pair, replay_command
from pytest_vla_shift.planning import Node, Selection, keep_shard, write_session_plan
from pytest_vla_shift.protocol.errors import InfrastructureError, UsageError
from pytest_vla_shift.protocol.plan import Cell, CutCheck, plan
from pytest_vla_shift.protocol.registry import load
from pytest_vla_shift.protocol.suite import Suite, load_suite
from pytest_vla_shift.reporting.allure_node import decorate, label_node
from pytest_vla_shift.rollouts.engine import Engine, PairRecords
from pytest_vla_shift.rollouts.manifest import plan_path
from pytest_vla_shift.rollouts.request import check_axes
from pytest_vla_shift.rollouts.storage import StorageError
from pytest_vla_shift.rollouts.store import Store
from pytest_vla_shift.scheduling import assigned
from pytest_vla_shift.signals import stop
from pytest_vla_shift.simulators.factories import is_listed_only, load_factory
from pytest_vla_shift.statistics.pairs import Transition
from pytest_vla_shift.story import error_story, pair_story
from pytest_vla_shift.video import VideoMaker

FACTS = pytest.StashKey[ReportFacts]()
PAIR = pytest.StashKey[Pair]()


@lru_cache(maxsize=32)  # once for all nodes of a module
def _relative(path: Path, start: Path) -> str:
    return os.path.relpath(path, start)


class RobustnessSession:
    """Everything that a pytest process knows while it collects and runs cells.

    Args:
        config: pytest's.
        run: what was asked for.
        session_id: shared by all processes of one pytest run; None when nothing will run.
        set_aside: files of records that ``--vla-fresh`` sets aside before the first rollout.
    """

    def __init__(
        self,
        config: pytest.Config,
        run: RunConfig,
        session_id: str | None,
        set_aside: Sequence[str] = (),
    ) -> None:
        self.config = config
        self.run = run
        self.suites: dict[str, Suite] = {}
        # As given to this run: a simulator in this process sets it as well.
        self._renderer = os.environ.get("MUJOCO_GL")
        self._session_id = session_id
        self._set_aside = frozenset(set_aside)
        self._loaded: dict[str | Path, tuple[Suite, list[Cell]]] = {}
        self._cells: dict[tuple[str, str], Cell] = {}
        self._cut = CutCheck(run.cut, run.extras)
        self._usage_error: str | None = None
        self._engine: Engine | None = None
        self._errors = ErrorStreak(run.max_errors)
        self._videos: VideoMaker | None = None
        self._selection = Selection(())
        self._order: dict[str, tuple[Suite, Cell]] = {}
        self.in_other_shards = 0

    @property
    def engine(self) -> Engine | None:
        """What runs the rollouts; None before collection is done, or if no pair was asked for."""
        return self._engine

    # Collection

    def load_suite(self, reference: str | Path) -> tuple[Suite, list[Cell]]:
        """The suite and its cells under this run's cut; read once.

        Raises:
            UsageError: the suite is malformed, or two suites share one name.
        """
        if reference not in self._loaded:
            suite = load_suite(reference)
            check_axes(suite)
            known = self.suites.setdefault(suite.name, suite)
            if known.protocol_digest != suite.protocol_digest:
                raise UsageError(
                    f"{suite.source} and {known.source} are two protocols of one name,"
                    f" {suite.name!r}; rename one"
                )
            cells = plan(suite, self.run.cut, self.run.extras)
            self._cells.update(((cell.suite, cell.id), cell) for cell in cells)
            self._loaded[reference] = suite, cells
            self._cut.see(suite)
        return self._loaded[reference]

    def usage_error(self, message: str) -> None:
        """Note the first usage error of collection; it is raised when collection is done."""
        self._usage_error = self._usage_error or message

    def cell(self, node: pytest.Item, cell_id: str) -> tuple[Suite, Cell]:
        """The suite and the cell of a node."""
        mark = node.get_closest_marker("vla")
        if mark is None:
            raise pytest.UsageError(f"{node.nodeid} is not a cell of a suite")
        suite = self.suites[mark.kwargs["suite"]]
        return suite, self._cells[suite.name, cell_id]

    def collected(self, items: list[pytest.Item]) -> None:
        """Check everything that can be checked before a rollout.

        Raises:
            pytest.UsageError: something cannot run as asked. In an xdist worker it is handed to
                the controller instead, which ends the run with it.
        """
        try:
            if self._usage_error is not None:
                raise UsageError(self._usage_error)
            problem = self._cut.problem()
            if problem is not None:
                raise UsageError(problem)
            self._select(items)
            if self.run.list_only:
                self._check_names()
                items.clear()
            elif self._selection.nodes and self._session_id is not None:
                self._open_engine(self._selection.own)
        except UsageError as error:
            self._refuse(error, items)

    def _refuse(self, error: Exception, items: list[pytest.Item]) -> None:
        """End the run before it began."""
        self.close()  # pytest still finishes the collection: there is no plan to write
        output: dict[str, object] | None = getattr(self.config, "workeroutput", None)
        if output is None:
            raise pytest.UsageError(str(error)) from error
        output["vla_usage_error"] = str(error)
        items.clear()

    def _check_names(self) -> None:
        """A listing needs neither the policy nor the simulators, but their names must be known."""
        if self.run.policy is not None:
            load("policies", self.run.policy)
        for suite in self.suites.values():
            if not is_listed_only(suite.simulator):
                load_factory(suite.simulator)

    def _select(self, items: list[pytest.Item]) -> None:
        """Note what was selected; leave this shard's part of it in ``items``."""
        cells: dict[str, tuple[Suite, Cell]] = {}
        nodes: list[Node] = []
        for item in items:
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            if "cell" not in parameters or item.get_closest_marker("vla") is None:
                continue
            suite, cell = cells[item.nodeid] = self.cell(item, parameters["cell"])
            if "pair" in getattr(item, "fixturenames", ()):
                nodes.append((item.nodeid, suite, cell))
        self._selection = Selection(tuple(nodes))
        if self.run.shard is None:
            return
        groups = {node: cell for node, (_, cell) in cells.items()}
        self._selection, others = keep_shard(items, groups, nodes, self.run.shard)
        self.in_other_shards = len(others)
        output: dict[str, object] | None = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["vla_in_other_shards"] = len(others)
        if others:
            self.config.hook.pytest_deselected(items=others)

    def _open_engine(self, planned: Sequence[tuple[str, Suite, Cell]]) -> None:
        executor = open_executor(
            self.run,
            [self.config.rootpath],
            devices.lanes_of(self.config),
            lambda: policy_server.start(self.config),
        )
        try:
            # Of all shards: what one of them refuses, all do, and before any has run for hours.
            check_contract(executor.policy, self._selection.nodes)
            worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
            self._engine = Engine(
                Store(self.run.directory, worker, ignore=self._set_aside),
                executor.policy,
                self.run.policy_args,
                options=executor.options,
                lanes=executor.lanes,
                runners=executor.runners,
                finished=lambda record: self.config.hook.pytest_vla_rollout_finished(
                    config=self.config, record=record
                ),
                watch=self._errors.see,
            )
        except UsageError:
            executor.policy.close()
            raise
        self._videos = VideoMaker(self._engine, self.run.directory)
        start_simulators(self._engine, planned)

    def write_plan(self, items: list[pytest.Item]) -> None:
        """Write the plan of this session for the controller, unless another worker has.

        Raises:
            pytest.UsageError: it cannot be written; as in :meth:`collected`.
        """
        engine, session_id = self._engine, self._session_id
        if engine is None or session_id is None:
            return
        path = plan_path(self.run.directory, session_id)
        if path.exists():
            return
        runs = frozenset(item.nodeid for item in items)
        try:
            write_session_plan(path, engine, self.run, self.suites, self._selection, runs)
        except StorageError as error:
            self._refuse(error, items)

    # Running

    def run_ahead(self, items: Sequence[pytest.Item]) -> None:
        """Tell the lanes, if there are any, in which order pairs will be asked for."""
        if self._engine is not None and self.run.envs > 1:
            if not self._order:
                self._order = {node: (suite, cell) for node, suite, cell in self._selection.own}
            order = self._order
            self._engine.expect(order[item.nodeid] for item in items if item.nodeid in order)

    def _run_ahead_as_assigned(self, node: pytest.Item) -> None:
        """In an xdist worker, which learns bit by bit what is its to run."""
        if self.run.envs > 1 and hasattr(self.config, "workerinput"):
            items = node.session.items
            self.run_ahead([items[index] for index in assigned(self.config) or ()])

    def pair(self, node: pytest.Item, cell_id: str) -> Pair:
        """Both arms of a node's cell; raises the infrastructure error of either arm.

        A record that cannot be written ends the run: what is not recorded is not reported.
        """
        __tracebackhide__ = True
        suite, cell = self.cell(node, cell_id)
        assert self._engine is not None  # opened when collection was done
        self._run_ahead_as_assigned(node)
        try:
            records = self._engine.pair(suite, cell)
        except StorageError as error:
            self._stop(node, suite, cell, error)
        except GivenUp as error:
            stop(node.session, str(error))
            raise node.session.Interrupted(str(error)) from error
        if self._errors.problem is not None:
            stop(node.session, str(self._errors.problem))
        replay = self._replay(node)
        if records.shifted is None or records.shifted.status == "error":
            self._raise_error(node, records, replay)
        pair = Pair(suite, cell, records.clean, records.shifted, records.executed, replay)
        self._make_video(pair)
        node.stash[PAIR] = pair
        node.stash[FACTS] = ReportFacts(
            suite=suite.name,
            cell=cell.id,
            transition=pair.outcome,
            told=False,
            error=None,
            executed=records.executed,
            explanation=pair.explain(),
        )
        self.config.hook.pytest_vla_pair_finished(config=self.config, pair=pair)
        return pair

    def _stop(self, node: pytest.Item, suite: Suite, cell: Cell, error: StorageError) -> NoReturn:
        __tracebackhide__ = True
        stop(node.session, str(error))
        node.stash[FACTS] = ReportFacts(
            suite=suite.name,
            cell=cell.id,
            transition=None,
            told=False,
            error="storage",
            executed=0,
            explanation="its record could not be written, and the run stops",
        )
        raise error

    def _raise_error(self, node: pytest.Item, records: PairRecords, replay: str) -> NoReturn:
        __tracebackhide__ = True
        arm, record = ("clean", records.clean)
        if records.shifted is not None:
            arm, record = ("shifted", records.shifted)
        kind, message = record.error or ("infrastructure", "unknown")
        attempts = f" (after {record.attempts} attempts)" if record.attempts > 1 else ""
        explanation = (
            f"infrastructure error in the {arm} arm, {kind}{attempts}: {message}\n"
            f"  The pair leaves every rate; it is not a failure of the policy.\n"
            f"  replay   {replay}"
        )
        node.stash[FACTS] = ReportFacts(
            suite=records.cell.suite,
            cell=records.cell.id,
            transition=None,
            told=False,
            error=kind,
            executed=records.executed,
            explanation=explanation,
        )
        label_node(error_story(records.cell, str(self.run.policy)))
        raise InfrastructureError(explanation)

    def _replay(self, node: pytest.Item) -> str:
        # A node id is relative to pytest's root; an argument, to where pytest is started.
        inner = node.nodeid.partition("::")[2]
        path = _relative(node.path, self.config.invocation_params.dir)
        return replay_command(
            f"{path}::{inner}",
            str(self.run.policy),
            dict(self.run.policy_args),
            self._replay_options(),
            renderer=self._renderer,
        )

    def _replay_options(self) -> list[str]:
        """Options that this run was started with and that decide what the node is."""
        options: list[str] = []
        for option in ("-c", "--rootdir"):
            given = self.config.getoption("inifilename" if option == "-c" else "rootdir")
            if given:
                options += [option, str(given)]
        if self.run.envs != 1:
            options.append(f"--vla-envs={self.run.envs}")
        for option in ("--vla-policy-url", "--vla-policy-command"):
            if given := self.config.getoption(option):
                options.append(f"{option}={given}")
        # Without these the node would not be there.
        extras = self.run.extras
        if extras.compounds:
            names = ",".join("+".join(compound) for compound in extras.compounds)
            options.append(f"--vla-compound={names}")
        options += ["--vla-nominal"] if extras.nominal else []
        options += ["--vla-replicate"] if extras.replicate else []
        return options

    def _make_video(self, pair: Pair) -> None:
        wanted = self.run.video == "on" or (
            self.run.video == "degraded" and pair.transition is Transition.SF
        )
        if wanted and not pair.nominal and self._videos is not None and self._engine is not None:
            with self._engine.aside():
                self._videos.make(pair)

    # Reports

    def attach(self, item: pytest.Item) -> None:
        """Pictures, video and words for the node's Allure result."""
        pair = item.stash.get(PAIR, None)
        if pair is not None and self._engine is not None:
            decorate(pair_story(pair, self._engine))

    def label(
        self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> None:
        """Put the cell's facts on the report of the phase that decided."""
        facts = item.stash.get(FACTS, None)
        if facts is None:
            return
        if facts["error"] is not None and report.when == "setup":
            report.longrepr = facts["explanation"]
            report.vla = facts  # type: ignore[attr-defined]
        elif facts["transition"] is not None and report.when == "call":
            raised = None if call.excinfo is None else call.excinfo.value
            told = told_by_transition(facts["transition"], report, raised)
            report.vla = {**facts, "told": told}  # type: ignore[attr-defined]

    def print_plan(self, terminal: pytest.TerminalReporter) -> None:
        """What ``--vla-list`` shows."""
        from pytest_vla_shift.listing import plan_lines

        workers = self.config.getoption("numprocesses", None)
        listed = [(suite, cell) for _, suite, cell in self._selection.own]
        for line in plan_lines(listed, self.run, workers or 1):
            terminal.write_line(line)

    def close(self) -> None:
        """Close simulators, policy and store; idempotent."""
        if self._engine is not None:
            self._engine.close()
            self._engine.store.close()
            self._engine = None
