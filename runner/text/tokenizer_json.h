// Parts of tokenizer.json, the format of Hugging Face's tokenizers. Everything in it that changes ids is obeyed, or
// refused by name. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/text/tokenizer.h"
#include "schema/base/json.h"

namespace runner::text {

// Returns the tokens by id. `vocabulary`: an object of tokens and ids. Throws Error(kData) if an id is missing, is
// there twice, or is no id.
std::vector<std::string> tokens_by_id(const json::Value& vocabulary);

// `document`: the whole file. Errors do not name the file.
Tokenizer tokenizer_of_json(const json::Value& document);

// Whether the document describes a SentencePiece model, which tokenizer_of_json() refuses.
bool is_sentence_piece(const json::Value& document);
// Returns the truncation and padding of the document.
FileLimits limits_of_json(const json::Value& document);
// Returns the template of the document. `vocabulary`: number of tokens.
Template template_of_json(const json::Value& document, size_t vocabulary);

}  // namespace runner::text
