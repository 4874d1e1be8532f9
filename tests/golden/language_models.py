"""language_models.json and language/: trainings of small language models, step by step, without randomness.

Reference: models of `transformers`, or the same computation in plain PyTorch where it has no such option, in f32, windows
of a text in file order. Weights are large enough to tell the usual mistakes apart: the script stops unless each of them
changes the first losses or logits by at least MISSES tolerances.
"""

import os
import sys

sys.path.append(sys.path.pop(0))  # torch must import the standard profile module, not the script in this folder

import peft
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from torch import nn

from golden_io import FOLDER, flow, number, numbers, tensor, write

STEPS, BATCH, LENGTH, RATE = 10, 3, 12, 0.01
TOLERANCE = {"loss": 1e-4, "logits": 1e-5}
MISSES = 5
TEXT = (
    "the cat sat on the mat, and the dog sat on the log.\n"
    "a bird in the hand is worth two in the bush;\n"
    "the early bird catches the worm, but the second mouse gets the cheese!\n"
    "all that glitters is not gold. who said so? a man of the sea.\n"
) * 3
WIDTH, HEADS, LAYERS = 16, 4, 2
LLAMA_EPS = 1e-6

GROUPED_LLAMA = {
    "type": "llama",
    "layers": LAYERS,
    "heads": HEADS,
    "kv_heads": 2,
    "width": WIDTH,
    "mlp_width": 40,
    "rope_theta": 500,
}
SQUARE_LLAMA = {"type": "llama", "layers": LAYERS, "heads": HEADS, "width": WIDTH, "mlp_width": WIDTH}

CASES = {
    "gpt_tanh": {"model": {"layers": LAYERS, "heads": HEADS, "width": WIDTH, "activation": "gelu_tanh"}},
    "gpt_nano": {
        "model": {
            "layers": LAYERS,
            "heads": HEADS,
            "width": WIDTH,
            "activation": "gelu",
            "bias": False,
            "tie_weights": False,
            "mlp_width": 40,
            "context": 20,
        }
    },
    # The matrices of LoRA and the last norm are trained, the rest is frozen.
    "gpt_lora": {
        "model": {
            "layers": LAYERS,
            "heads": HEADS,
            "width": WIDTH,
            "activation": "gelu_tanh",
            "lora": {"rank": 2, "alpha": 5, "modules_to_save": ["ln_f"]},
        }
    },
    "llama": {"model": GROUPED_LLAMA},
    # Of the two frequencies of a head, one stays and one is interpolated.
    "llama3": {
        "model": GROUPED_LLAMA
        | {
            "rope_scaling": {
                "type": "llama3",
                "factor": 8,
                "low_freq_factor": 1,
                "high_freq_factor": 4,
                "original_context": 300,
            }
        }
    },
    "llama_linear": {"model": SQUARE_LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.5}}},
    "llama_tied": {"model": SQUARE_LLAMA | {"context": 20, "norm_eps": 1e-5, "tie_weights": True}},
}


