"""Shapes of training files that were refused, or converted less well than a person would."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert, outputs

RUNNERS = """
    import torch


    class Runner:
        def __init__(self, model, optimizer=None):
            self.model = model
            self.optimizer = optimizer


    class {derived}:
        def train_epoch(self, loader):
            for x in loader:
                loss = self.model(x.cuda()).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
"""
SAVED = """
    import torch
    from torch import nn


    def save(model, optimizer, path):
        optimizer_state = optimizer.state_dict()
        torch.save({"model": model.state_dict(), "optimizer": optimizer_state}, path)


    def load(model, optimizer, path):
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])


    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    load(model, optimizer, "last.pt")
    for x in [torch.ones(2, 4).cuda()]:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    save(model, optimizer, "last.pt")
"""
REUSED = """
    import torch
    from torch import nn
    from datasets import splits

    train, test = splits()
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


    def train():
        for x in test:
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


    train()
"""
CONFIGURED = """
    import torch


    class Trainer:
        def __init__(self, model, config):
            self.model, self.config = model, config

        def train(self, loader):
            model = self.model.cuda()
            optimizer = model.configure_optimizers(self.config)

            def epoch():
                for x in loader:
                    loss = model(x.cuda()).mean()
                    model.zero_grad()
                    loss.backward()
                    optimizer.step()
                    for group in optimizer.param_groups:
                        group["lr"] *= 0.99

            epoch()
"""


def _converted(text: str, dtype: str = "float16") -> Conversion:
    conversion = convert(textwrap.dedent(text).lstrip(), Wish(to="amp", dtype=dtype))
    assert conversion.refused == ()
    return conversion


def test_a_scaler_stands_beside_the_optimizer_of_a_base_class() -> None:
    text = _converted(RUNNERS.format(derived="Trained(Runner)")).text
    assert "        self.optimizer = optimizer\n        self.scaler = torch.amp.GradScaler" in text
    assert "self.scaler.scale(loss).backward()" in text


def test_without_a_base_in_the_file_no_scaler_is_made_anywhere() -> None:
    text = textwrap.dedent(RUNNERS.format(derived="Trained(Other)")).lstrip()
    conversion = convert(text, Wish(to="amp"))
    assert conversion.text == text
    assert ["is not made in one method" in one.text for one in conversion.refused] == [True]


def test_one_scaler_is_made_where_an_optimizer_stands_in_a_branch_and_another_below() -> None:
    text = """
        import torch
        from torch import nn


        class Agent:
            def __init__(self, decodes):
                self.net, self.decoder = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
                if decodes:
                    self.second = torch.optim.Adam(self.decoder.parameters())
                self.first = torch.optim.Adam(self.net.parameters())

            def update(self, x):
                loss = self.net(x).pow(2).mean()
                self.first.zero_grad()
                loss.backward()
                self.first.step()

            def decode(self, x):
                loss = self.decoder(x).pow(2).mean()
                self.second.zero_grad()
                loss.backward()
                self.second.step()
    """
    text = _converted(text).text
    assert text.count("GradScaler(") == 1
    assert "        self.scaler = torch.amp.GradScaler" in text
    assert "            self.scaler = torch.amp.GradScaler" not in text


def test_a_checkpoint_may_get_the_state_of_its_optimizer_by_a_variable() -> None:
    conversion = _converted(SAVED)
    assert '"optimizer": optimizer_state, "scaler": scaler.state_dict()}' in conversion.text
    assert 'scaler.load_state_dict(checkpoint["scaler"])' in conversion.text
    assert not any("AMP211" in one.text for one in conversion.left)


def test_a_function_may_go_by_a_name_that_was_a_variable_before() -> None:
    assert "scaler.scale(loss).backward()" in _converted(REUSED).text


def test_what_has_groups_of_parameters_is_an_optimizer() -> None:
    text = _converted(CONFIGURED).text
    assert "optimizer = model.configure_optimizers(self.config)\n        scaler = torch.amp.GradScaler" in text
    assert "scaler.step(optimizer)" in text


@pytest.mark.parametrize(
    ("first", "converts"),
    [
        ("from mmcv import Config", True),
        ("import mmcv", True),
        ("from mmcv.runner import OptimizerHook", False),
        ("from mmcv import Config, runner", False),
        ("from mmengine.config import Config", True),
        ("from mmengine.runner import Runner", False),
    ],
)
def test_files_of_settings_are_no_framework(first: str, converts: bool) -> None:
    text = f"{first}\n{textwrap.dedent(REUSED).lstrip()}"
    assert (convert(text, Wish(to="amp")).refused == ()) is converts


EVALUATED = """
    import torch
    from torch import nn

    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in [torch.ones(2, 4).cuda()]:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        y = torch.ones(2, 4).cuda()
        if len(y) > 1:
            out = model(y)
        {second}
            {body}
    print(out)
