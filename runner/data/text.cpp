#include "runner/data/text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runner/data/stream.h"
#include "schema/base/error.h"
#include "schema/base/sha256.h"
#include "schema/base/source_text.h"

namespace runner::data {
namespace {

constexpr size_t kWindowBytes = size_t{1} << 16;
constexpr size_t kLongestCharacter = 4;

// `bytes`: a complete character, as found by utf8_length().
uint32_t code_point(std::string_view bytes) {
  if (bytes.size() == 1) return static_cast<uint8_t>(bytes[0]);
  uint32_t code = static_cast<uint8_t>(bytes[0]) & (0xFFU >> (bytes.size() + 1));
  for (const char byte : bytes.substr(1)) code = code << 6 | (static_cast<uint8_t>(byte) & 0x3FU);
  return code;
}

std::string utf8_of(uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  const int tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  std::string bytes(1, static_cast<char>(kLead[tail] | code >> (6 * tail)));
  for (int i = tail - 1; i >= 0; --i) bytes += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
  return bytes;
}

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
      if (seen_[token]) names.push_back(utf8_of(token));
    return names;
  }

 private:
  std::vector<bool> seen_;
};

std::string_view unit(const schema::DatasetSpec& spec) {
  return spec.tokens == schema::Tokens::kBytes ? "bytes" : "characters";
}

void check_samples(int64_t samples, int64_t tokens, const schema::DatasetSpec& spec) {
  RUN_CHECK(samples > 0, ErrorKind::kData, "{} has {} {}, but a sample of sequence_length {} and its labels need {}",
            spec.path, tokens, unit(spec), spec.sequence_length, spec.sequence_length + 1);
  RUN_CHECK(samples <= INT32_MAX, ErrorKind::kData, "{} has {} samples, limit {}; use a larger stride", spec.path,
            samples, INT32_MAX);
}

// Returns the storage of a text without its tokens.
Storage described(const schema::DatasetSpec& spec, int64_t tokens, const Seen& seen) {
  Storage storage;
  storage.samples = samples_in(tokens, spec.sequence_length, stride_of(spec));
  check_samples(storage.samples, tokens, spec);
  storage.feature_shape = backends::Shape{spec.sequence_length};
  storage.sequence = spec.sequence_length;
  storage.label_kind = LabelKind::kClass;
  if (spec.tokens == schema::Tokens::kCharacters) storage.class_names = seen.names();
  storage.outputs = storage.class_names.empty() ? kByteTokens : std::ssize(storage.class_names);
  return storage;
}

}  // namespace

// ---- a file's tokens -----------------------------------------------------------------------------------------------

TextTokens::TextTokens(const schema::DatasetSpec& spec)
    : bytes_(spec.tokens == schema::Tokens::kBytes), input_(spec.path) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (!bytes_ && fill() && window_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
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
  const size_t length = bytes_ ? 1 : schema::utf8_length(window_, at_);
  RUN_CHECK(length > 0, ErrorKind::kData,
            "{}: byte {} is {:#04x}, which is not valid UTF-8; set `tokens: bytes` to read any file", input_.path(),
            byte(), static_cast<uint8_t>(window_[at_]));
  RUN_CHECK(bytes_ || window_[at_] != '\0', ErrorKind::kData,
            "{}: byte {} is NUL (0x00): the file is damaged or no text; set `tokens: bytes` to read any file",
            input_.path(), byte());
  token = bytes_ ? static_cast<uint8_t>(window_[at_]) : code_point(std::string_view(window_).substr(at_, length));
  at_ += length;
  return true;
}

void TextTokens::go_to(int64_t byte) {
  input_.seek(byte);
  window_.clear();
  at_ = 0;
  window_byte_ = byte;
}

TokenNumbers::TokenNumbers(const std::vector<std::string>& names) : is_bytes_(names.empty()) {
  direct_.fill(-1);
  for (const std::string& name : names) {
    const uint32_t code = code_point(name);
    if (code < kDirect) direct_[code] = static_cast<int32_t>(codes_.size());
    codes_.push_back(code);
  }
}

