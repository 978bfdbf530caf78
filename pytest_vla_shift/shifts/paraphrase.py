"""Other words for the same task: LIBERO-CTRL's language axis (section 3.2 and Table 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.paraphrases import COUNT, DEPTHS, paraphrases
from pytest_vla_shift.shifts.kinds import PassingShift, variate

if TYPE_CHECKING:
    import numpy as np

    from pytest_vla_shift.protocol.observation import Episode
    from pytest_vla_shift.shifts.protocol import Draw, Parameters


class Paraphrase(PassingShift):
    """Gives the policy a frozen paraphrase in place of the task's own sentence.

    ``depth`` counts what the paraphrase changes, and 0 is identity: 1 the words, 2 local structure
    as well, 3 the sentence's frame as well. The draw, or the suite's preset, is ``paraphrase``:
    which of the task's ten, 0 ... 9, the same at every depth.
    """

    name: ClassVar[str] = "paraphrase"
    # Of the sentences, too: a changed sentence is another result.
    revision: ClassVar[int] = 1
    limits: ClassVar[dict[str, tuple[float, float]]] = {"depth": (0.0, float(DEPTHS))}
    neutral: ClassVar[dict[str, float]] = {"depth": 0.0}

    def check(self, level: Parameters) -> None:
        """Raise ValueError for anything but a depth of 0, 1, 2 or 3."""
        super().check(level)
        if level["depth"] % 1:
            raise ValueError(f"{self.name}: depth = {level['depth']} is not a whole number")

    def draw(self, rng: np.random.Generator) -> Draw:
        """One of the ten paraphrases, each as likely."""
        return {"paraphrase": float(rng.integers(COUNT))}

    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        """True at depth 0.

        Raises:
            ValueError: the draw names none of the ten paraphrases.
        """
        self._number(draw)
        return level["depth"] == 0.0

    def instruction(self, instruction: str, level: Parameters, draw: Draw, episode: Episode) -> str:
        """The paraphrase of the episode's task.

        Args:
            instruction: the task's own sentence, or nothing to ask for the paraphrase alone.
            level, draw, episode: which paraphrase.

        Raises:
            ValueError: there are none for this task, or a number is out of range.
            UsageError: the simulator gives this task another sentence than was paraphrased.
        """
        self.check(level)
        depth, number = int(level["depth"]), self._number(draw)
        found = paraphrases(episode.task_suite, episode.task)
        if instruction and instruction != found.instruction:
            raise UsageError(
                f"{self.name}: task {episode.task!r} was paraphrased from {found.instruction!r},"
                f" but the simulator's sentence is {instruction!r}"
            )
        return found.rewordings[number].sentences[depth - 1] if depth else instruction

    def _number(self, draw: Draw) -> int:
        value = variate(draw, "paraphrase")
        if value not in range(COUNT):
            raise ValueError(f"{self.name}: there is no paraphrase {value}; use 0 ... {COUNT - 1}")
        return int(value)
