// Encodes texts by a SentencePiece model. Uses libsentencepiece, which a build may lack. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runner/text/piece_model.h"

namespace runner::text {

inline constexpr std::string_view kWordBegin = "\u2581";  // ▁, a blank in pieces

// Whether this build has libsentencepiece.
bool has_sentence_piece();

// Where ▁ is put before a text that does not begin with a blank or ▁, in addition to the model's own prefix.
enum class WordPrefix { kNone, kFirstPart, kEveryPart };

struct SentencePieceOptions {
  WordPrefix prefix = WordPrefix::kNone;
  bool white_space_is_blank = false;  // line ends and other white space are treated as blanks
};

class SentencePiece {
 public:
  // Throws Error(kData) if this build has no libsentencepiece, or if the library refuses the model.
  SentencePiece(const PieceModel& model, SentencePieceOptions options);

  // Appends the ids of a part of a text. `is_first`: whether the part is the beginning of the text.
  void encode(std::string_view part, bool is_first, std::vector<int32_t>& ids) const;

 private:
  struct Processor;

  SentencePieceOptions options_;
  int32_t pieces_ = 0, unknown_ = 0;  // number of pieces; the unknown one
  std::shared_ptr<const Processor> processor_;
};

}  // namespace runner::text