int64_t TokenNumbers::searched(uint32_t token) const {
  const auto at = std::lower_bound(codes_.begin(), codes_.end(), token);
  return at != codes_.end() && *at == token ? at - codes_.begin() : -1;
}

// ---- samples -------------------------------------------------------------------------------------------------------

int64_t samples_in(int64_t tokens, int64_t length, int64_t stride) {
  return tokens <= length ? 0 : (tokens - 1 - length) / stride + 1;
}

int64_t stride_of(const schema::DatasetSpec& spec) {
  return spec.stride.value_or(spec.sequence_length);
}

TextSamples::TextSamples(const schema::DatasetSpec& spec, const TokenNumbers& numbers)
    : tokens_(spec),
      numbers_(numbers),
      size_(static_cast<size_t>(spec.sequence_length) + 1),
      stride_(stride_of(spec)) {}

bool TextSamples::next() {
  const auto known = static_cast<int64_t>(window_.size());
  const int64_t gone = begun_ ? std::min(stride_, known) : 0;
  window_.erase(window_.begin(), window_.begin() + gone);
  uint32_t token = 0;
  for (int64_t skipped = begun_ ? stride_ - gone : 0; skipped > 0; --skipped)
    if (!tokens_.next(token)) return false;
  begun_ = true;
  while (window_.size() < size_) {
    if (!tokens_.next(token)) return false;
    window_.push_back(numbers_.of(token));
  }
  return true;
}

void TextSamples::go_to(int64_t byte) {
  tokens_.go_to(byte);
  window_.clear();
  begun_ = false;
}

Storage read_text(const schema::DatasetSpec& spec) {
  TextTokens tokens(spec);
  std::vector<uint32_t> all;
  Seen seen;
  for (uint32_t token = 0; tokens.next(token);) {
    all.push_back(token);
    seen.add(token);
  }
  Storage storage = described(spec, std::ssize(all), seen);
  const TokenNumbers numbers(storage.class_names);
  for (uint32_t& token : all) token = static_cast<uint32_t>(numbers.of(token));
  storage.text = {std::move(all), stride_of(spec)};
  return storage;
}

Storage count_text_samples(const schema::DatasetSpec& spec, int64_t shuffle_buffer) {
  StreamedFile file = stamped_file(spec, {}, shuffle_buffer);
  TextTokens tokens(spec);
  const int64_t place_every = StreamedFile::kPlaceEvery * stride_of(spec);
  int64_t count = 0;
  Seen seen;
  Sha256 contents;
  int64_t byte = tokens.byte();
  for (uint32_t token = 0; tokens.next(token); byte = tokens.byte(), ++count) {
    if (count > 0 && count % place_every == 0 && tokens.has_places()) file.places.push_back({byte});
    seen.add(token);
    contents.update(std::as_bytes(std::span(&token, 1)));
  }
  Storage storage = described(spec, count, seen);
  file.contents = hex(contents.finish());
  storage.stream = std::move(file);
  return storage;
}

TextParts split_text(Storage whole, double fraction, const std::string& file) {
  const auto text = std::exchange(whole.text, {});
  const auto& ids = text.ids;
  const auto held_out = static_cast<ptrdiff_t>(std::llround(fraction * static_cast<double>(ids.size())));
  const auto part = [&](auto begin, auto end) {
    Storage storage = whole;
    storage.text = {{begin, end}, text.stride};
    storage.samples = samples_in(end - begin, whole.sequence, text.stride);
    return storage;
  };
  TextParts parts{part(ids.begin(), ids.end() - held_out), part(ids.end() - held_out, ids.end())};
  RUN_CHECK(parts.train.samples > 0 && parts.eval.samples > 0, ErrorKind::kRecipe,
            "data.split.eval: {} of the {} tokens of {} leaves one part without a sample of {} tokens", fraction,
            ids.size(), file, whole.sequence);
  return parts;
}

}  // namespace runner::data
