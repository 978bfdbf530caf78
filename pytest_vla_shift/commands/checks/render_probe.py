"""Run as a program by ``vla-shift doctor``: load GL and draw one picture. It may crash.

What it learns it prints at once, a JSON line each, so that a crash leaves what came before.
"""

from __future__ import annotations

import ctypes
import json

LIBRARIES = ("libEGL.so.1", "libOSMesa.so.8")

SCENE = """
<mujoco>
  <worldbody>
    <light pos="0 0 3"/>
    <camera name="eye" pos="0 -2 0" xyaxes="1 0 0 0 0 1"/>
    <geom type="box" size=".3 .3 .3" rgba="1 0 0 1"/>
  </worldbody>
</mujoco>
"""


def main() -> None:
    """Print what loads, then what draws."""
    say(libraries={name: complaint(name) for name in LIBRARIES})
    try:
        import mujoco
    except Exception as error:
        if not (isinstance(error, ModuleNotFoundError) and error.name == "mujoco"):
            say(imports=False, complaint=f"{type(error).__name__}: {error}")
        return
    say(mujoco=str(mujoco.__version__))
    try:
        say(renderer=draw())
    except Exception as error:
        say(complaint=f"{type(error).__name__}: {error}")


def say(**facts: object) -> None:
    """One line for the process that reads."""
    print(json.dumps({"probe": facts}), flush=True)


def complaint(library: str) -> str | None:
    """Why a library does not load, or None."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return None


def draw() -> str:
    """Draw a red box and give the GL renderer's name.

    Raises:
        RuntimeError: the picture is empty.
    """
    import mujoco
    from OpenGL import GL

    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    renderer = mujoco.Renderer(model, 32, 32)
    try:
        renderer.update_scene(data, camera="eye")
        picture = renderer.render()
        name = GL.glGetString(GL.GL_RENDERER)
    finally:
        renderer.close()
    red, _, blue = (int(value) for value in picture[16, 16])
    if red <= blue:
        raise RuntimeError(f"a red box was drawn as {picture[16, 16].tolist()}")
    return name.decode() if isinstance(name, bytes) else str(name)


if __name__ == "__main__":
    main()
