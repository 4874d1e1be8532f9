// Scenarios about communication between processes, and about failures of a process.
#include <fmt/format.h>

#include "runner/cli/scenarios/document.h"
#include "tests/cli/scenarios/more_scenarios.h"

namespace runner::cli::scenarios {
namespace {

// Runs `body` once in each process, as the hook's on_run_begin.
void once(Workbench& bench, const char* name, std::string_view body) {
  bench.train_with_hook(name, fmt::format("return {{on_run_begin = function(acc)\n{}\nend}}", body), short_run());
}

void ranks(Workbench& bench) {
  once(bench, "ranks", R"(
local function all(value) return table.concat(acc:gather_object(tostring(value)), " ") end
local mains, seen = 0, acc.process_index
acc:on_main_process(function() mains = mains + 1 end)
check(acc, "process_index", all(acc.process_index), "0 1 2")
check(acc, "num_processes", all(acc.num_processes), "3 3 3")
check(acc, "is_main_process", all(acc.is_main_process), "true false false")
check(acc, "ran on_main_process", all(mains), "1 0 0")
check(acc, "unset on others", all(seen), "0 1 2"))");
}

void main_first(Workbench& bench) {
  once(bench, "first", R"(
local times, known = 0, nil
acc:main_process_first(function()
  times = times + 1
  known = acc.is_main_process
end)
check(acc, "each ran it once", table.concat(acc:gather(times), " "), "1 1 1")
acc:wait_for_everyone()
check(acc, "all have passed the barrier", acc:reduce(1), "3.0"))");
}

void splits(Workbench& bench) {
  for (const int p : {1, 2, 4, 8}) {
    bench.train_with_hook(fmt::format("split-{}", p), R"(
return {on_run_begin = function(acc)
  local items = {}
  for i = 1, 17 do items[i] = i end
  local mine = acc:split_between_processes(items, function(part) return part end)
  local sizes, all = {}, {}
  for _, part in ipairs(acc:gather_object(mine)) do
    sizes[#sizes + 1] = #part
    for _, item in ipairs(part) do all[#all + 1] = item end
  end
  local expected, most = {}, 17 // acc.num_processes
  for rank = 0, acc.num_processes - 1 do expected[#expected + 1] = most + (rank < 17 % acc.num_processes and 1 or 0) end
  check(acc, "parts of 17 for " .. acc.num_processes, table.concat(sizes, " "), table.concat(expected, " "))
  check(acc, "joined again", table.concat(all, " "), table.concat(items, " "))
end})",
                          with(short_run(), {processes(p)}));
  }
}

void collectives(Workbench& bench) {
  once(bench, "collectives", R"(
local rank = acc.process_index
local function text(list) return table.concat(list, " ") end
check(acc, "gather of numbers", text(acc:gather(rank)), "0 1 2")
check(acc, "gather of lists", text(acc:gather{rank, 10 * rank}), "0 0 1 10 2 20")
check(acc, "sum", acc:reduce(rank + 1), "6.0")
check(acc, "mean", acc:reduce(rank, "mean"), "1.0")
check(acc, "max", acc:reduce(rank, "max"), "2.0")
check(acc, "none", acc:reduce(7, "none"), "7")
check(acc, "broadcast", acc:broadcast("from " .. rank), "from 0")
check(acc, "known to one only", acc:broadcast(rank == 0 and {n = 5} or nil).n, "5")
local objects = acc:gather_object{rank = rank, name = "p" .. rank}
check(acc, "objects", objects[1].name .. objects[2].rank .. objects[3].name, "p01p2")
local mine = {}
for i = 1, rank + 1 do mine[i] = i end
check(acc, "padded", text(acc:gather(acc:pad_across_processes(mine, 9))), "1 9.0 9.0 1 2 9.0 1 2 3")
local nested = acc:gather{a = {rank}, b = rank * 2}
check(acc, "nested", text(nested.a) .. " / " .. text(nested.b), "0 1 2 / 0 2 4"))");
}

void tensors(Workbench& bench) {
  bench.train_with_hook("tensors", R"(
return {train = function(acc)
  for batch in acc:batches("train") do
    local rank = acc.process_index
    local x = nn.zeros(1, 2) + rank
    local function text(t) return table.concat(t:flatten():tolist(), " ") end
    check(acc, "gather", text(acc:gather(x)), "0.0 0.0 1.0 1.0 2.0 2.0")
    check(acc, "transposed", text(acc:gather(x:transpose(1, 2))), "0.0 0.0 1.0 1.0 2.0 2.0")
    check(acc, "sum", text(acc:reduce(x)), "3.0 3.0")
    check(acc, "mean", text(acc:reduce(x, "mean")), "1.0 1.0")
    check(acc, "broadcast", text(acc:broadcast(x + 7)), "7.0 7.0")
    check(acc, "padded", text(acc:gather(acc:pad_across_processes(nn.ones(rank + 1), 5))),
           "1.0 5.0 5.0 1.0 1.0 5.0 1.0 1.0 1.0")
    local fits, said = pcall(acc.reduce, acc, nn.ones(rank + 1))
    check(acc, "shapes that differ", not fits and said:match("rank 0 .*"),
           "rank 0 has (1) f32, rank 1 has (2) f32, rank 2 has (3) f32")
    acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels))
    acc.optimizer:step()
  end
end})",
                        short_run());
}

void random_numbers(Workbench& bench) {
  const char* const kHook = R"(
return {on_run_begin = function(acc)
  local all = acc:gather(math.random())
  check(acc, "math.random() of three processes", all[1] == all[2] and all[2] == all[3] and "equal" or "different",
         acc.vars.expected)
end})";
  bench.train_with_hook("alike", kHook, with(short_run(), {"vars.expected=equal"}));
  bench.train_with_hook("own", kHook, with(short_run(), {"vars.expected=different", "device_specific_seed=true"}));
}

