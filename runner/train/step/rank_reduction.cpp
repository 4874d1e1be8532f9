#include "runner/train/step/rank_reduction.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/ir/ops.h"
#include "runner/train/step/declared_update.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/power_sgd.h"
#include "runner/train/step/step_recorder.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Program;
using backends::Subject;

// A step in which ranks add up their gradients, under construction.
class RankReduction {
 public:
  // `program`: StepBuilder::begin_reduction().
  RankReduction(const StepBuilder& builder, Program program, FactoredLayout factored, SumSource source)
      : builder_(builder),
        source_(source),
        parameters_(builder.model().parameters),
        factored_(std::move(factored)),
        program_(std::move(program)),
        first_scalar_(first_scalar_of(program_)),
        step_(builder, program_, array_inputs(program_, builder.layout())) {}

  // At the end of an optimizer step. `reduces`: each rank has all gradients, and the Program all-reduces them.
  Program of_step_end(const Shard& shard, bool reduces = false) {
    add_up(shard);
    if (reduces) step_.all_reduce_gradients();
    record_update(step_, program_, builder_,
                  {.sums = sums_,
                   .are_means = are_means_,
                   .is_shard = is_shard_,
                   .norm_order = norm_order_,
                   .updated = updated_,
                   .first_scalar = first_scalar_});
    step_.arrays.output(program_);
    return std::move(program_);
  }

  Program of_gradients() {
    for (const DeviceArray& array : builder_.layout().arrays())
      if (array.role == ArrayRole::kGradients)
        step_.gradients[static_cast<size_t>(array.buffer)] = step_.arrays.get(array.role, array.buffer, array.index);
    step_.all_reduce_gradients();
    step_.keep_gradients();
    step_.arrays.output(program_);
    return std::move(program_);
  }

 private:
  static size_t first_scalar_of(const Program& program) {
    size_t first = 0;
    while (first < program.inputs().size() && program.inputs()[first].kind != backends::InputKind::kScalar) ++first;
    return first;
  }

  Value value(backends::ValueId id) { return {&program_, id}; }

  // Computes the left fold over ranks. The arrays of other ranks are inputs after those of the layout.
  void add_up(const Shard& shard) {
    const bool all_reduces = source_ == SumSource::kAllReduce, folds_rows = has_rows(source_);
    const bool are_reduced = source_ == SumSource::kReducedInPlace, has_all = all_reduces || are_reduced;
    const bool are_summed = source_ == SumSource::kBuckets || source_ == SumSource::kFoldedRows;
    is_shard_ = shard.size() > 1 && !has_all;
    if (are_reduced) updated_ = &shard;
    if (has_all)
      norm_order_ = all_shards(parameters_, builder_.optimizers(), builder_.recipe().comm,
                               static_cast<int>(builder_.recipe().num_processes));
    std::vector<std::pair<int32_t, std::vector<Value>>> gradients;  // buffer, and its gradients by rank
    size_t next = builder_.layout().arrays().size();
    for (const DeviceArray& array : builder_.layout().arrays()) {
      if (!array.is_read_by_all()) continue;
      std::vector<Value> by_rank;
      for (int rank = 0; rank < shard.size(); ++rank) {
        const bool own = rank == shard.rank();
        if (own) by_rank.push_back(step_.arrays.get(array.role, array.buffer, array.index));
        if (!own && folds_rows) by_rank.push_back(input_value(program_, next++));
      }
      if (array.role == ArrayRole::kSum) {
        sums_ =
            folds_rows ? left_fold(by_rank) : ops::all_reduce(by_rank[0], backends::Reduction::kSum, Subject::kLoss);
      } else if (array.role == ArrayRole::kUse) {
        step_.reached[static_cast<size_t>(array.buffer)] =
            folds_rows ? reached_by_any(by_rank)
                       : ops::all_reduce(by_rank[0], backends::Reduction::kMax, Subject::kGradients);
      } else if ((has_all || shard.of(array.buffer).count > 0) && factored_.elements == 0 && !are_summed) {
        gradients.emplace_back(array.buffer, std::move(by_rank));
      }
    }
    const schema::CommSpec& comm = builder_.recipe().comm;
    are_means_ = comm.hook != schema::CommHook::kNone;
    for (auto& [buffer, by_rank] : gradients)
      step_.gradients[static_cast<size_t>(buffer)] = sum_of_gradients(buffer, by_rank);
    if (factored_.elements > 0) add_up_factored(shard);
    if (are_summed) take_sums(shard);
  }