"""


@pytest.mark.parametrize(
    ("second", "body"),
    [("else:", "out = model(y[:1])"), ("elif len(y):", "out = model(y[:1])"), ("else:", "out = y")],
)
def test_branches_that_run_the_model_have_regions(second: str, body: str) -> None:
    text = _converted(EVALUATED.format(second=second, body=body)).text
    header = 'with torch.autocast(device_type="cuda", dtype=torch.float16):'
    assert [f"        {header}\n            out = model(y{which}).float()\n" in text for which in ("", "[:1]")] == [
        True,
        body != "out = y",
    ]


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ("nn.parallel.data_parallel(model, x)", True),
        ("nn.DataParallel(model)(x)", True),
        ("model(x) if not isinstance(model, nn.DataParallel) else None", False),
    ],
)
def test_replicas_in_threads_are_named_however_they_are_made(run: str, told: bool) -> None:
    text = f"""
        import torch
        from torch import nn

        model = nn.Linear(4, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in [torch.ones(2, 4).cuda()]:
            loss = {run}.pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    left = _converted(text.replace(f"{run}.pow", f"({run}).pow"), "bfloat16").left
    assert any("with several GPUs" in one.text for one in left) is told


@pytest.mark.parametrize("first", ["import torch as t, os", "import os, torch as t", "import torch as t  # tensors"])
def test_the_alias_of_pytorch_is_used_whatever_else_is_imported_beside_it(first: str) -> None:
    text = textwrap.dedent(REUSED).lstrip().replace("import torch\n", f"{first}\n").replace("torch.optim", "t.optim")
    conversion = _converted(text)
    assert "with t.autocast(" in conversion.text
    assert "import torch\n" not in conversion.text


WARMED = """
    import torch
    from torch import nn
    from schedule import make


    def main(first):
        model = nn.Linear(4, 1).cuda()
        if first:
            optimizer = make(model, 0.1)
        else:
            optimizer = make(model, 0.2)
        params = list(model.named_parameters())
        for x in [torch.ones(2, 4).cuda()]:
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            print(params[0][1].grad.norm())
            optimizer.step()
"""
SCHEDULE = """
    import torch


    class Warm:
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def zero_grad(self):
            self.optimizer.zero_grad()

        def step(self):
            self.optimizer.step()


    def make(model, rate):
        optimizer = {made}(torch.optim.Adam(model.parameters(), lr=rate))
        return optimizer
"""


@pytest.mark.parametrize(("made", "steps"), [("Warm", False), ("", True)])
def test_an_optimizer_may_come_of_a_function_of_another_file(tmp_path: Path, made: str, steps: bool) -> None:
    (tmp_path / "schedule.py").write_text(textwrap.dedent(SCHEDULE.format(made=made)), encoding="utf-8")
    text = textwrap.dedent(WARMED).lstrip()
    conversion = convert(text, Wish(to="amp"), str(tmp_path / "train.py"))
    assert [one.text for one in conversion.refused] == ([] if steps else ["an optimizer steps in another file"])
    unscaled = "        scaler.unscale_(optimizer)\n        print(params[0][1].grad.norm())"
    assert (unscaled in conversion.text) is steps


def test_the_scaler_stands_above_the_loop_that_makes_an_optimizer_anew() -> None:
    text = """
        import torch
        from torch import nn

        model = nn.Linear(4, 1).cuda()


        def train():
            for x in [torch.ones(2, 4).cuda()]:
                loss = model(x).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()


        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            train()
            if epoch == 1:
                optimizer = torch.optim.ASGD(model.parameters(), lr=0.1)
    """
    text = _converted(text).text
    assert 'lr=0.1)\nscaler = torch.amp.GradScaler("cuda")\nfor epoch' in text
    assert text.count("GradScaler(") == 1


UNDONE = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            h = self.layer(x){cast}
            return torch.bmm(h, h.transpose(1, 2))


    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in [torch.ones(2, 3, 4).cuda()]:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("cast", "undone"), [(".float()", True), ("", False)])