def windows(text):
    """Samples of LENGTH tokens, whose labels are the next tokens; characters are numbered in sorted order."""
    characters = sorted(set(text))
    ids = torch.tensor([characters.index(c) for c in text])
    count = (len(ids) - 1) // LENGTH
    cut = lambda first: torch.stack([ids[first + i * LENGTH : first + (i + 1) * LENGTH] for i in range(count)])
    return cut(0), cut(1), len(characters)


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads, self.scaled, self.masked = heads, True, True
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.c_attn(x).split(c, 2))
        scores = q @ k.transpose(2, 3) * ((c // self.heads) ** -0.5 if self.scaled else 1)
        if self.masked:
            scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        return self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Mlp(nn.Module):
    def __init__(self, width, hidden, bias, approximate):
        super().__init__()
        self.approximate = approximate
        self.c_fc, self.c_proj = nn.Linear(width, hidden, bias=bias), nn.Linear(hidden, width, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate=self.approximate))


class Block(nn.Module):
    def __init__(self, width, heads, hidden, bias, approximate):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width, bias=bias), Attention(width, heads, bias)
        self.ln_2, self.mlp = nn.LayerNorm(width, bias=bias), Mlp(width, hidden, bias, approximate)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """GPT-2 with the options of nanoGPT."""

    def __init__(self, spec, vocabulary):
        super().__init__()
        width, bias = spec["width"], spec.get("bias", True)
        approximate = {"gelu": "none", "gelu_tanh": "tanh"}[spec["activation"]]
        hidden = spec.get("mlp_width", 4 * width)
        blocks = [Block(width, spec["heads"], hidden, bias, approximate) for _ in range(spec["layers"])]
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocabulary, width),
                "wpe": nn.Embedding(spec.get("context", LENGTH), width),
                "h": nn.ModuleList(blocks),
                "ln_f": nn.LayerNorm(width, bias=bias),
            }
        )
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if spec.get("tie_weights", True):
            self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, ids):
        x = self.transformer["wte"](ids) + self.transformer["wpe"](torch.arange(ids.shape[1]))
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))


def gpt2_config(vocabulary):
    return transformers.GPT2Config(
        vocab_size=vocabulary, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, activation_function="gelu_new",
    )  # fmt: skip


class AdaptedGpt(nn.Module):
    """GPT2LMHeadModel of transformers with an adapter of PEFT, and the parameter names of the recipe's model."""

    def __init__(self, spec, vocabulary, alpha=None):
        super().__init__()
        lora = spec["lora"]
        config = peft.LoraConfig(
            r=lora["rank"], lora_alpha=alpha or lora["alpha"], target_modules=["c_attn"], fan_in_fan_out=True,
            modules_to_save=lora["modules_to_save"],
        )  # fmt: skip
        self.model = peft.get_peft_model(transformers.GPT2LMHeadModel(gpt2_config(vocabulary)), config)

    def named_parameters(self, **_):
        for name, p in self.model.named_parameters():
            if ".original_module." not in name:
                for part in ("base_model.model.", ".base_layer", ".modules_to_save.default", ".default"):
                    name = name.replace(part, "")
                is_turned = p.dim() == 2 and ".h." in name and ".lora_" not in name
                yield name, p.T if is_turned else p

    def load_state_dict(self, state, strict):
        for name, p in self.named_parameters():
            p.data.copy_(state[name])

    def forward(self, ids):
        return self.model(ids).logits


def scaled(frequency, scaling):
    """A frequency of rotary embeddings; by the number of its periods in the context of the pretraining."""
    if not scaling:
        return frequency
    if scaling["type"] == "linear":
        return frequency / scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    periods = scaling["original_context"] * frequency / (2 * torch.pi)
    if periods < low:
        return frequency / scaling["factor"]
    if periods > high:
        return frequency
    share = (periods - low) / (high - low)
    return (1 - share) * frequency / scaling["factor"] + share * frequency


