// The file of a SentencePiece model: a message of Protocol Buffers. Thread-safe.
//
// The file is checked here, because libsentencepiece trusts some parts of it, and these parts alone reach the library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner::text {

enum class PieceType : uint8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Piece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct PieceModel {
  enum Kind { kUnigram = 1, kBpe = 2 };

  std::vector<Piece> pieces;  // by id
  Kind kind = kUnigram;
  bool byte_fallback = false;                                              // unknown characters become byte pieces
  std::string eos_piece = "</s>", bos_piece = "<s>", pad_piece = "<pad>";  // control pieces, if they exist
  // Normalizer.
  std::string characters_map;  // the compiled map of replacements, or empty
  bool adds_prefix = true;     // puts a blank before a text
  bool removes_blanks = true;  // collapses runs of blanks, and strips both ends
};

// Returns the byte of a piece such as <0x0A>, or nullopt if it is another piece.
std::optional<uint8_t> byte_of_piece(std::string_view piece);
std::string piece_of_byte(uint8_t byte);

// Whether a file with these first bytes may be a SentencePiece model.
bool looks_like_piece_model(std::string_view file);

// Throws Error(kData) if the file is damaged, or asks for something that would change ids and is not supported. Errors
// do not name the file.
PieceModel read_piece_model(std::string_view file);

// Returns a file of the model for libsentencepiece.
std::string bytes_of(const PieceModel& model);

}  // namespace runner::text
