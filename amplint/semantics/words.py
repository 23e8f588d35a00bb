"""Guesses by name: the assumed meaning of an identifier that no definition or use determines.

Each guess was needed for code that exists. `examples` are names that need it, one for every alternative of its pattern;
`counterexamples` are names that it must not match. Patterns for syntax, or for API names in the text of a file, are no
guesses and stand where they are used.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from amplint.findings import Guessed
from amplint.records import dataclass

_NAMES = 2_048
"""The size of each guess's cache of matches: a script repeats the same names."""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A meaning inferred from a name that matches `pattern`: `name` is the meaning, `of` the object, `because` the
    reason.

    Findings can rest on a guess that `decides`; the others suppress findings, refute doubts, or guide codemods. Names
    that are `known` belong to an API and are no guess, nor are names with a prefix in `known` that ends in a dot. A
    pattern for long texts has `stems`: every line that matches contains one of them in lower case.
    """

    name: str
    of: str
    pattern: str
    because: str
    examples: tuple[str, ...]
    counterexamples: tuple[str, ...]
    decides: bool = False
    known: tuple[str, ...] = ()
    stems: tuple[str, ...] = ()

    def guesses(self, name: str, about: str = "") -> tuple[Guessed, ...]:
        """The guess for an object called `name`, or for the field `about` of an event; empty if the name is known."""
        assert self.decides
        library = tuple(each for each in self.known if each.endswith("."))
        return () if name in self.known or name.startswith(library) else (Guessed(name, self.name, about),)

    @functools.cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern, compiled on first use."""
        return re.compile(self.pattern)

    @functools.cached_property
    def search(self) -> Callable[[str], re.Match[str] | None]:
        """The match of the pattern in a name; None if there is none."""
        return functools.lru_cache(_NAMES)(self.compiled.search)

    def occurs(self, text: str) -> bool:
        """Whether the pattern matches in a long text; only lines that contain one of the `stems` are searched."""
        lowered = text.lower()
        if not any(stem in lowered for stem in self.stems):
            return False
        lines = (line for line in lowered.splitlines() if any(stem in line for stem in self.stems))
        return any(map(self.compiled.search, lines))


def _one_of(
    words: str,
    *,
    name: str,
    of: str,
    because: str,
    counterexamples: tuple[str, ...],
    decides: bool = False,
    known: tuple[str, ...] = (),
) -> Guess:
    """A guess for exactly these names."""
    examples = tuple(words.split())
    pattern = f"^(?:{'|'.join(map(re.escape, examples))})$"
    return Guess(
        name=name, of=of, pattern=pattern, because=because, examples=examples, counterexamples=counterexamples,
        decides=decides, known=known,
    )  # fmt: skip


# Tensors and numbers

