"""Scripts whose training a framework runs are told its switch for mixed precision."""

from __future__ import annotations

import pytest

from amplint.codemods import Wish, convert

TRAINER = """from transformers import Trainer, TrainingArguments

arguments = TrainingArguments({given})
Trainer(model=build(), args=arguments).train()
"""
LIGHTNING = """import pytorch_lightning as pl

trainer = pl.Trainer({given})
trainer.fit(build())
"""
ACCELERATE = """from accelerate import Accelerator

accelerator = Accelerator({given})
model, optimizer = accelerator.prepare(*build())
for x in batches():
    optimizer.zero_grad()
    accelerator.backward(model(x).mean())
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "given", "float16", "bfloat16"),
    [
        (TRAINER, "output_dir='out'", "output_dir='out', fp16=True", "output_dir='out', bf16=True"),
        (LIGHTNING, "", 'precision="16-mixed"', 'precision="bf16-mixed"'),
        (ACCELERATE, "", 'mixed_precision="fp16"', 'mixed_precision="bf16"'),
    ],
    ids=["trainer", "lightning", "accelerate"],
)
def test_the_switch_is_set(text: str, given: str, float16: str, bfloat16: str) -> None:
    for dtype, expected in (("float16", float16), ("bfloat16", bfloat16)):
        conversion = convert(text.format(given=given), Wish(to="amp", dtype=dtype))
        assert conversion.refused == ()
        assert conversion.text == text.format(given=expected)
        assert [remark.row for remark in conversion.done] == [3]
        again = convert(conversion.text, Wish(to="amp", dtype=dtype))
        assert (again.text, again.done, again.refused) == (conversion.text, (), ())


@pytest.mark.parametrize(
    ("text", "given"),
    [(TRAINER, "bf16=args.bf16"), (LIGHTNING, "precision=32"), (ACCELERATE, "mixed_precision=args.precision")],
    ids=["trainer", "lightning", "accelerate"],
)
def test_what_is_switched_stays(text: str, given: str) -> None:
    conversion = convert(text.format(given=given), Wish(to="amp"))
    assert (conversion.text, conversion.done, conversion.refused) == (text.format(given=given), (), ())


def test_hidden_arguments_are_refused() -> None:
    conversion = convert(TRAINER.format(given="**settings"), Wish(to="amp"))
    assert [(one.row, one.text) for one in conversion.refused] == [
        (3, "this takes fp16=True, and ** hides what it is given")
    ]


def test_a_command_line_is_told() -> None:
    text = "from transformers import HfArgumentParser, Trainer\n\nparser = HfArgumentParser(Arguments)\n"
    (remark,) = convert(text, Wish(to="amp", dtype="bfloat16")).left
    assert (remark.row, remark.text.rpartition(": ")[2]) == (3, "run this with --bf16")
