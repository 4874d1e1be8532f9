#include "runner/cli/scenarios/scenario.h"

#include <array>
#include <chrono>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include <fmt/format.h>

#include "runner/cli/scenarios/document.h"
#include "runner/cli/scratch_folder.h"

namespace runner::cli::scenarios {
namespace {

// Defaults: one process on the TPU if a scenario does not set a number, and arithmetic with the same bits as the CPU.
const std::array<Backend, 3> kBackends{{{"cpu", {"backend=cpu"}},
                                        {"gpu", {"backend=gpu"}},
                                        {"tpu", {"backend=tpu", "num_processes=1"}, {"tpu.matmul_precision=highest"}}}};

// ---- data -----------------------------------------------------------------------------------------------------------

void order(Workbench& bench) {
  const auto first = bench.orders({}, 3);
  const auto differ = [](bool yes) { return std::string(yes ? "another order" : "the same order"); };
  bench.equal("once more", differ(bench.orders({}, 3) != first), "the same order");
  for (const int p : {2, 3, 5}) {
    bench.equal(fmt::format("by {} processes", p), differ(bench.orders({processes(p)}, 3) != first), "the same order");
  }
  bench.equal("in the second epoch", differ(first.at(1) != first.at(0)), "another order");
  bench.equal("in the third epoch", differ(first.at(2) != first.at(1)), "another order");
  bench.equal("with data.seed=8", differ(bench.orders({"data.seed=8"}, 3) != first), "another order");
  bench.equal("seed 8, epoch 0", differ(bench.orders({"data.seed=8"}, 1).at(0) != first.at(1)), "another order");
}

void uneven(Workbench& bench) {
  const Words settings{processes(2), "data.even_batches=false", batch_size(4), samples(10)};
  const json::Value plan = bench.plan(with(settings, {"data.shuffle=false", "--batches"}));
  bench.equal("batches", batches_text(at(list(at(plan, {"epochs"})).at(0), {"batches"})), "0-3 8-9 | 4-7");
  bench.equal("samples trained on", whole(at(bench.train("uneven", settings), {"samples"})), 20);
}

// ---- processes ------------------------------------------------------------------------------------------------------

void triggers(Workbench& bench) {
  bench.train_with_hook("trigger", R"(
return {train = function(acc)
  for batch in acc:batches("train") do
    local before = acc:check_trigger()
    if acc.process_index == 1 then acc:set_trigger() end
    local function all(value) return table.concat(acc:gather_object(tostring(value)), " ") end
    check(acc, "before", all(before), "false false false")
    check(acc, "set by one", all(acc:check_trigger()), "true true true")
    check(acc, "checked again", all(acc:check_trigger()), "false false false")
    acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels))
    acc.optimizer:step()
  end
end})",
                        short_run());
}

// Expects that the run ends within seconds with exit code 1 and a message that contains `says`.
void fails(Workbench& bench, const char* what, std::string_view body, const char* says) {
  bench.write("fails.lua", fmt::format("return {{on_step_end = function(acc)\n{}\nend}}", body));
  const Ran ran = bench.run(with({"exec", "recipe.yaml", "--quiet", "hooks=fails.lua"}, short_run()));
  bench.refused(what, ran, 1, says);
  bench.at_most(fmt::format("{}: seconds", what), ran.seconds, 5);
}

void failures(Workbench& bench) {
  fails(bench, "an error in one process", "if acc.process_index == 1 then error('boom') end",
        "rank 1, after 1 step: boom");
  fails(bench, "an error in main_process_first",
        "acc:main_process_first(function() if acc.is_main_process then error('boom') end end)", "boom");
  fails(bench, "different collectives", "if acc.process_index == 2 then acc:gather(1) else acc:reduce(1) end",
        "ranks called different collectives");
}

// ---- data-parallel training and gradient accumulation ---------------------------------------------------------------

constexpr std::array kMetrics{"train/loss", "train/lr", "train/grad_norm", "eval/loss", "eval/accuracy"};

// Expects that two trainings have the same points of every metric, within `tolerance`.
void same(Workbench& bench, const std::string& what, const Words& a, const Words& b, double tolerance) {
  const Words clipped{"train.clip_grad_norm=100"};
  bench.train("a", with(clipped, a));
  bench.train("b", with(clipped, b));
  for (const char* metric : kMetrics)
    bench.close(fmt::format("{}: {}", what, metric), bench.points("b", metric), bench.points("a", metric), tolerance);
}

void several_ranks(Workbench& bench) {
  for (const int p : {2, 3, 4}) {
    same(bench, fmt::format("{} processes", p), global_batch(24, 1), global_batch(24, p), kRounding);
  }
  same(bench, "4 processes, a batch of 24 split", global_batch(24, 1),
       {processes(4), "split_batches=true", "data.batch_size=24"}, kRounding);
  same(bench, "3 processes, a batch of 8 split in uneven shares", global_batch(8, 1),
       {processes(3), "split_batches=true", "data.batch_size=8"}, kRounding);
}

void accumulated_steps(Workbench& bench) {
  for (const int p : {1, 2, 3}) {
    for (const int64_t k : {2, 4}) {
      same(bench, fmt::format("P={}, K={}", p, k), global_batch(24, 1), global_batch(24, p, k), kRounding);
    }
  }
}

// ---- schedules ------------------------------------------------------------------------------------------------------

constexpr int kSteps = 12;
constexpr double kRate = 0.1;