MASK = Guess(
    name="a mask",
    of="a parameter of a function, or an operand",
    pattern=r"(?:^|_)masks?$",
    because="A mask holds truth values, unless floating-point numbers are joined to it: it is a tensor, and not half.",
    examples=("mask", "attention_mask", "masks"),
    counterexamples=("masked", "mask_ratio", "unmask"),
    decides=True,
)
CAUSAL = Guess(
    name="a causal mask",
    of="any name in what gives the mask of a fill",
    pattern=r"(?i)causal|tril|triu|future|subsequent|look_?ahead",
    because="A causal mask leaves something in every row, so that filling with -inf makes no NaN of a whole row.",
    examples=("is_causal", "tril", "triu_mask", "future_mask", "subsequent_mask", "look_ahead_mask", "lookahead"),
    counterexamples=("padding_mask", "mask", "trial"),
)
WHOLE_NUMBERS = Guess(
    name="whole numbers",
    of="a parameter of a function whose results can be half",
    pattern=(
        r"(?:^|_)(?:labels?|targets?|gt|y|classes|lens?|lengths?|idxs?|ids?|ind(?:ex|exes|ices|s)?|tokens?|num|n|"
        r"counts?|sizes?|shape|timesteps?|t|steps?|offsets?|batch|segments?|cu_seqlens)$"
    ),
    because=(
        "What holds labels, positions or counts is not half. Only the end of the name counts: `index_embedding` holds "
        "numbers with a fraction. Arguments of kernels are judged by a list of their own."
    ),
    examples=(
        "labels", "targets", "gt", "y", "num_classes", "lens", "lengths", "idx", "input_ids", "ind", "index", "indexes",
        "indices", "inds", "tokens", "num", "n", "counts", "sizes", "shape", "timestep", "t", "steps", "offsets",
        "batch", "segments", "cu_seqlens",
    ),
    counterexamples=("x", "hidden_states", "index_embedding", "weight", "length_scale"),
)  # fmt: skip
RAW = Guess(
    name="data, or what is no floating number",
    of="any name in an expression that becomes a NumPy array",
    pattern=(
        r"(?i)(?:^|_)(?:gts?|labels?|targets?|masks?|msk|ids?|idxs?|inds?|index|indices|points?|pts|types?|nums?|"
        r"counts?|lens?|lengths?|shapes?|tokens|batch|examples?|records?|instances?)(?:_|$)"
    ),
    because=(
        "Labels and points come from files, masks and indices are no floating numbers. Pictures and sounds are often "
        "computed by a model."
    ),
    examples=(
        "gt_boxes", "gts", "labels", "target", "init_mask", "msk", "atom_id", "idx", "inds", "index", "indices",
        "cp_points_tensor", "pts", "atom_types", "num_atoms", "count", "lens", "length", "shape", "tokens", "batch",
        "example", "record", "pred_instances",
    ),
    counterexamples=("pred", "logits", "features", "weight", "image", "masked_mean", "sampled"),
)  # fmt: skip
KERNEL_WHOLE_NUMBERS = Guess(
    name="integers passed to a kernel",
    of="an input of a custom autograd function",
    pattern=(
        r"(?:^|_)(?:idx|inds?|index|indexes|indices|ids?|labels?|targets?|shapes?|starts?|ends?|offsets?|lengths?|"
        r"lens?|counts?|cnts?|counters?|nums?|perm|order|sizes?|batch|masks?|keys?|rulebook|pairs?|segments?|splits?|"
        r"tokens?|experts?|strides?|rules?)\d?(?:_|$)"
    ),
    because=(
        "Point clouds, sparse convolutions and mixtures of experts hand tables of positions to their kernels, which "
        "are not in the dtype of the region. Any word of the name counts, as in `index_map`; single letters do not."
    ),
    examples=(
        "idx", "ind", "index1", "indexes", "indices", "id_map", "labels", "targets", "spatial_shapes", "level_starts",
        "ends", "offset", "lengths", "lens", "counts", "cnt", "counter", "num_points", "perm", "order", "sizes",
        "xyz_batch", "mask", "keys", "rulebook", "indice_pairs", "segments", "splits", "tokens", "expert",
        "pool_stride", "map_rule",
    ),
    counterexamples=("features", "weight", "keypoints", "grad_out", "value"),
)  # fmt: skip
FREQUENCY = Guess(
    name="the frequencies of rotary or sinusoidal embeddings",
    of="a factor of a product of matrices",
    pattern=r"(?i)(?:freqs?|frequency|frequencies)$|^omegas?$",
    because="Frequencies that are learned, or made in unseen code, give angles with positions all the same.",
    examples=("freqs", "inv_freq", "base_frequency", "inverse_frequencies", "omega"),
    counterexamples=("freq_mask", "freqs_cis", "frequency_bins"),
    decides=True,
)
OUTSIDE_REGIONS = Guess(
    name="a function that nobody calls in a region",
    of="a function that computes in float32",
    pattern=r"^_*(?:init|reset|setup|build|make|create|precompute|update_cache|cache)(?:_|$)|^backward$|^step$",
    because="Tables are made when an object is, and optimizers run behind the backward pass.",
    examples=("__init__", "init_weights", "reset_parameters", "setup", "build_table", "make_rope", "create_table",
              "precompute_freqs", "update_cache", "cache_angles", "backward", "step"),
    counterexamples=("forward", "compute_angles", "rotary", "steps"),
)  # fmt: skip
INITIALIZES = Guess(
    name="a method that initializes parameters or buffers",
    of="a method that reads their dtype",
    pattern=r"^_*(?:init|initialize|reset)(?:_|$)",
    because="The constructor calls it, before anything casts the model.",
    examples=("reset_parameters", "reset", "_init_weights", "initialize_tables"),
    counterexamples=("forward", "build_cache", "initial", "resets"),
)
POSITION = Guess(
    name="positions",
    of="the other factor, beside frequencies",
    pattern=r"(?i)(?:^|_)(?:pos|positions?|pos_ids|position_ids|coords?|coordinates|grid|timesteps?|seq|t)$",
    because="What frequencies are multiplied by is a position, an index or a time.",
    examples=("pos", "query_pos", "position", "positions", "position_ids", "pos_ids", "coord", "coords", "coordinates",
              "grid", "timestep", "timesteps", "seq", "t"),
    counterexamples=("x", "position_bias", "weights", "out"),
    decides=True,
)  # fmt: skip
TIME = Guess(
    name="a time",
    of="the other factor, beside frequencies",
    pattern=r"(?i)(?:^|_)t$",
    because="What frequencies are multiplied by may be a step of a diffusion process, or a fraction of its duration.",
    examples=("t", "next_t"),
    counterexamples=("timestep", "out", "positions"),
)
TIMESTEPS = Guess(
    name="timesteps of a diffusion model",
    of="what is converted to bfloat16, or the variable that it is assigned to",
    pattern=r"(?i)(?:^|_)timesteps?$",
    because="Timesteps count up to 1000, and sines and cosines of them distinguish neighbours.",
    examples=("timestep", "timesteps", "next_timestep"),
    counterexamples=("timestep_embedding", "num_steps", "t", "sigma", "timestep_id"),
    decides=True,
)
NOISE_LEVELS = Guess(
    name="noise levels of a diffusion model",
    of="what is converted to bfloat16 and assigned to timesteps",
    pattern=r"(?i)(?:^|_)sigmas?$",
    because="Noise levels are fractions: bfloat16 keeps two digits of them, where it rounds timesteps to whole fours.",
    examples=("sigma", "next_sigmas"),
    counterexamples=("timestep", "sigma_min", "sigmoid"),
)
EMBEDS_TIMESTEPS = Guess(
    name="an embedding of timesteps",
    of="what is called with a variable that was converted to bfloat16",
    pattern=r"^(?:t|time|timestep)_(?:emb\w*|in|text_embed|proj)$",
    because="Its sines and cosines distinguish neighbouring timesteps.",
    examples=("t_embedder", "time_embed", "timestep_embedding", "time_in", "time_text_embed", "time_proj"),
    counterexamples=("embed", "patch_embed", "temb", "text_embedder", "timestep", "tin"),
    decides=True,
)
INDICES = Guess(
    name="what selects elements of a tensor",
    of="what an assignment to elements is indexed with",
    pattern=r"mask|indices|inds$|idxs$|indexes|positions$|input_pos$|cache_position$",
    because="Indices that are a tensor make the assignment an `index_put`, which converts nothing.",
    examples=("valid_mask", "indices", "pos_inds", "idxs", "indexes", "positions", "input_pos", "cache_position"),
    counterexamples=("i", "idx", "batch", "inds_count", "pos", "start_pos"),
    decides=True,
)
SEARCHES = Guess(
    name="a search for tokens",
    of="a method of a model or a keyword of its call, in a conversion",
    pattern=r"(?i)(?:^|_)(?:beam|greedy|viterbi)",
    because="What a search gives is tokens, which are not cast.",
    examples=("beam_search", "greedy_decode", "num_beams", "viterbi_decode"),
    counterexamples=("decode", "generate", "predict", "sunbeam"),
)
EPSILON = Guess(
    name="a small number",
    of="an operand",
    pattern=r"(?i)(?:^|[._])(?:eps|tiny|smooth|delta)",
    because="Of `x + eps` only `x` is the tensor.",
    examples=("eps", "self.eps", "layer_epsilon", "tiny", "smooth", "delta"),
    counterexamples=("steps", "x", "reps"),
    decides=True,
)
FILLS_BY_MASK = Guess(
    name="what fills by a mask",
    of="an unseen function that is passed a mask and a number past 65504",
    pattern=r"(?i)mask|fill|replace",
    because="A number past 65504 beside a mask is what the masked elements become.",
    examples=("apply_mask", "fill_where", "replace_padding", "maskedFill"),
    counterexamples=("clamp", "attention", "pad"),
    decides=True,
)
NEARLY_INFINITE = Guess(
    name="a constant past 65504",
    of="an imported constant that is put into elements of a tensor",
    pattern=(
        r"(?:^|[._])(?:NEAR|NEARLY|ALMOST|BIG|LARGE|HUGE)_(?:INF|INFINITY|NUMBER|NEGATIVE|NEG|VALUE|FLOAT)$"
    ),
    because="What is to stand for infinity and is none is past the largest number of float16.",
    examples=(
        "NEAR_INF", "utils.NEAR_INF", "NEG_NEAR_INF", "NEARLY_INFINITY", "ALMOST_INF", "BIG_NUMBER", "LARGE_NEGATIVE",
        "HUGE_NEG", "LARGE_VALUE", "BIG_FLOAT",
    ),
    counterexamples=("INF", "inf", "MASK", "BIG_ENDIAN"),
    decides=True,
)  # fmt: skip
ROUTING = Guess(
    name="what chooses among experts",
    of="logits, or the result of a softmax",
    pattern=r"(?:^|[._])(?:gates?|gating|router|routing|experts?)(?:_|$)",
    because="Experts are chosen by comparing probabilities, and two that are close are equal in half.",
    examples=(
        "gates",
        "self.gate",
        "top_gates",
        "gating_weights",
        "router_logits",
        "routing_weights",
        "expert_scores",
        "experts",
    ),
    counterexamples=("propagate", "aggregate", "route", "delegate"),
    decides=True,
)
TORCH_MODULES = _one_of(
    "torch F torch.nn.functional nn.functional",
    name="a module of PyTorch's functions",
    of="the owner of a function, where imports are not looked up",
    because="Nobody calls anything else `F` in a file that works on tensors.",
    counterexamples=("np", "f", "self"),
    decides=True,
    known=("torch", "torch.nn.functional"),
)
CHANNELS = Guess(
    name="a number of channels or heads",
    of="a bound of `arange` and `linspace`",
    pattern=r"dim$|channel|(?:embed\w*|hidden)_size$|heads$",
    because="There are few channels and heads, so that half holds their numbers exactly.",
    examples=("embed_dim", "channels", "hidden_size", "frequency_embedding_size", "num_heads"),
    counterexamples=("seq_len", "dimension", "max_positions"),
)
IMAGE_SIDE = Guess(
    name="a side of an image",
    of="a bound of `arange` and `linspace`",
    pattern=r"^(?:[hHwW]|(?:\w+_)?(?:height|width|[hw]))$",
    because="Images and their features have fewer rows and columns than the 2048 whole numbers that float16 holds.",
    examples=("H", "w", "height", "feat_h", "image_width"),
    counterexamples=("seq_len", "length", "n", "hw", "weight"),
)
SCALE_FACTOR = Guess(
    name="what makes scores smaller",
    of="the factor or divisor of a product of matrices",
    pattern=r"scal|sqrt|norm_factor",
    because=(
        "The scale of attention is known by its name alone where it is an attribute or a parameter. A temperature is "
        "below 1 in contrastive losses."
    ),
    examples=("scale", "sqrt_dim", "norm_factor"),
    counterexamples=("weight", "heads", "normalize", "temperature"),
    decides=True,
)
DEVICE = Guess(
    name="a device",
    of="the argument of `to`",
    pattern=r"(?i)device|gpu|rank|cuda",
    because="What moves a tensor does not convert it.",
    examples=("device", "gpu_id", "local_rank", "cuda"),
    counterexamples=("dtype", "other", "weight"),
)
NAMED_DEVICE = Guess(
    name="a device of any type",
    of="what a call is given, or a key",
    pattern=r"_device$",
    because="Work that is given a device by a variable can be given any, and the text of a device can hold an index.",
    examples=("run_device", "get_device"),
    counterexamples=("devices", "device_ids", "device_type", "num_devices", "device"),
    decides=True,
)
HOLDS_SECTIONS = Guess(
    name="what holds sections of settings",
    of="an object in the path to the `device` that a call is given",
    pattern=r"(?i)(?:^|_)(?:config|cfg|conf|hparams|settings)$",
    because="What it holds are settings, too, whatever they are called.",
    examples=("config", "cfg", "model_conf", "hparams", "settings"),
    counterexamples=("trainer", "model", "args", "configure"),
)
HOLDS_SETTINGS = Guess(
    name="what holds settings",
    of="the object whose `device` a call is given",
    pattern=r"(?i)(?:^|_)(?:args?|opts?|options|config|cfg|conf|hparams|params|settings|dist|manager|env|accelerator|"
    r"fabric|trainer|module|dm)$",
    because="The device of anything else, a tensor or a model, follows what it was moved to.",
    examples=("args", "opt", "options", "config", "cfg", "conf", "hparams", "params", "settings", "dist",
              "dist_manager", "env", "accelerator", "fabric", "trainer", "pl_module", "dm"),
    counterexamples=("x", "model", "logits_fake", "batch", "inputs"),
)  # fmt: skip
DTYPE = Guess(
    name="a dtype",
    of="a side of a comparison",
    pattern=r"dtype$",
    because="Code that compares dtypes can do right by float16.",
    examples=("dtype", "input_dtype"),
    counterexamples=("dtypes", "type", "shape"),
)
DTYPE_GIVEN = Guess(
    name="a dtype that a setting holds",
    of="an argument of `.to(...)`",
    pattern=r"(?i)dtype|type$|precision|float|half",
    because="A conversion to it changes the dtype, where one to a device keeps it.",
    examples=("dtype", "dtype_of_model", "compute_type", "precision", "as_float", "half"),
    counterexamples=("device", "other", "types"),
)
FLOATING = Guess(
    name="pictures or sounds",
    of="what a model is called with",
    pattern=(
        r"(?i)(?:^|_)(?:imgs?|images?|frames?|pixels?|videos?|clips?|audios?|wavs?|waveforms?|mels?)\d?(?:$|_)"
    ),
    because="Loaders give them as float32, which a model converted to half refuses.",
    examples=(
        "imgs", "image1", "frames", "pixel_values", "video", "clips", "audio", "wav", "waveform", "mels", "batch_image",
    ),
    counterexamples=("input_ids", "imagenet", "melody", "x", "batch"),
    decides=True,
)  # fmt: skip
STATISTICS = Guess(
    name="means and deviations",
    of="the elements of a tensor that is made from a value of unknown type",
    pattern=r"(?:^|_)(?:means?|stds?|var|variances?|sigmas?)$",
    because="Pictures and latents are normalised with numbers that have a fraction, so that the tensor is float32.",
    examples=("mean", "img_norm_mean", "std", "pixel_stds", "var", "variance", "sigmas"),
    counterexamples=("meaning", "mean_pool", "std_dev", "variant"),
    decides=True,
)
ACTIVATIONS = Guess(
    name="activations",
    of="what a model is called with",
    pattern=r"(?:^|_)(?:latents?|embeds|embeddings?|hidden_states?|activations?)\d?$|^noisy_",
    because="Only floating-point numbers are called so, and a model converted to half refuses float32.",
    examples=(
        "latents", "latent", "prompt_embeds", "image_embeddings", "embedding", "hidden_states", "hidden_state",
        "activation", "activations2", "noisy_model_input",
    ),
    counterexamples=("input_ids", "latent_size", "x", "embed", "noise"),
    decides=True,
)  # fmt: skip
PROJECTED = Guess(
    name="the result of a layer",
    of="a parameter whose limits fill a product of it",
    pattern=r"(?:^|_)(?:q|k|v|qk|query|queries|keys?|values?|scores?|logits|attn|attention|sims?|dots)\d?(?:$|_)",
    because="Autocast has made queries and keys half already, and the limits of their dtype fit their product.",
    examples=(
        "q", "k", "v", "qk", "query_states", "queries", "key", "keys", "value", "values", "score", "scores", "logits",
        "attn_weights", "attention", "sim", "sims", "dots", "cross_attn",
    ),
    counterexamples=("x", "embeddings", "hidden_states", "features"),
)  # fmt: skip
LIKE_WEIGHT = Guess(
    name="a weight",
    of="an input of a custom autograd function",
    pattern=r"(?:^|_)(?:weights?|kernel|bias|[wW])\d?$",
    because="A weight is float32 in backward, where its product with a half gradient raises.",
    examples=("weight", "weights", "conv_kernel", "bias", "w", "W", "w1"),
    counterexamples=("x", "weighted", "window", "kernel_size"),
    decides=True,
)

