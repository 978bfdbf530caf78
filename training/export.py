"""The trained network as one ONNX file, checked against torch.

python -m training.export --weights FILE.pt --out pytest_vla_shift/policies/weights/tiny.onnx
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from pytest_vla_shift.policies.tiny_inputs import PROPRIO, SIZE
from pytest_vla_shift.policies.tiny_words import LENGTH
from training.model import Tiny
from training.sentences import vocabulary

VERSION = "1"
DATA = "scripted expert, LIBERO object, spatial and goal, training states; see training/README.md"
NAMES = ("mean", "scale", "gripper")


class Deployed(nn.Module):
    """Without the output that only training needs."""

    def __init__(self, model: Tiny) -> None:
        super().__init__()
        self.model = model

    def forward(self, pictures: Tensor, proprio: Tensor, words: Tensor) -> tuple[Tensor, ...]:
        mean, scale, gripper, _ = self.model(pictures, proprio, words)
        return mean, scale, gripper


def export(model: Tiny, out: Path) -> None:
    """Write the file; the batch is free."""
    model.eval()
    example = (
        torch.randint(0, 255, (2, 2, SIZE, SIZE, 3), dtype=torch.uint8),
        torch.randn(2, PROPRIO),
        torch.randint(0, 9, (2, LENGTH)),
    )
    deployed = Deployed(model)
    inputs = ("pictures", "proprio", "words")
    torch.onnx.export(
        deployed,
        example,
        str(out),
        input_names=inputs,
        output_names=NAMES,
        dynamic_axes={name: {0: "batch"} for name in (*inputs, *NAMES)},
        dynamo=False,
        opset_version=17,
    )
    graph = onnx.load(str(out))
    for name, value in (
        ("vocabulary", json.dumps(vocabulary())),
        ("version", VERSION),
        ("data", DATA),
    ):
        entry = graph.metadata_props.add()
        entry.key, entry.value = name, value
    onnx.checker.check_model(graph)
    onnx.save(graph, str(out))
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    given = {name: tensor.numpy() for name, tensor in zip(inputs, example, strict=True)}
    with torch.no_grad():
        wanted = deployed(*example)
    for name, got, tensor in zip(NAMES, session.run(list(NAMES), given), wanted, strict=True):
        off = float(np.abs(got - tensor.numpy()).max())
        print(f"{name}: {got.shape}, differs from torch by {off:.1e}")
        if off > 1e-3:
            raise SystemExit(f"{name} differs")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    model = Tiny(len(vocabulary()) + 2, LENGTH, torch.zeros(PROPRIO), torch.ones(PROPRIO))
    model.load_state_dict(torch.load(args.weights, weights_only=True))
    export(model, args.out)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
