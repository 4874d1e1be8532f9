#include "runner/data/text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runner/data/character_vocabulary.h"
#include "runner/data/data_file.h"
#include "runner/data/data_format.h"
#include "runner/data/stream.h"
#include "runner/formats/input_file.h"
#include "runner/formats/text_file.h"
#include "runner/text/character_ids.h"
#include "runner/text/characters.h"
#include "runner/text/tokenizer_words.h"
#include "schema/base/error.h"
#include "schema/base/sha256.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::data {
namespace {

constexpr int64_t kByteTokens = 256;
constexpr size_t kWindowBytes = size_t{1} << 16;
constexpr size_t kLongestCharacter = 4;

// Set of characters.
class Seen {
 public:
  void add(uint32_t token) {
    if (token >= seen_.size()) seen_.resize(token + 1);
    seen_[token] = true;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (uint32_t token = 0; token < seen_.size(); ++token)
      if (seen_[token]) text::append_utf8(names.emplace_back(), token);
    return names;
  }

 private:
  std::vector<bool> seen_;
};

// ---- a file's tokens ------------------------------------------------------------------------------------------------

// Reads the tokens of a file in order: code points, or bytes. Thread safety: none.
class TextTokens {
 public:
  // `options` must outlive this object.
  TextTokens(const schema::DatasetSpec& spec, const ReadOptions& options, const std::string& file);

  // Returns false at the end of the file.
  bool next(uint32_t& token);
  // byte(): offset of the next token. go_to(): continues at such an offset. Both require an uncompressed file
  // (has_places()).
  bool has_places() const { return !input_.compressed(); }
  int64_t byte() const { return window_byte_ + static_cast<int64_t>(at_); }
  void go_to(int64_t byte);

 private:
  bool fill();

  const bool bytes_;
  const ReadOptions& options_;
  formats::InputFile input_;
  std::string window_;
  size_t at_ = 0;  // position in the window
  int64_t window_byte_ = 0;
};

TextTokens::TextTokens(const schema::DatasetSpec& spec, const ReadOptions& options, const std::string& file)
    : bytes_(spec.tokens == text::kBytesWord), options_(options), input_(file) {
  if (!bytes_ && fill()) at_ = formats::byte_order_mark(window_, input_.path());
}

// Reads more data and drops what precedes the current position. Returns false at the end of the file.
bool TextTokens::fill() {
  window_byte_ += static_cast<int64_t>(at_);
  window_.erase(0, std::exchange(at_, 0));
  const size_t left = window_.size();
  window_.resize(left + kWindowBytes);
  const size_t got = input_.read(std::as_writable_bytes(std::span(window_).subspan(left)));
  window_.resize(left + got);
  return got > 0;
}

bool TextTokens::next(uint32_t& token) {
  if (window_.size() - at_ < kLongestCharacter) fill();
  if (at_ == window_.size()) return false;
  const size_t length = bytes_ ? 1 : utf8_length(window_, at_);
  constexpr const char* kAnyFile = "set `tokens: bytes` to read any file";
  RUN_CHECK(length > 0, ErrorKind::kData, "{}: byte {} is {:#04x}, which is not valid UTF-8; {}", input_.path(), byte(),
            static_cast<uint8_t>(window_[at_]), options_.remedy(kAnyFile, "save the file as UTF-8"));
  RUN_CHECK(bytes_ || window_[at_] != '\0', ErrorKind::kData,
            "{}: byte {} is NUL (0x00): the file is damaged, no text, or UTF-16 text that must be saved as UTF-8; {}",
            input_.path(), byte(), options_.remedy(kAnyFile, "expected UTF-8 text"));
  token = bytes_ ? static_cast<uint8_t>(window_[at_]) : character_at(window_, at_).code;
  at_ += length;
  return true;
}

void TextTokens::go_to(int64_t byte) {
  input_.seek(byte);
  window_.clear();
  at_ = 0;
  window_byte_ = byte;
}

// Maps code points or bytes to token ids of a vocabulary.
class TokenNumbers {
 public:
  // `names`: characters, sorted; empty for bytes.
  explicit TokenNumbers(const std::vector<std::string>& names) : is_bytes_(names.empty()), characters_(names) {}
  // Returns the token id, or -1 if the character is not in the vocabulary.
  int64_t of(uint32_t token) const { return is_bytes_ ? token : characters_.of(token); }

