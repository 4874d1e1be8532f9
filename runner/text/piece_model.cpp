#include "runner/text/piece_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "runner/formats/protobuf.h"
#include "runner/formats/protobuf_reader.h"
#include "runner/text/token_trie.h"
#include "schema/base/error.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::text {
namespace {

// Numbers of fields in sentencepiece_model.proto.
enum ModelField { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3 };
enum PieceField { kPieceText = 1, kPieceScore = 2, kPieceType = 3 };
enum TrainerField {
  kModelType = 3,
  kWhitespaceAsSuffix = 24,
  kByteFallback = 35,
  kBosPiece = 46,
  kEosPiece = 47,
  kPadPiece = 48
};
enum NormalizerField { kCharactersMap = 2, kAddsPrefix = 3, kRemovesBlanks = 4, kEscapesBlanks = 5 };

// ---- parts ----------------------------------------------------------------------------------------------------------

std::string piece_text(const formats::ProtobufField& field) {
  const std::string_view text = field.text();
  RUN_CHECK(!text.empty() && is_utf8(text) && text.find('\0') == std::string_view::npos, ErrorKind::kData,
            "byte {}: the piece {} is not a text of UTF-8; the file is damaged", field.at, in_quotes(text));
  return std::string(text);
}

Piece read_piece(formats::ProtobufReader message) {
  constexpr float kLargestScore = 1e9F;
  Piece piece;
  for (formats::ProtobufField field; message.next(field);) {
    if (field.number == kPieceText) piece.text = piece_text(field);
    if (field.number == kPieceScore) {
      piece.score = field.number32();
      RUN_CHECK(std::abs(piece.score) <= kLargestScore, ErrorKind::kData,
                "byte {}: the score of a piece is {}; the file is damaged", field.at, piece.score);
    }
    if (field.number == kPieceType) {
      RUN_CHECK(field.whole() >= 1 && field.whole() <= 6, ErrorKind::kData,
                "byte {}: a piece has the unknown type {}; the file is damaged", field.at, field.whole());
      piece.type = static_cast<PieceType>(field.integer);
    }
  }
  return piece;
}

void read_trainer_spec(formats::ProtobufReader message, PieceModel& model) {
  for (formats::ProtobufField field; message.next(field);) {
    switch (field.number) {
      case kModelType:
        RUN_CHECK(field.whole() == PieceModel::kUnigram || field.whole() == PieceModel::kBpe, ErrorKind::kData,
                  "model type {} is not supported; expected unigram (1) or bpe (2)", field.whole());
        model.kind = static_cast<PieceModel::Kind>(field.integer);
        break;
      case kWhitespaceAsSuffix:
        RUN_CHECK(!field.flag(), ErrorKind::kData, "model option treat_whitespace_as_suffix is not supported");
        break;
      case kByteFallback: model.byte_fallback = field.flag(); break;
      case kBosPiece: model.bos_piece = piece_text(field); break;
      case kEosPiece: model.eos_piece = piece_text(field); break;
      case kPadPiece: model.pad_piece = piece_text(field); break;
      default: break;  // of the training
    }
  }
}

uint32_t read_unit(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The map is a double-array trie of Darts-clone, whose leaves are offsets in the texts after it. libsentencepiece
// follows the trie without looking at its size.
void check_characters_map(std::string_view map, size_t at) {
  const auto check = [&](bool holds) {
    RUN_CHECK(holds, ErrorKind::kData, "byte {}: the map of characters is damaged", at);
  };
  constexpr size_t kBlock = size_t{256} * 4;
  if (map.empty()) return;
  check(map.size() > 4);
  const size_t size = read_unit(map, 0);
  check(size > 0 && size % kBlock == 0 && size < map.size() - 4);
  const std::string_view texts = map.substr(4 + size);
  check(is_utf8(texts) && texts.back() == '\0');
  const auto unit = [&](uint32_t i) { return read_unit(map, 4 + size_t{i} * 4); };
  const auto is_leaf = [](uint32_t bits) { return bits >> 31 != 0; };
  for (uint32_t i = 0; i < size / 4; ++i) {
    const uint32_t bits = unit(i);
    if (is_leaf(bits)) {
      check((bits & 0x7FFFFFFFU) < texts.size());
      continue;
    }
    const uint32_t next = i ^ (bits >> 10) << ((bits & (1U << 9)) >> 6);
    const bool has_leaf = (bits & (1U << 8)) != 0;
    check(next < size / 4 && (!has_leaf || is_leaf(unit(next))));
  }
}

void read_normalizer_spec(formats::ProtobufReader message, PieceModel& model) {
  for (formats::ProtobufField field; message.next(field);) {
    switch (field.number) {
      case kCharactersMap:
        check_characters_map(field.text(), field.at);
        model.characters_map = field.bytes;
        break;
      case kAddsPrefix: model.adds_prefix = field.flag(); break;
      case kRemovesBlanks: model.removes_blanks = field.flag(); break;
      case kEscapesBlanks:
        RUN_CHECK(field.flag(), ErrorKind::kData, "model option escape_whitespaces: false is not supported");
        break;
      default: break;  // names
    }
  }
}

// Checks that there is one unknown piece and that no text is there twice.
void check_pieces(const PieceModel& model) {
  RUN_CHECK(!model.pieces.empty(), ErrorKind::kData, "the model has no pieces; the file is damaged or incomplete");
  TokenTrie texts;
  std::array<bool, 256> has_byte{};
  int64_t unknown = 0;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    RUN_CHECK(!piece.text.empty(), ErrorKind::kData, "the model's piece {} has no text", i);
    const auto id = static_cast<int32_t>(i);
    const int32_t first = texts.insert(piece.text, id);
    RUN_CHECK(first == id, ErrorKind::kData, "the model's pieces {} and {} are both {}", first, i,
              in_quotes(piece.text));
    // The library takes the character for the control piece, and then fails.
    RUN_CHECK(model.kind != PieceModel::kBpe || piece.type != PieceType::kControl ||
                  utf8_length(piece.text, 0) < piece.text.size(),
              ErrorKind::kData, "the model's piece {} is {}: a control piece of one character is not supported", i,
              in_quotes(piece.text));
    unknown += piece.type == PieceType::kUnknown ? 1 : 0;
    const std::optional<uint8_t> byte = byte_of_piece(piece.text);
    RUN_CHECK((piece.type == PieceType::kByte) == byte.has_value(), ErrorKind::kData,
              "the model's piece {} is {}, but its type is {}; texts such as <0x0A> are those of bytes (type 6)", i,
              in_quotes(piece.text), static_cast<unsigned>(piece.type));
    if (byte) has_byte[*byte] = true;
  }
  RUN_CHECK(unknown == 1, ErrorKind::kData, "the model has {} unknown pieces, expected 1", unknown);
  const auto bytes = std::ranges::count(has_byte, true);
  RUN_CHECK(bytes == (model.byte_fallback ? 256 : 0), ErrorKind::kData,
            "the model has {} pieces of bytes, expected {} with byte_fallback: {}", bytes,
            model.byte_fallback ? 256 : 0, model.byte_fallback);
}

}  // namespace

