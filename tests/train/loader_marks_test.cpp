// Step marks of the loader, against a transcription of PyTorch/XLA's.
#include "runner/train/engine/loader_marks.h"

#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/backends/support/inert_device.h"

namespace runner::train {
namespace {

// Writes "|" for each step mark.
class MarkWriter final : public backends::DeviceModel {
 public:
  explicit MarkWriter(std::string& text) : text_(text) {}

  bool traces_graphs() const override { return true; }
  std::optional<int64_t> memory_limit() const override { return std::nullopt; }
  void on_host_event(backends::HostEvent event, int64_t times) override {
    EXPECT_EQ(event, backends::HostEvent::kStepMark);
    text_.append(static_cast<size_t>(times), '|');
  }

 private:
  std::string& text_;
};

schema::Recipe recipe_with(schema::TpuDialect dialect, int64_t batches_per_execution) {
  schema::Recipe recipe;
  recipe.tpu.dialect = dialect;
  recipe.tpu.auto_mark_step = true;
  recipe.tpu.batches_per_execution = batches_per_execution;
  return recipe;
}

// The calls of one object, as text: "t" and "e" for a training and an evaluation batch, "|" for a mark.
class MarkedLoader {
 public:
  explicit MarkedLoader(const schema::Recipe& recipe)
      : recipe_(recipe),
        device_(std::make_shared<backends::testing::InertDevice>(), std::make_unique<MarkWriter>(text_)),
        marks_(recipe_, device_) {}

  void read(bool training, int64_t batches) {
    for (int64_t batch = 0; batch < batches; ++batch) {
      marks_.begin_batch(training);
      text_ += training ? 't' : 'e';
    }
  }
  void end(bool training) { marks_.end_batches(training); }
  const std::string& text() const { return text_; }

 private:
  const schema::Recipe recipe_;
  std::string text_;
  backends::ModelledDevice device_;
  LoaderMarks marks_;
};

// An epoch of PerDeviceLoader.next() in torch_xla/distributed/parallel_loader.py, version 2. Version 1.7 has no mark
// after the last item.
std::string epoch_of_torch_xla(int64_t batches, int64_t batches_per_execution, bool marks_after_data) {
  std::string text;
  int64_t count = 0, left = batches;
  while (true) {
    if (count + 1 == batches_per_execution) {
      text += '|';
      count = 0;
    } else {
      ++count;
    }
    if (left-- == 0) break;
    text += 't';
  }
  return marks_after_data ? text + '|' : text;
}

TEST(LoaderMarks, AreThoseOfPyTorchXla) {
  for (const auto dialect : {schema::TpuDialect::kXla2X, schema::TpuDialect::kXla1_7})
    for (int64_t per_execution = 1; per_execution <= 4; ++per_execution)
      for (int64_t batches = 0; batches <= 9; ++batches) {
        MarkedLoader loader(recipe_with(dialect, per_execution));
        std::string expected;
        for (int epoch = 0; epoch < 2; ++epoch) {
          loader.read(true, batches);
          loader.end(true);
          expected += epoch_of_torch_xla(batches, per_execution, dialect == schema::TpuDialect::kXla2X);
        }
        EXPECT_EQ(loader.text(), expected) << batches << " batches, " << per_execution << " per execution";
      }
}

TEST(LoaderMarks, CountEachLoaderSeparately) {
  MarkedLoader loader(recipe_with(schema::TpuDialect::kXla2X, 3));
  loader.read(true, 2);
  loader.read(false, 2);
  loader.end(false);  // its third call marks, and the end of its data does
  loader.read(true, 2);
  EXPECT_EQ(loader.text(), "ttee|||tt");
}

TEST(LoaderMarks, AreAbsentIfTheHookMarks) {
  schema::Recipe recipe = recipe_with(schema::TpuDialect::kXla2X, 1);
  recipe.tpu.auto_mark_step = false;
  MarkedLoader loader(recipe);
  loader.read(true, 3);
  loader.end(true);
  EXPECT_EQ(loader.text(), "ttt");
}

}  // namespace
}  // namespace runner::train
