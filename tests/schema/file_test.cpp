#include "schema/base/file.h"

#include <fstream>
#include <limits>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/temp_folder.h"

namespace runner {
namespace {

std::string problem_of(const std::filesystem::path& path) {
  const RegularFile file(path);
  return file.is_open() ? "none" : file.problem();
}

TEST(RegularFile, RefusesWhatIsNotARegularFile) {
  const support::TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  (folder / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(problem_of(folder / "pipe"), "it is a pipe");
  EXPECT_EQ(problem_of(folder / "link"), "it is a pipe");
  EXPECT_EQ(problem_of(folder / "socket"), "it is a socket");
  EXPECT_EQ(problem_of(folder.path()), "it is a folder");
  EXPECT_EQ(problem_of("/dev/zero"), "it is a device");
  EXPECT_EQ(problem_of(folder / "none"), "No such file or directory");
  ::close(server);
}

// It is a regular file for stat(), and blocks until the kernel logs something.
TEST(RegularFile, DoesNotWaitForTheKernelsLog) {
  RegularFile file("/proc/kmsg");
  std::string text;
  EXPECT_FALSE(file.is_open() && file.read_text(text, std::numeric_limits<size_t>::max()));
  EXPECT_NE(file.problem(), "");
}

TEST(RegularFile, ReadsAtMostALittleMoreThanTheLimit) {
  const support::TempFolder folder;
  std::ofstream(folder / "file") << std::string(1 << 20, 'x');
  std::string text = "start";
  EXPECT_TRUE(RegularFile(folder / "file").read_text(text, 1000));
  EXPECT_GT(text.size(), 1000U);
  EXPECT_LT(text.size(), size_t{1} << 19);
  EXPECT_TRUE(text.starts_with("startxx"));
  EXPECT_EQ(read_file(folder / "file")->size(), size_t{1} << 20);
  EXPECT_GT(read_file("/proc/self/status")->size(), 100U);
}

}  // namespace
}  // namespace runner
