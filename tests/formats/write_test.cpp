#include "runner/formats/write.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/formats/files.h"

namespace {

std::vector<std::string> synced;  // file name of each call of fsync()

}  // namespace

// Replaces the system's fsync().
extern "C" int fsync(int fd) {
  synced.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).filename());
  return 0;
}

namespace runner::formats {
namespace {

namespace fs = std::filesystem;

class WriteTest : public FileTest {
 protected:
  std::string contents(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int64_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }
};

TEST_F(WriteTest, ReplacesAFile) {
  write_file(path("x"), "one");
  EXPECT_EQ(contents("x"), "one");
  const std::string_view parts[] = {"two", "", " and three"};
  write_file(path("x"), parts);
  EXPECT_EQ(contents("x"), "two and three");
  write_file(path("x"), "");
  EXPECT_EQ(contents("x"), "");
  EXPECT_EQ(files(), 1);
}

// The file is synced under its temporary name, before the rename.
TEST_F(WriteTest, SyncsBeforeTheRename) {
  synced.clear();
  write_file(path("x"), "one");
  write_file(path("x"), "two");
  const std::string temporary = fmt::format("x.{}.0.tmp", ::getpid());
  EXPECT_EQ(synced, (std::vector<std::string>{temporary, temporary}));
}

TEST_F(WriteTest, KeepsPermissions) {
  for (const mode_t mode : {0600, 0666, 0751}) {
    write_file(path("x"), "old");
    ASSERT_EQ(::chmod(path("x").c_str(), mode), 0);
    write_file(path("x"), "new");
    struct stat now {};
    ASSERT_EQ(::stat(path("x").c_str(), &now), 0);
    EXPECT_EQ(now.st_mode & 07777, mode);
  }
}

TEST_F(WriteTest, ModifiesNoOtherFile) {
  const std::string first = fmt::format("x.{}.0.tmp", ::getpid());
  for (const std::string& name : {std::string("x.tmp"), first}) write(name, "the user's");
  write_file(path("x"), "new");
  EXPECT_EQ(contents("x"), "new");
  EXPECT_EQ(contents("x.tmp"), "the user's");
  EXPECT_EQ(contents(first), "the user's");
  EXPECT_EQ(files(), 3);
}

TEST_F(WriteTest, RemovesWhatKilledProcessesLeft) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(gone, nullptr, 0), gone);
  const std::vector<std::string> kept{fmt::format("x.{}.0.tmp", ::getppid()), fmt::format("x.{}.tmp", gone),
                                      fmt::format("x.{}.0.tmp.txt", gone), fmt::format("xy.{}.0.tmp", gone)};
  for (const std::string& name : kept) write(name, "the user's");
  for (const int number : {0, 7}) write(fmt::format("x.{}.{}.tmp", gone, number), "half of a fi");
  write_file(path("x"), "new");
  EXPECT_EQ(contents("x"), "new");
  for (const std::string& name : kept) EXPECT_EQ(contents(name), "the user's") << name;
  EXPECT_EQ(files(), 5);
}

TEST_F(WriteTest, ReplacesOnlyTheSameKind) {
  write("recipe.yaml", "name: x\n");
  write("list.json", "[1]");
  const auto error = [&](const std::string& name, std::string_view text) {
    return message_of([&] { write_file(path(name), text); });
  };
  EXPECT_EQ(error("recipe.yaml", "<svg></svg>"),
            "recipe.yaml exists and is text, not SVG; choose another file or remove it");
  EXPECT_EQ(error("recipe.yaml", {"\x08\x00\x00", 3}),
            "recipe.yaml exists and is text, not binary; choose another file or remove it");
  EXPECT_EQ(error("list.json", "a,b\n"), "list.json exists and is JSON, not text; choose another file or remove it");
  write_file(path("recipe.yaml"), "other text");
  write_file(path("list.json"), "{}");
  write_file(path("list.json"), "");
  write_file(path("list.json"), "a,b\n");
}

TEST_F(WriteTest, ReplacesTheTargetOfALink) {
  fs::create_directory(path("there"));
  write("there/x", "old");
  fs::create_symlink("there/x", path("link"));
  write_file(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(contents("there/x"), "new");
  fs::create_symlink("there/y", path("dangling"));
  write_file(path("dangling"), "made");
  EXPECT_EQ(contents("there/y"), "made");
}

TEST_F(WriteTest, WritesInPlaceToAPipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int keep = ::open(path("pipe").c_str(), O_RDWR | O_CLOEXEC);  // so that opening the pipe for writing does not
                                                                      // block
  ASSERT_GE(keep, 0);
  write_file(path("pipe"), "data");
  char got[4];
  ASSERT_EQ(::read(keep, got, 4), 4);
  ::close(keep);
  EXPECT_EQ(std::string(got, 4), "data");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(files(), 1);
}

// A file to which standard output appends keeps its contents.
TEST_F(WriteTest, WritesToStandardOutputByItsDescriptor) {
  write("log", "before ");
  const int saved = ::dup(STDOUT_FILENO);
  const int log = ::open(path("log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(log, 0);
  ASSERT_EQ(::dup2(log, STDOUT_FILENO), STDOUT_FILENO);
  write_file("-", "one ");
  write_file("/dev/stdout", "two");
  ::dup2(saved, STDOUT_FILENO);
  for (const int fd : {saved, log}) ::close(fd);
  EXPECT_EQ(contents("log"), "before one two");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteTest, ReportsAFileThatCannotBeWritten) {
  EXPECT_EQ(message_of([&] { write_file(path("no/x"), "four"); }), "cannot write no/x: No such file or directory");
  fs::create_directory(path("folder"));
  EXPECT_EQ(message_of([&] { write_file(path("folder"), "four"); }), "cannot write folder: Is a directory");
  EXPECT_EQ(message_of([&] { write_file("/dev/full", "four"); }), "cannot write /dev/full: No space left on device");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteTest, NewFileMustNotExist) {
  write_new_file(path("x"), "one");
  EXPECT_EQ(message_of([&] { write_new_file(path("x"), "two"); }),
            "x already exists; choose another file or remove it");
  EXPECT_EQ(contents("x"), "one");
  EXPECT_EQ(message_of([&] { write_new_file(path("no/x"), ""); }), "cannot write no/x: No such file or directory");
}

}  // namespace
}  // namespace runner::formats