  void take_sums(const Shard& shard) {
    for (int32_t b = 0; b < std::ssize(step_.gradients); ++b)
      if (const int64_t count = shard.of(b).count; count > 0)
        step_.gradients[static_cast<size_t>(b)] =
            value(program_.input(backends::InputKind::kState, "sums", {DType::kF32, backends::Shape{count}}));
  }

  void add_up_factored(const Shard& shard) {
    std::vector<Value> by_rank;
    for (int rank = 0; rank < shard.size(); ++rank)
      by_rank.push_back(value(program_.input(backends::InputKind::kState,
                                             fmt::format("factored gradients of rank {}", rank), factored_.type())));
    for (int32_t b = 0; b < std::ssize(step_.gradients); ++b)
      if (shard.of(b).count > 0)
        step_.gradients[static_cast<size_t>(b)] = sum_of_factored(by_rank, factored_, parameters_, b, shard.of(b));
  }

  // Rounds each rank's part of the mean, as DDP's hooks do: a sum over samples would soon overflow.
  Value sum_of_gradients(int32_t buffer, std::vector<Value>& by_rank) {
    if (source_ == SumSource::kReducedInPlace) return by_rank[0];
    const auto sum_over_ranks = [&] {
      if (source_ == SumSource::kAllReduce)
        return ops::all_reduce(by_rank[0], backends::Reduction::kSum, Subject::kGradients);
      return left_fold(by_rank, rounds_to_bf16(builder_.recipe()));
    };
    if (!are_means_) return sum_over_ranks();
    const schema::CommSpec& comm = builder_.recipe().comm;
    for (Value& gradient : by_rank) gradient = rounded_for_communication(ops::mul(gradient, mean_factor(sums_)), comm);
    const Value sum = rounded_for_communication(sum_over_ranks(), comm);
    return is_power_sgd(comm) ? compressed(step_.arrays, builder_, buffer, sum) : sum;
  }

  const StepBuilder& builder_;
  const SumSource source_;
  const nn::ParameterSet& parameters_;
  const FactoredLayout factored_;  // empty if gradients are in their arrays
  Program program_;
  const size_t first_scalar_;
  StepRecorder step_;
  bool is_shard_ = false;          // the gradients are only a shard
  std::vector<Shard> norm_order_;  // see DeclaredUpdate
  const Shard* updated_ = nullptr;
  bool are_means_ = false;  // already divided by Σ weight
  Value sums_;              // (2) f64, {Σ loss, Σ weight} of the optimizer step
};

// The shard of a rank that shares nothing: all elements.
Shard whole(const StepBuilder& builder) {
  return {builder.model().parameters, builder.optimizers(), builder.recipe().comm, /*rank=*/0, /*size=*/1};
}

RankReduction reduction_of(const StepBuilder& builder, const Shard& shard, const FactoredLayout& factored,
                           SumSource source) {
  return {builder, builder.begin_reduction(shard, source), factored, source};
}

}  // namespace

Program record_reduction(const StepBuilder& builder, const Shard& shard, const FactoredLayout& factored,
                         SumSource source) {
  return reduction_of(builder, source == SumSource::kAllReduce ? whole(builder) : shard, factored, source)
      .of_step_end(shard);
}

Program reduction_graph(const StepBuilder& builder, bool are_summed) {
  const Shard all = whole(builder);
  return reduction_of(builder, all, {}, are_summed ? SumSource::kBuckets : SumSource::kRows)
      .of_step_end(all, /*reduces=*/!are_summed);
}

Program communication_graph(const StepBuilder& builder) {
  return reduction_of(builder, whole(builder), {}, SumSource::kRows).of_gradients();
}

}  // namespace runner::train
