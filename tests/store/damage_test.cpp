// Zeroed bytes in a store: every query returns the original data or reports damage.
#include <map>

#include <gtest/gtest.h>

#include "store/run_selection.h"
#include "store/run_writer.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

class Damage : public StoreTest {
 protected:
  // Three runs with points, checkpoints and long summaries.
  Damage() {
    for (int i = 0; i < 3; ++i) {
      RunInfo info = sample_run("run" + std::to_string(i));
      info.attempt.provenance = Provenance{};
      RunWriter writer(open_to_write(), info);
      for (const char* metric : {"train/loss", "eval/loss"})
        for (int64_t step = 1; step <= 50; ++step)
          writer.push(writer.series(metric), step, 1.0 / static_cast<double>(step + i));
      StateSnapshot snapshot;
      snapshot.header = {50, 2, "end", false, {{"eval/loss", 0.5}}};
      snapshot.add("weights", "{}", bytes_of(std::string(20'000, static_cast<char>('a' + i))));
      writer.save_state(std::move(snapshot), {}).get();
      writer.flush();
      writer.finish({RunStatus::kDone, 0, "", R"({"text": ")" + std::string(9'000, 'x') + "\"}"});
    }
  }

  // Queries by name. Each returns its result as text, which is empty if nothing was found.
  static std::map<std::string, std::function<std::string(const fs::path&)>> questions() {
    using S = Store&;
    const auto with = [](auto ask) {
      return [ask](const fs::path& file) {
        Store store = Store::open(file, Access::kRead);
        return ask(store);
      };
    };
    return {{"ls", with([](S store) { return names(list_runs(store)); })},
            {"ls where", with([](S store) { return names(select_runs(store, {.where = "name = run1"}).runs); })},
            {"last", with([](S store) { return find_run(store, "@last").uid; })},
            {"by name", with([](S store) { return find_run(store, "run1").uid; })},
            {"show", with([](S store) {
               const RunDetails details = show_run(store, find_run(store, "@last"));
               return fmt::format("{} {} {} {}", details.run.summary_json, details.recipe.text, details.params.size(),
                                  details.metrics.size());
             })},
            {"states",
             with([](S store) { return std::to_string(list_states(store, find_run(store, "@last").id).size()); })},
            {"metrics",
             with([](S store) { return std::to_string(list_metrics(store, find_run(store, "@last").id).size()); })},
            {"points", with([](S store) {
               return std::to_string(metric_points(store, find_run(store, "@last"), "train/loss").size());
             })},
            {"state", with([](S store) {
               const auto states = list_states(store, find_run(store, "@last").id);
               return std::to_string(load_state(store, states.at(0).id).sections.at(0).bytes.size());
             })},
            {"sql", [](const fs::path& file) { return rows(sql_query(file, "SELECT run, name FROM runs")); }},
            {"sql count", [](const fs::path& file) { return rows(sql_query(file, "SELECT count(*) FROM states")); }}};
  }

  static std::string names(const std::vector<RunRow>& runs) {
    std::string text;
    for (const RunRow& run : runs) text += run.uid + ' ' + run.name + ' ';
    return text;
  }

  static std::string rows(const SqlResult& result) {
    std::string text;
    for (const auto& row : result.rows)
      text += std::holds_alternative<int64_t>(row[0]) ? std::to_string(std::get<int64_t>(row[0]))
                                                      : std::get<std::string>(row.back());
    return text;
  }
};

TEST_F(Damage, ReportedByEveryQuery) {
  constexpr size_t kLost = 8192, kStep = 1024;
  const std::string whole = read_text(path);
  const fs::path file = folder / "damaged.db";
  std::map<std::string, std::string> good;
  for (const auto& [name, ask] : questions()) good[name] = ask(path);
  int64_t read = 0, reported = 0;
  for (size_t at = 0; at < whole.size(); at += kStep) {
    std::string bytes = whole;
    bytes.replace(at, std::min(kLost, bytes.size() - at), std::min(kLost, bytes.size() - at), '\0');
    write_file(file, bytes);
    for (const auto& [name, ask] : questions()) {
      std::string found;
      const std::string error = error_of([&, &question = ask] { found = question(file); });
      if (error == "no error") {
        EXPECT_EQ(found, good[name]) << name << ", bytes lost at " << at;
        ++read;
      } else {
        EXPECT_TRUE(error.starts_with("store: ") && error.find("damaged") != std::string::npos &&
                    error.find(file.string()) != std::string::npos)
            << name << ", bytes lost at " << at << ": " << error;
        ++reported;
      }
    }
  }
  EXPECT_GT(read, reported);
  EXPECT_GT(reported, 50);
}

// A page whose cell count was reduced by one is still a valid page, so the missing row is not obvious to a reader.
TEST_F(Damage, SqlReportsMissingRows) {
  constexpr size_t kPage = 4096, kCellsAt = 3;  // number of cells at offset 3, sqlite.org/fileformat2.html, section 1.6
  const std::string whole = read_text(path);
  const fs::path file = folder / "damaged.db";
  const char* const queries[] = {"SELECT run, name FROM runs",      "SELECT run, key FROM params",
                                 "SELECT run, metric FROM metrics", "SELECT state, run FROM states",
                                 "SELECT run, kind FROM events",    "SELECT step, run FROM points LIMIT 20"};
  std::map<std::string, std::string> good;
  for (const char* query : queries) good[query] = rows(sql_query(path, query));
  int64_t fewer = 0;
  for (size_t at = kPage; at < whole.size(); at += kPage) {
    const auto kind = static_cast<unsigned char>(whole[at]);
    const auto cells = static_cast<unsigned char>(whole[at + kCellsAt + 1]);
    if ((kind != 0x0D && kind != 0x0A) || cells < 2) continue;  // not a leaf of a table or index
    std::string bytes = whole;
    bytes[at + kCellsAt + 1] = static_cast<char>(cells - 1);
    write_file(file, bytes);
    for (const char* query : queries) {
      std::string found;
      const std::string error = error_of([&] { found = rows(sql_query(file, query)); });
      if (error == "no error") {
        EXPECT_EQ(found, good[query]) << query << ", page " << at / kPage;
      } else {
        EXPECT_NE(error.find("damaged"), std::string::npos) << error;
        ++fewer;
      }
    }
  }
  EXPECT_GT(fewer, 5);
}

TEST_F(Damage, ZeroedHeaderIsNotAForeignFile) {
  std::string bytes = read_text(path);
  bytes.replace(0, 8192, 8192, '\0');
  write_file(path, bytes);
  EXPECT_EQ(
      error_of([&] { open_to_read(); }),
      fmt::format(
          "store: the store {} is damaged: its header is lost; restore a backup, or choose another store with --db",
          path.string()));
}

}  // namespace
}  // namespace runner::store
