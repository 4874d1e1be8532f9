// The chunks of a PNG file, and the metadata that they contain. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "runner/images/orientation.h"

namespace runner::images {

// Chunks in the order of the file. Checksums are not verified.
class PngChunks {
 public:
  // `file`: a whole file, with its signature.
  explicit PngChunks(std::string_view file);

  // Returns false at the end of the file or before a chunk that is not complete.
  bool next();
  std::string_view type() const { return type_; }
  std::string_view data() const { return data_; }

 private:
  std::string_view rest_, type_, data_;
};

// Returns the EXIF and XMP of a file: of the chunks eXIf, iTXt with the keyword XML:com.adobe.xmp, and tEXt and zTXt
// with the keyword "Raw profile type exif", in which ImageMagick writes EXIF in hexadecimal. eXIf precedes raw
// profiles.
Metadata metadata_of_png(std::string_view file);

}  // namespace runner::images
