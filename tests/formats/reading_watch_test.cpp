#include "runner/formats/reading_watch.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "runner/formats/input_file.h"
#include "schema/base/error.h"
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

size_t lot_of_memory() {
  return size_t{1} << 40;
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
