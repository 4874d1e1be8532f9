# Figures of Hugging Face's tokenizers for the tests of runner/text.
#
#   pip install tokenizers==0.23.3
#   python tests/text/figures.py                     vocabularies and figures in tests/text/figures/
#   python tests/text/figures.py --real FOLDER       figures of real vocabularies too, which are not committed:
#                                                    FOLDER is that of fetch_vocabularies.sh
#   python tests/text/figures.py --random N FOLDER   figures of N random strings in FOLDER, for RUNNER_TOKENIZER_FIGURES
#
# A figures file has a line of JSON for each string: ["text", text, ids, ids with special tokens as text if they differ, text of
# the ids without special tokens], and ["pair", text, ids, types, second text] for some.
import json
import os
import pathlib
import random
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
OUT = HERE / "figures"

STRINGS = [
    "", " ", "  ", "\n", "\t", "a", "Hello world", "hello world", "The quick brown fox jumps over the lazy dog.",
    "cr\u00e8me br\u00fbl\u00e9e", "cre\u0300me", "cafe\u0301", "caf\u00e9", "UNwant\u00e9d,running", "\u00c9COLE",
    "\u0130stanbul \u0131", "I\u0307", "na\u00efve co\u00f6perate", "\u00df \u1e9e Stra\u00dfe", "\ufb01ne \ufb02y",
    "\u03a3\u0391\u03a3 \u03c3\u03c2", "\u01c5 \u01c4 \u01c6", "\u212b \u2126 \u212a", "\u1e9b\u0323", "q\u0323\u0307",
    "q\u0307\u0323", "\u0e01\u0e33", "\uac00\u1100\u1161", "to [MASK] a door", "[mask]", "[MASK]", "a[MASK]b",
    " [MASK] ", "[MASK][MASK]", "[CLS] x [SEP]", "[PAD][UNK]", "[ MASK ]", "can<|endoftext|>can",
    "<|endoftext|>", "<|endoftext|><|endoftext|>", "<|endoftext", " <|endoftext|> x", "<s>a</s>", "<mask>", "x <mask> y",
    "x  <mask>  y", "a" * 100, "a" * 101, "\u00e9" * 100, "\u00e9" * 101, "e\u0301" * 101, "a" * 99 + " " + "b" * 300,
    "aaa\u00adb", "a\u200bb", "a\u0000b", "a\ufffdb", "a\u0001b", "a\u007fb", "a\u0085b", "a\u00a0b", "a\tb\nc\rd",
    "a\u000bb", "a\u000cb", "a\u001cb", "a\u2028b\u2029c", "a\u3000b", "a\u180eb", "a\u200db", "a\ufeffb", "a\ue000b",
    "\u0378", "a ##s", "##s", "# # s", "a##s", "my", " my", "can", " can", "x  y", "x\n\ny", "x \n y", "x\n y", "x \ny",
    "x \n", " \n x", "\n\n\n", "   x", "x   ", "DON'T stop", "don't stop", "it's", "IT'S", "we'll they've I'm you're he'd",
    "'s", "''s", " 's", "'S", "x'", "'lll", "l'm", "\u3000x", "\u3000 x", " \u3000x", "x\u00a0y", "x\u00a0 y", "\u00a0\u00a0x",
    "2024", "3.14", "1,000,000", "x2y", "\u00b2\u00b3\u00bc", "\u0661\u0662\u0663", "\u2167 \u216f", "\U0001d7d8\U0001d7d9",
    "\u4e2d\u6587\u6d4b\u8bd5", "\u4e2d\u6587 test \u6587", "\u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8", "\ud55c\uad6d\uc5b4",
    "\u3400\U00020000\U0002a700\U0002b740\U0002b820\U0002b91f\U0002b920\U0002ceaf\U0002f800\uf900", "a\u4e00b", "\u3005\u3006",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd ok", "\u2764\ufe0f", "\U0001f1e9\U0001f1ea",
    "x\U0001f600y", "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05b8\u05dc\u05d5\u05b9\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440", "\u0439 \u0438\u0306", "\u0387 \u037e",
    "\"quoted\" 'single' `back` \u201ccurly\u201d \u2018x\u2019 \u00ab\u00bb", "$5 + 6 = \u20ac11 ~ ^", "a_b-c/d\\e|f", "...", "\u2026", "!?",
    "http://a.b/c?d=e&f=g#h", "user@example.org", "C++ & C#", "(a)[b]{c}<d>", "\u00bf\u00a1", "\u2013\u2014\u2015", "\u00a7\u00b6\u00b7",
    "z" * 200, " " * 50, "_" * 70, "\n" * 20, "\U0001f600" * 30, "ab" * 80, "0" * 17, "=" * 40 + "-" * 40, "\u0301" * 10,
    "a" + "\u0301\u0323" * 8, "Supercalifragilisticexpialidocious", "antidisestablishmentarianism",
    "def f(x):\n    return x + 1\n", "{\"a\": [1, 2]}", "<p>Hi</p>", "tab\tseparated\tvalues", "CamelCaseAndSNAKE_CASE", "e.g. U.S.A.",
    "yesterday Yesterday YESTERDAY", "xyesterday yesterdayx yesterday's", "stripme stripme  x  stripme", "astripmeb", " word ", "wordword word-word",
    "word", "a word b", "aword", "word_ word1 word\u0301 word\u200d", "  stripme", "stripme  ", "\u00a0stripme\u3000", "W\u00f6RD W\u00f6rd w\u00f6rd",
    "\U000e0041\U000e007f", "\U000f0000", "\u1c89\u1c8a", "\U00010d50\U00010d70", "\U00011938", "\ua7cb", "\u0898a", "\u2e43x\u2e5d", "\u166d", "\u1734a",
    "\u110b9\u110ba", "\U000110b9\U000110ba", "\u0f77 \u0f73", "\u0344 \u0340", "\u1f82", "a\u0345\u0301", "\u0b95\u0bca",
    "The vocabulary has a token for each byte, so every text can be encoded.", "I said: \"It's 5 o'clock!\"", "Mr. & Mrs. O'Neill-Smith (1999)",
]

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", "  \t\n\r", ".,;:!?'\"-()[]{}#@$%^&*_+=|\\/<>~`",
    "\u00e9\u00e8\u00fc\u00f6\u00e4\u00df\u00f1\u00e7\u0130\u0131\u00c9", "\u0300\u0301\u0308\u0323\u0327\u0345\u093c\u20d0", "\u4e2d\u6587\u65e5\u672c\u3042\u30a2\uac00\ud55c\u1100\u1161",
    "\U0001f600\U0001f44d\U0001f3fd\u200d\ufe0f\u2764", "\u0000\u0001\u000b\u000c\u001f\u007f\u0085\u00a0\u00ad\u200b\u2028\u3000\ufeff\ufffd",
    "\u0430\u0431\u0432\u0413\u0414\u05d0\u05b8\u0627\u0628\u064e\u0928\u094d\u0e01\u0e33",
]
PARTS = ["[MASK]", "[SEP]", "[mask]", "<|endoftext|>", "<mask>", "<s>", "yesterday", "Yesterday", "stripme", "word", "w\u00f6rd", "W\u00d6RD", "'s", "'re",
         "##", " the ", "ing ", "tion", "\r\n", "  "]