# Models and their passes

MODEL_NAMES = frozenset({"model", "net", "network"})
MODEL_NAME = _one_of(
    " ".join(sorted(MODEL_NAMES)),
    name="a model",
    of="the last name of what is called",
    because="What is called by one of these names is a model, if it can be called at all.",
    counterexamples=("models", "nets", "self", "predict"),
    decides=True,
)
FORWARD_STEP = Guess(
    name="a method that runs the model",
    of="a method of `self` that is called, and that subclasses define",
    pattern=r"^(?!fast_)(?:\w*_forward|_?forward_(?:step|pass|batch|model))$",
    because="A base class that trains leaves the forward pass to its subclasses.",
    examples=("compute_forward", "forward_step", "_forward_pass", "forward_batch", "forward_model"),
    counterexamples=("forward", "fast_forward", "forward_hook", "forwarded", "backward"),
    decides=True,
)
CALLED_MODULE = Guess(
    name="a module that only computes",
    of="an attribute of `self` that is called, and set by a class out of sight",
    pattern=(
        r"^(?!(?:update|train|step|optimi[sz]e|run|fit|finish|end|close|save|load|backward|process|sync|reset)_)"
        r"(?:\w*_)?(?:models?|nets?|network|encoder|decoder|backbone|generator|discriminator|critic|actor|teacher"
        r"|student|ema|vae|unet|transformer|classifier|cri)(?:_\w+|\d|[A-Z])?$"
    ),
    because="What a base class holds by such a name is a module: calling it steps no optimizer and updates no scaler.",
    examples=(
        "model", "net_g", "netD", "network", "text_encoder", "decoder", "backbone", "generator", "discriminator",
        "critic2", "actor", "teacher", "student", "ema", "vae", "unet", "transformer", "classifier", "cri_pix",
    ),
    counterexamples=(
        "update_model", "train_net", "step_network", "optimize_critic", "run_model", "fit_model", "finish_model",
        "end_model", "close_model", "save_model", "load_model", "backward_net_g", "process_model", "sync_model",
        "reset_model", "modeling", "after_step", "internet", "train_step",
    ),
)  # fmt: skip
_NO_MODEL = r"^(?!.*(?:Tokenizer|Processor|Extractor|Config|Scheduler)\w*\.from_pretrained$).*"
_NO_MODELS = tuple(
    f"transformers.{name}.from_pretrained"
    for name in ("AutoTokenizer", "CLIPProcessor", "AutoFeatureExtractor", "AutoConfig", "DDPMScheduler")
)
MODEL_MAKER = Guess(
    name="what makes a model",
    of="the function that made something",
    pattern=_NO_MODEL + r"(?:from_pretrained|create_model)$",
    because="Transformers and timm make models by these names, and others follow them.",
    examples=("transformers.AutoModel.from_pretrained", "timm.create_model"),
    counterexamples=("create_model_card", "load", "make", *_NO_MODELS),
    decides=True,
    known=("transformers.", "diffusers.", "timm."),
)
PRETRAINED = Guess(
    name="what gives a pretrained model",
    of="the function that made something",
    pattern=_NO_MODEL + r"\.from_pretrained$",
    because="Of such a model `half()` converts the parameters where they are, and `device` is a `torch.device`.",
    examples=("transformers.AutoModel.from_pretrained",),
    counterexamples=("timm.create_model", "from_pretrained_config", *_NO_MODELS),
    decides=True,
    known=("transformers.", "diffusers."),
)
PIPELINE = Guess(
    name="what gives a pipeline",
    of="the function that made something",
    pattern=r"Pipeline\.from_pretrained$",
    because="The call of a pipeline returns pictures, arrays or text, not the tensors that its models compute.",
    examples=("diffusers.DiffusionPipeline.from_pretrained", "flow.ImagePipeline.from_pretrained"),
    counterexamples=("transformers.AutoModel.from_pretrained", "pipeline"),
)
FLOAT32_WEIGHTS = Guess(
    name="weights that were saved in float32 or float16",
    of="the name of a pretrained language model",
    pattern=r"(?i)gpt-?2|gpt-?neo|bert|opt-\d|pythia|codegen|santacoder|starcoder|bloom|tiny",
    because="Older models were not saved in bfloat16: to load them as they were saved is no loss of it.",
    examples=(
        "openai-community/gpt2", "EleutherAI/gpt-neo-125m", "bert-base-uncased", "facebook/opt-125m",
        "EleutherAI/pythia-70m", "Salesforce/codegen-350M", "bigcode/santacoder", "bigcode/starcoder",
        "bigscience/bloom-560m", "tiny-random",
    ),
    counterexamples=("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-0.6B", "google/gemma-2-2b"),
)  # fmt: skip
COMPILES_ELSEWHERE = Guess(
    name="something that compiles a model, or runs its training loop",
    of="any name in a script that converts layers to float8",
    pattern=r"(?i)compile|inductor|dynamo|trainer|accelerator|fabric|deepspeed",
    because="What compiles a model is often a setting, or in another file: nothing is said of eager mode then.",
    examples=("torch_compile", "inductor_config", "dynamo_backend", "Trainer", "Accelerator", "Fabric", "deepspeed"),
    counterexamples=("convert_to_float8_training", "optimizer", "train_one_epoch"),
)
OUTPUT_FIELD = _one_of(
    "logits last_hidden_state pooler_output hidden_states sample prediction",
    name="a field of what a model returned",
    of="an attribute",
    because="Transformers and Diffusers return objects with these tensors, which have the dtype the model computed in.",
    counterexamples=("loss", "shape", "config"),
    decides=True,
)
SUBMODEL = _one_of(
    "lm_head head classifier score v_head embed_tokens model transformer encoder decoder backbone base_model "
    "language_model text_model text_encoder vision_model vision_tower visual image_encoder unet",
    name="a part of a model with weights of its own",
    of="an attribute of a model that is called",
    because="Other attributes that are called are methods, such as `generate`, which return integers or pictures.",
    counterexamples=("generate", "get_input_embeddings", "parameters", "config"),
    decides=True,
    known=("lm_head",),
)
UNSCALES = Guess(
    name="what scales predictions back to the unit of the data",
    of="a function that gets what a model returned",
    pattern=r"(?i)inverse_?(?:transform|scale|normali[sz]e)|de_?normali[sz]e|un_?(?:normali[sz]e|scale|standardi[sz]e)",
    because="A conversion that takes too much for such a function only computes more in float32.",
    examples=(
        "inverse_transform", "inverse_scale", "inverse_normalize", "denormalize", "unnormalize", "unscale_predictions",
        "unstandardize",
    ),
    counterexamples=("normalize", "transform", "scale"),
)  # fmt: skip
TRAINING_STEP = Guess(
    name="a step that trains",
    of="a function around a forward pass",
    pattern=r"(?:^|_)(?:train|training)(?:_one)?(?:_epoch|_step|_batch|_iter|$)",
    because="Its backward pass may be in unseen code, and a model without gradients in it is a teacher.",
    examples=(
        "train", "do_train", "training_step", "train_one_epoch", "train_batch", "train_iter", "train_iteration",
    ),
    counterexamples=("trainer", "pretrained", "retrain", "train_loader"),
    decides=True,
)  # fmt: skip
DISABLES_GRADIENTS = Guess(
    name="a decorator that disables gradients",
    of="a decorator, or what makes one",
    pattern=r"(?i)(?:^|_)(?:no_?grads?|inference_?mode)$",
    because="It chooses between those of PyTorch, by its version, in code that is not followed.",
    examples=("no_grad", "smart_inference_mode", "inference_mode", "torch_no_grad"),
    counterexamples=("grad", "inference", "no_grad_needed", "enable_grad"),
)
EVALUATES = Guess(
    name="an evaluation",
    of="a function around a forward pass",
    pattern=r"^(?!.*train).*(?:^|_)(?:eval|evaluate|evaluation|val|valid|validate|validation)(?:$|_)",
    because="The mode of the model may be set in unseen code.",
    examples=(
        "eval", "do_eval", "evaluate", "run_evaluation", "val_step", "valid", "validate", "validation_epoch",
    ),
    counterexamples=("train_and_eval", "evaluator", "value", "validity"),
    decides=True,
)  # fmt: skip
SELF_TEST = Guess(
    name="a test",
    of="a function of the linted file",
    pattern=r"^_*(?:unit)?tests?(?:_|$)",
    because="The arguments that a test passes to a function say little about those of other callers.",
    examples=("test_layer", "_test", "unittest", "tests"),
    counterexamples=("tester", "latest", "attest_"),
)
TRAINS = Guess(
    name="an object that trains",
    of="an unseen class that is passed a scaler and its optimizer",
    pattern=r"(?:Trainer|Learner)$",
    because="It steps the optimizer with the scaler, and is asked by name where it saves them.",
    examples=("Trainer", "QLearner"),
    counterexamples=("TrainerState", "Checkpointer", "trainer"),
    decides=True,
)
RUNS_BACKWARD = Guess(
    name="what runs a backward pass",
    of="an unseen function that is called",
    pattern=r"^backward|backward$",
    because="It leaves gradients behind.",
    examples=("backward_loss", "manual_backward"),
    counterexamples=("run_backward_hooks", "forward", "loss"),
)
RUNS_BACKWARD_OR_CLEARS = Guess(
    name="what belongs to training",
    of="what a function calls",
    pattern=r"(?:backward|zero_grad)$",
    because="A function that runs a backward pass or clears gradients trains.",
    examples=("backward", "zero_grad"),
    counterexamples=("backward_hook", "forward", "step"),
    decides=True,
    known=("backward", "zero_grad"),
)
RUNS_BACK = Guess(
    name="a method that computes a segment anew",
    of="what backward of a custom autograd function calls of what forward kept",
    pattern=r"^(?:backward_\w+|inverse\w*|reverse\w*|invert\w*|recompute\w*|forward)$",
    because="Reversible layers run their parts again, without the autocast state of the first time.",
    examples=("backward_pass", "inverse", "reverse", "invert", "recompute", "forward"),
    counterexamples=("backward", "size", "forward_hook"),
    decides=True,
    known=("forward",),
)
FUNCTION_CLASS = Guess(
    name="a custom autograd function",
    of="the base of a class, where imports are not looked up",
    pattern=r"Function$",
    because="Its `forward` has no `self` and is run by `apply`.",
    examples=("Function", "InplaceFunction"),
    counterexamples=("Module", "FunctionBase"),
)
NORMALISED_MAKER = Guess(
    name="what makes a model with batch normalisation",
    of="the function of torchvision that made a model",
    pattern=(
        r"^torchvision\.models\.(?:\w+\.)?(?:resne[xt]\w*|wide_resnet\w*|densenet\w*|mobilenet\w*|mnasnet\w*|regnet\w*"
        r"|shufflenet\w*|vgg\d+_bn|googlenet|inception_v3|efficientnet\w*)$"
    ),
    because="Its layers are not followed, and those of these families keep running statistics.",
    examples=(
        "torchvision.models.resnet50", "torchvision.models.resnet.resnext50_32x4d",
        "torchvision.models.wide_resnet50_2", "torchvision.models.densenet121", "torchvision.models.mobilenet_v2",
        "torchvision.models.mnasnet1_0", "torchvision.models.regnet_y_400mf", "torchvision.models.shufflenet_v2_x1_0",
        "torchvision.models.vgg16_bn", "torchvision.models.googlenet", "torchvision.models.inception_v3",
        "torchvision.models.efficientnet_b0",
    ),
    counterexamples=("torchvision.models.vgg16", "torchvision.models.vit_b_16", "models.resnet50"),
    decides=True,
)  # fmt: skip
NORMALISATION_SPARED = Guess(
    name="normalisation in a dtype of its own",
    of="the text of the program",
    pattern=r"(?i)batch_?norm[^\n]*\n?[^\n]*\.(?:float|to|type)\(|convert_\w*bn|bn_\w*float|keep_\w*batchnorm",
    because="Models converted to half are often given back float32 normalisation by functions of such names.",
    examples=(
        "if is_batchnorm(m): m.float()", "batch_norm.to(torch.float32)",
        "for batchnorm in norms: batchnorm.type(dtype)", "convert_bn(model)", "bn_to_float(model)",
        "keep_batchnorm_fp32=True",
    ),
    counterexamples=("nn.BatchNorm2d(64)", "model.half()"),
)  # fmt: skip
CHANGES_PARAMETERS = Guess(
    name="a method that changes what is trained",
    of="the method of an unseen model",
    pattern=r"^apply$|freeze|adapter|lora|quantiz",
    because="It may give a model parameters of another dtype, or other ones to train.",
    examples=("apply", "freeze_backbone", "add_adapter", "merge_lora", "quantize"),
    counterexamples=("apply_mask", "forward", "parameters"),
)
READS_PARAMETERS = Guess(
    name="a function that counts or prints parameters",
    of="the last name of an unseen callee that is passed a model",
    pattern=r"^_*(?:count|num|print|log|show|get)_\w*param|^(?:(?:model_)?summary|print)$",
    because="It leaves the model as it is.",
    examples=(
        "count_parameters", "num_params", "print_trainable_parameters", "log_params", "show_params",
        "get_params_count_str", "summary", "model_summary", "print",
    ),
    counterexamples=("set_params", "freeze_parameters", "prepare_parameters", "summarize"),
)  # fmt: skip

