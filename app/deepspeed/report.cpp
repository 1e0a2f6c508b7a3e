#include "app/deepspeed/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ft::deepspeed {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

// Sets the value at the dotted path in the tree.
void put(Json& tree, const std::string& path, const Json& value) {
  Json* at = &tree;
  for (std::size_t begin = 0, end = 0; end != path.npos; begin = end + 1) {
    end = path.find('.', begin);
    at = &(*at)[path.substr(begin, end == path.npos ? end : end - begin)];
  }
  *at = value;
}

std::string all_mistakes(const Report& report) {
  constexpr std::size_t kMost = 20;
  std::string all;
  for (std::size_t i = 0; i < std::min(kMost, report.mistakes.size()); ++i)
    all += (i ? "\n" : "") + report.mistakes[i];
  if (report.mistakes.size() > kMost) all += str("\nand ", report.mistakes.size() - kMost, " more");
  return all;
}

}  // namespace

const Row* Report::find(const std::string& known) const {
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.known == known; });
  return at == rows.end() ? nullptr : &*at;
}
Row* Report::find(const std::string& known) {
  return const_cast<Row*>(static_cast<const Report*>(this)->find(known));
}

bool Report::refused() const { return !mistakes.empty(); }

void Report::reject(Row& row, const std::string& why) {
  row.verdict = Verdict::rejected;
  row.why = why;
  row.to.clear();
  row.surprise = true;
  mistakes.push_back(str(row.place, ": ", printable(row.key), ": ", why));
}

Refused::Refused(Report r) : UserError(Exit::config, all_mistakes(r)), report(std::move(r)) {}

bool needs_steps(const Report& report) {
  const Row* warmup = report.find("scheduler.params.warmup_num_steps");
  return report.find("scheduler.params.total_num_steps") ||
         (warmup && (warmup->automatic || !report.warmup.empty()));
}

void settle_steps(Report& report, std::int64_t steps, std::int64_t warmup) {
  const auto agree = [&](const char* key, std::int64_t run, const std::string& what) {
    Row* row = report.find(key);
    if (!row || row->verdict == Verdict::rejected) return;
    if (row->automatic) row->value = run;
    if (row->value != run)
      report.reject(*row, str("is ", json_excerpt(row->value), ", and ", what, run,
                              " steps; make them agree, or write \"auto\""));
  };
  const Row* own = report.find("scheduler.params.warmup_num_steps");
  if (own && (own->automatic || !report.warmup.empty()))  // DeepSpeed before 0.19 counts 0 as 2
    agree("scheduler.params.warmup_num_steps", warmup == 0 ? 2 : warmup, report.warmup + " makes ");
  agree("scheduler.params.total_num_steps", steps, "the run has ");
  if (report.refused()) throw Refused(report);
}

Json as_json(const Report& report) {
  Json rows = Json::array();
  for (const Row& r : report.rows) {
    const Json to = r.to.empty() ? Json() : r.to.size() == 1 ? Json(r.to[0]) : Json(r.to);
    rows.push_back(
        {{"key", r.key}, {"value", r.value}, {"verdict", name_of(r.verdict)}, {"to", to}, {"why", r.why}});
  }
  Json batch;
  if (const auto& b = report.batch)
    batch = {{"train_batch_size", b->train},
             {"train_micro_batch_size_per_gpu", b->micro},
             {"gradient_accumulation_steps", b->accumulation},
             {"world_size", b->ranks}};
  return {{"deepspeed", rows}, {"batch", batch}};
}

std::string as_file(const Report& report) {
  Json values = Json::object();
  for (const Row& r : report.rows) put(values, r.key, r.value);
  const Json verdicts = as_json(report);
  return json_text({{"file", report.file},
                    {"values", values},
                    {"verdicts", verdicts["deepspeed"]},
                    {"batch", verdicts["batch"]}}) +
         "\n";
}

std::vector<std::string> as_lines(const Report& report, bool all) {
  constexpr std::size_t kWidest = 56;
  std::vector<std::string> lines;
  std::size_t width = 0;
  const auto head = [](const Row& r) { return printable(r.key) + " " + json_excerpt(r.value); };
  for (const Row& r : report.rows)
    if (all || r.surprise) width = std::max(width, std::min(kWidest, head(r).size()));
  for (const Row& r : report.rows) {
    if (!all && !r.surprise) continue;
    std::string line = head(r);
    line.resize(std::max(width, line.size()), ' ');
    const std::string verdict = r.verdict == Verdict::no_effect ? "no effect" : name_of(r.verdict);
    line += "  " + verdict + std::string(11 - verdict.size(), ' ');
    const std::string to = r.verdict == Verdict::mapped ? joined(r.to) : "";
    line += to + (to.empty() || r.why.empty() ? "" : ": ") + r.why;
    line.resize(line.find_last_not_of(' ') + 1);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace ft::deepspeed
