#include "schema/base/text.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/pattern.h"

namespace runner {
namespace {

TEST(WholeNumber, IsTheWholeText) {
  EXPECT_EQ(whole_number("12"), 12);
  EXPECT_EQ(whole_number("-3"), -3);
  for (const char* const text : {"", " 1", "1 ", "+1", "1.0", "two", "2b", "99999999999"})
    EXPECT_FALSE(whole_number(text)) << text;
}

TEST(VisibleText, KeepsPlainTextTabsAndLines) {
  EXPECT_EQ(visible("a\tb\nc ~"), "a\tb\nc ~");
  EXPECT_EQ(visible("grün × 東京 😀"), "grün × 東京 😀");
  EXPECT_EQ(visible(""), "");
}

TEST(VisibleText, EscapesControlCharacters) {
  EXPECT_EQ(visible("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
  EXPECT_EQ(visible("over\rwritten\b"), "over\\x0dwritten\\x08");
  EXPECT_EQ(visible(std::string("a\0b\x7f", 4)), "a\\x00b\\u007f");
  EXPECT_EQ(visible("\xc2\x9b"
                    "2J\xc2\x80\xc2\xa0"),
            "\\u009b2J\\u0080\xc2\xa0");  // U+009B begins an escape sequence; U+00A0 is a space
}

TEST(VisibleText, EscapesMarksThatReorderText) {
  EXPECT_EQ(visible("gpj.\u202Eexe"), "gpj.\\u202eexe");
  for (const char* mark : {"\u061C", "\u200E", "\u200F", "\u2028", "\u2029", "\u202A", "\u2066", "\u2069"})
    EXPECT_EQ(visible(mark).size(), 6U) << mark;
  EXPECT_EQ(visible("\u2027\u202F"), "\u2027\u202F");
}

TEST(VisibleText, EscapesCharactersWithoutWidth) {
  EXPECT_EQ(visible("ev\u200Bal"), "ev\\u200bal");
  for (const char* mark : {"\u200C", "\u200D", "\u2060", "\u2064", "\u206F", "\uFEFF"})
    EXPECT_EQ(visible(mark).size(), 6U) << mark;
  EXPECT_EQ(visible("\u200A\u205F\u2070\uFEFE"), "\u200A\u205F\u2070\uFEFE");
}

TEST(VisibleMessage, IndentsAllLinesButTheFirst) {
  EXPECT_EQ(visible_message("a\nerror: b\n\n  note: c\n\x1b"), "a\n  error: b\n\n  note: c\n  \\x1b");
  EXPECT_EQ(visible_message("a\n"), "a\n");
}

TEST(Replaced, ReplacesEachOccurrenceInOnePass) {
  EXPECT_EQ(replaced("a.b..c", ".", ", "), "a, b, , c");
  EXPECT_EQ(replaced("aaa", "aa", "a"), "aa");
  EXPECT_EQ(replaced("", "a", "b"), "");
  const std::string many(4 << 20, '.');  // moving the rest for each one would take hours
  EXPECT_EQ(replaced(many, ".", "<>").size(), 2 * many.size());
}

TEST(VisibleText, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(visible("a\xff"
                    "b\xc2"),
            "a\\xffb\\xc2");
  EXPECT_EQ(visible("\x9b"
                    "2J"),
            "\\x9b2J");  // the same in an 8-bit terminal
}

TEST(WordBytes, AreAsciiLettersDigitsAndUnderscores) {
  std::string words;
  for (int byte = 0; byte < 256; ++byte)
    if (is_word_byte(static_cast<char>(byte))) words += static_cast<char>(byte);
  EXPECT_EQ(words, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz");
}

TEST(Matches, MatchesWholeNames) {
  struct Case {
    const char* pattern;
    const char* name;
    bool matches;
  };
  for (const Case& c : {
           Case{"0.weight", "0.weight", true},
           Case{"0.weight", "0.weights", false},
           Case{"0.weight", "10.weight", false},
           Case{"0.weight", "0xweight", false},
           Case{"", "", true},
           Case{"", "a", false},
           Case{"*", "", true},
           Case{"*", "blocks.3.attn.weight", true},
           Case{"**", "a", true},
           Case{"*.bias", "0.bias", true},
           Case{"*.bias", "0.bias.x", false},
           Case{"*.bias", ".bias", true},
           Case{"*.bias", "bias", false},
           Case{"0.*", "0.weight", true},
           Case{"0.*", "0.", true},
           Case{"0.*", "10.weight", false},
           Case{"*.3.*", "blocks.3.bias", true},
           Case{"*.3.*", "blocks.30.bias", false},
           Case{"?.bias", "0.bias", true},
           Case{"?.bias", "10.bias", false},
           Case{"?.bias", ".bias", false},
           Case{"*?", "", false},
           Case{"*?", "a", true},
           Case{"a*b*c", "aXbYbZc", true},
           Case{"a*b*c", "aXbYbZ", false},
           Case{"*ab", "aab", true},
           Case{"*aab", "aaaab", true},
           Case{"*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
           Case{"[0].bias", "0.bias", false},
           Case{"a?", "a", false},
           Case{"a*", "*", false},
           Case{"*", "*", true},
           Case{"?", "*", true},
           Case{"*bias", "0.bias", true},
           Case{"?pfel", "Äpfel", true},
           Case{"??pfel", "Äpfel", false},
           Case{"*?l", "東京l", true},
           Case{"???", "東京", false},
           Case{"?a",
                "\xff"
                "a",
                true},
       })
    EXPECT_EQ(matches(c.pattern, c.name), c.matches) << c.pattern << " " << c.name;
}

TEST(MatchedText, PutsWhatStarsMatchIntoTheText) {
  const struct Case {
    std::string_view pattern, name, text, expected;  // "-": the pattern does not match
  } cases[] = {{"module.*", "module.0.weight", "*", "0.weight"},
               {"*.bias", "a.b.bias", "x.*.bias", "x.a.b.bias"},
               {"a.*.b.*", "a.1.b.2.b.3", "*/*", "1/2.b.3"},  // the first * is the shortest
               {"*.*", "a.b.c", "*/*", "a/b.c"},
               {"a*", "a", "x*", "x"},
               {"*", "", "x*y", "xy"},
               {"*a*", "a", "[*|*]", "[|]"},
               {"**", "ab", "*|*", "|ab"},
               {"*ab", "aab", "*", "a"},
               {"?.*", "0.bias", "*?", "bias?"},
               {"a", "a", "b", "b"},
               {"a.*.b.*", "a.1.c.2", "*", "-"},
               {"a", "ab", "b", "-"}};
  for (const Case& c : cases)
    EXPECT_EQ(matched_text(c.pattern, c.name, c.text).value_or("-"), c.expected) << c.pattern << ' ' << c.name;
}

// Compares with regular expressions, whose matching may be slow.
TEST(Matches, AgreesWithRegularExpressions) {
  std::mt19937 random(11);
  int fitting = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string pattern, text, expression;
    for (size_t n = random() % 7; n > 0; --n) pattern += "ab*?"[random() % 4];
    for (size_t n = random() % 8; n > 0; --n) text += "ab"[random() % 2];
    for (const char c : pattern) expression += c == '*' ? ".*" : c == '?' ? "." : std::string(1, c);
    const bool fit = matches(pattern, text);
    EXPECT_EQ(fit, support::Pattern(expression).matches(text)) << pattern << ' ' << text;
    fitting += fit;
  }
  EXPECT_GT(fitting, 1000);
  // Must not take exponential time.
  EXPECT_FALSE(matches(std::string(5000, '*').append("b"), std::string(50'000, 'a')));
}

TEST(InQuotes, ShowsAnyBytesOnOneShortLine) {
  EXPECT_EQ(in_quotes("a b"), "'a b'");
  EXPECT_EQ(in_quotes("sp\u00E4m\n"), "'sp\u00E4m\\x0a'");
  EXPECT_EQ(in_quotes(std::string(39, 'x') + "\u00E4m"), "'" + std::string(39, 'x') + "...'");
  EXPECT_EQ(in_quotes("a\n\x80"), "'a\\x0a\\x80'");
  EXPECT_EQ(in_quotes(std::string(41, 'x')), "'" + std::string(40, 'x') + "...'");
  EXPECT_EQ(in_quotes("gpj.\u202Eexe \u009B2J \x7F"), "'gpj.\\u202eexe \\u009b2J \\u007f'");
  EXPECT_EQ(in_quotes("\u202E\xff"), "'\\xe2\\x80\\xae\\xff'");
}

}  // namespace
}  // namespace runner