# Losses

LOSS = Guess(
    name="a loss",
    of="a function or object that is called",
    pattern=(
        r"(?:^|_)(?:loss|losses|criterion|criteria|objective)(?:_?(?:fn|func|function|op|\d+))?$|[a-z]Loss$"
    ),
    because="An unseen loss is reported where it is passed the half result of a model.",
    examples=(
        "loss", "ce_loss", "losses", "criterion", "criteria", "objective", "loss_fn", "lossfunc", "loss_function",
        "loss_op", "loss2", "FocalLoss",
    ),
    counterexamples=("lossless", "loss_weight", "Loss", "gloss", "loss_scaler"),
    decides=True,
)  # fmt: skip
NO_LOSS = Guess(
    name="what only handles a loss",
    of="a function or object that is called by the name of a loss",
    pattern=(
        r"^_*(?:log|print|plot|save|update|record|reduce|add|append|init|build|create|make|set|average|gather"
        r"|sync|track|write|report|register|format|total|zero|reset)(?:_|[A-Z]|$)|[sS]cale|[mM]eter"
    ),
    because="A name may end in `loss` and begin with what is done to it.",
    examples=(
        "log_loss", "print_loss", "plotLoss", "save_loss", "update_loss", "record_loss", "reduce_loss", "scaled_loss",
        "add_loss", "append_loss", "init_loss", "build_loss", "create_loss", "make_loss", "set_loss", "average_loss",
        "gather_loss", "sync_loss", "track_loss", "write_loss", "report_loss", "register_loss", "format_loss",
        "total_loss", "zero_loss", "reset_loss", "log", "rescale_loss", "meter_loss",
    ),
    counterexamples=("loss", "logit_loss", "focal_loss", "address_loss"),
)  # fmt: skip
SPEAKS_OF_LOSS = Guess(
    name="something to do with a loss",
    of="a name or a piece of code that a conversion looks at",
    pattern=r"(?i)loss|criterion",
    because="A conversion that takes too much for a loss only leaves more to a person.",
    examples=("self.compute_loss", "criterion"),
    counterexamples=("model", "logits", "los"),
)