class LlamaAttention(nn.Module):
    def __init__(self, width, heads, kv_heads, theta, scaling):
        super().__init__()
        self.heads, self.kv_heads, self.theta, self.scaling = heads, kv_heads, theta, scaling
        self.scaled, self.masked, self.halves, self.kv_in_turn = True, True, True, False
        size = kv_heads * (width // heads)
        self.q_proj, self.k_proj = nn.Linear(width, width, bias=False), nn.Linear(width, size, bias=False)
        self.v_proj, self.o_proj = nn.Linear(width, size, bias=False), nn.Linear(width, width, bias=False)

    def rotated(self, x):
        """Pairs are elements i and i + d / 2, or neighbours."""
        half = x.shape[-1] // 2
        frequencies = 1 / self.theta ** (torch.arange(half, dtype=x.dtype) / half)
        frequencies = torch.stack([scaled(f, self.scaling) for f in frequencies])
        angles = torch.outer(torch.arange(x.shape[2], dtype=x.dtype), frequencies)
        a, b = (x[..., :half], x[..., half:]) if self.halves else (x[..., ::2], x[..., 1::2])
        parts = a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()
        return torch.cat(parts, -1) if self.halves else torch.stack(parts, -1).flatten(-2)

    def forward(self, x):
        b, t, c = x.shape
        split = lambda y, heads: y.view(b, t, heads, -1).transpose(1, 2)
        q = self.rotated(split(self.q_proj(x), self.heads))
        k, v = self.rotated(split(self.k_proj(x), self.kv_heads)), split(self.v_proj(x), self.kv_heads)
        groups = self.heads // self.kv_heads
        every = lambda y: y.repeat(1, groups, 1, 1) if self.kv_in_turn else y.repeat_interleave(groups, 1)
        scores = q @ every(k).transpose(2, 3) * (q.shape[-1] ** -0.5 if self.scaled else 1)
        if self.masked:
            scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        return self.o_proj((scores.softmax(-1) @ every(v)).transpose(1, 2).reshape(b, t, c))


class LlamaMlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.activation, self.exchanged = F.silu, False
        self.gate_proj, self.up_proj = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(self.activation(up) * gate if self.exchanged else self.activation(gate) * up)


class LlamaBlock(nn.Module):
    def __init__(self, spec, heads, width, eps):
        super().__init__()
        self.self_attn = LlamaAttention(
            width, heads, spec.get("kv_heads", heads), spec.get("rope_theta", 10000.0), spec.get("rope_scaling")
        )
        self.mlp = LlamaMlp(width, spec["mlp_width"])
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(width, eps), nn.RMSNorm(width, eps)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """LlamaForCausalLM, with the usual mistakes as options."""

    def __init__(self, spec, vocabulary):
        super().__init__()
        width, eps = spec["width"], spec.get("norm_eps", LLAMA_EPS)
        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(vocabulary, width),
                "layers": nn.ModuleList([LlamaBlock(spec, spec["heads"], width, eps) for _ in range(spec["layers"])]),
                "norm": nn.RMSNorm(width, eps),
            }
        )
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if spec.get("tie_weights", False):
            self.lm_head.weight = self.model["embed_tokens"].weight

    def forward(self, ids):
        x = self.model["embed_tokens"](ids)
        for block in self.model["layers"]:
            x = block(x)
        return self.lm_head(self.model["norm"](x))


def build(spec, vocabulary):
    if "lora" in spec:
        return AdaptedGpt(spec, vocabulary)
    return (Llama if is_llama(spec) else Gpt)(spec, vocabulary)


def is_llama(spec):
    return spec.get("type") == "llama"


def initial_state(model):
    """Random weights of all parameters. Biases and norms are not 0 and 1."""
    generator = torch.Generator().manual_seed(11)
    scale = 0.15 if isinstance(model, Llama) else 0.35  # the eps of an RMS norm matters for small vectors
    state = {}
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        is_norm = (".ln_" in name or "norm" in name) and name.endswith("weight")
        state[name] = (1 + 0.3 * noise if is_norm else scale * noise).contiguous()
    return state


def train(model, initial, samples, labels, dtype):
    model.load_state_dict(initial, strict=False)
    model.to(dtype)
    logits = model(samples[:BATCH]).detach()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1, foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(samples[rows]).flatten(0, 1), labels[rows].flatten())
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms, logits


def each(kind, change):
    """Applies a change to each module of a kind."""

    def apply(model):
        for module in model.modules():
            if isinstance(module, kind):
                change(module)

    return apply


def transpose(linear):  # with a square weight
    linear.weight.data = linear.weight.data.T.contiguous()


def mistakes(spec):
    """The usual ones: functions that change a model."""
    return mistakes_of_llama(spec) if is_llama(spec) else mistakes_of_gpt(spec)


