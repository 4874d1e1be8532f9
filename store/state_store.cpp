#include "store/state_store.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "schema/base/clock.h"
#include "schema/base/sha256.h"
#include "schema/base/text.h"
#include "store/content.h"
#include "store/log_room.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

struct Piece {
  size_t section = 0;
  int64_t no = 0;
  Bytes bytes;
  Sha256Digest digest{};
};

// Splits sections into chunks. Computes their digests before the transaction, so that other writers do not wait for it.
std::vector<Piece> cut(std::span<const SectionView> sections, size_t chunk_bytes) {
  std::vector<Piece> pieces;
  for (size_t s = 0; s < sections.size(); ++s) {
    const Bytes bytes = sections[s].bytes;
    for (size_t at = 0, no = 0; at < bytes.size(); at += chunk_bytes, ++no) {
      const Bytes part = bytes.subspan(at, std::min(chunk_bytes, bytes.size() - at));
      pieces.push_back({s, static_cast<int64_t>(no), part, sha256(part)});
    }
  }
  return pieces;
}

// Digest of a checkpoint: its step, its chunks and its sections, each in order.
class Manifest {
 public:
  explicit Manifest(int64_t step) { add(step); }

  void add_chunk(size_t section, Bytes digest) {
    add(static_cast<int64_t>(section));
    sha_.update(digest);
  }
  void add_section(std::string_view name, std::string_view meta, size_t bytes) {
    for (const std::string_view text : {name, meta}) {
      add(std::ssize(text));
      sha_.update(text);
    }
    add(static_cast<int64_t>(bytes));
  }
  Sha256Digest finish() { return sha_.finish(); }

 private:
  void add(int64_t number) { sha_.update(fmt::format("{} ", number)); }

  Sha256 sha_;
};

Sha256Digest manifest_of(int64_t step, std::span<const SectionView> sections, std::span<const Piece> pieces) {
  Manifest manifest(step);
  for (const Piece& piece : pieces) manifest.add_chunk(piece.section, bytes_of(piece.digest));
  for (const SectionView& section : sections) manifest.add_section(section.name, section.meta, section.bytes.size());
  return manifest.finish();
}

void put_sections(Database& database, int64_t state_id, std::span<const SectionView> sections) {
  Statement insert(database, "INSERT INTO section(state_id, no, name, meta, bytes) VALUES(?1, ?2, ?3, ?4, ?5)");
  for (size_t no = 0; no < sections.size(); ++no) {
    const SectionView& section = sections[no];
    insert
        .bind(state_id, static_cast<int64_t>(no), section.name, section.meta,
              static_cast<int64_t>(section.bytes.size()))
        .run();
  }
}

int64_t put_pieces(Database& database, int64_t state_id, std::span<const Piece> pieces) {
  ContentTable content(database);
  Statement insert(database,
                   "INSERT INTO section_content(state_id, section_no, no, content_id) VALUES(?1, ?2, ?3, ?4)");
  for (const Piece& piece : pieces) {
    insert.bind(state_id, static_cast<int64_t>(piece.section), piece.no, content.put(piece.digest, piece.bytes)).run();
  }
  return content.new_bytes();
}

void put_metrics(Database& database, int64_t state_id, const StateHeader& header) {
  Statement insert(database, "INSERT INTO state_metric(state_id, name, value) VALUES(?1, ?2, ?3)");
  for (const auto& [name, value] : header.metrics) insert.bind(state_id, name, value).run();
}

void put_names(Database& database, int64_t run_id, int64_t state_id, const StateHeader& header) {
  Statement insert(database, "INSERT OR REPLACE INTO state_name(run_id, name, state_id) VALUES(?1, ?2, ?3)");
  for (const std::string& name : header.names) insert.bind(run_id, name, state_id).run();
}

int64_t total_bytes(std::span<const SectionView> sections) {
  int64_t total = 0;
  for (const SectionView& section : sections) total += static_cast<int64_t>(section.bytes.size());
  return total;
}

constexpr std::string_view kStateColumns =
    "SELECT state.id, state.run_id, run.uid, state.attempt, state.step, state.epoch, state.reason, state.pinned, "
    "state.superseded, state.bytes, state.new_bytes, state.created_ms FROM state JOIN run ON run.id = state.run_id ";

StateInfo read_state_row(const Statement& row) {
  StateInfo state;
  state.id = row.int64(0);
  state.run_id = row.int64(1);
  state.run = row.text(2);
  state.attempt = row.int64(3);
  state.step = row.int64(4);
  state.epoch = row.int64(5);
  state.reason = row.text(6);
  state.pinned = row.int64(7) != 0;
  state.superseded = row.int64(8) != 0;
  state.bytes = row.int64(9);
  state.new_bytes = row.int64(10);
  state.created_ms = row.int64(11);
  return state;
}

void read_metrics(Database& database, StateInfo& state) {
  Statement rows(database, "SELECT name, value FROM state_metric WHERE state_id = ?1 ORDER BY name");
  for (rows.bind(state.id); rows.step();) state.metrics.emplace_back(rows.text(0), rows.real(1));
}

