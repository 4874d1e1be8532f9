// The device of an emulated TPU: the kernels of the host, with the numeric types of a TPU and a lock like that of
// PyTorch/XLA, which an execution holds. It counts transfers and execution times in the metrics of PyTorch/XLA; graphs
// belong to its model (tpu_model_base.h).
//
// Thread safety: one thread at a time calls a device.
#pragma once

#include <memory>

#include "backends/exec/backend.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/metrics.h"
#include "backends/tpu/submission_slot.h"

namespace runner::backends::tpu {

class TpuDevice final : public Device {
 public:
  // `host`: computes. `own_thread`: executes concurrently with the submitting thread.
  TpuDevice(std::unique_ptr<Device> host, bool own_thread, const Hardware& hardware);

  std::string_view name() const override { return "tpu"; }

  std::shared_ptr<Buffer> allocate(size_t bytes) override { return host_->allocate(bytes); }
  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) override {
    return host_->wrap(std::move(memory), bytes);
  }
  void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) override;
  void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) override;

  // Rewrites the Program so that the host computes with the device's numeric types.
  std::shared_ptr<Executable> compile(const Program& program) override;
  bool rounds_operands() const override {
    return hardware_.types.f32 == DType::kF32 && hardware_.machine.precision != MatmulPrecision::kHighest;
  }
  bool runs_asynchronously() const override { return slot_.has_thread(); }
  Ticket submit(Executable& executable, const Submission& submission) override;
  bool has_written_states() const override;
  void read_output(Executable& executable, int index, std::span<std::byte> target) override;

  void wait(Ticket) override { slot_.lock(); }
  void synchronize() override { slot_.lock(); }
  size_t temporary_bytes() const override;
  void release_temporary() override;

  // ---- for the model ----

  MetricsRegistry& metrics() { return metrics_; }
  SubmissionSlot& slot() { return slot_; }
  // How the next submission counts; later ones count as nothing.
  void count_next_as(SubmissionSlot::Counts counts) { next_ = counts; }

 private:
  void count_download(size_t bytes) { metrics_.add(XlaMetric::kInboundData, static_cast<int64_t>(bytes)); }

  const Hardware hardware_;
  const std::unique_ptr<Device> host_;
  MetricsRegistry metrics_;
  mutable SubmissionSlot slot_;
  SubmissionSlot::Counts next_ = SubmissionSlot::Counts::kNothing;
  Ticket ticket_ = 0;
  bool has_begun_ = false;  // whether the newest submission has started
};

}  // namespace runner::backends::tpu