def mistakes_of_gpt(spec):
    other = "none" if spec["activation"] == "gelu_tanh" else "tanh"
    return {
        "other gelu": each(Mlp, lambda m: setattr(m, "approximate", other)),
        "eps 1e-6": each(nn.LayerNorm, lambda m: setattr(m, "eps", 1e-6)),
        "no scale": each(Attention, lambda m: setattr(m, "scaled", False)),
        "no mask": each(Attention, lambda m: setattr(m, "masked", False)),
        "other heads": each(Attention, lambda m: setattr(m, "heads", 2)),
        "transposed": each(Attention, lambda m: transpose(m.c_proj)),
    }


def mistakes_of_llama(spec):
    other_eps = 1e-5 if spec.get("norm_eps", LLAMA_EPS) == 1e-6 else 1e-6
    other_theta = 10000.0 if "rope_theta" in spec else 500.0
    found = {
        "neighbours rotated": each(LlamaAttention, lambda m: setattr(m, "halves", False)),
        "other theta": each(LlamaAttention, lambda m: setattr(m, "theta", other_theta)),
        f"eps {other_eps}": each(nn.RMSNorm, lambda m: setattr(m, "eps", other_eps)),
        "gelu": each(LlamaMlp, lambda m: setattr(m, "activation", F.gelu)),
        "gate and up exchanged": each(LlamaMlp, lambda m: setattr(m, "exchanged", True)),
        "no scale": each(LlamaAttention, lambda m: setattr(m, "scaled", False)),
        "no mask": each(LlamaAttention, lambda m: setattr(m, "masked", False)),
        "q_proj transposed": each(LlamaAttention, lambda m: transpose(m.q_proj)),
        "o_proj transposed": each(LlamaAttention, lambda m: transpose(m.o_proj)),
    }
    if "rope_scaling" in spec:
        found["no rope scaling"] = each(LlamaAttention, lambda m: setattr(m, "scaling", None))
    if spec.get("rope_scaling", {}).get("type") == "llama3":
        change = lambda **other: each(LlamaAttention, lambda m: setattr(m, "scaling", m.scaling | other))
        found["linear rope scaling"] = change(type="linear")
        found["no interpolation"] = change(high_freq_factor=1.000001)
    if "kv_heads" in spec:
        found["kv heads 0 1 0 1"] = each(LlamaAttention, lambda m: setattr(m, "kv_in_turn", True))
    else:
        found["k_proj transposed"] = each(LlamaAttention, lambda m: transpose(m.k_proj))
        found["v_proj transposed"] = each(LlamaAttention, lambda m: transpose(m.v_proj))
        found["gate_proj transposed"] = each(LlamaMlp, lambda m: transpose(m.gate_proj))
        found["down_proj transposed"] = each(LlamaMlp, lambda m: transpose(m.down_proj))
    return found


def check_mistakes(name, spec, vocabulary, initial, samples, logits):
    if "lora" in spec["model"]:
        model = AdaptedGpt(spec["model"], vocabulary, alpha=spec["model"]["lora"]["rank"])
        model.load_state_dict(initial, strict=False)
        miss = (model(samples[:BATCH]) - logits).abs().max().item() / TOLERANCE["logits"]
        assert miss >= MISSES, f"{name}: no scale misses by {miss} tolerances only"
        return
    for mistake, change in mistakes(spec["model"]).items():
        model = build(spec["model"], vocabulary)
        model.load_state_dict(initial, strict=False)
        change(model)
        miss = (model(samples[:BATCH]) - logits).abs().max().item() / TOLERANCE["logits"]
        assert miss >= MISSES, f"{name}: {mistake} misses by {miss} tolerances only"
        print(f"{name}: {mistake} misses by {miss:.0f} tolerances")


def check_transformers(spec, vocabulary, initial, samples, logits):
    """Gpt above computes what GPT2LMHeadModel does, whose projections are (in, out)."""
    model = transformers.GPT2LMHeadModel(gpt2_config(vocabulary))
    turn = lambda name, x: x.T if x.dim() == 2 and ".h." in name else x
    model.load_state_dict({name: turn(name, x) for name, x in initial.items()}, strict=False)
    difference = (model(samples[:BATCH]).logits - logits).abs().max().item()
    assert difference < TOLERANCE["logits"] / 2, difference


