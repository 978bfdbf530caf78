"""Policies of a few lines, with the queues of lerobot's own of the same names."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor


class PreTrainedPolicy:
    """``weights`` are three numbers; ``seen`` is what the last call was given."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.weights = {key: Tensor([0.0]) for key in ("gain", "noise", "looks")}
        self.seen: dict[str, Any] = {}
        self.reset()

    @classmethod
    def from_pretrained(
        cls,
        pretrained_name_or_path: str | Path,
        *,
        config: Any = None,
        force_download: bool = False,
        resume_download: bool | None = None,
        proxies: dict[Any, Any] | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
        strict: bool = False,
        **kwargs: Any,
    ) -> PreTrainedPolicy:
        model = cls(config, **kwargs)
        found = json.loads((Path(pretrained_name_or_path) / "weights.json").read_text())
        if strict and found.keys() != model.weights.keys():
            missing = sorted(model.weights.keys() - found.keys())
            raise RuntimeError(f"Missing key(s) in state_dict: {missing}")
        for key, value in found.items():
            model.weights[key].values[:] = value
        return model

    def parameters(self) -> Any:
        return iter(self.weights.values())

    def reset(self) -> None:
        self.queue: deque[Any] = deque()

    def weight(self, key: str) -> float:
        return float(self.weights[key].values[0])

    def looked(self, batch: dict[str, Any]) -> float:
        """``looks`` x something of every picture, and of the sentence where one is read."""
        read = len(batch["task"]) if self.config.type in ("smolvla", "vla_jepa") else 0
        pictures = [value for key, value in batch.items() if "image" in key]
        dark = sum(float(p.values[0, :, 0].mean()) / n for n, p in enumerate(pictures, 2))
        return self.weight("looks") * (dark + read)

    def predict_action_chunk(self, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        raise NotImplementedError

    def select_action(self, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        self.seen = batch
        if not self.queue:
            chunk = self.predict_action_chunk(batch)
            self.queue.extend(chunk.values[:, : self.config.n_action_steps].swapaxes(0, 1))
        return Tensor(self.queue.popleft())


class Chunks(PreTrainedPolicy):
    """Action k of a chunk: gain x the first number of the state + k / 100, noise x noise, looks."""

    def predict_action_chunk(self, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        assert torch.inference
        self.seen = batch
        first = float(batch["observation.state"].values[0, 0])
        steps = np.arange(self.config.chunk_size)[None, :, None] / 100.0
        noise = torch.randn(1, self.config.chunk_size, 7).values
        width = self.config.output_features["action"].shape[0]
        fixed = self.weight("gain") * first + self.looked(batch)
        moves = np.tile(steps, (1, 1, 7)) + self.weight("noise") * noise
        return Tensor((fixed + moves)[..., :width])


class Ensembles(Chunks):
    """ACT: the mean of what the last chunks said about now, if the configuration says so."""

    def reset(self) -> None:
        super().reset()
        self.chunks: list[Any] = []

    def select_action(self, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        if getattr(self.config, "temporal_ensemble_coeff", None) is None:
            return super().select_action(batch)
        self.chunks = [chunk[1:] for chunk in self.chunks if len(chunk) > 1]
        self.chunks.append(self.predict_action_chunk(batch).values[0])
        return Tensor(np.mean([chunk[0] for chunk in self.chunks], axis=0)[None])


class History(PreTrainedPolicy):
    """Diffusion: the first numbers of the last states, 1 x the newest + 10 x the one before."""

    def reset(self) -> None:
        super().reset()
        self.states: deque[float] = deque(maxlen=self.config.n_obs_steps)

    def predict_action_chunk(self, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        newest, *before = list(self.states)[::-1]
        value = newest + 10.0 * sum(before)
        value += self.weight("noise") * torch.randn(1).values[0] + self.looked(batch)
        return Tensor(np.full((1, self.config.n_action_steps, 7), value))

    def select_action(self, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        first = float(batch["observation.state"].values[0, 0])
        while len(self.states) < self.config.n_obs_steps:
            self.states.append(first)
        self.states.append(first)
        return super().select_action(batch)


CLASSES: dict[str, type[PreTrainedPolicy]] = {
    "act": Ensembles,
    "smolvla": Chunks,
    "vla_jepa": Chunks,
    "groot": Chunks,
    "molmoact2": Chunks,
    "diffusion": History,
}
