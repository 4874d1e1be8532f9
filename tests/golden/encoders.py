"""encoders.json and encoders/: trainings of small BERTs with each head, step by step, without randomness.

Reference: the models of `transformers` in f32, on random ids with padding and two segments. Weights are such that the usual
mistakes can be told apart: the script stops unless each of them changes the outputs by at least MISSES tolerances.
"""

import json
import os
import sys
import tempfile

sys.path.append(sys.path.pop(0))  # torch must import the standard profile module, not the script in this folder

import peft
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from transformers.models.bert import modeling_bert as bert

from golden_io import FOLDER, flow, number, numbers, tensor, write

STEPS, BATCH, LENGTH, RATE, CLIP = 10, 3, 9, 0.01, 1.0
TOLERANCE = {"loss": 1e-4, "outputs": 1e-5}
MISSES = 5
VOCABULARY, CLASSES, IGNORED = 29, 3, -100
# The matrices of LoRA, pooler and classifier are trained, the rest is frozen.
LORA = {"rank": 3, "alpha": 7, "modules_to_save": ["pooler", "classifier"]}
SIZES = {"layers": 2, "heads": 4, "width": 16, "mlp_width": 40, "context": 12, "vocabulary": 31, "segments": 3}


class MeanPooled(nn.Module):
    """The mean of the vectors of the visible tokens, as sentence-transformers pools."""

    def __init__(self, config):
        super().__init__()
        self.bert = transformers.BertModel(config, add_pooling_layer=False)

    def forward(self, input_ids, attention_mask, token_type_ids):
        x = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state
        visible = attention_mask[:, :, None].to(x.dtype)
        return (x * visible).sum(1) / visible.sum(1)


HEADS = {
    "classification": transformers.BertForSequenceClassification,
    "token_classification": transformers.BertForTokenClassification,
    "masked_lm": transformers.BertForMaskedLM,
    "regression": transformers.BertForSequenceClassification,
    "lora": transformers.BertForSequenceClassification,
    "none": MeanPooled,
}


def name_here(name):
    """A parameter of PEFT under its name in the recipe's model."""
    name = name.removeprefix("base_model.model.").replace(".base_layer", "").replace(".modules_to_save.default", "")
    return name.replace(".default", "")


def with_adapter(model, alpha=LORA["alpha"]):
    config = peft.LoraConfig(
        r=LORA["rank"], lora_alpha=alpha, target_modules=["query", "value"], modules_to_save=LORA["modules_to_save"]
    )
    return peft.get_peft_model(model, config)


def config_of(head):
    # Logits of rows without a token would count in the loss of masked_lm.
    rows = VOCABULARY if head == "masked_lm" else SIZES["vocabulary"]
    return transformers.BertConfig(
        vocab_size=rows, hidden_size=SIZES["width"], num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"], intermediate_size=SIZES["mlp_width"],
        max_position_embeddings=SIZES["context"], type_vocab_size=SIZES["segments"], hidden_dropout_prob=0,
        attention_probs_dropout_prob=0, num_labels=2 if head == "regression" else CLASSES, attn_implementation="eager",
    )  # fmt: skip


def data_of(head):
    """Samples of several lengths: padding has id 0 and is not visible; the second part of each is segment 1 or 2."""
    generator = torch.Generator().manual_seed(5)
    draw = lambda low, high, *shape: torch.randint(low, high, shape, generator=generator)
    samples = STEPS * BATCH
    lengths, places = draw(3, LENGTH + 1, samples, 1), torch.arange(LENGTH)
    mask = (places < lengths).long()
    ids = draw(1, VOCABULARY, samples, LENGTH) * mask
    segments = (places >= lengths // 2).long() * mask * draw(1, 3, samples, 1)
    if head in ("classification", "lora"):
        labels = draw(0, CLASSES, samples)
    elif head in ("token_classification", "masked_lm"):
        labels = draw(0, CLASSES if head == "token_classification" else VOCABULARY, samples, LENGTH)
        labels[(mask == 0) | (draw(0, 3, samples, LENGTH) == 0)] = IGNORED
    else:
        labels = torch.randn(samples, 2 if head == "regression" else SIZES["width"], generator=generator)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}, labels