def random_text(rng):
    text = ""
    for _ in range(rng.randrange(1, 12)):
        kind = rng.random()
        if kind < 0.2:
            text += rng.choice(PARTS)
        elif kind < 0.85:
            letters = rng.choice(ALPHABETS)
            text += "".join(rng.choice(letters) for _ in range(rng.randrange(1, 9)))
        else:  # any characters
            for _ in range(rng.randrange(1, 6)):
                code = rng.randrange(rng.choice([0x100, 0x3000, 0x10000, 0x20000, 0x110000]))
                text += chr(code) if not 0xD800 <= code < 0xE000 else "?"
    return text


def strings():
    rng = random.Random(39)
    return STRINGS + [random_text(rng) for _ in range(500 - len(STRINGS))]


# ---- vocabularies ---------------------------------------------------------------------------------------------------


def corpus():
    pages = [p.read_text() for p in sorted((HERE.parents[1] / "docs").glob("*.md"))]
    return pages + STRINGS


def more_tokens():
    return [AddedToken("yesterday", normalized=True), AddedToken("stripme", lstrip=True, rstrip=True, normalized=False),
            AddedToken("word", single_word=True, normalized=False), AddedToken("W\u00f6rd", normalized=True, rstrip=True)]


def bert(template, **settings):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**settings)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=900, special_tokens=specials, limit_alphabet=300, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    cls, sep = (("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]")))
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[cls, sep])
    else:
        tokenizer.post_processor = processors.BertProcessing(sep, cls)
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def byte_level(prefix):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    specials = ["<s>", "</s>"] if prefix else ["<|endoftext|>"]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=specials, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    if prefix:
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
        tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_vocabularies():
    made = {"uncased": bert(True), "cased": bert(False, lowercase=False), "accents": bert(True, strip_accents=False),
            "bpe": byte_level(False), "bpe_prefix": byte_level(True)}
    for name in ("accents", "bpe_prefix"):
        made[name].add_tokens(more_tokens())
    for name, tokenizer in made.items():
        tokenizer.save(str(OUT / f"{name}.tokenizer.json"), pretty=False)


