#include "runner/formats/text_file.h"

#include <limits>

#include "runner/formats/input_file.h"
#include "schema/base/utf8.h"

namespace runner::formats {

size_t byte_order_mark(std::string_view text, const std::string& name, ErrorKind kind) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  RUN_CHECK(!is_utf16(text), kind, "{} is UTF-16 text; save it as UTF-8", name);
  return text.starts_with(kMark) ? kMark.size() : 0;
}

std::string read_text(const std::string& path) {
  std::string text = InputFile(path).read_rest(std::numeric_limits<int64_t>::max());
  const size_t mark = byte_order_mark(text, path);
  const size_t nul = text.find('\0');
  RUN_CHECK(nul == std::string::npos, ErrorKind::kData, "{}: byte {} is {}", path, nul, kNulProblem);
  text.erase(0, mark);
  return text;
}

}  // namespace runner::formats
