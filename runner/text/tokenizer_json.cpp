#include "runner/text/tokenizer_json.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "schema/base/error.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::text {
namespace {

using json::Value;

constexpr const char* kSupported = "supported are BERT's WordPiece and GPT-2's byte-level BPE";

// An object of the file, with its place in it for messages.
class Section {
 public:
  Section(const Value& value, std::string place) : value_(value), place_(std::move(place)) {
    RUN_CHECK(value.map() != nullptr, ErrorKind::kData, "{}: expected an object", place_);
  }

  const std::string& place() const { return place_; }
  std::string place_of(std::string_view key) const { return fmt::format("{}.{}", place_, key); }
  const Value& at(std::string_view key) const { return json::member(value_, key); }

  // Refuses members that are not in the list, because they could change ids.
  void expect_only(std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, value] : *value_.map())
      RUN_CHECK(std::ranges::find(keys, key) != keys.end(), ErrorKind::kData, "{}: unknown setting {}; {}", place_,
                in_quotes(key), kSupported);
  }

  bool flag(std::string_view key, bool otherwise) const {
    const Value& value = at(key);
    if (value.is_null()) return otherwise;
    RUN_CHECK(value.boolean() != nullptr, ErrorKind::kData, "{}: expected true or false", place_of(key));
    return *value.boolean();
  }
  std::string text(std::string_view key, std::string_view otherwise) const {
    const Value& value = at(key);
    if (value.is_null()) return std::string(otherwise);
    RUN_CHECK(value.text() != nullptr, ErrorKind::kData, "{}: expected a text", place_of(key));
    return *value.text();
  }
  int64_t integer(std::string_view key, int64_t otherwise) const {
    const Value& value = at(key);
    if (value.is_null()) return otherwise;
    RUN_CHECK(value.integer() != nullptr && *value.integer() >= 0, ErrorKind::kData,
              "{}: expected a whole number, at least 0", place_of(key));
    return *value.integer();
  }

  // Refuses a setting that is not null, false, 0 or "".
  void expect_off(std::string_view key) const {
    const Value& value = at(key);
    const bool is_off = value.is_null() || value == Value(false) || value == Value(int64_t{0}) || value == Value(0.0) ||
                        value == Value(std::string());
    RUN_CHECK(is_off, ErrorKind::kData, "{}: {} is not supported", place_of(key),
              in_quotes(schema::canonical_text(value)));
  }

  // Returns the member "type".
  std::string type() const { return text("type", ""); }
  [[noreturn]] void refuse_type() const {
    fail(ErrorKind::kData, "{}: type {} is not supported; {}", place_, in_quotes(type()), kSupported);
  }

 private:
  const Value& value_;
  std::string place_;
};

int32_t id_of(const Value& value, const std::string& place) {
  const int64_t* const id = value.integer();
  RUN_CHECK(id != nullptr && *id >= 0 && *id < std::numeric_limits<int32_t>::max(), ErrorKind::kData,
            "{}: expected an id, a whole number from 0 to {}, got {}", place, std::numeric_limits<int32_t>::max() - 1,
            in_quotes(schema::canonical_text(value)));
  return static_cast<int32_t>(*id);
}

// ---- added tokens ---------------------------------------------------------------------------------------------------

// Adds the token to the vocabulary unless it is there.
void add_to_vocabulary(const AddedToken& token, const std::string& place, const TokenTrie& known,
                       std::vector<std::string>& tokens) {
  const int32_t existing = known.find(token.content);
  if (existing < 0 && static_cast<size_t>(token.id) == tokens.size()) {
    tokens.push_back(token.content);
    return;
  }
  if (existing < 0 && static_cast<size_t>(token.id) < tokens.size()) {
    fail(ErrorKind::kData, "{}: token {} has id {}, which is that of {}", place, in_quotes(token.content), token.id,
         in_quotes(tokens[static_cast<size_t>(token.id)]));
  }
  RUN_CHECK(existing >= 0, ErrorKind::kData, "{}: token {} has id {}, but the vocabulary ends at {}", place,
            in_quotes(token.content), token.id, std::ssize(tokens) - 1);
  RUN_CHECK(existing == token.id, ErrorKind::kData, "{}: token {} has id {}, but in model.vocab {}", place,
            in_quotes(token.content), token.id, existing);
}