# Scalers, schedulers, averages

SCALER = Guess(
    name="a gradient scaler",
    of="an argument of a call",
    pattern=r"(?i)scaler",
    because="A statement that hands a scaler to a function has to be interpreted.",
    examples=("grad_scaler", "self.amp_scaler", "GradScaler"),
    counterexamples=("scale", "scaled_loss"),
)
SCALER_ITSELF = Guess(
    name="a gradient scaler, and nothing of it",
    of="the condition of an `if`",
    pattern=r"scaler$",
    because="`if scaler:` asks whether there is one, not whether it skipped a step.",
    examples=("scaler", "self.grad_scaler"),
    counterexamples=("scaler_skipped", "scale"),
)
SCALING_STATE = Guess(
    name="something that scales",
    of="the owner of `state_dict` and `load_state_dict`",
    pattern=r"(?i)scal",
    because="Wrappers of scalers save and restore them, and are called `loss_scaling` as well.",
    examples=("loss_scaler", "self.scaling", "Scaler"),
    counterexamples=("optimizer", "model"),
)
INVERSE_SCALE = Guess(
    name="the scale of a scaler, or its inverse",
    of="a factor in a loss",
    pattern=r"(?i)scale|inv",
    because="A penalty that is multiplied by the inverse of the scale is right, one that is weighted is not.",
    examples=("scale", "inv_factor"),
    counterexamples=("gp_weight", "alpha"),
)
SPEAKS_OF_SCALE = Guess(
    name="a text about the scale",
    of="a string, or a name among the arguments of a function that measures gradients",
    pattern=r"(?i)scale",
    because="What is printed as a scaled loss is meant to be scaled.",
    examples=("scaled loss: ", "Loss Scale"),
    counterexamples=("loss: ", "step"),
)
MAY_SCALE = Guess(
    name="scaling of losses",
    of="the text of the program",
    pattern=(
        r"(?i)scaler|(?:loss|grad)\w*_?scal|scaled?_?(?:loss|grad)|\baccelerate\b"
        r"|(?<!torch\.)\baccelerator *[:.(=,)]|deepspeed|apex|lightning|fabric|fairscale|mmcv|mmengine|colossal"
        r"|fp16_?optimizer|horovod"
    ),
    because="Nothing is said of a missing scaler where one may be at work by another name, or inside of a framework.",
    examples=(
        "NativeScaler()", "loss_scale = 128", "grad_scaling", "scaled_loss.backward()", "scale_grad", "accelerate",
        "accelerator.backward(loss)", "deepspeed", "apex", "lightning", "fabric", "fairscale", "mmcv", "mmengine",
        "colossalai", "FP16_Optimizer", "horovod",
    ),
    counterexamples=("torch.accelerator.current_device_index()", "loss.backward()", "image_scale = 2"),
    stems=(
        "scal", "accelerat", "deepspeed", "apex", "lightning", "fabric", "mmcv", "mmengine", "colossal", "fp16",
        "horovod",
    ),
)  # fmt: skip
MAY_UPDATE = Guess(
    name="an update of a scaler",
    of="the text of the program",
    pattern=r"(?<!ema)(?<!bar)(?<!ema_model)\.update\(\s*\)|(?i:scal\w*(?:\[[^]]*\]|\(\))?)\.update\(",
    because=(
        "A scaler that is stepped without a visible `update` is not reported. Averages of weights and progress bars "
        "are updated without arguments, too."
    ),
    examples=("manager.update()", "self.scaler.update(None)", "scalers[0].update(x)", "get_scaler().update(x)"),
    counterexamples=("ema.update()", "pbar.update()", "ema_model.update()", "meter.update(loss)"),
)
MAY_CLEAR = Guess(
    name="clearing of gradients",
    of="the text of the program",
    pattern=r"""(?ix) zero_?grad | clear_?grad | reset_?grad | ["']grad["']
    | (?<!autograd)\._?grad\b ((\.data\b)? (\.\w+_\( | \s*[*/+-]?=(?!=)) | (?s:.*) \b(zero|fill)_\()""",
    because="Nothing is said of gradients that add up where something may clear them.",
    examples=(
        "opt.zero_grad()", "p.grad = None", "p.grad.data.mul_(0)", "g = p.grad; g.zero_()", "g = p.grad; g.fill_(0)",
        "setattr(p, 'grad', None)", "clear_grads()", "reset_grad()", "p._grad = shared.grad",
    ),
    counterexamples=("torch.autograd.grad(loss, x)", "gradient = 0", "loss.backward()", "g = p.grad.norm()"),
)  # fmt: skip
TELLS_SKIPPED = Guess(
    name="what knows of a skipped step",
    of="a name in a condition",
    pattern=r"(?i)scal|skip|inf|nan|finite|overflow|norm|_run|step_count|success|valid",
    because="Code behind such a condition has asked whether gradients overflowed. `info` is found, too: what is taken "
    "for such a question only keeps a finding back.",
    examples=(
        "old_scale", "skipped", "found_inf", "has_nan", "isfinite", "overflow", "grad_norm", "optimizer_was_run",
        "_step_count", "success", "is_valid",
    ),
    counterexamples=("step", "epoch", "use_scheduler"),
)  # fmt: skip
SCHEDULER = Guess(
    name="a scheduler of learning rates",
    of="the owner of `step`",
    pattern=r"(?i)sched|warm_?up",
    because="Only a scheduler advances once per step beside an optimizer.",
    examples=("lr_scheduler", "warmup", "warm_up"),
    counterexamples=("optimizer", "env", "scaler"),
    decides=True,
)
ADVANCES_SCHEDULERS = Guess(
    name="what advances schedulers of learning rates",
    of="an unseen function or method, called after the scaler's step",
    pattern=r"(?i)^(?!.*(?:optim|scaler|noise)).*(?:sched[a-z]*_?step|step_?(?:all_?)?(?:lr_?)?sched)",
    because="Schedulers that an object holds advance all at once.",
    examples=("scheduler_step_all", "lr_schedulers_step", "step_schedulers", "step_lr_scheduler", "stepAllSchedulers"),
    counterexamples=(
        "optimizer_scheduler_step", "scaler_scheduler_step", "noise_scheduler_step", "schedule", "step",
    ),
    decides=True,
)  # fmt: skip
SCHEDULER_CLASS = Guess(
    name="a class or function that makes a scheduler",
    of="what made the owner of `step`, in a conversion",
    pattern=r"lr_scheduler\.|LR$|Scheduler|(?:build|create|get|make|setup)_\w*schedule\w*$|Anneal|WarmRestarts",
    because="Libraries have schedulers of their own, which accumulation has to advance once per window.",
    examples=(
        "lr_scheduler.Custom", "StepLR", "NoamScheduler", "get_cosine_schedule_with_warmup", "CosineAnneal",
        "CosineWarmRestarts", "build_scheduler", "create_scheduler", "make_lr_scheduler", "setup_schedule",
    ),
    counterexamples=("Adam", "schedule", "LRFinder", "run_schedule"),
)  # fmt: skip
OPTIMIZER_NAME = Guess(
    name="an optimizer",
    of="what is only stepped, beside a backward pass on a scaled loss",
    pattern=r"(?i)(?:^|[._])(?:opt|optim|optimi[sz]er)(?:_?[A-Za-z]?\d?|_\w+)$",
    because="Its methods alone do not distinguish it from a scheduler.",
    examples=("opt", "self.opt_g", "optim", "optimizer", "optimiser_D", "optG", "optimizer_generator"),
    counterexamples=("scheduler", "options", "adopt"),
    decides=True,
)
OPTIMIZER_MAKER = Guess(
    name="what makes an optimizer",
    of="the unseen function that made an object",
    pattern=r"(?i)optimizer",
    because="`optim` would not do: `torch.optim.lr_scheduler` makes schedulers.",
    examples=("build_optimizer", "FusedOptimizer"),
    counterexamples=("torch.optim.lr_scheduler.StepLR", "build_model"),
    decides=True,
)
SPEAKS_OF_OPTIMIZER = Guess(
    name="something to do with an optimizer",
    of="an unseen wrapper, and the owner and arguments of a `step`",
    pattern=r"(?i)optim",
    because="What a wrapper of an optimizer wraps is that optimizer, and a `step` that names one is its.",
    examples=("optim", "FP16_Optimizer"),
    counterexamples=("opt", "scheduler"),
    decides=True,
)
AVERAGE = Guess(
    name="an average of weights",
    of="the attribute that keeps something, and its class",
    pattern=r"(?:^|_)(?:ema|swa)(?:_|$)|averag|EMA|SWA|Ema(?=[A-Z]|$)",
    because="Small updates of an average are lost in half. Conversions are stricter: `average_meter` is no such thing.",
    examples=("ema", "ema_model", "model_ema", "swa_model", "averaged", "EMA", "SWAModel", "ModelEma", "EmaNet"),
    counterexamples=("schema", "cinema", "swap", "Email"),
    decides=True,
)
AVERAGE_CALLED = Guess(
    name="an average of weights that a conversion moves",
    of="each part of the name of what is called",
    pattern=(
        r"(?:^|_)(?:ema|swa)(?:_|$)|EMA|SWA|Ema(?=[A-Z]|$)|soft_update|polyak|moving_average|update_average"
    ),
    because="Averages are updated once per window, behind the step.",
    examples=(
        "ema", "model_ema", "ema_model", "swa_model", "EMA", "SWAModel", "ModelEma", "EmaNet", "soft_update", "polyak",
        "moving_average", "update_average",
    ),
    counterexamples=("average_meter", "schema", "swap"),
)  # fmt: skip
AVERAGING = Guess(
    name="a method that updates an average",
    of="the last name of what is called",
    pattern=r"^(?:update\w*|step|accumulate|soft_update\w*|\w*polyak\w*|__call__|\w*moving_average\w*)$",
    because="Other methods of averages read them.",
    examples=(
        "update", "step", "accumulate", "soft_update", "polyak_update", "__call__", "update_moving_average",
        "exponential_moving_average",
    ),
    counterexamples=("eval", "state_dict", "steps"),
)  # fmt: skip
COUNTS_STEPS = Guess(
    name="a counter of steps",
    of="what is counted up in a loop over batches",
    pattern=(
        r"(?:^|\.)(?:(?:global|optim\w*|update|training)_steps?|steps?_(?:count|done)|num_updates|n_updates)$"
    ),
    because="It counts steps of the optimizer, of which there are fewer once gradients are accumulated.",
    examples=(
        "global_step", "self.global_step", "optimizer_steps", "update_step", "training_step", "step_count",
        "steps_done", "num_updates", "n_updates",
    ),
    counterexamples=("step", "batch_idx", "i"),
)  # fmt: skip

