#include "runner/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "runner/text/characters.h"
#include "runner/text/piece_model.h"
#include "runner/text/tokenizer_words.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::text {
namespace {

Encoding filled(std::span<const TemplatePart> parts, std::span<const int32_t> first, std::span<const int32_t> second) {
  Encoding encoding;
  for (const TemplatePart& part : parts) {
    const std::span<const int32_t> ids = part.kind == TemplatePart::kToken   ? std::span(part.ids)
                                         : part.kind == TemplatePart::kFirst ? first
                                                                             : second;
    encoding.ids.insert(encoding.ids.end(), ids.begin(), ids.end());
    encoding.types.resize(encoding.ids.size(), part.type);
  }
  return encoding;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// WordPiece::cleanup() of Hugging Face's tokenizers.
void clean_up(std::string& token) {
  constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kReplacements) replace_all(token, from, to);
}

// Returns the number of bytes of the character at text[at] that is not complete, at least 1.
size_t broken_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const unsigned lead = byte(0);
  const size_t whole = lead < 0xC2 || lead > 0xF4 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  size_t length = 1;
  for (; length < whole && at + length < text.size(); ++length) {
    const bool is_second = length == 1;
    const unsigned low = is_second && lead == 0xE0 ? 0xA0 : is_second && lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = is_second && lead == 0xED ? 0x9F : is_second && lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(length) < low || byte(length) > high) break;
  }
  return length;
}

std::string valid_utf8(const std::string& text) {
  std::string valid;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length > 0)
      valid += std::string_view(text).substr(at, length);
    else
      valid += "\xEF\xBF\xBD";
    at += length > 0 ? length : broken_length(text, at);
  }
  return valid;
}

std::string joined_pieces(const std::vector<std::string>& pieces, const Decoder& decoder) {
  std::string text;
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::string piece = pieces[i];
    const bool continues = decoder.kind == Decoder::kWordPiece && piece.starts_with(decoder.prefix);
    if (i > 0 && continues) piece.erase(0, decoder.prefix.size());
    if (i > 0 && !continues && decoder.kind != Decoder::kConcatenated) piece.insert(0, " ");
    if (decoder.kind == Decoder::kWordPiece && decoder.cleans_up) clean_up(piece);
    text += piece;
  }
  return text;
}

std::string joined_bytes(const std::vector<std::string>& pieces) {
  std::string all, bytes;
  for (const std::string& piece : pieces) all += bytes_of_token(piece, bytes) ? bytes : piece;
  return valid_utf8(all);
}

std::string joined_sentence_pieces(const std::vector<std::string>& pieces, const Decoder& decoder) {
  std::string text;
  for (std::string piece : pieces) {
    if (const std::optional<uint8_t> byte = byte_of_piece(piece)) {
      text += static_cast<char>(*byte);
      continue;
    }
    replace_all(piece, kWordBegin, " ");
    text += piece;
  }
  if (decoder.strips_blank && text.starts_with(' ')) text.erase(0, 1);
  return valid_utf8(text);
}

// ---- the models' functions ------------------------------------------------------------------------------------------

void encode_with(const Bytes&, std::string_view part, bool, std::vector<int32_t>& ids) {
  for (const char byte : part) ids.push_back(static_cast<uint8_t>(byte));
}

void encode_with(const CharacterIds& characters, std::string_view part, bool, std::vector<int32_t>& ids) {
  for_each_character(part, [&](const Character& character, std::string_view bytes) {
    const int64_t id = characters.of(character.code);
    RUN_CHECK(id >= 0, ErrorKind::kData, "the vocabulary of {} characters has no {}", characters.size(),
              in_quotes(bytes));
    ids.push_back(static_cast<int32_t>(id));
  });
}

void encode_with(const SentencePiece& model, std::string_view part, bool is_first, std::vector<int32_t>& ids) {
  model.encode(part, is_first, ids);
}

template <class Model>
void encode_with(const Model& model, std::string_view part, bool, std::vector<int32_t>& ids) {
  model.encode(part, ids);
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts) : parts_(std::move(parts)), is_special_(parts_.tokens.size()) {
  for (size_t i = 0; i < parts_.tokens.size(); ++i)
    if (!parts_.tokens[i].empty()) ids_.insert(parts_.tokens[i], static_cast<int32_t>(i));
  for (const AddedToken& token : parts_.added) {
    const std::string pattern = token.is_normalized ? parts_.normalizer(token.content) : token.content;
    if (!pattern.empty()) (token.is_normalized ? normalized_ : raw_).add(token, pattern);
    if (token.is_special) is_special_[static_cast<size_t>(token.id)] = true;
    if (token.is_normalized) parts_.tokens[static_cast<size_t>(token.id)] = pattern;  // as the reference decodes it
  }
}

