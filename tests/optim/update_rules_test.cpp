// Optimizers against torch.optim over ten steps, in f32 and f64 (lion: against the paper's algorithm).

#include "runner/optim/update_rules.h"

#include <cmath>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/ir/ops.h"
#include "backends/tensor/float16.h"
#include "tests/golden/golden.h"
#include "tests/optim/golden_optimizer.h"

namespace runner::optim {
namespace {

using backends::DType;
using backends::InputKind;
using backends::Program;
using backends::Shape;
using testing::Golden;

// One flat group on a device that concatenates both tensors of the golden file.
class Group {
 public:
  Group(Rule rule, DType dtype, const std::vector<double>& start)
      : rule_(std::move(rule)), dtype_(dtype), device_(backends::make_cpu_device(1)) {
    const backends::TensorType flat{dtype, Shape{std::ssize(start)}};
    Program program;
    const auto input = [&](InputKind kind, std::string name, const backends::TensorType& t) {
      return Value{&program, program.input(kind, std::move(name), t)};
    };
    const Value parameters = input(InputKind::kState, "parameters", flat);
    arrays_.push_back(make_array(start));
    std::vector<Value> slot_values;
    for (const Slot& slot : slots(rule_)) {
      slot_values.push_back(input(InputKind::kState, std::string(slot.name), flat));
      arrays_.push_back(make_array(std::vector<double>(start.size(), slot.initial)));
    }
    const Value gradient = input(InputKind::kBatch, "gradient", flat);
    std::vector<Value> scalars;
    for (const std::string_view name : scalar_names(rule_))
      scalars.push_back(input(InputKind::kScalar, std::string(name), {dtype, {}}));
    const Updated now = update(rule_, parameters, gradient, slot_values, scalars);
    program.output("parameters", now.parameters.id, 0);
    for (size_t s = 0; s < slot_values.size(); ++s)
      program.output("slot", now.slots[s].id, static_cast<int32_t>(s) + 1);
    step_ = device_->compile(program);
    scalars_.resize(scalars.size());
  }

  void step(const std::vector<double>& gradient, const StepRates& rates, int64_t number) {
    step_scalars(rule_, rates, number, scalars_);
    const std::vector<std::byte> bytes = encode(gradient);
    const std::byte* batch[] = {bytes.data()};
    std::vector<backends::Buffer*> states;
    for (const auto& array : arrays_) states.push_back(array.get());
    device_->submit(*step_, {.states = states, .batch = batch, .scalars = scalars_});
  }

  std::vector<double> contents(size_t array) {
    std::vector<std::byte> bytes(arrays_[array]->bytes());
    device_->read(*arrays_[array], 0, bytes);
    std::vector<double> values;
    for (size_t i = 0; i < bytes.size(); i += size_of(dtype_))
      values.push_back(backends::load_element(dtype_, bytes.data() + i));
    return values;
  }

 private:
  std::vector<std::byte> encode(const std::vector<double>& values) const {
    std::vector<std::byte> bytes(values.size() * size_of(dtype_));
    for (size_t i = 0; i < values.size(); ++i)
      backends::store_element(dtype_, values[i], bytes.data() + i * size_of(dtype_));
    return bytes;
  }

  std::shared_ptr<backends::Buffer> make_array(const std::vector<double>& values) {
    auto array = device_->allocate(values.size() * size_of(dtype_));
    device_->write(*array, 0, encode(values));
    return array;
  }

  const Rule rule_;
  const DType dtype_;
  std::unique_ptr<backends::Device> device_;
  std::vector<std::shared_ptr<backends::Buffer>> arrays_;
  std::shared_ptr<backends::Executable> step_;
  std::vector<double> scalars_;
};

std::vector<double> joined(const Golden& tensors) {
  std::vector<double> all;
  for (const Golden& tensor : tensors.items())
    for (const double value : tensor.numbers()) all.push_back(value);
  return all;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::fabs(want[i]))) << "element " << i;
}

std::optional<WeightAverage> average_of(const Golden& item) {
  if (!item.has("average")) return std::nullopt;
  const Golden written = item["average"];
  if (written.has("decay")) return WeightAverage{.decay = written["decay"].number()};
  return WeightAverage{.decay = std::nullopt, .start = written["start"].integer(), .every = written["every"].integer()};
}

TEST(UpdateRules, TenStepsMatchTorch) {
  const Golden file = Golden::load("optimizers.json");
  std::vector<double> start;
  for (const Golden& tensor : file["params"].items())
    for (const float value : tensor.tensor().as<float>()) start.push_back(static_cast<double>(value));
  for (const Golden& item : file.cases()) {
    SCOPED_TRACE(item.name());
    const schema::OptimizerType type = optimizer_type_of(item["optimizer"].text());
    const Rule rule{.type = type, .hyper = hyper_of(item, type), .average = average_of(item)};
    const bool f64 = item["dtype"].text() == "f64";
    Group group(rule, f64 ? DType::kF64 : DType::kF32, start);
    const std::vector<Slot> slot_list = slots(rule);
    const auto per_step = [&](const char* key, size_t step, double otherwise) {
      return item["per_step"].has(key) ? item["per_step"][key].numbers()[step] : otherwise;
    };
    const bool momentum = type == schema::OptimizerType::kSgd || type == schema::OptimizerType::kRmsprop;
    const char* moved = momentum ? "momentum" : "beta1";
    const double tolerance = f64 ? 1e-12 : 2e-6;
    const std::vector<Golden> steps = item["steps"].items();
    for (size_t i = 0; i < steps.size(); ++i) {
      SCOPED_TRACE("step " + std::to_string(i + 1));
      const StepRates rates{per_step("lr", i, rule.hyper.lr), per_step(moved, i, base_momentum(rule))};
      std::vector<double> gradient = joined(file["grads"].items()[i]);
      for (double& value : gradient) value = static_cast<double>(static_cast<float>(value));  // rounded as in the file
      group.step(gradient, rates, static_cast<int64_t>(i) + 1);
      expect_near(group.contents(0), joined(steps[i]["params"]), tolerance);
      for (size_t s = 0; s < slot_list.size(); ++s)
        expect_near(group.contents(s + 1), joined(steps[i]["slots"][std::string(slot_list[s].name)]), tolerance);
    }
  }
}

}  // namespace
}  // namespace runner::optim
