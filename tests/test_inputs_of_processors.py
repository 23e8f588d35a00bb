"""What processors of transformers return, which is float32, and models in half that get it."""

from __future__ import annotations

import textwrap

import pytest

from tests.linting import findings_of
from tests.test_clashes import HEADER, RULES, found

LOADS = """
from transformers import AutoImageProcessor, AutoModel, AutoProcessor

extractor = AutoImageProcessor.from_pretrained(path)
processor = AutoProcessor.from_pretrained(path)
net = AutoModel.from_pretrained(path, torch_dtype=torch.float16).to("cuda")

"""
TOLD = {
    "an attribute": """
        def features(image):
            inputs = extractor(image, return_tensors="pt").to("cuda")
            return net(inputs.pixel_values)  # AMP502
    """,
    "an entry": """
        def features(sound):
            inputs = processor(sound, return_tensors="pt")
            return net.generate(inputs["input_features"].to("cuda"))  # AMP502
    """,
    "everything of a processor of pictures": """
        def features(image):
            inputs = extractor(image, return_tensors="pt").to("cuda")
            return net(**inputs)  # AMP502
    """,
    "a named input": """
        def features(image):
            inputs = processor(images=image, return_tensors="pt").to("cuda")
            return net.get_image_features(pixel_values=inputs.pixel_values)  # AMP502
    """,
}
SILENT = {
    "converted with the move": """
        def features(image):
            inputs = extractor(image, return_tensors="pt").to("cuda", torch.float16)
            return net(inputs.pixel_values), net(**inputs)
    """,
    "converted to the dtype of the model": """
        def features(image):
            inputs = extractor(image, return_tensors="pt").to("cuda", net.dtype)
            return net(inputs.pixel_values), net(**inputs)
    """,
    "an entry converted to the dtype of the model": """
        def features(image):
            inputs = extractor(image, return_tensors="pt")
            return net(inputs["pixel_values"].to("cuda", dtype=net.dtype))
    """,
    "an entry that is replaced": """
        def features(image):
            inputs = extractor(image, return_tensors="pt").to("cuda")
            inputs["pixel_values"] = inputs["pixel_values"].half()
            return net(**inputs)
    """,
    "under autocast": """
        def features(image):
            with torch.autocast("cuda"):
                return net(**extractor(image, return_tensors="pt").to("cuda"))
    """,
    "tokens": """
        def features(text):
            inputs = processor(text=text, return_tensors="pt").to("cuda")
            return net(inputs.input_ids), net(**inputs)
    """,
    "a model in float32": """
        plain = AutoModel.from_pretrained(path, torch_dtype=torch.float32)

        def features(image):
            return plain(**extractor(image, return_tensors="pt"))
    """,
}


@pytest.mark.parametrize("name", TOLD | SILENT)
def test_inputs_of_processors(name: str) -> None:
    program = LOADS.lstrip("\n") + textwrap.dedent((TOLD | SILENT)[name]).lstrip("\n")
    expected = {(row, line.partition("# ")[2]) for row, line in enumerate(program.splitlines(), 1) if "# AMP" in line}
    assert bool(expected) is (name in TOLD)
    assert found(program) == expected


def test_latents_in_float32_for_a_decoder_in_half() -> None:
    program = """
        from diffusers import AutoencoderKL
        from transformers import AutoTokenizer

        vae = AutoencoderKL.from_pretrained(path).to("cuda", dtype=torch.float16)
        picture = vae.decode({latents}).sample
        text = AutoTokenizer.from_pretrained(path).decode(torch.zeros(3).long())
    """
    for conversion, rows in {"float": [5], "half": []}.items():
        code = HEADER + textwrap.dedent(program.format(latents=f"latents.{conversion}()")).lstrip("\n")
        findings = findings_of(code, RULES)
        assert [one.span.start.row - HEADER.count("\n") for one in findings] == rows
