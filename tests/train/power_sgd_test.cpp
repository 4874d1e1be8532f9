// PowerSGD against torch.distributed's hooks with two processes.
#include "runner/train/step/power_sgd.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/golden/golden.h"
#include "tests/train/array_values.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

using backends::SharedMemoryGroup;
using backends::testing::on_threads;
using testing::Golden;

constexpr const char* kPowerSgd = R"(schema_version: 1
seed: 3
model: {type: mlp, hidden: [16, 20], activation: tanh}
data: {train: {format: csv, path: data.csv, label: label}, batch_size: 8, shuffle: false}
optimizer: {type: sgd, lr: 0.3, momentum: 0.9}
train: {epochs: 1}
num_processes: 2
threads: 1
)";

class PowerSgdTest : public RunFixture {
 protected:
  PowerSgdTest() : file_(Golden::load("power_sgd.json")) {
    const auto x = file_["x"].tensor();
    const auto labels = file_["labels"].tensor().as<int64_t>();
    const auto width = static_cast<size_t>(x.shape[1]);
    std::string text;
    for (size_t i = 0; i < width; ++i) text += fmt::format("x{},", i);
    text += "label\n";
    for (size_t i = 0; i < labels.size(); ++i)
      text += fmt::format("{:.9g},{}\n", fmt::join(std::span(x.values).subspan(i * width, width), ","), labels[i]);
    write("data.csv", text);
    write("recipe.yaml", kPowerSgd);
  }

  static std::vector<std::string> overrides_of(const Golden& item) {
    std::vector<std::string> overrides;
    const Golden comm = item["comm"];
    for (const std::string& key : comm.keys()) {
      const bool is_text = key == "hook" || key == "wrapper";
      overrides.push_back(fmt::format("comm.{}={}", key,
                                      is_text                   ? comm[key].text()
                                      : key == "error_feedback" ? std::string(comm[key].flag() ? "true" : "false")
                                                                : fmt::format("{}", comm[key].number())));
    }
    return overrides;
  }

  // Writes the golden file's parameters and Qs. Rank 0 writes them for all ranks.
  void begin_as(const Golden& item, Session& session) const {
    Trainer& trainer = session.trainer;
    const nn::ParameterSet& parameters = trainer.model().parameters;
    ASSERT_EQ(parameters.buffers().size(), 1u);
    std::vector<float> values(static_cast<size_t>(parameters.buffers()[0].elements));
    for (const nn::Parameter& p : parameters.parameters()) {
      const auto initial = file_["initial"][p.name].tensor().as<float>();
      std::ranges::copy(initial, values.begin() + p.offset);
    }
    trainer.arrays().write(trainer.layout().find(ArrayRole::kParameters), std::as_bytes(std::span(values)));
    std::vector<float> qs;
    for (const LowRankMatrix& matrix : low_rank_matrices(session.recipe.comm, parameters, 0)) {
      const auto q = item["q"][matrix.name].tensor().as<float>();
      ASSERT_EQ(std::ssize(q), matrix.columns * matrix.rank);
      ASSERT_EQ(std::ssize(qs), matrix.q_offset);
      qs.insert(qs.end(), q.begin(), q.end());
    }
    ASSERT_EQ(item["q"].keys().size(), low_rank_matrices(session.recipe.comm, parameters, 0).size());
    trainer.arrays().write(trainer.layout().find(ArrayRole::kCompression, 0, kQs), std::as_bytes(std::span(qs)));
  }

  struct Trained {
    std::vector<double> losses;
    std::vector<float> parameters;
  };

  Trained train_rank(const schema::Recipe& recipe, const Golden& item, backends::ProcessGroup* ranks) const {
    Session session(recipe, nullptr, ranks);
    session.trainer.allocate();
    session.trainer.step_memory().prepare({.batch = session.plan.slice(session.rank(), 0).size()});
    begin_as(item, session);
    if (ranks != nullptr) ranks->barrier({"what all begin with"});
    data::Loader loader(session.data.train, session.plan,
                        {.shuffle = false, .seed = 3, .rank = session.rank(), .prefetch = 0});
    Trained result;
    for (int64_t step = 0; step < session.length.total_steps; ++step) {
      EXPECT_TRUE(session.trainer.stepper().run(loader, session.rates()).finite);
      result.losses.push_back(session.trainer.means().take_loss());
    }
    result.parameters = array_of<float>(session.trainer, ArrayRole::kParameters);
    return result;
  }

