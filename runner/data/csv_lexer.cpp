#include "runner/data/csv_lexer.h"

#include <algorithm>
#include <cstring>

#include "runner/formats/text_file.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

constexpr size_t kWindow = size_t{1} << 18;
constexpr size_t kLongestRecord = size_t{1} << 26;

}  // namespace

CsvLexer::CsvLexer(formats::InputFile& input, char delimiter, Quotes quotes)
    : input_(input), delimiter_(delimiter), quotes_(quotes), window_(kWindow) {
  read_more();
  begin_ = formats::byte_order_mark({window_.data(), end_}, input.path());
  reject_nul(0);
}

bool CsvLexer::next(std::vector<std::string_view>& fields) {
  do {
    line_ = next_line_;
    while (begin_ == end_ || !lex(fields)) {
      if (refill()) continue;
      if (begin_ == end_) return false;
      fail(ErrorKind::kData, "{}:{}: a quote in this record is never closed", input_.path(), line_);
    }
  } while (fields.size() == 1 && fields[0].empty());
  for (const size_t field : escaped_) unescape(fields[field]);
  return true;
}

bool CsvLexer::skip() {
  for (;;) {
    const char* const line = window_.data() + begin_;
    const auto* const end = static_cast<const char*>(std::memchr(line, '\n', end_ - begin_));
    if (end == nullptr) return next(skipped_);
    const std::string_view text(line, static_cast<size_t>(end - line));
    if (quotes_ == Quotes::kEnclose && text.find('"') != text.npos) return next(skipped_);
    begin_ += text.size() + 1;
    line_ = next_line_++;
    if (!text.empty() && text != "\r") return true;
  }
}

void CsvLexer::go_to(const SamplePlace& place) {
  input_.seek(place.byte);
  window_byte_ = place.byte;
  next_line_ = place.line;
  begin_ = end_ = 0;
  ended_ = false;
}

bool CsvLexer::lex(std::vector<std::string_view>& fields) {
  fields.clear();
  escaped_.clear();
  has_quotes_ = false;
  const char* const record = window_.data() + begin_;
  const char* const end = window_.data() + end_;
  const char delimiter = delimiter_;
  const bool encloses = quotes_ == Quotes::kEnclose;
  for (const char* at = record; at != end; ++at) {
    const char* const start = at;
    if (encloses && *at == '"') {
      at = lex_quoted(at + 1, fields);
      if (at == nullptr) return false;
    } else {
      while (at != end && *at != delimiter && *at != '\n') ++at;
      if (at == end) return false;
      const bool crlf = *at == '\n' && at != start && at[-1] == '\r';
      fields.emplace_back(start, static_cast<size_t>(at - start) - (crlf ? 1 : 0));
    }
    if (*at == '\n') {
      next_line_ += has_quotes_ ? std::count(record, at + 1, '\n') : 1;
      begin_ = static_cast<size_t>(at + 1 - window_.data());
      return true;
    }
  }
  return false;
}

// `at`: first byte after the opening quote. Returns the position of the delimiter or newline that ends the field, or
// null if the window ends first.
const char* CsvLexer::lex_quoted(const char* at, std::vector<std::string_view>& fields) {
  const char* const end = window_.data() + end_;
  const char* const start = at;
  has_quotes_ = true;
  bool escaped = false;
  for (;; at += 2, escaped = true) {
    at = static_cast<const char*>(std::memchr(at, '"', static_cast<size_t>(end - at)));
    if (at == nullptr || at + 1 == end) return nullptr;
    if (at[1] != '"') break;
  }
  if (escaped) escaped_.push_back(fields.size());
  fields.emplace_back(start, static_cast<size_t>(at - start));
  ++at;
  if (*at == '\r') {
    if (at + 1 == end) return nullptr;
    if (at[1] == '\n') ++at;
  }
  if (*at == '\r')
    fail(ErrorKind::kData, "{}:{}: a line ends in CR only; save the file with LF or CRLF", input_.path(), line_);
  if (*at != delimiter_ && *at != '\n') {
    fail(ErrorKind::kData, "{}:{}: text after the closing quote of field {}; expected {} or the end of the line",
         input_.path(), line_, fields.size(), in_quotes({&delimiter_, 1}));
  }
  return at;
}

void CsvLexer::unescape(std::string_view& field) {
  char* const text = window_.data() + (field.data() - window_.data());
  size_t length = 0;
  for (size_t i = 0; i < field.size(); ++i) {
    text[length++] = field[i];
    if (field[i] == '"') ++i;
  }
  field = {text, length};
}

bool CsvLexer::refill() {
  const size_t left = end_ - begin_;
  if (!read_more()) return false;
  reject_nul(left);
  return true;
}

void CsvLexer::reject_nul(size_t from) const {
  const auto* const nul = static_cast<const char*>(std::memchr(window_.data() + from, '\0', end_ - from));
  if (nul == nullptr) return;
  fail(ErrorKind::kData, "{}:{}: byte {} of the file is {}", input_.path(),
       next_line_ + std::count(window_.data() + begin_, nul, '\n'), window_byte_ + (nul - window_.data()),
       formats::kNulProblem);
}

bool CsvLexer::read_more() {
  if (ended_) return false;
  std::copy(window_.begin() + static_cast<ptrdiff_t>(begin_), window_.begin() + static_cast<ptrdiff_t>(end_),
            window_.begin());
  window_byte_ += static_cast<int64_t>(begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ * 2 > window_.size()) {
    RUN_CHECK(window_.size() < kLongestRecord, ErrorKind::kData,
              "{}:{}: the record is larger than {} MiB; is there an unclosed quote?", input_.path(), line_,
              kLongestRecord >> 20);
    window_.resize(window_.size() * 2);
  }
  const size_t room = window_.size() - end_ - 1;  // reserves a byte for the newline that may be missing after the last
                                                  // record
  const size_t got = input_.read(std::as_writable_bytes(std::span(window_).subspan(end_, room)));
  end_ += got;
  if (got < room) {
    ended_ = true;
    if (end_ > 0 && window_[end_ - 1] != '\n') window_[end_++] = '\n';
  }
  return got > 0 || (ended_ && end_ > 0);
}

}  // namespace runner::data