class HubLlama(transformers.LlamaForCausalLM):
    def forward(self, ids):
        return super().forward(ids).logits


def rope_parameters(spec):
    scaling = spec.get("rope_scaling", {"type": "default"})
    hub = {"type": "rope_type", "original_context": "original_max_position_embeddings"}
    parameters = {hub.get(key, key): float(x) if "factor" in key else x for key, x in scaling.items()}
    return parameters | {"rope_theta": float(spec.get("rope_theta", 10000))}


def check_llama_of_transformers(spec, vocabulary, initial, samples, labels, losses, logits):
    """Llama above computes what LlamaForCausalLM does, in ten steps of training."""
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=spec.get("kv_heads"), intermediate_size=spec["mlp_width"],
        rope_parameters=rope_parameters(spec),
        rms_norm_eps=spec.get("norm_eps", LLAMA_EPS), tie_word_embeddings=spec.get("tie_weights", False),
    )  # fmt: skip
    model = HubLlama(config)
    assert {name for name, _ in model.named_parameters()} == set(initial)
    hub_losses, _, hub_logits = train(model, initial, samples, labels, torch.float32)
    difference = (hub_logits - logits).abs().max().item()
    assert difference < TOLERANCE["logits"] / 2, difference
    difference = max(abs(a - b) for a, b in zip(hub_losses, losses))
    assert difference < TOLERANCE["loss"] / 4, difference


def recipe_of(name, spec):
    return {
        "schema_version": 1,
        "name": name,
        "model": {"type": "gpt"} | spec["model"] | {"init_from": f"{name}.safetensors"},
        "data": {
            "train": {"format": "text", "path": "proverbs.txt", "sequence_length": LENGTH},
            "batch_size": BATCH,
            "shuffle": False,
        },
        "optimizer": {"type": "adamw", "lr": RATE, "weight_decay": 0.1},
        "train": {"steps": STEPS},
        "log": {"every": "1 step"},
    }


def case(name, spec):
    samples, labels, vocabulary = windows(TEXT)
    assert len(samples) >= STEPS * BATCH
    model = build(spec["model"], vocabulary)
    initial = initial_state(model)
    losses, norms, logits = train(model, initial, samples, labels, torch.float32)
    exact, _, exact_logits = train(build(spec["model"], vocabulary), initial, samples, labels, torch.float64)
    noise = max(abs(a - b) for a, b in zip(losses, exact))
    assert noise < TOLERANCE["loss"] / 4 and (logits - exact_logits).abs().max() < TOLERANCE["logits"] / 2
    check_mistakes(name, spec, vocabulary, initial, samples, logits)
    if name == "gpt_tanh":
        check_transformers(spec, vocabulary, initial, samples, logits)
    if is_llama(spec["model"]):
        check_llama_of_transformers(spec["model"], vocabulary, initial, samples, labels, losses, logits)
    folder = os.path.join(FOLDER, "language")
    with open(os.path.join(folder, f"{name}.yaml"), "w", encoding="utf-8") as file:
        file.write("# Written by ../language_models.py; what each step gives is in ../language_models.json.\n")
        file.writelines(f"{key}: {flow(value)}\n" for key, value in recipe_of(name, spec).items())
    path = os.path.join(folder, f"{name}.safetensors")
    save_file(initial, path)
    os.chmod(path, 0o644)
    return {
        "name": name,
        "noise": {"loss": number(noise)},
        "loss": numbers(losses),
        "grad_norm": numbers(norms),
        "lr": numbers(STEPS * [RATE]),
        "vocabulary": vocabulary,
        "ids": samples[0].tolist(),  # of the first sample
        "logits": tensor(logits[0]),
    }


if __name__ == "__main__":
    with open(os.path.join(FOLDER, "language", "proverbs.txt"), "w", encoding="utf-8") as file:
        file.write(TEXT)
    write(
        "language_models.json",
        "Losses and gradient norms of each step, and logits of the first sample before the first step.",
        [case(name, spec) for name, spec in CASES.items()],
        versions=(transformers, peft),
    )