# Micro-batches

COUNTS_MICRO_BATCHES = Guess(
    name="the number of micro-batches",
    of="a divisor, and any name that may be one",
    pattern=r"(?i)accum|grad_acc|acc_steps|accu_step|update_freq|micro_?batches|num_micro",
    because="A loss divided by it is a share. In headers of loops shorter words will do.",
    examples=(
        "accumulation_steps", "grad_acc", "acc_steps", "accu_steps", "update_freq", "microbatches", "num_micro",
    ),
    counterexamples=("accuracy", "batch_size", "micro_loss", "steps"),
    decides=True,
)  # fmt: skip
NUMBER_OF_MICRO_BATCHES = Guess(
    name="the number of micro-batches, which a loss is multiplied by",
    of="a parameter or an attribute that a loss is multiplied by",
    pattern=(
        r"(?i)(?:^|_)(?:n|num|number)_(?:\w+_)?accum\w*$|accum\w*_?(?:steps?|iters?|freq|batches)$|grad_acc_steps$"
        r"|num_micro_?batches$"
    ),
    because="A loss is divided by it, so that to multiply by it is the other way round. Weights are left alone.",
    examples=("n_accumulation", "max_num_accum", "num_grad_accum", "number_accumulated", "accumulation_steps",
              "accum_iter", "accum_freq", "accumulate_batches", "grad_acc_steps", "num_microbatches"),
    counterexamples=("accum_weight", "accuracy", "steps", "inv_accumulation"),
    decides=True,
)  # fmt: skip
SAYS_MICRO_BATCHES = Guess(
    name="the sign of a loop over micro-batches",
    of="a name in the header of a loop",
    pattern=r"(?i)accum|micro|grad_acc|acc_step|accu_step|update_freq|virtual",
    because=(
        "Only of such a loop a whole round is known to be a window. `micro` and `virtual` would take too much for a "
        "number elsewhere."
    ),
    examples=("accum_iter", "micro_batch", "grad_acc", "acc_step", "accu_step", "update_freq", "virtual_batches"),
    counterexamples=("accuracy", "batch", "loader"),
    decides=True,
)
ENDS_WINDOW = Guess(
    name="a flag that tells the last micro-batch of a window",
    of="a parameter that is a condition",
    pattern=r"(?i)update|accum|bound|sync|apply_?grad|(?:do|take)_?step",
    because="Callers compute such flags and hand them to the function that steps.",
    examples=(
        "update_grad", "accumulating", "is_boundary", "sync_gradients", "apply_gradient", "do_step", "takeStep",
    ),
    counterexamples=("training", "enabled", "last", "step"),
    decides=True,
)  # fmt: skip
INSIDE_WINDOW = Guess(
    name="a flag that tells the other micro-batches",
    of="a parameter that is such a flag",
    pattern=r"(?i)accumulating",
    because="Its sense is the other way round.",
    examples=("is_accumulating",),
    counterexamples=("accumulate", "update"),
    decides=True,
)
MAY_SKIP_SYNC = Guess(
    name="what switches synchronisation off",
    of="the text of the program",
    pattern=r"no_sync|require_backward_grad_sync|no_backward_sync|fabric|accelerat",
    because="Frameworks do it for the loop they are given.",
    examples=(
        "model.no_sync()", "require_backward_grad_sync", "self.no_backward_sync()", "fabric.backward(loss)",
        "accelerator",
    ),
    counterexamples=("all_reduce", "synchronize"),
)  # fmt: skip
PASSES_ON = Guess(
    name="what goes over what it is given",
    of="the function in the header of a loop",
    pattern=r"(?:enumerate|tqdm|iter)$",
    because="Progress bars of many libraries end in `tqdm`.",
    examples=("builtins.enumerate", "tqdm.auto.tqdm", "builtins.iter"),
    counterexamples=("zip", "iterate", "range"),
    decides=True,
    known=("builtins.", "tqdm."),
)
PROGRESS_BAR = Guess(
    name="a progress bar",
    of="the function in the header of a loop, in a conversion",
    pattern=r"tqdm|track|trange|progress_bar",
    because="A conversion looks for the length of what it goes over.",
    examples=("tqdm_notebook", "track", "trange", "progress_bar"),
    counterexamples=("enumerate", "zip", "range"),
)
EPOCHS = Guess(
    name="a loop over epochs",
    of="a name in the header of a loop over a range",
    pattern=r"(?i)epoch",
    because="There are no batches in such a loop to accumulate over.",
    examples=("num_epochs", "EPOCHS"),
    counterexamples=("steps", "iterations"),
)
ONE_EPOCH = Guess(
    name="work that is done once per epoch",
    of="a function that makes a scaler, and its parameters",
    pattern=r"(?i)^(?:cur_|current_)?epoch(?:_idx|_index|_id)?$|(?:train|training|one|run)_?epoch(?!s)",
    because="Whoever calls it does so for every epoch, with the same optimizer.",
    examples=(
        "epoch", "cur_epoch", "current_epoch", "epoch_idx", "epoch_index", "epoch_id", "train_epoch", "training_epoch",
        "do_one_epoch", "run_epoch",
    ),
    counterexamples=("epochs", "train_epochs", "num_epoch", "start_epoch"),
    decides=True,
)  # fmt: skip