def test_casts_that_autocast_undoes_count_against_a_conversion(cast: str, undone: bool) -> None:
    run = outputs.found(textwrap.dedent(UNDONE.format(cast=cast)), "")
    names = {one.name for one in (*run.findings, *run.assumed)}
    assert ("disabled-region-keeps-half" in names) is undone


@pytest.mark.parametrize("values", ["[out, x]", "[x, out.float()]", "[x, out.argmax(1)]"])
def test_a_lambda_that_map_calls_gets_the_values_of_its_lists(values: str) -> None:
    text = f"""
        import torch


        def train(model, loader, kept):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                out = model(x.cuda())
                loss = out.pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                list(map(lambda one, into: into.append(one.detach().cpu().numpy()), {values}, kept))
    """
    converted = _converted(text, "bfloat16")
    assert "out = model(x.cuda()).float()" in converted.text
    assert "into.append(one.detach().cpu().numpy())" in converted.text
    assert converted.left == ()


ENDLESS = """
    import torch
    from torch import nn


    def train(dataset, device):
        model = nn.Linear(4, 4).to(device)
        optimizer = torch.optim.AdamW(model.parameters())

        def batches():
            rest = iter(dataset)
            while True:
                try:
                    x = next(rest)
                except StopIteration:
                    rest = iter(dataset)
                    x = next(rest)
                yield x.to(device)

        endless = batches()
        for _ in range(10):
            optimizer.zero_grad()
            x = next(endless)
            (model(x) - x).abs().mean().backward()
            optimizer.step()


    train([torch.ones(2, 4)], "cuda")
"""
UPDATES = """
    import torch
    from ignite.engine import Engine
    from torch import nn


    def updating(model, optimizer):
        def update(engine, batch):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch), batch)
            loss.backward()
            optimizer.step()
            return loss.item()

        return update


    def predicting(engine, batch):
        with torch.no_grad():
            predicted = net(batch)
        return predicted, batch


    net = nn.Linear(4, 4).cuda()
    Engine(predicting).run([torch.ones(2, 4).cuda()])
"""
STRATEGY = """
    import torch


    class Trainer:
        def __init__(self, strategy):
            self.strategy = strategy

        def train(self, student, loader):
            student.model.cuda().train()
            optimizer = self.optimizer_of(student)
            for batch in loader:
                loss, parts = self.strategy.compute(batch, student)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

        def optimizer_of(self, student):
            return torch.optim.AdamW(student.model.parameters())
"""


def test_a_generator_that_never_ends_rests_at_its_yield() -> None:
    assert "scaler.scale(loss).backward()" in _converted(ENDLESS).text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_updates_for_an_engine_of_ignite_are_a_loop_like_any_other(dtype: str) -> None:
    text = _converted(UPDATES, dtype).text
    assert ('\n    scaler = torch.amp.GradScaler("cuda")\n    def update' in text) is (dtype == "float16")
    assert "predicted = net(batch).float()" in text


def test_a_loss_may_come_of_an_object_that_holds_the_model() -> None:
    conversion = _converted(STRATEGY)
    assert "        loss, parts = self.strategy.compute(batch, student)\n" in conversion.text
    assert ["out of sight" in one.text for one in conversion.left] == [True]


def test_the_only_step_behind_a_backward_pass_is_of_the_optimizer() -> None:
    text = """
        def train(models, optimizers, loader):
            models["net"].train()
            for x in loader:
                loss = models["net"](x.cuda()).mean()
                models["net"].zero_grad()
                loss.backward()
                optimizers["net"].step()
    """
    assert 'scaler.step(optimizers["net"])' in _converted(text).text
    other = textwrap.dedent(text.replace('optimizers["net"].step', "schedulers.step")).lstrip()
    assert ["no step of an optimizer" in one.text for one in convert(other, Wish(to="amp")).refused] == [True]


