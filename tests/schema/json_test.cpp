#include "schema/base/json.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/support/thrown_text.h"

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
    "\"a \\\"key\\\"\\n\":\"é \\\\ \\u0001 \uFFFD \\u007f\",\"empty\":{},\"none\":[]}";

TEST(Json, LineOfEveryKindOfValue) {
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

TEST(Json, RoundTrips) {
  EXPECT_EQ(parse(kLine), parse(text(parse(kLine))));
  EXPECT_TRUE(parse("{").is_null());
  EXPECT_TRUE(parse("").is_null());
}

TEST(Json, RejectsDeepNesting) {
  const auto nested = [](size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_NE(parse(nested(100)).list(), nullptr);
  EXPECT_TRUE(parse(nested(1000)).is_null());
  EXPECT_TRUE(parse(nested(1'000'000)).is_null());
}

std::string error_of(const std::function<void()>& read) {
  return support::thrown_text(read, ErrorKind::kStore);
}

TEST(ObjectReader, ReadsMembers) {
  const Value document =
      parse(R"({"on": true, "n": 3, "name": "x", "ns": [1, 2], "xs": [1, 2.5], "names": ["a"], "none": []})");
  const ObjectReader reader(document);
  EXPECT_TRUE(reader.boolean("on"));
  EXPECT_EQ(reader.integer("n"), 3);
  EXPECT_EQ(reader.integer("missing", 7), 7);
  EXPECT_EQ(reader.text("name"), "x");
  EXPECT_EQ(reader.integers("ns"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(reader.numbers("xs"), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(reader.texts("names"), std::vector<std::string>{"a"});
  EXPECT_TRUE(reader.texts("none").empty());
  EXPECT_EQ(reader.find("missing"), nullptr);
}

TEST(ObjectReader, ErrorNamesTheWrongMember) {
  const Value document = parse(R"({"n": "3", "ns": [1, "2"], "x": 1.5})");
  const ObjectReader reader(document);
  EXPECT_EQ(error_of([&] { reader.integer("missing"); }), "missing is missing");
  EXPECT_EQ(error_of([&] { reader.integer("n"); }), "n is \"3\", expected an integer");
  EXPECT_EQ(error_of([&] { reader.integer("n", 7); }), "n is \"3\", expected an integer");
  EXPECT_EQ(error_of([&] { reader.integer("x"); }), "x is 1.5, expected an integer");
  EXPECT_EQ(error_of([&] { reader.boolean("n"); }), "n is \"3\", expected true or false");
  EXPECT_EQ(error_of([&] { reader.integers("n"); }), "n is \"3\", expected a list of integers");
  EXPECT_EQ(error_of([&] { reader.integers("ns"); }), "ns has \"2\", expected a list of integers");
  EXPECT_EQ(error_of([&] { const ObjectReader list(parse("[1]")); }), "expected a JSON object, got [1]");
}

}  // namespace
}  // namespace runner::json
