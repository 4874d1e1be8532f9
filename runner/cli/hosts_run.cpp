#include "runner/cli/hosts_run.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
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
// How long it may still run after the second request to end.
constexpr auto kEndLimitAfterRequests = std::chrono::seconds(10);
// A host that does not start a program within this time counts as lost. Ranks that do not connect within it cause a
// warning.
constexpr auto kAnswerLimit = std::chrono::seconds(20);

// ---- signals -------------------------------------------------------------------------------------------------------

// How often the user has asked the run to end. A signal handler can access only static data.
std::atomic<int> requests{0};
static_assert(std::atomic<int>::is_always_lock_free);

constexpr int kRequests[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

extern "C" void count_request(int) {
  requests.fetch_add(1);
}
extern "C" void wake_up(int) {}  // SIGCHLD only ends a wait

// Blocks the signals: they come only in wait_for_event(), so none is lost between two checks.
void handle_signals() {
  struct sigaction action {};
  action.sa_handler = count_request;
  for (const int signal : kRequests) ::sigaction(signal, &action, nullptr);
  action.sa_handler = wake_up;
  ::sigaction(SIGCHLD, &action, nullptr);
  sigset_t handled = signal_set({SIGCHLD});
  for (const int signal : kRequests) sigaddset(&handled, signal);
  ::pthread_sigmask(SIG_BLOCK, &handled, nullptr);
}

// Waits for input, a signal, the end of a child, or the end of the time, at most a second. `descriptor`: -1 for none.
// Returns whether there is input.
bool wait_for_event(int descriptor, Clock::time_point limit) {
  sigset_t others;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &others);
  for (const int signal : kRequests) sigdelset(&others, signal);
  sigdelset(&others, SIGCHLD);
  constexpr int64_t kSecond = 1'000'000'000;
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(limit - Clock::now()).count();
  const timespec time{left >= kSecond ? 1 : 0, left >= kSecond ? 0 : std::max<int64_t>(0, left)};
  pollfd polled{descriptor, POLLIN, 0};
  return ::ppoll(&polled, 1, &time, &others) > 0;
}

// ---- processes -----------------------------------------------------------------------------------------------------

// A program with its own process group. The destructor ends the group, and so does the end of this process.
class Started {
 public:
  explicit Started(ChildStart start) {
    start.has_own_group = start.ends_with_parent = true;
    const int error = start_child(start, pid_);
    if (error != 0) pid_ = -1;
    RUN_CHECK(error == 0, ErrorKind::kRun, "cannot start {}: {}", start.words.front(), system_reason(error));
  }
  ~Started() { end(); }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  void signal(int number) const { ::kill(pid_, number); }
  bool has_ended() const {  // its process id stays in use until end()
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid_;
  }
  // Returns whether the program has ended. Does not wait after a request.
  bool wait_until(Clock::time_point limit) const {
    while (!has_ended() && requests == 0 && Clock::now() < limit) wait_for_event(-1, limit);
    return has_ended();
  }
  // Ends what is left of the group, and returns the status of the program, as waitpid(2).
  int end() {
    if (pid_ < 0) return 0;
    ::kill(-pid_, SIGKILL);
    return wait_for_child(std::exchange(pid_, -1));
  }

 private:
  pid_t pid_ = -1;
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
  return size > 0 || (size < 0 && errno == EINTR);
}

