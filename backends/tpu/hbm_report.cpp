#include <fmt/format.h>

#include "backends/ir/print.h"
#include "backends/tpu/hbm.h"
#include "backends/tpu/hbm_advice.h"

namespace runner::backends::tpu {
namespace {

constexpr size_t kLargest = 10;

std::string row_text(std::string_view name, int64_t bytes) {
  return fmt::format("    {:<14}{:>9}", name, xla_size_text(bytes));
}

double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 100 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string totals_text(const HbmPlan& plan) {
  const int64_t returned = plan.outputs - plan.aliased;
  std::string text = fmt::format("Total hbm usage >= {}:\n", xla_size_text(plan.peak()));
  text += row_text("reserved", plan.reserved) + "\n";
  text += row_text("program", plan.code + plan.temporaries) + "\n";
  text += row_text("arguments", plan.arguments) + "\n";
  if (returned > 0) text += row_text("outputs", returned) + "\n";
  if (plan.prefetched > 0) text += row_text("prefetched", plan.prefetched) + "\n";
  return text + fmt::format("\nOutput size {}; shares {} with arguments.\n", xla_size_text(plan.outputs),
                            xla_size_text(plan.aliased));
}

std::string program_text(const HbmPlan& plan) {
  const int64_t lost = plan.temporaries - plan.peak_bytes;
  return fmt::format(
      "Program hbm requirement {}:\n{} (estimated)\n{} ({:.1f}% utilization: Unpadded ({}) Padded ({}), {:.1f}% "
      "fragmentation ({}))\n",
      xla_size_text(plan.code + plan.temporaries), row_text("code", plan.code), row_text("HLO temp", plan.temporaries),
      percent(plan.peak_unpadded, plan.peak_bytes), xla_size_text(plan.peak_unpadded), xla_size_text(plan.peak_bytes),
      lost == 0 ? 0 : percent(lost, plan.temporaries), xla_size_text(lost));
}

std::string operator_text(const Program& program, ValueId id) {
  std::string text = fmt::format("op_type=\"{}\"", name_of(program.node(id).op));
  if (const Input* const input = program.input_of(id)) text += fmt::format(" op_name=\"{}\"", input->name);
  const SourceMark& where = program.mark_of(id);
  if (where.known()) text += fmt::format(" source_file=\"{}\" source_line={}", where.file, where.line);
  return text;
}

std::string buffer_text(const Program& program, const HbmBuffer& buffer, size_t number) {
  constexpr std::string_view kTypes[] = {"argument", "output", "HLO temp"};
  const DeviceTensor& tensor = buffer.tensor;
  std::string text =
      fmt::format("  {}. Size: {}\n     Operator: {}\n     Shape: {}{}\n     Unpadded size: {}\n", number,
                  xla_size_text(buffer.padded()), operator_text(program, tensor.value), hlo_text(tensor.type),
                  hlo_text(tensor.type, tensor.layout), xla_size_text(tensor.unpadded()));
  if (buffer.padding() > 0)
    text += fmt::format("     Extra memory due to padding: {} ({:.1f}x expansion)\n", xla_size_text(buffer.padding()),
                        expansion(tensor.type, tensor.layout));
  return text + fmt::format("     XLA label: {}\n     Allocation type: {}\n     ==========================\n\n",
                            to_string(program, tensor.value), kTypes[static_cast<size_t>(buffer.allocation)]);
}

}  // namespace

std::string xla_size_text(int64_t bytes) {
  constexpr int64_t kK = 1024;
  const auto value = static_cast<double>(bytes);
  if (bytes < kK) return fmt::format("{}B", bytes);
  if (bytes < kK * kK) return fmt::format("{:.1f}K", value / kK);
  if (bytes < kK * kK * kK) return fmt::format("{:.2f}M", value / (kK * kK));
  return fmt::format("{:.2f}G", value / (kK * kK * kK));
}

std::string resource_exhausted_text(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan) {
  std::string text = fmt::format(
      "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used {} of {} hbm. Exceeded hbm capacity by {}.\n\n",
      xla_size_text(plan.used()), xla_size_text(plan.usable()), xla_size_text(plan.used() - plan.usable()));
  text += totals_text(plan) + "\n" + program_text(plan) + "\n  Largest program allocations in hbm:\n\n";
  size_t number = 0;
  for (const HbmBuffer& buffer : largest_at_peak(plan, kLargest)) text += buffer_text(device.program, buffer, ++number);
  const Advice advice = first_thing_to_change(device, options, plan);
  return text + fmt::format("First thing to change: {} (saves about {})", advice.text, xla_size_text(advice.saving));
}

}  // namespace runner::backends::tpu
