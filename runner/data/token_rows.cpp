#include "runner/data/token_rows.h"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "runner/data/character_vocabulary.h"
#include "runner/formats/input_file.h"
#include "runner/text/characters.h"
#include "runner/text/tokenizer_file.h"
#include "runner/text/tokenizer_words.h"
#include "runner/text/truncation.h"
#include "schema/base/error.h"
#include "schema/base/sha256.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::data {
namespace {

constexpr bool is_same(schema::Truncation a, text::Truncation b) {
  return static_cast<text::Truncation>(a) == b;
}

std::string sha256_of(const std::string& path) {
  formats::InputFile input(path);
  std::vector<std::byte> chunk(size_t{1} << 18);
  Sha256 hash;
  while (const size_t got = input.read(chunk)) hash.update(std::span<const std::byte>(chunk).first(got));
  return hex(hash.finish());
}

std::vector<TokenizerFile> files_of(const std::string& tokenizer) {
  std::vector<TokenizerFile> files;
  for (const std::string& path : paths_of_tokenizer(tokenizer))
    files.push_back({std::filesystem::path(path).filename().string(), sha256_of(path)});
  return files;
}

std::string name_of_tokenizer(const std::string& tokenizer) {
  const std::filesystem::path path = std::filesystem::path(tokenizer).lexically_normal();
  return !text::is_tokenizer_path(tokenizer) ? tokenizer
                                             : (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string names(const std::vector<TokenizerFile>& files) {
  std::vector<std::string> all;
  for (const TokenizerFile& file : files) all.push_back(file.name);
  return fmt::format("{}", fmt::join(all, ", "));
}

void check_same(const std::string& tokenizer, const TextEncoding& now, const TextEncoding& known) {
  constexpr const char* kRemedy = "restore the files that the run was trained with";
  const bool has_files = text::is_tokenizer_path(now.tokenizer);
  RUN_CHECK(has_files == text::is_tokenizer_path(known.tokenizer) && (has_files || now.tokenizer == known.tokenizer),
            ErrorKind::kData, "the run was trained with the tokenizer {}, but data.tokens.tokenizer is {}",
            known.tokenizer, tokenizer);
  RUN_CHECK(std::ranges::equal(now.files, known.files, {}, &TokenizerFile::name, &TokenizerFile::name),
            ErrorKind::kData, "the tokenizer {} now consists of {}, but the run was trained with {}; {}", tokenizer,
            names(now.files), names(known.files), kRemedy);
  for (size_t i = 0; i < now.files.size(); ++i)
    RUN_CHECK(now.files[i] == known.files[i], ErrorKind::kData,
              "{} of the tokenizer {} has changed since the run was trained: sha256 {}… -> {}…; {}", now.files[i].name,
              tokenizer, known.files[i].sha256.substr(0, 12), now.files[i].sha256.substr(0, 12), kRemedy);
}

std::optional<text::Tokenizer> open(const std::string& tokenizer, const TextEncoding* known) {
  if (tokenizer == text::kCharactersWord) return std::nullopt;
  try {
    return text::open_tokenizer(tokenizer);
  } catch (Error& error) {
    error.set_key("data.tokens.tokenizer");
    throw error.note(known != nullptr ? "the run was trained with this tokenizer; restore its files"
                                      : "while reading data.tokens.tokenizer");
  }
}

std::vector<int32_t> code_points(std::string_view text) {
  std::vector<int32_t> codes;
  for_each_character(text, [&](const Character& character, std::string_view bytes) {
    RUN_CHECK(character.is_utf8, ErrorKind::kData, "the text has the byte {:#04x}, which is not valid UTF-8",
              static_cast<uint8_t>(bytes[0]));
    codes.push_back(static_cast<int32_t>(character.code));
  });
  return codes;
}

}  // namespace

std::vector<std::string> paths_of_tokenizer(const std::string& tokenizer) {
  return text::is_tokenizer_path(tokenizer) ? text::find_tokenizer(tokenizer).files : std::vector<std::string>();
}

TextTokenizer::TextTokenizer(const schema::TokensSpec& spec, const TextEncoding* known)
    : spec_(spec), tokenizer_(open(spec.tokenizer, known)) {
  encoding_ = {
      .tokenizer = name_of_tokenizer(spec.tokenizer), .files = files_of(spec.tokenizer), .padding = spec.padding};
  about_key("data.tokens.tokenizer", [&] {
    if (known != nullptr) check_same(spec.tokenizer, encoding_, *known);
  });
}

std::vector<int32_t> TextTokenizer::encode(std::string_view text) const {
  return tokenizer_ ? tokenizer_->encode(text) : code_points(text);
}

void TextTokenizer::add(std::span<const std::string> texts, bool ends, TokenRows& rows) const {
  const bool is_pair = texts.size() > 1;
  std::vector<int32_t> first = encode(texts[0]), second;
  if (is_pair) second = encode(texts[1]);
  const size_t specials = tokenizer_ ? tokenizer_->specials(is_pair) : 0;
  const auto length = static_cast<size_t>(spec_.max_length);
  RUN_CHECK(specials < length, ErrorKind::kRecipe,
            "data.tokens.max_length is {}, but the tokenizer adds {} special tokens to a {}", length, specials,
            is_pair ? "pair" : "text");
  const size_t most = length - specials;
  if (first.size() + second.size() > most) {
    static_assert(is_same(schema::Truncation::kLongestFirst, text::Truncation::kLongestFirst) &&
                  is_same(schema::Truncation::kOnlyFirst, text::Truncation::kOnlyFirst) &&
                  is_same(schema::Truncation::kOnlySecond, text::Truncation::kOnlySecond));
    const auto truncation = static_cast<text::Truncation>(spec_.truncation);
    const text::TextLengths left = text::truncated({first.size(), second.size()}, most, truncation);
    first.resize(left.first);
    second.resize(left.second);
    ++rows.truncated;
  }
  if (tokenizer_) {
    const text::Encoding whole = is_pair ? tokenizer_->with_specials(first, second) : tokenizer_->with_specials(first);
    rows.ids.insert(rows.ids.end(), whole.ids.begin(), whole.ids.end());
    rows.segments.insert(rows.segments.end(), whole.types.begin(), whole.types.end());
    const std::optional<int32_t> end = tokenizer_->end_token();
    if (ends && end && whole.ids.size() < length && (whole.ids.empty() || whole.ids.back() != *end)) {
      rows.ids.push_back(*end);
      rows.segments.push_back(0);
    }
  } else {
    rows.ids.insert(rows.ids.end(), first.begin(), first.end());
    rows.ids.insert(rows.ids.end(), second.begin(), second.end());
    rows.segments.insert(rows.segments.end(), first.size(), uint8_t{0});
    rows.segments.insert(rows.segments.end(), second.size(), uint8_t{1});
  }
  rows.ends.push_back(std::ssize(rows.ids));
}

void TextTokenizer::add_documents(std::span<const std::string_view> documents, LargeArray<uint32_t>& ids) const {
  const std::optional<int32_t> end = tokenizer_->end_token();
  for (const std::string_view document : documents) {
    if (!ids.empty()) {
      RUN_CHECK(
          end.has_value(), ErrorKind::kData,
          "the tokenizer {} has no end token to put between documents; expected <|endoftext|>, </s>, <eos> or [SEP]",
          spec_.tokenizer);
      ids.push_back(static_cast<uint32_t>(*end));
    }
    const std::vector<int32_t> tokens = encode(document);
    ids.insert(ids.end(), tokens.begin(), tokens.end());
  }
}

MaskVocabulary TextTokenizer::for_masking(const Masking& masking) const {
  RUN_ASSERT(tokenizer_.has_value());
  const std::optional<int32_t> mask = tokenizer_->mask_token();
  RUN_CHECK(
      mask.has_value(), ErrorKind::kRecipe,
      "train.objective masked_lm needs a mask token, but the tokenizer {} ({}) has neither [MASK] nor <mask>; use "
      "one that has it, as BERT's, or train.objective: {{type: causal_lm}}",
      spec_.tokenizer, tokenizer_->kind());
  RUN_CHECK(
      !masking.whole_word || tokenizer_->marks_words(), ErrorKind::kRecipe,
      "train.objective.whole_word needs a tokenizer that marks the pieces of a word, as BERT's WordPiece does with "
      "## and SentencePiece with \u2581, but {} is {}; use whole_word: false",
      spec_.tokenizer, tokenizer_->kind());
  MaskVocabulary vocabulary{.mask_id = *mask};
  for (int32_t id = 0; id < tokenizer_->vocabulary(); ++id) {
    using Kind = MaskVocabulary::Kind;
    const bool continues = tokenizer_->marks_words() && tokenizer_->continues_word(id);
    vocabulary.kinds.push_back(tokenizer_->is_special(id) ? Kind::kSpecial
                               : continues                ? Kind::kContinuation
                                                          : Kind::kWord);
  }
  return vocabulary;
}

int64_t TextTokenizer::finish(TokenRows& rows) const {
  if (tokenizer_) {
    rows.padding_id = tokenizer_->padding_token().value_or(0);  // padding is masked
    return tokenizer_->vocabulary();
  }
  constexpr size_t kCodes = 0x110000;
  std::vector<int32_t> id_of(kCodes, -1);
  for (const int32_t code : rows.ids) id_of[static_cast<size_t>(code)] = 0;
  for (size_t code = 0; code < kCodes; ++code) {
    if (id_of[code] < 0) continue;
    id_of[code] = static_cast<int32_t>(std::ssize(rows.characters));
    text::append_utf8(rows.characters.emplace_back(), static_cast<char32_t>(code));
  }
  for (int32_t& id : rows.ids) id = id_of[static_cast<size_t>(id)];
  return std::ssize(rows.characters);
}

void use_characters(TokenRows& rows, const std::vector<std::string>& characters, const std::string& name) {
  if (rows.characters == characters) return;
  const std::vector<int32_t> id_of = ids_in(rows.characters, characters, name);
  for (int32_t& id : rows.ids) id = id_of[static_cast<size_t>(id)];
  rows.characters = characters;
}

}  // namespace runner::data