  // By rank.
  std::vector<Trained> train_all(const Golden& item, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> overrides = overrides_of(item);
    for (const std::string& one : more) {
      std::erase_if(overrides, [&](const std::string& other) {
        return other.substr(0, other.find('=')) == one.substr(0, one.find('='));
      });
      overrides.push_back(one);
    }
    overrides.push_back("data.train.path=" + path("data.csv").string());
    const schema::ReadResult read = schema::read_recipe(path("recipe.yaml").string(), overrides);
    const auto size = static_cast<int>(read.recipe.num_processes);
    std::vector<Trained> results(static_cast<size_t>(size));
    on_threads(size, [&](SharedMemoryGroup& ranks) {
      results[static_cast<size_t>(ranks.rank())] = train_rank(read.recipe, item, &ranks);
    });
    return results;
  }

  // Compares with the final parameters, which a Sequential stores in order.
  void expect_parameters(const Golden& item, const std::vector<float>& got, double tolerance) const {
    size_t offset = 0;
    for (const char* name : {"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"}) {
      const auto want = item["final"][name].tensor().as<double>();
      double worst = 0;
      for (size_t i = 0; i < want.size(); ++i)
        worst = std::max(worst, std::fabs(static_cast<double>(got[offset + i]) - want[i]));
      EXPECT_LT(worst, tolerance) << name;
      offset += want.size();
    }
    EXPECT_EQ(offset, got.size());
  }

  const Golden file_;
};

TEST_F(PowerSgdTest, EveryStepMatchesPyTorch) {
  for (const Golden& item : file_.cases()) {
    SCOPED_TRACE(item.name());
    const bool half = item["comm"].has("wrapper");
    const double tolerance = !half ? 1e-5 : item["comm"]["wrapper"].text() == "fp16" ? 2e-3 : 2e-2;
    const std::vector<Trained> ranks = train_all(item);
    const auto losses = item["loss"].numbers();
    ASSERT_EQ(ranks[0].losses.size(), losses.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(ranks[0].losses[i], losses[i], tolerance) << "step " << i;
    expect_parameters(item, ranks[0].parameters, tolerance);
    EXPECT_EQ(ranks[0].losses, ranks[1].losses);
    EXPECT_EQ(ranks[0].parameters, ranks[1].parameters);
  }
}

// The sum over ranks is compressed, for any number of ranks.
TEST_F(PowerSgdTest, DoesNotDependOnTheNumberOfRanks) {
  for (const Golden& item : file_.cases()) {
    if (item["comm"].has("wrapper")) continue;
    for (const int size : {4, 8}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", item.name(), size));
      const std::vector<Trained> ranks =
          train_all(item, {fmt::format("num_processes={}", size), fmt::format("data.batch_size={}", 16 / size)});
      expect_parameters(item, ranks[0].parameters, 1e-5);
    }
  }
}

// The sum of an optimizer step is compressed once.
TEST_F(PowerSgdTest, DoesNotDependOnAccumulation) {
  struct Cut {
    int processes, batches;  // of an optimizer step of 16 samples
    bool each;
  };
  for (const Golden& item : file_.cases()) {
    if (item["comm"].has("wrapper")) continue;
    for (const auto& [processes, batches, each] :
         {Cut{2, 8, false}, Cut{2, 16, false}, Cut{4, 16, false}, Cut{2, 4, true}, Cut{3, 16, true}}) {
      SCOPED_TRACE(fmt::format("{}, {} processes, {} batches{}", item.name(), processes, batches,
                               each ? ", each added up" : ""));
      const std::vector<Trained> ranks = train_all(
          item, {fmt::format("num_processes={}", processes), "split_batches=true",
                 fmt::format("data.batch_size={}", 16 / batches),
                 fmt::format("gradient_accumulation_steps={}", batches), fmt::format("sync_each_batch={}", each)});
      const auto losses = item["loss"].numbers();
      ASSERT_EQ(ranks[0].losses.size(), losses.size());
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(ranks[0].losses[i], losses[i], 1e-5) << "step " << i;
      expect_parameters(item, ranks[0].parameters, 1e-5);
      for (const Trained& rank : ranks) EXPECT_EQ(rank.parameters, ranks[0].parameters);
    }
  }
}

// Uncompressed gradients would not match the golden values.
TEST_F(PowerSgdTest, DiffersFromUncompressedGradients) {
  const Golden item = file_.cases().front();
  const std::vector<Trained> whole = train_all(item, {"comm.start=1000"}), compressed = train_all(item);
  EXPECT_EQ(std::vector(whole[0].losses.begin(), whole[0].losses.begin() + 4),
            std::vector(compressed[0].losses.begin(), compressed[0].losses.begin() + 4));
  EXPECT_GT(std::fabs(whole[0].losses.back() - compressed[0].losses.back()), 1e-3);
}

}  // namespace
}  // namespace runner::train
