#include "runner/formats/reading_watch.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>
#include <zlib.h>

#include "runner/formats/input_file.h"
#include "schema/base/error.h"
#include "tests/support/bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_folder.h"

namespace runner::formats {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A gzip file of zeros.
std::string compressed(const support::TempFolder& folder, size_t bytes) {
  const std::string path = (folder / "zeros.gz").string();
  const gzFile file = gzopen(path.c_str(), "wb1");
  const std::vector<char> zeros(kMiB);
  for (size_t done = 0; done < bytes; done += kMiB) gzwrite(file, zeros.data(), kMiB);
  gzclose(file);
  return path;
}

// Returns the contents as a reader that keeps them in memory does.
std::vector<std::byte> contents_of(const std::string& path) {
  InputFile input(path);
  std::vector<std::byte> contents;
  for (size_t got = kMiB; got == kMiB;) {
    const size_t size = contents.size();
    contents.resize(size + kMiB);
    got = input.read(std::span(contents).subspan(size));
    contents.resize(size + got);
  }
  return contents;
}

// Returns the number of MiB of a gzip file of zeros that are kept in memory before the rest is refused.
int kept_before_refusal(const support::TempFolder& folder, int mib, size_t (*available)()) {
  const std::string member = support::read_text(compressed(folder, kMiB));
  const std::string path = (folder / "bomb.gz").string();
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < mib; ++i) file << member;
  file.close();
  std::vector<std::vector<std::byte>> kept;
  ::malloc_trim(0);  // memory that is resident already would not grow
  try {
    const ReadingWatch watch(std::chrono::hours(1), available);
    InputFile input(path);
    do {
      kept.emplace_back(kMiB);
    } while (input.read(kept.back()) == kMiB);
  } catch (const Error&) {
    return static_cast<int>(kept.size());
  }
  return -1;
}

size_t lot_of_memory() {
  return size_t{1} << 40;
}
size_t half_gib() {
  return 512 * kMiB;
}
size_t little_memory() {
  return 64 * kMiB;
}

std::vector<double> noted_parts;
int ends = 0;
void note(const ReadingProgress& progress) {
  progress.ended ? void(++ends) : noted_parts.push_back(progress.part);
}

TEST(ReadingWatch, ReportsProgressOnceReadingTakesTime) {
  const support::TempFolder folder;
  const std::string path = compressed(folder, 8 * kMiB);
  set_reading_notice(note);
  noted_parts.clear();
  {
    const ReadingWatch patient(std::chrono::hours(1), lot_of_memory);
    contents_of(path);
  }
  EXPECT_TRUE(noted_parts.empty());
  EXPECT_EQ(ends, 0);
  {
    const ReadingWatch watch(std::chrono::hours(0), lot_of_memory);
    contents_of(path);
  }
  contents_of(path);  // not watched
  ASSERT_FALSE(noted_parts.empty());
  EXPECT_GT(noted_parts.front(), 0);
  EXPECT_LE(noted_parts.back(), 1);
  EXPECT_EQ(ends, 1);
  set_reading_notice(nullptr);
}

// A sixteenth of the memory would be 32 MiB.
TEST(ReadingWatch, RefusesAFileThatIsFarTooLargeFromASmallPart) {
  if (support::kSanitized) GTEST_SKIP() << "a sanitizer needs memory of its own";
  const support::TempFolder folder;
  const int kept = kept_before_refusal(folder, 2000, half_gib);
  EXPECT_GE(kept, 8);
  EXPECT_LE(kept, 16);
  EXPECT_GE(kept_before_refusal(folder, 700, half_gib), 32) << "less than twice too large";
  EXPECT_EQ(kept_before_refusal(folder, 100, half_gib), -1);
}

TEST(ReadingWatch, RefusesAFileBeforeMemoryEnds) {
  const support::TempFolder folder;
  const std::string path = compressed(folder, 200 * kMiB);
  std::string message;
  try {
    const ReadingWatch watch(std::chrono::hours(1), little_memory);
    contents_of(path);
  } catch (const Error& error) {
    message = error.message();
  }
  EXPECT_NE(message.find("zeros.gz: out of memory: "), std::string::npos) << message;
  EXPECT_NE(message.find(" and 0.062 GiB are available; use a part of the file"), std::string::npos) << message;
  const ReadingWatch watch(std::chrono::hours(1), lot_of_memory);
  EXPECT_EQ(contents_of(path).size(), 200 * kMiB);
}

}  // namespace
}  // namespace runner::formats
