#include "runner/formats/line_reader.h"

#include <span>

#include "runner/formats/text_file.h"
#include "schema/base/error.h"

namespace runner::formats {
namespace {

constexpr size_t kLineChunk = size_t{1} << 16;
constexpr size_t kLongestLine = size_t{1} << 26;

}  // namespace

bool LineReader::next(std::string_view& line) {
  size_t searched = at_, end = 0;
  while ((end = window_.find('\n', searched)) == std::string::npos && !ended_) {
    window_.erase(0, at_);
    at_ = 0;
    searched = window_.size();
    RUN_CHECK(searched < kLongestLine, ErrorKind::kData, "{}:{}: the line is longer than {} MiB", input_.path(),
              number_ + 1, kLongestLine >> 20);
    window_.resize(searched + kLineChunk);
    const size_t got = input_.read(std::as_writable_bytes(std::span(window_).subspan(searched)));
    window_.resize(searched + got);
    ended_ = got < kLineChunk;
    if (number_ > 0 || searched > 0) continue;
    window_.erase(0, byte_order_mark(window_, input_.path()));
    searched = 0;
  }
  if (end == std::string::npos && at_ == window_.size()) return false;
  if (end == std::string::npos) end = window_.size();
  line = std::string_view(window_).substr(at_, end - at_);
  if (line.ends_with('\r')) line.remove_suffix(1);
  const bool is_whole_file = number_ == 0 && end == window_.size();
  RUN_CHECK(!is_whole_file || line.find('\r') == std::string_view::npos, ErrorKind::kData,
            "{}:1: a line ends in CR only; save the file with LF or CRLF", input_.path());
  at_ = std::min(end + 1, window_.size());
  ++number_;
  const size_t nul = line.find('\0');
  RUN_CHECK(nul == std::string_view::npos, ErrorKind::kData, "{}:{}: byte {} of the line is {}", input_.path(), number_,
            nul, kNulProblem);
  return true;
}

}  // namespace runner::formats
