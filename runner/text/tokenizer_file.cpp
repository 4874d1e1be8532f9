#include "runner/text/tokenizer_file.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "runner/text/piece_model.h"
#include "runner/text/reading.h"
#include "runner/text/sentence_piece_file.h"
#include "runner/text/tokenizer_json.h"
#include "runner/text/tokenizer_words.h"
#include "schema/base/error.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::text {
namespace {

namespace fs = std::filesystem;

constexpr const char *kJsonName = "tokenizer.json", *kConfigName = "tokenizer_config.json";

std::string read_text(const std::string& path) {
  std::string text = read_bytes(path);
  expect_utf8(path, text);
  return text;
}

// ---- lines ----------------------------------------------------------------------------------------------------------

// Returns the lines without line ends.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// ---- tokenizer_config.json ------------------------------------------------------------------------------------------

// Settings of transformers for tokenizers without tokenizer.json.
struct Config {
  bool lowercase = true, handle_chinese_chars = true, add_prefix_space = false;
  std::optional<bool> strip_accents;
};

// `families`: beginnings of the classes that fit the files.
Config read_config(const fs::path& folder, std::span<const std::string_view> families) {
  Config config;
  const std::string path = (folder / kConfigName).string();
  if (!fs::exists(path)) return config;
  const json::Value document = read_object(path);
  const std::string name = json::text_of(json::member(document, "tokenizer_class"));
  const bool is_known = name.empty() || std::ranges::any_of(families, [&](std::string_view family) {
                          return name == family || name == fmt::format("{}Fast", family);
                        });
  RUN_CHECK(is_known, ErrorKind::kData,
            "{}: tokenizer_class {} is not supported without a tokenizer.json; save one with "
            "`AutoTokenizer.from_pretrained(...).save_pretrained(...)`",
            path, in_quotes(name));
  RUN_CHECK(read_flag(document, "do_basic_tokenize", path).value_or(true), ErrorKind::kData,
            "{}: do_basic_tokenize: false is not supported", path);
  config.lowercase = read_flag(document, "do_lower_case", path).value_or(config.lowercase);
  config.handle_chinese_chars =
      read_flag(document, "tokenize_chinese_chars", path).value_or(config.handle_chinese_chars);
  config.strip_accents = read_flag(document, "strip_accents", path);
  config.add_prefix_space = read_flag(document, "add_prefix_space", path).value_or(config.add_prefix_space);
  return config;
}

// Tokens that are in no other file would be lost.
void refuse_added_tokens(const fs::path& folder) {
  const std::string path = (folder / "added_tokens.json").string();
  RUN_CHECK(!fs::exists(path), ErrorKind::kData,
            "{}: added tokens are read from tokenizer.json only; save one with "
            "`AutoTokenizer.from_pretrained(...).save_pretrained(...)`",
            path);
}

// ---- vocab.txt ------------------------------------------------------------------------------------------------------

std::vector<std::string> read_token_lines(const std::string& path, std::string_view text) {
  std::vector<std::string> tokens;
  TokenTrie lines;
  for (const std::string_view line : lines_of(text)) {
    const auto id = static_cast<int32_t>(tokens.size());
    RUN_CHECK(!line.empty(), ErrorKind::kData, "{}:{}: expected a token, got an empty line", path, id + 1);
    const int32_t first = lines.insert(line, id);
    RUN_CHECK(first == id, ErrorKind::kData, "{}:{}: token {} is in line {} too", path, id + 1, in_quotes(line),
              first + 1);
    tokens.emplace_back(line);
  }
  return tokens;
}

// The special tokens of BERT that the vocabulary has.
std::vector<AddedToken> bert_specials(std::span<const std::string> tokens) {
  std::vector<AddedToken> added;
  for (const char* const name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    const auto found = std::ranges::find(tokens, name);
    if (found != tokens.end()) added.push_back({.id = static_cast<int32_t>(found - tokens.begin()), .content = name});
  }
  return added;
}

Template bert_template(const std::string& path, std::span<const std::string> tokens) {
  const auto part = [&](const char* name, int32_t type) {
    const auto found = std::ranges::find(tokens, name);
    RUN_CHECK(found != tokens.end(), ErrorKind::kData, "{}: the vocabulary has no token {}, which BERT needs", path,
              name);
    return TemplatePart{TemplatePart::kToken, {static_cast<int32_t>(found - tokens.begin())}, type};
  };
  const TemplatePart cls = part("[CLS]", 0), sep = part("[SEP]", 0), last = part("[SEP]", 1);
  return {.single = {cls, {TemplatePart::kFirst, {}, 0}, sep},
          .pair = {cls, {TemplatePart::kFirst, {}, 0}, sep, {TemplatePart::kSecond, {}, 1}, last}};
}

// `path`: of vocab.txt.
Tokenizer open_bert_vocabulary(const std::string& path) {
  constexpr std::string_view kFamilies[] = {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer",
                                            "MobileBertTokenizer"};
  const fs::path folder = fs::path(path).parent_path();
  refuse_added_tokens(folder);
  const Config config = read_config(folder, kFamilies);
  TokenizerParts parts{.kind = kWordPieceKind, .decoder = {.kind = Decoder::kWordPiece}};
  parts.tokens = read_token_lines(path, read_text(path));
  parts.normalizer = {.clean_text = true,
                      .handle_chinese_chars = config.handle_chinese_chars,
                      .strip_accents = config.strip_accents.value_or(config.lowercase),
                      .lowercase = config.lowercase};
  parts.model = naming(path, [&] { return WordPiece(parts.tokens, {}); });
  parts.added = bert_specials(parts.tokens);
  parts.specials = bert_template(path, parts.tokens);
  return Tokenizer(std::move(parts));
}

// ---- vocab.json and merges.txt --------------------------------------------------------------------------------------

std::vector<Merge> read_merge_lines(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<Merge> merges;
  int64_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t blank = line.find(' ');
    RUN_CHECK(blank != std::string_view::npos && blank > 0 && blank + 1 < line.size() &&
                  line.find(' ', blank + 1) == std::string_view::npos,
              ErrorKind::kData, "{}:{}: expected two tokens with a blank between them, got {}", path, number,
              in_quotes(line));
    merges.emplace_back(line.substr(0, blank), line.substr(blank + 1));
  }
  return merges;
}

