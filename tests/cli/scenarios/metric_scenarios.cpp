// Scenarios about metrics: each sample counts once for any number of processes, and points are written to all outputs.
#include <algorithm>

#include <fmt/format.h>

#include "runner/cli/scenarios/document.h"
#include "tests/cli/scenarios/more_scenarios.h"

namespace runner::cli::scenarios {
namespace {

// Counts the samples that gather_for_metrics returns for each loader.
constexpr const char* kCount = R"(
return {train = function(acc)
  for _, loader in ipairs{"train", "eval"} do
    local count, ids = 0, {}
    for batch in acc:batches(loader) do
      for _, id in ipairs(acc:gather_for_metrics(batch.ids):tolist()) do
        count = count + 1
        ids[id] = true
      end
      if loader == "train" then
        acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels))
        acc.optimizer:step()
        acc.optimizer:zero_grad()
      end
    end
    local once = 0
    for _ in pairs(ids) do once = once + 1 end
    check(acc, loader .. acc.vars.what, count .. " samples, " .. once .. " of them once",
           acc.vars[loader] .. " samples, " .. acc.vars[loader] .. " of them once")
  end
end})";

void count_samples(Workbench& bench, int p, int64_t train, int64_t eval, const Words& settings, int64_t expected) {
  Words all{
      processes(p),
      fmt::format("data.train.samples={}", train),
      fmt::format("data.eval.samples={}", eval),
      "train.epochs=1",
      "data.batch_size=16",
      fmt::format("vars={{train: {}, eval: {}, what: ', P={} {}'}}", expected, eval, p, fmt::join(settings, " "))};
  bench.train_with_hook("count", kCount, with(std::move(all), settings));
}

void counts(Workbench& bench) {
  for (const int p : {2, 3}) {
    for (const char* split : {"split_batches=false", "split_batches=true"}) {
      for (const char* dispatch : {"data.dispatch_batches=false", "data.dispatch_batches=true"})
        count_samples(bench, p, 99, 99, {split, dispatch}, 99);
    }
  }
  count_samples(bench, 2, 512, 22, {}, 512);
  count_samples(bench, 2, 99, 99, {"data.drop_last=true"}, 96);
  count_samples(bench, 3, 99, 99, {"data.even_batches=false"}, 99);
}

void streamed_metrics(Workbench& bench) {
  std::string csv = "x,label\n";
  for (int i = 0; i < 30; ++i) csv += fmt::format("{},{}\n", i, i % 3);
  bench.write("data.csv", csv);
  bench.write("recipe.yaml", R"(schema_version: 1
model: {type: linear}
data:
  train: {format: csv, path: data.csv, label: label}
  eval: {format: csv, path: data.csv, label: label}
  batch_size: 4
  stream: true
optimizer: {type: sgd, lr: 0.001}
train: {epochs: 1}
)");
  for (const int p : {2, 3}) {
    bench.train_with_hook("stream", kCount,
                          {processes(p), fmt::format("vars={{train: 30, eval: 30, what: ', P={}'}}", p)});
  }
}

int64_t lines_of(const Ran& ran) {
  return std::count(ran.out.begin(), ran.out.end(), '\n');
}

void trackers(Workbench& bench) {
  bench.train_with_hook("tracked", R"(
local started, points, values = 0, 0, 0
return {
  trackers = {{
    start = function(self, acc) started = started + 1 end,
    log = function(self, acc, values_of_step, step)
      points = points + 1
      for _, value in pairs(values_of_step) do values = values + (math.type(value) and 1 or 0) end
    end,
    finish = function(self, acc, status)
      check(acc, "started", started, 1)
      check(acc, "steps with points", points, 10)
      check(acc, "numbers in them", values >= 30, true)
      check(acc, "status at the end", status, "done")
    end,
  }},
})",
                        {processes(2), "data.train.samples=80", "log.jsonl=points.jsonl", "log.csv=points.csv",
                         "log.tensorboard=events"});
  const auto points = lines_of(bench.run({"sql", "SELECT step FROM points", "--format", "csv"})) - 1;
  bench.equal("lines of log.jsonl", bench.lines("points.jsonl"), points);
  bench.equal("lines of log.csv without the header", bench.lines("points.csv") - 1, points);
  bench.equal("log.tensorboard", bench.has("events") ? "there" : "missing", "there");
}

constexpr Scenario kMetricScenarios[] = {
    {"metrics/counts", "16, 45", "gather_for_metrics returns every sample once, however it was read", counts},
    {"metrics/streams", "45, gap", "gather_for_metrics returns every sample of a stream once", streamed_metrics},
    {"logs/trackers", "56", "points are written to trackers, JSON lines, CSV and TensorBoard", trackers},
};

}  // namespace

std::span<const Scenario> metric_scenarios() {
  return kMetricScenarios;
}

}  // namespace runner::cli::scenarios
