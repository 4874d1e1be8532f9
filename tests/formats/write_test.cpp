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
  write_file(path("x"), "one", FileKind::kText);
  EXPECT_EQ(contents("x"), "one");
  const std::string_view parts[] = {"two", "", " and three"};
  write_parts(path("x"), parts, FileKind::kText);
  EXPECT_EQ(contents("x"), "two and three");
  write_file(path("x"), "", FileKind::kText);
  EXPECT_EQ(contents("x"), "");
  EXPECT_EQ(files(), 1);
}

// The file is synced under its temporary name, before the rename.
TEST_F(WriteTest, SyncsBeforeTheRename) {
  synced.clear();
  write_file(path("x"), "one", FileKind::kText);
  write_file(path("x"), "two", FileKind::kText);
  const std::string temporary = fmt::format("x.{}.0.tmp", ::getpid());
  EXPECT_EQ(synced, (std::vector<std::string>{temporary, temporary}));
}

TEST_F(WriteTest, KeepsPermissions) {
  for (const mode_t mode : {0600, 0666, 0751}) {
    write_file(path("x"), "old", FileKind::kText);
    ASSERT_EQ(::chmod(path("x").c_str(), mode), 0);
    write_file(path("x"), "new", FileKind::kText);
    struct stat now {};
    ASSERT_EQ(::stat(path("x").c_str(), &now), 0);
    EXPECT_EQ(now.st_mode & 07777, mode);
  }
}

TEST_F(WriteTest, ModifiesNoOtherFile) {
  const std::string first = fmt::format("x.{}.0.tmp", ::getpid());
  for (const std::string& name : {std::string("x.tmp"), first}) write(name, "the user's");
  write_file(path("x"), "new", FileKind::kText);
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
  write_file(path("x"), "new", FileKind::kText);
  EXPECT_EQ(contents("x"), "new");
  for (const std::string& name : kept) EXPECT_EQ(contents(name), "the user's") << name;
  EXPECT_EQ(files(), 5);
}

TEST_F(WriteTest, ReplacesOnlyTheSameKind) {
  const std::string onnx("\x08\x08\x12\x06runner:\0", 11), safetensors("\x02\0\0\0\0\0\0\0{}", 10);
  const std::pair<FileKind, std::string> files[] = {
      {FileKind::kSvg, "<svg></svg>"},
      {FileKind::kJson, "{\"metric\": 1}\n{\"metric\": 2}\n"},
      {FileKind::kJson, " [\n  {\"ph\": \"M\"}]"},
      {FileKind::kJson, "{}"},
      {FileKind::kNpy, "\x93NUMPY\x01"},
      {FileKind::kSafetensors, safetensors},
      {FileKind::kOnnx, onnx},
      {FileKind::kPng, "\x89PNG\r\n"},
      {FileKind::kMetrics, "metric,step,time,value\ntrain/loss,1,,2\n"},
      {FileKind::kPredictions, "class,logit_a,logit_b,row\na,1,2,0\n"},
      {FileKind::kPredictions, "y,row,error\n"},
      {FileKind::kText, "name: x\n"},
      {FileKind::kText, "{name: x}\n"},  // YAML
      {FileKind::kText, "[section]\n"},  // TOML
      {FileKind::kText, "a,b,label\n1,2,0\n"},
      {FileKind::kText, "<?xml version=\"1.0\"?><note/>"},
      {FileKind::kBinary, std::string("\0\1", 2)},
  };
  for (const auto& [old_kind, old] : files) {
    EXPECT_EQ(kind_of(old), old_kind) << old;
    for (const auto& file : files) {
      write("x", old);
      const std::string error = message_of([&] { write_file(path("x"), file.second, file.first); });
      EXPECT_EQ(error.empty(), file.first == old_kind) << old << '\n' << file.second;
      EXPECT_EQ(contents("x"), file.first == old_kind ? file.second : old);
    }
  }
  write("mine.csv", "a,b,label\n");
  EXPECT_EQ(message_of([&] { write_file(path("mine.csv"), "metric,step,time,value\n", FileKind::kMetrics); }),
            "mine.csv exists and is text, not metrics; choose another file or remove it");
  EXPECT_EQ(message_of([&] { write_file(path("mine.csv"), onnx, FileKind::kOnnx); }),
            "mine.csv exists and is text, not ONNX; choose another file or remove it");
  write("empty", "");
  write_file(path("empty"), onnx, FileKind::kOnnx);
  EXPECT_EQ(contents("empty"), onnx);
}

TEST_F(WriteTest, ReplacesTheTargetOfALink) {
  fs::create_directory(path("there"));
  write("there/x", "old");
  fs::create_symlink("there/x", path("link"));
  write_file(path("link"), "new", FileKind::kText);
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(contents("there/x"), "new");
  fs::create_symlink("there/y", path("dangling"));
  write_file(path("dangling"), "made", FileKind::kText);
  EXPECT_EQ(contents("there/y"), "made");
}

TEST_F(WriteTest, WritesInPlaceToAPipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int keep = ::open(path("pipe").c_str(), O_RDWR | O_CLOEXEC);  // so that opening the pipe for writing does not
                                                                      // block
  ASSERT_GE(keep, 0);
  write_file(path("pipe"), "data", FileKind::kText);
  char got[4];
  ASSERT_EQ(::read(keep, got, 4), 4);
  ::close(keep);
  EXPECT_EQ(std::string(got, 4), "data");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteTest, ReportsAFileThatCannotBeWritten) {
  EXPECT_EQ(message_of([&] { write_file(path("no/x"), "four", FileKind::kText); }),
            "cannot write no/x: No such file or directory");
  fs::create_directory(path("folder"));
  EXPECT_EQ(message_of([&] { write_file(path("folder"), "four", FileKind::kText); }),
            "cannot write folder: Is a directory");
  EXPECT_EQ(message_of([&] { write_file("/dev/full", "four", FileKind::kText); }),
            "cannot write /dev/full: No space left on device");
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