// Returns the learning rates of a run of kSteps optimizer steps.
std::vector<double> rates(Workbench& bench, const std::string& name, const std::string& scheduler, int p, int64_t k) {
  bench.train(name, with(global_batch(24, p, k),
                         {"scheduler=" + scheduler, "train.epochs=null", fmt::format("train.steps={}", kSteps)}));
  return bench.points(name, "train/lr");
}

template <class Factor>
std::vector<double> expected_rates(Factor factor) {
  std::vector<double> rates;
  for (int step = 0; step < kSteps; ++step) rates.push_back(kRate * factor(step));
  return rates;
}

void linear_schedule(Workbench& bench) {
  const auto expected = expected_rates([](int step) { return 1.0 - static_cast<double>(step) / kSteps; });
  for (const int p : {1, 2}) {
    for (const int64_t k : {1, 2, 4}) {
      bench.close(fmt::format("P={}, K={}: 0 after the last step", p, k),
                  rates(bench, "linear", "{type: linear}", p, k), expected, kRounding);
    }
  }
}

void other_schedules(Workbench& bench) {
  const auto cosine = expected_rates([](int step) {
    return step < 3 ? step / 3.0 : 0.5 * (1 + std::cos(std::numbers::pi * (step - 3) / (kSteps - 3)));
  });
  bench.close("cosine after a warm-up of 3 steps, P=2, K=2",
              rates(bench, "cosine", "{type: cosine, warmup: 3 steps}", 2, 2), cosine, kRounding);
  const auto upstream = expected_rates([](int step) { return 1.0 - 2.0 * step / 40; });
  bench.close("compat: accelerate, two scheduler steps per optimizer step, P=2",
              rates(bench, "compat", "{type: linear, length: 40 steps, compat: accelerate}", 2, 1), upstream,
              kRounding);
}

// ---- metrics and messages -------------------------------------------------------------------------------------------

void evaluations(Workbench& bench) {
  const Words settings{"eval.metrics=[loss, accuracy, f1_macro]", "data.batch_size=24", "split_batches=true",
                       "data.eval.samples=101"};
  bench.train("one", settings);
  for (const int p : {2, 3, 4}) {
    bench.train("several", with(settings, {processes(p)}));
    for (const char* metric : {"eval/accuracy", "eval/f1_macro"})
      bench.close(fmt::format("P={}: {}", p, metric), bench.points("several", metric), bench.points("one", metric), 0);
    bench.close(fmt::format("P={}: eval/loss", p), bench.points("several", "eval/loss"),
                bench.points("one", "eval/loss"), 1e-6);
  }
}

void messages(Workbench& bench) {
  bench.write("wrong.lua", "return {\n  on_step_end = function(acc)\n    error('line 3')\n  end,\n}\n");
  const Ran ran = bench.run({"exec", "recipe.yaml", "--json", "--quiet", "hooks=wrong.lua", processes(2)});
  const json::Value document = json::parse(ran.out);
  bench.equal("exit code", ran.exit_code, 1);
  bench.equal("line", whole(at(document, {"error", "line"})), 3);
  const std::string* file = at(document, {"error", "file"}).text();
  bench.equal("file", file != nullptr && file->ends_with("wrong.lua") ? "wrong.lua" : "another", "wrong.lua");
}

// ---- resuming -------------------------------------------------------------------------------------------------------

void resumes(Workbench& bench) {
  bench.verify_resume("1 process", rich_training());
  bench.verify_resume("3 processes", with(rich_training(), {processes(3)}));
  bench.verify_resume("2 processes in fp16", with(rich_training(), {processes(2), "mixed_precision=fp16"}));
}

constexpr Scenario kScenarios[] = {
    {"data/order", "6, 17", "the sample order depends only on seed and epoch, for any P", order},
    {"data/uneven", "15", "processes may have different numbers of batches", uneven},
    {"process/trigger", "22", "a trigger set by one process is seen by all, once", triggers},
    {"process/failures", "60, gap", "an error in one process ends the run within seconds and names the place",
     failures},
    {"training/ranks", "31", "2, 3 and 4 processes train like one with the same global batch", several_ranks},
    {"accumulation/steps", "36, 37, gap", "an accumulated step equals one large batch, also for a short last step",
     accumulated_steps},
    {"schedule/linear", "42", "the learning rate is 0 after the last step, for any P and K", linear_schedule},
    {"schedule/formulas", "41", "learning rates follow their formulas, and Accelerate's with compat: accelerate",
     other_schedules},
    {"metrics/evaluation", "46", "accuracy and F1 are bit-identical for one and several processes", evaluations},
    {"logs/lines", "57", "an error message gives the line in the hook", messages},
    {"state/resume", "12, 39, 47, 48, 54, gap",
     "killed and resumed training equals uninterrupted training, bit for bit", resumes},
};

}  // namespace

std::span<const Scenario> selftest_scenarios() {
  return kScenarios;
}

std::span<const Backend> backends() {
  return kBackends;
}

report::ScenarioResult run(const Scenario& scenario, const std::filesystem::path& program, const Backend& backend,
                           const train::ChildWatch& watch) {
  const ScratchFolder folder("selftest");
  Workbench bench(program, folder.path(), backend, watch);
  const auto start = std::chrono::steady_clock::now();
  try {
    scenario.check(bench);
  } catch (const std::out_of_range&) {  // the output lacks a part that the scenario reads
    bench.equal("output of the program", "incomplete", "complete");
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {.id = scenario.id,
          .source = scenario.source,
          .about = scenario.about,
          .backend = backend.name,
          .checks = std::move(bench.checks),
          .seconds = elapsed.count()};
}

}  // namespace runner::cli::scenarios