std::optional<uint8_t> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char digit : piece.substr(3, 2)) {
    if ((digit < '0' || digit > '9') && (digit < 'A' || digit > 'F')) return std::nullopt;
    value = value << 4 | static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'A' + 10);
  }
  return static_cast<uint8_t>(value);
}

std::string piece_of_byte(uint8_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

// The first field is a piece, whose first field is its text.
bool looks_like_piece_model(std::string_view file) {
  return file.size() > 2 && file[0] == '\n' && file[2] == '\n';
}

PieceModel read_piece_model(std::string_view file) {
  PieceModel model;
  bool has_trainer = false, has_normalizer = false;
  formats::ProtobufReader message(file);
  for (formats::ProtobufField field; message.next(field);) {
    const auto inner = [&] {
      return formats::ProtobufReader(field.text(), static_cast<size_t>(field.text().data() - file.data()));
    };
    if (field.number == kPieces) model.pieces.push_back(read_piece(inner()));
    if (field.number == kTrainerSpec) read_trainer_spec(inner(), model);
    if (field.number == kNormalizerSpec) read_normalizer_spec(inner(), model);
    has_trainer |= field.number == kTrainerSpec;
    has_normalizer |= field.number == kNormalizerSpec;
  }
  RUN_CHECK(model.pieces.empty() || (has_trainer && has_normalizer), ErrorKind::kData,
            "the model ends before its {} settings; it is incomplete", has_trainer ? "normalizer" : "trainer");
  check_pieces(model);
  return model;
}

std::string bytes_of(const PieceModel& model) {
  formats::ProtobufMessage file;
  for (const Piece& piece : model.pieces)
    file.add(kPieces, formats::ProtobufMessage()
                          .add(kPieceText, piece.text)
                          .add(kPieceScore, piece.score)
                          .add(kPieceType, static_cast<int>(piece.type)));
  file.add(
      kTrainerSpec,
      formats::ProtobufMessage().add(kModelType, static_cast<int>(model.kind)).add(kByteFallback, model.byte_fallback));
  file.add(kNormalizerSpec, formats::ProtobufMessage()
                                .add(kCharactersMap, model.characters_map)
                                .add(kAddsPrefix, model.adds_prefix)
                                .add(kRemovesBlanks, model.removes_blanks));
  return file.bytes();
}

}  // namespace runner::text
