"""Whatever a GR00T server answers is actions or an error, whatever a client asks is answered."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.policies.extension import ExtensionError, announced
from pytest_vla_shift.policies.mapping import actions
from pytest_vla_shift.policies.profile import MappingError
from pytest_vla_shift.policies.wires import gr00t_layout, gr00t_modality
from pytest_vla_shift.policies.wires.gr00t_codec import CodecError, decode, encode
from pytest_vla_shift.policies.wires.protocol import WireError
from tests.fakes.gr00t_peers import action_map, config
from tests.fakes.gr00t_served import PROFILE, SENT, Raw, serving
from tests.fakes.noting_policies import Recording

ARRAYS = st.sampled_from(
    [
        np.zeros(()),
        np.zeros((1, 4, 1), np.float32),
        np.full((1, 4, 1), np.nan),
        np.zeros((4, 1), np.int8),
        np.zeros((0, 1)),
        np.zeros((2, 4, 1)),
        np.zeros((1, 1, 8, 8, 3), np.uint8),
        np.array([True]),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=5) | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def keys_of(whole: Mapping[str, object]) -> st.SearchStrategy[dict[str, object]]:
    """``whole`` with some of its values replaced, and some gone."""
    changed = st.dictionaries(st.sampled_from(sorted(whole)), VALUES, max_size=2)
    gone = st.sets(st.sampled_from(sorted(whole)), max_size=1)
    return st.builds(
        lambda new, lost: {k: v for k, v in {**whole, **new}.items() if k not in lost},
        changed,
        gone,
    )


@settings(max_examples=60, deadline=None)
@given(st.one_of(VALUES, keys_of(action_map(PROFILE, 4)), keys_of(action_map(PROFILE)).map(list)))
def test_an_answer_is_actions_or_an_error(answer: object) -> None:
    for sent in (answer, [answer, {}]):
        with contextlib.suppress(WireError, MappingError):
            read = gr00t_layout.actions(decode(encode(sent)), PROFILE.action_widths)
            found = actions(PROFILE, read)
            assert found.shape[1:] == (7,)
            assert np.isfinite(found).all()


@settings(max_examples=60, deadline=None)
@given(st.one_of(VALUES, keys_of(config(PROFILE)), keys_of({"video": 1, "vla_shift": 1})))
def test_what_a_server_says_of_itself_is_read_or_refused(said: object) -> None:
    with contextlib.suppress(CodecError):
        answer = decode(encode(said))
        agreed = gr00t_modality.agree(PROFILE, gr00t_modality.read(answer))
        assert all(row.item and row.policy and row.ours for row in agreed.rows)
    with contextlib.suppress(ExtensionError):
        announced(said)


def test_whatever_is_asked_is_answered_and_the_next_as_well() -> None:
    with serving(Recording()) as url, Raw(url) as client:

        @settings(max_examples=60, deadline=None)
        @given(
            keys_of({"endpoint": "get_action", "data": {"observation": SENT}}),
            st.sampled_from(["get_action", "reset", "ping", "get_modality_config", "other"]),
            st.one_of(VALUES, keys_of({"options": {"seed": 5, "vla_shift": {}}})),
        )
        def ask(request: dict[str, object], endpoint: str, data: object) -> None:
            for sent in (request, {"endpoint": endpoint, "data": data}):
                assert client.send(encode(sent)) is not None

        ask()
        assert client.call("ping") == {"status": "ok", "message": "Server is running"}
