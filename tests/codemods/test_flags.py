"""`--add-flag`: where the option goes in scripts that take their options from click and typer."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Wish, convert
from tests.codemods.running import losses

PROGRAMS = Path(__file__).parent / "programs"

PROGRAM = """{imports}
import torch
from torch import nn

{before}
{decorators}
def main({parameters}):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x in [torch.ones(2, 4)]:
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    {run}
"""
OPTION = '@click.option("--amp/--no-amp", "use_amp", default=True, help="train in mixed precision")'
TYPER = 'use_amp: bool = typer.Option(True, "--amp/--no-amp", help="train in mixed precision")'


def program(imports: str, decorators: str, parameters: str, before: str = "", run: str = "main()") -> str:
    """A script with this command."""
    return PROGRAM.format(imports=imports, decorators=decorators, parameters=parameters, before=before, run=run)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            program("import click\n", '@click.command()\n@click.option("--lr", default=0.1)  # rate', "lr"),
            f'@click.command()\n@click.option("--lr", default=0.1)  # rate\n{OPTION}\ndef main(lr, use_amp):\n',
        ),
        (
            program("from click import command, option\n", '@command()\n@option(\n    "--lr"\n)', "lr: float"),
            f'@option(\n    "--lr"\n)\n{OPTION}\ndef main(lr: float, use_amp: bool):\n',
        ),
        (
            program(
                "import click\n",
                "@cli.command()\n@click.option('--lr')",
                "*, lr=0.1",
                "@click.group()\ndef cli(): pass",
            ),
            f"@click.option('--lr')\n{OPTION}\ndef main(*, lr=0.1, use_amp=True):\n",
        ),
        (
            program("import typer\n", "@app.command()", "\n    lr: float = 0.1,\n", "app = typer.Typer()", "app()"),
            f"def main(\n    lr: float = 0.1,\n    {TYPER},\n):\n",
        ),
        (program("import typer\n", "", "lr: float", run="typer.run(main)"), f"def main(lr: float, {TYPER}):\n"),
    ],
    ids=["click", "names", "group", "typer", "typer.run"],
)
def test_a_command_gets_the_option(text: str, expected: str) -> None:
    conversion = convert(text, Wish(to="amp", add_flag=True))
    assert conversion.refused == ()
    assert expected in conversion.text
    assert '    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)\n' in conversion.text
    assert "dtype=torch.float16, enabled=use_amp):\n" in conversion.text


@pytest.mark.parametrize(
    ("text", "row", "why"),
    [
        (program("import click\n", "@click.command()", "**options").replace("lr=lr", "lr=0.1"), 8, "together"),
        (
            program("import click\n", "@click.command()", "lr", "@click.command()\ndef other(a): pass"),
            9,
            "several commands",
        ),
        (program("import fire\n", "", "lr", run="fire.Fire(main)"), 1, "a command of click or typer"),
    ],
    ids=["together", "several", "fire"],
)
def test_a_command_that_cannot_get_it(text: str, row: int, why: str) -> None:
    conversion = convert(text, Wish(to="amp", add_flag=True))
    assert conversion.text == text
    assert [remark.row for remark in conversion.refused] == [row]
    assert why in conversion.refused[0].text


def test_the_arguments_have_to_be_there() -> None:
    text = """import argparse
import torch

net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
parser = argparse.ArgumentParser()
args = parser.parse_args()
for x in torch.ones(3, 4, 2):
    optimizer.zero_grad()
    loss = net(x).mean()
    loss.backward()
    optimizer.step()
"""
    conversion = convert(text, Wish(to="amp", add_flag=True))
    assert [(remark.row, remark.text) for remark in conversion.refused] == [
        (5, "the arguments of the script are not known yet here")
    ]


STEPS = 'parser.add_argument("--accumulation-steps", type=int, default=4, help="batches for each step")'


@pytest.mark.parametrize("to", [None, "amp"])
def test_the_number_of_batches_is_an_option(to: str | None) -> None:
    text = (PROGRAMS / "classify_argparse.py").read_text(encoding="utf-8")
    wish = Wish(to=to, accumulate=4, add_flag=True, device="cpu")
    conversion = convert(text, wish)
    assert conversion.refused == ()
    assert STEPS in conversion.text
    assert ("--amp" in conversion.text) is (to == "amp")
    assert " = 4\n" not in conversion.text
    assert convert(conversion.text, wish).text == conversion.text
    if to is None:
        fixed = convert(text, Wish(accumulate=4, device="cpu")).text
        assert losses(conversion.text) == losses(fixed)
        assert losses(conversion.text, "--accumulation-steps", "1") == losses(text)


def test_commands_take_it_as_well() -> None:
    decorated = program("import click\n", '@click.command()\n@click.option("--lr", default=0.1)', "lr")
    conversion = convert(decorated, Wish(accumulate=4, add_flag=True))
    assert conversion.refused == ()
    option = '@click.option("--accumulation-steps", "accumulation_steps", default=4, help="batches for each step")'
    assert f"{option}\ndef main(lr, accumulation_steps):\n" in conversion.text
    assert "accumulation_steps = " not in conversion.text
