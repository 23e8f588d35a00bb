"""Text that sets a setting, or that switches one on."""

from __future__ import annotations

import re

from amplint.regex import regex

_OFF = rb"(?:[Ff]alse|None|0|0\.0|\"\"|'')"
_KEPT_OFF = regex(rb"[ \t]*%s[ \t]*(?:[,)#]|$)" % _OFF)
_TYPED_OFF = regex(rb"[ \t]*(?:Optional\[)?\w[\w.]*\]?(?:[ \t]*\|[ \t]*None)?[ \t]*(?:=[ \t]*%s[ \t]*)?[,)]" % _OFF)
"""The annotation and the default of a parameter."""
_TESTED = regex(rb"[ \t]*(?:if|elif|while|for|with|lambda|except)\b")
"""The begin of a line whose colon is that of a statement."""
_LIBRARY_SWITCHES = {
    "gradient_checkpointing": regex(
        rb"\bgradient_checkpointing_enable\(|\benable_gradient_checkpointing\(|\bset_grad_checkpointing\("
        rb"|(?<!`config\.)gradient_checkpointing[\"']?[ \t]*[:=][ \t]*(?:[Tt]rue|\w+\.)|--gradient_checkpointing\b"
    )
}
"""What switches an attribute on that methods of a library set."""
_SUPPORTS = regex(rb"\b(?:_?supports|_set)_gradient_checkpointing\b")
"""What a class of Transformers says if its models can recompute: the library refuses to switch that on for others."""
_OWN = regex(rb"\bself\.gradient_checkpointing[ \t]*=[ \t]*False\b")


def setting(name: str) -> re.Pattern[bytes]:
    """What sets a setting: an assignment, a key, an option, or its name where it is not only read or passed on."""
    one, option = _words(name)
    passed = rb"[ \t]*%s\b|[^\n]*[\"']%s[\"']" % (one, one)
    assigned = rb"\b%s[\"']?[ \t]*\]?[ \t]*[:=](?!=|%s)|--(?:%s|%s)\b" % (one, passed, one, option)
    return re.compile(rb"%s|(?<!\.get\()(?<!, )(?<!,)[\"']%s[\"']" % (assigned, one))


def switches_on(name: str, text: bytes) -> bool:
    """Whether a text can switch on what a parameter or an attribute of this name leaves off.

    It is a value other than False and None, an option of a command line, or a key of a configuration; no default of a
    parameter, and no value that is passed on under the same name.
    """
    if name in _LIBRARY_SWITCHES:
        return _LIBRARY_SWITCHES[name].search(text) is not None
    one, option = _words(name)
    if re.search(rb"--(?:no[-_])?(?:%s|%s)\b" % (one, option), text):
        return True
    given = re.compile(rb"(?m)^([^\n]*?)(?<!\w)%s\b[\"']?[ \t]*\]?[ \t]*(:|=(?!=))([^\n]*)" % one)
    return any(_is_value(one, *found) for found in given.findall(text))


def is_refused(name: str, text: bytes) -> bool:
    """Whether a library refuses to switch on an attribute that the constructors of its models in a text set."""
    if name != "gradient_checkpointing" or b"PreTrainedModel" not in text:
        return False
    return _OWN.search(text) is not None and _SUPPORTS.search(text) is None


def _is_value(name: bytes, front: bytes, sign: bytes, value: bytes) -> bool:
    """Whether what is given under a name is neither a default, nor off, nor a setting of the same name."""
    if re.search(rb"\b%s\b" % name, value):
        rest = re.split(rb"[,)]", value, maxsplit=1)
        return not re.search(rb"\b%s\b" % name, rest[0]) and _is_value(name, front, sign, rest[0] + b",")
    if sign == b":" and (not value.strip() or _TESTED.match(front)):
        return False
    if sign == b":":
        return _TYPED_OFF.match(value) is None and b"#" not in front
    return _KEPT_OFF.match(value) is None and b"#" not in front


def _words(name: str) -> tuple[bytes, bytes]:
    """A name, and the spelling of its option, as patterns."""
    return re.escape(name.encode()), re.escape(name.encode().replace(b"_", b"-"))
