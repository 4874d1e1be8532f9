// Reads tokenizers in the formats of the Hugging Face libraries. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/text/tokenizer.h"

namespace runner::text {

enum class TokenizerFormat { kBytes, kJson, kBertVocabulary, kBpeFiles, kSentencePiece };

struct TokenizerFiles {
  TokenizerFormat format = TokenizerFormat::kBytes;
  std::vector<std::string> files{};  // paths, first that of the vocabulary or model; none for `bytes`
};

// Finds the tokenizer of `path`: `bytes`, a tokenizer.json, a vocab.txt of BERT, a SentencePiece model, or a folder
// that has tokenizer.json, or vocab.txt, or vocab.json and merges.txt, or a SentencePiece model, and possibly files
// with settings. If tokenizer.json describes a SentencePiece model, that of the folder is used. Throws Error(kData) if
// there is no tokenizer.
TokenizerFiles find_tokenizer(const std::string& path);

// Returns the name with which a folder has this file: a SentencePiece model of any name is tokenizer.model.
std::string name_in_folder(const std::string& file);

// Reads these files. Throws Error(kData) naming the file if it is missing, damaged, or asks for something that would
// change ids and is not supported.
Tokenizer open_tokenizer(const std::string& path);

}  // namespace runner::text
