#include "store/artifacts.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "schema/base/clock.h"
#include "schema/base/file.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "store/content.h"
#include "store/log_room.h"
#include "store/state_store.h"

namespace runner::store {
namespace {

bool is_plain_part(std::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::none_of(part.begin(), part.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

}  // namespace

void check_artifact_name(std::string_view name) {
  constexpr size_t kLongest = 255;
  RUN_CHECK(name.size() <= kLongest, ErrorKind::kRun, "artifact name: expected at most {} bytes, got {}", kLongest,
            name.size());
  bool good = true;
  for (size_t at = 0; good && at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    good = is_plain_part(name.substr(at, end - at));
    at = end + 1;
  }
  RUN_CHECK(good, ErrorKind::kRun,
            "invalid artifact name '{}': expected a relative path without empty parts, '.', '..' and control "
            "characters, such as plots/confusion.csv",
            visible(name));
}

namespace {

// Returns the next chunk, at most kStateChunkBytes, or an empty span at the end. Valid until the next call.
using Pieces = std::function<Bytes()>;

Pieces pieces_of(const std::vector<std::byte>& bytes) {
  return [left = Bytes(bytes)]() mutable {
    const Bytes piece = left.first(std::min(left.size(), kStateChunkBytes));
    left = left.subspan(piece.size());
    return piece;
  };
}

[[noreturn]] void fail_unread(const ArtifactHeader& header, const std::filesystem::path& path,
                              const RegularFile& file) {
  fail(ErrorKind::kRun, "cannot read the artifact {} from {}: {}", header.name, path.string(),
       file.other_kind() != nullptr ? "not a regular file" : file.problem());
}

Pieces pieces_of(const ArtifactHeader& header, const std::filesystem::path& path) {
  const auto file = std::make_shared<RegularFile>(path);
  if (!file->is_open()) fail_unread(header, path, *file);
  return [header, path, file, buffer = std::vector<std::byte>(kStateChunkBytes)]() mutable {
    const ssize_t count = file->read(buffer);
    if (count < 0) fail_unread(header, path, *file);
    return Bytes(buffer).first(static_cast<size_t>(count));
  };
}

Pieces pieces_of(const ArtifactHeader& header, const ArtifactSource& source) {
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&source)) return pieces_of(*bytes);
  return pieces_of(header, std::get<std::filesystem::path>(source));
}

int64_t put_artifact(Database& database, const RunHandle& run, const ArtifactInfo& artifact) {
  const ArtifactHeader& header = artifact.header;
  Statement(database,
            "INSERT INTO artifact(run_id, attempt, step, name, kind, meta, bytes, new_bytes, digest, created_ms) "
            "VALUES(?1, ?2, ?3, ?4, ?5, ?6, 0, 0, X'', ?7)")
      .bind(run.id, run.attempt, header.step, header.name, header.kind, header.meta, artifact.created_ms)
      .run();
  return database.last_insert_id();
}

// Writes the chunks and sets the size, the new bytes and the digest of `artifact`.
void put_pieces(Database& database, const Pieces& next, ArtifactInfo& artifact) {
  ContentTable content(database);
  Statement insert(database, "INSERT INTO artifact_content(artifact_id, no, content_id) VALUES(?1, ?2, ?3)");
  Sha256 all;
  int64_t no = 0;
  for (Bytes piece = next(); !piece.empty(); piece = next()) {
    artifact.bytes += static_cast<int64_t>(piece.size());
    RUN_CHECK(artifact.bytes <= kLargestArtifact, ErrorKind::kRun,
              "the artifact {} exceeds the limit of {} bytes; store the file elsewhere and save its name",
              artifact.header.name, kLargestArtifact);
    all.update(piece);
    insert.bind(artifact.id, no++, content.put(sha256(piece), piece)).run();
  }
  artifact.digest = all.finish();
  artifact.new_bytes = content.new_bytes();
  Statement(database, "UPDATE artifact SET bytes = ?2, new_bytes = ?3, digest = ?4 WHERE id = ?1")
      .bind(artifact.id, artifact.bytes, artifact.new_bytes, bytes_of(artifact.digest))
      .run();
}

[[noreturn]] void fail_damaged_artifact(const Store& store, const ArtifactInfo& artifact, std::string_view what) {
  fail(ErrorKind::kStore,
       "artifact {} in {} is damaged: {}; restore the store from a backup, or create the artifact again",
       artifact.header.name, store.path().string(), what);
}

}  // namespace

ArtifactInfo save_artifact(Store& store, const RunHandle& run, const ArtifactHeader& header,
                           const ArtifactSource& source) {
  check_artifact_name(header.name);
  const Pieces next = pieces_of(header, source);
  ArtifactInfo artifact;
  artifact.run_id = run.id;
  artifact.attempt = run.attempt;
  artifact.header = header;
  artifact.created_ms = now_ms();
  Transaction transaction(store.database(), Transaction::Kind::kWrite);
  artifact.id = put_artifact(store.database(), run, artifact);
  put_pieces(store.database(), next, artifact);
  commit_with_room(store.database(), transaction);
  return artifact;
}

std::vector<ArtifactInfo> list_artifacts(Store& store, int64_t run_id) {
  Statement rows(store.database(),
                 "SELECT id, attempt, step, name, kind, meta, bytes, new_bytes, digest, superseded, created_ms "
                 "FROM artifact WHERE run_id = ?1 ORDER BY id");
  std::vector<ArtifactInfo> artifacts;
  for (rows.bind(run_id); rows.step();) {
    ArtifactInfo& artifact = artifacts.emplace_back();
    artifact.id = rows.int64(0);
    artifact.run_id = run_id;
    artifact.attempt = rows.int64(1);
    artifact.header = {rows.text(3), rows.text(4), rows.text(5), rows.int64(2)};
    artifact.bytes = rows.int64(6);
    artifact.new_bytes = rows.int64(7);
    const Bytes digest = rows.bytes(8);
    if (digest.size() != artifact.digest.size()) fail_damaged_artifact(store, artifact, "its digest is truncated");
    std::memcpy(artifact.digest.data(), digest.data(), digest.size());
    artifact.superseded = rows.int64(9) != 0;
    artifact.created_ms = rows.int64(10);
  }
  return artifacts;
}

ArtifactInfo find_artifact(Store& store, int64_t run_id, std::string_view name) {
  const std::vector<ArtifactInfo> artifacts = list_artifacts(store, run_id);
  const auto found = std::find_if(artifacts.rbegin(), artifacts.rend(),
                                  [&](const ArtifactInfo& a) { return a.header.name == name && !a.superseded; });
  if (found != artifacts.rend()) return *found;
  std::vector<std::string> names;
  for (const ArtifactInfo& artifact : artifacts) {
    if (std::find(names.begin(), names.end(), artifact.header.name) == names.end())
      names.push_back(artifact.header.name);
  }
  Statement uid(store.database(), "SELECT uid FROM run WHERE id = ?1");
  uid.bind(run_id).step();
  fail(ErrorKind::kNotFound, "run {} has no artifact {}; {}", uid.text(0), name,
       names.empty() ? "it has no artifacts"
                     : schema::did_you_mean(name, names, fmt::format("it has {}", fmt::join(names, ", "))));
}

std::vector<std::byte> read_artifact(Store& store, const ArtifactInfo& artifact) {
  Statement rows(store.database(),
                 "SELECT content.digest, content.data FROM artifact_content AS c JOIN content ON content.id = "
                 "c.content_id WHERE c.artifact_id = ?1 ORDER BY c.no");
  std::vector<std::byte> bytes;
  int64_t no = 0;
  for (rows.bind(artifact.id); rows.step(); ++no) {
    const Bytes data = rows.bytes(1);
    const Sha256Digest found = sha256(data);
    if (!equal(rows.bytes(0), bytes_of(found))) {
      fail_damaged_artifact(store, artifact, fmt::format("piece {} fails its checksum", no));
    }
    bytes.insert(bytes.end(), data.begin(), data.end());
  }
  if (sha256(bytes) != artifact.digest) {
    fail_damaged_artifact(store, artifact,
                          fmt::format("the digest of its {} bytes differs from that of the {} bytes saved",
                                      bytes.size(), artifact.bytes));
  }
  return bytes;
}

}  // namespace runner::store
