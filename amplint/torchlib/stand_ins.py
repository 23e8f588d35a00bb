"""Stubs of well-known wrappers in installed libraries: small modules with the same use of a scaler."""

from __future__ import annotations

_TIMM = """
import torch


class NativeScaler:
    state_dict_key = "amp_scaler"

    def __init__(self, device="cuda"):
        self._scaler = torch.amp.GradScaler(device)

    def __call__(
        self,
        loss,
        optimizer,
        clip_grad=None,
        clip_mode="norm",
        parameters=None,
        create_graph=False,
        need_update=True,
    ):
        self._scaler.scale(loss).backward(create_graph=create_graph)
        if need_update:
            if clip_grad is not None:
                self._scaler.unscale_(optimizer)
                dispatch_clip_grad(parameters, clip_grad, mode=clip_mode)
            self._scaler.step(optimizer)
            self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()

    def load_state_dict(self, state_dict):
        self._scaler.load_state_dict(state_dict)


def dispatch_clip_grad(parameters, value, mode="norm", norm_type=2.0):
    torch.nn.utils.clip_grad_norm_(parameters, value, norm_type=norm_type)
"""

STAND_INS = {"timm.utils": _TIMM, "timm.utils.cuda": _TIMM, "timm.utils.clip_grad": _TIMM}
"""Module of a library -> the text of its stub, used if the linted tree has no such module."""