// Adds new tokens to `tokens`.
std::vector<AddedToken> read_added_tokens(const Value& document, std::vector<std::string>& tokens) {
  const Value& list = json::member(document, "added_tokens");
  RUN_CHECK(list.is_null() || list.list() != nullptr, ErrorKind::kData, "added_tokens: expected a list");
  TokenTrie known;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (!tokens[i].empty()) known.insert(tokens[i], static_cast<int32_t>(i));
  std::vector<AddedToken> added;
  for (const Value& element : json::elements_of(list)) {
    const Section entry(element, fmt::format("added_tokens[{}]", added.size()));
    entry.expect_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token{.id = id_of(entry.at("id"), entry.place_of("id")),
                     .content = entry.text("content", ""),
                     .single_word = entry.flag("single_word", false),
                     .lstrip = entry.flag("lstrip", false),
                     .rstrip = entry.flag("rstrip", false),
                     .is_normalized = entry.flag("normalized", true),
                     .is_special = entry.flag("special", false)};
    RUN_CHECK(!token.content.empty(), ErrorKind::kData, "{}: the content is empty", entry.place());
    add_to_vocabulary(token, entry.place(), known, tokens);
    known.insert(token.content, token.id);
    added.push_back(std::move(token));
  }
  std::stable_partition(added.begin(), added.end(), [](const AddedToken& token) { return token.is_special; });
  return added;
}

// ---- model ----------------------------------------------------------------------------------------------------------

Merge merge_of(const Value& value, size_t index) {
  if (const std::string* const line = value.text()) {
    const size_t blank = line->find(' ');
    if (blank != std::string::npos && blank > 0 && blank + 1 < line->size() &&
        line->find(' ', blank + 1) == std::string::npos)
      return {line->substr(0, blank), line->substr(blank + 1)};
  }
  const json::List& pair = json::elements_of(value);
  RUN_CHECK(pair.size() == 2 && pair[0].text() != nullptr && pair[1].text() != nullptr, ErrorKind::kData,
            "model.merges[{}]: expected two tokens, got {}", index, in_quotes(schema::canonical_text(value)));
  return {*pair[0].text(), *pair[1].text()};
}

std::vector<Merge> read_merges(const Value& list) {
  RUN_CHECK(list.list() != nullptr, ErrorKind::kData, "model.merges: expected a list");
  std::vector<Merge> merges;
  for (const Value& merge : *list.list()) merges.push_back(merge_of(merge, merges.size()));
  return merges;
}

