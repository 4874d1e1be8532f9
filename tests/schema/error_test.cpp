// The source locations of errors.
#include "schema/base/error.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

Error with_note(const SourceMark& where) {
  Error error(ErrorKind::kRun, "it is too large", where);
  error.note("on gpu 0");
  return error;
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
