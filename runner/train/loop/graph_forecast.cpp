#include "runner/train/loop/graph_forecast.h"

#include <set>

#include <fmt/format.h>

#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/trial_rank.h"
#include "runner/train/step/declared_step.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

std::vector<double> read_nothing(const StepBuilder::Recorded&, backends::ValueId) {
  fail(ErrorKind::kRun, "it reads values of tensors, which are available only in a run");
}

std::string tokens_text(int64_t length) {
  return length > 0 ? fmt::format(" with {} tokens each", length) : "";
}

// "training batch of 64", with its position in the optimizer step.
std::string name_of(const StepMemory::TrainingStep& step) {
  const bool last = step.shape.last || step.closes_step;
  const char* const place = step.shape.first && last ? ""
                            : step.shape.first       ? ", first of an optimizer step"
                            : last                   ? ", last of an optimizer step"
                                                     : ", within an optimizer step";
  return fmt::format("training batch of {}{}{}", step.shape.batch, tokens_text(step.shape.length), place);
}

// The numbers of tokens per sample that batches of a data set may have (data::BatchShape::length).
std::set<int64_t> lengths_of(const data::Dataset& set) {
  if (!set.has_lengths()) return {0};
  std::set<int64_t> lengths;
  for (int64_t id = 0; id < set.size(); ++id) lengths.insert(set.padded_length(set.length_of(id)));
  return lengths;
}

class Forecaster {
 public:
  Forecaster(Trainer& trainer, backends::tpu::TpuDeviceModel& model) : trainer_(trainer), model_(model) {}

  void training(const data::DataPlan& plan, const std::set<int64_t>& lengths) {
    attempt("training_step", [&] {
      const StepBuilder& builder = trainer_.builder();
      for (StepMemory::TrainingStep step : trainer_.step_memory().training_steps(plan)) {
        for (const int64_t length : lengths) {
          step.shape.length = length;
          const StepBuilder::Recorded recorded =
              builder.record(step.shape.batch_shape(), /*training=*/true, read_nothing);
          add(name_of(step), step_graph(builder, recorded, step.shape, step.closes_step).program,
              length == *lengths.rbegin() ? step.per_step : 0);
        }
      }
    });
  }

  void evaluation(int64_t batch, const std::set<int64_t>& lengths) {
    attempt("evaluation_step", [&] {
      const StepBuilder& builder = trainer_.builder();
      for (const int64_t length : lengths) {
        const StepBuilder::Recorded recorded = builder.record({batch, length}, /*training=*/false, read_nothing);
        add(fmt::format("evaluation batch of {}{}", batch, tokens_text(length)),
            builder.evaluation_graph(recorded, /*first=*/false), 0);
      }
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
  forecaster.training(plan, lengths_of(data.train));
  if (const auto evaluated = evaluation_plan(trial.trainer().builder(), data, recipe.num_processes))
    forecaster.evaluation(evaluated->max_batch(), lengths_of(*data.eval));
  return forecaster.take();
}

}  // namespace runner::train
