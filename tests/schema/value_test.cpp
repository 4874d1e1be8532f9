#include "schema/base/value.h"

#include <tuple>

#include <gtest/gtest.h>

#include "schema/base/clock.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"
#include "schema/recipe/field_words.h"

namespace runner::schema {
namespace {

TEST(Text, LowerCaseAndUtcTime) {
  EXPECT_EQ(lower_case("Train/LOSS_Zaz@[É"), "train/loss_zaz@[É");
  EXPECT_EQ(utc_time(1772368496789), "2026-03-01T12:34:56.789Z");
  EXPECT_EQ(utc_time(5), "1970-01-01T00:00:00.005Z");
}

TEST(Sizes, AreExactOrReadable) {
  const std::tuple<int64_t, const char*, const char*> kCases[] = {
      {1, "1 B", "1 B"},
      {9999, "9999 B", "9999 B"},
      {1280 << 10, "1280 KiB", "1280 KiB"},
      {605472, "605472 B", "591.28 KiB"},
      {25 << 20, "25 MiB", "25 MiB"},
      {(int64_t{1} << 30) + 1, "1073741825 B", "1.00 GiB"},
      {int64_t{3} << 39, "1536 GiB", "1536 GiB"},
      {int64_t{1} << 50, "1024 TiB", "1024 TiB"},
  };
  for (const auto& [bytes, exact, readable] : kCases) {
    EXPECT_EQ(size_text(bytes), exact);
    EXPECT_EQ(readable_size(bytes), readable);
  }
}

TEST(PlainScalar, FollowsYaml12) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "null"},
      {"~", "null"},
      {"null", "null"},
      {"NULL", "null"},
      {"nULL", "\"nULL\""},
      {"true", "true"},
      {"False", "false"},
      {"tRue", "\"tRue\""},
      {"yes", "\"yes\""},
      {"off", "\"off\""},
      {"0", "0"},
      {"-0", "0"},
      {"+12", "12"},
      {"-7", "-7"},
      {"9223372036854775807", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"1.", "1"},
      {".5", "0.5"},
      {"-.5e1", "-5"},
      {"1e3", "1000"},
      {"1E-3", "0.001"},
      {"1e-400", "0"},
      {"0.1", "0.1"},
      {"1e22", "1e+22"},
      {"-", "\"-\""},
      {".", "\".\""},
      {"+.e1", "\"+.e1\""},
      {"1e", "\"1e\""},
      {"1e+", "\"1e+\""},
      {"1.2.3", "\"1.2.3\""},
      {"1 2", "\"1 2\""},
      {"0x10", "\"0x10\""},
      {"0o7", "\"0o7\""},
      {"1_000", "\"1_000\""},
      {"12:30", "\"12:30\""},
      {"e1", "\"e1\""},
      {"--1", "\"--1\""},
      {"infinity", "\"infinity\""},
      {"nan", "\"nan\""},
      {"1f", "\"1f\""},
  };
  for (const auto& [text, want] : kCases) EXPECT_EQ(canonical_text(read_plain_scalar(text).value), want) << text;
}

TEST(PlainScalar, FlagsTextsThatYamlReadersDisagreeOn) {
  for (const char* text : {"010", "-01", "+00", "00.5", "01e3", "000"}) {
    EXPECT_TRUE(read_plain_scalar(text).leading_zero) << text;
    EXPECT_NE(read_plain_scalar(text).value.text(), nullptr) << text;
  }
  for (const char* text : {"0", "0.5", "-0", "0e1", "10", "01x", "01-02"}) {
    EXPECT_FALSE(read_plain_scalar(text).leading_zero) << text;
  }
  for (const char* text : {".inf", "-.Inf", "+.INF", ".nan", ".NaN", "1e309", "-1e999"}) {
    EXPECT_TRUE(read_plain_scalar(text).not_finite) << text;
  }
  EXPECT_TRUE(read_plain_scalar("9223372036854775808").too_large);
  EXPECT_TRUE(read_plain_scalar("-99999999999999999999").too_large);
  EXPECT_FALSE(read_plain_scalar("1e30").too_large);
  for (const char* text : {"1e-400", "-0.001e-400", "7.E-999"}) EXPECT_TRUE(read_plain_scalar(text).too_small) << text;
  for (const char* text : {"0e-400", "0.0", "5e-324", "0"}) EXPECT_FALSE(read_plain_scalar(text).too_small) << text;
}

