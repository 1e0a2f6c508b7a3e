#include "data/chat_tools.h"

#include <nlohmann/json.hpp>

#include "data/json_row.h"
#include "engine/core/error.h"

namespace ft {

ChatTools::ChatTools(const FormatContext& context) : name_(column(context.dataset, "tools")) {
  if (context.data.tools.text.empty()) return;
  usual_ = Json::parse(context.data.tools.text);
  if (!usual_.is_null() && !usual_.is_array())
    throw UserError(Exit::config, "data.tools: must be a list of functions' schemas");
}

Json ChatTools::of(const Json& row, const Place& at) const {
  const auto found = row.find(name_);
  if (found == row.end()) return usual_;
  const Json list = found->is_string() ? parse_json(found->get<std::string>(), {*at.name, at.line}) : *found;
  if (!list.is_null() && !list.is_array())
    at.fail(str(printable(name_), ": must be a list of tools, is ", json_excerpt(list)));
  return list;
}

}  // namespace ft
