"""Protection of the process against the tree that it reads: its module search path and its interrupts.

`python -m amplint` starts with the current folder at the head of the search path. Until `harden` has run, nothing may
be imported here that Python has not loaded by itself, `__future__` included.
"""

import os
import sys

INTERRUPTED = 130
"""Exit status after an interrupt, as shells count it."""

_original: list[str] = []
_interrupted = False


def harden() -> None:
    """Take the current folder off the search path, and let interrupts end the process with status 130.

    Called once, before anything else is imported. `relax` undoes it.
    """
    _original[:] = sys.path
    try:
        current = os.getcwd()
    except OSError:
        current = ""  # the folder is gone, and then Python has not put it on the search path either
    if current:
        distrust(current)
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def distrust(folder: str) -> None:
    """Take `folder` and what lies in it off the search path.

    Python's own folders stay. So does everything below `folder` where amplint itself is not in one of these: its
    dependencies may then lie anywhere, as in an archive of an application. An entry for `folder` itself never stays.
    """
    top = os.path.realpath(folder)
    own = _own_folders()
    installed = any(_within(os.path.realpath(__file__), place) for place in own)

    def stays(entry: str) -> bool:
        path = os.path.realpath(entry or os.curdir)
        if path == top:
            return path in own
        return not installed or not _within(path, top) or any(_within(path, place) for place in own)

    sys.path[:] = [entry for entry in sys.path if stays(entry)]


def relax() -> None:
    """Undo `harden` and `distrust` for a script that takes over the process."""
    import signal

    if _original:
        sys.path[:] = _original
        _original.clear()
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def leave() -> None:
    """End at once with status 130 if there was an interrupt; from here on there is none.

    The interpreter's own way out would unwind the thread that analyses, in the middle of native code.
    """
    import contextlib
    import signal

    if signal.getsignal(signal.SIGINT) is not _interrupt:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _interrupted:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(INTERRUPTED)


def _interrupt(number: int, frame: object) -> None:
    """Unwind what runs; a second interrupt does not wait for that."""
    global _interrupted
    if _interrupted:
        os._exit(INTERRUPTED)
    _interrupted = True
    raise KeyboardInterrupt


def _own_folders() -> list[str]:
    """Where this Python keeps its standard library and installed packages."""
    folders = [os.path.dirname(os.__file__)]
    site = sys.modules.get("site")
    if site is not None:
        folders += site.getsitepackages()
        if site.ENABLE_USER_SITE:
            folders.append(site.getusersitepackages())
    return [os.path.realpath(folder) for folder in folders]


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