 private:
  bool is_bytes_;
  text::CharacterIds characters_;
};

// ---- samples --------------------------------------------------------------------------------------------------------

// `shift`: Storage::label_shift().
int64_t samples_in(int64_t tokens, int64_t length, int64_t stride, int64_t shift) {
  return tokens < length + shift ? 0 : (tokens - shift - length) / stride + 1;
}

int64_t label_shift(const ReadOptions& options) {
  return options.masking ? 0 : 1;
}

int64_t stride_of(const schema::DatasetSpec& spec) {
  return spec.stride.value_or(spec.sequence_length);
}

// Reads the samples of a text file in order, as token ids.
class TextSamples {
 public:
  // `source` and `numbers` must outlive this object.
  TextSamples(const StreamedSource& source, const TokenNumbers& numbers);

  // Advances to the next sample. Returns false at the end.
  bool next();
  // As next(), for a sample that is not used; does not notice the end.
  void skip();
  // Continues with the sample that starts at offset `byte` of an uncompressed file.
  void go_to(int64_t byte);
  // sequence_length + 1 tokens; the labels are all but the first. An unknown character is -1.
  const std::vector<int64_t>& tokens() const { return window_; }

 private:
  TextTokens tokens_;
  const TokenNumbers& numbers_;
  const size_t size_;  // sequence_length + 1
  const int64_t stride_;
  int64_t ahead_ = 0;  // distance from the start of the window to that of the next sample
  std::vector<int64_t> window_;
};

TextSamples::TextSamples(const StreamedSource& source, const TokenNumbers& numbers)
    : tokens_(source.spec, source.options, source.spec.path),
      numbers_(numbers),
      size_(static_cast<size_t>(source.spec.sequence_length) + 1),
      stride_(stride_of(source.spec)) {}

bool TextSamples::next() {
  const int64_t gone = std::min(ahead_, std::ssize(window_));
  window_.erase(window_.begin(), window_.begin() + gone);
  uint32_t token = 0;
  for (int64_t left = ahead_ - gone; left > 0; --left)
    if (!tokens_.next(token)) return false;
  ahead_ = stride_;
  while (window_.size() < size_) {
    if (!tokens_.next(token)) return false;
    window_.push_back(numbers_.of(token));
  }
  return true;
}

void TextSamples::skip() {
  ahead_ += stride_;
}

void TextSamples::go_to(int64_t byte) {
  tokens_.go_to(byte);
  window_.clear();
  ahead_ = 0;
}

std::string_view unit(const schema::DatasetSpec& spec) {
  return spec.tokens == text::kBytesWord ? "bytes" : spec.tokens == text::kCharactersWord ? "characters" : "tokens";
}

void check_samples(int64_t samples, int64_t tokens, const schema::DatasetSpec& spec, const ReadOptions& options) {
  RUN_CHECK(samples > 0, ErrorKind::kData, "{} has {} {}, but a sample of sequence_length {} and its labels need {}",
            spec.path, tokens, unit(spec), spec.sequence_length, spec.sequence_length + label_shift(options));
  RUN_CHECK(samples <= INT32_MAX, ErrorKind::kData, "{} has {} samples, limit {}; {}", spec.path, samples, INT32_MAX,
            options.remedy("use a larger stride", "divide the file"));
}

// Returns the storage of a text without its tokens. `vocabulary`: number of token ids; 0 for characters.
Storage described(const schema::DatasetSpec& spec, const ReadOptions& options, int64_t tokens, int64_t vocabulary,
                  const Seen& seen) {
  Storage storage;
  storage.samples = samples_in(tokens, spec.sequence_length, stride_of(spec), label_shift(options));
  check_samples(storage.samples, tokens, spec, options);
  storage.feature_shape = backends::Shape{spec.sequence_length};
  storage.text.stride = stride_of(spec);
  if (vocabulary == 0) storage.class_names = seen.names();
  storage.vocabulary = vocabulary > 0 ? vocabulary : std::ssize(storage.class_names);
  storage.use_tokens_as_labels(options.masking ? LabelsAs::kTokens : LabelsAs::kNextTokens);
  return storage;
}

int64_t vocabulary_of(const schema::DatasetSpec& spec) {
  return spec.tokens == text::kBytesWord ? kByteTokens : 0;
}

// Reads the tokens of token ids in a file.
Storage read_ids(const schema::DatasetSpec& spec, const ReadOptions& options) {
  const int64_t vocabulary = spec.vocabulary.value_or(0);
  RUN_CHECK(vocabulary > 0, ErrorKind::kRecipe, "{}: tokens: ids needs vocabulary, the number of token ids", spec.path);
  TokenFile file(spec.path);
  file.check(vocabulary);
  Storage storage = described(spec, options, file.size(), vocabulary, {});
  storage.text.file = std::move(file);
  return storage;
}

// Returns the documents of a text: its parts between separators, without empty ones.
std::vector<std::string_view> documents_of(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    const size_t end = separator.empty() ? text.size() : std::min(text.find(separator), text.size());
    if (end > 0) documents.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return documents;
}

Storage read_documents(const schema::DatasetSpec& spec, const ReadOptions& options) {
  std::shared_ptr<const TokenMasker> masker = options.masker();
  LargeArray<uint32_t> all;
  for (const std::string& path : files_at(spec.path)) {
    const std::string text = formats::read_text(path);
    try {
      options.tokenizer->add_documents(documents_of(text, spec.document_separator), all);
    } catch (const Error& error) {
      fail(error.kind(), "{}: {}", path, error.message());
    }
  }
  const int64_t vocabulary = options.tokenizer->vocabulary();
  RUN_CHECK(!spec.vocabulary || *spec.vocabulary == vocabulary, ErrorKind::kRecipe,
            "{}: vocabulary is {}, but the tokenizer {} has {} tokens", spec.path, spec.vocabulary.value_or(0),
            spec.tokens, vocabulary);
  Storage storage = described(spec, options, std::ssize(all), vocabulary, {});
  storage.text.ids = std::move(all);
  storage.masker = std::move(masker);
  return storage;
}

// Returns the text that the recipe says there will be.
Storage planned_text(const schema::DatasetSpec& spec, const ReadOptions& options) {
  const int64_t vocabulary = spec.vocabulary.value_or(0);
  RUN_ASSERT(vocabulary > 0);  // the recipe reader asks for it
  const int64_t tokens = (*spec.planned_samples - 1) * stride_of(spec) + spec.sequence_length + label_shift(options);
  Storage storage = described(spec, options, tokens, vocabulary, {});
  storage.text.planned = tokens;
  storage.warnings.push_back(fmt::format("{} does not exist; planned for {} by planned_samples", spec.path,
                                         count_text(storage.samples, "sample")));
  if (options.masking)
    storage.masker = std::make_shared<const TokenMasker>(
        *options.masking, MaskVocabulary{.kinds = std::vector<MaskVocabulary::Kind>(static_cast<size_t>(vocabulary))});
  return storage;
}

Storage read_text(const schema::DatasetSpec& spec, const ReadOptions& options) {
  RUN_CHECK(!options.masking || has_tokenizer(spec), ErrorKind::kRecipe,
            "train.objective masked_lm needs a tokenizer, which has a mask token, but data.train.tokens is {}, and "
            "model.pretrained has none",
            spec.tokens);
  if (spec.planned_samples) return planned_text(spec, options);
  if (spec.tokens == text::kIdsWord) return read_ids(spec, options);
  if (has_tokenizer(spec)) return read_documents(spec, options);
  LargeArray<uint32_t> all;
  Seen seen;
  for (const std::string& path : files_at(spec.path)) {
    TextTokens tokens(spec, options, path);
    for (uint32_t token = 0; tokens.next(token);) {
      all.push_back(token);
      seen.add(token);
    }
  }
  Storage storage = described(spec, options, std::ssize(all), vocabulary_of(spec), seen);
  const TokenNumbers numbers(storage.class_names);
  for (uint32_t& token : all) token = static_cast<uint32_t>(numbers.of(token));
  storage.text.ids = std::move(all);
  return storage;
}

Storage count_text_samples(const schema::DatasetSpec& spec, const ReadOptions& options) {
  RUN_CHECK(spec.tokens != text::kIdsWord && !has_tokenizer(spec), ErrorKind::kRecipe,
            "data.stream supports tokens: characters and bytes; got {}", spec.tokens);
  const std::vector<std::string> files = files_at(spec.path);
  RUN_CHECK(files.size() == 1, ErrorKind::kRecipe, "data.stream supports one file, but {} has {}", spec.path,
            files.size());
  StreamedSource source{.spec = spec, .options = options};
  source.spec.path = files.front();
  TextTokens tokens(source.spec, options, files.front());
  const int64_t place_every = StreamedSource::kPlaceEvery * stride_of(spec);
  int64_t count = 0;
  Seen seen;
  Sha256 contents;
  int64_t byte = tokens.byte();
  for (uint32_t token = 0; tokens.next(token); byte = tokens.byte(), ++count) {
    if (count > 0 && count % place_every == 0 && tokens.has_places()) source.places.push_back({.byte = byte});
    seen.add(token);
    contents.update(std::as_bytes(std::span(&token, 1)));
  }
  Storage storage = described(spec, options, count, vocabulary_of(spec), seen);
  source.contents = hex(contents.finish());
  storage.stream = std::move(source);
  return storage;
}

class TextReader final : public SampleReader {
 public:
  explicit TextReader(const Storage& storage)
      : source_(*storage.stream), numbers_(storage.class_names), samples_(source_, numbers_) {}

