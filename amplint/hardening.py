"""Protection of the process against the tree that it reads: its module search path and its interrupts.

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
    """Take the current folder and those on the command line off the search path; let interrupts end with status 130.

    Called once, before anything else is imported. `relax` undoes it.
    """
    _original[:] = sys.path
    distrust([path for path in (os.curdir, *sys.argv[1:]) if os.path.exists(path)])
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def distrust(paths: list[str]) -> None:
    """Take the folders among `paths`, those of the files among them, and what lies in them off the search path.

    Python's own folders stay. So does everything below these folders where dependencies are not in Python's own, but
    may lie anywhere, as in an archive of an application. An entry for one of the folders itself never stays.
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
    """Undo `harden` and `distrust` for a script that takes over the process."""
    import signal

    if _original:
        sys.path[:] = [*_original, *(entry for entry in sys.path if entry not in _original)]
        _original.clear()
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def leave() -> None:
    """From here on interrupts are ignored: the run has ended, and its status is decided."""
    import signal

    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Uninterrupted:
    """A context in which an interrupt waits for the end of the block; a second one does not wait."""

    def __enter__(self) -> None:
        global _held
        _held += 1

    def __exit__(self, *_: object) -> None:
        global _held
        _held -= 1
        if _interrupted and not _held:
            _end()


def _interrupt(number: int, frame: object) -> None:
    """End the process at once.

    An exception would be lost in a callback of the garbage collector, leave a lock held that the thread that analyses
    waits for, or unwind that thread in the middle of native code.
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
    """Where this Python keeps its standard library and installed packages."""
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
