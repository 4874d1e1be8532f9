#include "runner/train/engine/overlapped_reducer.h"

#include <utility>

#include <fmt/format.h>

#include "backends/runtime/spans.h"
#include "schema/base/signals_blocked.h"
#include "schema/recipe/field_words.h"

namespace runner::train {
namespace {

using backends::DType;
using backends::Shape;
using backends::TensorType;

// Bytes of gradients that are reduced together. Smaller buckets overlap more, but each has the latency of a call.
constexpr int64_t kBucketBytes = int64_t{4} << 20;

}  // namespace

bool OverlappedReducer::fits(const StepBuilder& builder, const backends::Device& device) {
  return device.calls_events() && may_reduce_in_buckets(builder.recipe()) && !builder.exchanges_in_forward();
}

OverlappedReducer::OverlappedReducer(const StepBuilder& builder, Gradients gradients, backends::ProcessGroup& ranks)
    : buckets_(builder, kBucketBytes),
      gradients_(std::move(gradients)),
      ranks_(ranks),
      missing_(buckets_.size()),
      next_(buckets_.size()) {
  events_.reserve(buckets_.size());  // signals point to them
  for (size_t b = 0; b < buckets_.size(); ++b) {
    events_.emplace_back(*this, b);
    for (const GradientBuckets::Piece& piece : buckets_.pieces(b))
      signals_.push_back({&events_[b], floats_of(builder.layout().find(ArrayRole::kGradients, piece.buffer),
                                                 piece.first, piece.count)});
  }
  const SignalsBlocked blocked;
  thread_ = std::thread([this, recorder = backends::RecordingThread::recorder()] {
    const backends::RecordingThread recording(recorder, "gradients");
    work();
  });
}

OverlappedReducer::~OverlappedReducer() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::span<const backends::Signal> OverlappedReducer::begin(int64_t step) {
  const std::scoped_lock lock(mutex_);
  has_begun_ = true;
  step_ = step;
  for (size_t b = 0; b < buckets_.size(); ++b) missing_[b] = buckets_.pieces(b).size();
  next_ = 0;
  return signals_;
}

void OverlappedReducer::begin_complete(int64_t step) {
  for (const backends::Signal& signal : begin(step)) static_cast<Ready*>(signal.event)->record();
}

void OverlappedReducer::count_ready(size_t bucket) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    RUN_ASSERT(missing_[bucket] > 0);
    if (--missing_[bucket] > 0) return;
  }
  changed_.notify_all();
}

void OverlappedReducer::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_done(); });
  has_begun_ = false;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void OverlappedReducer::abandon(const Error& reason) noexcept {
  if (!has_begun_) return;
  ranks_.fail(fmt::format("{}, after {}: {}", ranks_.name(), schema::length_text(step_ - 1, "steps"), reason.text()),
              reason.where());
  std::unique_lock lock(mutex_);
  next_ = buckets_.size();
  changed_.wait(lock, [this] { return !is_reducing_; });
  has_begun_ = false;
  failure_ = nullptr;
}

void OverlappedReducer::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || has_work(); });
    if (ends_) return;
    const size_t bucket = next_;
    is_reducing_ = true;
    lock.unlock();
    std::exception_ptr failure = reduce(bucket);
    lock.lock();
    is_reducing_ = false;
    failure_ = std::move(failure);
    if (failure_ != nullptr) next_ = buckets_.size();
    if (next_ == bucket) ++next_;  // not abandoned
    changed_.notify_all();
  }
}

std::exception_ptr OverlappedReducer::reduce(size_t bucket) noexcept {
  try {
    for (const GradientBuckets::Piece& piece : buckets_.pieces(bucket)) {
      const TensorType type{DType::kF32, Shape{piece.count}};
      std::byte* const first = gradients_[static_cast<size_t>(piece.buffer)] + piece.first * sizeof(float);
      ranks_.all_reduce(type, {first, type.bytes()}, backends::Reduction::kSum, {"gradients", step_});
    }
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace runner::train
