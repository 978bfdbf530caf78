"""allure-pytest's files, written whole; what cannot be written is told instead of raised.

allure-pytest writes within pytest's hooks, where an exception would end the run with an internal
error and a page of traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import allure_commons

from pytest_vla_shift.rollouts.storage import StorageError, refused, whole

Wrapper = Generator[None, object, object]


class AllureGuard:
    """Around every file that allure-pytest writes.

    Args:
        folder: the results folder, for people.
        stop: called with what could not be written.
    """

    def __init__(self, folder: Path, stop: Callable[[StorageError], None]) -> None:
        self._folder = folder
        self._stop = stop

    def install(self) -> None:
        """Register with Allure; one guard a process."""
        allure_commons.plugin_manager.register(self)

    def remove(self) -> None:
        """Unregister. Idempotent."""
        if allure_commons.plugin_manager.is_registered(self):
            allure_commons.plugin_manager.unregister(self)

    def _guarded(self) -> Wrapper:
        try:
            with whole():
                return (yield)
        except OSError as error:
            self._stop(refused(self._folder, error))
            return None

    @allure_commons.hookimpl(wrapper=True)
    def report_result(self) -> Wrapper:
        """A node's result."""
        return (yield from self._guarded())

    @allure_commons.hookimpl(wrapper=True)
    def report_container(self) -> Wrapper:
        """A fixture's result."""
        return (yield from self._guarded())

    @allure_commons.hookimpl(wrapper=True)
    def report_attached_file(self) -> Wrapper:
        """A video."""
        return (yield from self._guarded())

    @allure_commons.hookimpl(wrapper=True)
    def report_attached_data(self) -> Wrapper:
        """A picture or a text."""
        return (yield from self._guarded())