# Checkpoints

KEEPS_RECORDS = Guess(
    name="a function that saves, loads or logs",
    of="an unseen function that is passed a scaler or an optimizer",
    pattern=r"^(?!.*_and_)(?:.*_)?(?:save|load|restore|resume|log|print)",
    because="It only reads them and is no part of the protocol. A function that does two things may step, too.",
    examples=("save_checkpoint", "do_save", "load", "restore", "resume", "log_step", "print_stats"),
    counterexamples=("train", "reload", "catalog", "step", "step_and_log"),
)
SUMMED_LOSS = Guess(
    name="a loss that is a sum",
    of="the last name of what is called",
    pattern=r"sum_loss$|loss_sum$",
    because="Sums over micro-batches add up to the sum over the window: nothing has to divide them.",
    examples=("token_sum_loss", "loss_sum"),
    counterexamples=("sum", "summary_loss", "loss_summary"),
)
COUNTS_WINDOW = Guess(
    name="a number of items in a window",
    of="a parameter that a loss gets",
    pattern=r"(?i)^(?:num|n|total|global)_(?:\w+_)?(?:tokens|items)(?:_|$)|denom|normalizer$",
    because="A sum over a micro-batch, divided by the items of all of them, needs no other division.",
    examples=(
        "num_items_in_batch",
        "n_tokens",
        "total_tokens",
        "global_valid_tokens",
        "loss_denominator",
        "normalizer",
    ),
    counterexamples=("tokens", "num_classes", "target_tokens", "items", "total_items2"),
)
SETS_RATES = Guess(
    name="a function that sets or reads learning rates",
    of="an unseen function that is passed an optimizer",
    pattern=r"^(?!.*(?:_and_|step))(?:.*_)?(?:lrs?|learning_rates?)(?:_.*)?$",
    because="It touches no gradient. A function that steps as well says so.",
    examples=("get_lr", "lrs", "adjust_learning_rate", "learning_rates_of", "lr_warmup"),
    counterexamples=("clip", "step_lr", "set_lr_and_clip", "scale_gradients"),
)
SAVES = Guess(
    name="a function that saves",
    of="the whole name of what is called",
    pattern=r"(?i)save|checkpoint|ckpt|snapshot|dump|persist|serial|(?<!re)store(?!d)",
    because="State that reaches it is saved, state that reaches nothing of the kind is not. `restore` loads.",
    examples=("save_model", "checkpoint", "write_ckpt", "snapshot", "dump", "persist", "serialize", "store"),
    counterexamples=("restore", "restored", "stored", "append"),
    decides=True,
    known=("torch.save", "pickle.dump"),
)
GIVES_STATE = Guess(
    name="what gives out state to be saved",
    of="a function that returns state, or what it is put into",
    pattern=r"(?i)state_?dict|checkpoint|ckpt|snapshot|get_?state|dump|serial|save",
    because="Its unseen caller saves its result.",
    examples=("state_dict", "checkpoint", "ckpt", "snapshot", "get_state", "dump", "serialize", "save_dict"),
    counterexamples=("forward", "state", "config"),
    decides=True,
    known=("state_dict",),
)
LOADS = Guess(
    name="a function that loads",
    of="the last name of what is called",
    pattern=r"(?i)load|resume|restor",
    because="It restores its argument.",
    examples=("load_checkpoint", "resume", "restore"),
    counterexamples=("save", "step"),
    decides=True,
)
SAVES_ONLY = Guess(
    name="a function that saves and does not restore",
    of="the last name of a callee that is passed a scaler",
    pattern=r"^save",
    because="Others may do both.",
    examples=("save_checkpoint",),
    counterexamples=("load", "checkpoint"),
)
LOOKS_ONLY = Guess(
    name="a function that only looks",
    of="the last name of a callee that is passed a scaler",
    pattern=r"^(?:print|isinstance|hasattr|type|id|bool|str|repr|format|info|debug|warning|add_scalar|\w+_logging"
    r"|log_(?!and_)\w+)$",
    because="Built-in functions and those that log keep nothing.",
    examples=(
        "print", "isinstance", "hasattr", "type", "id", "bool", "str", "repr", "format", "info", "debug", "warning",
        "add_scalar", "callback_logging", "log_metrics",
    ),
    counterexamples=("save", "log", "printer", "log_and_save"),
)  # fmt: skip
LOOKS_AT_MODEL = _one_of(
    "print isinstance super type str id watch hasattr",
    name="a function that only looks at a model",
    of="the last name of a callee that is passed a model, in a conversion",
    because="Built-in functions, and `watch` of experiment trackers, do not run it.",
    counterexamples=("train", "fit", "debug"),
)
SAVES_IN_LOOP = Guess(
    name="a call that saves a checkpoint",
    of="the whole name of what is called, in a conversion",
    pattern=r"(?:^|[._])save(?:_\w*(?:checkpoint|ckpt|model|state|snapshot)\w*)?$",
    because="A checkpoint inside a window lacks its gradients. Pictures and tables are saved in loops, too.",
    examples=(
        "save", "torch.save", "do_save", "save_checkpoint", "save_ckpt", "save_model", "save_state", "save_snapshot",
    ),
    counterexamples=("save_image", "savefig", "saver"),
)  # fmt: skip
OPTIMIZER_ENTRY = Guess(
    name="the optimizer's entry in a checkpoint",
    of="a key that a fix writes anew for the scaler",
    pattern=r"opt(?:im(?:i[sz]er)?)?",
    because="The scaler is saved beside it and is called after it.",
    examples=("optimizer_state", "optimiser", "optim", "opt_g"),
    counterexamples=("model", "epoch"),
)
OPTIMIZER_FILE = Guess(
    name="the optimizer's file",
    of="a path that a fix writes anew for the scaler",
    pattern=r"(?<![A-Za-z])opt(?:im(?:i[sz]er)?)?(?![A-Za-z])",
    because="A path has other words, so that only a whole one counts.",
    examples=("out/optimizer.pt", "optimiser.pt", "optim.bin", "opt_3.pt"),
    counterexamples=("options.pt", "adopt.pt", "model.pt"),
)

# Switches