  bool next() override {
    if (!samples_.next()) return false;
    if (std::ranges::find(samples_.tokens(), -1) != samples_.tokens().end()) refuse_changed(source_);
    return true;
  }
  bool skip() override {
    samples_.skip();
    return true;
  }
  void go_to(const SamplePlace& place, int64_t) override { samples_.go_to(place.byte); }
  std::span<const int64_t> tokens() const override { return std::span(samples_.tokens()).first(labels().size()); }
  void read_classes(std::vector<int64_t>& classes) const override { classes.assign(labels().begin(), labels().end()); }

 private:
  std::span<const int64_t> labels() const { return std::span(samples_.tokens()).subspan(1); }

  const StreamedSource& source_;
  const TokenNumbers numbers_;
  TextSamples samples_;
};

constexpr StreamDef kTextStream{.count = count_text_samples,
                                .open = [](const Storage& storage) -> std::unique_ptr<SampleReader> {
                                  return std::make_unique<TextReader>(storage);
                                }};

}  // namespace

bool has_tokenizer(const schema::DatasetSpec& spec) {
  return text::is_tokenizer_path(spec.tokens);
}

bool has_text_rows(const schema::DatasetSpec& spec) {
  return !spec.text_columns.empty() || spec.format == schema::DataFormat::kLines;
}

