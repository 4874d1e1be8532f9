#include "runner/cli/hosts_run.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/runtime/descriptor.h"
#include "runner/cli/child_process.h"
#include "runner/cli/exit_codes.h"
#include "runner/cli/launch_report.h"
#include "runner/cli/launcher.h"
#include "runner/cli/remote_hosts.h"
#include "schema/base/error.h"
#include "schema/base/signal_set.h"
#include "schema/base/system_limits.h"

extern char** environ;

namespace runner::cli {
namespace {

namespace fs = std::filesystem;
using backends::Descriptor;
using Clock = std::chrono::steady_clock;

// How long a launcher may still run after rank 0 has reported the end of the run. The other ranks need up to a minute.
// Open MPI waits for a lost host, which does not come back; the other ranks end when it is killed.
constexpr auto kEndLimit = std::chrono::seconds(90), kEndLimitAfterLoss = std::chrono::seconds(10);
// A host that does not start a program within this time is gone.
constexpr auto kAnswerLimit = std::chrono::seconds(20);

// ---- signals -------------------------------------------------------------------------------------------------------

// A signal handler can access only static data.
std::atomic<pid_t> launcher_process{0};  // 0: none
std::atomic<int> requests{0};
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// Async-signal-safe. mpirun passes SIGUSR1 on to the ranks, which save a state; SIGTERM makes it kill them.
extern "C" void pass_on_signal(int) {
  const int saved_errno = errno;
  const int signal = requests.fetch_add(1) == 0 ? SIGUSR1 : SIGTERM;
  if (const pid_t process = launcher_process; process > 0) ::kill(process, signal);
  errno = saved_errno;
}

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = pass_on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

// ---- processes -----------------------------------------------------------------------------------------------------

// A program with its own process group, of which nothing is left after the destructor.
class Started {
 public:
  explicit Started(ChildStart start) {
    start.has_own_group = true;
    const int error = start_child(start, pid_);
    RUN_CHECK(error == 0, ErrorKind::kRun, "cannot start {}: {}", start.words.front(), system_reason(error));
    handle_.emplace(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  ~Started() { end(); }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  pid_t pid() const { return pid_; }
  int handle() const { return handle_->number(); }  // readable after the end
  bool wait_until(Clock::time_point limit) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now());
    pollfd polled{handle(), POLLIN, 0};
    return ::poll(&polled, 1, static_cast<int>(std::max<int64_t>(0, left.count()))) > 0;
  }
  // Ends what is left of the group, and returns the status of the program, as waitpid(2).
  int end() {
    if (pid_ < 0) return 0;
    ::kill(-pid_, SIGKILL);
    return wait_for_child(std::exchange(pid_, -1));
  }

 private:
  pid_t pid_ = -1;
  std::optional<Descriptor> handle_;
};

struct Finished {
  int status = 0;  // of mpirun, as waitpid(2)
  LaunchReports reports;
};

// Returns whether more output may follow.
bool read_output(int descriptor, std::string& output) {
  char part[4096];
  const ssize_t size = ::read(descriptor, part, sizeof part);
  if (size > 0) output.append(part, static_cast<size_t>(size));
  return size > 0;
}

// A process that mpirun has left behind may keep the pipe open, so its end does not count.
Finished run_to_its_end(const std::vector<std::string>& command) {
  int ends[2];
  RUN_CHECK(::pipe2(ends, O_CLOEXEC) == 0, ErrorKind::kRun, "cannot make a pipe: {}", system_reason(errno));
  const Descriptor reading(ends[0]);
  std::optional<Descriptor> writing(std::in_place, ends[1]);
  ::fcntl(reading.number(), F_SETFL, O_NONBLOCK);
  const sigset_t handled = signal_set({SIGINT, SIGTERM, SIGHUP});
  ::pthread_sigmask(SIG_BLOCK, &handled, nullptr);
  Started launcher({.words = command, .out_descriptor = writing->number()});
  launcher_process = launcher.pid();
  ::pthread_sigmask(SIG_UNBLOCK, &handled, nullptr);
  writing.reset();
  std::string output;
  Clock::time_point limit = Clock::time_point::max();
  for (bool is_open = true; Clock::now() < limit;) {
    pollfd polled[] = {{launcher.handle(), POLLIN, 0}, {is_open ? reading.number() : -1, POLLIN, 0}};
    ::poll(polled, 2, 1000);
    if (polled[1].revents != 0) is_open = read_output(reading.number(), output);
    if (polled[0].revents != 0) break;
    if (limit != Clock::time_point::max()) continue;
    if (const auto ended = LaunchReports(output).ended())
      limit = Clock::now() + (ended->lost_process ? kEndLimitAfterLoss : kEndLimit);
  }
  while (read_output(reading.number(), output)) {
  }
  launcher_process = 0;
  const int status = launcher.end();
  return {status, LaunchReports(output)};
}

// ---- restarts ------------------------------------------------------------------------------------------------------

std::vector<std::string> without_hosts(const std::vector<std::string>& words) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--hosts") {
      ++i;
    } else if (!words[i].starts_with("--hosts=")) {
      rest.push_back(words[i]);
    }
  }
  return rest;
}

// Of this program and of the store.
std::vector<std::string> own_variables() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("RUNNER_")) names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

