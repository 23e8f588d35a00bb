"""Protection of the process against the linted tree: module search path and interrupts.

`python -m amplint` starts with the current folder at the head of the search path. What Python imports from there before
the first line of amplint is out of reach; until `harden` has run, nothing else may be imported, not even `__future__`.
"""

import os
import sys

INTERRUPTED = 130
"""Exit status after an interrupt, as shells count it."""

_original: list[str] = []
_interrupted = False
_held = 0


def harden() -> None:
    """Remove the current folder and those on the command line from the search path; exit with 130 on an interrupt.

    Called once, before anything else is imported. `relax` reverts it.
    """
    _original[:] = sys.path
    distrust([path for path in (os.curdir, *sys.argv[1:]) if os.path.exists(path)])
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def distrust(paths: list[str]) -> None:
    """Remove the folders of `paths` and everything inside of them from the search path.

    Python's own folders are kept, and so is everything below the given folders if dependencies are installed outside of
    Python's own folders, as in an archive of an application. The given folders themselves are always removed.
    """
    places = {_real(path) for path in paths}
    tops = {place if os.path.isdir(place) else os.path.dirname(place) for place in places}
    own = _own_folders()
    installed = any(os.path.isdir(os.path.join(folder, "libcst")) for folder in own)

    def stays(entry: str) -> bool:
        path = _real(entry or os.curdir)
        if path in own:
            return True
        if path in tops:
            return False
        inside = any(_within(path, top) for top in tops) and not any(_within(path, folder) for folder in own)
        return not (installed and inside)

    sys.path[:] = [entry for entry in sys.path if stays(entry)]


def relax() -> None:
    """Revert `harden` and `distrust` for a script that takes over the process."""
    import signal

    if _original:
        sys.path[:] = [*_original, *(entry for entry in sys.path if entry not in _original)]
        _original.clear()
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def leave() -> None:
    """Ignore interrupts from now on: the run has ended and its status is decided."""
    import signal

    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Uninterrupted:
    """A context that defers an interrupt to its end; a second one is not deferred."""

    def __enter__(self) -> None:
        global _held
        _held += 1

    def __exit__(self, *_: object) -> None:
        global _held
        _held -= 1
        if _interrupted and not _held:
            _end()


def _interrupt(number: int, frame: object) -> None:
    """End the process immediately.

    An exception could be lost in a callback of the garbage collector, leave a lock held that the analysis thread waits
    for, or unwind that thread inside of native code.
    """
    global _interrupted
    if _interrupted or not _held:
        _end()
    _interrupted = True


def _end() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed, or interrupted while it wrote
            continue
    os._exit(INTERRUPTED)


def _own_folders() -> list[str]:
    """The folders of this Python's standard library and installed packages."""
    folders = [os.path.dirname(os.__file__)]
    site = sys.modules.get("site")
    if site is not None:
        folders += site.getsitepackages()
        if site.ENABLE_USER_SITE:
            folders.append(site.getusersitepackages())
    return [os.path.realpath(folder) for folder in folders]


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # the current folder has been removed
        return path


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