def test_clipping_in_a_step_that_is_made_elsewhere_needs_no_unscaling(tmp_path: Path) -> None:
    made = """
        import torch


        def build(params):
            def clip_and_step(self):
                torch.nn.utils.clip_grad_norm_(params, 1.0)
                super(type(self), self).step()

            return type("Clipped", (torch.optim.SGD,), {"step": clip_and_step})(params, lr=0.1)
    """
    text = """
        import torch
        from torch import nn
        from made import build

        model = nn.Linear(4, 1).cuda()
        optimizer = build(list(model.parameters()))
        for x in [torch.ones(2, 4).cuda()]:
            loss = model(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    (tmp_path / "made.py").write_text(textwrap.dedent(made))
    conversion = convert(textwrap.dedent(text), Wish(to="amp"), str(tmp_path / "train.py"))
    assert conversion.refused == ()
    assert "unscale_" not in conversion.text


def test_the_scaler_is_restored_where_keywords_name_what_is(tmp_path: Path) -> None:
    helper = """
        import torch


        def restart(path, **parts):
            checkpoint = torch.load(path)
            for key, value in parts.items():
                if key in checkpoint:
                    value.load_state_dict(checkpoint[key])
    """
    text = textwrap.dedent(SAVED).lstrip()
    begin, end = text.index("def load("), text.index("model = nn.Linear")
    text = text[:begin] + "from helper import restart\n\n" + text[end:]
    text = text.replace('load(model, optimizer, "last.pt")', 'restart("last.pt", model=model, optimizer=optimizer)')
    (tmp_path / "helper.py").write_text(textwrap.dedent(helper))
    conversion = convert(text, Wish(to="amp"), str(tmp_path / "train.py"))
    assert conversion.refused == ()
    assert 'restart("last.pt", model=model, optimizer=optimizer, scaler=scaler)' in conversion.text
    assert '"scaler": scaler.state_dict()' in conversion.text


def test_what_another_function_hands_on_is_float32() -> None:
    text = """
        import torch
        from torch import nn


        def order(y):
            return y[:, [1, 0]] if isinstance(y, torch.Tensor) else y


        def step(model, x):
            out = model(x)
            out = out[:, :2]
            out = order(out)
            return out, out.mean()


        model = nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in [torch.ones(2, 4).cuda()]:
            _, loss = step(model, x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    assert "out = model(x).float()" in _converted(text).text


def test_positions_that_are_sampled_at_are_float32() -> None:
    text = """
        import torch
        from torch import nn

        model = nn.Conv2d(3, 2, 3, padding=1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in [torch.ones(2, 3, 8, 8).cuda()]:
            flow = model(x)
            warped = nn.functional.grid_sample(x, flow{cast}.permute(0, 2, 3, 1))
            loss = (warped - x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    for cast in ("", ".float()"):
        conversion = _converted(text.replace("{cast}", cast))
        assert ("flow = model(x).float()" in conversion.text, conversion.left) == (not cast, ())


def test_a_method_of_a_parameter_may_give_the_loss() -> None:
    text = """
        def train(diffusion, optimizer, loader):
            for x in loader:
                x = x.cuda()
                loss = diffusion.get_loss(x, 3)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """
    assert "with torch.autocast" in _converted(text).text


def test_a_constructor_that_gets_the_model_runs_nothing() -> None:
    text = """
        import torch
        from training import Trainer


        def search(trainer):
            trainer.model.train()
            for batch in trainer.loader:
                trainer.optimizer.zero_grad()
                loss = trainer.outputs(batch, True)["loss"]
                loss.backward()
                trainer.optimizer.step()


        def main(model):
            model.train()
            trainer = Trainer.from_params(model=model)
            search(trainer)
    """
    text = _converted(text, "bfloat16").text
    assert text.count("autocast") == 1
    assert "            loss = trainer.outputs" in text


def test_models_may_belong_to_a_base_class_in_another_file(tmp_path: Path) -> None:
    base = """
        class Base:
            def __init__(self, net, opt):
                self.net, self.opt = net, opt
                self.net.train()
    """
    text = """
        from base import Base


        class Trainer(Base):
            def step(self, x, y):
                self.opt.zero_grad()
                self.output = self.net(x.cuda())
                loss = (self.output - y).abs().mean()
                loss.backward()
                self.opt.step()
    """
    (tmp_path / "base.py").write_text(textwrap.dedent(base))
    conversion = convert(textwrap.dedent(text), Wish(to="amp", dtype="bfloat16"), str(tmp_path / "train.py"))
    assert conversion.refused == ()
    assert "            self.output = to_float32(self.net(x.cuda()))" in conversion.text
