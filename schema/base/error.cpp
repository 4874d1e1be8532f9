#include "schema/base/error.h"

#include <cstdio>
#include <cstdlib>

#include "schema/base/text.h"

namespace runner {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kRun: return 1;
    case ErrorKind::kUsage:
    case ErrorKind::kRecipe:
    case ErrorKind::kData: return 2;
    case ErrorKind::kNotFound: return 3;
    case ErrorKind::kInterrupted: return 4;
    case ErrorKind::kStore: return 5;
  }
  return 1;
}

Error::Error(ErrorKind kind, std::string message, SourceMark where)
    : kind_(kind), message_(std::move(message)), where_(std::move(where)) {
  // what() would end at a NUL, which messages may contain if they quote input.
  if (message_.find('\0') != std::string::npos) message_ = replaced(message_, std::string_view("\0", 1), "\\x00");
  if (!where_.file.empty()) place_ = where_.to_string() + ": ";
  what_ = place_ + message_;
}

Error& Error::locate(const SourceMark& where) {
  if (where_.known() || !where.known()) return *this;
  if (where_.file.empty()) return relocate(where);
  where_ = where;
  return *this;
}

Error& Error::relocate(const SourceMark& where) {
  what_.erase(0, place_.size());
  place_ = where.known() ? where.to_string() + ": " : "";
  what_.insert(0, place_);
  where_ = where;
  return *this;
}

Error& Error::note(std::string_view text) {
  what_.append("\n  note: ").append(text);
  return *this;
}

void fail_formatted(ErrorKind kind, fmt::string_view format, fmt::format_args args) {
  throw Error(kind, fmt::vformat(format, args));
}

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "runner: internal error at %s:%d: %s does not hold; please report this\n", file, line,
               expression);
  std::abort();
}

}  // namespace runner
