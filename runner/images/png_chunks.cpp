#include "runner/images/png_chunks.h"

#include <cstdint>
#include <optional>
#include <utility>

#include <zlib.h>

namespace runner::images {
namespace {

constexpr size_t kSignatureBytes = 8;
constexpr size_t kMaxTextBytes = size_t{1} << 20;  // of a decompressed text, as in Pillow

uint32_t length_of(std::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

// Returns a zlib stream decompressed; empty if it is damaged or too long.
std::string inflated(std::string_view compressed) {
  std::string text(kMaxTextBytes, '\0');
  uLongf size = text.size();
  const int result = ::uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                                  reinterpret_cast<const Bytef*>(compressed.data()), compressed.size());
  text.resize(result == Z_OK ? size : 0);
  return text;
}

// Removes the bytes up to the next zero byte and it. Returns whether there is one.
bool skip_word(std::string_view& text) {
  const size_t end = text.find('\0');
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return end != text.npos;
}

// Returns the text of an iTXt chunk after its keyword: flag, method, language, translated keyword.
std::string text_of_itxt(std::string_view text) {
  if (text.size() < 2) return {};
  const bool is_compressed = text[0] != 0;
  text.remove_prefix(2);
  if (!skip_word(text) || !skip_word(text)) return {};
  return is_compressed ? inflated(text) : std::string(text);
}

// Returns the text of a tEXt or zTXt chunk after its keyword.
std::string text_of(std::string_view type, std::string_view text) {
  if (type == "tEXt") return std::string(text);
  return text.empty() ? std::string() : inflated(text.substr(1));  // after the method
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Decodes hexadecimal digits after three lines: an empty one, the name, the number of bytes. Returns "" if there are
// other characters than digits and white space.
std::string raw_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  std::string bytes;
  int high = -1;
  for (const char c : text) {
    if (c == '\n' || c == ' ') continue;
    const int digit = digit_of(c);
    if (digit < 0) return {};
    if (high >= 0) bytes += static_cast<char>(high * 16 + digit);
    high = high >= 0 ? -1 : digit;
  }
  return bytes;
}

}  // namespace

PngChunks::PngChunks(std::string_view file) : rest_(file.substr(kSignatureBytes)) {}

bool PngChunks::next() {
  constexpr size_t kHeaderBytes = 8, kChecksumBytes = 4;
  if (rest_.size() < kHeaderBytes + kChecksumBytes) return false;
  const size_t length = length_of(rest_);
  if (length > rest_.size() - kHeaderBytes - kChecksumBytes) return false;
  type_ = rest_.substr(4, 4);
  data_ = rest_.substr(kHeaderBytes, length);
  rest_.remove_prefix(kHeaderBytes + length + kChecksumBytes);
  return true;
}

Metadata metadata_of_png(std::string_view file) {
  // The last of each is decoded, after the others were skipped.
  std::optional<std::string_view> exif;
  std::string_view xmp, profile, profile_type;
  for (PngChunks chunks(file); chunks.next() && chunks.type() != "IEND";) {
    const std::string_view type = chunks.type();
    std::string_view text = chunks.data();
    if (type == "eXIf") exif = text;
    if (type != "iTXt" && type != "tEXt" && type != "zTXt") continue;
    const std::string_view keyword = text.substr(0, text.find('\0'));
    if (!skip_word(text)) continue;
    if (type == "iTXt" && keyword == "XML:com.adobe.xmp") xmp = text;
    if (type != "iTXt" && keyword == "Raw profile type exif") {
      profile = text;
      profile_type = type;
    }
  }
  return {.exif = exif ? std::string(*exif) : raw_profile(text_of(profile_type, profile)), .xmp = text_of_itxt(xmp)};
}

}  // namespace runner::images
