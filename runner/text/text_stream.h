// The text of tokens that come one by one, as whole characters. Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/text/tokenizer.h"

namespace runner::text {

class TextStream {
 public:
  // `before`: tokens whose text is known already. `tokenizer` must outlive the object.
  TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before);

  // Returns the text that the next token adds. Bytes of a character that is not complete yet are kept back.
  std::string add(int32_t token);
  // Returns the text that was kept back, as U+FFFD. Call it after the last token.
  std::string finish();

 private:
  std::string shown_until(const std::string& text, size_t end);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> window_;  // the last tokens: what they add to each other's text depends on no earlier one
  size_t shown_ = 0;             // bytes of the text of the window
};

}  // namespace runner::text
