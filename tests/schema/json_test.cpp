#include "schema/base/json.h"

#include <cmath>

#include <gtest/gtest.h>

namespace runner::json {
namespace {

const Object kObject{{"number", 1.0},
                     {"tiny", 1e-08},
                     {"nan", NAN},
                     {"integer", int64_t{-5}},
                     {"flags", List{true, false, Value()}},
                     {"a \"key\"\n", std::string("é \\ \x01 \xFF \x7F")},
                     {"empty", Object{}},
                     {"none", List{}}};
const std::string kLine =
    "{\"number\":1.0,\"tiny\":1e-08,\"nan\":null,\"integer\":-5,\"flags\":[true,false,null],"
    "\"a \\\"key\\\"\\n\":\"é \\\\ \\u0001 \uFFFD \x7F\",\"empty\":{},\"none\":[]}";

TEST(Json, ALineHasEveryKindOfValue) {
  EXPECT_EQ(line(kObject), kLine + "\n");
  EXPECT_EQ(compact(kObject), kLine);
  EXPECT_EQ(line(Value()), "null\n");
}

TEST(Json, AListHasAnElementOnEachLine) {
  EXPECT_EQ(text(List{kObject, int64_t{1}, "x"}), "[\n " + kLine + ",\n 1,\n \"x\"\n]\n");
  EXPECT_EQ(text(List{}), "[]\n");
  EXPECT_EQ(list_text(2,
                      [](size_t i) {
                        return Object{{"i", static_cast<int64_t>(i)}};
                      }),
            "[\n {\"i\":0},\n {\"i\":1}\n]\n");
  EXPECT_EQ(list_text(0, [](size_t) { return Value(); }), "[]\n");
}

TEST(Json, AnObjectIsIndented) {
  EXPECT_EQ(text(Object{{"a", int64_t{1}}, {"b", List{"x"}}}), "{\n  \"a\": 1,\n  \"b\": [\n    \"x\"\n  ]\n}\n");
}

}  // namespace
}  // namespace runner::json
