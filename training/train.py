"""Behaviour cloning of the demonstrations, on two CPU cores.

python -m training.train --data DIR --out FILE.pt --epochs 20
"""

from __future__ import annotations

import argparse
import copy
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from pytest_vla_shift.policies.tiny_words import LENGTH, ids, token_ids
from pytest_vla_shift.simulators.libero_stages import instruction_of
from training.model import Tiny
from training.sentences import variation, vocabulary

BATCH = 64
RATE = 1e-3
WORDS = ids(vocabulary())
DECAY = 0.999
"""Of the moving average of weights, which is what is kept."""


@dataclass
class Data:
    """All samples in memory; see ``demonstrate.Samples``."""

    pictures: Tensor
    proprio: Tensor
    actions: Tensor
    valid: Tensor
    truth: Tensor
    task: Tensor
    sentences: list[str]


def load(folder: Path, only: str = "") -> Data:
    """Every file of ``folder`` whose name contains ``only``, in the order of names."""
    parts: dict[str, list[np.ndarray]] = {}
    sentences: list[str] = []
    for path in sorted(folder.glob("*.npz")):
        if only not in path.name:
            continue
        sentence = instruction_of(path.stem.split("-")[1])
        if sentence not in sentences:
            sentences.append(sentence)
        with np.load(path, allow_pickle=False) as file:
            for name in ("pictures", "proprio", "actions", "valid", "truth"):
                parts.setdefault(name, []).append(file[name])
            parts.setdefault("task", []).append(
                np.full(len(file["step"]), sentences.index(sentence))
            )
    joined = {name: torch.from_numpy(np.concatenate(every)) for name, every in parts.items()}
    return Data(**joined, sentences=sentences)


def shifted(pictures: Tensor, rng: random.Random) -> Tensor:
    """The batch moved by up to two pixels, and each a little tinted: (B, 2, H, W, 3) float32."""
    b, cameras, h, w, _ = pictures.shape
    each = [
        moved(moved(pictures[:, camera], rng.randint(-2, 2), 1), rng.randint(-2, 2), 2)
        for camera in range(cameras)
    ]
    gain = 1 + 0.08 * torch.randn(b, 1, 1)
    tint = 6 * torch.randn(b, 1, 3)
    # Whole lines at once: broadcasting over three colours takes several times as long.
    lines = torch.stack(each, 1).view(b, cameras * h, w * 3).float()
    lines.mul_(gain).add_(tint.repeat(1, 1, w)).clamp_(0, 255)
    return lines.view(b, cameras, h, w, 3)


def moved(pictures: Tensor, by: int, dim: int) -> Tensor:
    """Content ``by`` pixels further back along ``dim``; its edge is repeated."""
    if by == 0:
        return pictures
    size, gap = pictures.shape[dim], abs(by)
    edge = pictures.narrow(dim, size - 1 if by > 0 else 0, 1)
    shape = list(pictures.shape)
    shape[dim] = gap
    rest = pictures.narrow(dim, max(by, 0), size - gap)
    return torch.cat([rest, edge.expand(shape)] if by > 0 else [edge.expand(shape), rest], dim)


def loss_of(model: nn.Module, data: Data, index: Tensor, rng: random.Random) -> dict[str, Tensor]:
    """The parts of the loss of one batch."""
    said = [variation(data.sentences[int(task)], rng) for task in data.task[index]]
    tokens = torch.from_numpy(np.stack([token_ids(text, WORDS) for text in said]))
    proprio = data.proprio[index]
    noise = torch.zeros_like(proprio)
    noise[:, :3] = 0.004 * torch.randn(len(index), 3)
    mean, scale, gripper, truth = model(shifted(data.pictures[index], rng), proprio + noise, tokens)
    actions, valid = data.actions[index], data.valid[index].float()
    count = valid.sum()
    off = mean - actions[..., :6]
    motion = (off.abs() * valid[..., None]).sum() / count / 6
    # The scale learns how wrong the mean is, and has no say in the mean.
    wrong = off.detach()
    spread = ((0.5 * (wrong / scale) ** 2 + scale.log()) * valid[..., None]).sum() / count / 6
    classes = (actions[..., 6].sign() + 1).long()
    closing = nn.functional.cross_entropy(gripper.transpose(1, 2), classes, reduction="none")
    where = 10 * (data.truth[index] - proprio[:, None, :3])
    return {
        "motion": motion,
        "gripper": 0.3 * (closing * valid).sum() / count,
        "spread": 0.02 * spread,
        "truth": 0.2 * (truth - where).abs().mean(),
    }


def train(data: Data, epochs: float, seed: int, start: Path | None = None) -> Tiny:
    """Train from scratch, or on from ``start``; gives the moving average of the weights."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    centre, spread = data.proprio.mean(0), data.proprio.std(0).clamp(min=0.01)
    model = Tiny(len(vocabulary()) + 2, LENGTH, centre, spread)
    if start is not None:
        model.load_state_dict(torch.load(start, weights_only=True))
    print(sum(p.numel() for p in model.parameters()), "parameters,", len(data.task), "samples")
    model.to(memory_format=torch.channels_last)
    kept = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=1e-4, fused=True)
    steps = int(epochs * len(data.task) / BATCH)
    plan = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=steps + 1, pct_start=0.1
    )
    begun, shown = time.monotonic(), dict[str, float]()
    order = torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if len(order) < BATCH:
            order = torch.randperm(len(data.task))
        index, order = order[:BATCH], order[BATCH:]
        parts = loss_of(model, data, index, rng)
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(parts.values())).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        plan.step()
        with torch.no_grad():
            decay = min(DECAY, (1 + step) / (10 + step))
            for slow, fast in zip(kept.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 1 - decay)
        for name, value in parts.items():
            shown[name] = shown.get(name, 0.0) + value.item() / 200
        if step % 200 == 199:
            figures = "  ".join(f"{name} {value:.4f}" for name, value in shown.items())
            print(f"{step + 1}/{steps}  {figures}  {time.monotonic() - begun:.0f} s", flush=True)
            shown.clear()
    return kept


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the demonstrations")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="only files whose name contains this")
    parser.add_argument("--epochs", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, help="weights to go on from")
    args = parser.parse_args()
    begun = time.process_time()
    model = train(load(args.data, args.only), args.epochs, args.seed, args.start)
    torch.save(model.state_dict(), args.out)
    print(f"{time.process_time() - begun:.0f} s of CPU")


if __name__ == "__main__":
    main()
