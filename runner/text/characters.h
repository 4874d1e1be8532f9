// Characters as the reference implementations of tokenizers see them, independent of the locale. Thread-safe.
//
// The classes are those of Hugging Face's `tokenizers`, which uses tables of several Unicode versions: that of its
// punctuation and marks is older than that of its letters. Therefore they are a table of our own
// (tests/text/character_classes.py), and ids do not depend on the version of utf8proc.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "schema/base/utf8.h"

namespace runner::text {

enum CharacterClass : uint8_t {
  kLetter = 1,       // category L, as in \p{L} of GPT-2's pattern
  kNumber = 2,       // category N, as in \p{N}
  kSpace = 4,        // White_Space, as in \s
  kPunctuation = 8,  // BERT's: category P and ASCII symbols
  kControl = 16,     // BERT removes it: categories Cc, Cf, Co, and U+FFFD; not tab and line ends
  kMark = 32,        // category Mn, which BERT's strip_accents removes
  kWord = 64,        // \w of Rust's regex, for the single_word of an added token
  kSorted = 128,     // has a canonical combining class, by which NFD sorts it
};

class CharacterClasses {
 public:
  // Returns the classes of every character.
  static const CharacterClasses& get();

  // Returns the set of classes.
  unsigned of(char32_t code) const { return code < kDirect ? direct_[code] : searched(code); }
  bool is(char32_t code, unsigned classes) const { return (of(code) & classes) != 0; }

 private:
  static constexpr char32_t kDirect = 0x20000;

  CharacterClasses();
  static unsigned searched(char32_t code);

  std::array<uint8_t, kDirect> direct_{};
};

// Whether BERT puts blanks around the character.
bool is_cjk(char32_t code);

// Appends the lower case of the character: U+0130 becomes two characters, any other one.
void append_lower_case(std::u32string& out, char32_t code);

// Appends the canonical decomposition (NFD) of the character, without the order of its marks.
void append_decomposed(std::u32string& out, char32_t code);
// Sorts the marks between characters of class 0 by their combining class, as NFD requires.
void sort_marks(std::u32string& text);

void append_utf8(std::string& out, char32_t code);

// Throws Error(kData) with the first byte that is not UTF-8.
void check_utf8(std::string_view text);

}  // namespace runner::text
