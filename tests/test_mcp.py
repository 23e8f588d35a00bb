"""The server for agents, asked by the SDK's own client: in memory, and over the streams of a real process."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from amplint.agents import answers, runs
from amplint.agents.server import server
from amplint.agents.workspace import Workspace
from amplint.codemods.registry import GOALS, SOURCES
from amplint.engine.registry import load_registry
from tests.conftest import Command
from tests.test_cli import BAD, GOOD
from tests.test_docs import code_blocks

ROOT = Path(__file__).parents[1]

LONGEST = 3 * answers.LONGEST
"""Characters of the longest answer: one long part, and two short ones."""

FLOAT32 = """import torch


def train(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs.cuda()), targets.cuda())
            loss.backward()
            optimizer.step()
"""

RUNNABLE = """import sys
import torch

model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(torch.randn(2, 4, device="cuda")).float().mean()
    loss.backward()
    optimizer.step()
print("arguments:", *sys.argv[1:])
"""


def ask(questions: Callable[[Client], Awaitable[None]], *, allow_run: bool = False) -> None:
    """Put `questions` to a server for the current folder."""

    async def run() -> None:
        made = server(Workspace(Path.cwd(), load_registry()), allow_run=allow_run)
        async with Client(made) as client:
            await questions(client)

    anyio.run(run)


def answer(name: str, *, allow_run: bool = False, **arguments: Any) -> dict[str, Any]:
    """What the tool `name` answers, which is no error, follows the tool's schema, and is not too long."""
    found: list[dict[str, Any]] = []

    async def questions(client: Client) -> None:
        (tool,) = (tool for tool in (await client.list_tools()).tools if tool.name == name)
        result = await client.call_tool(name, arguments)
        (content,) = result.content
        assert not result.is_error, content
        assert json.loads(content.text) == result.structured_content
        assert len(content.text) <= LONGEST
        jsonschema.validate(result.structured_content, tool.output_schema)
        found.append(result.structured_content)

    ask(questions, allow_run=allow_run)
    return found[0]


def refusal(name: str, *, allow_run: bool = False, **arguments: Any) -> str:
    """The one line of the error that the tool `name` answers with."""
    found: list[str] = []

    async def questions(client: Client) -> None:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        (content,) = result.content
        found.append(content.text)

    ask(questions, allow_run=allow_run)
    assert "Traceback" not in found[0]
    return found[0]


@pytest.fixture
def script(project: Path) -> Path:
    """A script with one finding, which has a safe fix."""
    path = project / "train.py"
    path.write_text(BAD, encoding="utf-8")
    return path


def test_agents_can_ask_for_every_codemod(project: Path) -> None:
    async def questions(client: Client) -> None:
        (tool,) = (tool for tool in (await client.list_tools()).tools if tool.name == "convert")
        for name, known in (("to", GOALS), ("source_api", SOURCES)):
            taken = tool.input_schema["properties"][name]["anyOf"][0]["enum"]
            assert set(taken) == set(known), f"the type of `{name}` of the tool `convert` in amplint/agents/server.py"

    ask(questions)


def test_tools_say_what_they_do(project: Path) -> None:
    async def questions(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"check", "explain_rule", "explain_finding", "fix", "convert"}
        for tool in tools.values():
            assert tool.description
            assert tool.output_schema
        reading = {name for name, tool in tools.items() if tool.annotations.read_only_hint}
        assert reading == {"check", "explain_rule", "explain_finding"}
        assert all(tools[name].annotations.destructive_hint for name in ("fix", "convert"))
        assert not any(tool.annotations.open_world_hint for tool in tools.values())
        assert "No tool runs the code" in (client.instructions or "")

    ask(questions)