def initial_state(model):
    """Random weights of all parameters. Biases and norms are not 0 and 1; embeddings are small, so that eps matters."""
    generator = torch.Generator().manual_seed(11)
    state = {}
    for name, p in model.named_parameters():
        if ".original_module." in name:
            continue  # of a module that is trained
        name = name_here(name)
        noise = torch.randn(p.shape, generator=generator)
        if name.endswith("LayerNorm.weight"):
            state[name] = 1 + 0.3 * noise
        else:
            state[name] = (0.05 if "_embeddings" in name else 0.35) * noise
    return state


def outputs_of(model, inputs, rows):
    outputs = model(**{name: x[rows] for name, x in inputs.items()})
    return outputs if isinstance(outputs, torch.Tensor) else outputs.logits


def loss_of(outputs, labels):
    if labels.is_floating_point():
        return F.mse_loss(outputs, labels.to(outputs.dtype))
    return F.cross_entropy(outputs.flatten(0, -2), labels.flatten(), ignore_index=IGNORED)


def new_model(head, initial, alpha=LORA["alpha"]):
    model = HEADS[head](config_of(head))
    if head == "lora":
        model = with_adapter(model, alpha)
    if initial is not None:
        for name, p in model.named_parameters():
            if ".original_module." not in name:
                p.data.copy_(initial[name_here(name)])
    return model


def train(head, initial, inputs, labels, dtype):
    model = new_model(head, initial).to(dtype)
    first = outputs_of(model, inputs, slice(0, BATCH)).detach()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.1, foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = loss_of(outputs_of(model, inputs, rows), labels[rows])
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(trained, CLIP).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms, first


def mistakes(head):
    """The usual ones: functions that change a model or its inputs."""

    def each(kind, change):
        return lambda model, inputs: [change(m) for m in model.modules() if isinstance(m, kind)]

    def moved(model, inputs):
        model.bert.embeddings.position_ids = model.bert.embeddings.position_ids + 2
        model.bert.embeddings.register_buffer("position_ids", model.bert.embeddings.position_ids % SIZES["context"])

    def without(name, value):
        return lambda model, inputs: inputs.update({name: torch.full_like(inputs[name], value)})

    def transposed(kind, name):  # a layer with a square weight
        def change(module):
            layer = getattr(module, name)
            layer.weight.data = layer.weight.data.T.contiguous()

        return each(kind, change)

    def set_gelu(module):
        module.intermediate_act_fn = nn.GELU(approximate="tanh")

    both = {
        "tanh gelu": each(bert.BertIntermediate, set_gelu),
        "eps 1e-5": each(nn.LayerNorm, lambda m: setattr(m, "eps", 1e-5)),
        "eps 1e-6": each(nn.LayerNorm, lambda m: setattr(m, "eps", 1e-6)),
        "moved positions": moved,
        "no segments": without("token_type_ids", 0),
        "no mask": without("attention_mask", 1),
        "query transposed": transposed(bert.BertSelfAttention, "query"),
        "key transposed": transposed(bert.BertSelfAttention, "key"),
        "value transposed": transposed(bert.BertSelfAttention, "value"),
        "attention.output transposed": transposed(bert.BertSelfOutput, "dense"),
    }
    if head in ("classification", "regression"):
        both["pooler transposed"] = transposed(bert.BertPooler, "dense")
        both["no tanh"] = each(bert.BertPooler, lambda m: setattr(m, "activation", nn.Identity()))
    if head == "masked_lm":
        both["transform transposed"] = transposed(bert.BertPredictionHeadTransform, "dense")
        both["no bias"] = lambda model, inputs: model.cls.predictions.bias.data.zero_()
    return both


