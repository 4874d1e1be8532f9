// Scenarios about the assignment of samples to processes.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "runner/cli/scenarios/document.h"
#include "tests/cli/scenarios/more_scenarios.h"

namespace runner::cli::scenarios {
namespace {

// ---- batches of Accelerate's prepared loaders -----------------------------------------------------------------------

constexpr const char* kWhole = "";
constexpr const char* kWholeUneven = "data.even_batches=false";
constexpr const char* kWholeDropped = "data.drop_last=true";
constexpr const char* kSplit = "split_batches=true";
constexpr const char* kSplitUneven = "split_batches=true data.even_batches=false";
constexpr const char* kSplitDropped = "split_batches=true data.drop_last=true";
constexpr const char* kDispatched = "data.dispatch_batches=true";
constexpr const char* kDispatchedSplit = "data.dispatch_batches=true split_batches=true";
constexpr const char* kDispatchedDropped = "data.dispatch_batches=true data.drop_last=true";

struct Batches {
  const char* settings;
  int processes, batch_size, samples;
  const char* expected;  // in the format of batches_text()
};

// Results of Accelerate 1.15 (tests/golden/data_plan.py generates many more).
constexpr Batches kSharded[] = {
    {kWhole, 2, 3, 1, "0,0,0 | 0,0,0"},
    {kWhole, 2, 3, 2, "0-1,0 | 1,0-1"},
    {kWhole, 2, 3, 6, "0-2 | 3-5"},
    {kWhole, 2, 3, 7, "0-2 6,0-1 | 3-5 2-4"},
    {kWhole, 2, 3, 9, "0-2 6-8 | 3-5 0-2"},
    {kWhole, 2, 3, 11, "0-2 6-8 | 3-5 9-10,0"},
    {kWhole, 3, 4, 11, "0-3 | 4-7 | 8-10,0"},
    {kWhole, 3, 4, 13, "0-3 12,0-2 | 4-7 3-6 | 8-11 7-10"},
    {kWhole, 3, 4, 23, "0-3 12-15 | 4-7 16-19 | 8-11 20-22,0"},
    {kWholeUneven, 2, 3, 1, "0 | none"},
    {kWholeUneven, 2, 3, 2, "0-1 | none"},
    {kWholeUneven, 2, 3, 6, "0-2 | 3-5"},
    {kWholeUneven, 2, 3, 7, "0-2 6 | 3-5"},
    {kWholeUneven, 2, 3, 9, "0-2 6-8 | 3-5"},
    {kWholeUneven, 2, 3, 11, "0-2 6-8 | 3-5 9-10"},
    {kWholeUneven, 3, 4, 11, "0-3 | 4-7 | 8-10"},
    {kWholeUneven, 3, 4, 13, "0-3 12 | 4-7 | 8-11"},
    {kWholeUneven, 3, 4, 23, "0-3 12-15 | 4-7 16-19 | 8-11 20-22"},
    {kWholeDropped, 2, 3, 6, "0-2 | 3-5"},
    {kWholeDropped, 2, 3, 7, "0-2 | 3-5"},
    {kWholeDropped, 2, 3, 9, "0-2 | 3-5"},
    {kWholeDropped, 2, 3, 11, "0-2 | 3-5"},
    {kWholeDropped, 3, 4, 13, "0-3 | 4-7 | 8-11"},
    {kWholeDropped, 3, 4, 23, "0-3 | 4-7 | 8-11"},
    {kSplit, 2, 4, 1, "0,0 | 0,0"},
    {kSplit, 2, 4, 2, "0-1 | 0-1"},
    {kSplit, 2, 4, 3, "0-1 | 2,0"},
    {kSplit, 2, 4, 8, "0-1 4-5 | 2-3 6-7"},
    {kSplit, 2, 4, 5, "0-1 4,0 | 2-3 1-2"},
    {kSplit, 2, 4, 7, "0-1 4-5 | 2-3 6,0"},
    {kSplit, 3, 6, 5, "0-1 | 2-3 | 4,0"},
    {kSplit, 3, 6, 7, "0-1 6,0 | 2-3 1-2 | 4-5 3-4"},
    {kSplit, 3, 6, 11, "0-1 6-7 | 2-3 8-9 | 4-5 10,0"},
    {kSplitUneven, 2, 4, 1, "0 | none"},
    {kSplitUneven, 2, 4, 2, "0-1 | none"},
    {kSplitUneven, 2, 4, 3, "0-1 | 2"},
    {kSplitUneven, 2, 4, 8, "0-1 4-5 | 2-3 6-7"},
    {kSplitUneven, 2, 4, 5, "0-1 4 | 2-3"},
    {kSplitUneven, 2, 4, 7, "0-1 4-5 | 2-3 6"},
    {kSplitUneven, 3, 6, 5, "0-1 | 2-3 | 4"},
    {kSplitUneven, 3, 6, 7, "0-1 6 | 2-3 | 4-5"},
    {kSplitUneven, 3, 6, 11, "0-1 6-7 | 2-3 8-9 | 4-5 10"},
    {kSplitDropped, 2, 4, 8, "0-1 4-5 | 2-3 6-7"},
    {kSplitDropped, 2, 4, 5, "0-1 | 2-3"},
    {kSplitDropped, 2, 4, 7, "0-1 | 2-3"},
    {kSplitDropped, 3, 6, 7, "0-1 | 2-3 | 4-5"},
    {kSplitDropped, 3, 6, 11, "0-1 | 2-3 | 4-5"},
};
constexpr Batches kDispatchedBatches[] = {
    {kDispatched, 2, 3, 2, "0 | 1"},
    {kDispatched, 2, 3, 7, "0-2 6 | 3-5 0"},
    {kDispatched, 2, 3, 9, "0-2 6-7 | 3-5 8,0"},
    {kDispatched, 2, 3, 11, "0-2 6-8 | 3-5 9-10,0"},
    {kDispatched, 3, 4, 13, "0-3 12 | 4-7 0 | 8-11 1"},
    {kDispatchedSplit, 2, 4, 2, "0 | 1"},
    {kDispatchedSplit, 2, 4, 5, "0-1 4 | 2-3 0"},
    {kDispatchedSplit, 2, 4, 7, "0-1 4-5 | 2-3 6,0"},
    {kDispatchedSplit, 3, 6, 7, "0-1 6 | 2-3 0 | 4-5 1"},
    {kDispatchedDropped, 2, 3, 7, "0-2 | 3-5"},
    {kDispatchedDropped, 2, 3, 11, "0-2 | 3-5"},
};

Words words_of(std::string_view settings) {
  Words words;
  while (!settings.empty()) {
    const size_t end = std::min(settings.find(' '), settings.size());
    words.emplace_back(settings.substr(0, end));
    settings.remove_prefix(std::min(end + 1, settings.size()));
  }
  return words;
}

void compare_batches(Workbench& bench, std::span<const Batches> cases) {
  for (const Batches& c : cases) {
    const Words settings = with(words_of(c.settings), {"data.shuffle=false", processes(c.processes),
                                                       batch_size(c.batch_size), samples(c.samples)});
    const json::Value plan = bench.plan(with(settings, {"--batches"}));
    bench.equal(fmt::format("P={}, B={}, N={} {}", c.processes, c.batch_size, c.samples, c.settings),
                batches_text(at(list(at(plan, {"epochs"})).at(0), {"batches"})), c.expected);
  }
}

void shards(Workbench& bench) {
  compare_batches(bench, kSharded);
}

void dispatched(Workbench& bench) {
  compare_batches(bench, kDispatchedBatches);
}

void refusals(Workbench& bench) {
  const auto refuse = [&](const char* what, const Words& settings, const char* says) {
    bench.refused(what, bench.run(with({"check", "recipe.yaml"}, settings)), 2, says);
  };
  refuse("batch of 0", {batch_size(0)}, "data.batch_size");
  refuse("strict split of 8 by 3", {"data.strict=true", "split_batches=true", processes(3)}, "strict");
  bench.refused("no batch", bench.run({"plan", "recipe.yaml", "data.drop_last=true", batch_size(8), samples(7)}), 2,
                "no batch");
}

void cover(Workbench& bench) {
  for (const char* settings : {kWhole, kSplit, kDispatched, kDispatchedSplit, kWholeUneven}) {
    for (const int p : {2, 3}) {
      for (const char* shuffle : {"data.shuffle=true", "data.shuffle=false"}) {
        const auto read = bench.orders(with(words_of(settings), {processes(p), shuffle}), 1).at(0);
        const std::set<int64_t> once(read.begin(), read.end());
        bench.equal(fmt::format("P={} {} {}", p, shuffle, settings),
                    fmt::format("{} samples, {} of them once", read.size(), once.size()),
                    "101 samples, 101 of them once");
      }
    }
  }
}

void join(Workbench& bench) {
  bench.train_with_hook("join", R"(
local function sizes(acc)
  local all = {}
  for batch in acc:batches("train") do
    acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels))
    acc.optimizer:step()
    acc.optimizer:zero_grad()
    all[#all + 1] = batch.mask:sum():item() .. " of " .. batch.size
  end
  return table.concat(acc:gather_object(table.concat(all, ", ")), " | ")
end
return {train = function(acc)
  for epoch in acc:epochs() do
    if epoch == 2 then
      local joined = acc:join({even_batches = false}, function() return sizes(acc) end)
      check(acc, "inside", joined, "4.0 of 4, 2.0 of 2 | 4.0 of 4, 0.0 of 1")
    else
      pcall(acc.join, acc, {even_batches = false}, error)
      check(acc, "epoch " .. epoch, sizes(acc), "4.0 of 4, 2.0 of 4 | 4.0 of 4, 0.0 of 4")
    end
  end
end})",
                        {processes(2), batch_size(4), samples(10), "train.epochs=3"});
}