std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  const int32_t id = ids_.find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Tokenizer::marks_words() const {
  const auto* const model = std::get_if<WordPiece>(&parts_.model);
  return std::holds_alternative<SentencePiece>(parts_.model) || (model != nullptr && !model->prefix().empty());
}

bool Tokenizer::continues_word(int32_t id) const {
  const std::string& token = parts_.tokens[static_cast<size_t>(id)];
  const auto* const model = std::get_if<WordPiece>(&parts_.model);
  return model != nullptr ? token.starts_with(model->prefix()) : !token.starts_with(kWordBegin);
}

std::optional<int32_t> Tokenizer::first_of(std::span<const char* const> tokens) const {
  const auto found = std::ranges::find_if(tokens, [&](const char* token) { return find(token).has_value(); });
  return found == tokens.end() ? std::nullopt : find(*found);
}

// Tokens with a role that the files do not name.
constexpr const char *kEndTokens[] = {"<|endoftext|>", "</s>", "<eos>", "[SEP]"},
                     *kPaddingTokens[] = {"[PAD]", "<pad>"}, *kMaskTokens[] = {"[MASK]", "<mask>"};

std::optional<int32_t> Tokenizer::end_token() const {
  return parts_.end ? parts_.end : first_of(kEndTokens);
}

std::optional<int32_t> Tokenizer::padding_token() const {
  return parts_.padding ? parts_.padding : first_of(kPaddingTokens);
}

std::optional<int32_t> Tokenizer::mask_token() const {
  return parts_.mask ? parts_.mask : first_of(kMaskTokens);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialTokens specials) const {
  RUN_CHECK(text.size() <= kLongestText, ErrorKind::kData, "the text has {} bytes, limit {}; divide it", text.size(),
            kLongestText);
  if (!std::holds_alternative<Bytes>(parts_.model)) check_utf8(text);
  const bool is_bert = std::holds_alternative<WordPiece>(parts_.model);
  std::vector<int32_t> ids;
  const auto add_token = [&](int32_t id) { ids.push_back(id); };
  const auto add_text = [&](std::string_view part) { encode_part(part, part.data() == text.data(), ids); };
  const auto add_raw = [&](std::string_view part) {
    if (is_bert)
      normalized_.split(parts_.normalizer(part), specials, add_text, add_token);
    else
      normalized_.split(part, specials, add_text, add_token);
  };
  raw_.split(text, specials, add_raw, add_token);
  return ids;
}

void Tokenizer::encode_part(std::string_view part, bool is_first, std::vector<int32_t>& ids) const {
  std::visit([&](const auto& model) { encode_with(model, part, is_first, ids); }, parts_.model);
}

Encoding Tokenizer::with_specials(std::span<const int32_t> text) const {
  return filled(parts_.specials.single, text, {});
}

Encoding Tokenizer::with_specials(std::span<const int32_t> first, std::span<const int32_t> second) const {
  return filled(parts_.specials.pair, first, second);
}

std::vector<int32_t> Tokenizer::begun(std::span<const int32_t> text) const {
  std::vector<int32_t> ids;
  for (const TemplatePart& part : parts_.specials.single) {
    if (part.kind == TemplatePart::kFirst) break;
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
  }
  ids.insert(ids.end(), text.begin(), text.end());
  return ids;
}

size_t Tokenizer::specials(bool is_pair) const {
  return filled(is_pair ? parts_.specials.pair : parts_.specials.single, {}, {}).ids.size();
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> pieces;
  for (const int32_t id : ids) {
    RUN_ASSERT(id >= 0 && id < vocabulary());
    pieces.push_back(parts_.tokens[static_cast<size_t>(id)]);
  }
  if (parts_.decoder.kind == Decoder::kBytes) return joined_bytes(pieces);
  if (parts_.decoder.kind == Decoder::kSentencePiece) return joined_sentence_pieces(pieces, parts_.decoder);
  return joined_pieces(pieces, parts_.decoder);
}

Tokenizer bytes_tokenizer() {
  TokenizerParts parts{.kind = std::string(kBytesWord), .model = Bytes(), .decoder = {.kind = Decoder::kBytes}};
  for (unsigned byte = 0; byte < 256; ++byte) {
    parts.tokens.emplace_back();
    append_utf8(parts.tokens.back(), character_of_byte(static_cast<uint8_t>(byte)));
  }
  return Tokenizer(std::move(parts));
}

Tokenizer characters_tokenizer(std::vector<std::string> characters) {
  CharacterIds ids(characters);
  return Tokenizer({.kind = std::string(kCharactersWord),
                    .tokens = std::move(characters),
                    .model = std::move(ids),
                    .decoder = {.kind = Decoder::kConcatenated}});
}

}  // namespace runner::text
