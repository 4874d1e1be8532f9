// Text files: byte order marks, UTF-16, NUL bytes, and lines.
#include "runner/formats/text_file.h"

#include <string>
#include <vector>

#include "runner/formats/line_reader.h"
#include "tests/formats/files.h"

namespace runner::formats {
namespace {

class TextFile : public FileTest {
 protected:
  std::vector<std::string> lines_of(const std::string& text) {
    InputFile input(write("a.txt", text));
    LineReader reader(input);
    std::vector<std::string> lines;
    for (std::string_view line; reader.next(line);) lines.emplace_back(line);
    return lines;
  }
};

const std::string kMark = "\xEF\xBB\xBF", kUtf16("\xFF\xFEh\0i\0", 6), kNul("hi\nab\0c\n", 8);

TEST_F(TextFile, AByteOrderMarkIsSkippedAtTheBeginning) {
  EXPECT_EQ(formats::read_text(write("a.txt", kMark + "h\u00e9")), "h\u00e9");
  EXPECT_EQ(formats::read_text(write("a.txt", "h" + kMark)), "h" + kMark);
  EXPECT_EQ(formats::read_text(write("a.txt", "")), "");
  EXPECT_EQ(formats::read_text(write("a.txt", gzip(kMark + "hi"))), "hi");
  EXPECT_EQ(lines_of(kMark + "a\r\n" + kMark + "b"), (std::vector<std::string>{"a", kMark + "b"}));
}

TEST_F(TextFile, Utf16AndNulSayWhatToDo) {
  EXPECT_EQ(message_of([&] { formats::read_text(write("a.txt", kUtf16)); }), "a.txt is UTF-16 text; save it as UTF-8");
  EXPECT_EQ(message_of([&] { formats::read_text(write("a.txt", kNul)); }),
            "a.txt: byte 5 is NUL (0x00): the file is damaged, or is UTF-16 text that must be saved as UTF-8");
  EXPECT_EQ(message_of([&] { lines_of(kUtf16); }), "a.txt is UTF-16 text; save it as UTF-8");
  EXPECT_EQ(message_of([&] { lines_of(kNul); }),
            "a.txt:2: byte 2 of the line is NUL (0x00): the file is damaged, or is UTF-16 text that must be saved as "
            "UTF-8");
}

TEST_F(TextFile, LinesThatEndInCrOnlyAreRefused) {
  EXPECT_EQ(message_of([&] { lines_of("a\rb\r"); }), "a.txt:1: a line ends in CR only; save the file with LF or CRLF");
  EXPECT_EQ(lines_of("a\rb\nc"), (std::vector<std::string>{"a\rb", "c"}));
  EXPECT_EQ(lines_of("a\r"), std::vector<std::string>{"a"});
}

TEST_F(TextFile, ALineEndsBefore64MiB) {
  const std::string longest((size_t{1} << 26) - (size_t{1} << 16), 'x');
  EXPECT_EQ(lines_of("a\n" + longest + "\nb").at(1).size(), longest.size());
  EXPECT_EQ(message_of([&] { lines_of("a\n" + std::string((size_t{1} << 26) + (size_t{1} << 17), 'x') + "\nb"); }),
            "a.txt:2: the line is longer than 64 MiB");
}

}  // namespace
}  // namespace runner::formats
