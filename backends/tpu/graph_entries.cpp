#include <algorithm>

#include "backends/ir/program_bytes.h"
#include "backends/tpu/persistent_cache.h"

namespace runner::backends::tpu {
namespace {

// Must change whenever the format of entries changes.
constexpr std::string_view kExecutableFormat = "runner executable 1", kGraphFormat = "runner graph 1";

void write_hardware(ByteWriter& to, const Hardware& hardware) {
  const Machine& machine = hardware.machine;
  for (const auto value :
       {static_cast<int64_t>(machine.generation), static_cast<int64_t>(machine.devices),
        static_cast<int64_t>(machine.precision), static_cast<int64_t>(hardware.types.f32),
        static_cast<int64_t>(hardware.types.f64), static_cast<int64_t>(hardware.rounding), hardware.prefetched_batches})
    to.integer(value);
}

void write_state_tensors(ByteWriter& to, const StateTensors& state_tensors) {
  to.number(state_tensors.size());
  for (const std::vector<StateTensor>& tensors : state_tensors) {
    to.number(tensors.size());
    for (const StateTensor& tensor : tensors) write_type(to, tensor.type);
  }
}

ByteWriter begun_entry(EntryBytes made_from) {
  ByteWriter to;
  to.number(made_from.size());
  to.bytes(made_from);
  return to;
}

ByteReader opened(EntryBytes entry, EntryBytes made_from) {
  ByteReader from(entry);
  from.require(std::ranges::equal(from.bytes(from.count()), made_from), "it was compiled from another graph");
  return from;
}

}  // namespace

std::vector<std::byte> made_from(const Program& program, const Program& graph, const Hardware& hardware,
                                 const StateTensors& state_tensors) {
  ByteWriter to;
  to.text(kExecutableFormat);
  write_hardware(to, hardware);
  write_state_tensors(to, state_tensors);
  write_program(to, program);
  write_program(to, graph);
  return to.take();
}

std::vector<std::byte> made_from(const GraphIdentity& graph, const Hardware& hardware,
                                 const StateTensors& state_tensors) {
  ByteWriter to;
  to.text(kGraphFormat);
  write_hardware(to, hardware);
  write_state_tensors(to, state_tensors);
  to.number(graph.signature.size());
  for (const int64_t word : graph.signature) to.integer(word);
  to.number(graph.absent.size());
  for (const int32_t state : graph.absent) to.integer(state);
  write_program(to, *graph.program);
  return to.take();
}

std::vector<std::byte> entry_of(EntryBytes made_from, const ExecutableEntry& executable) {
  ByteWriter to = begun_entry(made_from);
  to.number(executable.warnings.size());
  for (const std::string& text : executable.warnings) to.text(text);
  write_program(to, executable.image.program);
  to.number(executable.image.offsets.size());
  for (const size_t offset : executable.image.offsets) to.number(offset);
  return to.take();
}

ExecutableEntry read_executable(EntryBytes entry, EntryBytes made_from, const Program& program) {
  ByteReader from = opened(entry, made_from);
  ExecutableEntry executable;
  executable.warnings.resize(from.count());
  for (std::string& text : executable.warnings) text = from.text();
  executable.image.program = read_program(from, program);
  executable.image.offsets.resize(from.count());
  for (size_t& offset : executable.image.offsets) offset = from.number();
  from.end();
  return executable;
}

std::vector<std::byte> entry_of(EntryBytes made_from, const GraphPrediction& prediction) {
  ByteWriter to = begun_entry(made_from);
  for (const int64_t number :
       {prediction.hbm_bytes, prediction.unpadded_bytes, prediction.padded_bytes, prediction.flops, prediction.bytes})
    to.integer(number);
  to.real(prediction.least_seconds);
  to.real(prediction.most_seconds);
  to.text(prediction.formula);
  return to.take();
}

GraphPrediction read_prediction(EntryBytes entry, EntryBytes made_from) {
  ByteReader from = opened(entry, made_from);
  GraphPrediction prediction;
  for (int64_t* number : {&prediction.hbm_bytes, &prediction.unpadded_bytes, &prediction.padded_bytes,
                          &prediction.flops, &prediction.bytes})
    *number = from.integer();
  prediction.least_seconds = from.real();
  prediction.most_seconds = from.real();
  prediction.formula = from.text();
  from.end();
  return prediction;
}

}  // namespace runner::backends::tpu