std::string text_of_status(int status) {
  return WIFEXITED(status) ? fmt::format("exited with code {}", WEXITSTATUS(status))
                           : fmt::format("was ended by signal {}", WTERMSIG(status));
}

class HostsRun {
 public:
  HostsRun(std::string_view hosts, const std::vector<std::string>& words)
      : hosts_(parse_hosts(hosts)),
        launcher_(choose_launcher()),
        program_(fs::read_symlink("/proc/self/exe").string()),
        words_(without_hosts(words)) {}

  // Returns how the last attempt has ended.
  Finished run() {
    for (;;) {
      pass_on(earlier_);
      Finished attempt = run_to_its_end(command_for(hosts_, own_variables(), words_));
      if (!may_continue(attempt)) return attempt;
      earlier_.run = attempt.reports.begun()->run;
      earlier_.lost.push_back(fmt::format("{}; restart {} of {}", loss_of(attempt), earlier_.lost.size() + 1,
                                          attempt.reports.begun()->max_restarts));
      leave_out_lost_hosts();
      if (requests > 0) return attempt;
    }
  }

  bool has_lost_process(const Finished& attempt) const {
    const LaunchReports& reports = attempt.reports;
    if (!reports.begun() || requests > 0) return false;
    if (!reports.ended()) return attempt.status != 0;
    // Rank 0 may end in another way, because mpirun signals it after the loss of another rank.
    const bool was_signalled = WIFEXITED(attempt.status) && WEXITSTATUS(attempt.status) > kSignalCode;
    return reports.ended()->lost_process || (reports.ended()->exit_code != 0 && was_signalled);
  }

  std::string loss_of(const Finished& attempt) const {
    const std::optional<EndedRun>& ended = attempt.reports.ended();
    if (ended && ended->lost_process) return ended->message;
    return fmt::format("a process of the run has ended: {} {}", launcher_.program, text_of_status(attempt.status));
  }

  bool is_open_mpi() const { return launcher_.module.is_open_mpi(); }

 private:
  std::vector<std::string> command_for(const std::vector<HostSlots>& hosts, const std::vector<std::string>& variables,
                                       const std::vector<std::string>& words) const {
    return launch_command(launcher_, hosts, variables, program_, words);
  }

  bool may_continue(const Finished& attempt) const {
    return has_lost_process(attempt) &&
           static_cast<int64_t>(earlier_.lost.size()) < attempt.reports.begun()->max_restarts;
  }

  // One after the other: programs of Open MPI that start or end on this machine at the same time disturb each other.
  bool answers(const HostSlots& host) const {
    const ChildStart start{
        .words = command_for({{host.name, 1}}, {}, {"version"}), .out = "/dev/null", .messages = "/dev/null"};
    const Clock::time_point limit = Clock::now() + kAnswerLimit;
    for (int i = 0; i < 2; ++i) {
      Started program(start);
      if (program.wait_until(limit) && program.end() == 0) return true;
    }
    return false;
  }

  void leave_out_lost_hosts() {
    std::vector<HostSlots> found;
    std::ranges::copy_if(hosts_, std::back_inserter(found), [&](const HostSlots& host) { return answers(host); });
    RUN_CHECK(!found.empty() && found.front().name == hosts_.front().name, ErrorKind::kRun,
              "{}; host {}, which has the store, does not answer; `runner resume {}` on this host continues the run",
              earlier_.lost.back(), hosts_.front().name, earlier_.run);
    if (found.size() < hosts_.size()) earlier_.processes = ranks_of(found);
    hosts_ = std::move(found);
  }

  std::vector<HostSlots> hosts_;
  const RemoteLauncher launcher_;
  const std::string program_;
  const std::vector<std::string> words_;
  EarlierAttempts earlier_;
};

int print_end(const EndedRun& ended, report::Output& out) {
  out.colored_talk(ended.error);
  out.colored_data(ended.data);
  return ended.exit_code;
}

Error lost_run(const BegunRun& begun, std::string_view loss) {
  Error error(ErrorKind::kRun, fmt::format("{}; `runner resume {}` continues the run", loss, begun.run));
  error.set_run({.id = begun.run, .name = begun.name, .backend = {}, .num_processes = {}});
  return error;
}

}  // namespace

int run_on_hosts(std::string_view hosts, const std::vector<std::string>& words, report::Output& out) {
  RUN_CHECK(!is_one_of_several(), ErrorKind::kUsage,
            "--hosts cannot be used in processes that a launcher has started; remove it");
  HostsRun run(hosts, words);
  handle_signals();
  const Finished last = run.run();
  // Once a run has begun, only mpirun prints: MPICH writes its messages to standard output.
  last.reports.begun() ? out.talk(last.reports.rest()) : out.data(last.reports.rest());
  if (last.reports.ended()) return print_end(*last.reports.ended(), out);
  if (run.has_lost_process(last)) throw lost_run(*last.reports.begun(), run.loss_of(last));
  if (!WIFEXITED(last.status)) return kSignalCode + WTERMSIG(last.status);
  // mpiexec of MPICH returns 0 once it has passed on a signal, however the run ended.
  const bool is_unknown = requests > 0 && WEXITSTATUS(last.status) == 0 && !run.is_open_mpi();
  return is_unknown ? exit_code(ErrorKind::kInterrupted) : WEXITSTATUS(last.status);
}

}  // namespace runner::cli
