// Runs each fuzz target briefly, with the same inputs every time, and tests the fuzz driver and mutator.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 4000;

fs::path here() {
  return support::source_path("tests/fuzz");
}

std::vector<std::string> corpus_of(const std::string& target) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(here() / "corpus" / target)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const fs::path& file : files) corpus.push_back(support::read_text(file));
  return corpus;
}

std::vector<std::string> dictionary_of(const std::string& target) {
  return parse_dictionary(support::read_text(here() / "dictionaries" / (target + ".dict")));
}

bool run(const Target& target, const std::string& input) {
  const std::vector<uint8_t> bytes(input.begin(), input.end());  // exact size, with nothing after the input
  return fuzz::run(target, bytes);
}

class Fuzz : public ::testing::TestWithParam<Target> {};

TEST_P(Fuzz, EveryInputOfTheCorpusIsAccepted) {
  const std::vector<std::string> corpus = corpus_of(GetParam().name);
  EXPECT_GE(corpus.size(), 5U);
  for (size_t i = 0; i < corpus.size(); ++i) EXPECT_TRUE(run(GetParam(), corpus[i])) << "corpus input " << i;
}

TEST_P(Fuzz, DamagedInputsAreReadOrRejectedProperly) {
  Mutator mutator(20261121, corpus_of(GetParam().name), dictionary_of(GetParam().name));
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) accepted += run(GetParam(), mutator.next(4096));
  EXPECT_GT(accepted, kRounds / 200);
  EXPECT_LT(accepted, kRounds);
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(FuzzProperties, AMessageNamesTheFileAndAPlaceInOneLine) {
  EXPECT_EQ(fault_of_message("d.csv:3: no number", "d.csv"), "");
  EXPECT_EQ(fault_of_message("d.npy: unexpected end of file at byte 20, in the header", "d.npy"), "");
  EXPECT_EQ(fault_of_message("d.csv: is wrong", "d.csv"), "does not name a place");
  EXPECT_EQ(fault_of_message("d.csv:x: is wrong", "d.csv"), "does not name a place");
  EXPECT_EQ(fault_of_message("line 3: no number", "d.csv"), "does not name the file");
  EXPECT_EQ(fault_of_message("d.csv:3: \xff is no number", "d.csv"), "is not UTF-8");
  EXPECT_EQ(fault_of_message("d.csv:3: 'a\nb' is no number", "d.csv"), "has several lines");
}

TEST(FuzzProperties, AViolatedInvariantAborts) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(require(false, "it is not so"), "fuzz: it is not so");
  const Target greedy{"greedy", [](Bytes input) { return std::string(input.size() * 65 + (5 << 20), 'x').empty(); },
                      64};
  EXPECT_DEATH(run(greedy, std::string(100, 'a')), "greedy asked for 5249[0-9]* bytes at once; 100 bytes of input");
}

TEST(FuzzDriver, FindsAPlantedFaultAndKeepsTheInput) {
  const support::TempFolder temporary;
  const std::string folder = temporary.path();
  fs::create_directory(folder + "/corpus");
  std::ofstream(folder + "/corpus/0") << "a stack of hay";
  std::ofstream(folder + "/words") << "# tools\n\"fork\"\n\"n\\x65edle\"\n";
  const std::string fuzz =
      fmt::format("{} -seed=1 -artifact_prefix={}/ ", support::build_path("bin/fuzz_planted"), folder);
  const std::string quiet = fmt::format(" >{}/log 2>&1", folder);
  EXPECT_NE(std::system((fuzz + "-runs=100000 -dict=" + folder + "/words " + folder + "/corpus" + quiet).c_str()), 0);
  std::string found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("crash-")) found = entry.path();
  }
  ASSERT_NE(found, "") << support::read_text(folder + "/log");
  EXPECT_NE(support::read_text(found).find("needle"), std::string::npos);
  EXPECT_NE(std::system((fuzz + found + quiet).c_str()), 0);
  EXPECT_EQ(std::system((fuzz + folder + "/words" + quiet).c_str()), 0);
}

TEST(FuzzMutator, SameSeedGivesSameInputs) {
  const std::vector<std::string> corpus{"one input", "another"}, words{"word"};
  Mutator a(7, corpus, words), b(7, corpus, words), c(8, corpus, words);
  std::string from_a, from_b, from_c;
  for (int i = 0; i < 50; ++i) {
    from_a += a.next(100);
    from_b += b.next(100);
    from_c += c.next(100);
  }
  EXPECT_EQ(from_a, from_b);
  EXPECT_NE(from_a, from_c);
  for (int i = 0; i < 1000; ++i) EXPECT_LE(a.next(5).size(), 5U);
}

TEST(FuzzMutator, ParsesLibFuzzerDictionaries) {
  EXPECT_EQ(parse_dictionary("# words\n\"a b\"\nname=\"\\x00\\\\\\\"\\xfF\"\n\n"),
            (std::vector<std::string>{"a b", std::string("\0\\\"\xff", 4)}));
  for (const char* wrong : {"word", "\"word", "\"", "\"\\xg0\""}) EXPECT_ANY_THROW(parse_dictionary(wrong)) << wrong;
}

}  // namespace
}  // namespace runner::fuzz
