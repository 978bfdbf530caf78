"""Every option, with its help; those that make sense in a project's ini are there as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def add_options(parser: pytest.Parser) -> None:
    """Register every option; those that make sense in a project's ini are there as well."""
    group = parser.getgroup("vla-shift", "robustness of vision-language-action policies")

    def option(name: str, text: str, *, ini: bool = True, **extra: object) -> None:
        group.addoption(f"--vla-{name}", help=text, default=None, **extra)
        if ini:
            parser.addini(f"vla_{name.replace('-', '_')}", f"default of --vla-{name}", default=None)

    option("policy", "policy under test: a name, or module:attr for your own", metavar="NAME")
    option(
        "policy-arg",
        "argument of the policy, may be given several times",
        ini=False,
        action="append",
        metavar="K=V",
    )
    parser.addini("vla_policy_arg", "defaults of --vla-policy-arg", type="linelist", default=[])
    option(
        "checkpoint",
        "the weights under test, for the key: their path, or a label; with @sha256:... behind it",
        metavar="CHECKPOINT",
    )
    option(
        "replan",
        "actions of a chunk that are executed before the policy is asked again",
        metavar="N",
    )
    option(
        "policy-token",
        "environment variable that holds the token of the policy's server",
        metavar="VARIABLE",
    )
    option("policy-url", "where the policy's server listens: tcp://HOST:PORT", metavar="URL")
    option(
        "policy-command",
        "start this server once, wait until --vla-policy-url accepts, stop it at the end",
        metavar="COMMAND",
    )
    option(
        "policy-start-timeout",
        "seconds that --vla-policy-command may take to listen (default 600)",
        metavar="SECONDS",
    )
    option(
        "policy-timeout",
        "seconds after which a call of the policy counts as hung (default 120; the first: 10 x)",
        metavar="SECONDS",
    )
    option("task", "keep tasks whose name contains a word of this comma list", metavar="WORDS")
    option("episodes", "keep episodes: 0:10, 3, or 0,4,7:9", metavar="RANGE")
    option(
        "configuration",
        "keep configurations: places of a task's episodes in the suite, 0:2, 3 or 0,4",
        metavar="RANGE",
    )
    option(
        "axis",
        "keep axes of this comma list; null is the null arm, simultaneous all axes at once",
        metavar="NAMES",
    )
    option("level", "keep levels of this comma list: L1 or 1", metavar="LEVELS")
    option(
        "compound",
        "shift axes at once as well: camera+lighting; several in a comma list, all for every axis",
        metavar="AXES",
    )
    option(
        "nominal",
        "run every released initial state clean as well",
        ini=False,
        action="store_true",
    )
    option(
        "replicate",
        "run every compared cell again with another policy seed",
        ini=False,
        action="store_true",
    )
    option("list", "print the plan and what it costs, run nothing", ini=False, action="store_true")
    option(
        "shard",
        "run part I of N, cut by episode: each of N runs with the same options takes one",
        ini=False,
        metavar="I/N",
    )
    option("executor", "local (default), or ray: rollouts on a Ray cluster", metavar="NAME")
    option(
        "envs",
        "rollouts at once, a simulator process each (default 1); 0: in the pytest process",
        metavar="N",
    )
    option(
        "recycle-rollouts",
        "replace a simulator process after so many rollouts (default: never)",
        metavar="N",
    )
    option(
        "recycle-memory",
        "replace a simulator process that holds more than this, in GiB (default 8)",
        metavar="GIB",
    )
    option(
        "max-errors",
        "stop after so many rollouts in a row with an infrastructure error (default 20); 0: never",
        metavar="N",
    )
    option("gpus", "GPUs of the run, a comma list (default: the visible ones)", metavar="IDS")
    option("render-gpus", "GPUs that draw pictures (default: the policy's)", metavar="IDS")
    option(
        "rollout-timeout",
        "seconds after which a simulator worker counts as hung (default 600)",
        metavar="SECONDS",
    )
    option("reports", "folder of all runs (default: reports in the root)", metavar="DIR")
    option(
        "run",
        "name of this run's folder; records found there are reused (default: policy and suite)",
        ini=False,
        metavar="NAME",
    )
    option(
        "fresh",
        "set the run's records aside and run everything again",
        ini=False,
        action="store_true",
    )
    option("video", "side-by-side videos: on, off or degraded (default)", metavar="WHICH")