void read_names(Database& database, StateInfo& state) {
  Statement rows(database, "SELECT name FROM state_name WHERE state_id = ?1 ORDER BY name");
  for (rows.bind(state.id); rows.step();) state.names.push_back(rows.text(0));
}

[[noreturn]] void fail_damaged_state(const Database& database, int64_t state_id, std::string_view what) {
  fail(ErrorKind::kStore, "state {} in {} is damaged: {}; use an earlier state (`runner states`)", state_id,
       database.path().string(), what);
}

// The sections of a checkpoint without their contents, and their sizes.
struct SectionList {
  std::vector<Section> sections;
  std::vector<size_t> bytes;
};

// Verifies each size, so that memory for it can be allocated.
SectionList read_sections(Database& database, int64_t state_id) {
  Statement rows(database,
                 "SELECT no, name, meta, bytes, (SELECT coalesce(sum(length(data)), 0) FROM section_content AS c "
                 "JOIN content ON content.id = c.content_id WHERE c.state_id = s.state_id AND c.section_no = s.no) "
                 "FROM section AS s WHERE state_id = ?1 ORDER BY no");
  SectionList list;
  for (rows.bind(state_id); rows.step();) {
    if (rows.int64(0) != std::ssize(list.sections)) {
      fail_damaged_state(database, state_id, fmt::format("section number {} is missing", list.sections.size()));
    }
    Section& section = list.sections.emplace_back();
    section.name = rows.text(1);
    section.meta = rows.text(2);
    const int64_t wanted = rows.int64(3), found = rows.int64(4);
    list.bytes.push_back(static_cast<size_t>(wanted));
    if (found != wanted) {
      fail_damaged_state(database, state_id,
                         fmt::format("section {} has {} bytes, expected {}", section.name, found, wanted));
    }
  }
  return list;
}

void check_manifest(Database& database, int64_t state_id, const Sha256Digest& found) {
  Statement row(database, "SELECT manifest FROM state WHERE id = ?1");
  row.bind(state_id).step();
  if (row.is_null(0) || equal(row.bytes(0), bytes_of(found))) return;
  fail_damaged_state(database, state_id, "its manifest (step and sections) fails its checksum");
}

}  // namespace

void StateSnapshot::clear() {
  header = {};
  entries_.clear();
  bytes_.clear();
}

void StateSnapshot::add(std::string_view name, std::string_view meta, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, add(name, meta, bytes.size()).begin());
}

std::span<std::byte> StateSnapshot::add(std::string_view name, std::string_view meta, size_t bytes) {
  entries_.push_back({std::string(name), std::string(meta), bytes_.size(), bytes});
  bytes_.resize(bytes_.size() + bytes);
  return std::span(bytes_).last(bytes);
}

void StateSnapshot::lend(std::string_view name, std::string_view meta, std::span<const std::byte> bytes) {
  entries_.push_back({std::string(name), std::string(meta), 0, bytes.size(), bytes.data()});
}

std::vector<SectionView> StateSnapshot::sections() const {
  std::vector<SectionView> views;
  views.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    const Bytes bytes =
        entry.lent != nullptr ? Bytes(entry.lent, entry.size) : Bytes(bytes_).subspan(entry.offset, entry.size);
    views.push_back({entry.name, entry.meta, bytes});
  }
  return views;
}

bool is_state_name(std::string_view name) {
  const bool is_id = !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  return !is_id && !selects_best(name);
}

bool selects_best(std::string_view selector) {
  return selector == kBestState || selector.starts_with(fmt::format("{}(", kBestState));
}

std::optional<std::string> best_metric(std::string_view selector) {
  const size_t begin = kBestState.size() + 1;
  if (!selects_best(selector) || selector.size() < begin + 2 || !selector.ends_with(')')) return std::nullopt;
  return std::string(selector.substr(begin, selector.size() - begin - 1));
}

bool is_selected(const StateInfo& state, std::string_view selector) {
  return selector.empty() || selector == std::to_string(state.id) || std::ranges::count(state.names, selector) > 0;
}

std::string named_states_text(std::span<const StateInfo> states) {
  std::vector<std::string> names;
  for (const StateInfo& state : states)
    for (const std::string& name : state.names) names.push_back(in_quotes(name));
  std::ranges::sort(names);
  return names.empty() ? "" : fmt::format("; its states are named {}", fmt::join(names, ", "));
}