const std::string& tokens_word(const schema::DataSpec& spec) {
  return spec.tokens ? spec.tokens->tokenizer : spec.train.tokens;
}

std::string tokenizer_path(const schema::DataSpec& spec) {
  const std::string& tokens = tokens_word(spec);
  return text::is_tokenizer_path(tokens) ? tokens : "";
}

TextParts split_text(Storage whole, double fraction, const std::string& file) {
  const auto text = std::exchange(whole.text, {});
  const auto& ids = text.ids;
  const int64_t all = text.file ? text.file->size() : std::max(std::ssize(ids), text.planned);
  const int64_t kept = all - std::llround(fraction * static_cast<double>(all));
  const auto part = [&](int64_t begin, int64_t end) {
    Storage storage = whole;
    storage.text.stride = text.stride;
    if (text.file)
      storage.text.file = text.file->part(begin, end - begin);
    else if (text.planned > 0)
      storage.text.planned = end - begin;
    else
      storage.text.ids.assign(ids.begin() + begin, ids.begin() + end);
    storage.samples = samples_in(end - begin, whole.width(), text.stride, whole.label_shift());
    return storage;
  };
  TextParts parts{part(0, kept), part(kept, all)};
  RUN_CHECK(parts.train.samples > 0 && parts.eval.samples > 0, ErrorKind::kRecipe,
            "data.split.eval: {} of the {} tokens of {} leaves one part without a sample of {} tokens", fraction, all,
            file, whole.width());
  return parts;
}

void use_vocabulary(Storage& storage, const std::vector<std::string>& tokens, const std::string& name) {
  if (storage.class_names == tokens) return;
  const std::vector<int32_t> id_of = ids_in(storage.class_names, tokens, name);
  for (uint32_t& token : storage.text.ids) token = static_cast<uint32_t>(id_of[token]);
  storage.class_names = tokens;
  storage.vocabulary = storage.outputs = std::ssize(tokens);
}

void merge_vocabularies(Encoding& encoding, Storage& train, Storage& eval) {
  const std::vector<std::string> names = merge_characters(train.class_names, eval.class_names);
  encoding.class_names = names;
  if (!names.empty()) encoding.vocabulary = encoding.outputs = std::ssize(names);
  use_vocabulary(train, names, "data.train");
  use_vocabulary(eval, names, "data.eval");
}

const DataFormatDef kTextFormat{.format = schema::DataFormat::kText,
                                .sources = kOnePath,
                                .read = read_text,
                                .stream = &kTextStream,
                                .sample_count = kNoSampleCount};

}  // namespace runner::data
