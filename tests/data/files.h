// Recipe sections that name the files of a test.
#pragma once

#include "schema/recipe/recipe.h"
#include "tests/formats/files.h"

namespace runner::data {

using formats::bytes_of;
using formats::FileTest;
using formats::gzip;

inline schema::DatasetSpec csv_spec(const std::string& path) {
  schema::DatasetSpec spec;
  spec.format = schema::DataFormat::kCsv;
  spec.path = path;
  return spec;
}

inline schema::DatasetSpec file_spec(schema::DataFormat format, const std::string& features,
                                     const std::string& labels) {
  schema::DatasetSpec spec;
  spec.format = format;
  spec.features_file = features;
  spec.labels_file = labels;
  return spec;
}

}  // namespace runner::data