Tokenizer open_bpe_files(const fs::path& folder) {
  constexpr std::string_view kFamilies[] = {"GPT2Tokenizer"};
  const std::string vocabulary = (folder / "vocab.json").string(), merges = (folder / "merges.txt").string();
  refuse_added_tokens(folder);
  const Config config = read_config(folder, kFamilies);
  TokenizerParts parts{.kind = kByteBpeKind, .decoder = {.kind = Decoder::kBytes}};
  const json::Value document = read_object(vocabulary);
  parts.tokens = naming(vocabulary, [&] { return tokens_by_id(document); });
  const std::vector<Merge> pairs = read_merge_lines(merges);
  parts.model =
      naming(merges, [&] { return ByteBpe(parts.tokens, pairs, {.add_prefix_space = config.add_prefix_space}); });
  return Tokenizer(std::move(parts));
}

// ---- paths ----------------------------------------------------------------------------------------------------------

// Returns the names of the folder's first files, for a message.
std::string listing(const fs::path& folder) {
  constexpr size_t kMost = 8;
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) names.push_back(entry.path().filename().string());
  if (names.empty()) return "it is empty";
  std::ranges::sort(names);
  std::string text = "it has ";
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i > 0 ? ", " : "") + visible(names[i]);
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

// `config`: path of tokenizer_config.json; "": none. transformers lets it win, tokenizers does not read it.
void check_case(const Tokenizer& tokenizer, const std::string& config) {
  if (tokenizer.kind() != kWordPieceKind || config.empty()) return;
  const std::optional<bool> flag = read_flag(read_object(config), "do_lower_case", config);
  RUN_CHECK(!flag || *flag == tokenizer.normalizer().lowercase, ErrorKind::kData,
            "{}: do_lower_case is {}, but normalizer.lowercase of tokenizer.json is {}; correct one of them", config,
            *flag, tokenizer.normalizer().lowercase);
}

