"""pretrained.json and pretrained/: folders that `transformers` writes for small models, and what these compute.

`minilm.json`: embeddings of sentences by all-MiniLM-L6-v2, if the folder of that model is given as the argument.
"""

import os
import shutil
import sys

sys.path.append(sys.path.pop(0))  # torch must import the standard profile module, not the script in this folder

import torch
import transformers

from golden_io import FOLDER, tensor, write

IDS = [[4, 9, 2, 7, 7, 1, 3, 11], [5, 1, 12, 8, 10, 2, 6, 4]]
VISIBLE = [[1] * 8, [1] * 5 + [0] * 3]
SENTENCES = ["A man is eating food.", "The girl is carrying a baby through the crowded station."]


def small_gpt2():
    """Conv1D weights, in shards."""
    config = transformers.GPT2Config(vocab_size=13, n_positions=10, n_embd=12, n_layer=2, n_head=3)
    return transformers.GPT2LMHeadModel(config), {"input_ids": IDS}


def small_bert():
    """Class names whose order is not that of the alphabet."""
    config = transformers.BertConfig(
        vocab_size=13, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
        max_position_embeddings=10, id2label={0: "neutral", 1: "good", 2: "bad"},
        label2id={"neutral": 0, "good": 1, "bad": 2},
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config), {"input_ids": IDS, "attention_mask": VISIBLE}


def small_llama():
    """Heads of an own width, fewer of keys and values, and frequencies and an epsilon that are not the default."""
    config = transformers.LlamaConfig(
        vocab_size=13, hidden_size=12, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
        intermediate_size=20, max_position_embeddings=10, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), {"input_ids": IDS}


def small_llama3():
    """Scaled frequencies: of the three, one stays, one is interpolated and one is divided."""
    scaling = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }  # fmt: skip
    config = transformers.LlamaConfig(
        vocab_size=13, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=20,
        max_position_embeddings=512, rope_parameters=scaling | {"rope_theta": 500.0},
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), {"input_ids": IDS}


def case(name, make):
    torch.manual_seed(3)
    model, inputs = make()
    model.eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn(p.shape))
        logits = model(**{key: torch.tensor(x) for key, x in inputs.items()}).logits
    folder = os.path.join(FOLDER, "pretrained", name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size="12KB" if name == "gpt2" else "1GB")
    if name != "bert":
        os.remove(os.path.join(folder, "generation_config.json"))
    for file in os.listdir(folder):
        os.chmod(os.path.join(folder, file), 0o644)
    return {"name": name, **inputs, "logits": tensor(logits)}


def minilm(folder):
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(SENTENCES, padding="longest", return_tensors="pt")
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        x = model(**tokens).last_hidden_state
    visible = tokens["attention_mask"][:, :, None].float()
    means = (x * visible).sum(1) / visible.sum(1)
    names = ("input_ids", "attention_mask")
    inputs = {name: tokens[name].tolist() for name in names}
    return {"name": "minilm", **inputs, "embeddings": tensor(means)}


if __name__ == "__main__":
    write(
        "pretrained.json",
        "Logits of models whose folders are pretrained/NAME, for all ids.",
        [case("gpt2", small_gpt2), case("bert", small_bert), case("llama", small_llama), case("llama3", small_llama3)],
        versions=(transformers,),
    )
    if len(sys.argv) > 1:
        write(
            "minilm.json",
            "Means of the visible tokens' vectors by all-MiniLM-L6-v2.",
            [minilm(sys.argv[1])],
            versions=(transformers,),
        )