def test_what_runs_scripts_is_there_only_where_it_is_allowed(script: Path) -> None:
    async def questions(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for name in ("trace", "memory"):
            assert tools[name].description.startswith("RUN the script")
            assert tools[name].annotations.open_world_hint
            assert tools[name].annotations.destructive_hint
            assert not tools[name].annotations.read_only_hint
        assert "trace and memory RUN the script" in (client.instructions or "")

    ask(questions, allow_run=True)
    assert "trace" in refusal("trace", path="train.py")
    assert "memory" in refusal("memory", path="train.py")


def test_check_and_explain(script: Path) -> None:
    checked = answer("check")
    assert (checked["files"], checked["total"], checked["left_out"], checked["truncated"]) == (1, 1, {}, False)
    (finding,) = checked["findings"]
    assert (finding["path"], finding["row"], finding["column"], finding["rule"]) == ("train.py", 11, 9, "AMP205")
    assert (finding["severity"], finding["fix"]) == ("error", "safe")

    evidence = answer("explain_finding", path="train.py", id=finding["id"])
    assert evidence["finding"] == finding
    assert [(step["row"], step["code"].strip()) for step in evidence["steps"]] == [
        (10, "scaler.scale(loss).backward()")
    ]
    assert [line["row"] for line in evidence["source"]] == [8, 9, 10, 11, 12, 13]
    assert evidence["reason"]
    (edit,) = evidence["replacements"]
    lines = BAD.splitlines(keepends=True)
    assert (edit["row"], edit["column"], edit["end_row"], edit["end_column"]) == (11, 1, 11, 1)
    assert "".join([*lines[:10], edit["text"], *lines[10:]]) == GOOD

    script.write_text(f"# one more line\n{BAD}", encoding="utf-8")
    assert answer("explain_finding", path="train.py", id=finding["id"])["finding"]["row"] == 12
    assert "no finding has the id" in refusal("explain_finding", path="train.py", id="0123456789ab")


def test_selection(script: Path) -> None:
    assert answer("check", codes=["AMP201"])["total"] == 0
    assert answer("check", codes=["clip-without-unscale"], min_severity="error")["total"] == 1
    assert "did you mean" in refusal("check", codes=["clip-without-unscaling"])
    (script.parent / "amplint.toml").write_text('ignore = ["AMP205"]\n', encoding="utf-8")
    assert answer("check")["total"] == 0
    (script.parent / "amplint.toml").write_text("ignore = 3\n", encoding="utf-8")
    assert "ignore" in refusal("check")


def test_the_page_of_a_rule(project: Path) -> None:
    page = answer("explain_rule", rule="clip-without-unscale")
    assert page["code"] == "AMP205"
    assert "## Why is this bad?" in page["page"]
    assert 'did you mean "AMP205"?' in refusal("explain_rule", rule="AMP2055")


def test_fix_shows_and_writes_when_asked(script: Path) -> None:
    shown = answer("fix", path="train.py")
    assert (shown["changed"], shown["written"], shown["fixes"], shown["left"]) == (True, False, 1, 0)
    assert "+        scaler.unscale_(optimizer)\n" in shown["diff"]
    assert answer("fix", path="train.py", text=True)["text"] == GOOD
    assert script.read_text(encoding="utf-8") == BAD
    assert not answer("fix", path="train.py", codes=["AMP1"], write=True)["written"]
    assert answer("fix", path="train.py", write=True)["written"]
    assert script.read_text(encoding="utf-8") == GOOD
    again = answer("fix", path="train.py", write=True)
    assert (again["changed"], again["written"], again["diff"], again["text"]) == (False, False, "", None)


def test_unsafe_fixes_are_made_when_asked(script: Path) -> None:
    bad = ROOT / "fixtures" / "AMP403-infinity-in-half" / "bad_times_mask.py"
    script.write_bytes(bad.read_bytes())
    (finding,) = answer("check")["findings"]
    assert (finding["rule"], finding["fix"]) == ("AMP403", "unsafe")
    assert not answer("fix", path="train.py")["changed"]
    assert answer("fix", path="train.py", unsafe=True)["changed"]


def test_convert_shows_and_writes_when_asked(project: Path) -> None:
    script = project / "train.py"
    script.write_text(FLOAT32, encoding="utf-8")
    shown = answer("convert", path="train.py", to="amp")
    assert shown["changed"]
    assert not shown["written"]
    assert "torch.autocast" in shown["diff"]
    assert shown["done"]
    assert script.read_text(encoding="utf-8") == FLOAT32
    assert answer("convert", path="train.py", to="amp", write=True)["written"]
    assert "torch.autocast" in script.read_text(encoding="utf-8")
    assert "no codemod" in refusal("convert", path="train.py")
    assert "to" in refusal("convert", path="train.py", to="fp8")


@pytest.mark.parametrize("path", ["../outside.py", "/etc/hostname", "link.py", "folder/outside.py", "a\0b"])
@pytest.mark.parametrize("tool", ["check", "explain_finding", "fix", "convert", "trace", "memory"])
def test_nothing_outside_of_the_root_is_opened(project: Path, tool: str, path: str) -> None:
    outside = project.parent / "outside.py"
    outside.write_text(BAD, encoding="utf-8")
    (project / "link.py").symlink_to(outside)
    (project / "folder").symlink_to(project.parent, target_is_directory=True)
    arguments: dict[str, dict[str, Any]] = {
        "check": {"paths": [path]},
        "explain_finding": {"path": path, "id": "0123456789ab"},
        "fix": {"path": path, "write": True},
        "convert": {"path": path, "source_api": "cuda-amp", "write": True},
        "trace": {"path": path},
        "memory": {"path": path},
    }
    said = refusal(tool, allow_run=True, **arguments[tool])
    assert "outside of the folder" in said or "NUL" in said
    assert outside.read_text(encoding="utf-8") == BAD


def test_links_out_of_the_root_are_left_out_of_folders(project: Path) -> None:
    outside = project.parent / "outside.py"
    outside.write_text(BAD, encoding="utf-8")
    (project / "link.py").symlink_to(outside)
    (project / "own.py").write_text(GOOD, encoding="utf-8")
    (project / "same.py").symlink_to(project / "own.py")
    checked = answer("check")
    assert (checked["files"], checked["total"]) == (1, 0)


def test_code_outside_of_the_root_is_not_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "steps.py").write_text("def back(scaler, loss):\n    scaler.scale(loss).backward()\n", encoding="utf-8")
    inner = project / "inner"
    inner.mkdir()
    (inner / "train.py").write_text(
        "from steps import back\n" + BAD.replace("scaler.scale(loss).backward()", "back(scaler, loss)"),
        encoding="utf-8",
    )
    (inner / "steps.py").symlink_to(project / "steps.py")
    monkeypatch.chdir(inner)
    (finding,) = answer("check")["findings"]
    evidence = answer("explain_finding", path="train.py", id=finding["id"])
    assert [step["code"] for step in evidence["steps"] if "steps.py" in step["path"]] == [""]


