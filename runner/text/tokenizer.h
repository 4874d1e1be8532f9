// Tokenizers: texts to token ids and back, with exactly the ids of the reference implementations. Values; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runner/text/added_tokens.h"
#include "runner/text/byte_bpe.h"
#include "runner/text/character_ids.h"
#include "runner/text/sentence_piece.h"
#include "runner/text/word_piece.h"

namespace runner::text {

inline constexpr size_t kLongestText = size_t{1} << 30;  // bytes

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;  // segment ids, as long as ids
};

// A part of a template: a special token, or all tokens of a text.
struct TemplatePart {
  enum Kind { kToken, kFirst, kSecond };
  Kind kind = kToken;
  std::vector<int32_t> ids{};  // of kToken
  int32_t type = 0;
};
// How the special tokens are put around one text, or a pair.
struct Template {
  std::vector<TemplatePart> single{{TemplatePart::kFirst, {}, 0}};
  std::vector<TemplatePart> pair{{TemplatePart::kFirst, {}, 0}, {TemplatePart::kSecond, {}, 1}};
};

// How ids become text.
struct Decoder {
  enum Kind {
    kConcatenated,
    kJoined,         // tokens separated by blanks
    kWordPiece,      // the same, but a continuation is joined
    kBytes,          // the bytes that the characters of the tokens stand for, or those of the tokens
    kSentencePiece,  // ▁ is a blank, and <0x0A> a byte
  };
  Kind kind = kJoined;
  std::string prefix = "##";  // of continuations
  bool cleans_up = true;      // removes blanks before punctuation
  bool strips_blank = false;  // kSentencePiece: removes a blank at the beginning
};

// Truncation and padding that a file asks for. Reported; not applied.
struct FileLimits {
  std::optional<int64_t> truncation, padding;  // lengths; padding to the longest: 0
};

// Each byte is a token.
struct Bytes {};

// Kinds of tokenizers, for messages.
inline constexpr const char* kWordPieceKind = "WordPiece";
inline constexpr const char* kByteBpeKind = "byte-level BPE";

struct TokenizerParts {
  std::string kind{};
  std::vector<std::string> tokens{};  // by id
  std::variant<Bytes, CharacterIds, WordPiece, ByteBpe, SentencePiece> model{};
  BertNormalizer normalizer{};
  std::vector<AddedToken> added{};  // of two with one content, the first counts
  Template specials{};
  Decoder decoder{};
  FileLimits limits{};
  std::optional<int32_t> begin{}, end{}, padding{}, mask{};  // tokens, if the files name them
};

class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);

  const std::string& kind() const { return parts_.kind; }
  int64_t vocabulary() const { return std::ssize(parts_.tokens); }
  const std::vector<std::string>& tokens() const { return parts_.tokens; }
  const std::vector<AddedToken>& added() const { return parts_.added; }
  const FileLimits& limits() const { return parts_.limits; }
  const BertNormalizer& normalizer() const { return parts_.normalizer; }

  // Returns the id of a token, or nullopt if there is none.
  std::optional<int32_t> find(std::string_view token) const;

  bool is_special(int32_t id) const { return is_special_[static_cast<size_t>(id)]; }
  // Whether tokens mark the boundaries of words: ## of WordPiece, ▁ of SentencePiece.
  bool marks_words() const;
  // Requires marks_words().
  bool continues_word(int32_t id) const;
  // Returns the token that ends a document: the one that the files name, or the first of <|endoftext|>, </s>, <eos> and
  // [SEP] that there is.
  std::optional<int32_t> end_token() const;
  // Returns the token that begins a text, if the files name it.
  std::optional<int32_t> begin_token() const { return parts_.begin; }
  // Returns the token of padding: the one that the files name, or [PAD], or <pad>.
  std::optional<int32_t> padding_token() const;
  // Returns the token that hides another one in training: the one that the files name, or [MASK], or <mask>.
  std::optional<int32_t> mask_token() const;

  // Returns the ids of a text, without the special tokens that with_specials() adds. Throws Error(kData) if the text is
  // not UTF-8 (except for bytes), is too long, or has a character that a character tokenizer does not know.
  std::vector<int32_t> encode(std::string_view text, SpecialTokens specials = SpecialTokens::kMatch) const;

  // Puts the special tokens around the ids of a text or of a pair.
  Encoding with_specials(std::span<const int32_t> text) const;
  // Returns a text to continue: with the special tokens before it, without those after it.
  std::vector<int32_t> begun(std::span<const int32_t> text) const;
  Encoding with_specials(std::span<const int32_t> first, std::span<const int32_t> second) const;
  // Returns the number of special tokens that they add.
  size_t specials(bool is_pair) const;

  // Returns the text of ids of this vocabulary. Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const int32_t> ids) const;

 private:
  void encode_part(std::string_view part, bool is_first, std::vector<int32_t>& ids) const;
  std::optional<int32_t> first_of(std::span<const char* const> tokens) const;

  TokenizerParts parts_;
  TokenTrie ids_;  // of tokens
  TokenFinder raw_, normalized_;
  std::vector<bool> is_special_;  // by id
};

// A tokenizer without vocabulary file: each byte is a token.
Tokenizer bytes_tokenizer();
// `characters`: in UTF-8, sorted; their positions are their ids.
Tokenizer characters_tokenizer(std::vector<std::string> characters);

}  // namespace runner::text