const Section* LoadedState::find(std::string_view name) const {
  const auto found = std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

const Section& LoadedState::at(std::string_view name) const {
  if (const Section* section = find(name)) return *section;
  fail(ErrorKind::kStore, "state {} has no section {}; it was written by another version of runner", info.id, name);
}

StateInfo save_state(Store& store, const RunHandle& run, const StateHeader& header,
                     std::span<const SectionView> sections, size_t chunk_bytes) {
  RUN_ASSERT(chunk_bytes > 0);
  Database& database = store.database();
  const std::vector<Piece> pieces = cut(sections, chunk_bytes);
  const Sha256Digest manifest = manifest_of(header.step, sections, pieces);
  Transaction transaction(database, Transaction::Kind::kWrite, /*durable=*/true);
  Statement(database,
            "INSERT INTO state(run_id, attempt, step, epoch, reason, pinned, bytes, new_bytes, created_ms, manifest) "
            "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9)")
      .bind(run.id, run.attempt, header.step, header.epoch, header.reason, header.pinned, total_bytes(sections),
            now_ms(), bytes_of(manifest))
      .run();
  const int64_t id = database.last_insert_id();
  put_sections(database, id, sections);
  put_metrics(database, id, header);
  put_names(database, run.id, id, header);
  const int64_t new_bytes = put_pieces(database, id, pieces);
  Statement(database, "UPDATE state SET new_bytes = ?2 WHERE id = ?1").bind(id, new_bytes).run();
  StateInfo info = find_state(store, id);
  commit_with_room(database, transaction);
  return info;
}

LoadedState load_state(Store& store, int64_t state_id, const WantedSections& is_wanted) {
  Database& database = store.database();
  const Transaction snapshot(database, Transaction::Kind::kRead);
  const auto is_left_out = [&](const Section& section) { return is_wanted && !is_wanted(section.name); };
  LoadedState state{find_state(store, state_id), {}};
  auto [sections, bytes] = read_sections(database, state_id);
  Manifest manifest(state.info.step);
  // A column of a row is read from the disk whether it is used or not, so the data have a statement of their own.
  Statement rows(database,
                 "SELECT c.section_no, c.no, content.digest, content.id FROM section_content AS c "
                 "JOIN content ON content.id = c.content_id WHERE c.state_id = ?1 ORDER BY c.section_no, c.no");
  Statement contents(database, "SELECT data FROM content WHERE id = ?1");
  for (rows.bind(state_id); rows.step();) {
    const auto no = static_cast<size_t>(rows.int64(0));
    if (no >= sections.size()) fail_damaged_state(database, state_id, fmt::format("section number {} is missing", no));
    manifest.add_chunk(no, rows.bytes(2));
    Section& section = sections[no];
    if (is_left_out(section)) continue;
    section.bytes.reserve(bytes[no]);
    RUN_ASSERT(contents.bind(rows.int64(3)).step());
    const Bytes data = contents.bytes(0);
    if (!equal(rows.bytes(2), bytes_of(sha256(data)))) {
      fail_damaged_state(database, state_id,
                         fmt::format("section {} fails its checksum in chunk {}", section.name, rows.int64(1)));
    }
    section.bytes.insert(section.bytes.end(), data.begin(), data.end());
  }
  for (size_t no = 0; no < sections.size(); ++no) manifest.add_section(sections[no].name, sections[no].meta, bytes[no]);
  check_manifest(database, state_id, manifest.finish());
  std::erase_if(sections, is_left_out);
  state.sections = std::move(sections);
  return state;
}

LoadedState load_section(Store& store, int64_t state_id, std::string_view name) {
  LoadedState state = load_state(store, state_id, [&](std::string_view section) { return section == name; });
  RUN_CHECK(!state.sections.empty(), ErrorKind::kStore, "state {} has no section {}", state_id, name);
  return state;
}

std::vector<StateInfo> list_states(Store& store, int64_t run_id, bool for_resume) {
  Statement rows(store.database(),
                 std::string(kStateColumns) +
                     "WHERE state.run_id = ?1 AND (NOT ?2 OR NOT state.superseded) ORDER BY state.id DESC");
  std::vector<StateInfo> states;
  for (rows.bind(run_id, for_resume); rows.step();) states.push_back(read_state_row(rows));
  if (states.empty()) store.database().check_tables({"state"});
  for (StateInfo& state : states) {
    read_metrics(store.database(), state);
    read_names(store.database(), state);
  }
  return states;
}

double metric_of(const StateInfo& state, std::string_view metric) {
  const auto found = std::ranges::find(state.metrics, metric, &std::pair<std::string, double>::first);
  return found == state.metrics.end() ? std::nan("") : found->second;
}

std::vector<StateInfo> ranked(std::vector<StateInfo> states, std::string_view metric, bool maximize) {
  std::erase_if(states, [&](const StateInfo& state) { return std::isnan(metric_of(state, metric)); });
  std::ranges::reverse(states);
  std::ranges::stable_sort(states, [&](const StateInfo& a, const StateInfo& b) {
    return maximize ? metric_of(a, metric) > metric_of(b, metric) : metric_of(a, metric) < metric_of(b, metric);
  });
  return states;
}

StateInfo find_state(Store& store, int64_t state_id) {
  Statement row(store.database(), std::string(kStateColumns) + "WHERE state.id = ?1");
  if (!row.bind(state_id).step()) {
    fail(ErrorKind::kNotFound, "no state {} in {}; `runner states RUN` lists the states of a run", state_id,
         store.path().string());
  }
  StateInfo state = read_state_row(row);
  read_metrics(store.database(), state);
  read_names(store.database(), state);
  return state;
}

}  // namespace runner::store
