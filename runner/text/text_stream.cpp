#include "runner/text/text_stream.h"

namespace runner::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before) : tokenizer_(tokenizer) {
  if (before.empty()) return;
  window_.push_back(before.back());
  shown_ = tokenizer_.decode(window_).size();
}

std::string TextStream::shown_until(const std::string& text, size_t end) {
  const size_t begin = std::min(shown_, end);
  shown_ = std::max(shown_, end);
  return text.substr(begin, end - begin);
}

// The last character is not known if it is U+FFFD: further bytes may complete it.
std::string TextStream::add(int32_t token) {
  window_.push_back(token);
  const std::string text = tokenizer_.decode(window_);
  const bool is_whole = !text.ends_with(kReplacement);
  std::string added = shown_until(text, text.size() - (is_whole ? 0 : kReplacement.size()));
  if (is_whole) {
    window_ = {token};
    shown_ = tokenizer_.decode(window_).size();
  }
  return added;
}

std::string TextStream::finish() {
  const std::string text = tokenizer_.decode(window_);
  return shown_until(text, text.size());
}

}  // namespace runner::text