void tiny(Workbench& bench) {
  for (const char* settings : {kWhole, kSplit, kDispatched, kWholeUneven}) {
    for (const int n : {1, 2, 4}) {
      const std::string name = fmt::format("{} samples for 3 processes {}", n, settings);
      const json::Value document =
          bench.train("tiny", with(words_of(settings), {processes(3), samples(n), "train.epochs=1"}));
      bench.equal(name, whole(at(document, {"samples"})), n);
    }
  }
}

void streams(Workbench& bench) {
  std::string csv = "x,y,label\n";
  for (int i = 0; i < 45; ++i) csv += fmt::format("{},{},{}\n", (i * 7) % 11, (i * 5) % 13, i % 3);
  bench.write("data.csv", csv);
  bench.write("recipe.yaml", R"(schema_version: 1
seed: 7
model: {type: linear}
data: {train: {format: csv, path: data.csv, label: label}, batch_size: 8, shuffle: false, dispatch_batches: true}
optimizer: {type: sgd, lr: 0.01}
train: {epochs: 2}
log: {every: 1 step}
num_processes: 2
)");
  bench.train("map", {});
  bench.train("stream", {"data.stream=true"});
  bench.close("train/loss of a stream and of a file in memory", bench.points("stream", "train/loss"),
              bench.points("map", "train/loss"), 0);
}

