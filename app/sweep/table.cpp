#include "app/sweep/table.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/screen/format.h"
#include "app/sweep/grid.h"
#include "engine/files/json.h"

namespace ft {
namespace {

const std::vector<std::string> kFigures = {"peak GiB", "tok/s", "loss", "held out", "result"};

// Returns 8192 as 8,192; other values unchanged.
std::string shown_value(const std::string& value) {
  const bool whole =
      !value.empty() && value.size() < 16 && value.find_first_not_of("0123456789") == value.npos;
  return whole ? show::count(std::stoll(value)) : value;
}

std::string or_dash(double x, std::string (*how)(double)) { return std::isfinite(x) ? how(x) : "-"; }

// Returns a row's fields as text, the result last.
std::vector<std::string> cells(const SweepRow& row) {
  constexpr double kGiB = 1 << 30;
  std::vector<std::string> out;
  for (const std::string& v : row.values) out.push_back(shown_value(v));
  out.push_back(row.memory > 0 ? show::digits(static_cast<double>(row.memory) / kGiB) : "-");
  std::string speed = or_dash(row.tokens_per_second, show::speed);
  out.push_back(speed.substr(0, speed.find(" tok/s")));
  out.push_back(or_dash(row.train_loss, show::loss));
  out.push_back(or_dash(row.eval_loss, show::loss));
  out.push_back(row.result);
  return out;
}

std::vector<std::string> names(const std::vector<std::string>& columns) {
  std::vector<std::string> out;
  for (const std::string& path : columns) out.push_back(short_name(path));
  out.insert(out.end(), kFigures.begin(), kFigures.end());
  return out;
}

// Returns the fields right-aligned, the last one left-aligned.
std::string padded(const std::vector<std::string>& fields, const SweepTable& t,
                   const std::vector<SweepRow>& all) {
  std::vector<std::size_t> widths;
  for (const std::string& name : names(t.columns)) widths.push_back(std::max<std::size_t>(name.size(), 8));
  for (const SweepRow& row : all)
    for (std::size_t i = 0; i < row.values.size(); ++i)
      widths[i] = std::max(widths[i], shown_value(row.values[i]).size());
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t room = widths[i] - std::min(widths[i], fields[i].size());
    out += i + 1 < fields.size() ? std::string(room, ' ') + fields[i] + "  " : " " + fields[i];
  }
  return out;
}

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\n\r") == field.npos) return field;
  std::string out = "\"";
  for (const char c : field) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

double number_of(const JsonObject& o, const char* key) { return o.has(key) ? o.number(key) : NAN; }

}  // namespace

std::string SweepTable::header(const std::vector<SweepRow>& all) const {
  return padded(names(columns), *this, all);
}
std::string SweepTable::line(const SweepRow& row, const std::vector<SweepRow>& all) const {
  return padded(cells(row), *this, all);
}

std::string SweepTable::csv() const {
  std::string out;
  for (const std::string& path : columns) out += quoted(path) + ",";
  out += "peak_memory_bytes,tokens_per_second,train_loss,eval_loss,exit_code,result,run\n";
  const auto field = [](double x) { return std::isfinite(x) ? json_text(Json(x), -1) : std::string(); };
  for (const SweepRow& row : rows) {
    for (const std::string& v : row.values) out += quoted(v) + ",";
    out += str(row.memory > 0 ? std::to_string(row.memory) : "", ",", field(row.tokens_per_second), ",",
               field(row.train_loss), ",", field(row.eval_loss), ",", row.exit_code, ",", quoted(row.result),
               ",", quoted(row.name), "\n");
  }
  return out;
}

std::string SweepTable::markdown() const {
  const auto row = [](const std::vector<std::string>& fields) {
    std::string out = "|";
    for (std::string f : fields) {
      for (std::size_t at = 0; (at = f.find('|', at)) != f.npos; at += 2) f.insert(at, "\\");
      out += " " + f + " |";
    }
    return out + "\n";
  };
  std::string out = row(names(columns)), rule = "|";
  for (std::size_t i = 0; i < columns.size() + kFigures.size(); ++i)
    rule += i + 1 < columns.size() + kFigures.size() ? "--:|" : ":--|";
  out += rule + "\n";
  for (const SweepRow& r : rows) out += row(cells(r));
  return out;
}

std::string SweepTable::json() const {
  Json all = Json::array();
  for (const SweepRow& r : rows)
    all.push_back({{"run", r.name},
                   {"values", r.values},
                   {"peak_memory_bytes", r.memory},
                   {"tokens_per_second", finite_or_null(r.tokens_per_second)},
                   {"train_loss", finite_or_null(r.train_loss)},
                   {"eval_loss", finite_or_null(r.eval_loss)},
                   {"exit_code", r.exit_code},
                   {"result", r.result}});
  return json_text({{"columns", columns}, {"runs", all}}) + "\n";
}

SweepTable read_sweep_table(const std::string& file) {
  SweepTable t;
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return t;
  const JsonObject top = JsonObject::read(file);
  t.columns = top.texts("columns");
  if (!top.is_array("runs")) top.refuse("runs", "a list");
  for (const Json& run : top.json()["runs"]) {
    const JsonObject o = JsonObject::parse(json_text(run, -1), {file});
    t.rows.push_back({.name = o.text("run"),
                      .values = o.texts("values"),
                      .memory = o.integer("peak_memory_bytes", 0),
                      .tokens_per_second = number_of(o, "tokens_per_second"),
                      .train_loss = number_of(o, "train_loss"),
                      .eval_loss = number_of(o, "eval_loss"),
                      .exit_code = static_cast<int>(o.integer("exit_code", 0, 255)),
                      .result = o.text("result")});
    if (t.rows.back().values.size() != t.columns.size())
      o.refuse("values", "a list with a value for each column");
  }
  return t;
}

}  // namespace ft
