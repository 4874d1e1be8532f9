// The source locations of errors.
#include "schema/base/error.h"

#include <string>

#include <gtest/gtest.h>

namespace runner {
namespace {

Error with_note(const SourceMark& where) {
  Error error(ErrorKind::kRun, "it is too large", where);
  error.note("on gpu 0");
  return error;
}

// what() would end at a NUL.
TEST(Error, ShowsNulsHoweverMany) {
  EXPECT_EQ(Error(ErrorKind::kRun, std::string("a\0b", 3)).message(), "a\\x00b");
  constexpr size_t kMany = 4 << 20;  // moving the rest of the text for each one would take hours
  EXPECT_EQ(Error(ErrorKind::kRun, std::string(kMany, '\0')).message().size(), 4 * kMany);
}

TEST(Error, LocateKeepsTheFirstLocation) {
  Error error = with_note({});
  EXPECT_STREQ(error.what(), "it is too large\n  note: on gpu 0");
  error.locate({"h.lua", 3, 0});
  error.locate({"h.lua", 7, 0});
  EXPECT_STREQ(error.what(), "h.lua:3: it is too large\n  note: on gpu 0");
  EXPECT_EQ(error.where().line, 3);
}

TEST(Error, RelocateReplacesTheLocation) {
  Error error = with_note({"h.lua", 3, 0});
  error.relocate({"h.lua", 7, 0});
  EXPECT_STREQ(error.what(), "h.lua:7: it is too large\n  note: on gpu 0");
  EXPECT_EQ(error.text(), "it is too large\n  note: on gpu 0");
  error.relocate({});
  EXPECT_STREQ(error.what(), "it is too large\n  note: on gpu 0");
  EXPECT_FALSE(error.where().known());
}

}  // namespace
}  // namespace runner
