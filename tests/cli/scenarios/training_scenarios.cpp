// Scenarios about training: several processes, gradient accumulation and half precision give the same results as one
// process.
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "runner/cli/scenarios/document.h"
#include "tests/cli/scenarios/more_scenarios.h"

namespace runner::cli::scenarios {
namespace {

// ---- data-parallel training -----------------------------------------------------------------------------------------

void regression(Workbench& bench) {
  // y = 2 x + 3, with noise of ±0.1.
  std::string csv = "x,y\n";
  for (int i = 0; i < 64; ++i) {
    const double x = i / 16.0 - 2;
    csv += fmt::format("{},{}\n", x, 2 * x + 3 + 0.1 * std::sin(i * 7.0));
  }
  bench.write("line.csv", csv);
  bench.write("recipe.yaml", R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: line.csv, label: y}}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 3}
log: {every: 1 step}
)");
  bench.train("one", global_batch(16, 1));
  const json::Value document = bench.train("two", global_batch(16, 2));
  bench.close("train/loss", bench.points("two", "train/loss"), bench.points("one", "train/loss"), kRounding);
  const json::Value& loss = at(document, {"metrics", "train/loss", "last"});
  bench.at_most("the last loss", number(loss), 0.2);
}

void precisions(Workbench& bench) {
  bench.train("no", global_batch(24, 2));
  for (const std::string precision : {"bf16", "fp16"}) {
    bench.train(precision, with(global_batch(24, 2), {"mixed_precision=" + precision}));
    bench.close(precision + ": train/loss", bench.points(precision, "train/loss"), bench.points("no", "train/loss"),
                0.02);
  }
}

void accuracy(Workbench& bench) {
  const json::Value document =
      bench.train("learns", {processes(2), "data.train.samples=600", "data.eval.samples=200",
                             "data.train.features=[16]", "data.eval.features=[16]", "model.hidden=[32]",
                             "train.epochs=8", "optimizer={type: adamw, lr: 0.02}", "log.every=20 steps"});
  bench.at_least("eval/accuracy", number(at(document, {"metrics", "eval/accuracy", "last"})), 0.9);
}

void comm_hooks(Workbench& bench) {
  const Words base = with(global_batch(24, 3), {"train.clip_grad_norm=100"});
  bench.train("plain", base);
  for (const std::string hook : {"fp16", "bf16"}) {
    bench.train(hook, with(base, {"comm.hook=" + hook}));
    bench.close(hook + ": train/grad_norm", bench.points(hook, "train/grad_norm"),
                bench.points("plain", "train/grad_norm"), 1e-2);
  }
}

// ---- gradient accumulation ------------------------------------------------------------------------------------------

// Trains with a custom loop in Lua that executes `body` for each batch.
void loop(Workbench& bench, const char* name, std::string_view before, std::string_view body, std::string_view after,
          const Words& settings) {
  bench.train_with_hook(name,
                        fmt::format(R"(
return {{train = function(acc)
  {}
  for epoch in acc:epochs() do
    local index = 0
    for batch in acc:batches("train") do
      {}
      index = index + 1
    end
  end
  {}
end}})",
                                    before, body, after),
                        settings);
}

constexpr const char* kStep = R"(
      acc:accumulate(function()
        acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels))
        if acc.sync_gradients then seen[#seen + 1] = index end
        acc.optimizer:step()
        acc.scheduler:step()
        acc.optimizer:zero_grad()
      end))";

void sync(Workbench& bench) {
  for (const char* split : {"split_batches=false", "split_batches=true"}) {
    for (const char* dispatch : {"data.dispatch_batches=false", "data.dispatch_batches=true"}) {
      const bool is_split = std::string_view(split).ends_with("true");
      loop(bench, "sync", "local seen = {}", kStep,
           fmt::format("check(acc, 'batches that end a step, {} {}', table.concat(seen, ' '), '{}')", split, dispatch,
                       is_split ? "1 3 4" : "1 2"),
           {processes(2), "data.train.samples=80", "data.batch_size=16", "gradient_accumulation_steps=2", split,
            dispatch, "train.epochs=1"});
    }
  }
}

void local_gradients(Workbench& bench) {
  const Words settings = global_batch(24, 2, 2);
  bench.train("plain", settings);
  loop(bench, "local", "", R"(
      local function backward()
        acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels, {reduction = "none"}))
      end
      acc:accumulate(function()
        if acc.sync_gradients then backward() else acc:no_sync(backward) end
        acc.optimizer:step()
        acc.optimizer:zero_grad()
      end))",
       "", settings);
  bench.close("train/loss", bench.points("local", "train/loss"), bench.points("plain", "train/loss"), kRounding);
}