ASKS_FOR_BFLOAT16 = Guess(
    name="a flag for bfloat16",
    of="the name or value of what switches a scaler",
    pattern=r"(?i)(?:\b|_)(?:bf16|bfloat16)(?:\b|_)",
    because="A scaler that is on because bfloat16 was asked for has nothing to scale.",
    examples=("bf16", "use_bf16", "bf16_full", "bfloat16", "torch.bfloat16"),
    counterexamples=("fp16", "amp"),
    decides=True,
)
ASKS_FOR_FLOAT16 = Guess(
    name="a flag for float16",
    of="the name or value of what switches a scaler",
    pattern=r"(?i)(?:\b|_)(?:fp16|float16|half|16)(?:\b|_)",
    because="A scaler is right where float16 was asked for besides.",
    examples=("fp16", "use_fp16", "fp16_opt", "float16", "half", "precision_16", "torch.float16"),
    counterexamples=("bf16", "bfloat16", "amp"),
)
CHOOSES_PRECISION = Guess(
    name="a setting that chooses the precision",
    of="a condition decided before a region",
    pattern=r"(?i)(?:\b|_)amp|autocast|precision|mix|dtype|float|half|16",
    because="What such a setting leads to may agree with what switches the scaler.",
    examples=("amp", "use_amp", "autocast", "precision", "mixed", "dtype", "as_float", "half", "bf16"),
    counterexamples=("evaluate", "rank", "log_interval", "sample", "debug"),
)
OTHER_MATTERS = Guess(
    name="a flag about other matters",
    of="what switches a region or a scaler",
    pattern=r"(?i)device|cuda|gpu|cpu|scal",
    because="Such a flag is not set by a user as two flags for precision are, so that both may well agree.",
    examples=("device_type", "use_cuda", "gpu", "cpu_only", "scaler_enabled"),
    counterexamples=("use_amp", "fp16"),
)
MINDS_AUTOCAST = Guess(
    name="something to do with autocast",
    of="any name in a function, class or statement",
    pattern=r"(?i)autocast",
    because="Code that names autocast, by whatever helper, can do right by it.",
    examples=("is_autocast_enabled", "maybe_autocast", "AutocastContext"),
    counterexamples=("cast", "auto_fp16"),
)
CASTER = Guess(
    name="a decorator that casts",
    of="any name in what calls a custom autograd function",
    pattern=r"custom_[fb]wd|(?:float|half)_function|force_fp32|auto_fp16",
    because="Decorators of PyTorch, apex and mmcv convert the arguments. Projects copy them.",
    examples=("custom_fwd", "float_function", "half_function", "force_fp32", "auto_fp16"),
    counterexamples=("function", "fp16", "cast"),
)
HARMLESS_CONTEXT = _one_of(
    "Console File Join Live Lock Manager NamedTemporaryFile Pool ProcessPoolExecutor Progress RLock Stream "
    "SummaryWriter TemporaryDirectory Thread ThreadPool ThreadPoolExecutor Timer average_parameters catch_warnings "
    "cond connect cursor detect_anomaly device ema_scope emit_nvtx file fork_rng join lock logging_redirect_tqdm "
    "memory_snapshot no_sync open patch profile progress range record_function record save_on_cpu sdp_kernel "
    "sdpa_kernel span start_run stream summary_writer tempdir time timeit timer tqdm trange zip",
    name="a context manager without autocast",
    of="the last name of an unseen context",
    because="Any other unseen context may enter a region. These names never do.",
    counterexamples=("autocast", "amp_context", "precision", "ctx", "open_amp"),
)

# Kernels

KERNEL = Guess(
    name="a kernel",
    of="the qualified name of a function that was imported by itself",
    pattern=r"(?:^|[._])(?:_?C|ext|cuda|gpu|triton|kernels?|fwd|forward)(?:[._]|$)",
    because="What is imported from an extension is no Python, and autocast does not convert for it.",
    examples=(
        "pkg._C.run", "C", "pkg.ext.run", "nms_cuda", "cuda.nms", "gpu_nms", "ops.triton.softmax", "kernels.nms",
        "flash_fwd", "sigmoid_forward",
    ),
    counterexamples=("pkg.utils.run", "context", "forwarded", "barracuda"),
    decides=True,
)  # fmt: skip

# Conversions

ABOUT_MODELS = Guess(
    name="a method that runs no forward pass",
    of="a method of a model, in a conversion",
    pattern=(
        r"^(?:parameters|named_\w+|children|modules|buffers|train|eval|to|cuda|cpu|float|half|zero_grad|apply|compile"
        r"|share_memory|requires_grad_|(?:load_)?state_dict|no_sync|save\w*|load\w*|register_\w+|init\w*|get_\w+"
        r"|set_\w+|clip_grad_norm_|configure_\w+|reset_\w+|update_\w+|(?:un)?freeze\w*|count_\w+|log_(?!prob|likelihood)\w+)$"
    ),
    because="Other methods of a model are taken for forward passes and have to be inside of a region.",
    examples=(
        "parameters", "named_modules", "children", "modules", "buffers", "train", "eval", "to", "cuda", "cpu", "float",
        "half", "zero_grad", "apply", "compile", "share_memory", "requires_grad_", "state_dict", "no_sync",
        "save_pretrained", "load_pretrained", "register_buffer", "init_weights", "get_config", "set_mode",
        "clip_grad_norm_", "configure_optimizers", "reset_parameters", "update_ema", "freeze", "count_parameters",
        "log_metrics",
    ),
    counterexamples=("forward", "generate", "encode", "get", "predict", "log_prob", "log_likelihood"),
)  # fmt: skip
ABOUT_GRADIENTS = Guess(
    name="work on gradients",
    of="the statement around a loop over master parameters of apex",
    pattern=r"(?i)grad|clip|norm",
    because="Only gradients have to be unscaled first, parameters do not.",
    examples=("p.grad.data.mul_(2)", "clip_(params)", "total_norm = norm(params)"),
    counterexamples=("p.data.clamp_(-1, 1)", "save(params)"),
)
CLIPS = Guess(
    name="clipping of gradients",
    of="the last name of what is called, in a conversion",
    pattern=r"clip_grad|^_*rescale_grad|^get_total_norm$",
    because="Gradients have to be unscaled before.",
    examples=("clip_grad_norm_", "dispatch_clip_grad", "rescale_gradients", "get_total_norm"),
    counterexamples=("clip", "grad_norm"),
)
CLIPS_GRADIENTS = Guess(
    name="what clips gradients",
    of="an unseen function or method, called between a backward pass on a scaled loss and the step",
    pattern=r"(?i)^_*(?:do_|apply_|dispatch_|adaptive_)?(?:clip\w*grad|grad\w*clip)",
    because="Gradients have to be unscaled before.",
    examples=("do_clip_grads", "apply_gradient_clipping", "dispatch_clip_grad", "adaptive_clip_grad", "clip_gradients"),
    counterexamples=("before_gradient_clipping", "build_gradient_clipper", "clip_model", "graduate"),
    decides=True,
)
CLIPPER = Guess(
    name="what clips the parameters' gradients",
    of="an unseen function or method that is passed parameters between a scaled backward pass and the step",
    pattern=r"^_?clip(?:_?fn|_?func|per|_params|_parameters|_norm|_norm_)?$",
    because="To clip parameters themselves makes little sense there.",
    examples=("clip", "clip_fn", "clip_func", "clipper", "clip_params", "clip_parameters", "clip_norm", "clip_norm_"),
    counterexamples=("clip_model", "eclipse", "clip_text"),
    decides=True,
)
MEASURES_GRADIENTS = Guess(
    name="what measures gradients",
    of="an unseen function or method that is passed parameters or a model between a scaled backward pass and the step",
    pattern=r"(?i)^_*(?:(?:get|comput|calc|log|record|report|track|monitor|plot|print|total|global|measur)[a-z]*_?){0,2}"
    r"grad(?:ient)?s?_?(?:norm|stat|hist|magnitude|flow)\w*$|^_*(?:log|record|plot|track|monitor|print)_?grad(?:ient)?s?$",
    because="Gradients have to be unscaled before, or what is measured is the loss scale.",
    examples=(
        "get_grad_norm", "compute_gradient_norm_", "calc_grad_norm", "log_gradient_stats", "record_grad_norm",
        "report_grad_norm", "track_grad_norm", "monitor_grad_norm", "plot_grad_flow", "print_grad_hist",
        "total_grad_norm", "global_grad_norm", "measure_grad_magnitude", "gradNorms", "log_gradients",
        "record_gradients", "plot_grads", "track_gradients", "monitor_gradients", "print_gradients",
    ),
    counterexamples=("clip_grad_norm_", "log_metrics", "set_grad_norm", "log_grad_scale", "gradient_checkpointing"),
    decides=True,
)  # fmt: skip
PARAMETERS = Guess(
    name="parameters of a model",
    of="any name in what a loop goes over",
    pattern=r"param",
    because="The gradient of what such a loop binds is one of a parameter, which a step unscales.",
    examples=("parameters", "trainable_params"),
    counterexamples=("inputs", "args", "weights"),
)

GUESSES = tuple(value for value in list(globals().values()) if isinstance(value, Guess))
"""All guesses, in the order of this file."""
