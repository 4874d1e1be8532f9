#include "runner/data/batch_maker.h"

#include <algorithm>

#include "schema/base/error.h"

namespace runner::data {

BatchMaker::BatchMaker(const Dataset& dataset, const DataPlan& plan, const LoaderSpec& spec)
    : dataset_(dataset),
      whole_(plan),
      rest_(plan.from(spec.from.start)),
      spec_(spec),
      order_(plan.spec().samples, spec.seed, spec.shuffle && dataset.shuffle_buffer() == 0),
      at_(spec.from) {
  RUN_ASSERT(at_.step >= 0 && at_.step <= rest_.steps_per_epoch() && whole_.steps_per_epoch() > 0);
  if (at_.step == rest_.steps_per_epoch()) at_ = {at_.epoch + 1, 0};
  if (spec.by_length) order_.group_by([&dataset](int64_t sample) { return dataset.length_of(sample); });
  if (dataset.shuffle_buffer() > 0) {
    const int64_t r = spec.rank;
    stream_.emplace(
        dataset, spec.seed, spec.shuffle, r,
        std::max({repeated_from_start(whole_, r), repeated_from_start(rest_, r), int64_t{spec.never_empty}}));
  }
}

int64_t BatchMaker::largest() const {
  return std::max(whole_.max_batch(), rest_.max_batch());
}

bool BatchMaker::begin(BatchSlot& slot, int64_t number, BatchSlots& slots, const std::function<bool()>& leaves) {
  slot.number = number;
  RUN_CHECK(at_.epoch < spec_.epochs, ErrorKind::kRun, "the data ends after {} epochs", spec_.epochs);
  if (!order_.set_epoch(at_.epoch, leaves)) return false;
  const DataPlan& plan = plan_at(at_);
  slot.slice = share(plan, spec_.rank);
  const int64_t length = this->length(plan);
  slots.lay_out(slot, slot.slice.size(), length);
  if (!stream_) sample_ids(slot.slice, order_, slot.rows.ids);
  slot.batch = {.position = at_,
                .size = slot.slice.size(),
                .length = length,
                .largest = plan.largest_share(at_.step),
                .samples = plan.consumed(at_.step + 1) - plan.consumed(at_.step),
                .repeats = repeats(plan),
                .last_of_epoch = at_.step + 1 == plan.steps_per_epoch(),
                .inputs = {},
                .classes = slot.rows.classes,
                .targets = slot.rows.targets,
                .weights = slot.weights,
                .ids = slot.rows.ids};
  std::ranges::copy(slot.rows.inputs, slot.batch.inputs.begin());
  at_ = slot.batch.next();
  return true;
}

// Returns the slice of a rank in the current step.
Slice BatchMaker::share(const DataPlan& plan, int64_t rank) const {
  Slice slice = plan.slice(rank, at_.step);
  if (spec_.without_repeats) slice.repeats = 0;
  if (slice.size() == 0 && spec_.never_empty) slice = {.repeats = 1, .pool = plan.spec().samples};
  return slice;
}

// Number of tokens per sample in the current step: that of the longest sample of any rank, so that all ranks compute
// with the same shapes. It depends on the plan only.
int64_t BatchMaker::length(const DataPlan& plan) const {
  if (!dataset_.has_lengths()) return 0;
  int64_t longest = 0;
  for (int64_t rank = 0; rank < plan.spec().processes; ++rank) {
    const Slice slice = share(plan, rank);
    for (int64_t i = 0; i < slice.size(); ++i)
      longest = std::max(longest, dataset_.length_of(order_[slice.position(i)]));
  }
  return dataset_.padded_length(longest);
}

// Number of padding samples of all ranks in the current step. Only the last step has any, unless the global batch is
// smaller than the number of ranks.
int64_t BatchMaker::repeats(const DataPlan& plan) const {
  const int64_t ranks = plan.spec().processes;
  const bool whole_step = at_.step + 1 < plan.steps_per_epoch() && plan.global_batch_size() >= ranks;
  int64_t count = 0;
  for (int64_t rank = 0; rank < ranks && !whole_step; ++rank) count += share(plan, rank).repeats;
  return count;
}

bool BatchMaker::fill(BatchSlot& slot, Augmenter::Scratch& scratch, const std::function<bool()>& leaves) {
  const BatchRows& rows = slot.rows;
  if (stream_)
    stream_->read(plan_at(slot.batch.position), slot.batch.position.epoch, slot.slice, rows);
  else
    gather(slot, scratch);
  for (int64_t& id : rows.ids) id = dataset_.file_row(id);
  const auto repeats = std::fill_n(slot.weights.begin(), slot.slice.real, 1.0f);
  std::fill(repeats, slot.weights.end(), 0.0f);
  return !spec_.transform || transform(slot, leaves);
}

// What happens to a sample, in this order: it is read, augmented and normalised, and its tokens are masked. A transform
// follows.
void BatchMaker::gather(BatchSlot& slot, Augmenter::Scratch& scratch) const {
  const BatchRows& rows = slot.rows;
  const SampleKey key{spec_.seed, slot.batch.position.epoch};
  if (spec_.augmenter) gather_augmented(key, rows, scratch);
  for (size_t i = spec_.augmenter ? 1 : 0; i < dataset_.inputs().size(); ++i)
    dataset_.gather_input(i, rows.ids, rows.inputs[i]);
  if (!rows.classes.empty()) dataset_.gather_classes(rows.ids, rows.classes);
  if (dataset_.is_masked()) dataset_.mask(key, rows.ids, values_of<int64_t>(rows.inputs[0]), rows.classes);
  if (mixes())
    spec_.augmenter->write_labels(dataset_, key, rows.ids, rows.targets);
  else if (!rows.targets.empty())
    dataset_.gather_targets(rows.ids, rows.targets);
}

void BatchMaker::gather_augmented(const SampleKey& key, const BatchRows& rows, Augmenter::Scratch& scratch) const {
  const auto width = static_cast<size_t>(dataset_.feature_shape().elements());
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    const std::span<float> sample = values_of<float>(rows.inputs[0]).subspan(i * width, width);
    spec_.augmenter->read(dataset_, key, rows.ids[i], sample, scratch);
    dataset_.normalize(sample);
  }
}

bool BatchMaker::transform(BatchSlot& slot, const std::function<bool()>& leaves) {
  const Batch& batch = slot.batch;
  const auto width = static_cast<size_t>(dataset_.feature_shape().elements());
  const std::span<float> features = values_of<float>(slot.rows.inputs[0]);
  const size_t targets = batch.targets.empty() ? 0 : static_cast<size_t>(dataset_.outputs());
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    if (leaves()) return false;
    spec_.transform->apply({.shape = dataset_.feature_shape(),
                            .features = features.subspan(i * width, width),
                            .label = batch.classes.empty() ? 0 : batch.classes[i],
                            .targets = batch.targets.subspan(i * targets, targets),
                            .id = batch.ids[i],
                            .epoch = batch.position.epoch,
                            .batch = slot.number});
  }
  return true;
}

}  // namespace runner::data
