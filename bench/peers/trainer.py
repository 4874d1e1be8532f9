"""Fine-tunes with transformers' Trainer, as its users write it: trainer.py FOLDER TEXTS THREADS DTYPE -> a line of JSON.

FOLDER has a pretrained encoder, TEXTS rows of a text and a class, 0 or 1. With WRITE in place of TEXTS, the folder is
made: an encoder of the size of MiniLM with random weights, and the vocabulary of recipes/data.
"""
import json
import os
import resource
import shutil
import sys
import tempfile

folder, texts = sys.argv[1], sys.argv[2]
threads, dtype = sys.argv[3:5] if len(sys.argv) > 4 else ("2", "fp32")
os.environ["OMP_NUM_THREADS"] = threads
import time  # noqa: E402

import torch  # noqa: E402
from transformers import (AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertModel,  # noqa: E402
                          DataCollatorWithPadding, Trainer, TrainingArguments)


def write():
    BertModel(BertConfig(vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                         intermediate_size=1536)).save_pretrained(folder)
    here = os.path.dirname(os.path.abspath(__file__))
    shutil.copy(os.path.join(here, "../../recipes/data/shakespeare_vocab.txt"), os.path.join(folder, "vocab.txt"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True}, file)


def train():
    torch.set_num_threads(int(threads))
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    begin = time.perf_counter()
    with open(texts) as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    samples = [{**tokenizer(text, truncation=True, max_length=96), "label": int(label)} for text, label in rows]
    with tempfile.TemporaryDirectory() as output:
        Trainer(model=model, train_dataset=samples, data_collator=DataCollatorWithPadding(tokenizer),
                args=TrainingArguments(output_dir=output, per_device_train_batch_size=32, num_train_epochs=1, use_cpu=True,
                                       bf16=dtype == "bf16", report_to="none", save_strategy="no", disable_tqdm=True,
                                       learning_rate=1e-4)).train()
    import transformers
    print(json.dumps({"peer": "transformers " + transformers.__version__, "seconds": time.perf_counter() - begin,
                      "samples": len(samples), "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


write() if texts == "WRITE" else train()