// Summary of a trace: "cycles / steps of rank 0 / steps of rank 1".
std::string traced(const Workbench& bench, const std::string& run) {
  const std::string file = run + ".json";
  const json::Value wrote = json::parse(bench.run({"trace", run, "-o", file, "--json"}).out);
  const json::Value document = json::parse(bench.run({"trace", run}).out);
  int64_t steps[2] = {0, 0};
  for (const json::Value& event : list(at(document, {"traceEvents"})))
    if (const std::string* kind = at(event, {"cat"}).text(); kind != nullptr && *kind == "step")
      ++steps[whole(at(event, {"pid"})) == 1];
  return fmt::format("{} / {} / {}", whole(at(wrote, {"cycles"})), steps[0], steps[1]);
}

// Each run has fourteen steps.
void profiles(Workbench& bench) {
  const auto cycles = [&](const std::string& name, const std::string& profile, const std::string& expected) {
    bench.train(name, {processes(2), "profile={" + profile + "}"});
    bench.equal(profile, traced(bench, name), expected);
  };
  cycles("once", "active: 3, repeat: 1", "1 / 3 / 3");
  cycles("twice", "wait: 1, warmup: 1, active: 2, repeat: 2", "2 / 4 / 4");
  cycles("always", "wait: 2, active: 1", "4 / 4 / 4");
  cycles("late", "skip_first: 5, active: 4, repeat: 1", "1 / 4 / 4");
  cycles("cut", "skip_first: 10, active: 3", "2 / 4 / 4");
}

constexpr Scenario kProcessScenarios[] = {
    {"process/first", "18", "the main process runs first, then the others, each once", main_first},
    {"process/ranks", "19", "each process knows its rank, and some work runs on one process only", ranks},
    {"process/split", "20", "lists are split into parts that differ by at most one item, and joined again", splits},
    {"process/random", "21", "random numbers are equal in all processes, or different in each", random_numbers},
    {"process/objects", "23, 26", "gather, reduce, broadcast and pad of numbers, lists and tables", collectives},
    {"process/tensors", "23, 24, 25",
     "gather, reduce, broadcast and pad of tensors; errors name the shape of each rank", tensors},
    {"profile/cycles", "44", "steps are traced in cycles, in all processes", profiles},
};

}  // namespace

std::span<const Scenario> process_scenarios() {
  return kProcessScenarios;
}

}  // namespace runner::cli::scenarios
