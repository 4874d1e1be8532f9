// The definitions of data formats against the fields of the recipe.
#include "runner/data/data_format.h"

#include <algorithm>
#include <vector>

#include "schema/recipe/field_table.h"
#include "tests/data/files.h"

namespace runner::data {
namespace {

using DataFormatTest = FileTest;
using Names = std::vector<std::string>;

Names sorted(Names names) {
  std::sort(names.begin(), names.end());
  return names;
}

// The formats for which a field exists.
Names formats_of(const schema::Field& field) {
  Names formats;
  for (const schema::Condition& condition : field.when)
    if (condition.path == "data.train.format")
      formats.insert(formats.end(), condition.values.begin(), condition.values.end());
  return sorted(formats);
}

TEST_F(DataFormatTest, EachChoiceHasADefinition) {
  Names choices, defined;
  for (const schema::Choice& choice : schema::find_fields("data.train.format")[0].choices)
    choices.emplace_back(choice.name);
  for (const DataFormatDef* def : all_data_formats()) {
    defined.emplace_back(name_of(def->format));
    EXPECT_EQ(&definition_of(def->format), def);
  }
  EXPECT_EQ(sorted(defined), sorted(choices));
}

TEST_F(DataFormatTest, SourcesAreThePathsOfTheRecipe) {
  for (const DataFormatDef* def : all_data_formats()) {
    const std::string name(name_of(def->format));
    Names paths, keys;
    for (const schema::Field& field : schema::fields_of("data.train")) {
      const Names formats = formats_of(field);
      const bool is_tokenizer = !field.choices.empty();
      if (field.type == schema::FieldType::kPath && !is_tokenizer && std::ranges::count(formats, name) > 0)
        paths.emplace_back(field.name);
    }
    for (const schema::Field& field : schema::fields_of("data.train.inputs"))  // of npy
      if (name == "npy") paths.push_back("inputs." + std::string(field.name));
    const std::span<const Source> sources = def->sources;
    for (const Source& source : sources) keys.emplace_back(std::string_view(source.key));
    EXPECT_EQ(sorted(keys), sorted(paths)) << name;
  }
}

TEST_F(DataFormatTest, RecipesMayStreamTheFormatsThatCan) {
  Names streamed;
  for (const DataFormatDef* def : all_data_formats())
    if (def->stream != nullptr) streamed.emplace_back(name_of(def->format));
  EXPECT_EQ(sorted(streamed), formats_of(schema::find_fields("data.stream")[0]));
}

TEST_F(DataFormatTest, PathsOfAnotherFile) {
  const auto paths = [](schema::DataFormat format, std::string_view text, bool predicts) {
    schema::DatasetSpec spec;
    spec.format = format;
    set_paths(spec, text, predicts);
    return Names{spec.path, spec.features_file, spec.labels_file};
  };
  EXPECT_EQ(paths(schema::DataFormat::kCsv, "a,b.csv", false), (Names{"a,b.csv", "", ""}));
  EXPECT_EQ(paths(schema::DataFormat::kIdx, "f,l", false), (Names{"", "f", "l"}));
  EXPECT_EQ(paths(schema::DataFormat::kNpy, "f", true), (Names{"", "f", ""}));
  EXPECT_EQ(message_of([&] { paths(schema::DataFormat::kNpy, "f", false); }), "f has no labels; give FEATURES,LABELS");
  EXPECT_EQ(message_of([&] { paths(schema::DataFormat::kSynthetic, "f", true); }),
            "the run's data is synthetic, so it has no file format to read f with");
}

}  // namespace
}  // namespace runner::data
