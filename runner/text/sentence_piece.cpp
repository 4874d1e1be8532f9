#include "runner/text/sentence_piece.h"

#include <algorithm>
#include <utility>

#include "runner/text/characters.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

#if RUNNER_HAS_SENTENCEPIECE
#include <sentencepiece_processor.h>
#endif

namespace runner::text {

#if RUNNER_HAS_SENTENCEPIECE

namespace {

// Returns the part with a blank for each character of white space.
std::string with_blanks(std::string_view part) {
  const CharacterClasses& classes = CharacterClasses::get();
  std::string blanks;
  for_each_character(part, [&](const Character& character, std::string_view bytes) {
    blanks += classes.is(character.code, kSpace) ? std::string_view(" ") : bytes;
  });
  return blanks;
}

// The library joins adjacent unknown characters in quadratic time, but not if it makes them bytes. Therefore a model
// without pieces of bytes gets some after its own, and encode() joins them.
PieceModel with_byte_pieces(PieceModel model) {
  if (model.byte_fallback) return model;
  model.byte_fallback = true;
  for (unsigned byte = 0; byte < 256; ++byte)
    model.pieces.push_back({.text = piece_of_byte(static_cast<uint8_t>(byte)), .type = PieceType::kByte});
  return model;
}

}  // namespace

struct SentencePiece::Processor {
  sentencepiece::SentencePieceProcessor library;
};

bool has_sentence_piece() {
  return true;
}

SentencePiece::SentencePiece(const PieceModel& model, SentencePieceOptions options) : options_(options) {
  auto processor = std::make_shared<Processor>();
  pieces_ = static_cast<int32_t>(model.pieces.size());
  unknown_ =
      static_cast<int32_t>(std::ranges::find(model.pieces, PieceType::kUnknown, &Piece::type) - model.pieces.begin());
  const auto status = processor->library.LoadFromSerializedProto(bytes_of(with_byte_pieces(model)));
  RUN_CHECK(status.ok(), ErrorKind::kData, "the model is refused by SentencePiece: {}", visible(status.message()));
  processor_ = std::move(processor);
}

void SentencePiece::encode(std::string_view part, bool is_first, std::vector<int32_t>& ids) const {
  const bool may_have_prefix =
      options_.prefix == WordPrefix::kEveryPart || (options_.prefix == WordPrefix::kFirstPart && is_first);
  std::string text;
  if (may_have_prefix && !part.starts_with(' ') && !part.starts_with(kWordBegin)) text = kWordBegin;
  text += options_.white_space_is_blank ? with_blanks(part) : part;
  std::vector<int> found;
  const auto status = processor_->library.Encode(text, &found);
  RUN_CHECK(status.ok(), ErrorKind::kData, "SentencePiece cannot encode the text: {}", visible(status.message()));
  bool was_unknown = false;
  for (const int id : found) {
    const bool is_unknown = id >= pieces_;
    if (!is_unknown || !was_unknown) ids.push_back(is_unknown ? unknown_ : id);
    was_unknown = is_unknown;
  }
}

#else

struct SentencePiece::Processor {};

bool has_sentence_piece() {
  return false;
}

SentencePiece::SentencePiece(const PieceModel&, SentencePieceOptions) {
  fail(ErrorKind::kData,
       "the tokenizer is a SentencePiece model, but this build of runner has no SentencePiece; install "
       "libsentencepiece-dev and build runner again");
}

void SentencePiece::encode(std::string_view, bool, std::vector<int32_t>&) const {}

#endif

}  // namespace runner::text
