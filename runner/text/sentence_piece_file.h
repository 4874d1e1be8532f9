// Opens SentencePiece models with the settings of their folder. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/text/tokenizer.h"

namespace runner::text {

// Names of models in folders of the Hub.
inline constexpr const char* kPieceModelNames[] = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"};

// Returns the names of the files that open_sentence_piece() reads in addition to the model.
std::vector<std::string> sentence_piece_settings();

// `path`, `contents`: of the model. Gives the ids of transformers 5.24 for the class that tokenizer_config.json names:
// LlamaTokenizer, T5Tokenizer, XLMRobertaTokenizer, or none, which gives those of SentencePiece. A tokenizer.json of
// the same model may set the added tokens and the template. Throws Error(kData) naming the file if it is damaged, or
// asks for something that would change ids and is not supported.
Tokenizer open_sentence_piece(const std::string& path, std::string_view contents);

}  // namespace runner::text
