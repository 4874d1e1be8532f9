#include "runner/train/run/checkpoint/model_metadata.h"

#include "schema/base/json.h"

namespace runner::train {

formats::Metadata model_metadata(const data::Encoding& encoding, double scale) {
  formats::Metadata metadata{{"format", "pt"}};
  const auto add = [&](const char* key, const auto& list) {
    if (!list.empty()) metadata[key] = json::compact(json::list_of(list));
  };
  if (scale != 1) metadata["scale"] = schema::number_text(scale);
  if (encoding.normalize != schema::Normalize::kNone) metadata["normalize"] = name_of(encoding.normalize);
  add("center", encoding.center);
  add("spread", encoding.spread);
  add("fill", encoding.fill);
  add("features", encoding.feature_names);
  if (!encoding.label_name.empty()) metadata["label"] = encoding.label_name;
  add(encoding.predicts_tokens() ? "characters" : "classes",
      encoding.predicts_tokens() ? encoding.class_names : encoding.classes());
  return metadata;
}

}  // namespace runner::train
