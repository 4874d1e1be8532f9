#include "runner/cli/scenarios/workbench.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/cli/scenarios/document.h"
#include "runner/report/format.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/text.h"

namespace runner::cli::scenarios {
namespace {

constexpr const char* kRecipe = R"(schema_version: 1
seed: 7
model: {type: mlp, hidden: [8]}
data:
  train: {format: synthetic, samples: 101, features: [4], classes: 3}
  eval: {format: synthetic, samples: 33, features: [4], classes: 3}
  batch_size: 8
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 2}
log: {every: 1 step}
)";

constexpr const char* kCheckModule = R"(return function(acc, what, got, expected)
  acc:print("check", what, tostring(got), tostring(expected))
end
)";

// Runs in the child process. Uses only functions that are safe between fork and exec.
[[noreturn]] void become_program(const char* program, const char* folder, char* const* arguments) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  if (::chdir(folder) != 0) _exit(126);
  const int in = ::open("/dev/null", O_RDONLY), out = ::open("stdout", kFlags, 0600),
            err = ::open("stderr", kFlags, 0600);
  if (in < 0 || out < 0 || err < 0) _exit(126);
  ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(err, 2);
  ::execv(program, arguments);
  _exit(127);
}

std::string text_of(const std::filesystem::path& path) {
  return read_file(path).value_or("");
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
  return fields;
}

// Returns the first line of an error message.
std::string error_line(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error: ") != std::string::npos) return line;
  }
  return "no error";
}

// Returns the samples of an epoch in the order in which global steps read them, without padding.
std::vector<int64_t> global_order(const json::Value& epoch) {
  const json::List& ranks = list(at(epoch, {"batches"}));
  std::vector<int64_t> order;
  for (size_t step = 0;; ++step) {
    bool any = false;
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (step >= list(ranks[r]).size()) continue;
      any = true;
      const size_t repeats = list(list(list(at(epoch, {"padding"})).at(r)).at(step)).size();
      const json::List& batch = list(list(ranks[r])[step]);
      for (size_t i = 0; i + repeats < batch.size(); ++i) order.push_back(whole(batch[i]));
    }
    if (!any) return order;
  }
}

}  // namespace

Workbench::Workbench(std::filesystem::path program, std::filesystem::path folder, const Backend& backend,
                     const train::ChildWatch& watch)
    : program_(std::move(program)), folder_(std::move(folder)), backend_(backend), watch_(watch) {
  write("recipe.yaml", kRecipe);
  write("check.lua", kCheckModule);
}

void Workbench::write(const std::string& name, std::string_view text) const {
  std::ofstream file(folder_ / name, std::ios::binary);
  file << text;
  RUN_CHECK(file.flush(), ErrorKind::kRun, "cannot write {}: {}", (folder_ / name).string(), std::strerror(errno));
}

bool Workbench::has(const std::string& name) const {
  return std::filesystem::exists(folder_ / name);
}

int64_t Workbench::lines(const std::string& name) const {
  const std::string text = text_of(folder_ / name);
  return std::count(text.begin(), text.end(), '\n');
}

Ran Workbench::run(const Words& words) const {
  Words all = with({"runner", "--db", "runner.db", "--color", "never"}, {});
  const Words command = on_backend(words);
  all.insert(all.begin() + 1, command.begin(), command.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const auto start = std::chrono::steady_clock::now();
  const pid_t parent = ::getpid(), child = ::fork();
  RUN_CHECK(child >= 0, ErrorKind::kRun, "cannot start a process: {}", std::strerror(errno));
  if (child == 0) {
    watch_.enter_child(parent);
    become_program(program_.c_str(), folder_.c_str(), arguments.data());
  }
  const int status = watch_.wait(child);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = text_of(folder_ / "stdout"),
          .err = text_of(folder_ / "stderr"),
          .seconds = elapsed.count()};
}

Words Workbench::on_backend(const Words& words) const {
  constexpr std::string_view kBegins[] = {"exec", "plan", "estimate", "verify-resume"};
  if (std::ranges::find(kBegins, words.front()) == std::end(kBegins)) return words;
  Words settings{words[0], words[1]};
  settings.insert(settings.end(), backend_.settings.begin(), backend_.settings.end());
  const auto is_precision = [](const std::string& word) { return word.starts_with("mixed_precision="); };
  if (std::ranges::none_of(words, is_precision))
    settings.insert(settings.end(), backend_.in_f32.begin(), backend_.in_f32.end());
  return with(std::move(settings), {words.begin() + 2, words.end()});
}

