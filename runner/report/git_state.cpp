#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/report/provenance.h"
#include "schema/base/duration.h"

namespace runner::report {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLargestStatus = size_t{4} << 20;
constexpr size_t kLargestComplaint = 1000;

// A pipe that is closed by its destructor and not inherited by child processes.
struct Pipe {
  std::array<int, 2> ends{-1, -1};

  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) ends = {-1, -1};
  }
  ~Pipe() {
    for (const int end : ends) close_end(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool is_open() const { return ends[0] >= 0; }
  void close_writer() { close_end(std::exchange(ends[1], -1)); }

 private:
  static void close_end(int end) {
    if (end >= 0) ::close(end);
  }
};

struct Answer {
  enum class How { kDone, kNotStarted, kLate } how = How::kNotStarted;
  int exit_code = 0;
  std::string out, complaint;
  bool cut = false;  // the output exceeded `most` bytes

  bool good() const { return how == How::kDone && (exit_code == 0 || cut); }
};

// Starts a process in its own process group, so that Ctrl-C does not reach it and kill() can end all its children.
// Resets the signal mask, because the calling thread may block signals.
pid_t start(const std::vector<std::string>& words, const Pipe& out, const Pipe& complaint) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, complaint.ends[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  if (::posix_spawnp(&child, arguments[0], &files, &attributes, arguments.data(), environ) != 0) child = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return child;
}

// Reads available data. Returns false at the end of the stream.
bool take(int from, std::string& to, size_t most, bool& cut) {
  std::array<char, 16384> buffer;
  const ssize_t count = ::read(from, buffer.data(), buffer.size());
  if (count <= 0) return count < 0 && errno == EINTR;
  const size_t room = most - std::min(most, to.size());
  to.append(buffer.data(), std::min(room, static_cast<size_t>(count)));
  cut |= static_cast<size_t>(count) > room;
  return true;
}

int milliseconds_to(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::max<int64_t>(0, left));
}

// Reads both pipes to their ends. Returns false if the time limit was reached, or if `most` bytes were read.
bool read_answer(const Pipe& out, const Pipe& complaint, size_t most, Clock::time_point deadline, Answer& answer) {
  std::array<pollfd, 2> open{{{out.ends[0], POLLIN, 0}, {complaint.ends[0], POLLIN, 0}}};
  bool ignored = false;
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    const int ready = ::poll(open.data(), open.size(), milliseconds_to(deadline));
    if (ready == 0) answer.how = Answer::How::kLate;
    if (ready == 0 || answer.cut) return false;
    if (open[0].revents != 0 && !take(open[0].fd, answer.out, most, answer.cut)) open[0].fd = -1;
    if (open[1].revents != 0 && !take(open[1].fd, answer.complaint, kLargestComplaint, ignored)) open[1].fd = -1;
  }
  return true;
}

Answer ask(const std::vector<std::string>& words, size_t most, Clock::time_point deadline) {
  Answer answer;
  Pipe out, complaint;
  if (!out.is_open() || !complaint.is_open()) return answer;
  const pid_t child = start(words, out, complaint);
  if (child < 0) return answer;
  out.close_writer();
  complaint.close_writer();
  answer.how = Answer::How::kDone;
  if (!read_answer(out, complaint, most, deadline, answer)) ::kill(-child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  answer.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

std::vector<std::string> git(const std::string& folder, std::initializer_list<const char*> more) {
  std::vector<std::string> words{
      "git", "-C", folder.empty() ? "." : folder, "--no-optional-locks", "-c", "core.fsmonitor=false"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void add_note(store::GitState& state, std::string_view text) {
  state.note += fmt::format("{}{}", state.note.empty() ? "" : "; ", text);
}

// Parses the output of `git status --porcelain=v2 --branch -z`: entries that end with a zero byte. A renamed file is
// followed by its old name as another entry.
void read_status(std::string_view text, store::GitState& state) {
  size_t untracked = 0;
  state.dirty = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    const std::string_view entry = text.substr(at, end - at);
    at = end + 1;
    if (entry.starts_with("# branch.oid ")) state.commit = entry.substr(13);
    if (entry.starts_with("# branch.head ")) state.branch = entry.substr(14);
    if (entry.starts_with("? ") && ++untracked <= kMaxUntracked) state.untracked.emplace_back(entry.substr(2));
    if (entry.starts_with("2 ")) at = std::min(text.find('\0', at), text.size()) + 1;
    if (!entry.starts_with("#") && !entry.starts_with("?") && !entry.empty()) state.dirty = true;
  }
  if (state.branch == "(detached)") state.branch.clear();
  if (state.commit == "(initial)") {
    state.commit.clear();
    add_note(state, "no commit yet");
  }
  if (untracked > kMaxUntracked) {
    add_note(state, fmt::format("{} untracked files, {} of them listed", untracked, kMaxUntracked));
  }
}

// Returns why there is no answer.
std::string reason(const Answer& answer, std::chrono::milliseconds limit) {
  if (answer.how == Answer::How::kNotStarted) return "git is not installed";
  if (answer.how == Answer::How::kLate) return fmt::format("git did not answer within {}", limit_text(limit));
  if (answer.complaint.starts_with("fatal: not a git repository")) return "no git repository";
  return answer.complaint.substr(0, answer.complaint.find('\n'));
}

}  // namespace

GitFindings inspect_git(const std::string& folder, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  GitFindings found;
  const Answer status = ask(git(folder, {"status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal"}),
                            kLargestStatus, deadline);
  if (!status.good()) {
    found.state.note = reason(status, limit);
    return found;
  }
  read_status(status.out, found.state);
  if (found.state.commit.empty() || found.state.dirty != true) return found;
  Answer diff =
      ask(git(folder, {"diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD"}), kLargestDiff, deadline);
  if (!diff.good()) {
    add_note(found.state, "no diff: " + reason(diff, limit));
    return found;
  }
  if (diff.cut) add_note(found.state, fmt::format("diff truncated after {} KiB", kLargestDiff >> 10));
  found.diff = std::move(diff.out);
  return found;
}

}  // namespace runner::report
