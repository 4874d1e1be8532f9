#include "runner/formats/input_file.h"

#include <span>

#include <sys/stat.h>

#include "tests/formats/files.h"

namespace runner::formats {
namespace {

using InputTest = FileTest;

std::string read_all(const std::string& path, size_t chunk = 1000) {
  InputFile input(path);
  std::string text;
  for (;;) {
    std::string piece(chunk, '\0');
    const size_t got = input.read(std::as_writable_bytes(std::span(piece)));
    text += piece.substr(0, got);
    if (got < chunk) return text;
    EXPECT_GE(input.most_left(), 0);
  }
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 60000; ++i) text += std::to_string(i * 7919 % 10007) + ",";
  return text;
}

TEST_F(InputTest, ReadsPlainAndGzippedFiles) {
  const std::string text = long_text();
  EXPECT_EQ(read_all(write("a.csv", text)), text);
  EXPECT_EQ(read_all(write("a.csv.gz", gzip(text))), text);
  EXPECT_EQ(read_all(write("a.csv.gz", gzip(text)), 1), text);
  EXPECT_EQ(read_all(write("unnamed", gzip(text))), text);
  EXPECT_EQ(read_all(write("empty", "")), "");
  EXPECT_EQ(read_all(write("empty.gz", gzip(""))), "");
}

TEST_F(InputTest, ReadsAllMembersOfAGzipFile) {
  EXPECT_EQ(read_all(write("a.gz", gzip("one ") + gzip("") + gzip("two"))), "one two");
}

TEST_F(InputTest, BoundsTheBytesLeft) {
  InputFile plain(write("a", "0123456789"));
  EXPECT_EQ(plain.most_left(), 10);
  std::array<std::byte, 4> four;
  plain.read_exactly(four, "the head");
  EXPECT_EQ(plain.most_left(), 6);
  const std::string zeros(1000000, '\0');
  EXPECT_GE(InputFile(write("a.gz", gzip(zeros))).most_left(), 1000000);
}

TEST_F(InputTest, ReportsFilesThatCannotBeOpened) {
  EXPECT_EQ(message_of([&] { InputFile input(path("absent.csv")); }),
            "cannot open absent.csv: No such file or directory");
  std::filesystem::create_directory(path("folder"));
  EXPECT_EQ(message_of([&] { InputFile input(path("folder")); }), "folder is a folder, not a regular file");
  ASSERT_EQ(mkfifo(path("pipe.csv").c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { InputFile input(path("pipe.csv")); }), "pipe.csv is a pipe, not a regular file");
  EXPECT_EQ(message_of([&] { InputFile input("/dev/zero"); }), "/dev/zero is a device, not a regular file");
  EXPECT_EQ(message_of([&] { InputFile input(write("a.csv.gz", "label,x\n")); }),
            "a.csv.gz is not a gzip file: its first bytes are 6c 61, expected 1f 8b");
  EXPECT_EQ(message_of([&] { InputFile input(write("a.gz", "")); }), "a.gz is not a gzip file: it has 0 bytes");
}

TEST_F(InputTest, ReportsTheByteWhereDataEnds) {
  InputFile input(write("a", "0123456789"));
  std::array<std::byte, 12> twelve;
  EXPECT_EQ(message_of([&] { input.read_exactly(twelve, "the head"); }),
            "a: unexpected end of file at byte 10, in the head");
  InputFile longer(write("b", "0123456789"));
  std::array<std::byte, 4> four;
  longer.read_exactly(four, "the head");
  EXPECT_EQ(message_of([&] { longer.expect_end(); }),
            "b: expected the end of the file at byte 4, but more bytes follow");
}

TEST_F(InputTest, ReportsDamagedGzipData) {
  const std::string good = gzip(long_text());
  EXPECT_EQ(message_of([&] { read_all(write("a.gz", std::string_view(good).substr(0, 5000))); }),
            "a.gz: unexpected end of the gzip data at byte 5000 of the file; is the file truncated?");
  EXPECT_EQ(message_of([&] { read_all(write("a.gz", good.substr(0, good.size() - 1))); }),
            "a.gz: unexpected end of the gzip data at byte " + std::to_string(good.size() - 1) +
                " of the file; is the file truncated?");
  std::string wrong_sum = good;
  wrong_sum[good.size() - 8] ^= 1;
  EXPECT_EQ(
      message_of([&] { read_all(write("a.gz", wrong_sum)); }),
      "a.gz: damaged gzip data before byte " + std::to_string(good.size() - 4) + " of the file: incorrect data check");
  EXPECT_EQ(message_of([&] { read_all(write("a.gz", good + "junk")); }), "a.gz: damaged gzip data before byte " +
                                                                             std::to_string(good.size() + 2) +
                                                                             " of the file: incorrect header check");
}

TEST_F(InputTest, SurvivesAnyFlippedByteOfAGzipFile) {
  const std::string text = long_text().substr(0, 3000), good = gzip(text);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    std::string got;
    const std::string message = message_of([&] { got = read_all(write("a.gz", bad)); });
    EXPECT_TRUE(!message.empty() || got == text) << i;  // some flags in the header have no effect
  }
}

}  // namespace
}  // namespace runner::formats
