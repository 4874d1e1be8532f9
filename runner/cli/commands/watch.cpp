// Command watch: reads the store like any other reader; Ctrl-C ends watching, not the run.
#include <algorithm>
#include <chrono>
#include <thread>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/plot.h"
#include "runner/report/run_text.h"
#include "schema/base/duration.h"
#include "store/state_store.h"

namespace runner::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(500);  // interval between reads of the store
constexpr auto kLine = std::chrono::seconds(5);         // interval between lines if nothing can be redrawn
constexpr int kPlotHeight = 8;

struct Look {
  store::RunRow run;
  std::vector<store::MetricSummary> metrics;

  int64_t step() const {
    int64_t step = 0;
    for (const store::MetricSummary& metric : metrics) step = std::max(step, metric.last_step);
    return step;
  }
  bool over() const { return run.status != store::RunStatus::kRunning; }
};

// Finds the run by its id, because a name or @last can refer to another run later.
Look look_at(store::Store& store, const std::string& uid) {
  Look look{store::find_run(store, uid, store::Trash::kIncluded), {}};
  look.metrics = store::list_metrics(store, look.run.id);
  return look;
}

std::string line_of(const Look& look) {
  std::string line = fmt::format("run {}  {}  {}", look.run.uid, store::to_string(look.run.status),
                                 report::steps_text(look.run, look.step()));
  for (const store::MetricSummary& metric : look.metrics) {
    if (metric.name == "train/lr") continue;
    line += fmt::format("  {} {}", metric.name, report::rounded_text(metric.last));
  }
  return report::on_one_line(line) + '\n';
}

// Progress, newest metrics and a small plot of the loss.
std::string screen_of(store::Store& store, const Look& look, int width, bool color) {
  std::string text =
      fmt::format("run {}  {}  {}  {}  {}\n", report::on_one_line(look.run.uid), report::on_one_line(look.run.name),
                  store::to_string(look.run.status), report::steps_text(look.run, look.step()),
                  duration_text(static_cast<double>(look.run.heartbeat_ms - look.run.started_ms) / 1000));
  if (look.metrics.empty()) return text + "no metrics yet\n";
  text += report::metrics_table(look.metrics).render(width, color);
  const auto loss = std::find_if(look.metrics.begin(), look.metrics.end(),
                                 [](const store::MetricSummary& m) { return m.name == "train/loss"; });
  if (loss == look.metrics.end()) return text;
  report::Curve curve{"", {}};
  for (const store::Point& point : store::metric_points(store, look.run, loss->name)) {
    curve.points.push_back({static_cast<double>(point.step), point.value});
  }
  return text + report::plot_text(
                    std::span(&curve, 1),
                    {.title = loss->name, .x_label = "step", .width = width, .height = kPlotHeight, .color = color});
}

int exit_code_of(store::Store& store, const Look& look, const Options& options, report::Output& out) {
  if (look.run.status == store::RunStatus::kCrashed) {
    const bool has_state = !store::list_states(store, look.run.id, /*for_resume=*/true).empty();
    out.say(with_store_option(fmt::format("run {0} has crashed: its process no longer exists; {1}", look.run.uid,
                                          has_state ? fmt::format("`runner resume {}` continues it", look.run.uid)
                                                    : "it has no state to resume from"),
                              options));
    return exit_code(ErrorKind::kRun);
  }
  return look.run.exit_code.value_or(0);
}

std::string run_id(const RunOptions& options) {
  store::Store store = open_store(options);
  return store::find_run(store, options.run).uid;
}

int watch(const RunOptions& options, report::Output& out) {
  const std::string uid = run_id(options);
  Clock::time_point next_line{};
  int drawn = 0;  // number of lines on the terminal that the next update replaces
  for (;; std::this_thread::sleep_for(kLook)) {
    store::Store store = open_store(options);  // only while it is read: on a network file system it is locked
    const Look look = look_at(store, uid);
    if (out.live() && !options.json) {
      const int width = out.talk_width();
      const std::string screen =
          report::cut_to_screen(screen_of(store, look, width, out.talk_color()), width, out.talk_height());
      out.redraw(drawn, screen);
      drawn = static_cast<int>(std::count(screen.begin(), screen.end(), '\n'));
    } else if (!look.over() && Clock::now() >= next_line) {
      out.talk(line_of(look));
      next_line = Clock::now() + kLine;
    }
    if (!look.over()) continue;
    if (options.json) {
      out.data(look.run.summary_json.empty() ? report::show_document(store::show_run(store, look.run))
                                             : look.run.summary_json);
    } else if (!out.live()) {
      out.data(line_of(look));
    }
    return exit_code_of(store, look, options, out);
  }
}

}  // namespace

const Command kWatchCommand{
    .name = "watch",
    .group = Group::kStore,
    .summary = "follow a run until it ends, and exit with its exit code",
    .details =
        "Shows the step and the number of steps, the time left at the rate so far, the newest metrics and a\n"
        "small plot: redrawn twice a second on a terminal, else a line every five seconds.  A crashed run gives\n"
        "exit code 1.  Ctrl-C stops watching, not the run.",
    .arguments = kRunArguments,
    .examples = "runner watch @last",
    .other_names = "tail",
    .has_json = true,
    .action = action<watch>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
