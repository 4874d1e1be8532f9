// Reads tokenizers in the formats of the Hugging Face libraries. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/text/tokenizer.h"

namespace runner::text {

// Reads the tokenizer of `path`: `bytes`, a tokenizer.json, a vocab.txt of BERT, or a folder that has tokenizer.json,
// or vocab.txt, or vocab.json and merges.txt, and possibly tokenizer_config.json. Throws Error(kData) naming the file
// if it is missing, damaged, or asks for something that would change ids and is not supported.
Tokenizer open_tokenizer(const std::string& path);

// Returns the paths of the files that open_tokenizer() reads; none for `bytes`.
std::vector<std::string> tokenizer_files(const std::string& path);

}  // namespace runner::text
