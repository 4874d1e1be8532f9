"""recipes/data/shakespeare_vocab.txt: a WordPiece vocabulary, lower case, of the text of recipes/bert_mlm.yaml.

A run may choose and order tokens with equal counts in another way.

    pip install tokenizers==0.23.3
"""

import gzip
import os

from tokenizers import BertWordPieceTokenizer

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../recipes/data")
TOKENS = 1024

with gzip.open(os.path.join(DATA, "tinyshakespeare.txt.gz"), "rt", encoding="utf-8") as file:
    lines = file.readlines()
tokenizer = BertWordPieceTokenizer(lowercase=True)
tokenizer.train_from_iterator(lines, vocab_size=TOKENS, min_frequency=2, show_progress=False)
by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
assert [id for _, id in by_id] == list(range(TOKENS))
with open(os.path.join(DATA, "shakespeare_vocab.txt"), "w", encoding="utf-8") as file:
    file.writelines(token + "\n" for token, _ in by_id)
ids = tokenizer.encode("".join(lines)).ids
print(f"{len(ids)} tokens, {sum(id == 1 for id in ids)} unknown")
