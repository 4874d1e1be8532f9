#include "backends/tpu/tpu_device.h"

#include <utility>

#include "backends/tpu/graph.h"
#include "backends/tpu/numerics.h"

namespace runner::backends::tpu {

TpuDevice::TpuDevice(std::unique_ptr<Device> host, bool own_thread, const Hardware& hardware)
    : hardware_(hardware), host_(std::move(host)), metrics_(op_counter_names()), slot_(*host_, metrics_, own_thread) {}

void TpuDevice::write(Buffer& buffer, size_t offset, std::span<const std::byte> source) {
  slot_.wait();
  const TimedSection section(metrics_, XlaMetric::kTransferToDeviceTime);
  metrics_.add(XlaMetric::kOutboundData, static_cast<int64_t>(source.size()));
  host_->write(buffer, offset, source);
}

void TpuDevice::read(const Buffer& buffer, size_t offset, std::span<std::byte> target) {
  slot_.wait();
  count_download(target.size());
  const TimedSection section(metrics_, XlaMetric::kTransferFromDeviceTime);
  host_->read(buffer, offset, target);
}

std::shared_ptr<Executable> TpuDevice::compile(const Program& program) {
  const Program typed = with_device_types(program, hardware_.types, hardware_.rounding);
  return host_->compile(with_matmul_precision(typed, hardware_.machine.precision));
}

Ticket TpuDevice::submit(Executable& executable, const Submission& submission) {
  has_begun_ = true;
  slot_.begin(executable.shared_from_this(), submission, std::exchange(next_, SubmissionSlot::Counts::kNothing),
              submission.waits);
  return ++ticket_;
}

// A submission that was refused has not started.
bool TpuDevice::has_written_states() const {
  slot_.finish();
  return has_begun_ && host_->has_written_states();
}

void TpuDevice::read_output(Executable& executable, int index, std::span<std::byte> target) {
  slot_.wait();
  count_download(target.size());
  host_->read_output(executable, index, target);
}

size_t TpuDevice::temporary_bytes() const {
  slot_.finish();
  return host_->temporary_bytes();
}

void TpuDevice::release_temporary() {
  slot_.wait();
  host_->release_temporary();
}

}  // namespace runner::backends::tpu
