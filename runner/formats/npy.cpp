#include "runner/formats/npy.h"

#include <array>
#include <charconv>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::formats {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kPrefix = 10, kAlign = 64;  // bytes before the dict in version 1.0, and alignment of the elements

// Parses the header's dict: a Python literal of type {str: str | bool | tuple of ints}.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  NpyHeader parse() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key(string());
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        skip_space();
        RUN_CHECK(!rest_.starts_with('['), ErrorKind::kData, "{}: unsupported record array: {}", path_,
                  in_quotes(rest_));
        header.descr = string();
      } else if (key == "fortran_order" && !order) {
        order = true;
        header.fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = true;
        header.shape = tuple();
      } else {
        damaged(fmt::format("unexpected key {}", in_quotes(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) damaged("unexpected text after the dict");
    if (!descr || !order || !shape) damaged("descr, fortran_order or shape is missing");
    return header;
  }

 private:
  [[noreturn]] void damaged(const std::string& what) {
    fail(ErrorKind::kData, "{}: damaged npy header: {}", path_, what);
  }
  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_space();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) damaged(fmt::format("expected '{}' before {}", c, in_quotes(rest_)));
  }
  std::string_view string() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const size_t end = rest_.find(quote);
    if (end == std::string_view::npos) damaged("unterminated string");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    damaged(fmt::format("expected True or False before {}", in_quotes(rest_)));
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> dims;
    expect('(');
    while (!accept(')')) {
      skip_space();
      int64_t dim = 0;
      const auto [end, status] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
      if (status != std::errc()) damaged(fmt::format("expected an axis length before {}", in_quotes(rest_)));
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      dims.push_back(dim);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return dims;
  }
  std::string_view rest_;
  const std::string& path_;
};

}  // namespace

NpyHeader read_npy_header(InputFile& input) {
  std::array<std::byte, 8> start;
  input.read_exactly(start, "the npy header");
  const std::string_view magic(reinterpret_cast<const char*>(start.data()), 6);
  RUN_CHECK(!magic.starts_with("PK\x03\x04"), ErrorKind::kData,
            "{} is an npz archive, expected an npy file; save each array with numpy.save", input.path());
  RUN_CHECK(magic == kMagic, ErrorKind::kData, "{} is not an npy file: it starts with {}, expected {}", input.path(),
            in_quotes(magic), in_quotes(kMagic));
  const auto version = static_cast<unsigned>(start[6]);
  RUN_CHECK(version >= 1 && version <= 3, ErrorKind::kData, "{}: unknown npy version {}; expected 1, 2 or 3",
            input.path(), version);
  std::array<std::byte, 4> length_bytes{};
  input.read_exactly(std::span(length_bytes).first(version == 1 ? 2 : 4), "the npy header");
  size_t length = 0;
  for (size_t i = 4; i-- > 0;) length = length << 8 | static_cast<size_t>(length_bytes[i]);
  RUN_CHECK(static_cast<int64_t>(length) <= input.most_left(), ErrorKind::kData,
            "{}: the npy header should have {} bytes, but at most {} follow", input.path(), length, input.most_left());
  std::string header(length, '\0');
  input.read_exactly(std::as_writable_bytes(std::span(header)), "the npy header");
  return HeaderParser(header, input.path()).parse();
}

std::string npy_header(std::string_view descr, std::span<const int64_t> shape) {
  // A Python tuple with one element is written with a comma.
  const std::string dims = fmt::format("{}{}", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, dims);
  dict.resize((kPrefix + dict.size() + kAlign) / kAlign * kAlign - kPrefix - 1, ' ');
  dict += '\n';
  std::string header(kMagic);
  header.append({1, 0, static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)});
  return header + dict;
}

}  // namespace runner::formats
