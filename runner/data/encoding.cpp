#include "runner/data/encoding.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "schema/error.h"

namespace runner::data {

using nlohmann::json;

namespace {

std::vector<int64_t> dims_of(const backends::Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

}  // namespace

std::string Encoding::to_json() const {
  return json{{"feature_shape", dims_of(feature_shape)},
              {"label_kind", static_cast<int>(label_kind)},
              {"outputs", outputs},
              {"class_names", class_names},
              {"feature_names", feature_names},
              {"label_name", label_name},
              {"normalize", static_cast<int>(normalize)},
              {"center", center},
              {"spread", spread},
              {"fill", fill}}
      .dump();
}

Encoding Encoding::from_json(std::string_view text) {
  try {
    const json document = json::parse(text);
    Encoding encoding;
    encoding.feature_shape = backends::Shape(document.at("feature_shape").get<std::vector<int64_t>>());
    encoding.label_kind = static_cast<LabelKind>(document.at("label_kind").get<int>());
    encoding.normalize = static_cast<schema::Normalize>(document.at("normalize").get<int>());
    document.at("outputs").get_to(encoding.outputs);
    document.at("class_names").get_to(encoding.class_names);
    document.at("feature_names").get_to(encoding.feature_names);
    document.at("label_name").get_to(encoding.label_name);
    document.at("center").get_to(encoding.center);
    document.at("spread").get_to(encoding.spread);
    document.at("fill").get_to(encoding.fill);
    return encoding;
  } catch (const std::exception& error) {
    fail(ErrorKind::kStore, "the data encoding is damaged: {}", error.what());
  }
}

}  // namespace runner::data
