# Models of SentencePiece, and their figures by SentencePiece and transformers, for the tests of runner/text.
#
#   pip install sentencepiece==0.2.3 transformers==5.24.0 protobuf
#   python tests/text/sentence_piece_figures.py            figures in tests/text/figures/
#   python tests/text/sentence_piece_figures.py --train    the models too
#
# The format is that of figures.py. Figures of LlamaTokenizer are those of transformers. In the other cases, SentencePiece
# encodes the parts between special tokens, and the strings for which transformers differs are printed: it takes pieces
# such as <0x0A> and \u2581 in a text for what they stand for, adds scores in double precision, and normalizes graphemes.
import io
import json
import pathlib
import random
import re
import shutil
import sys
import tempfile

import sentencepiece
from transformers import AutoTokenizer

import figures

OUT = figures.OUT / "sentence_piece"
CASES = json.loads((OUT / "cases.json").read_text())

MORE = [
    "\u2581", "\u2581a", "a\u2581b", " \u2581a", "\u2581\u2581", " <s> x", "x <s>", "<s><s>", "<unk>", "a<unk>b", "<pad>", "<0x0A>", "<0x41>b",
    "<|user|> hello", "hello<|user|>hello", "<|user|><|user|>", "wordwordword", "a wordword b", "\u0000", "\r\n", "a\r\nb", "\n\na", "a \n", "\uff21\uff22\uff23",
    "\u00a0a", "a\u00a0", "e\u0301e\u0301", "\u2126", "\u200b", "a \u200b b", "<extra_id_0>", "a <extra_id_99> b", "<|im_end|>", "hi<|im_end|> you",
    " 12345 67.89", "the the the", "\U0001f600\U0001f600 \U0001f600", "\ufffd", "a\ufffd\ufffdb", "\u4e2d\u6587 \u4e2d", "x" * 300, "ab " * 60,
]
RULES = [  # some of nmt_nfkc, whose table is 240 KB
    ("0009", "20"), ("000A", "20"), ("000D 000A", "20"), ("00A0", "20"), ("3000", "20"), ("200B", ""), ("FEFF", ""), ("FF21", "41"), ("FF22", "42"),
    ("FB01", "66 69"), ("2126", "3A9"), ("00B2", "32"), ("2026", "2E 2E 2E"), ("0065 0301", "E9"), ("0065 0300", "E8"),
]


def corpus():
    lines = [line for page in figures.corpus() for line in page.splitlines() if line.strip()]
    return lines + ["cr\u00e8me br\u00fbl\u00e9e caf\u00e9", "\u65e5\u672c\u8a9e \u4e2d\u6587", "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440"] * 5


def train(name, rules=None, **settings):
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as table:
        if rules:
            table.write("".join(f"{a}\t{b}\n" for a, b in rules))
            table.flush()
            settings["normalization_rule_tsv"] = table.name
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=model, minloglevel=2,
                                                 num_threads=1, **settings)
    (OUT / f"{name}.model").write_bytes(model.getvalue())


def train_all():
    symbols = ["<|user|>", "wordword"]
    train("bpe", vocab_size=700, model_type="bpe", byte_fallback=True, normalization_rule_name="identity", split_digits=True,
          remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, character_coverage=0.995, user_defined_symbols=symbols)
    train("unigram", RULES, vocab_size=500, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=0.995)
    train("unigram_plain", RULES, vocab_size=500, character_coverage=0.995)
    train("unigram_bytes", RULES, vocab_size=700, byte_fallback=True, pad_id=3, control_symbols=["<mask>"], user_defined_symbols=symbols)


def strings():
    rng = random.Random(97)
    return figures.STRINGS + MORE + [figures.random_text(rng) for _ in range(350 - len(figures.STRINGS) - len(MORE))]


def pieces(model, case, text):
    is_xlm_roberta = case["class"] == "XLMRobertaTokenizer"
    if is_xlm_roberta or case["class"] == "T5Tokenizer":  # their words end at any white space
        text = re.sub(r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]", " ", text)
    ids = model.encode(text)
    return [id + 1 if id > 0 else 3 for id in ids] if is_xlm_roberta else ids


def by_parts(tokenizer, model, case, text):
    specials = {str(token): id for id, token in tokenizer.added_tokens_decoder.items()}
    ids = []
    for part in re.split("(" + "|".join(map(re.escape, specials)) + ")", text):
        ids += [specials[part]] if part in specials else pieces(model, case, part)
    return ids


def write(case):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(OUT / f"{case['model']}.model", folder / case["file"])
        for file, contents in case["settings"].items():
            (folder / file).write_text(json.dumps(contents))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / case["file"]))
    texts = strings()
    backend = tokenizer.backend_tokenizer
    is_llama = case["class"] == "LlamaTokenizer"
    differing = []
    with open(OUT / f"{case['name']}.figures.jsonl", "w") as out:
        for i, text in enumerate(texts):
            ids = backend.encode(text).ids
            backend.encode_special_tokens = True
            as_text = backend.encode(text).ids
            backend.encode_special_tokens = False
            if not is_llama:
                around = backend.encode("").ids
                begin, end = (around[:1], around[1:]) if case["class"] == "XLMRobertaTokenizer" else ([], around)
                as_text = begin + pieces(model, case, text) + end
                by_model = begin + by_parts(tokenizer, model, case, text) + end
                if by_model != ids:
                    differing.append(text)
                ids = by_model
            decoded = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            print(json.dumps(["text", text, ids, as_text if as_text != ids else None, decoded], separators=(",", ":")), file=out)
            second = texts[(i + 7) % len(texts)]
            if i % 10 == 0 and not set(differing) & {text, second}:
                pair = backend.encode(text, second)
                print(json.dumps(["pair", text, pair.ids, pair.type_ids, second], separators=(",", ":")), file=out)
    return differing


if __name__ == "__main__":
    if sys.argv[1:] == ["--train"]:
        train_all()
    for case in CASES:
        print(case["name"], write(case))