// `tokens`: with added ones.
WordPiece read_word_piece(const Section& model, std::span<const std::string> tokens) {
  model.expect_only({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  return WordPiece(tokens, {.unknown_token = model.text("unk_token", "[UNK]"),
                            .prefix = model.text("continuing_subword_prefix", "##"),
                            .longest_word = model.integer("max_input_chars_per_word", 100)});
}

ByteBpe read_byte_bpe(const Section& model, const Value& pre_tokenizer, std::span<const std::string> tokens) {
  model.expect_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                     "byte_fallback", "ignore_merges", "vocab", "merges"});
  for (const char* const key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    model.expect_off(key);
  const Section splitter(pre_tokenizer, "pre_tokenizer");
  if (splitter.type() != "ByteLevel") splitter.refuse_type();
  splitter.expect_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  const std::vector<Merge> merges = read_merges(model.at("merges"));
  return ByteBpe(tokens, merges,
                 {.add_prefix_space = splitter.flag("add_prefix_space", true),
                  .split = splitter.flag("use_regex", true),
                  .ignore_merges = model.flag("ignore_merges", false),
                  .fuse_unknown = model.flag("fuse_unk", false),
                  .unknown_token = model.text("unk_token", "")});
}

// ---- normalizer, decoder --------------------------------------------------------------------------------------------

BertNormalizer read_bert_normalizer(const Value& value) {
  if (value.is_null()) return {};
  const Section normalizer(value, "normalizer");
  if (normalizer.type() != "BertNormalizer") normalizer.refuse_type();
  normalizer.expect_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lowercase = normalizer.flag("lowercase", true);
  return {.clean_text = normalizer.flag("clean_text", true),
          .handle_chinese_chars = normalizer.flag("handle_chinese_chars", true),
          .strip_accents = normalizer.flag("strip_accents", lowercase),
          .lowercase = lowercase};
}

Decoder read_decoder(const Value& value) {
  if (value.is_null()) return {.kind = Decoder::kJoined};
  const Section decoder(value, "decoder");
  if (decoder.type() == "ByteLevel") return {.kind = Decoder::kBytes};
  if (decoder.type() != "WordPiece") decoder.refuse_type();
  decoder.expect_only({"type", "prefix", "cleanup"});
  return {
      .kind = Decoder::kWordPiece, .prefix = decoder.text("prefix", "##"), .cleans_up = decoder.flag("cleanup", true)};
}

// ---- post-processor -------------------------------------------------------------------------------------------------

void check_ids(std::span<const int32_t> ids, size_t vocabulary, const std::string& place) {
  for (const int32_t id : ids)
    RUN_CHECK(static_cast<size_t>(id) < vocabulary, ErrorKind::kData, "{}: id {} is not in the vocabulary of {} tokens",
              place, id, vocabulary);
}

TemplatePart read_template_part(const Value& value, const Section& processor, const std::string& place,
                                size_t vocabulary) {
  const Section part(value, place);
  part.expect_only({"SpecialToken", "Sequence"});
  const bool is_token = !part.at("SpecialToken").is_null();
  const char* const kind = is_token ? "SpecialToken" : "Sequence";
  const Section body(part.at(kind), part.place_of(kind));
  body.expect_only({"id", "type_id"});
  TemplatePart result{.type = id_of(body.at("type_id"), body.place_of("type_id"))};
  const std::string name = body.text("id", "");
  if (!is_token) {
    RUN_CHECK(name == "A" || name == "B", ErrorKind::kData, "{}: expected A or B, got {}", body.place_of("id"),
              in_quotes(name));
    result.kind = name == "A" ? TemplatePart::kFirst : TemplatePart::kSecond;
    return result;
  }
  const Section tokens(processor.at("special_tokens"), processor.place_of("special_tokens"));
  const Section token(tokens.at(name), tokens.place_of(in_quotes(name)));
  for (const Value& id : json::elements_of(token.at("ids"))) result.ids.push_back(id_of(id, token.place_of("ids")));
  check_ids(result.ids, vocabulary, token.place_of("ids"));
  return result;
}

std::vector<TemplatePart> read_template(const Section& processor, std::string_view key, size_t vocabulary) {
  const std::string place = processor.place_of(key);
  RUN_CHECK(processor.at(key).list() != nullptr, ErrorKind::kData, "{}: expected a list", place);
  std::vector<TemplatePart> parts;
  for (const Value& part : *processor.at(key).list())
    parts.push_back(read_template_part(part, processor, fmt::format("{}[{}]", place, parts.size()), vocabulary));
  return parts;
}

// The part for a member ["[SEP]", 102].
TemplatePart read_token_pair(const Section& processor, std::string_view key, size_t vocabulary) {
  const json::List& pair = json::elements_of(processor.at(key));
  RUN_CHECK(pair.size() == 2 && pair[0].text() != nullptr, ErrorKind::kData, "{}: expected a token and its id",
            processor.place_of(key));
  TemplatePart part{.ids = {id_of(pair[1], processor.place_of(key))}};
  check_ids(part.ids, vocabulary, processor.place_of(key));
  return part;
}

TemplatePart with_type(TemplatePart part, int32_t type) {
  part.type = type;
  return part;
}

constexpr TemplatePart::Kind kA = TemplatePart::kFirst, kB = TemplatePart::kSecond;

Template read_bert_template(const Section& processor, size_t vocabulary) {
  processor.expect_only({"type", "sep", "cls"});
  const TemplatePart sep = read_token_pair(processor, "sep", vocabulary);
  const TemplatePart cls = read_token_pair(processor, "cls", vocabulary);
  return {.single = {cls, {kA, {}, 0}, sep}, .pair = {cls, {kA, {}, 0}, sep, {kB, {}, 1}, with_type(sep, 1)}};
}

// RoBERTa has one segment, and two separators between a pair.
Template read_roberta_template(const Section& processor, size_t vocabulary) {
  processor.expect_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  const TemplatePart sep = read_token_pair(processor, "sep", vocabulary);
  const TemplatePart cls = read_token_pair(processor, "cls", vocabulary);
  return {.single = {cls, {kA, {}, 0}, sep}, .pair = {cls, {kA, {}, 0}, sep, sep, {kB, {}, 0}, sep}};
}

Template read_processor(const Section& processor, size_t vocabulary) {
  const std::string type = processor.type();
  if (type == "ByteLevel") return {};  // changes offsets only
  if (type == "BertProcessing") return read_bert_template(processor, vocabulary);
  if (type == "RobertaProcessing") return read_roberta_template(processor, vocabulary);
  if (type != "TemplateProcessing") processor.refuse_type();
  processor.expect_only({"type", "single", "pair", "special_tokens"});
  return {.single = read_template(processor, "single", vocabulary),
          .pair = read_template(processor, "pair", vocabulary)};
}

// A sequence may contain ByteLevel and one other processor.
Template read_processors(const Value& value, size_t vocabulary) {
  if (value.is_null()) return {};
  const Section outer(value, "post_processor");
  if (outer.type() != "Sequence") return read_processor(outer, vocabulary);
  outer.expect_only({"type", "processors"});
  Template found;
  int templates = 0;
  size_t index = 0;
  for (const Value& element : json::elements_of(outer.at("processors"))) {
    const Section processor(element, fmt::format("post_processor.processors[{}]", index++));
    if (processor.type() == "ByteLevel") continue;
    RUN_CHECK(++templates == 1, ErrorKind::kData, "{}: a second template is not supported", processor.place());
    found = read_processor(processor, vocabulary);
  }
  return found;
}

// ---- truncation, padding --------------------------------------------------------------------------------------------

}  // namespace

