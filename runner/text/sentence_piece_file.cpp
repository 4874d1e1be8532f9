#include "runner/text/sentence_piece_file.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "runner/text/piece_json.h"
#include "runner/text/piece_model.h"
#include "runner/text/piece_vocabulary.h"
#include "runner/text/reading.h"
#include "runner/text/sentence_piece.h"
#include "runner/text/tokenizer_json.h"
#include "schema/base/text.h"

namespace runner::text {
namespace {

namespace fs = std::filesystem;

constexpr const char *kConfigFile = "tokenizer_config.json", *kSpecialsFile = "special_tokens_map.json",
                     *kAddedFile = "added_tokens.json", *kJsonFile = "tokenizer.json";
constexpr int64_t kMostExtraIds = 10'000;

// ---- classes of transformers ----------------------------------------------------------------------------------------

struct RoleDef {
  std::string_view role, content;
  bool is_fixed = false;  // whether the configuration cannot name another token
};
constexpr RoleDef kLlamaRoles[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>", true}};
constexpr RoleDef kT5Roles[] = {{"eos_token", "</s>"}, {"unk_token", "<unk>", true}, {"pad_token", "<pad>"}};
constexpr RoleDef kXlmRobertaRoles[] = {
    {"bos_token", "<s>", true},   {"eos_token", "</s>", true},  {"sep_token", "</s>", true}, {"cls_token", "<s>", true},
    {"unk_token", "<unk>", true}, {"pad_token", "<pad>", true}, {"mask_token", "<mask>"}};

enum class Around { kByFlags, kEnd, kBeginAndEnd };  // special tokens: by add_bos_token and add_eos_token, or these

// How a class of transformers uses a model. Without a class, the ids are those of SentencePiece.
struct PieceClass {
  std::string_view name;
  PieceModel::Kind model;
  bool has_bytes;  // the model must have byte_fallback, or must not
  std::span<const RoleDef> roles;
  Around around;
  bool divides_at_white_space;  // else blanks are kept, and the normalizer of the model is not used
  bool has_extra_ids, is_of_fairseq;
};
constexpr PieceClass kClasses[] = {
    {"LlamaTokenizer", PieceModel::kBpe, true, kLlamaRoles, Around::kByFlags, false, false, false},
    {"T5Tokenizer", PieceModel::kUnigram, false, kT5Roles, Around::kEnd, true, true, false},
    {"XLMRobertaTokenizer", PieceModel::kUnigram, false, kXlmRobertaRoles, Around::kBeginAndEnd, true, false, true},
};

// ---- settings -------------------------------------------------------------------------------------------------------

// A JSON file of the folder; null if there is none.
struct SettingsFile {
  std::string path;
  json::Value object{};

  SettingsFile(const fs::path& folder, const char* name) : path((folder / name).string()) {
    if (fs::exists(path)) object = read_object(path);
  }
  const json::Value& at(std::string_view key) const { return json::member(object, key); }
  bool flag(std::string_view key, bool otherwise) const { return read_flag(object, key, path).value_or(otherwise); }
};

struct Settings {
  explicit Settings(const fs::path& folder)
      : config(folder, kConfigFile),
        specials(folder, kSpecialsFile),
        added(folder, kAddedFile),
        document(folder, kJsonFile) {
    if (!is_sentence_piece(document.object)) document.object = {};
  }

  // special_tokens_map.json and added_tokens.json are of older versions, and do not count if the configuration has the
  // tokens.
  bool has_tokens() const { return !config.at("added_tokens_decoder").is_null(); }

  SettingsFile config, specials, added;
  SettingsFile document;  // tokenizer.json of the same model
};

// Returns the class of the configuration; null for none.
const PieceClass* class_of(const SettingsFile& config) {
  const json::Value& value = config.at("tokenizer_class");
  RUN_CHECK(value.is_null() || value.text() != nullptr, ErrorKind::kData,
            "{}: tokenizer_class: expected a text, got {}", config.path, json::compact(value));
  const std::string name = json::text_of(value);
  const auto is = [&](std::string_view family) { return name == family || name == fmt::format("{}Fast", family); };
  for (const PieceClass& each : kClasses)
    if (is(each.name)) return &each;
  RUN_CHECK(name.empty() || is("PreTrainedTokenizer") || name == "TokenizersBackend", ErrorKind::kData,
            "{}: tokenizer_class {} is not supported with a SentencePiece model; supported are LlamaTokenizer, "
            "T5Tokenizer, XLMRobertaTokenizer, PreTrainedTokenizerFast and none",
            config.path, in_quotes(name));
  return nullptr;
}

bool keeps_blanks(const PieceClass* kind) {
  return kind != nullptr && !kind->divides_at_white_space;
}

// Refuses settings that would change ids.
void check_settings(const SettingsFile& config, const PieceClass* kind, const PieceModel& model) {
  const auto refuse = [&](std::string_view what) {
    fail(ErrorKind::kData, "{}: {} is not supported with this SentencePiece model", config.path, what);
  };
  if (config.flag("split_special_tokens", false)) refuse("split_special_tokens: true");
  if (!json::members_of(config.at("sp_model_kwargs")).empty()) refuse("sp_model_kwargs");
  if (kind == nullptr && !config.flag("legacy", true)) refuse("legacy: false without LlamaTokenizer");
  if (!keeps_blanks(kind) && config.flag("add_prefix_space", model.adds_prefix) != model.adds_prefix)
    refuse("an add_prefix_space that differs from the model's add_dummy_prefix");
}

// transformers ignores some options of models with these classes.
void check_model(const PieceClass& kind, const PieceModel& model, const std::string& path) {
  const auto expect = [&](bool holds, std::string_view what) {
    RUN_CHECK(holds, ErrorKind::kData,
              "{}: the model {}, which {} of transformers ignores; remove tokenizer_class from {} to get the ids of "
              "SentencePiece",
              path, what, kind.name, kConfigFile);
  };
  expect(model.kind == kind.model, model.kind == PieceModel::kBpe ? "is of type bpe" : "is of type unigram");
  expect(model.byte_fallback == kind.has_bytes, kind.has_bytes ? "has no byte_fallback" : "has byte_fallback");
  expect(kind.divides_at_white_space || model.characters_map.empty(), "normalizes characters");
}

// XLM-R numbers its pieces as fairseq does: <s> <pad> </s> <unk>, and the others.
void renumber(PieceModel& model, const std::string& path) {
  constexpr std::pair<const char*, PieceType> kFirst[] = {
      {"<unk>", PieceType::kUnknown}, {"<s>", PieceType::kControl}, {"</s>", PieceType::kControl}};
  std::vector<Piece>& pieces = model.pieces;
  const bool fits =
      pieces.size() > 3 &&
      std::ranges::equal(kFirst, std::span(pieces).first(3), [](const auto& expected, const Piece& piece) {
        return piece.text == expected.first && piece.type == expected.second;
      });
  RUN_CHECK(
      fits && std::ranges::find(pieces, "<pad>", &Piece::text) == pieces.end(), ErrorKind::kData,
      "{}: the model does not fit XLMRobertaTokenizer: expected the pieces <unk>, <s> and </s> first, and no <pad>",
      path);
  std::rotate(pieces.begin(), pieces.begin() + 1, pieces.begin() + 3);
  pieces.insert(pieces.begin() + 1, {.text = "<pad>", .type = PieceType::kControl});
}

// ---- tokens ---------------------------------------------------------------------------------------------------------

// A token of transformers: its content, or an object with settings.
AddedToken read_token(const json::Value& value, const std::string& place, const std::string& path, bool is_special) {
  AddedToken token{.content = json::text_of(value), .is_special = is_special};
  if (value.map() != nullptr) {
    token.content = json::text_of(json::member(value, "content"));
    const auto flag = [&](std::string_view key, bool otherwise) {
      return read_flag(value, key, path).value_or(otherwise);
    };
    token.single_word = flag("single_word", false);
    token.lstrip = flag("lstrip", false);
    token.rstrip = flag("rstrip", false);
    token.is_special = is_special || flag("special", false);
    token.is_normalized = flag("normalized", !token.is_special);
  }
  RUN_CHECK(!token.content.empty(), ErrorKind::kData, "{}: {}: expected a token", path, place);
  return token;
}

int64_t checked_id(const json::Value& value, const std::string& place) {
  const std::optional<int64_t> id = json::integer_of(value);
  RUN_CHECK(id && *id >= 0, ErrorKind::kData, "{}: expected the id of a token, got {}", place, json::compact(value));
  return *id;
}

struct ListedToken {
  AddedToken token;
  std::string path;  // of the file that lists it
};

// Returns the added tokens by id.
std::map<int64_t, ListedToken> listed_tokens(const Settings& settings) {
  std::map<int64_t, ListedToken> tokens;
  const auto list = [&](const json::Value& id, const json::Value& token, const std::string& key,
                        const std::string& path) {
    const std::string place = key.empty() ? path : fmt::format("{}: {}", path, visible(key));
    tokens.insert_or_assign(checked_id(id, place), ListedToken{read_token(token, key, path, false), path});
  };
  const SettingsFile &config = settings.config, &added = settings.added, &document = settings.document;
  for (const auto& [id, token] : json::members_of(config.at("added_tokens_decoder")))
    list(json::parse(id), token, "added_tokens_decoder." + id, config.path);
  if (settings.has_tokens()) return tokens;
  for (const auto& [content, id] : json::members_of(added.object)) {
    list(id, content, in_quotes(content), added.path);
    AddedToken& token = tokens.at(*json::integer_of(id)).token;
    token.is_normalized = true;
    token.is_special = false;
  }
  for (const json::Value& token : json::elements_of(document.at("added_tokens")))
    list(json::member(token, "id"), token, "added_tokens", document.path);
  return tokens;
}

// transformers has its own ids for some roles, whatever their names.
void check_roles(const SettingsFile& config, const PieceClass& kind, const PieceModel& model) {
  for (const auto& [role, content, is_fixed] : kind.roles) {
    const json::Value& value = config.at(role);
    if (!is_fixed || value.is_null()) continue;
    const std::string name = json::text_of(value.map() != nullptr ? json::member(value, "content") : value);
    RUN_CHECK(name == content, ErrorKind::kData, "{}: {} {} is not supported for this class; expected {}", config.path,
              role, in_quotes(name), content);
  }
  constexpr size_t kUnknownOfT5 = 2;
  const bool has_unknown = model.pieces.size() > kUnknownOfT5 && model.pieces[kUnknownOfT5].type == PieceType::kUnknown;
  RUN_CHECK(!kind.has_extra_ids || has_unknown, ErrorKind::kData,
            "{}: {} expects the unknown piece to have id {}; remove tokenizer_class", config.path, kind.name,
            kUnknownOfT5);
}

// Ids of tokens with a role.
using Roles = std::map<std::string, int32_t, std::less<>>;

// `defaults`: contents by role.
Roles add_roles(const Settings& settings, const std::map<std::string, std::string>& defaults,
                PieceVocabulary& vocabulary) {
  Roles roles;
  for (const char* const role :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const bool is_older = !settings.has_tokens() && settings.config.at(role).is_null();
    const SettingsFile& file = is_older ? settings.specials : settings.config;
    const auto standard = defaults.find(role);
    if (!file.at(role).is_null())
      roles[role] = vocabulary.add_special(read_token(file.at(role), role, file.path, true));
    else if (standard != defaults.end())
      roles[role] = vocabulary.add_special({.content = standard->second});
  }
  return roles;
}

// transformers numbers tokens of these lists by their order if they are not in the vocabulary.
void check_more_specials(const SettingsFile& config, PieceVocabulary& vocabulary) {
  for (const char* const key : {"additional_special_tokens", "extra_special_tokens"}) {
    for (const json::Value& value : json::elements_of(config.at(key))) {
      AddedToken token = read_token(value, key, config.path, true);
      RUN_CHECK(vocabulary.find(token.content), ErrorKind::kData,
                "{}: {}: token {} has no id; add it to added_tokens_decoder", config.path, key,
                in_quotes(token.content));
      vocabulary.add_special(std::move(token));
    }
  }
}

void add_extra_ids(const SettingsFile& config, PieceVocabulary& vocabulary) {
  const int64_t count = json::integer_of(config.at("extra_ids")).value_or(100);
  RUN_CHECK(count >= 0 && count <= kMostExtraIds, ErrorKind::kData, "{}: extra_ids is {}, expected 0 to {}",
            config.path, count, kMostExtraIds);
  for (int64_t i = count; i-- > 0;) vocabulary.add_special({.content = fmt::format("<extra_id_{}>", i)});
}

// Contents of the tokens that have a role if the configuration names no other.
std::map<std::string, std::string> default_roles(const PieceClass* kind, const PieceModel& model) {
  std::map<std::string, std::string> roles;
  if (kind != nullptr) {
    for (const RoleDef& each : kind->roles) roles.emplace(each.role, each.content);
    return roles;
  }
  for (const Piece& piece : model.pieces) {
    const bool is_control = piece.type == PieceType::kControl;
    if (is_control && piece.text == model.bos_piece) roles["bos_token"] = piece.text;
    if (is_control && piece.text == model.eos_piece) roles["eos_token"] = piece.text;
    if (is_control && piece.text == model.pad_piece) roles["pad_token"] = piece.text;
    if (piece.type == PieceType::kUnknown) roles["unk_token"] = piece.text;
  }
  return roles;
}

void add_pieces(const PieceClass* kind, const PieceModel& model, PieceVocabulary& vocabulary) {
  for (const Piece& piece : model.pieces) {
    const bool is_special = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
    // Otherwise SentencePiece finds them.
    const bool is_symbol = piece.type == PieceType::kUserDefined && kind != nullptr;
    if (is_special || is_symbol) vocabulary.add({.content = piece.text, .is_special = is_special});
  }
}

// ---- template -------------------------------------------------------------------------------------------------------

std::vector<TemplatePart> surrounded(TemplatePart::Kind text, std::optional<int32_t> begin, std::optional<int32_t> end,
                                     int32_t type) {
  std::vector<TemplatePart> parts;
  if (begin) parts.push_back({TemplatePart::kToken, {*begin}, type});
  parts.push_back({text, {}, type});
  if (end) parts.push_back({TemplatePart::kToken, {*end}, type});
  return parts;
}

Template template_of(const Settings& settings, const PieceClass* kind, const Roles& roles, size_t vocabulary) {
  const SettingsFile& config = settings.config;
  const Around around = kind != nullptr ? kind->around : Around::kByFlags;
  const bool is_fixed = around != Around::kByFlags, begins = around == Around::kBeginAndEnd;
  const bool is_set = !config.at("add_bos_token").is_null() || !config.at("add_eos_token").is_null();
  if (!is_fixed && !is_set && !settings.document.object.is_null())
    return naming(settings.document.path, [&] { return template_of_json(settings.document.object, vocabulary); });
  const auto token = [&](std::string_view flag, std::string_view role, bool is_always) {
    const auto found = roles.find(role);
    const bool is_added = is_always || (!is_fixed && config.flag(flag, false));
    return is_added && found != roles.end() ? std::optional(found->second) : std::nullopt;
  };
  const std::optional<int32_t> begin = token("add_bos_token", "bos_token", begins);
  const std::optional<int32_t> end = token("add_eos_token", "eos_token", is_fixed);
  Template result{.single = surrounded(TemplatePart::kFirst, begin, end, 0)};
  result.pair = result.single;
  for (TemplatePart& part : surrounded(TemplatePart::kSecond, begins ? end : begin, end, is_fixed ? 0 : 1))
    result.pair.push_back(std::move(part));
  return result;
}

// ---- tokenizer.json -------------------------------------------------------------------------------------------------

// Refuses a tokenizer.json with other ids.
void check_same(const SettingsFile& document, const PieceClass* kind, const PieceModel& model,
                const PieceVocabulary& vocabulary) {
  if (document.object.is_null()) return;
  RUN_CHECK(
      kind != nullptr, ErrorKind::kData,
      "{}: without a tokenizer_class such as LlamaTokenizer in {}, transformers takes the ids from tokenizer.json, "
      "which are not supported; remove tokenizer.json to use those of the SentencePiece model",
      document.path, kConfigFile);
  const auto check = [&](const std::string& token, const json::Value& value) {
    const std::optional<int64_t> id = json::integer_of(value);
    const std::optional<int32_t> here = vocabulary.find(token);
    RUN_CHECK(
        here && here == id, ErrorKind::kData,
        "{}: token {} has id {}, but with the SentencePiece model of its folder {}; the two files are of different "
        "tokenizers: remove one of them",
        document.path, in_quotes(token), json::compact(value), here ? std::to_string(*here) : "none");
  };
  const json::Value& tokens = json::member(document.at("model"), "vocab");
  for (const auto& [token, id] : json::members_of(tokens)) check(token, id);  // BPE
  int64_t position = 0;
  for (const json::Value& piece : json::elements_of(tokens)) {  // unigram: texts with scores
    const json::List& parts = json::elements_of(piece);
    check(parts.empty() ? "" : json::text_of(parts[0]), position++);
  }
  for (const json::Value& token : json::elements_of(document.at("added_tokens")))
    check(json::text_of(json::member(token, "content")), json::member(token, "id"));
  const size_t count = json::members_of(tokens).size() + json::elements_of(tokens).size();
  RUN_CHECK(
      count >= model.pieces.size(), ErrorKind::kData,
      "{}: the vocabulary has {} tokens, but the SentencePiece model of its folder {}; the two files are of different "
      "tokenizers: remove one of them",
      document.path, count, model.pieces.size());
  naming(document.path, [&] { check_piece_json(document.object, model); });
}

// A tokenizer.model of Llama 3 has lines of a token in base64 and its rank.
void refuse_tiktoken(const std::string& path, std::string_view contents) {
  const std::string_view line = contents.substr(0, contents.find('\n'));
  const size_t blank = line.find(' ');
  RUN_CHECK(blank == std::string_view::npos || blank == 0 || line.substr(blank + 1) != "0", ErrorKind::kData,
            "{}: the model is a vocabulary of tiktoken, not of SentencePiece; use the folder's tokenizer.json", path);
}

}  // namespace

std::vector<std::string> sentence_piece_settings() {
  return {kConfigFile, kSpecialsFile, kAddedFile, kJsonFile};
}

Tokenizer open_sentence_piece(const std::string& path, std::string_view contents) {
  refuse_tiktoken(path, contents);
  PieceModel model = naming(path, [&] { return read_piece_model(contents); });
  const Settings settings(fs::path(path).parent_path());
  const SettingsFile& config = settings.config;
  const PieceClass* const kind = class_of(config);
  if (kind != nullptr) check_model(*kind, model, path);
  check_settings(config, kind, model);
  if (kind != nullptr) check_roles(config, *kind, model);
  if (kind != nullptr && kind->is_of_fairseq) renumber(model, path);

  PieceVocabulary vocabulary(model);
  add_pieces(kind, model, vocabulary);
  if (kind != nullptr && kind->has_extra_ids) add_extra_ids(config, vocabulary);
  for (const auto& [id, listed] : listed_tokens(settings)) vocabulary.add(listed.token, id, listed.path);
  const Roles roles = add_roles(settings, default_roles(kind, model), vocabulary);
  check_more_specials(config, vocabulary);
  check_same(settings.document, kind, model, vocabulary);

  SentencePieceOptions options;
  bool has_prefix = model.adds_prefix;
  if (keeps_blanks(kind)) {
    has_prefix = config.flag("add_prefix_space", true);
    options.prefix = !has_prefix                    ? WordPrefix::kNone
                     : config.flag("legacy", false) ? WordPrefix::kEveryPart
                                                    : WordPrefix::kFirstPart;
    model.adds_prefix = model.removes_blanks = false;
  }
  if (kind != nullptr && kind->divides_at_white_space) {
    options.white_space_is_blank = has_prefix = true;
    model.adds_prefix = model.removes_blanks = true;
  }
  const auto role = [&](std::string_view name) {
    const auto found = roles.find(name);
    return found == roles.end() ? std::nullopt : std::optional(found->second);
  };
  TokenizerParts parts{.kind = model.kind == PieceModel::kBpe ? "SentencePiece BPE" : "SentencePiece unigram",
                       .tokens = vocabulary.tokens(),
                       .model = naming(path, [&] { return SentencePiece(model, options); }),
                       .added = vocabulary.added(),
                       .specials = template_of(settings, kind, roles, vocabulary.tokens().size()),
                       .decoder = {.kind = Decoder::kSentencePiece, .strips_blank = has_prefix},
                       .limits = limits_of_json(settings.document.object),
                       .begin = role("bos_token"),
                       .end = role("eos_token"),
                       .padding = role("pad_token"),
                       .mask = role("mask_token")};
  return Tokenizer(std::move(parts));
}

}  // namespace runner::text