@pytest.mark.parametrize("path", ["gone.py", "."])
def test_what_is_no_file(project: Path, path: str) -> None:
    assert refusal("fix", path=path).startswith("Error executing tool fix: ")


def test_any_bytes_have_an_answer(project: Path) -> None:
    hostile = "\x1b[31m\u202e::set-output name=x::y ##vso[task.complete]"
    for number, content in enumerate([b"\x00", b"\xff\xfe", b"def f(:\n", f"x = 1  # {hostile}".encode(), b""]):
        (project / f"file{number}.py").write_bytes(content)
    (project / "bad\x1b[2J\udce9.py").write_bytes(BAD.encode())
    checked = answer("check")
    assert checked["total"] == 4
    assert "\x1b" not in json.dumps(checked, ensure_ascii=False)
    for number in range(5):
        for tool, arguments in (("fix", {}), ("convert", {"to": "amp"})):
            ask(lambda client, tool=tool, n=number, more=arguments: _called(client, tool, f"file{n}.py", more))


async def _called(client: Client, tool: str, path: str, more: dict[str, Any]) -> None:
    result = await client.call_tool(tool, {"path": path, **more})
    assert "please report" not in result.content[0].text


def test_a_crash_is_an_error_of_one_line(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr("amplint.agents.tools.check", broken)
    assert refusal("check").endswith("amplint failed, please report it: RuntimeError: first")


def test_long_answers_are_cut_and_say_so(project: Path) -> None:
    body = BAD.partition("def train")[2]
    text = "import torch\n\n\n" + "\n\n".join(f"def train{number}{body}" for number in range(60))
    (project / "train.py").write_text(text, encoding="utf-8")
    checked = answer("check")
    assert checked["truncated"]
    assert checked["total"] == 60
    assert checked["left_out"] == {"AMP205": 60 - len(checked["findings"])}
    fixed = answer("fix", path="train.py")
    assert fixed["truncated"]
    assert fixed["diff"].endswith("\n")
    assert fixed["fixes"] == 60
    assert answer("fix", path="train.py", text=True)["text"] is None


@pytest.mark.parametrize("text", ["", "a\n" * 9, "é\n" * 20_000, "x" * 20_000, "\\" * 20_000])
def test_cutting(text: str) -> None:
    part = answers.cut(text)
    assert text.startswith(part)
    assert len(json.dumps(part, ensure_ascii=False)) <= answers.LONGEST
    assert part == text or len(json.dumps(part)) > answers.LONGEST - 10


@pytest.mark.slow
def test_a_dry_run(project: Path) -> None:
    (project / "-x.py").write_text(RUNNABLE, encoding="utf-8")
    traced = answer("trace", allow_run=True, path="-x.py", arguments=["--steps", "2"], steps=5)
    assert traced["ended"] == "exit status 0", traced
    assert traced["recorded"]
    assert "arguments: --steps 2" in traced["output"]
    assert "bfloat16" in traced["summary"]


@pytest.mark.slow
def test_estimates_of_memory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one variant, for the sake of time."""
    first = "import importlib; m = importlib.import_module('amplint.cli.memory'); v = m.variants\n"
    only = f"{first}m.variants = lambda number: v(number)[:1]\nmain()"
    monkeypatch.setattr(runs, "_CHILD", runs._CHILD.replace("main()", only))
    (project / "train.py").write_text(RUNNABLE, encoding="utf-8")
    told = answer("memory", allow_run=True, path="train.py")
    assert told["ended"] == "exit status 0", told
    first = told["variants"][0]
    assert (first["variant"], first["path"]) == ("as it is", "train.py")
    assert first["total"] == sum(first["kinds"].values()) > 0


def test_a_run_is_ended_with_all_it_started(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "train.py").write_text(
        "import subprocess, sys, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('child').write_text(str(child.pid))\n"
        "print('started', flush=True)\n"
        "child.wait()\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(runs, "_CHILD", "import runpy, sys; runpy.run_path(sys.argv[-1])")
    traced = answer("trace", allow_run=True, path="train.py", seconds=2)
    assert traced["ended"] == "it was ended after 2 seconds"
    assert (traced["recorded"], traced["output"]) == (False, "started")
    child = int((project / "child").read_text(encoding="utf-8"))
    state = Path(f"/proc/{child}/stat")
    assert not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"


def test_a_run_that_fails_says_why(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "train.py").write_text("raise ValueError('no \\x1b[31m')\n", encoding="utf-8")
    monkeypatch.setattr(runs, "_CHILD", "import runpy, sys; runpy.run_path(sys.argv[-1])")
    for tool in ("trace", "memory"):
        told = answer(tool, allow_run=True, path="train.py")
        assert told["ended"] == "exit status 1"
        assert told["output"].endswith("ValueError: no \\x1b[31m")


def test_over_the_streams_of_a_process(script: Path, tmp_path: Path) -> None:
    """As a host starts it: from another folder, with the root on the command line."""
    program = "from amplint.__main__ import main; main()"
    log = tmp_path / "log"

    async def run() -> None:
        arguments = ["-c", program, "mcp", str(script.parent)]
        environment = {"XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]}
        parameters = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=str(tmp_path))
        with log.open("w", encoding="utf-8") as errors:
            async with Client(stdio_client(parameters, errlog=errors)) as client:
                assert client.server_info.name == "amplint"
                result = await client.call_tool("check", {})
                assert result.structured_content["findings"][0]["rule"] == "AMP205"
                assert (await client.call_tool("fix", {"path": "../x.py"})).is_error
                assert (await client.call_tool("fix", {"path": "train.py", "write": True})).structured_content[
                    "written"
                ]

    anyio.run(run)
    assert script.read_text(encoding="utf-8") == GOOD
    assert log.read_text(encoding="utf-8") == ""


def test_the_page_about_agents(project: Path, amplint: Command) -> None:
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    host, finding = (json.loads(block) for block in code_blocks(page, "json"))
    (entry,) = host["mcpServers"].values()
    assert (entry["command"], entry["args"][0]) == ("amplint", "mcp")
    assert answers.FindingLine(**finding, message="").model_dump().items() >= finding.items()
    told: list[str] = []

    async def questions(client: Client) -> None:
        told.extend(tool.name for tool in (await client.list_tools()).tools)

    ask(questions, allow_run=True)
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(told)
    assert "--allow-run" in amplint("mcp", "--help").out


def test_the_extra_is_named_where_it_is_missing(
    amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ran = amplint("mcp")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == 'Error: amplint mcp needs the MCP SDK: pip install "amplint[mcp]"\n'


def test_a_root_that_does_not_exist(amplint: Command, project: Path) -> None:
    assert amplint("mcp", "gone").status == 2
