"""The network: two small pictures, a dozen numbers and a sentence, to eight actions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pytest_vla_shift.policies.tiny_inputs import PROPRIO

CHUNK = 8
LANGUAGE = 64
CHANNELS = 64
QUERIES = 4
HIDDEN = 512


class Sentence(nn.Module):
    """Word ids (B, W), 0 for none, to (B, LANGUAGE)."""

    def __init__(self, words: int, length: int) -> None:
        super().__init__()
        self.word = nn.Embedding(words, LANGUAGE, padding_idx=0)
        self.place = nn.Parameter(torch.randn(length, LANGUAGE) * 0.02)
        self.near = nn.Conv1d(LANGUAGE, LANGUAGE, 3, padding=1)
        self.out = nn.Sequential(
            nn.Linear(2 * LANGUAGE, LANGUAGE), nn.ReLU(), nn.Linear(LANGUAGE, LANGUAGE)
        )

    def forward(self, ids: Tensor) -> Tensor:
        there = (ids > 0).float().unsqueeze(-1)
        x = (self.word(ids) + self.place) * there
        x = (x + torch.relu(self.near(x.transpose(1, 2)).transpose(1, 2))) * there
        mean = x.sum(1) / there.sum(1).clamp(min=1.0)
        most = (x - 1e4 * (1 - there)).amax(1)
        return self.out(torch.cat([mean, most], 1))


class Eye(nn.Module):
    """One camera: a picture (B, 3, H, W) in [-0.5, 0.5] and a condition, to where things are.

    Features are modulated by the sentence (FiLM); then every channel, and a few queries made of
    sentence and proprioception, give the place that they attend to.
    """

    def __init__(self, condition: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 5, 4, 2)
        self.place = nn.Conv2d(2, 32, 5, 4, 2, bias=False)  # of the pixels' own coordinates
        self.norm = nn.GroupNorm(8, 32)
        self.down = nn.Sequential(nn.Conv2d(32, CHANNELS, 3, 2, 1), nn.GroupNorm(8, CHANNELS))
        self.last = nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, 1, 1), nn.GroupNorm(8, CHANNELS))
        self.film = nn.Linear(condition, 4 * CHANNELS)
        self.query = nn.Linear(condition, QUERIES * CHANNELS)
        self.sharp = nn.Parameter(torch.tensor(1.0))

    size = CHANNELS * 3 + QUERIES * (CHANNELS + 2)

    def forward(self, picture: Tensor, condition: Tensor) -> Tensor:
        b, _, h, w = picture.shape
        x = torch.relu(self.norm(self.stem(picture) + self.place(grid(h, w))))
        gain, bias, gain2, bias2 = self.film(condition)[:, :, None, None].chunk(4, 1)
        x = torch.relu(self.down(x) * (1 + gain) + bias)
        x = x + torch.relu(self.last(x) * (1 + gain2) + bias2)
        flat = x.flatten(2)  # (B, C, h w)
        places = grid(h // 8, w // 8).flatten(2).squeeze(0).T  # (h w, 2)
        own = torch.softmax(flat * self.sharp, -1) @ places
        query = self.query(condition).view(b, QUERIES, CHANNELS)
        attention = torch.softmax(query @ flat * CHANNELS**-0.5, -1)
        looked = attention @ torch.cat([flat.transpose(1, 2), places.expand(b, -1, -1)], 2)
        return torch.cat([own.flatten(1), flat.amax(-1), looked.flatten(1)], 1)


def grid(h: int, w: int) -> Tensor:
    """(1, 2, h, w): row and column in [-1, 1]."""
    rows, columns = torch.linspace(-1, 1, h), torch.linspace(-1, 1, w)
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij")).unsqueeze(0)


class Tiny(nn.Module):
    """See :meth:`forward`.

    Args:
        words: size of the vocabulary, with the two ids that are no words.
        length: words of a sentence at most.
        centre, spread: (PROPRIO,) mean and standard deviation of proprioception in training.
    """

    def __init__(self, words: int, length: int, centre: Tensor, spread: Tensor) -> None:
        super().__init__()
        self.register_buffer("centre", centre)
        self.register_buffer("spread", spread)
        self.sentence = Sentence(words, length)
        condition = LANGUAGE + PROPRIO
        self.scene, self.wrist = Eye(condition), Eye(condition)
        self.body = nn.Sequential(
            nn.Linear(2 * Eye.size + condition, HIDDEN),
            nn.LayerNorm(HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
        )
        self.mean = nn.Linear(HIDDEN, CHUNK * 6)
        self.scale = nn.Linear(HIDDEN, CHUNK * 6)
        self.gripper = nn.Linear(HIDDEN, CHUNK * 3)
        self.truth = nn.Linear(2 * Eye.size + condition, 6)

    def forward(
        self, pictures: Tensor, proprio: Tensor, words: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What to do next.

        Args:
            pictures: (B, 2, H, W, 3) uint8.
            proprio: (B, PROPRIO) as :func:`tiny_inputs.proprio`.
            words: (B, W) ids.

        Returns:
            Means (B, CHUNK, 6), standard deviations of the same shape, logits of the gripper
            opening, staying and closing (B, CHUNK, 3), and, for training alone, where the
            handled thing and its goal are from the hand, (B, 2, 3) in decimetres.
        """
        x = (pictures.float() * (1 / 255) - 0.5).permute(0, 1, 4, 2, 3)
        condition = torch.cat([self.sentence(words), (proprio - self.centre) / self.spread], 1)
        scene, wrist = self.scene(x[:, 0], condition), self.wrist(x[:, 1], condition)
        seen = torch.cat([scene, wrist, condition], 1)
        body = self.body(seen)
        mean = self.mean(body).view(-1, CHUNK, 6)
        scale = nn.functional.softplus(self.scale(body.detach())).view(-1, CHUNK, 6) + 1e-3
        gripper = self.gripper(body).view(-1, CHUNK, 3)
        return mean, scale, gripper, self.truth(seen).view(-1, 2, 3)
