#include "schema/base/text.h"

#include <string>

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(VisibleText, KeepsPlainTextTabsAndLines) {
  EXPECT_EQ(visible("a\tb\nc ~"), "a\tb\nc ~");
  EXPECT_EQ(visible("grün × 東京 😀"), "grün × 東京 😀");
  EXPECT_EQ(visible(""), "");
}

TEST(VisibleText, EscapesControlCharacters) {
  EXPECT_EQ(visible("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
  EXPECT_EQ(visible("over\rwritten\b"), "over\\x0dwritten\\x08");
  EXPECT_EQ(visible(std::string("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(visible("\xc2\x9b"
                    "2J\xc2\x80\xc2\xa0"),
            "\\u009b2J\\u0080\xc2\xa0");  // U+009B begins an escape sequence; U+00A0 is a space
}

TEST(VisibleText, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(visible("a\xff"
                    "b\xc2"),
            "a\\xffb\\xc2");
  EXPECT_EQ(visible("\x9b"
                    "2J"),
            "\\x9b2J");  // the same in an 8-bit terminal
}

}  // namespace
}  // namespace runner