// Runs until mpirun ends. The end of the pipe does not count, because a process left by mpirun may keep it open.
// `on_silence`: called if the ranks have not connected within kAnswerLimit.
Finished run_to_its_end(const std::vector<std::string>& command, const std::function<void()>& on_silence) {
  int ends[2];
  RUN_CHECK(::pipe2(ends, O_CLOEXEC) == 0, ErrorKind::kRun, "cannot make a pipe: {}", system_reason(errno));
  const Descriptor reading(ends[0]);
  std::optional<Descriptor> writing(std::in_place, ends[1]);
  ::fcntl(reading.number(), F_SETFL, O_NONBLOCK);
  Started launcher({.words = command, .out_descriptor = writing->number()});
  writing.reset();
  std::string output;
  Clock::time_point limit = Clock::time_point::max();
  Clock::time_point next_request = Clock::time_point::min();
  Clock::time_point notice = Clock::now() + kAnswerLimit;
  bool is_killed = false;
  for (bool is_open = true, is_ending = false; !launcher.has_ended() && Clock::now() < limit;) {
    const size_t read_before = output.size();
    if (wait_for_event(is_open ? reading.number() : -1, limit)) is_open = read_output(reading.number(), output);
    if (Clock::now() >= notice) {
      if (!LaunchReports(output).connected()) on_silence();
      notice = Clock::time_point::max();
    }
    // mpirun passes SIGUSR1 on to the ranks, which save a state. It is repeated, because they may not be there yet.
    if (requests > 0 && !is_ending && Clock::now() >= next_request) {
      launcher.signal(SIGUSR1);
      next_request = Clock::now() + std::chrono::seconds(1);
    }
    if (requests > 1 && !is_killed) {
      launcher.signal(SIGTERM);
      is_killed = true;
      limit = std::min(limit, Clock::now() + kEndLimitAfterRequests);
    }
    if (is_ending || output.size() == read_before) continue;
    if (const auto ended = LaunchReports(output).ended()) {
      is_ending = true;
      limit = std::min(limit, Clock::now() + (ended->lost_process ? kEndLimitAfterLoss : kEndLimit));
    }
  }
  while (read_output(reading.number(), output)) {
  }
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

// Returns the names of the variables that this program and the store read.
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

// Returns an error about a run that can be resumed.
Error about_begun(ErrorKind kind, const BegunRun& begun, std::string_view reason) {
  Error error(kind, fmt::format("{}; `runner resume {}` continues the run", reason, begun.run));
  error.set_run({.id = begun.run, .name = begun.name, .backend = {}, .num_processes = {}});
  return error;
}

class HostsRun {
 public:
  HostsRun(std::string_view hosts, const std::vector<std::string>& words, report::Output& out)
      : hosts_(parse_hosts(hosts)),
        out_(out),
        launcher_(choose_launcher()),
        program_(fs::read_symlink("/proc/self/exe").string()),
        words_(without_hosts(words)) {}

  // Returns how the last attempt has ended. Throws Error(kInterrupted) after a request to end between two attempts.
  Finished run() {
    for (;;) {
      check_requests();
      pass_on(earlier_);
      Finished attempt = run_to_its_end(command_for(hosts_, own_variables(), words_), [this] { tell_of_silence(); });
      if (attempt.reports.begun()) begun_ = attempt.reports.begun();
      if (!may_continue(attempt)) return attempt;
      earlier_.run = begun_->run;
      earlier_.lost.push_back(
          fmt::format("{}; restart {} of {}", loss_of(attempt), earlier_.lost.size() + 1, begun_->max_restarts));
      leave_out_lost_hosts();
    }
  }

  // The run as it has begun in the newest attempt that got so far.
  const std::optional<BegunRun>& begun() const { return begun_; }

  bool has_lost_process(const Finished& attempt) const {
    const std::optional<EndedRun>& ended = attempt.reports.ended();
    if (!begun_ || requests > 0) return false;
    if (!ended) return true;  // whatever the status: rank 0 reports every end
    // Rank 0 may end in another way, because mpirun signals it after the loss of another rank.
    const bool was_signalled = WIFEXITED(attempt.status) && WEXITSTATUS(attempt.status) > kSignalCode;
    return ended->lost_process || (ended->exit_code != 0 && was_signalled);
  }

  std::string loss_of(const Finished& attempt) const {
    const std::optional<EndedRun>& ended = attempt.reports.ended();
    if (ended && ended->lost_process) return ended->message;
    return fmt::format("a process of the run has ended: {} {}", launcher_.program, text_of_status(attempt.status));
  }

  const std::string& launcher() const { return launcher_.program; }

 private:
  std::vector<std::string> command_for(const std::vector<HostSlots>& hosts, const std::vector<std::string>& variables,
                                       const std::vector<std::string>& words) const {
    return launch_command(launcher_, hosts, variables, program_, words);
  }

  void tell_of_silence() const {
    std::vector<std::string> names;
    for (const HostSlots& host : hosts_) names.push_back(host.name);
    out_.colored_talk(report::warning_text(
        fmt::format("the ranks have not connected within {} s; check that `ssh HOST true` ends without a question for "
                    "{}, and that these hosts reach each other; Ctrl-C twice ends the wait",
                    kAnswerLimit.count(), fmt::join(names, ", ")),
        out_.talk_color()));
  }

  bool may_continue(const Finished& attempt) const {
    return has_lost_process(attempt) && static_cast<int64_t>(earlier_.lost.size()) < begun_->max_restarts;
  }

  void check_requests() const {
    if (requests == 0) return;
    if (!begun_) fail(ErrorKind::kRun, "interrupted before the run began; nothing was recorded");
    throw about_begun(ErrorKind::kInterrupted, *begun_, "interrupted before the run continued");
  }

  // One after the other: programs of Open MPI that start or end on this machine at the same time disturb each other.
  bool answers(const HostSlots& host) const {
    const ChildStart start{
        .words = command_for({{host.name, 1}}, {}, {"version"}), .out = "/dev/null", .messages = "/dev/null"};
    const Clock::time_point limit = Clock::now() + kAnswerLimit;
    for (int i = 0; i < 2; ++i) {
      Started program(start);
      if (program.wait_until(limit) && program.end() == 0) return true;
      check_requests();
    }
    return false;
  }

  void leave_out_lost_hosts() {
    std::vector<HostSlots> found;
    std::vector<std::string> lost;
    for (const HostSlots& host : hosts_) answers(host) ? found.push_back(host) : lost.push_back(host.name);
    if (!lost.empty())
      earlier_.lost.back() += fmt::format(", without {}, which does not answer", fmt::join(lost, ", "));
    RUN_CHECK(!found.empty() && found.front().name == hosts_.front().name, ErrorKind::kRun,
              "{}; host {}, which has the store, does not answer; `runner resume {}` on this host continues the run",
              earlier_.lost.back(), hosts_.front().name, earlier_.run);
    if (found.size() < hosts_.size()) earlier_.processes = ranks_of(found);
    hosts_ = std::move(found);
  }

  std::vector<HostSlots> hosts_;
  report::Output& out_;
  const RemoteLauncher launcher_;
  const std::string program_;
  const std::vector<std::string> words_;
  EarlierAttempts earlier_;
  std::optional<BegunRun> begun_;
};

int print_end(const EndedRun& ended, report::Output& out) {
  out.colored_talk(ended.error);
  out.colored_data(ended.data);
  return ended.exit_code;
}

}  // namespace

