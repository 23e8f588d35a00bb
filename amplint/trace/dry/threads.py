"""Emulation in threads that a script starts: PyTorch's modes are thread-local."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from amplint.trace.dry.devices import Devices
from amplint.trace.dry.operators import Placing
from amplint.trace.replaced import replaced


@contextlib.contextmanager
def threads(devices: Devices) -> Iterator[None]:
    """Enter the modes in each thread started in this context."""
    start = threading.Thread.start

    def started(thread: threading.Thread) -> None:
        run = thread.run

        def inside() -> None:
            with Placing(), devices:  # type: ignore[no-untyped-call]
                run()

        thread.run = inside  # type: ignore[method-assign]
        start(thread)

    with replaced(threading.Thread, start=started):
        yield
