#include "runner/train/engine/bucket_reducer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backends/tensor/rounding.h"
#include "runner/train/engine/event_board.h"
#include "runner/train/engine/user_work.h"
#include "schema/base/error.h"

namespace runner::train {

namespace {

using backends::AwaitedEvent;
using backends::DType;
using backends::InputKind;
using backends::Program;
using backends::Shape;
using backends::Signal;
using backends::TensorType;

TensorType floats(int64_t count) {
  return {DType::kF32, Shape{count}};
}

size_t bytes_of(int64_t floats) {
  return static_cast<size_t>(floats) * sizeof(float);
}

Value declare(Program& program, const std::string& name, int64_t count) {
  return {&program, program.input(InputKind::kState, name, floats(count))};
}

}  // namespace

BucketReducer::BucketReducer(const StepBuilder& builder, const GradientBuckets& buckets, const Shard& shard,
                             backends::ModelledDevice& device, backends::ProcessGroup& ranks)
    : builder_(builder),
      parameters_(builder.model().parameters),
      buckets_(buckets),
      shard_(shard),
      device_(device),
      ranks_(ranks),
      gradients_(parameters_.buffers().size()),
      sums_(parameters_.buffers().size()),
      signalled_(buckets.size()) {}

void BucketReducer::allocate(const SharedArrays& arrays) {
  for (size_t i = 0; i < arrays.rows.size(); ++i) {
    const DeviceArray& array = builder_.layout().arrays()[i];
    if (array.role != ArrayRole::kGradients) continue;
    const auto b = static_cast<size_t>(array.buffer);
    gradients_[b] = arrays.rows[i];
    sums_[b] = {ranks_.symmetric_alloc(array.type, backends::ProcessGroup::Pages::kNow, {"sums"}), 0};
    const Shard::Range& share = shard_.of(array.buffer);
    if (share.count > 0) shard_sums_.push_back(part_of(sums_[b], 0, {array.buffer, share.first, share.count}));
  }
  exchange_events();
}

void BucketReducer::exchange_events() {
  const auto of_all = [&](size_t count) {
    Events own(count);
    std::ranges::generate(own, [this] { return device_.streams()->make_event(); });
    return EventBoard(std::move(own), ranks_).of_all();
  };
  ready_ = of_all(buckets_.size());
  done_ = of_all(1);
}

std::shared_ptr<backends::Buffer> BucketReducer::part_of(const SharedRows& rows, int rank, const Piece& piece) const {
  return device_.wrap(rows.of(rank, bytes_of(piece.first)), bytes_of(piece.count));
}

// Returns this rank's part of each piece, in whole cache lines of about equal number per rank.
std::vector<GradientBuckets::Piece> BucketReducer::slices_of(size_t bucket) const {
  std::vector<Piece> slices;
  for (const Piece& piece : buckets_.pieces(bucket)) {
    const auto [first, end] = backends::part_of(piece.count, ranks_.rank(), ranks_.size(), kFloatsOfLine);
    if (end > first) slices.push_back({piece.buffer, piece.first + first, end - first});
  }
  return slices;
}

std::span<const Signal> BucketReducer::begin_signals(const FactoredLayout* factored) {
  RUN_ASSERT(!has_signalled_);
  std::vector<Reduction>& reductions = reductions_of(factored);
  signals_.clear();
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (reductions[b].states.empty()) reductions[b].states = states_of(b, factored);
    add_signals(b, factored);
  }
  has_signalled_ = true;
  return signals_;
}

void BucketReducer::add_signals(size_t bucket, const FactoredLayout* factored) {
  backends::Event* const event = ready_[static_cast<size_t>(ranks_.rank()) * buckets_.size() + bucket].get();
  const auto add = [&](int32_t state, int64_t first, int64_t count) {
    signals_.push_back({event, floats_of(state, first, count)});
    ++signalled_[bucket];
  };
  if (factored == nullptr) {
    for (const Piece& piece : buckets_.pieces(bucket))
      add(builder_.layout().find(ArrayRole::kGradients, piece.buffer), piece.first, piece.count);
    return;
  }
  const auto state = static_cast<int32_t>(builder_.layout().arrays().size());
  for (size_t p = 0; p < factored->parts.size(); ++p) {
    const FactoredPart& part = factored->parts[p];
    if (std::ranges::find(buckets_[bucket], part.parameter) == buckets_[bucket].end()) continue;
    const int64_t end = p + 1 < factored->parts.size() ? factored->parts[p + 1].offset : factored->elements;
    add(state, part.offset, end - part.offset);
  }
}