Tokenizer open_json(const std::string& path, const std::string& config) {
  const json::Value document = read_object(path);
  Tokenizer tokenizer = naming(path, [&] { return tokenizer_of_json(document); });
  check_case(tokenizer, config);
  return tokenizer;
}

// Returns the path of the folder's SentencePiece model; "" if there is none.
std::string piece_model_of(const fs::path& folder) {
  std::string found;
  for (const char* const name : kPieceModelNames) {
    if (!fs::exists(folder / name)) continue;
    RUN_CHECK(found.empty(), ErrorKind::kData, "the folder has two SentencePiece models, {} and {}; remove one of them",
              found, (folder / name).string());
    found = (folder / name).string();
  }
  return found;
}

TokenizerFormat format_of_file(const std::string& path) {
  if (path.ends_with(".model")) return TokenizerFormat::kSentencePiece;
  if (path.ends_with(".json")) return TokenizerFormat::kJson;
  if (path.ends_with(".txt")) return TokenizerFormat::kBertVocabulary;
  const std::string contents = read_bytes(path);
  if (looks_like_piece_model(contents)) return TokenizerFormat::kSentencePiece;
  const bool is_json = contents.substr(0, contents.find_first_not_of(" \t\r\n") + 1).ends_with('{');
  return is_json ? TokenizerFormat::kJson : TokenizerFormat::kBertVocabulary;
}

// Returns the first file or files of the folder's tokenizer.
TokenizerFiles find_in_folder(const fs::path& folder) {
  const auto path_of = [&](const char* name) { return (folder / name).string(); };
  const auto has = [&](const char* name) { return fs::exists(folder / name); };
  TokenizerFiles model{TokenizerFormat::kSentencePiece, {piece_model_of(folder)}};
  const bool has_model = !model.files[0].empty();
  if (has(kJsonName)) {
    if (has_model && is_sentence_piece(read_object(path_of(kJsonName)))) return model;
    return {TokenizerFormat::kJson, {path_of(kJsonName)}};
  }
  if (has("vocab.txt")) return {TokenizerFormat::kBertVocabulary, {path_of("vocab.txt")}};
  if (has("vocab.json") && has("merges.txt"))
    return {TokenizerFormat::kBpeFiles, {path_of("vocab.json"), path_of("merges.txt")}};
  if (has_model) return model;
  fail(ErrorKind::kData,
       "{}: the folder has no tokenizer: expected tokenizer.json, or vocab.txt, or vocab.json and merges.txt, or "
       "tokenizer.model; {}",
       folder.string(), listing(folder));
}

}  // namespace

TokenizerFiles find_tokenizer(const std::string& path) {
  if (path == kBytesWord) return {};
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  TokenizerFiles found = is_folder ? find_in_folder(path) : TokenizerFiles{format_of_file(path), {path}};
  const auto add = [&](const std::string& name) {
    const fs::path file = fs::path(found.files[0]).parent_path() / name;
    if (fs::exists(file, ignored)) found.files.push_back(file.string());
  };
  if (found.format == TokenizerFormat::kSentencePiece)
    std::ranges::for_each(sentence_piece_settings(), add);
  else if (is_folder || found.format != TokenizerFormat::kJson)
    add(kConfigName);
  return found;
}

std::string name_in_folder(const std::string& file) {
  const std::string name = fs::path(file).filename().string();
  const bool has_name = std::ranges::find(kPieceModelNames, name) != std::end(kPieceModelNames);
  return name.ends_with(".model") && !has_name ? kPieceModelNames[0] : name;
}

Tokenizer open_tokenizer(const std::string& path) {
  const auto [format, files] = find_tokenizer(path);
  switch (format) {
    case TokenizerFormat::kJson: return open_json(files[0], files.size() > 1 ? files[1] : "");
    case TokenizerFormat::kBertVocabulary: return open_bert_vocabulary(files[0]);
    case TokenizerFormat::kBpeFiles: return open_bpe_files(fs::path(files[0]).parent_path());
    case TokenizerFormat::kSentencePiece: return open_sentence_piece(files[0], read_bytes(files[0]));
    case TokenizerFormat::kBytes: break;
  }
  return bytes_tokenizer();
}

}  // namespace runner::text
