"""Running a script under watch, as `python script.py` or `python -m module` would."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType, TracebackType

from amplint.trace.frames import is_own
from amplint.trace.record import Record
from amplint.trace.watching import Watch, WindowPassed
from amplint.trace.window import Window

RAISED, INTERRUPTED = 1, 130


class NoScript(Exception):
    """There is nothing to run; the message is one line for the user."""


@dataclass(frozen=True)
class Ran:
    """What was seen of a script, and the exit status it came to: 0 where it was ended behind the window."""

    record: Record
    status: int


def run(
    script: str,
    arguments: Sequence[str],
    window: Window,
    *,
    module: bool = False,
    stop: bool = True,
    numerics: str = "sample",
) -> Ran:
    """Run `script`, a path or with `module` a name as for `python -m`, and watch it, its `numerics` as `watch` does.

    With `stop` it ends behind the window. An exception of the script's is printed as Python prints it and becomes the
    exit status. Raises NoScript.
    """
    spec = _spec(script) if module else None
    path = script if spec is None else str(spec.origin)
    code = _code(path)
    main = ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    if spec is not None:
        main.__spec__, main.__package__ = spec, spec.parent
    watch = Watch(window, stop=stop, numerics=numerics)
    before = sys.argv, sys.path[:], sys.modules["__main__"]
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.abspath(path)))
    sys.modules["__main__"] = main
    try:
        return Ran(watch.record, _status(watch, code, main))
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = before


def _status(watch: Watch, code: CodeType, main: ModuleType) -> int:
    try:
        with watch:
            exec(code, vars(main))
    except WindowPassed:
        return 0
    except SystemExit as ended:
        return _exit_status(ended.code)
    except KeyboardInterrupt as failure:
        _show(failure)
        return INTERRUPTED
    except BaseException as failure:
        _show(failure)
        return RAISED
    return 0


def _exit_status(code: object) -> int:
    """What Python makes of the argument of `sys.exit`."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return RAISED


def _show(failure: BaseException) -> None:
    """Print the traceback, from the script on."""
    trace: TracebackType | None = failure.__traceback__
    while trace is not None and not is_own(trace.tb_frame.f_code):
        trace = trace.tb_next
    sys.stdout.flush()
    traceback.print_exception(type(failure), failure, trace or failure.__traceback__)


def _code(path: str) -> CodeType:
    try:
        with io.open_code(os.path.abspath(path)) as file:
            return compile(file.read(), path, "exec")
    except OSError as failure:
        raise NoScript(f"{path}: {failure.strerror or failure}") from None
    except (SyntaxError, ValueError) as failure:
        raise NoScript(f"{path}: {failure}") from None


def _spec(name: str) -> ModuleSpec:
    """Where module `name` is, or `name.__main__` where it is a package."""
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as failure:
        raise NoScript(f"{name}: {failure}") from None
    finally:
        del sys.path[0]
    if spec is None or not spec.has_location:
        raise NoScript(f"{name}: no such module")
    return spec
