// A device that forwards every call to another one and records calls and bytes in order. The record can be replayed on
// any device.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/exec/backend.h"
#include "schema/base/error.h"

namespace runner::train {

using Bytes = std::vector<std::byte>;

enum class Call { kAllocate, kWrite, kRead, kCompile, kSubmit, kWait, kReadOutput };

struct Event {
  Call call;
  size_t subject = 0;  // index of the buffer or, with kCompile, kSubmit and kReadOutput, of the executable
  size_t at = 0;       // offset, or index of the output
  Bytes bytes = {};    // written or read
  // Arguments of a submission.
  std::vector<size_t> states = {};
  std::vector<Bytes> batch = {};
  std::vector<double> scalars = {};
};

class RecordingDevice : public backends::Device {
 public:
  explicit RecordingDevice(std::unique_ptr<backends::Device> device) : device_(std::move(device)) {}

  const std::vector<Event>& events() const { return events_; }
  const backends::Program& program(size_t executable) const { return programs_[executable]; }

  std::string_view name() const override { return device_->name(); }

  std::shared_ptr<backends::Buffer> allocate(size_t bytes) override {
    buffers_.push_back(device_->allocate(bytes));
    events_.push_back({.call = Call::kAllocate, .subject = buffers_.size() - 1, .at = bytes});
    return buffers_.back();
  }

  std::shared_ptr<backends::Buffer> wrap(std::shared_ptr<std::byte>, size_t) override {
    RUN_ASSERT(false && "what others write cannot be replayed");
    return nullptr;
  }

  void write(backends::Buffer& buffer, size_t offset, std::span<const std::byte> source) override {
    device_->write(buffer, offset, source);
    record(Call::kWrite, number_of(buffers_, buffer), offset, source);
  }

  void read(const backends::Buffer& buffer, size_t offset, std::span<std::byte> target) override {
    device_->read(buffer, offset, target);
    record(Call::kRead, number_of(buffers_, buffer), offset, target);
  }

  std::shared_ptr<backends::Executable> compile(const backends::Program& program) override {
    executables_.push_back(device_->compile(program));
    programs_.push_back(program);
    events_.push_back({.call = Call::kCompile, .subject = executables_.size() - 1});
    return executables_.back();
  }

  backends::Ticket submit(backends::Executable& executable, const backends::Submission& submission) override {
    RUN_ASSERT(submission.exchange == nullptr);  // one rank cannot replay collectives
    Event event{.call = Call::kSubmit, .subject = number_of(executables_, executable)};
    for (const backends::Buffer* state : submission.states) event.states.push_back(number_of(buffers_, *state));
    const backends::Program& program = programs_[event.subject];
    for (const backends::Input& input : program.inputs()) {
      if (input.kind != backends::InputKind::kBatch) continue;
      const std::byte* data = submission.batch[event.batch.size()];
      event.batch.emplace_back(data, data + program.type(input.value).bytes());
    }
    event.scalars.assign(submission.scalars.begin(), submission.scalars.end());
    events_.push_back(std::move(event));
    return device_->submit(executable, submission);
  }

  void read_output(backends::Executable& executable, int index, std::span<std::byte> target) override {
    device_->read_output(executable, index, target);
    record(Call::kReadOutput, number_of(executables_, executable), static_cast<size_t>(index), target);
  }

  void wait(backends::Ticket ticket) override {
    device_->wait(ticket);
    events_.push_back({.call = Call::kWait});
  }

  void synchronize() override { device_->synchronize(); }

  size_t temporary_bytes() const override { return device_->temporary_bytes(); }
  void release_temporary() override { device_->release_temporary(); }

  // Replays the record on `other`. Returns the indices of the events that read different bytes there.
  std::vector<size_t> replay(backends::Device& other) const {
    std::vector<std::shared_ptr<backends::Buffer>> buffers;
    std::vector<std::shared_ptr<backends::Executable>> executables;
    std::vector<size_t> differing;
    const auto expect = [&](size_t number, const Bytes& read) {
      if (read != events_[number].bytes) differing.push_back(number);
    };
    for (size_t i = 0; i < events_.size(); ++i) {
      const Event& event = events_[i];
      Bytes read(event.bytes.size());
      switch (event.call) {
        case Call::kAllocate: buffers.push_back(other.allocate(event.at)); break;
        case Call::kWrite: other.write(*buffers[event.subject], event.at, event.bytes); break;
        case Call::kRead:
          other.read(*buffers[event.subject], event.at, read);
          expect(i, read);
          break;
        case Call::kCompile: executables.push_back(other.compile(programs_[event.subject])); break;
        case Call::kSubmit: submit_again(other, *executables[event.subject], event, buffers); break;
        case Call::kReadOutput:
          other.read_output(*executables[event.subject], static_cast<int>(event.at), read);
          expect(i, read);
          break;
        case Call::kWait: break;
      }
    }
    return differing;
  }

 private:
  template <class T>
  static size_t number_of(const std::vector<std::shared_ptr<T>>& all, const T& one) {
    return static_cast<size_t>(
        std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.get() == &one; }) - all.begin());
  }

  static void submit_again(backends::Device& device, backends::Executable& executable, const Event& event,
                           const std::vector<std::shared_ptr<backends::Buffer>>& buffers) {
    std::vector<backends::Buffer*> states;
    for (const size_t state : event.states) states.push_back(buffers[state].get());
    std::vector<const std::byte*> batch;
    for (const Bytes& bytes : event.batch) batch.push_back(bytes.data());
    device.wait(device.submit(executable, {.states = states, .batch = batch, .scalars = event.scalars}));
  }

  void record(Call call, size_t subject, size_t at, std::span<const std::byte> bytes) {
    events_.push_back({.call = call, .subject = subject, .at = at, .bytes = Bytes(bytes.begin(), bytes.end())});
  }

  const std::unique_ptr<backends::Device> device_;
  std::vector<Event> events_;
  std::vector<std::shared_ptr<backends::Buffer>> buffers_;  // kept alive so that an address identifies one buffer
  std::vector<std::shared_ptr<backends::Executable>> executables_;
  std::vector<backends::Program> programs_;  // by executable
};

}  // namespace runner::train
