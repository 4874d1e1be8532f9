#include "runner/train/loop/graph_forecast.h"

#include <fmt/format.h>

#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/trial_rank.h"
#include "runner/train/step/declared_step.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

std::vector<double> read_nothing(const StepBuilder::Recorded&, backends::ValueId) {
  fail(ErrorKind::kRun, "it reads values of tensors, which are available only in a run");
}

// "training batch of 64", with its position in the optimizer step.
std::string name_of(const StepMemory::TrainingStep& step) {
  const bool last = step.shape.last || step.closes_step;
  const char* const place = step.shape.first && last ? ""
                            : step.shape.first       ? ", first of an optimizer step"
                            : last                   ? ", last of an optimizer step"
                                                     : ", within an optimizer step";
  return fmt::format("training batch of {}{}", step.shape.batch, place);
}

class Forecaster {
 public:
  Forecaster(Trainer& trainer, backends::tpu::TpuDeviceModel& model) : trainer_(trainer), model_(model) {}

  void training(const data::DataPlan& plan) {
    attempt("training_step", [&] {
      const StepBuilder& builder = trainer_.builder();
      for (const StepMemory::TrainingStep& step : trainer_.step_memory().training_steps(plan)) {
        const StepBuilder::Recorded recorded = builder.record(step.shape.batch, /*training=*/true, read_nothing);
        add(name_of(step), step_graph(builder, recorded, step.shape, step.closes_step).program, step.per_step);
      }
    });
  }

  void evaluation(int64_t batch) {
    attempt("evaluation_step", [&] {
      const StepBuilder& builder = trainer_.builder();
      const StepBuilder::Recorded recorded = builder.record(batch, /*training=*/false, read_nothing);
      add(fmt::format("evaluation batch of {}", batch), builder.evaluation_graph(recorded, /*first=*/false), 0);
    });
  }

  RunForecast take() { return std::move(forecast_); }

 private:
  // A hook may fail because it expects things that exist only in a run.
  template <class Make>
  void attempt(std::string_view entry, const Make& make) {
    try {
      make();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kRun) throw;
      forecast_.unknown = fmt::format("the graph of the hook's {} is known only in a run: {}", entry, error.what());
    }
  }

  void add(std::string name, const backends::Program& graph, int64_t per_step) {
    forecast_.graphs.push_back({std::move(name), model_.forecast(graph), per_step});
  }

  Trainer& trainer_;
  backends::tpu::TpuDeviceModel& model_;
  RunForecast forecast_;
};

}  // namespace

RunForecast forecast_graphs(const schema::Recipe& recipe, const data::Data& data, const data::DataPlan& plan,
                            backends::ModelledDevice& device, Hooks* hooks) {
  if (has(hooks, HookEntry::kTrain)) return {{}, "the hook has a custom loop, whose graphs are known only in a run"};
  TrialRank trial(recipe, run_length(recipe, plan).total_steps, data.encoding, device, hooks);
  Forecaster forecaster(trial.trainer(), backends::tpu::model_of_tpu(device));
  forecaster.training(plan);
  if (const auto evaluated = evaluation_plan(trial.trainer().builder(), data, recipe.num_processes))
    forecaster.evaluation(evaluated->max_batch());
  return forecaster.take();
}

}  // namespace runner::train
