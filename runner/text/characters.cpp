#include "runner/text/characters.h"

#include <algorithm>
#include <iterator>

#include <utf8proc.h>

#include "schema/base/error.h"

namespace runner::text {
namespace {

struct ClassRange {
  char32_t first, last;
  uint8_t classes;
};

constexpr uint8_t L = kLetter, N = kNumber, S = kSpace, P = kPunctuation, C = kControl, M = kMark, W = kWord,
                  O = kSorted;
constexpr ClassRange kClassRanges[] = {
#include "runner/text/character_classes.inc"
};

struct LowerCaseRange {
  char32_t first, last, lower;
};

// Letters of Unicode 16 and 17 with lower case, which utf8proc does not know yet.
constexpr LowerCaseRange kNewLetters[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},    {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CE, 0xA7CF},
    {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},   {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x19B},
    {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};
constexpr char32_t kFirstNewLetter = 0x1C89;

// The reference does not decompose this character.
constexpr char32_t kNotDecomposed = 0x11938;

int combining_class(char32_t code) {
  if (!CharacterClasses::get().is(code, kSorted)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

}  // namespace

const CharacterClasses& CharacterClasses::get() {
  static const CharacterClasses classes;
  return classes;
}

CharacterClasses::CharacterClasses() {
  for (const ClassRange& range : kClassRanges) {
    if (range.first >= kDirect) break;
    for (char32_t code = range.first; code <= range.last && code < kDirect; ++code) direct_[code] = range.classes;
  }
}

unsigned CharacterClasses::searched(char32_t code) {
  const ClassRange* const range = std::ranges::lower_bound(kClassRanges, code, {}, &ClassRange::last);
  return range != std::end(kClassRanges) && range->first <= code ? range->classes : 0U;
}

bool is_cjk(char32_t code) {
  if (code < 0x3400) return false;
  const auto is_in = [&](char32_t first, char32_t last) { return code >= first && code <= last; };
  // The block that begins at U+2B820 counts from U+2B920 on in the reference.
  return is_in(0x3400, 0x4DBF) || is_in(0x4E00, 0x9FFF) || is_in(0xF900, 0xFAFF) || is_in(0x20000, 0x2A6DF) ||
         is_in(0x2A700, 0x2B81F) || is_in(0x2B920, 0x2CEAF) || is_in(0x2F800, 0x2FA1F);
}

void append_lower_case(std::u32string& out, char32_t code) {
  if (code == 0x130) {
    out += U"i\u0307";
    return;
  }
  if (code >= kFirstNewLetter) {
    for (const LowerCaseRange& range : kNewLetters) {
      if (code < range.first || code > range.last) continue;
      out += static_cast<char32_t>(range.lower + (code - range.first));
      return;
    }
  }
  out += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

void append_decomposed(std::u32string& out, char32_t code) {
  constexpr int kLongest = 4;  // characters of a canonical decomposition
  utf8proc_int32_t parts[kLongest];
  const auto count = code == kNotDecomposed ? 0
                                            : utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts,
                                                                      kLongest, UTF8PROC_DECOMPOSE, nullptr);
  if (count < 1 || count > kLongest) {
    out += code;
    return;
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) out += static_cast<char32_t>(parts[i]);
}

void sort_marks(std::u32string& text) {
  for (auto at = text.begin(); at != text.end();) {
    const auto marks = std::find_if(at, text.end(), [](char32_t code) { return combining_class(code) != 0; });
    at = std::find_if(marks, text.end(), [](char32_t code) { return combining_class(code) == 0; });
    std::stable_sort(marks, at, [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
  }
}

void append_utf8(std::string& out, char32_t code) {
  constexpr uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  const int tail = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  out += static_cast<char>(kLead[tail] | code >> (6 * tail));
  for (int i = tail - 1; i >= 0; --i) out += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
}

void check_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    RUN_CHECK(length > 0, ErrorKind::kData,
              "byte {} of the text is {:#04x}, which is not valid UTF-8; save it as UTF-8, or use the tokenizer "
              "`bytes`, which takes any",
              at, static_cast<uint8_t>(text[at]));
    at += length;
  }
}

}  // namespace runner::text