void ends(Workbench& bench) {
  bench.train_with_hook("ends", R"(
return {train = function(acc)
  local batches, ends = 0, {}
  for epoch in acc:epochs() do
    for batch in acc:batches("train") do
      acc:accumulate(function()
        acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels))
        acc.optimizer:step()
        acc.optimizer:zero_grad()
        batches = batches + 1
        if acc.sync_gradients then ends[#ends + 1] = batches end
      end)
    end
  end
  check(acc, "batches known to be the last while they are processed", table.concat(ends, " "), "4 8 12")
end})",
                        {processes(2), samples(50), "gradient_accumulation_steps=100", "train.epochs=3"});
}

constexpr Scenario kDataScenarios[] = {
    {"data/shards", "1", "batches of each process equal those of Accelerate's BatchSamplerShard", shards},
    {"data/dispatched", "14", "batches of each process equal those of Accelerate's DataLoaderDispatcher", dispatched},
    {"data/refusals", "3", "impossible batch sizes are rejected before data is read", refusals},
    {"data/streams", "4, 5", "training on a stream equals training on the same file in memory", streams},
    {"data/end", "8", "the last batch of every epoch is known while it is processed", ends},
    {"data/cover", "14", "every sample is used once per epoch, shuffled or not", cover},
    {"data/join", "15", "acc:join overrides even_batches for a part of a loop", join},
    {"data/tiny", "gap", "fewer samples than processes", tiny},
};

}  // namespace

std::span<const Scenario> data_scenarios() {
  return kDataScenarios;
}

}  // namespace runner::cli::scenarios
