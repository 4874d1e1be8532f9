// Scenarios about checkpoints and resuming, memory, and recipes.
#include <algorithm>

#include <fmt/format.h>

#include "runner/cli/scenarios/document.h"
#include "tests/cli/scenarios/more_scenarios.h"

namespace runner::cli::scenarios {
namespace {

void registered(Workbench& bench) {
  bench.write("counts.lua", R"(local nn = require "nn"
return {train = function(acc)
  local seen, half = {batches = 0}, 0
  acc:register_for_checkpointing(seen, {
    state_dict = function() return {half = half} end,
    load_state_dict = function(self, state) half = state.half end,
  })
  for epoch in acc:epochs() do
    for batch in acc:batches("train") do
      acc:accumulate(function()
        acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels))
        acc.optimizer:step()
        acc.scheduler:step()
        acc.optimizer:zero_grad()
        seen.batches, half = seen.batches + 1, half + 0.5
      end)
      acc:log{seen = seen.batches, half = half, drawn = math.random()}
    end
  end
end})");
  bench.verify_resume("a training loop in Lua with registered objects, 2 processes",
                      with(rich_training(), {"hooks=counts.lua", processes(2)}));
}

void other_processes(Workbench& bench) {
  const Words batch{"split_batches=true", "data.batch_size=24", "optimizer={type: adamw, lr: 0.01}"};
  bench.train("whole", with(batch, {processes(3), "train.epochs=null", "train.steps=8"}));
  bench.train("parts", with(batch, {processes(3), "train.epochs=null", "train.steps=3"}));
  const Ran ran = bench.run({"resume", "parts", "--quiet", processes(2), "train.steps=8"});
  bench.equal("exit code", ran.exit_code, 0);
  bench.close("train/loss after changing from 3 to 2 processes within an epoch", bench.points("parts", "train/loss"),
              bench.points("whole", "train/loss"), 1e-6);
}

void retention(Workbench& bench) {
  bench.train("kept", {"data.train.samples=88", "train.epochs=1", "checkpoint={every: 1 step, keep_last: 2}"});
  std::string steps;
  const json::Value states = json::parse(bench.run({"states", "kept", "--json"}).out);
  for (const json::Value& state : list(states)) steps += fmt::format("{} ", whole(at(state, {"step"})));
  bench.equal("steps of the states kept of 11", steps, "11 10 ");
}

void refuses_other_models(Workbench& bench) {
  bench.train("small", {"train.epochs=1"});
  bench.refused("a state with different shapes", bench.run({"fork", "small", "model.hidden=[9]", "--quiet"}), 2,
                "0.weight");
}

// Compares the result of `estimate` with the memory that a run used.
void estimates(Workbench& bench) {
  for (const int p : {1, 2}) {
    const Words settings{processes(p), "model.hidden=[256, 256]", "optimizer={type: adamw, lr: 0.01}",
                         "train.epochs=1"};
    const json::Value document = bench.train("measured", settings);
    const json::Value estimate = json::parse(bench.run(with({"estimate", "recipe.yaml", "--json"}, settings)).out);
    const json::Value& of_recipe = list(at(estimate, {"precisions"})).at(0);
    for (const char* phase : {"training", "evaluation", "saving"}) {
      bench.close(fmt::format("bytes in {}, {} processes", phase, p), {number(at(document, {"peak_memory", phase}))},
                  {number(at(of_recipe, {"peak", phase}))}, 0.05);
    }
  }
}

// ---- recipes --------------------------------------------------------------------------------------------------------

void precedence(Workbench& bench) {
  bench.write("base.yaml", "optimizer: {lr: 0.5, momentum: 0.8}\ntrain: {epochs: 7}\n");
  bench.write("derived.yaml", "include: [recipe.yaml, base.yaml]\ntrain: {epochs: 8}\n");
  const auto explain = [&](const char* key) {
    const Ran ran = bench.run({"explain", "derived.yaml", key, "--json", "train.epochs=9"});
    const json::Value document = json::parse(ran.out);
    const std::string* kind = at(document, {"origin", "kind"}).text();
    return fmt::format("{} from {}", json::compact(at(document, {"value"})), kind != nullptr ? *kind : ran.err);
  };
  bench.equal("train.epochs", explain("train.epochs"), "9 from command line");
  bench.equal("optimizer.momentum", explain("optimizer.momentum"), "0.8 from include");
  bench.equal("optimizer.nesterov", explain("optimizer.nesterov"), "false from default");
}

void wrong_recipes(Workbench& bench) {
  bench.write("wrong.yaml", "schema_version: 1\nnmae: x\nmodel: {type: mlpp}\ntrain: {epochs: 0}\n");
  const Ran ran = bench.run({"check", "wrong.yaml", "--json"});
  bench.equal("exit code", ran.exit_code, 2);
  bench.at_least("errors reported at once", static_cast<double>(list(at(json::parse(ran.out), {"errors"})).size()), 5);
}

// Limits the memory to what batches of eight samples need, most of it for activations.
void fits(Workbench& bench) {
  for (const int p : {1, 2}) {
    const Words settings{processes(p), "model.hidden=[32]", "train.auto_batch_size=true", "train.epochs=1"};
    const json::Value estimate = json::parse(
        bench
            .run(with({"estimate", "recipe.yaml", "--json", "data.batch_size=8", "gradient_accumulation_steps=2"},
                      settings))
            .out);
    int64_t bytes = 0;
    for (const char* phase : {"training", "evaluation"})
      bytes = std::max(bytes, whole(at(list(at(estimate, {"precisions"})).front(), {"peak", phase})));
    const json::Value parts =
        bench.train("parts", with(settings, {"data.batch_size=32", fmt::format("cpu.memory={} B", bytes)}));
    bench.train("whole", with(settings, {"data.batch_size=32"}));
    bench.equal(fmt::format("micro-batch size, {} process{}", p, p == 1 ? "" : "es"),
                whole(at(parts, {"auto_batch_size", "batch_size"})), 8);
    bench.close("train/loss", bench.points("parts", "train/loss"), bench.points("whole", "train/loss"), 1e-6);
  }
}

constexpr Scenario kStateScenarios[] = {
    {"state/hooks", "50, 52", "objects registered by hooks are restored", registered},
    {"state/processes", "7, 47, gap", "training continues at the next sample with another number of processes",
     other_processes},
    {"state/retention", "49", "keep_last: 2 keeps the newest two of eleven states", retention},
    {"state/shapes", "53", "a state of another model is rejected, with the name of a tensor", refuses_other_models},
    {"memory/estimate", "32, 59", "a run needs the estimated memory", estimates},
    {"memory/batch_size", "55", "the micro-batch is halved until it fits, with the same training results", fits, "cpu"},
    {"recipe/precedence", "58", "precedence: command line, recipe, included recipe, default", precedence},
    {"recipe/errors", "58", "all errors of a recipe are reported at once", wrong_recipes},
};

}  // namespace

std::span<const Scenario> state_scenarios() {
  return kStateScenarios;
}

}  // namespace runner::cli::scenarios