# ---- figures --------------------------------------------------------------------------------------------------------


def small(name):
    return Tokenizer.from_file(str(OUT / f"{name}.tokenizer.json"))


SMALL = ("uncased", "cased", "accents", "bpe", "bpe_prefix")


def real(folder):
    bert_base = Tokenizer.from_file(str(folder / "bert/tokenizer.json"))
    bert_base.no_truncation()
    bert_base.no_padding()
    gpt2 = Tokenizer(models.BPE.from_file(str(folder / "gpt2/vocab.json"), str(folder / "gpt2/merges.txt")))
    gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    gpt2.decoder = decoders.ByteLevel()
    return {"bert": bert_base, "gpt2": gpt2}


def write(path, tokenizer, texts):
    with open(path, "w") as file:
        for i, text in enumerate(texts):
            ids = tokenizer.encode(text).ids
            tokenizer.encode_special_tokens = True
            as_text = tokenizer.encode(text).ids
            tokenizer.encode_special_tokens = False
            row = ["text", text, ids, as_text if as_text != ids else None, tokenizer.decode(ids, skip_special_tokens=True)]
            print(json.dumps(row, separators=(",", ":")), file=file)
            if i % 10 == 0:
                second = texts[(i + 7) % len(texts)]
                pair = tokenizer.encode(text, second)
                print(json.dumps(["pair", text, pair.ids, pair.type_ids, second], separators=(",", ":")), file=file)


def main(arguments):
    if arguments[:1] == ["--random"]:
        rng = random.Random(int(arguments[1]))
        texts = [random_text(rng) for _ in range(int(arguments[1]))]
        folder = pathlib.Path(arguments[2])
        tokenizers = {name: small(name) for name in SMALL}
        if "RUNNER_TOKENIZERS" in os.environ:
            tokenizers |= real(pathlib.Path(os.environ["RUNNER_TOKENIZERS"]))
        for name, tokenizer in tokenizers.items():
            write(folder / f"{name}.figures.jsonl", tokenizer, texts)
        return
    make_vocabularies()
    tokenizers = {name: small(name) for name in SMALL}
    if arguments[:1] == ["--real"]:
        tokenizers |= real(pathlib.Path(arguments[1]))
    for name, tokenizer in tokenizers.items():
        write(OUT / f"{name}.figures.jsonl", tokenizer, strings())


if __name__ == "__main__":
    main(sys.argv[1:])