void several_passes(Workbench& bench) {
  const Words settings = global_batch(24, 2);
  bench.train("plain", settings);
  loop(bench, "passes", "", R"(
      local first = nn.cross_entropy(acc.model(batch.features), batch.labels, {reduction = "none"})
      local second = nn.cross_entropy(acc.model(batch.features), batch.labels, {reduction = "none"})
      acc:backward(first * 0.25)
      acc:backward(second * 0.75)
      acc.optimizer:step()
      acc.optimizer:zero_grad())",
       "", settings);
  bench.close("train/loss", bench.points("passes", "train/loss"), bench.points("plain", "train/loss"), kRounding);
}

void nested_loops(Workbench& bench) {
  loop(bench, "nested", "local seen, inner = {}, 0",
       fmt::format(R"({}
      if index == 0 then
        for eval in acc:batches("eval") do inner = inner + 1 end
      end)",
                   kStep),
       R"(
  check(acc, "batches of the inner loop", inner, 6)
  check(acc, "batches that end a step", table.concat(seen, " "), "1 3 4 1 3 4"))",
       {processes(2), "data.train.samples=80", "data.batch_size=8", "gradient_accumulation_steps=2",
        "data.eval.samples=33"});
}

void other_length(Workbench& bench) {
  loop(bench, "length", "local seen = {}",
       fmt::format("{}\n      if epoch == 1 then acc.gradient_accumulation_steps = 3 end", kStep),
       R"(
  check(acc, "batches that end a step", table.concat(seen, " "), "1 4 2 4"))",
       {processes(2), "data.train.samples=80", "data.batch_size=8", "gradient_accumulation_steps=2"});
}

// ---- scaler ---------------------------------------------------------------------------------------------------------

// PyTorch's rule: the scale is halved after a skipped step, and doubled after `interval` consecutive good steps.
std::vector<double> scales_of(const std::vector<double>& skipped, double scale, int interval) {
  std::vector<double> scales;
  int good = 0;
  for (const double skip : skipped) {
    good = skip > 0 ? 0 : good + 1;
    if (skip > 0) scale /= 2;
    if (good == interval) {
      scale *= 2;
      good = 0;
    }
    scales.push_back(scale);
  }
  return scales;
}

void scaler(Workbench& bench) {
  loop(bench, "scaler", "", R"(
      acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels))
      acc.optimizer:step()
      acc.optimizer:zero_grad()
      acc:log{skipped = acc.optimizer_step_was_skipped and 1 or 0})",
       "", {processes(2), "mixed_precision=fp16", "scaler={init_scale: 16777216, growth_interval: 3}"});
  const std::vector<double> skipped = bench.points("scaler", "skipped");
  double count = 0;
  for (const double skip : skipped) count += skip;
  bench.at_least("steps skipped", count, 3);
  bench.at_least("steps made", static_cast<double>(skipped.size()) - count, 3);
  bench.close("train/scale", bench.points("scaler", "train/scale"), scales_of(skipped, 16777216, 3), 0);
}

constexpr Scenario kTrainingScenarios[] = {
    {"training/regression", "31", "linear regression finds the line, with two processes as with one", regression},
    {"training/precision", "31", "bf16 and fp16 train nearly like float32", precisions},
    {"training/accuracy", "32", "a small classification task is learned", accuracy},
    {"training/comm_hooks", "33", "gradients reduced in half precision are nearly the same", comm_hooks},
    {"accumulation/no_sync", "34", "gradients stay local until the last micro-batch of a step", local_gradients},
    {"accumulation/passes", "35", "several backward passes and one all-reduce", several_passes},
    {"accumulation/sync", "36", "an optimizer step follows every K-th and the last batch", sync},
    {"accumulation/nested", "38", "a nested loop leaves the outer loop unchanged", nested_loops},
    {"accumulation/length", "28", "a new K set during training applies from the next optimizer step", other_length},
    {"scaler/skips", "40, 43", "overflowing steps are skipped; the scale follows PyTorch's rule", scaler},
};

}  // namespace

std::span<const Scenario> training_scenarios() {
  return kTrainingScenarios;
}

}  // namespace runner::cli::scenarios
