// A tokenizer.json that describes a SentencePiece model. Thread-safe.
#pragma once

#include "runner/text/piece_model.h"
#include "schema/base/json.h"

namespace runner::text {

// Throws Error(kData), without the name of the file, if the document normalizes or divides texts in another way than
// SentencePiece, or if its scores or merges are not those of `model`. The ids of tokens are not compared.
void check_piece_json(const json::Value& document, const PieceModel& model);

}  // namespace runner::text
