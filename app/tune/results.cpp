#include "app/tune/results.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"

namespace ft {
namespace {

std::string number_or_dash(double x, std::string (*how)(double)) { return std::isfinite(x) ? how(x) : "-"; }
std::string speed(double x) {
  const std::string text = show::speed(x);
  return text.substr(0, text.find(" tok/s"));
}
std::string seconds(double x) { return show::digits(x); }

std::vector<std::string> cells(const TuneResults& t, const TuneRow& row) {
  std::vector<std::string> out;
  for (const std::string& v : row.values) out.push_back(v.empty() ? "-" : v);
  out.push_back(show::memory(row.memory, t.memory_unit()));
  out.push_back(number_or_dash(row.predicted, speed));
  out.push_back(number_or_dash(row.tokens_per_second, speed));
  out.push_back(number_or_dash(row.seconds_per_step, seconds));
  out.push_back(row.result);
  return out;
}

std::vector<std::string> names(const TuneResults& t) {
  std::vector<std::string> out = t.labels;
  out.insert(out.end(), {t.memory_unit().name, "predicted", "tok/s", "s/step", "result"});
  return out;
}

// Returns the fields right-aligned, except the last one.
std::string padded(const TuneResults& t, const std::vector<std::string>& fields) {
  std::string out;
  const std::vector<std::string> heads = names(t);
  for (std::size_t i = 0; i + 1 < fields.size(); ++i) {
    std::size_t width = std::max<std::size_t>(heads[i].size(), i < t.labels.size() ? 0 : 6);
    if (i < t.labels.size())
      for (const TuneRow& row : t.rows) width = std::max(width, row.values[i].size());
    out += std::string(width - std::min(width, fields[i].size()), ' ') + fields[i] + "  ";
  }
  return out + fields.back();
}

std::string table_row(const std::vector<std::string>& fields) {
  std::string out = "|";
  for (std::string f : fields) {
    for (std::size_t at = 0; (at = f.find('|', at)) != f.npos; at += 2) f.insert(at, "\\");
    out += " " + f + " |";
  }
  return out + "\n";
}

Json as_json(const TuneRow& row) {
  return {{"settings", parse_json(row.assigned, {"settings"})},
          {"memory", row.memory},
          {"predicted_tokens_per_second", finite_or_null(row.predicted)},
          {"tokens_per_second", finite_or_null(row.tokens_per_second)},
          {"seconds_per_step", finite_or_null(row.seconds_per_step)},
          {"result", row.result}};
}

}  // namespace

show::MemoryUnit TuneResults::memory_unit() const {
  std::int64_t most = 0;
  for (const TuneRow& row : rows) most = std::max(most, row.memory);
  return show::memory_unit(most);
}

std::string TuneResults::header() const { return padded(*this, names(*this)); }
std::string TuneResults::line(const TuneRow& row) const { return padded(*this, cells(*this, row)); }

std::string TuneResults::settings(const TuneRow& row) const {
  std::string out;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (!row.values[i].empty()) out += (out.empty() ? "" : ", ") + labels[i] + " " + row.values[i];
  return out;
}

std::string TuneResults::markdown() const {
  std::string out = table_row(names(*this)), rule = "|";
  for (std::size_t i = 1; i < names(*this).size(); ++i) rule += "--:|";
  rule += ":--|";
  out += rule + "\n";
  for (const std::size_t i : trials) out += table_row(cells(*this, rows[i]));
  return out;
}

std::string TuneResults::json(const std::string& metric, const std::string& tuned) const {
  Json tried = Json::array();
  for (const std::size_t i : trials) tried.push_back(as_json(rows[i]));
  return json_text({{"metric", metric},
                    {"best", as_json(rows[best])},
                    {"start", start < 0 ? Json(nullptr) : as_json(rows[static_cast<std::size_t>(start)])},
                    {"trials", tried},
                    {"fit", rows.size()},
                    {"too_large", too_large},
                    {"config", tuned}},
                   -1) +
         "\n";
}

}  // namespace ft