def check_mistakes(head, initial, inputs, outputs):
    if head == "lora":
        got = outputs_of(new_model(head, initial, alpha=LORA["rank"]), inputs, slice(0, BATCH))
        miss = (got - outputs).abs().max().item() / TOLERANCE["outputs"]
        assert miss >= MISSES, f"{head}: no scale misses by {miss} tolerances only"
        return
    for mistake, change in mistakes(head).items():
        model, changed = new_model(head, initial), dict(inputs)
        change(model, changed)
        got = outputs_of(model, changed, slice(0, BATCH))
        miss = (got - outputs).abs().max().item() / TOLERANCE["outputs"]
        assert miss >= MISSES, f"{head}: {mistake} misses by {miss} tolerances only"
        print(f"{head}: {mistake} misses by {miss:.0f} tolerances")


def files_of_peft(initial):
    """The tensors and settings that PEFT writes for the adapter."""
    with tempfile.TemporaryDirectory() as folder:
        new_model("lora", initial).save_pretrained(folder)
        with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as file:
            config = json.load(file)
        tensors = load_file(os.path.join(folder, "adapter_model.safetensors"))
    keys = ("bias", "fan_in_fan_out", "inference_mode", "lora_alpha", "lora_dropout", "peft_type", "r", "use_rslora")
    return {
        "tensors": {name: list(x.shape) for name, x in sorted(tensors.items())},
        "config": {key: config[key] for key in keys} | {"target_modules": sorted(config["target_modules"])},
    }


def recipe_of(head):
    sizes = SIZES | ({"vocabulary": VOCABULARY} if head == "masked_lm" else {})
    if head == "lora":
        sizes = sizes | {"lora": LORA}
    return {
        "schema_version": 1,
        "name": head,
        "model": {"type": "encoder", "head": "classification" if head == "lora" else head} | sizes | {"init_from": f"{head}.safetensors"},
        "data": {
            "train": {"format": "text", "path": "none.txt", "sequence_length": LENGTH},
            "batch_size": BATCH,
            "shuffle": False,
        },
        "optimizer": {"type": "adamw", "lr": RATE, "weight_decay": 0.1},
        "train": {"steps": STEPS, "clip_grad_norm": CLIP},
    }


def case(head):
    inputs, labels = data_of(head)
    initial = initial_state(new_model(head, None))
    losses, norms, outputs = train(head, initial, inputs, labels, torch.float32)
    exact, _, exact_outputs = train(head, initial, inputs, labels, torch.float64)
    noise = max(abs(a - b) for a, b in zip(losses, exact))
    assert noise < TOLERANCE["loss"] / 4 and (outputs - exact_outputs).abs().max() < TOLERANCE["outputs"] / 2
    check_mistakes(head, initial, inputs, outputs)
    folder = os.path.join(FOLDER, "encoders")
    with open(os.path.join(folder, f"{head}.yaml"), "w", encoding="utf-8") as file:
        file.write("# Written by ../encoders.py; its data and what each step gives are in ../encoders.json.\n")
        file.writelines(f"{key}: {flow(value)}\n" for key, value in recipe_of(head).items())
    path = os.path.join(folder, f"{head}.safetensors")
    save_file(initial, path)
    os.chmod(path, 0o644)
    figures = {
        "name": head,
        "noise": {"loss": number(noise)},
        "loss": numbers(losses),
        "grad_norm": numbers(norms),
        "classes": {"masked_lm": VOCABULARY}.get(head, CLASSES),
        "inputs": {name: tensor(x) for name, x in inputs.items()},
        "labels": tensor(labels),
        "outputs": tensor(outputs),
    }
    return figures | ({"adapter": files_of_peft(initial)} if head == "lora" else {})


if __name__ == "__main__":
    os.makedirs(os.path.join(FOLDER, "encoders"), exist_ok=True)
    write(
        "encoders.json",
        "Losses and gradient norms of each step, and outputs of the first batch before the first step.",
        [case(head) for head in HEADS],
        versions=(transformers, peft),
        vocabulary=VOCABULARY,
        ignored=IGNORED,
    )
