// The JSON document of the host's state in a checkpoint, of this version and of older ones.
#include "runner/train/run/checkpoint/run_document.h"

#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

// `counters`: members of the document.
store::LoadedState state_of(int version, const std::string& counters) {
  data::Encoding encoding;
  encoding.feature_shape = {4};
  std::string text;
  for (const char c : encoding.to_json()) text += c == '"' ? std::string("\\\"") : std::string(1, c);
  const std::string document = fmt::format(
      R"({{"version": {}, "epoch": 1, "batch": 2, "windows": 9, "applied": 8, "samples": 100, {}
          "plateau": {{"best": null, "bad_evaluations": 0, "cooldown": 0, "factor": "1"}},
          "early_stopping": {{"best": null, "evaluations": 0}}, "encoding": "{}", "train_data": "", "eval_data": ""}})",
      version, counters, text);
  store::LoadedState loaded;
  loaded.info.id = 7;
  loaded.sections.push_back({"run", "", std::vector<std::byte>(document.size())});
  std::memcpy(loaded.sections[0].bytes.data(), document.data(), document.size());
  return loaded;
}

using Updates = std::map<std::string, int64_t>;

TEST(RunStateOf, ReadsCounters) {
  const Counters counters = checkpoint_of(state_of(2, R"("batches": 40, "scheduled": 5, "updates": {"a": 3, "b": 0},
                                                        "update_was_skipped": true, )"),
                                          {"a", "b"})
                                .counters;
  EXPECT_EQ(counters, (Counters{9, 8, 100, 40, 5, Updates{{"a", 3}, {"b", 0}}, true}));
}

// The first versions had none of these counters, later ones had an offset, the last ones a list.
TEST(RunStateOf, ReadsOlderDocuments) {
  const auto read = [](const std::string& counters, const std::vector<std::string>& optimizers) {
    return checkpoint_of(state_of(1, counters), optimizers).counters;
  };
  EXPECT_EQ(read("", {""}), (Counters{9, 8, 100, 0, 8, Updates{{"", 8}}}));
  EXPECT_EQ(read(R"("slot_offset": 15, "updates": [], "scheduled": 0, )", {""}),
            (Counters{9, 8, 100, 0, 8, Updates{{"", 23}}}));
  EXPECT_EQ(read(R"("slot_offset": 0, "updates": [3, 9], "scheduled": 4, )", {"a", "b"}),
            (Counters{9, 8, 100, 0, 4, Updates{{"a", 3}, {"b", 9}}}));
  EXPECT_EQ(read(R"("slot_offset": 0, "updates": [3, 9], "scheduled": 4, )", {""}),
            (Counters{9, 8, 100, 0, 4, Updates{{"", 8}}}));
}

TEST(RunStateOf, RejectsUnknownDocuments) {
  const auto error = [](const store::LoadedState& state) {
    try {
      checkpoint_of(state, {""});
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("none");
  };
  EXPECT_EQ(error(state_of(5, "")), "state 7 was written by a newer version of runner");
  EXPECT_EQ(error(state_of(2, "")), "state 7: the section run is damaged or was written by another version of runner");
  EXPECT_EQ(error(state_of(1, R"("updates": {"a": 3}, )")),
            "state 7: the section run is damaged or was written by another version of runner");
}

}  // namespace
}  // namespace runner::train
