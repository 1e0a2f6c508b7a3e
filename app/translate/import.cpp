#include "app/translate/import.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/translate/answer.h"
#include "app/translate/reader.h"
#include "engine/files/file.h"
#include "engine/files/new_file.h"

namespace ft {
namespace {

using translate::Draft;
using translate::Row;

std::string word_of(const Row& row) {
  return row.verdict == "honoured"    ? "same"
         : row.verdict == "mapped"    ? "other name"
         : row.verdict == "rejected"  ? "not there"
         : row.verdict == "no_effect" ? "no effect"
                                      : "default";
}

std::string summary(const translate::Program& program, const Draft& draft) {
  std::string all = str(program.title, ": ");
  bool first = true;
  for (const char* verdict : {"honoured", "mapped", "default", "no_effect", "rejected"}) {
    const auto n = std::count_if(draft.rows.begin(), draft.rows.end(),
                                 [&](const Row& r) { return r.verdict == verdict; });
    if (n == 0) continue;
    all += str(first ? "" : ", ", n, " ", word_of(Row{"", {}, verdict, "", ""}));
    first = false;
  }
  return all;
}

std::string missing(const Draft& draft) {
  std::string all;
  for (const Row& r : draft.rows)
    if (r.verdict == "rejected") all += (all.empty() ? "" : ", ") + r.flag;
  return all;
}

void print_json(const translate::Program& program, const Draft& draft, bool made,
                const std::string& command) {
  Json keys = Json::array();
  for (const Row& r : draft.rows) {
    std::string verdict = word_of(r);
    std::replace(verdict.begin(), verdict.end(), ' ', '_');
    keys.push_back({{"key", r.flag},
                    {"line", r.line > 0 ? Json(r.line) : Json()},
                    {"value", r.value},
                    {"verdict", verdict},
                    {"to", translate::settings_of(r.to)},
                    {"why", r.why}});
  }
  std::cout << json_text({{"program", program.name},
                          {"config", made ? draft.config : Json()},
                          {"keys", keys},
                          {"warnings", draft.warnings},
                          {"command", made ? Json(command) : Json()}})
            << "\n";
}

}  // namespace

Exit import_run(const ImportArgs& args) {
  const bool to_file = !args.output.empty();
  if (to_file) check_new_file(args.output, args.overwrite);
  Draft draft;
  const translate::Program& program = args.file.empty()
                                          ? translate::read_command(args.command, args.from, draft)
                                          : translate::read_file_of(args.file, args.from, draft);
  translate::choose_device(draft, true);
  translate::tidy(draft);
  translate::drop_refused(draft);
  const bool made = !args.strict || !draft.refused();
  const std::string command = translate::next_command(draft, to_file ? args.output : translate::kFile);
  if (to_file && made) write_file(args.output, json_text(draft.config) + "\n");
  if (args.json) print_json(program, draft, made, command);
  if (!args.json) translate::print_rows(draft, word_of);
  if (!args.json) std::cerr << summary(program, draft) << "\n";
  if (!made) throw UserError(Exit::config, str("ft import --strict: ft does not have ", missing(draft)));
  if (args.json) return Exit::done;
  if (!to_file) std::cout << json_text(draft.config) << "\n";
  if (draft.refused())
    std::cerr << "The run differs from the original where a key is not there: " << missing(draft) << "\n";
  std::cerr << "next: " << command << "\n";
  return Exit::done;
}

}  // namespace ft