TEST(NumberText, IsShortestAndReadsBack) {
  for (const double number : {0.1, 1e-8, 3.5, 1e300, 5e-324, 1.0 / 3, -2.5, 0.30000000000000004}) {
    const PlainScalar read = read_plain_scalar(number_text(number));
    ASSERT_NE(read.value.number(), nullptr) << number_text(number);
    EXPECT_EQ(*read.value.number(), number);
  }
  EXPECT_EQ(number_text(3), "3");
  EXPECT_EQ(number_text(-0.0), "0");
  EXPECT_EQ(number_text(0.1), "0.1");
}

TEST(CanonicalText, QuotesTexts) {
  EXPECT_EQ(canonical_text(Value(std::string("a\"b\\c\n\td\x01é"))), "\"a\\\"b\\\\c\\n\\td\\u0001é\"");
  EXPECT_EQ(canonical_text(Value(ValueList{Value(int64_t{1}), Value(true), Value()})), "[1, true, null]");
  EXPECT_EQ(display_text(Value(std::string("plain"))), "plain");
}

TEST(Utf8, AcceptsTheSameBytesAsRfc3629) {
  // The reference decodes the bytes and checks whether the shortest encoding equals them.
  const auto valid = [](unsigned a, unsigned b, unsigned c) {
    const unsigned code = (a & 15) << 12 | (b & 63) << 6 | (c & 63);
    return (b & 0xC0) == 0x80 && (c & 0xC0) == 0x80 && code >= 0x800 && (code < 0xD800 || code > 0xDFFF);
  };
  for (unsigned a = 0xE0; a < 0xF0; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      const char text[] = {static_cast<char>(a), static_cast<char>(b), '\x80'};
      EXPECT_EQ(utf8_length({text, 3}, 0) == 3, valid(a, b, 0x80)) << a << " " << b;
    }
  }
  EXPECT_EQ(utf8_length("\xC3\xA9", 0), 2u);
  EXPECT_EQ(utf8_length("\xC3", 0), 0u);
  EXPECT_EQ(utf8_length("\xC1\x80", 0), 0u);
  EXPECT_EQ(utf8_length("\x80", 0), 0u);
  EXPECT_EQ(utf8_length("\xF0\x9F\x98\x80", 0), 4u);
  EXPECT_EQ(utf8_length("\xF0\x80\x80\x80", 0), 0u);
  EXPECT_EQ(utf8_length("\xF4\x8F\xBF\xBF", 0), 4u);
  EXPECT_EQ(utf8_length("\xF5\x80\x80\x80", 0), 0u);
}

TEST(EditDistance, CountsSwapsAsOne) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("", "ab"), 2);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("sede", "seed"), 1);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // optimal string alignment, not Damerau's distance
}

TEST(Nearest, FindsOnlySimilarNames) {
  const std::vector<std::string> names = {"adam", "adamw", "sgd", "adam"};
  EXPECT_EQ(nearest("adma", names), (std::vector<std::string>{"adam"}));
  EXPECT_EQ(nearest("adamv", names), (std::vector<std::string>{"adam", "adamw"}));
  EXPECT_EQ(nearest("SGD", names), (std::vector<std::string>{"sgd"}));
  EXPECT_TRUE(nearest("transformer", names).empty());
  EXPECT_TRUE(nearest(std::string(65, 'a'), names).empty());
  EXPECT_EQ(did_you_mean(std::vector<std::string>{"a", "b", "c"}), "did you mean a, b or c?");
  EXPECT_EQ(did_you_mean({}), "");
}

}  // namespace
}  // namespace runner::schema