Words Workbench::train_words(const std::string& name, const Words& settings) const {
  return with({"exec", "recipe.yaml", "--quiet", "--json", "name=" + name}, settings);
}

json::Value Workbench::trained(const std::string& name, const Ran& ran) {
  if (ran.exit_code != 0) equal("training " + name, error_line(ran.err), "done");
  return json::parse(ran.out);
}

json::Value Workbench::train(const std::string& name, const Words& settings) {
  return trained(name, run(train_words(name, settings)));
}

json::Value Workbench::train_with_hook(const std::string& name, std::string_view lua, const Words& settings) {
  write("hook.lua", fmt::format("local nn, check = require \"nn\", require \"check\"\n{}", lua));
  const Ran ran = run(train_words(name, with({"hooks=hook.lua"}, settings)));
  std::istringstream lines(ran.err);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() == 4 && fields[0] == "check") equal(fields[1], fields[2], fields[3]);
  }
  return trained(name, ran);
}

json::Value Workbench::plan(const Words& settings) {
  const Ran ran = run(with({"plan", "recipe.yaml", "--json"}, settings));
  if (ran.exit_code != 0) equal("plan", error_line(ran.err), "a plan");
  return json::parse(ran.out);
}

std::vector<std::vector<int64_t>> Workbench::orders(const Words& settings, int epochs) {
  std::vector<std::vector<int64_t>> orders;
  const json::Value document = plan(with(settings, {"--batches", fmt::format("--epochs={}", epochs)}));
  for (const json::Value& epoch : list(at(document, {"epochs"}))) orders.push_back(global_order(epoch));
  return orders;
}

std::vector<double> Workbench::points(const std::string& name, const std::string& metric) {
  std::vector<double> values;
  const json::Value document = json::parse(run({"metrics", name, metric, "--json"}).out);
  for (const json::Value& point : list(at(document, {"points"}))) {
    if (list(point).size() == 2) values.push_back(number(list(point)[1]));
  }
  return values;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

void Workbench::equal(const std::string& what, const std::string& got, const std::string& expected) {
  checks.push_back({what, got, expected, got == expected});
}

void Workbench::equal(const std::string& what, int64_t got, int64_t expected) {
  equal(what, std::to_string(got), std::to_string(expected));
}

void Workbench::close(const std::string& what, const std::vector<double>& got, const std::vector<double>& expected,
                      double tolerance) {
  if (got.size() != expected.size() || expected.empty()) {
    const auto points = [](size_t count) { return count_text(static_cast<int64_t>(count), "number"); };
    checks.push_back({what, points(got.size()), points(std::max<size_t>(1, expected.size())), false});
    return;
  }
  double largest = 0, most = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  bool passed = true;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(got[i] - expected[i]);
    most = std::max(most, difference);
    passed &= difference <= tolerance * largest;  // false for NaN
  }
  checks.push_back({what, fmt::format("{} values, largest difference {:.2g}", got.size(), most),
                    fmt::format("{} values, largest difference at most {:.2g}", expected.size(), tolerance * largest),
                    passed});
}

void Workbench::at_least(const std::string& what, double got, double least) {
  checks.push_back({what, report::rounded_text(got), "at least " + report::rounded_text(least), got >= least});
}

void Workbench::at_most(const std::string& what, double got, double most) {
  checks.push_back({what, report::rounded_text(got), "at most " + report::rounded_text(most), got <= most});
}

void Workbench::refused(const std::string& what, const Ran& ran, int exit_code, const std::string& says) {
  const bool passed = ran.exit_code == exit_code && ran.err.find(says) != std::string::npos;
  checks.push_back({what, fmt::format("exit code {}: {}", ran.exit_code, error_line(ran.err)),
                    fmt::format("exit code {}: … {} …", exit_code, says), passed});
}

void Workbench::verify_resume(const std::string& what, const Words& settings) {
  const Ran ran = run(with({"verify-resume", "recipe.yaml", "--json", "--kills=3"}, settings));
  const json::Value document = json::parse(ran.out);
  const bool* exact = at(document, {"exact"}).boolean();
  equal(what, exact == nullptr ? ran.err : *exact ? "exact" : "not exact", "exact");
}

}  // namespace runner::cli::scenarios
