// Durations of PyTorch/XLA: both styles, the defect of one of them, and decoding.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runner/report/xla/duration.h"

namespace runner::report::xla {
namespace {

constexpr double kUnitNs[] = {86400e9, 3600e9, 60e9, 1e9, 1e6};

// Formats a duration like torch_xla, with the C library: each count is rounded when printed, then its floor is
// subtracted.
std::string printed_by_c(double ns) {
  const char* const formats[] = {"%02.0fd", "%02.0fh", "%02.0fm", "%02.0fs", "%03.0fms"};
  std::string text;
  char part[64];
  for (size_t i = 0; i < std::size(kUnitNs); ++i) {
    const double count = ns / kUnitNs[i];
    if (count < 1.0 && text.empty()) continue;
    std::snprintf(part, sizeof part, formats[i], count);
    text += part;
    ns -= std::floor(count) * kUnitNs[i];
  }
  std::snprintf(part, sizeof part, "%07.3fus", ns / 1e3);
  return text + part;
}

// Returns durations in whole nanoseconds of every magnitude, often at or next to a whole or half unit.
std::vector<int64_t> durations(int count) {
  std::mt19937_64 random(7);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  std::vector<int64_t> all{0, 1, 999, 1000};
  while (std::ssize(all) < count) {
    int64_t ns = below(int64_t{1} << (1 + below(52)));
    if (below(2) == 0) {
      const auto half = static_cast<int64_t>(kUnitNs[static_cast<size_t>(below(5))] / 2);
      ns = ns / half * half + below(3) - 1;
    }
    if (ns >= 0 && ns < 64 * int64_t{86'400'000'000'000}) all.push_back(ns);
  }
  return all;
}

TEST(XlaDuration, TextInBothStyles) {
  const struct {
    double ns;
    const char *exact, *upstream;
  } rows[] = {
      {0, "000.000us", "000.000us"},
      {3654, "003.654us", "003.654us"},
      {999'999, "999.999us", "999.999us"},
      {1'000'000, "001ms000.000us", "001ms000.000us"},
      {53'856'143, "053ms856.143us", "054ms856.143us"},
      {27'920'153'731, "27s920ms153.731us", "28s920ms153.731us"},
      {59'999'999'999.9, "01m00s000ms000.000us", "60s1000ms1000.000us"},
      {261'555'668'071, "04m21s555ms668.071us", "04m22s556ms668.071us"},
      {93'784'005'006'007, "01d02h03m04s005ms006.007us", "01d02h03m04s005ms006.007us"},
      {86'399'999'999'999, "23h59m59s999ms999.999us", "24h60m60s1000ms999.999us"},
      {1234.4, "001.234us", "001.234us"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(time_text(row.ns, DurationStyle::kExact), row.exact);
    EXPECT_EQ(time_text(row.ns, DurationStyle::kUpstream), row.upstream);
  }
}

TEST(XlaDuration, UpstreamStyleMatchesTheCLibrary) {
  for (const int64_t ns : durations(100'000)) {
    for (const double fraction : {0.0, 0.25, 0.4996}) {
      const double value = static_cast<double>(ns) + fraction;
      ASSERT_EQ(time_text(value, DurationStyle::kUpstream), printed_by_c(value)) << ns;
    }
  }
}

TEST(XlaDuration, ExactStyleRoundTrip) {
  for (const int64_t ns : durations(100'000)) {
    const auto reading = read_time(time_text(static_cast<double>(ns), DurationStyle::kExact));
    ASSERT_TRUE(reading && reading->exact) << ns;
    ASSERT_EQ(*reading->exact, static_cast<double>(ns));
  }
}

// If exactly half a unit follows a part, two durations print the same text. The reading is then one of them.
TEST(XlaDuration, UpstreamStyleIsDecodedToWholeNanoseconds) {
  int other = 0;
  for (const int64_t ns : durations(100'000)) {
    const std::string text = printed_by_c(static_cast<double>(ns));
    const auto reading = read_time(text);
    ASSERT_TRUE(reading && reading->upstream) << text;
    if (*reading->upstream == static_cast<double>(ns)) continue;
    ASSERT_TRUE(reading->tie) << text << " of " << ns;
    ASSERT_EQ(printed_by_c(*reading->upstream), text);
    ++other;
  }
  EXPECT_GT(other, 100);
}

// A rate is not a whole number of nanoseconds; its reading must print as the same text. Above 26 days per second, a
// double cannot represent the fraction that this needs.
TEST(XlaDuration, RatesRoundTripAsText) {
  for (const int64_t ns : durations(100'000)) {
    for (const double fraction : {0.2, -0.2, 0.4, -0.4, 0.499, -0.499}) {
      if ((ns == 0 && fraction < 0) || ns >= int64_t{1} << 51) continue;
      const double rate = static_cast<double>(ns) + fraction;
      const std::string text = printed_by_c(rate);
      const auto reading = read_time(text);
      ASSERT_TRUE(reading && reading->upstream) << text << " of " << rate;
      ASSERT_EQ(time_text(*reading->upstream, DurationStyle::kUpstream), text) << rate;
      if (!reading->tie) {
        ASSERT_NEAR(*reading->upstream, rate, 0.51) << text;
      }
    }
  }
}

TEST(XlaDuration, DetectsTextsThatAStyleCannotPrint) {
  const struct {
    const char* text;
    double exact, upstream;  // −1: none
  } rows[] = {
      {"04h60m30s500ms000.000us", -1, 3 * 3600e9 + 59 * 60e9 + 30.5e9},
      {"28s920ms153.731us", 28'920'153'731, 27'920'153'731},
      {"02m38s957ms316.000us", 158'957'316'000, 97'957'316'000},
      {"01m38s957ms316.000us", 98'957'316'000, -1},
      {"60s001ms000.000us", -1, -1},
      {"47m60s800ms000.000us", -1, 46 * 60e9 + 59'800'000'000},
      {"1000ms900.000us", -1, 999'900'000},
      {"00s600ms000.000us", -1, -1},
      {"01s600ms000.000us", 1'600'000'000, -1},
      {"02s000ms600.000us", 2'000'600'000, -1},
      {"1000.000us", -1, 999'999.75},
      {"1000.001us", -1, -1},
  };
  for (const auto& row : rows) {
    const auto reading = read_time(row.text);
    ASSERT_TRUE(reading) << row.text;
    EXPECT_EQ(reading->exact.value_or(-1), row.exact) << row.text;
    EXPECT_EQ(reading->upstream.value_or(-1), row.upstream) << row.text;
  }
}

// The upstream style prints two durations as "28s500ms000.000us". It never prints an odd count of seconds there for a
// whole number of nanoseconds.
TEST(XlaDuration, ExactlyHalfAUnitIsATie) {
  EXPECT_EQ(printed_by_c(27.5e9), "28s500ms000.000us");
  EXPECT_EQ(printed_by_c(28.5e9), "28s500ms000.000us");
  const auto even = read_time("28s500ms000.000us");
  EXPECT_TRUE(even->tie);
  EXPECT_EQ(*even->upstream, 27.5e9);
  const auto odd = read_time("27s500ms000.000us");
  EXPECT_TRUE(odd->tie);
  EXPECT_EQ(*odd->upstream, 26.5e9 + 0.25);
  const auto first = read_time("01s500ms000.000us");
  EXPECT_TRUE(first->tie);
  EXPECT_EQ(*first->upstream, 1.5e9 - 0.25);
  EXPECT_FALSE(read_time("28s499ms000.000us")->tie);
}

TEST(XlaDuration, ReadsUnpaddedTextsOfOlderReleases) {
  EXPECT_EQ(read_time("001ms32.778us")->exact, 1'032'778);
  EXPECT_EQ(read_time("191ms81.607us")->upstream, 191'081'607);
  EXPECT_EQ(read_time("54ms856us")->upstream, 53'856'000);
  EXPECT_EQ(read_time("4m5s6ms7.8us")->exact, 245'006'007'800);
}

TEST(XlaDuration, RejectsTruncatedAndInvalidTexts) {
  for (const char* text : {"", "us", "28s", "28s920ms", "28s920ms153.731u", "28s920ms153.731", "28s153.731us",
                           "-28.000us", "920ms28s153.731us", "1.5s000ms000.000us", "0x1us", "153.7311us", "1e3us",
                           " 153.731us", "153.731us ", "28y920ms153.731us", "99999999999ms000.000us"}) {
    EXPECT_FALSE(read_time(text)) << text;
  }
}

}  // namespace
}  // namespace runner::report::xla