void BucketReducer::signal_all(const FactoredLayout* factored) {
  for (const Signal& signal : begin_signals(factored)) device_.streams()->record(*signal.event);
}

void BucketReducer::reduce(const FactoredLayout* factored, std::span<const std::shared_ptr<backends::Buffer>> by_rank) {
  const std::vector<Reduction>& reductions = reductions_.at(factored);
  for (size_t b = 0; b < buckets_.size(); ++b) {
    std::vector<AwaitedEvent> after;
    std::vector<backends::Buffer*> states;
    for (size_t rank = 0; rank < static_cast<size_t>(ranks_.size()); ++rank)
      after.push_back({ready_[rank * buckets_.size() + b].get(), signalled_[b]});
    if (factored != nullptr)
      for (const auto& buffer : by_rank) states.push_back(buffer.get());
    for (const auto& buffer : reductions[b].states) states.push_back(buffer.get());
    const Signal end{.event = done_[static_cast<size_t>(ranks_.rank())].get()};
    const bool is_last = b + 1 == buckets_.size();
    device_.submit(*reductions[b].step->executable, {.states = states,
                                                     .batch = {},
                                                     .scalars = {},
                                                     .name = "all-reduce",
                                                     .span = backends::SpanKind::kCollective,
                                                     .stream = backends::StreamRole::kCommunication,
                                                     .after = after,
                                                     .signals = std::span(&end, is_last ? 1 : 0)});
  }
  has_signalled_ = false;
  ++steps_;
  reduced_.clear();
  for (const auto& done : done_) reduced_.push_back({done.get(), steps_});
}

// Device models take the reduction from SubmissionInfo::reduced.
std::vector<BucketReducer::Reduction>& BucketReducer::reductions_of(const FactoredLayout* factored) {
  std::vector<Reduction>& reductions = reductions_[factored];
  if (reductions.empty())
    for (size_t b = 0; b < buckets_.size(); ++b)
      reductions.push_back({compiled_step(device_.compile(program_of(b, factored), UserWork::of_nothing())), {}});
  return reductions;
}

// States: the factored gradients of all ranks, then the sums of each slice. If gradients are not factored: for each
// slice, the gradients of all ranks and the sums.
Program BucketReducer::program_of(size_t bucket, const FactoredLayout* factored) const {
  Program program;
  std::vector<Value> by_rank;
  if (factored != nullptr)
    for (int rank = 0; rank < ranks_.size(); ++rank)
      by_rank.push_back(declare(program, fmt::format("factored gradients of rank {}", rank), factored->elements));
  for (const Piece& slice : slices_of(bucket)) {
    std::vector<Value> gradients;
    for (int rank = 0; rank < ranks_.size() && factored == nullptr; ++rank)
      gradients.push_back(declare(program, fmt::format("gradients of rank {}", rank), slice.count));
    const auto sums = static_cast<int32_t>(program.inputs().size());
    declare(program, "sums", slice.count);
    const Value sum = factored != nullptr
                          ? sum_of_factored(by_rank, *factored, parameters_, slice.buffer, {slice.first, slice.count})
                          : left_fold(gradients);
    program.output("sums", sum.id, sums);
  }
  return program;
}

std::vector<std::shared_ptr<backends::Buffer>> BucketReducer::states_of(size_t bucket,
                                                                        const FactoredLayout* factored) const {
  std::vector<std::shared_ptr<backends::Buffer>> states;
  for (const Piece& slice : slices_of(bucket)) {
    for (int rank = 0; rank < ranks_.size() && factored == nullptr; ++rank)
      states.push_back(part_of(gradients_[static_cast<size_t>(slice.buffer)], rank, slice));
    states.push_back(part_of(sums_[static_cast<size_t>(slice.buffer)], 0, slice));
  }
  return states;
}

}  // namespace runner::train