int run_on_hosts(std::string_view hosts, const std::vector<std::string>& words, report::Output& out) {
  RUN_CHECK(!is_one_of_several(), ErrorKind::kUsage,
            "--hosts cannot be used in processes that a launcher has started; remove it");
  handle_signals();
  HostsRun run(hosts, words, out);
  const Finished last = run.run();
  // Once a run has begun, only mpirun prints: MPICH writes its messages to standard output.
  run.begun() ? out.talk(last.reports.rest()) : out.data(last.reports.rest());
  if (last.reports.ended()) return print_end(*last.reports.ended(), out);
  if (run.has_lost_process(last)) throw about_begun(ErrorKind::kRun, *run.begun(), run.loss_of(last));
  if (run.begun())
    throw about_begun(ErrorKind::kInterrupted, *run.begun(), "interrupted; rank 0 has not reported the end of the run");
  RUN_CHECK(requests == 0, ErrorKind::kRun, "interrupted before the run began; nothing was recorded");
  RUN_CHECK(last.status != 0 || !last.reports.rest().empty(), ErrorKind::kRun,
            "{} exited with code 0, but rank 0 has printed nothing", run.launcher());
  if (!WIFEXITED(last.status)) return kSignalCode + WTERMSIG(last.status);
  return WEXITSTATUS(last.status);
}

}  // namespace runner::cli
