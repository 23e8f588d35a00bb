"""Scripts whose training a framework runs are told its switch for mixed precision."""

from __future__ import annotations

from pathlib import Path

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
    [
        (TRAINER, "bf16=args.bf16"),
        (TRAINER, "fp16=False, bf16=True"),
        (LIGHTNING, 'precision="bf16-true"'),
        (ACCELERATE, "mixed_precision=args.precision"),
    ],
    ids=["trainer", "other", "lightning", "accelerate"],
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


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        (TRAINER, "fp16=False", "fp16=True"),
        (LIGHTNING, "precision=32", 'precision="16-mixed"'),
        (LIGHTNING, 'precision="32-true"', 'precision="16-mixed"'),
        (ACCELERATE, 'mixed_precision="no"', 'mixed_precision="fp16"'),
    ],
    ids=["trainer", "number", "lightning", "accelerate"],
)
def test_what_is_switched_off_is_switched_on(text: str, given: str, expected: str) -> None:
    conversion = convert(text.format(given=given), Wish(to="amp"))
    assert (conversion.text, conversion.refused) == (text.format(given=expected), ())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ('{"output_dir": "out"}', '{"output_dir": "out", "fp16": True}'),
        ('{\n    "output_dir": "out",\n}', '{\n    "output_dir": "out",\n    "fp16": True,\n}'),
        ('{"fp16": False, "seed": 1}', '{"fp16": True, "seed": 1}'),
        ('dict(output_dir="out")', 'dict(output_dir="out", fp16=True)'),
        ('{"bf16": True}', '{"bf16": True}'),
        ("{**others}", None),
        ("load()", None),
    ],
)
def test_keywords_can_come_from_a_dictionary(settings: str, expected: str | None) -> None:
    text = TRAINER.format(given="**settings").replace("\narguments", "\nsettings = {}\narguments")
    conversion = convert(text.replace("{}", settings), Wish(to="amp"))
    assert conversion.text == text.replace("{}", expected if expected is not None else settings)
    assert bool(conversion.refused) is (expected is None)
    assert convert(conversion.text, Wish(to="amp")).text == conversion.text


def test_a_default_of_settings_is_changed() -> None:
    text = f"""import dataclasses


@dataclasses.dataclass
class Settings:
    epochs: int = 3
    precision: str = "32"


settings = Settings()
{LIGHTNING.format(given="precision=settings.precision")}"""
    conversion = convert(text, Wish(to="amp", dtype="bfloat16"))
    assert conversion.text == text.replace('"32"', '"bf16-mixed"')
    assert [remark.row for remark in conversion.done] == [7]
    again = convert(conversion.text, Wish(to="amp", dtype="bfloat16"))
    assert (again.text, again.done, again.left) == (conversion.text, (), ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TRAINER.format(given="fp16=args.half"), "args.half decides on mixed precision here: give it True"),
        (
            "from transformers import Trainer\n\nTrainer(build(), settings()).train()\n",
            "the Trainer brings mixed precision of its own: its arguments take fp16=True",
        ),
        (
            "import lightning as L\n\n\nclass Model(L.LightningModule):\n    pass\n",
            'Lightning brings mixed precision of its own: its Trainer takes precision="16-mixed"',
        ),
        (
            "from lightning.pytorch.cli import LightningCLI\n\nLightningCLI(build)\n",
            "Lightning brings mixed precision of its own: run this with --trainer.precision 16-mixed",
        ),
    ],
    ids=["options", "trainer", "module", "command"],
)
def test_who_has_to_switch_it_on_is_told(text: str, told: str) -> None:
    conversion = convert(text, Wish(to="amp"))
    assert (conversion.text, conversion.refused) == (text, ())
    assert [remark.text for remark in conversion.left] == [told]


def test_the_files_of_launchers_are_named(tmp_path: Path) -> None:
    launched = tmp_path / "default_config.yaml"
    launched.write_text("compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\nmixed_precision: 'no'\n")
    path = str(tmp_path / "train.py")
    text = ACCELERATE.format(given="")
    conversion = convert(text, Wish(to="amp"), path)
    assert 'mixed_precision="fp16"' in conversion.text
    assert [one.text for one in conversion.left] == ["default_config.yaml says no, and what the script says counts"]
    launched.write_text(launched.read_text().replace("'no'", "bf16"))
    assert convert(text, Wish(to="amp"), path).text == text