std::vector<std::string> tokens_by_id(const Value& vocabulary) {
  const json::Object* const entries = vocabulary.map();
  RUN_CHECK(entries != nullptr && !entries->empty(), ErrorKind::kData,
            "the vocabulary: expected an object of tokens and ids");
  std::vector<std::string> tokens(entries->size());
  std::vector<const std::string*> token_of(entries->size());
  TokenTrie seen;
  for (const auto& [token, value] : *entries) {
    const auto id = static_cast<size_t>(id_of(value, "the vocabulary, token " + in_quotes(token)));
    RUN_CHECK(id < tokens.size(), ErrorKind::kData,
              "the vocabulary has {} tokens, but token {} has id {}; ids must be from 0 to {}, without gaps",
              tokens.size(), in_quotes(token), id, tokens.size() - 1);
    RUN_CHECK(token_of[id] == nullptr, ErrorKind::kData, "the vocabulary: tokens {} and {} have the same id {}",
              in_quotes(*token_of[id]), in_quotes(token), id);
    RUN_CHECK(token.empty() || seen.insert(token, static_cast<int32_t>(id)) == static_cast<int32_t>(id),
              ErrorKind::kData, "the vocabulary has token {} twice", in_quotes(token));
    token_of[id] = &token;
    tokens[id] = token;
  }
  return tokens;
}

FileLimits limits_of_json(const Value& document) {
  FileLimits limits;
  const Value& truncation = json::member(document, "truncation");
  if (!truncation.is_null()) limits.truncation = Section(truncation, "truncation").integer("max_length", 512);
  const Value& padding = json::member(document, "padding");
  if (!padding.is_null())
    limits.padding = json::integer_of(json::member(json::member(padding, "strategy"), "Fixed")).value_or(0);
  return limits;
}

bool is_sentence_piece(const Value& document) {
  const Value& model = json::member(document, "model");
  return json::text_of(json::member(model, "type")) == "Unigram" || json::member(model, "byte_fallback") == Value(true);
}

Template template_of_json(const Value& document, size_t vocabulary) {
  return read_processors(json::member(document, "post_processor"), vocabulary);
}

Tokenizer tokenizer_of_json(const Value& document) {
  const Section file(document, "the file");
  RUN_CHECK(!file.at("model").is_null(), ErrorKind::kData,
            "expected a tokenizer.json, an object with a member `model`; if it is a vocab.json, give its folder, which "
            "has merges.txt too");
  file.expect_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                    "decoder", "model"});
  const Section model(file.at("model"), "model");
  RUN_CHECK(!is_sentence_piece(document), ErrorKind::kData,
            "model: a SentencePiece model (Unigram, or BPE with byte_fallback) within tokenizer.json is not supported; "
            "put its tokenizer.model or "
            "spiece.model in the same folder, and give the folder");
  // Files of older versions have no type.
  const std::string type = model.text("type", model.at("merges").is_null() ? "WordPiece" : "BPE");
  const bool is_bert = type == "WordPiece";
  if (!is_bert && type != "BPE") model.refuse_type();

  TokenizerParts parts{.kind = is_bert ? kWordPieceKind : kByteBpeKind,
                       .decoder = read_decoder(file.at("decoder")),
                       .limits = limits_of_json(document)};
  parts.tokens = tokens_by_id(model.at("vocab"));
  const std::vector<std::string> model_tokens = parts.tokens;
  parts.added = read_added_tokens(document, parts.tokens);
  if (is_bert) {
    const Section splitter(file.at("pre_tokenizer"), "pre_tokenizer");
    if (splitter.type() != "BertPreTokenizer") splitter.refuse_type();
    parts.normalizer = read_bert_normalizer(file.at("normalizer"));
    parts.model = read_word_piece(model, model_tokens);
  } else {
    if (!file.at("normalizer").is_null()) Section(file.at("normalizer"), "normalizer").refuse_type();
    parts.model = read_byte_bpe(model, file.at("pre_tokenizer"), model_tokens);
  }
  parts.specials = template_of_json(document, parts.tokens.size());
  return Tokenizer(std::move(parts));
}

}  // namespace runner::text
