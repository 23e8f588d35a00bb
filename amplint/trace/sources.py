"""Digests of the files in a record."""

from __future__ import annotations

import os

from amplint.trace.data import RunData, digest


def digests(record: RunData, folder: str, began: float) -> dict[str, str]:
    """File name -> digest of its content, for every file in `record`.

    Relative names are relative to `folder`. The digest is empty if the file cannot be read, or was modified after
    `began`, in seconds since the epoch: the content that ran is unknown then.
    """
    names = {
        *(operation.filename for operation in record.operations),
        *(call.filename for call in record.calls),
        *(failure.filename for failure in record.failures),
        *(held.filename for held in record.held),
    }
    return {name: _digest(os.path.join(folder, name), began) for name in sorted(names - {""})}


def _digest(path: str, began: float) -> str:
    try:
        with open(path, "rb") as file:
            return digest(file.read()) if os.fstat(file.fileno()).st_mtime <= began else ""
    except OSError:
        return ""
