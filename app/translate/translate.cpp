#include "app/translate/translate.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "app/translate/answer.h"
#include "app/translate/reader.h"

namespace ft {
namespace {

using translate::Draft;
using translate::Row;

std::string verdict_of(const Row& row) { return row.verdict == "no_effect" ? "no effect" : row.verdict; }

Exit answer(const Draft& draft, bool json) {
  const bool refused = draft.refused();
  if (!json) {
    translate::print_rows(draft, verdict_of);
    if (!refused) std::cout << json_text(draft.config) << "\n";
    if (!refused) std::cerr << "next: " << translate::next_command(draft, translate::kFile) << "\n";
  } else {
    Json rows = Json::array();
    for (const Row& r : draft.rows)
      rows.push_back({{"flag", r.flag},
                      {"value", r.value},
                      {"verdict", r.verdict},
                      {"to", translate::settings_of(r.to)},
                      {"why", r.why}});
    std::cout << json_text(
                     {{"config", refused ? Json() : draft.config},
                      {"flags", rows},
                      {"warnings", draft.warnings},
                      {"command", refused ? Json() : Json(translate::next_command(draft, translate::kFile))}})
              << "\n";
  }
  for (const Row& r : draft.rows)
    if (r.verdict == "rejected")
      throw UserError(Exit::config, str("ft translate-args: ", r.flag, " is refused: ", r.why));
  return Exit::done;
}

}  // namespace

Exit translate_args(const TranslateArgs& args) {
  Draft draft;
  try {
    translate::read_command(args.command, "", draft);
    std::erase_if(draft.rows, [](const Row& r) { return r.verdict == "default"; });
    translate::choose_device(draft, false);
    translate::tidy(draft);
    if (!draft.refused()) translate::check_settings(draft);
  } catch (const UserError& e) {
    throw UserError(e.code, str("ft translate-args: ", e.what()));
  }
  return answer(draft, args.json);
}

}  // namespace ft
